"""The benches run and print their figures (spec 2.5, 3.2)."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.server import page

ROOT = Path(__file__).parent.parent.parent
SMALL = ("--rows", "2000,4000", "--urls", "2000", "--hot-rows", "2000", "--claims", "20", "--rounds", "1")


def run_bench(name: str, *options: str, **corpora: object) -> dict[str, dict[str, Any]]:
    """Run a bench without the corpora of this machine, and return its figures by key."""
    command = [sys.executable, "-m", f"bench.{name}", "--json", *options]
    there = dict.fromkeys(("HEADWATER_CORPORA", "HEADWATER_PDFS"), "/nowhere") | corpora
    surroundings = {**os.environ, **{variable: str(path) for variable, path in there.items()}}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=100, env=surroundings)
    assert done.returncode == 0, done.stderr
    return {figure["key"]: figure for figure in json.loads(done.stdout)["figures"]}


def test_the_frontier_bench_prints_each_figure_with_its_target() -> None:
    figures = run_bench("frontier", *SMALL, "--no-peers")
    without_value = {key for key, figure in figures.items() if figure["value"] is None}
    assert without_value == {"crawlee_put_ratio", "crawlee_claim_ratio"}
    assert all(figure["note"] == "left out by --no-peers" for key, figure in figures.items() if key in without_value)
    with_target = {key for key, figure in figures.items() if figure["target"]}
    assert with_target == without_value | {
        "put_new",
        "claim_and_finish",
        "claim_p99_ratio",
        "seed004_ratio",
        "memory_growth",
    }


def test_the_feeds_bench_prints_each_figure_with_its_target() -> None:
    figures = run_bench("feeds", "--feeds", "12", "--addresses", "2000", "--rounds", "1", "--no-peers")
    assert figures["too_soon"]["met"]
    assert figures["first_cycle"]["value"] > 0
    assert figures["unchanged_cycle"]["value"] > 0
    assert figures["sitemap_memory"]["value"] is not None
    without_value = {key for key, figure in figures.items() if figure["value"] is None}
    assert without_value == {
        "parse_over_fastfeedparser",
        "parse_over_feedparser",
        "reader_first_ratio",
        "reader_unchanged_ratio",
    }


def test_the_pages_bench_requests_each_page_of_a_filled_database() -> None:
    """Issue 22: each page takes under 100 ms and is under 150 kB."""
    size = ("--documents", "2000", "--urls", "8000", "--sources", "40", "--turns", "1")
    figures = run_bench("pages", *size)
    pages = [figure for key, figure in figures.items() if key.startswith("page:")]
    assert len(pages) > 50
    assert not [figure["what"] for figure in pages if "status" in figure["note"] or "larger" in figure["note"]]
    assert figures["fill"]["note"].startswith("2,000 documents, 8,000 URLs, 40 sources")


def small_corpora(folder: Path) -> Path:
    """Make small corpora with the layout of the real ones."""
    tests = folder / "trafilatura-eval" / "tests"
    (tests / "eval").mkdir(parents=True)
    truth = {}
    for number in range(10):
        name, inside = f"site{number}.html", f"Paragraph 7 of story {number}."
        (tests / "eval" / f"{name}.gz").write_bytes(gzip.compress(page(f"story {number}").encode()))
        about = {"file": name, "with": [inside], "without": ["Home"], "title": f"story {number}", "date": "2026-01-02"}
        truth[f"http://site{number}.test/2026/01/02/a"] = about
    (tests / "evaldata.json").write_text(json.dumps(truth), encoding="utf-8")
    return folder


LISTS = ("list_titles", "list_links")


def test_the_extraction_bench_prints_each_figure_with_its_target(tmp_path: Path) -> None:
    """Issue 8."""
    figures = run_bench("extract", "--rounds", "1", "--no-peers", HEADWATER_CORPORA=small_corpora(tmp_path))
    assert figures.keys() == {"ours_ms", "ratio", "title_trafilatura", "date_trafilatura", "held_out", *LISTS}
    assert figures["ours_ms"]["value"] > 0
    assert (figures["ratio"]["value"], figures["ratio"]["note"]) == (None, "left out by --no-peers")
    assert figures["ratio"]["target"] == {"word": "<=", "limit": 1 / 3}
    assert [figures[f"{field}_trafilatura"]["value"] for field in ("title", "date")] == [100, 100]
    assert (figures["held_out"]["value"], figures["held_out"]["note"]) == (None, "left out by --no-peers")


@pytest.mark.parametrize(("name", "variable"), [("extract", "HEADWATER_CORPORA"), ("pdfs", "HEADWATER_PDFS")])
def test_a_bench_without_its_files_says_which_setting_names_them(name: str, variable: str) -> None:
    """Issue 8."""
    (figure,) = run_bench(name).values()
    assert (figure["value"], figure["met"]) == (None, None)
    assert variable in figure["note"]


def test_the_bench_of_search_measures_each_sort_of_search() -> None:
    """Issue 23: recall needs the corpora, and the time does not."""
    figures = run_bench("search", "--quick", "--documents", "300")
    assert figures["search_recall"]["value"] is None
    assert figures["search_p95"]["value"] > 0
    assert figures["search_p95:title"]["value"] > 0


def test_the_bench_of_stories_measures_the_time_of_a_document() -> None:
    """Issue 23: precision and recall need the corpora, and the time does not."""
    figures = run_bench("stories", "--quick", "--documents", "2000")
    assert (figures["story_precision"]["value"], figures["story_recall"]["value"]) == (None, None)
    assert "HEADWATER_CORPORA" in figures["story_precision"]["note"]
    assert figures["story_ms:generated"]["value"] > 0
