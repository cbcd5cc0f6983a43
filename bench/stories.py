"""Measure stories: labelled pairs of real pages, and the time of a document: python -m bench.stories [--quick]."""

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bench.adapter import StoryBench, open_stories
from bench.report import Figure, Target
from bench.running import make_parser, run_bench
from bench.search_corpus import NEWEST, WORDS_OF_A_DOCUMENT, Document, GeneratedCorpus
from bench.server import Connection, connect, new_database, settle
from bench.sql import read_queries
from bench.steps import Steps
from bench.stories_pages import LabelledDocument, LabelledPair, has_corpora, read_documents, read_pairs
from bench.timing import percentile
from headwater.core.urls import host_of

_QUERIES = read_queries("stories.sql")
_PRECISION, _RECALL, _MILLISECONDS = Target(">=", 0.97), Target(">=", 0.85), Target("<=", 3)
_AT_ONCE = 100  # documents; the role reads as many changes at once
_SHARE_OF_ORIGINALS = 50  # one document of so many is signed, and the others copy its signature to earlier days
_PLAIN_AT_ONCE = 20_000
_COPY_EACH = 5  # of the measured documents one in so many is a copy


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--documents", type=int, help="size of the corpus")
    parser.add_argument("--errors", action="store_true", help="list the pairs that are wrong")
    options = parser.parse_args()
    options.documents = options.documents or (20_000 if options.quick else 1_000_000)
    return options


async def measure(server: str, _folder: Path, steps: Steps, options: argparse.Namespace) -> list[Figure]:
    """Measure the pairs, then the time."""
    figures = []
    async with new_database(server, "pairs") as dsn:
        figures += await _measure_pairs(dsn, steps, list_errors=options.errors)
    async with new_database(server, "speed") as dsn:
        figures += await _measure_speed(dsn, steps, options.documents, 500 if options.quick else 2000)
    return figures


async def _measure_pairs(dsn: str, steps: Steps, *, list_errors: bool) -> list[Figure]:
    if not has_corpora():
        why = "there are no corpora; HEADWATER_CORPORA names their folder"
        return [
            Figure("story_precision", "precision of pairs", None, "", _PRECISION, why),
            Figure("story_recall", "recall of pairs", None, "", _RECALL, why),
        ]
    pairs = read_pairs()
    with steps.step("read real pages", None):
        documents = read_documents(sorted({one for pair in pairs for one in (pair.first, pair.second)}))
    pairs = [pair for pair in pairs if pair.first in documents and pair.second in documents]
    ordered = sorted(documents.items(), key=lambda one: (one[1].published_at or NEWEST, one[0]))
    async with open_stories(dsn, NEWEST) as bench:
        async with connect(dsn) as connection:
            ids = await _save(connection, bench.source_id, [_add_number(one, n) for n, (_, one) in enumerate(ordered)])
        for batch in _batches(ids):
            await bench.place(batch)
        async with connect(dsn) as connection:
            stories = dict(await connection.fetch(_QUERIES["story_of_each"]))
    story_of = {reference: stories[number] for (reference, _), number in zip(ordered, ids, strict=True)}
    joined = [pair for pair in pairs if story_of[pair.first] == story_of[pair.second]]
    if list_errors:
        _list_errors(pairs, joined, documents)
    right = sum(pair.is_same for pair in joined)
    same = sum(pair.is_same for pair in pairs)
    note = f"{len(pairs)} pairs of {len(documents)} documents"
    figures = [
        Figure(
            "story_precision",
            "precision of pairs",
            right / len(joined),
            "",
            _PRECISION,
            f"{note}; {len(joined)} joined",
        ),
        Figure("story_recall", "recall of pairs", right / same, "", _RECALL, f"{same} pairs of one story"),
    ]
    number, found = Counter(pair.sort for pair in pairs), Counter(pair.sort for pair in joined)
    return figures + [
        Figure(
            f"story_joined:{sort}",
            f"joined: {sort}",
            found[sort] / number[sort],
            "",
            note=f"{found[sort]} of {number[sort]}",
        )
        for sort in number
    ]


def _add_number(document: LabelledDocument, number: int) -> LabelledDocument:
    """Return a document with a URL of its own: two editions may have one URL in the corpora."""
    return replace(document, url=f"{document.url}#{number}")


def _list_errors(
    pairs: Sequence[LabelledPair], joined: Sequence[LabelledPair], documents: dict[str, LabelledDocument]
) -> None:
    for pair in pairs:
        if pair.is_same != (pair in joined):
            first, second = documents[pair.first], documents[pair.second]
            print(f"{'missed' if pair.is_same else 'joined'} ({pair.sort}): {first.title} | {second.title}")


