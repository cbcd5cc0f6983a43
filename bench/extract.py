"""Compare extraction from real pages with other extractors: python -m bench.extract [--quick] [--json]."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.extract_lists import mean, score_lists
from bench.extract_pages import Page, read_pages
from bench.extract_scores import ALL_KINDS, Found, score_corpora
from bench.extract_training import KINDS, guess_held_out_kinds, held_out_texts, other_corpora_texts, read_lessons
from bench.peers import BENCH, Unavailable, make_environment, run
from bench.report import Figure, Target
from bench.running import make_parser, run_bench
from bench.steps import Steps

PEERS = ("trafilatura-fast", "trafilatura", "resiliparse", "beautifulsoup")
RUST = "rs-trafilatura"  # it needs a compiler, so it has an environment of its own
TIMED = "trafilatura-fast-text"
# The margin by which our score should exceed trafilatura's.
MARGINS = {"title": 0.10, "author": 0.05, "date": 0.0, "image": 0.05}
# The scores that pages of these kinds should reach, if trafilatura does not reach more.
KIND_TARGETS = {"listing": 0.665, "collection": 0.662, ALL_KINDS: 0.869}
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
    if not options.peers:  # the learning needs programs of other projects
        held_out = Figure("held_out", "text: sites held out", None, note=missing)
        return [*_figures(measured, missing), held_out, *_list_figures()]
    with steps.step("learn without each page's site, then without its corpus", None):
        try:
            figures = await _learned_figures(pages, every, measured, missing)
        except Unavailable as error:
            figures = [Figure("held_out", "text: sites held out", None, note=str(error))]
    return [*_figures(measured, missing), *figures, *_list_figures()]


def _list_figures() -> list[Figure]:
    """Return how well the entries of pages that list others are found. No other extractor reads lists."""
    scores = score_lists()
    return [
        Figure(f"list_{name}", f"entries of lists: {name}", mean(by_page.values()) * 100, "%", Target(">=", 90))
        for name, by_page in (("links", scores.links), ("titles", scores.titles))
    ]


async def _learned_figures(
    pages: Sequence[Page], every: Sequence[Page], measured: dict[str, Measured], missing: str
) -> list[Figure]:
    """Return the scores of texts that were found without what their site, or their corpus, teaches."""
    lessons = read_lessons(every)
    kinds = await guess_held_out_kinds(lessons)
    known = [(kind, lesson.page.kind) for kind, lesson in zip(kinds, lessons.pages, strict=True) if lesson.page.kind]
    right = sum(kind == wanted for kind, wanted in known) / max(len(known), 1)
    held_out = _score(pages, await held_out_texts(lessons, kinds))
    elsewhere = _score(pages, await other_corpora_texts(lessons))
    return [
        *_text_figures("text", held_out, measured, missing, with_target=True),
        *_text_figures("elsewhere", elsewhere, measured, missing, with_target=False),
        Figure("kinds", "kinds that are guessed right", right * 100, "%", note="sites held out"),
    ]


def _score(pages: Sequence[Page], texts: dict[tuple[str, str], str]) -> _Scores:
    return score_corpora(pages, {key: Found(text) for key, text in texts.items()})


async def _extractors(steps: Steps, *, peers: bool) -> tuple[dict[str, Path], str]:
    extractors, missing = {"ours": Path(sys.executable)}, "left out by --no-peers"
    if peers:
        with steps.step("extractors: environment", None):
            try:
                extractors |= dict.fromkeys((*PEERS, TIMED), await make_environment("extract"))
            except Unavailable as error:
                missing = str(error)
        with steps.step(f"{RUST}: environment", None):
            try:
                extractors[RUST] = await make_environment(RUST)
            except Unavailable as error:
                missing = "; ".join(filter(None, (missing, str(error))))
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


def _figures(measured: dict[str, Measured], missing: str) -> list[Figure]:
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
                others = _others(measured, corpus, field)
                target = _target(others, margin)
                note = _note(others) or missing
                figures.append(
                    Figure(f"{field}_{corpus}", f"{field}: {corpus}", scores[field] * 100, "%", target, note)
                )
    return figures


def _text_figures(
    what: str, scores: _Scores, measured: dict[str, Measured], missing: str, *, with_target: bool
) -> list[Figure]:
    """Return a figure for the text of each corpus, and of each kind of page."""
    figures = []
    for corpus, by_field in scores.items():
        for field in (field for field in ("text", *KINDS, ALL_KINDS) if field in by_field):
            others = _others(measured, corpus, field)
            name = f"{what}: {corpus}" if field == "text" else f"{what}: {corpus}, {field}"
            target = None
            if with_target and field == "text":
                target = _target(others, 0.0)
            elif with_target:
                target = Target(">=", max(others.get("trafilatura", 0.0), KIND_TARGETS.get(field, 0.0)) * 100)
            with_all = measured["ours"].scores.get(corpus, {}).get(field, 0.0)
            note = f"learned with them {with_all * 100:.1f}; {_note(others) or missing}" if with_target else ""
            figures.append(Figure(f"{what}_{corpus}_{field}", name, by_field[field] * 100, "%", target, note))
    return figures


def _others(measured: dict[str, Measured], corpus: str, field: str) -> dict[str, float]:
    """Return the scores of the other extractors."""
    others = {name: one.scores[corpus].get(field) for name, one in measured.items() if name not in ("ours", TIMED)}
    return {name: score for name, score in others.items() if score}


def _target(others: dict[str, float], margin: float) -> Target | None:
    rivals = [others[name] for name in ("trafilatura-fast", "trafilatura") if name in others]
    return Target(">=", (max(rivals) + margin) * 100) if rivals else None


def _note(others: dict[str, float]) -> str:
    return ", ".join(f"{name} {score * 100:.1f}" for name, score in others.items())


if __name__ == "__main__":
    run_bench("Extraction", measure, parse_options(), needs_server=False)
