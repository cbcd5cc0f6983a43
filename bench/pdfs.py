"""Measure PDFs: speed against plain pdfplumber, kept words, statuses: python -m bench.pdfs [--quick] [--json]."""

import argparse
import os
import sys
from pathlib import Path

import msgspec

from bench.feed_bodies import CORPORA
from bench.pdf_words import broken_joints, missing_words
from bench.peers import run
from bench.report import Figure, Target
from bench.running import make_parser, run_bench
from bench.steps import Steps
from headwater.extraction.pdf.pdf_v1 import extract_pdf

PDFS = Path(os.environ.get("HEADWATER_PDFS") or CORPORA.parent / "pdfs")
_Answers = dict[str, tuple[float, int, str, float]]  # by file: seconds, pages, status, megabytes
SECONDS, MEGABYTES = Target("<=", 10), Target("<=", 500)


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    return parser.parse_args()


async def measure(_server: str, _folder: Path, steps: Steps, options: argparse.Namespace) -> list[Figure]:
    """Read all files with each reader in turn, and then check the result of ours."""
    if not _are_there():
        why = f"there is no {PDFS}; HEADWATER_PDFS names the folder of real PDFs"
        return [Figure("pdf_ratio", "pages a second: ours over pdfplumber's", None, "x", Target(">=", 4), why)]
    readers = ("ours",) if options.quick else ("ours", "pdfplumber", "ours")
    answers: dict[str, _Answers] = {}
    with steps.step("read every PDF", len(readers)) as advance:
        for reader in readers:
            output = await run(sys.executable, "-m", "bench.read_pdfs", reader, PDFS)
            read = msgspec.json.decode(output, type=_Answers)
            answers[reader] = {name: min(answer, answers.get(reader, read)[name]) for name, answer in read.items()}
            advance(1)
    ours = answers["ours"]
    return [*_speed(answers), *_memory(ours), *_scans(ours), *_words(ours, steps), *_adversarial(ours)]


def _are_there() -> bool:
    return PDFS.is_dir()


def _speed(answers: dict[str, _Answers]) -> list[Figure]:
    """Compare the readers on the files that ours opens. Pages that pdfplumber cannot read take it no time."""
    pages = sum(pages for _, pages, _, _ in answers["ours"].values())
    rates = {reader: pages / sum(seconds for seconds, *_ in read.values()) for reader, read in answers.items()}
    note = f"{pages:,} pages of {len(answers['ours'])} files, one process, by its CPU time"
    figures = [Figure("pdf_pages", "read", rates["ours"], "pages/s", note=note)]
    target = Target(">=", 4)
    if "pdfplumber" not in rates:
        why = "left out by --quick"
        return [*figures, Figure("pdf_ratio", "pages a second: ours over pdfplumber's", None, "x", target, why)]
    ratio = rates["ours"] / rates["pdfplumber"]
    return [
        *figures,
        Figure("pdfplumber_pages", "plain pdfplumber", rates["pdfplumber"], "pages/s", note="text and tables"),
        Figure("pdf_ratio", "pages a second: ours over pdfplumber's", ratio, "x", target),
    ]


def _memory(ours: _Answers) -> list[Figure]:
    most = max(megabytes for *_, megabytes in ours.values())
    return [Figure("pdf_memory", "memory of the process that read all", most, "MB", MEGABYTES)]


def _scans(ours: _Answers) -> list[Figure]:
    scans = {name: status for name, (_, _, status, _) in ours.items() if name.startswith("scanned/")}
    wrong = [name for name, status in scans.items() if status != "scanned_no_text"]
    return [Figure("pdf_scans", "scans not recognized", len(wrong), "", Target("<=", 0), f"of {len(scans)}")]


def _words(ours: _Answers, steps: Steps) -> list[Figure]:
    readable = [name for name, (_, _, status, _) in ours.items() if status == "ok"]
    kept: dict[str, float] = {}
    broken: dict[str, float] = {}
    with steps.step("compare words", len(readable)) as advance:
        for name in readable:
            body = (PDFS / name).read_bytes()
            markdown = extract_pdf(body).markdown
            missing, wanted = missing_words(body, markdown)
            kept[name] = 1 - missing.total() / max(1, wanted)
            if name.startswith("multi-column/"):
                joints, looked_at = broken_joints(body, markdown)
                broken[name] = len(joints) / max(1, looked_at)
            advance(1)
    worst, mixed = min(kept, key=kept.__getitem__), max(broken, key=broken.__getitem__)
    return [
        Figure("pdf_words", "words of pdfium kept, in the worst file", 100 * kept[worst], "%", Target(">=", 98), worst),
        Figure("pdf_columns", "line ends not followed", 100 * broken[mixed], "%", Target("<=", 4), f"worst: {mixed}"),
    ]


def _adversarial(ours: _Answers) -> list[Figure]:
    return [
        Figure(f"pdf:{Path(name).stem}", Path(name).stem[:40], seconds, "s", SECONDS, status)
        for name, (seconds, _, status, _) in ours.items()
        if name.startswith("adversarial/")
    ]


if __name__ == "__main__":
    run_bench("PDFs", measure, parse_options(), needs_server=False)
