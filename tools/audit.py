"""Check the locked packages: python -m tools.audit [--advisories FOLDER].

Licences come from the installed metadata, without network. A run-time package under GPL or AGPL fails, and so does one
whose licence is unknown; a choice of licences (OR) needs one that is permitted. Known faults come from files in the OSV
format, if a folder of them is given.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^ \\;]+)[ ]*(;[^\\]*)?", re.MULTILINE)
_LICENCE = "License :: "
# Of packages whose metadata names none, as their files do.
_KNOWN = {"axe-playwright-python": "MIT"}


class Class(StrEnum):
    """The demands of a licence on a program that uses the package."""

    FREE = "permissive"
    WEAK = "weak copyleft"  # its own files stay open: LGPL, MPL
    STRONG = "strong copyleft"  # GPL, AGPL
    UNKNOWN = "unknown"


_ORDER = (Class.FREE, Class.WEAK, Class.UNKNOWN, Class.STRONG)
_PATTERNS = (
    (Class.WEAK, r"\bLGPL|\bLesser\b|\bMPL\b|Mozilla|\bEPL\b"),
    (Class.STRONG, r"\bA?GPL|Affero|GNU General Public"),
    (Class.FREE, r"\bMIT\b|\bBSD\b|Apache|\bISC\b|\bPSF\b|Python Software|\bHPND\b|\b0BSD\b|Unlicense|\bCNRI|\bZlib\b"),
)


@dataclass(frozen=True)
class Locked:
    """A package in a requirements file."""

    name: str
    version: str
    marker: str = ""  # for which systems


@dataclass
class Report:
    """The result of an audit. Each list has lines for people."""

    packages: int = 0
    by_class: dict[Class, list[str]] = field(default_factory=lambda: {one: [] for one in Class})
    absent: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    advisories: int | None = None

    @property
    def failures(self) -> list[str]:
        """The lines that must not be there."""
        return [*self.by_class[Class.STRONG], *self.by_class[Class.UNKNOWN], *self.faults]


def read_locked(path: Path) -> list[Locked]:
    """Read the packages of a requirements file."""
    found = _LOCKED.findall(path.read_text(encoding="utf-8"))
    return [Locked(name, version, marker.removeprefix(";").strip()) for name, version, marker in found]


def classify(licence: str) -> Class:
    """Classify an SPDX expression or the name of a licence. Of a choice the mildest counts, of a sum the strictest."""
    choices = re.split(r"\s+OR\s+", licence.strip("() "))
    return min((_classify_sum(choice) for choice in choices), key=_ORDER.index)


def _classify_sum(licence: str) -> Class:
    parts = re.split(r"\s+AND\s+|,", licence)
    known = (next((one for one, pattern in _PATTERNS if re.search(pattern, part)), Class.UNKNOWN) for part in parts)
    return max(known, key=_ORDER.index) if len(parts) == 1 else max(_without_remarks(known), key=_ORDER.index)


def _without_remarks(classes: Iterable[Class]) -> list[Class]:
    """Leave out the parts of a list that name no licence, such as "dependency licenses", unless no part names one."""
    found = list(classes)
    return [one for one in found if one is not Class.UNKNOWN] or found


def licence_of(package: Message) -> str:
    """Return the licence that the metadata names; an empty text if it names none."""
    if expression := package.get("License-Expression"):
        return str(expression)
    named = [entry.split(" :: ")[-1] for entry in package.get_all("Classifier") or [] if entry.startswith(_LICENCE)]
    free_text = str(package.get("License") or "").splitlines()
    return " OR ".join(named) or (free_text[0] if free_text else "")


def audit(locked: Iterable[Locked], advisories: Iterable[Mapping[str, Any]] | None = None) -> Report:
    """Check packages."""
    report = Report()
    packages = list(locked)
    for one in packages:
        try:
            licence = licence_of(cast(Message, metadata(one.name))) or _KNOWN.get(one.name, "")
        except PackageNotFoundError:
            report.absent.append(f"{one.name} {one.version} ({one.marker or 'not installed'})")
            continue
        report.packages += 1
        report.by_class[classify(licence)].append(f"{one.name} {one.version}: {licence or 'no licence'}")
    if advisories is not None:
        entries = list(advisories)
        report.advisories = len(entries)
        report.faults = [line for entry in entries for line in _find_faults(entry, packages)]
    return report


def _find_faults(advisory: Mapping[str, Any], packages: Iterable[Locked]) -> Iterator[str]:
    versions = {one.name.lower().replace("_", "-"): one.version for one in packages}
    for affected in advisory.get("affected", []):
        package = affected.get("package", {})
        name = str(package.get("name", "")).lower().replace("_", "-")
        if package.get("ecosystem") == "PyPI" and versions.get(name) in affected.get("versions", []):
            yield f"{name} {versions[name]}: {advisory.get('id')} {advisory.get('summary', '')}".strip()


def _read_advisories(folder: Path) -> Iterator[Mapping[str, Any]]:
    for path in sorted(folder.rglob("*.json")):
        yield json.loads(path.read_text(encoding="utf-8"))


def show(name: str, report: Report) -> Table:
    """Show a report as a table."""
    table = Table(title=f"{name}: {report.packages} packages", show_header=False)
    for one, lines in report.by_class.items():
        table.add_row(f"{one} licence", str(len(lines)), "" if one is Class.FREE else "\n".join(lines))
    table.add_row("not installed here", str(len(report.absent)), "\n".join(report.absent))
    if report.advisories is None:
        table.add_row("known faults", "not checked", "no data: give a folder of OSV files with --advisories")
    else:
        table.add_row("known faults", str(len(report.faults)), "\n".join(report.faults))
    return table


def main() -> int:
    """Check the packages of the program, and list those of development. Returns 1 if a package of the program fails."""
    parser = argparse.ArgumentParser(prog="make audit", description=__doc__)
    parser.add_argument("--advisories", type=Path, help="a folder of advisories in the OSV format")
    options = parser.parse_args()
    advisories = list(_read_advisories(options.advisories)) if options.advisories else None
    at_run_time = audit(read_locked(ROOT / "requirements.txt"), advisories)
    run_time_names = {one.name for one in read_locked(ROOT / "requirements.txt")}
    others = [one for one in read_locked(ROOT / "requirements-dev.txt") if one.name not in run_time_names]
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(show("at run time", at_run_time))
    console.print(show("for development only", audit(others, advisories)))
    for line in at_run_time.failures:
        print(f"refused: {line}", file=sys.stderr)
    return 1 if at_run_time.failures else 0


if __name__ == "__main__":
    sys.exit(main())
