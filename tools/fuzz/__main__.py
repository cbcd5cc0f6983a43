"""Run the fuzzer: python -m tools.fuzz [--target NAME] [--seconds N] [--inputs N] [--seed N] [--corpora FOLDER]."""

import argparse
import hashlib
import os
import random
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tools.fuzz.run import MAX_MB, MAX_SECONDS, Outcome, fuzz, shorten
from tools.fuzz.targets import ROOT, TARGETS

FINDINGS = ROOT / "tests" / "fuzz_findings"
CORPORA = Path(os.environ.get("HEADWATER_CORPORA", ROOT.parent / "shared" / "corpora"))


def main() -> int:
    """Fuzz the chosen readers. Returns 1 if there is a finding."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="a reader; all without this option")
    parser.add_argument("--seconds", type=float, default=300.0, help="time for each reader")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="most inputs for each reader")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="the same seed makes the same inputs")
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="a folder of more seeds")
    parser.add_argument("--findings", type=Path, default=FINDINGS, help="where to save inputs that fail")
    options = parser.parse_args()
    outcomes = []
    for name in options.target or TARGETS:
        limits = {"seconds": options.seconds, "inputs": options.inputs}
        outcomes.append(fuzz(name, **limits, seed=options.seed, corpora=options.corpora))
        _save(outcomes[-1], options.findings)
    _print(outcomes, options.seed)
    return 1 if any(outcome.findings for outcome in outcomes) else 0


def _save(outcome: Outcome, folder: Path) -> None:
    """Write each finding to a file that a test reads from now on."""
    for finding in outcome.findings:
        body = shorten(finding)
        path = folder / outcome.target / hashlib.sha256(body).hexdigest()[:12]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        print(f"{outcome.target}: {finding.what} ({len(body)} bytes): {path}", file=sys.stderr)


def _print(outcomes: list[Outcome], seed: int) -> None:
    table = Table(title=f"Inputs over {MAX_SECONDS:g} s or {MAX_MB:g} MB, and errors, are findings. Seed {seed}")
    for column in ("reader", "inputs", "a second", "kept", "slowest (s)", "largest (MB)", "findings"):
        table.add_column(column, justify="left" if column == "reader" else "right")
    for one in outcomes:
        rate = one.inputs / max(one.seconds, 0.001)
        measured = (f"{one.inputs:,}", f"{rate:,.0f}", str(one.kept), f"{one.slowest:.2f}", f"{one.largest_mb:.0f}")
        table.add_row(one.target, *measured, str(len(one.findings)))
    Console(width=110 if not sys.stdout.isatty() else None).print(table)


if __name__ == "__main__":
    sys.exit(main())
