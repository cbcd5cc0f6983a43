"""`headwater frontier submit`: batches on their way in, and what became of them, however many there are."""

from typing import TYPE_CHECKING

import typer

from headwater.cli import show_frontier as show
from headwater.cli.lines import Arguments, Lines, Numbered
from headwater.cli.output import format_json
from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason

if TYPE_CHECKING:
    from headwater.frontier.operations import FrontierOperations, Handed


class _ForPeople:
    """Counts, and the first of those that were refused."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._shown: list[str] = []

    def refuse(self, number: int, handed: "Handed") -> None:
        if len(self._shown) < show.REFUSED_SHOWN:
            told = (f"{self._where} {number}", handed.given, handed.why_refused)
            self._shown.append(": ".join(part for part in told if part))

    def end(self, new: int, known: int, refused: int) -> None:
        show.submitted(new, known, self._shown, refused)


class _ForScripts:
    """One JSON document, written as it comes, so that a million refusals take no room."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._before = '{"refused": [\n'

    def refuse(self, number: int, handed: "Handed") -> None:
        told = {self._where: number, "given": handed.given, "why": handed.why_refused}
        typer.echo(self._before + format_json(told), nl=False)
        self._before = ",\n"

    def end(self, new: int, known: int, refused: int) -> None:
        before = self._before if refused == 0 else "\n"
        typer.echo(f'{before}], "new": {new}, "known": {known}}}')


async def hand_in(
    frontier: "FrontierOperations", given: Arguments | Lines, source: str | None, *, as_json: bool
) -> bool:
    """Submit what is given, a batch at a time, and tell what became of it; return whether any of it was accepted."""
    from headwater.frontier.operations import BATCH

    answer = _ForScripts(given.where) if as_json else _ForPeople(given.where)
    new = known = refused = 0

    async def submit(batch: list[Numbered]) -> None:
        nonlocal new, known, refused
        for (number, _), handed in zip(batch, await frontier.hand_in([url for _, url in batch], source), strict=True):
            if handed.url is None:
                refused += 1
                answer.refuse(number, handed)
            elif handed.is_new:
                new += 1
            else:
                known += 1

    batch: list[Numbered] = []
    with show.progress("submitted", given.total, quiet=as_json) as progress:
        async for numbered in given.read():
            batch.append(numbered)
            if len(batch) == BATCH:
                await submit(batch)
                batch.clear()
                progress(given.done, new + known + refused)
        await submit(batch)
        progress(given.done, new + known + refused)
    if not new + known + refused:
        raise OperatorError("There is no address in what was given.", reason=Reason.BAD_REQUEST)
    answer.end(new, known, refused)
    return new + known > 0
