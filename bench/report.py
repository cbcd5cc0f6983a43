"""Figures with their targets, for people and for scripts."""

import operator
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

WIDTH_IN_A_FILE = 130


@dataclass(frozen=True, slots=True)
class Target:
    """The limit of a figure."""

    word: str  # ">=" or "<="
    limit: float

    def is_met(self, value: float) -> bool:
        """Check whether a value reaches the target."""
        return bool((operator.ge if self.word == ">=" else operator.le)(value, self.limit))


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value. Without a value, the note has the cause."""

    key: str
    what: str
    value: float | None
    unit: str = ""
    target: Target | None = None
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        """Whether the target is reached. None without a target or a value."""
        return None if self.target is None or self.value is None else self.target.is_met(self.value)


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a measurement."""

    cores: int
    load_before: float
    python: str
    postgres: str
    seconds: float


def conditions(load_before: float, postgres: str, seconds: float) -> Conditions:
    """Describe the machine."""
    return Conditions(
        os.cpu_count() or 1, round(load_before, 2), platform.python_version(), postgres, round(seconds, 1)
    )


def as_json(figures: Sequence[Figure], under: Conditions) -> str:
    """Write figures for scripts."""
    rows: list[dict[str, Any]] = [asdict(figure) | {"met": figure.is_met} for figure in figures]
    return msgspec.json.format(msgspec.json.encode({"conditions": asdict(under), "figures": rows})).decode()


def show(title: str, figures: Sequence[Figure], under: Conditions) -> None:
    """Print figures for people."""
    table = Table(
        title=title,
        caption=f"{under.cores} cores, load {under.load_before} before, PostgreSQL {under.postgres}, "
        f"Python {under.python}, {under.seconds:.0f} s in all",
    )
    table.add_column("what")
    table.add_column("measured", justify="right")
    table.add_column("target", justify="right")
    table.add_column("")
    table.add_column("note", style="dim")
    for figure in figures:
        measured = "not measured" if figure.value is None else f"{_rounded(figure.value)} {figure.unit}".rstrip()
        target = f"{figure.target.word} {_rounded(figure.target.limit)}" if figure.target else ""
        verdict = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[figure.is_met]
        table.add_row(figure.what, measured, target, verdict, figure.note)
    Console(width=None if sys.stdout.isatty() else WIDTH_IN_A_FILE).print(table)


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
