"""Compare extraction from real pages with other extractors: python -m bench.extract [--quick] [--json]."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.extract_pages import Page, read_pages
from bench.extract_scores import Found, score_corpora
from bench.extract_training import held_out_texts, read_lesson
from bench.peers import BENCH, Unavailable, make_environment, run
from bench.report import Figure, Target
from bench.running import make_parser, run_bench
from bench.steps import Steps

PEERS = ("trafilatura-fast", "trafilatura", "resiliparse", "beautifulsoup")
TIMED = "trafilatura-fast-text"
# The margin by which our score should exceed trafilatura's.
MARGINS = {"text": 0.0, "title": 0.10, "author": 0.05, "date": 0.0, "image": 0.05}
_Output = dict[str, tuple[float, dict[str, str]]]
_Scores = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Measured:
    """The time of an extractor per page, and its scores by corpus and field."""

    milliseconds: float
    scores: _Scores


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--every", type=int, help="take every so many pages only: 1")
    options = parser.parse_args()
    options.every = options.every or (10 if options.quick else 1)
    options.rounds = options.rounds or (1 if options.quick else 2)
    return options


async def measure(_server: str, folder: Path, steps: Steps, options: argparse.Namespace) -> list[Figure]:
    """Measure everything in turn."""
    every = read_pages()
    if not every:
        return [Figure("text", "text", None, note="no corpora: set HEADWATER_CORPORA")]
    pages = every[:: options.every]
    extractors, missing = await _extractors(steps, peers=options.peers)
    _write(folder / "pages", pages)
    outputs: dict[str, list[_Output]] = {name: [] for name in extractors}
    with steps.step(f"extract {len(pages)} pages", options.rounds * len(extractors)) as advance:
        for _ in range(options.rounds):
            for name, python in extractors.items():
                output = await run(python, BENCH / "extract_with.py", name, folder / "pages")
                outputs[name].append(msgspec.json.decode(output, type=_Output))
                advance(1)
    measured = {name: _measured(pages, of) for name, of in outputs.items()}
    with steps.step("learn without each page's site", None):
        texts = held_out_texts([read_lesson(page) for page in every])
    held_out = score_corpora(pages, {key: Found(text) for key, text in texts.items()})
    return _figures(measured, held_out, missing)


async def _extractors(steps: Steps, *, peers: bool) -> tuple[dict[str, Path], str]:
    extractors, missing = {"ours": Path(sys.executable)}, "left out by --no-peers"
    if peers:
        with steps.step("extractors: environment", None):
            try:
                extractors |= dict.fromkeys((*PEERS, TIMED), await make_environment("extract"))
            except Unavailable as error:
                missing = str(error)
    return extractors, missing


def _write(folder: Path, pages: Sequence[Page]) -> None:
    folder.mkdir(exist_ok=True)
    for number, page in enumerate(pages):
        (folder / f"{number:04}").write_bytes(page.body())
    urls = {f"{number:04}": page.url for number, page in enumerate(pages)}
    (folder / "urls.json").write_text(json.dumps(urls), encoding="utf-8")


def _measured(pages: Sequence[Page], rounds: Sequence[_Output]) -> Measured:
    names = [f"{number:04}" for number in range(len(pages))]
    seconds = sum(min(output[name][0] for output in rounds) for name in names)
    found = {(page.corpus, page.name): Found(**rounds[0][name][1]) for page, name in zip(pages, names, strict=True)}
    return Measured(seconds / len(pages) * 1000, score_corpora(pages, found))


def _figures(measured: dict[str, Measured], held_out: _Scores, missing: str) -> list[Figure]:
    figures = [
        Figure(f"{name}_ms", f"{name}: CPU a page", one.milliseconds, "ms", note="text only" if name == TIMED else "")
        for name, one in measured.items()
    ]
    third, what = Target("<=", 1 / 3), "our time over trafilatura's (fast, text only)"
    if TIMED in measured:
        figures.append(Figure("ratio", what, measured["ours"].milliseconds / measured[TIMED].milliseconds, "x", third))
    else:
        figures.append(Figure("ratio", what, None, "x", third, missing))
    for field, margin in MARGINS.items():
        for corpus, scores in measured["ours"].scores.items():
            if field in scores:
                ours = held_out[corpus]["text"] if field == "text" else scores[field]
                figures.append(_score_figure(corpus, field, ours, margin, measured, missing))
    return figures


def _score_figure(
    corpus: str, field: str, ours: float, margin: float, measured: dict[str, Measured], missing: str
) -> Figure:
    others = {name: one.scores[corpus].get(field) for name, one in measured.items() if name not in ("ours", TIMED)}
    rivals = [others[name] or 0.0 for name in ("trafilatura-fast", "trafilatura") if name in others]
    target = Target(">=", (max(rivals) + margin) * 100) if rivals else None
    note = ", ".join(f"{name} {score * 100:.1f}" for name, score in others.items() if score) or missing
    if field == "text":
        note = f"sites held out; with them {measured['ours'].scores[corpus]['text'] * 100:.1f}; {note}"
    return Figure(f"{field}_{corpus}", f"{field}: {corpus}", ours * 100, "%", target, note)


if __name__ == "__main__":
    run_bench("Extraction", measure, parse_options(), needs_server=False)