async def _measure_speed(dsn: str, steps: Steps, number: int, measured: int) -> list[Figure]:
    """Measure the time of documents when the database has a number of them.

    A part of them is signed. Their signatures are copied to earlier days. There words have the same frequencies, and
    the texts differ.
    """
    originals = max(1000, number // _SHARE_OF_ORIGINALS)
    copies = number // originals - 1
    generated = [_generated(one) for one in GeneratedCorpus().documents(originals + measured)]
    known, new = generated[:originals], _with_copies(generated[originals:], generated[:originals])
    async with open_stories(dsn, NEWEST) as bench, connect(dsn) as connection:
        await connection.execute("SET session_replication_role = replica; SET synchronous_commit = off")
        first = copies * originals + 1
        with steps.step("make earlier documents", first - 1) as advance:
            for start in range(1, first, _PLAIN_AT_ONCE):
                end = min(start + _PLAIN_AT_ONCE, first) - 1
                await connection.execute(_QUERIES["add_plain_documents"], bench.source_id, start, end, timeout=7200)
                advance(end - start + 1)
        await connection.execute(_QUERIES["continue_ids"], first)
        ids = await _save(connection, bench.source_id, known)
        with steps.step("sign documents", originals) as advance:
            for batch in _batches(ids):
                await bench.place(batch)
                advance(len(batch))
        with steps.step("copy signatures", copies) as advance:
            for copy in range(1, copies + 1):
                await connection.execute(_QUERIES["copy_stories"], copy, originals, first, timeout=7200)
                advance(1)
        await settle(connection)
        laps = {"generated": await _time(bench, await _save(connection, bench.source_id, new))}
        if has_corpora():
            pages = await _save(connection, bench.source_id, _read_real_pages(measured))
            laps["real pages"] = await _time(bench, pages)
        sizes = await connection.fetchrow(_QUERIES["story_sizes"])
        assert sizes
    note = f"{sizes['placed']:,} documents, {sizes['keys']:,} keys, {sizes['bytes'] / 1e9:.1f} GB"
    texts = {"generated": f"of {WORDS_OF_A_DOCUMENT} words; {note}", "real pages": "of the corpora"}
    figures = []
    for sort, (walls, cpu) in laps.items():
        documents = _AT_ONCE * len(walls)
        p95 = f"p95 of batches of {_AT_ONCE}: {percentile(walls, 95) / _AT_ONCE:.2f} ms"
        figures += [
            Figure(
                f"story_ms:{sort}",
                f"a document, {sort}",
                sum(walls) / documents,
                "ms",
                _MILLISECONDS,
                f"{texts[sort]}; {p95}",
            ),
            Figure(
                f"story_cpu:{sort}",
                f"its CPU time, {sort}",
                cpu * 1000 / documents,
                "ms",
                note="this process and the server",
            ),
        ]
    return figures


def _generated(document: Document) -> LabelledDocument:
    return LabelledDocument(document.url, document.title, document.text, document.published_at)


def _with_copies(documents: Sequence[LabelledDocument], earlier: Sequence[LabelledDocument]) -> list[LabelledDocument]:
    """Return documents of which some are copies of earlier documents."""
    return [
        one if number % _COPY_EACH else replace(one, title=source.title, text=f"{source.text} {one.text[:200]}")
        for number, (one, source) in enumerate(zip(documents, reversed(earlier), strict=False))
    ]


def _read_real_pages(number: int) -> list[LabelledDocument]:
    found = [one for pair in read_pairs() for one in (pair.first, pair.second) if one.startswith(("page:", "edited:"))]
    pages = list(read_documents(list(dict.fromkeys(found))).values())
    whole = len(pages) // _AT_ONCE * _AT_ONCE
    return [replace(one, url=f"{one.url}#speed{n}") for n, one in enumerate(pages[: min(whole, number)])]


async def _time(bench: StoryBench, ids: Sequence[int]) -> tuple[list[float], float]:
    """Return the milliseconds of each batch, and the CPU seconds of all."""
    laps = []
    cpu = await bench.cpu_seconds()
    for batch in _batches(ids):
        started = time.perf_counter()
        await bench.place(batch)
        laps.append((time.perf_counter() - started) * 1000)
    return laps, await bench.cpu_seconds() - cpu


async def _save(connection: Connection, source_id: int, documents: Sequence[LabelledDocument]) -> list[int]:
    ids: list[int] = []
    for start in range(0, len(documents), 2000):
        batch = documents[start : start + 2000]
        rows = await connection.fetch(
            _QUERIES["add_story_documents"],
            source_id,
            [one.url for one in batch],
            [host_of(one.url) for one in batch],
            [one.title for one in batch],
            [one.published_at for one in batch],
            [one.text for one in batch],
            NEWEST,
        )
        ids += [row["id"] for row in rows]
    return ids


def _batches(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    return (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))


if __name__ == "__main__":
    run_bench("Stories", measure, parse_options())
