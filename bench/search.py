"""Measure search: recall on real pages, and time on a generated corpus: python -m bench.search [--quick] [--json]."""

import argparse
import itertools
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.adapter import SearchBench, open_search
from bench.report import Figure, Target
from bench.running import make_parser, run_bench
from bench.search_corpus import NEWEST, WORDS_OF_A_DOCUMENT, Document, GeneratedCorpus, choose_queries, read_documents
from bench.server import connect, new_database
from bench.sql import read_queries
from bench.steps import Steps
from bench.timing import percentile

LANGUAGES = ("en", "de", "fr", "es", "pl", "ja")
QUERIES, TOP = 200, 10
_BATCH = 2000
_QUERIES = read_queries("search.sql")
_RECALL, _SECONDS = Target(">=", 0.95), Target("<=", 100)


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--documents", type=int, help="size of the generated corpus")
    options = parser.parse_args()
    options.documents = options.documents or (10_000 if options.quick else 1_000_000)
    return options


async def measure(server: str, _folder: Path, steps: Steps, options: argparse.Namespace) -> list[Figure]:
    """Measure recall, then time."""
    figures = []
    async with new_database(server, "recall") as dsn:
        figures += await _measure_recall(dsn, steps)
    async with new_database(server, "speed") as dsn:
        figures += await _measure_speed(dsn, steps, options.documents, 10 if options.quick else 60)
    return figures


async def _measure_recall(dsn: str, steps: Steps) -> list[Figure]:
    with steps.step("read real pages", None):
        documents = read_documents()
    if not documents:
        why = "there are no corpora; HEADWATER_CORPORA names their folder"
        return [Figure("search_recall", f"recall@{TOP}", None, "", _RECALL, why)]
    queries = choose_queries(documents, QUERIES, LANGUAGES)
    found: Counter[str] = Counter()
    english: Counter[str] = Counter()
    asked = Counter(query.language for query in queries)
    async with open_search(dsn, NEWEST) as bench:
        ids = await _load(bench, dsn, documents, steps)
        async with connect(dsn) as connection:
            await connection.execute(_QUERIES["make_english_words"])
            with steps.step("search", len(queries)) as advance:
                for query in queries:
                    hits = await bench.find(query.words, TOP)
                    found[query.language] += ids[query.expected] in hits
                    rows = await connection.fetch(_QUERIES["english_search"], query.words, TOP)
                    english[query.language] += ids[query.expected] in [row["id"] for row in rows]
                    advance(1)

    def describe(right: Counter[str]) -> str:
        return ", ".join(f"{language} {right[language]}/{asked[language]}" for language in LANGUAGES)

    note = f"{len(queries)} titles and phrases, {len(documents)} pages: "
    return [
        Figure("search_recall", f"recall@{TOP}", found.total() / len(queries), "", _RECALL, note + describe(found)),
        Figure(
            "search_recall_english",
            f"recall@{TOP} of PostgreSQL's English alone",
            english.total() / len(queries),
            note=describe(english),
        ),
    ]


async def _measure_speed(dsn: str, steps: Steps, number: int, searches: int) -> list[Figure]:
    corpus = GeneratedCorpus()
    async with open_search(dsn, NEWEST) as bench:
        async with connect(dsn) as connection:
            await connection.execute(_QUERIES["drop_index"])
        newest: list[Document] = []
        started = time.perf_counter()
        await _load(bench, dsn, corpus.documents(number), steps, number, newest)
        loading = time.perf_counter() - started
        async with connect(dsn) as connection:
            with steps.step("make the index", None):
                started = time.perf_counter()
                await connection.execute("SET maintenance_work_mem = '1GB'")
                await connection.execute(_QUERIES["make_index"], timeout=7200)
                indexing = time.perf_counter() - started
                await connection.execute("VACUUM (ANALYZE)", timeout=7200)
                await connection.execute("CHECKPOINT", timeout=7200)
            sizes = await connection.fetchrow(_QUERIES["sizes"])
            assert sizes
        laps: dict[str, list[float]] = {}
        sorts = corpus.queries(searches, newest)
        for words in sorts["one word"][:5]:  # the first searches of a connection read the catalogue
            await bench.find(words, TOP)
        with steps.step("search", searches * len(sorts)) as advance:
            for turn in range(searches):  # the sorts take turns
                for sort, queries in sorts.items():
                    started = time.perf_counter()
                    await bench.find(queries[turn], TOP)
                    laps.setdefault(sort, []).append(time.perf_counter() - started)
                    advance(1)
    every = list(itertools.chain.from_iterable(laps.values()))
    note = f"{number:,} documents of {WORDS_OF_A_DOCUMENT} words; {len(every)} searches, one at a time"
    figures = [Figure("search_p95", "search, p95", percentile(every, 95) * 1000, "ms", _SECONDS, note)]
    figures += [
        Figure(
            f"search_p95:{sort}",
            f"search, p95: {sort}",
            percentile(times, 95) * 1000,
            "ms",
            note=f"median {percentile(times, 50) * 1000:.0f} ms",
        )
        for sort, times in laps.items()
    ]
    figures.append(
        Figure("search_load", "save, with words", loading / number * 1e6, "us", note="a document; index made later")
    )
    figures.append(
        Figure(
            "search_index",
            "make the index",
            indexing,
            "s",
            note=f"{sizes['index'] / 1e6:,.0f} MB of {sizes['total'] / 1e6:,.0f}",
        )
    )
    return figures


async def _load(
    bench: SearchBench,
    dsn: str,
    documents: Iterable[Document],
    steps: Steps,
    number: int | None = None,
    sample: list[Document] | None = None,
) -> Sequence[int]:
    ids: list[int] = []
    async with connect(dsn) as connection:
        await connection.execute("SET session_replication_role = replica; SET synchronous_commit = off")
        with steps.step("save documents", number) as advance:
            stream = iter(documents)
            while batch := list(itertools.islice(stream, _BATCH)):
                if sample is not None:
                    sample += batch[::200]
                rows = await connection.fetch(
                    _QUERIES["add_documents"],
                    bench.source_id,
                    [one.url for one in batch],
                    [one.host for one in batch],
                    [one.title for one in batch],
                    [one.language for one in batch],
                    [one.published_at for one in batch],
                    [one.text for one in batch],
                )
                new = [row["id"] for row in rows]
                ids += new
                await bench.index(connection, list(zip(new, batch, strict=True)))
                advance(len(batch))
    return ids


if __name__ == "__main__":
    run_bench("Search", measure, parse_options())
