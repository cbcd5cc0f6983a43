"""The benches run, through the doors the product uses: what they say can be had any day (spec 2.5, 3.2)."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SMALL = ("--rows", "2000,4000", "--urls", "2000", "--hot-rows", "2000", "--claims", "20", "--no-crawlee")


def test_the_frontier_bench_prints_each_figure_beside_its_target() -> None:
    command = [sys.executable, "-m", "bench.frontier", "--json", *SMALL]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=100)
    assert done.returncode == 0, done.stderr
    figures = {figure["key"]: figure for figure in json.loads(done.stdout)["figures"]}
    without_value = {key for key, figure in figures.items() if figure["value"] is None}
    assert without_value == {"crawlee_put_ratio", "crawlee_claim_ratio"}
    assert all(figure["note"] == "left out by --no-crawlee" for key, figure in figures.items() if key in without_value)
    with_target = {key for key, figure in figures.items() if figure["target"]}
    assert with_target == without_value | {
        "put_new",
        "claim_and_finish",
        "claim_p99_ratio",
        "seed004_ratio",
        "memory_growth",
    }


def test_the_feeds_bench_prints_each_figure_beside_its_target() -> None:
    command = [sys.executable, "-m", "bench.feeds", "--json", "--feeds", "12", "--rounds", "1", "--no-peers"]
    nowhere = {**os.environ, "HEADWATER_CORPORA": "/nowhere"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=100, env=nowhere)
    assert done.returncode == 0, done.stderr
    figures = {figure["key"]: figure for figure in json.loads(done.stdout)["figures"]}
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


def test_the_pdf_bench_says_why_it_measures_nothing() -> None:
    command = [sys.executable, "-m", "bench.pdfs", "--json"]
    nowhere = {**os.environ, "HEADWATER_PDFS": "/nowhere"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=100, env=nowhere)
    assert done.returncode == 0, done.stderr
    (figure,) = json.loads(done.stdout)["figures"]
    assert (figure["value"], figure["met"]) == (None, None)
    assert "HEADWATER_PDFS" in figure["note"]
