"""`headwater demo` as people and scripts run it (spec 8.2, 9.2)."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from rich.cells import cell_len

from headwater.app.maintenance import RESCUERS
from headwater.browser.chromium import find_program
from headwater.core.dates import day_of
from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db.embedded.server import open_server
from headwater.demo import build, run
from headwater.demo.answers import status
from headwater.demo.federal_sites import FEDERAL
from headwater.demo.plan import Piece
from headwater.demo.run import open_demo
from headwater.demo.sites import GAZETTE, KAWABE, LEDGER, SITES
from headwater.demo.web import DemoWeb
from tests.harness import open_harness
from tests.program import PROGRAM, Forked, environment, forked, headwater, start, wait_until
from tests.server import Answer, Site, page, rss

WIDTH = 80
SECONDS = 20
VAULT = "vault.demo.test"
HAS_BROWSER = find_program() is not None
# The program with a small part of its web. Two of the hosts answer 410.
WITH_HOSTS_GONE = """
from headwater.cli import main
from headwater.demo import run
from headwater.demo.answers import status
from headwater.demo.sites import MIRROR, SAHIFA, WIRE

class Broken(run.DemoWeb):
    def __init__(self, **options):
        super().__init__(sites=(WIRE, MIRROR, SAHIFA), **options)  # the first site links to the second

    async def start(self):
        await super().start()
        for site in (MIRROR, SAHIFA):
            self.break_host(site.host, status(410))

run.DemoWeb = Broken
main()
"""


@pytest.fixture
def no_browser(without_browser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the browser, which not every run of the demo has to start."""
    monkeypatch.setenv("PATH", without_browser)


def assert_readable(text: str) -> None:
    """Check that the text fits a terminal and a log."""
    assert [mark for mark in text if not (mark.isprintable() or mark == "\n")] == []
    assert [line for line in text.splitlines() if cell_len(line) > WIDTH and "://" not in line] == []


def no_server_is_left(folder: Path) -> bool:
    return not list(folder.glob("**/postmaster.pid"))


def stopped(process: "subprocess.Popen[str] | Forked", by: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
    """Stop a program, and return its exit code and its errors."""
    process.send_signal(by)
    _, errors = process.communicate(timeout=15)
    return process.wait(), errors


def test_the_demo_runs_the_whole_flow_and_reports_it_as_json(tmp_path: Path) -> None:
    answer = headwater("demo", "--json", "--data", str(tmp_path / "data"), cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert [mark for mark in answer.stdout if not (mark.isprintable() or mark == "\n")] == []
    outcome = json.loads(answer.stdout)
    assert outcome["as_expected"]
    assert all(check["holds"] and not check["wrong"] for check in outcome["checks"])
    assert sum(outcome["seconds"].values()) < SECONDS
    assert len(outcome["documents"]) >= 14
    assert (VAULT in outcome["documents"]) is HAS_BROWSER
    assert outcome["outcomes"].keys() == {
        *("stored", "linked", "same_page", "redirect", "redirect_limit", "not_found", "gone", "http_4xx"),
        *("soft_404", "login_wall", "cookie_wall", "unknown_schema"),
        *("max_retries", "robots_blocked", "body_too_large"),
    }
    assert outcome["kept_failing"].keys() - {"connection_lost"} == {"http_5xx", "network", "timeout", "challenge"}
    assert sum(outcome["kept_failing"].values()) == outcome["outcomes"]["max_retries"]
    no_browser = {} if HAS_BROWSER else {Reason.NO_BROWSER: 2}
    assert outcome["waiting"] == {Reason.ROBOTS_UNREACHABLE: 5} | no_browser
    counted = sum([*outcome["outcomes"].values(), *outcome["waiting"].values()])
    assert outcome["checks"][0]["found"] == f"{counted} URLs"
    assert outcome["examples"]["robots_unreachable"].startswith("http://clinic.demo.test/")
    assert {item["bucket"] for item in outcome["daily"]} == {"NEW", "LATEST"}
    articles = outcome["articles"]
    assert articles["new"] == articles["kept"] + sum(articles["failed"].values()) + articles["deferred"]
    assert articles["kept"] > 30
    assert articles["failed"].keys() >= {"FAIL_HTTP", "FAIL_BAD_HTML", "FAIL_EMPTY"}
    assert no_server_is_left(tmp_path)
    assert_second_run_makes_no_request_and_prints_its_addresses(tmp_path)


def assert_second_run_makes_no_request_and_prints_its_addresses(tmp_path: Path) -> None:
    with forked("demo", "--serve", "--json", "--data", "data", cwd=tmp_path) as process:
        outcome = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
        assert outcome["as_expected"]
        assert outcome["checks"][-1]["name"] == "no request was made: all results are from an earlier run"
        assert outcome["data"] == str(tmp_path / "data")
        assert {outcome["api"][:17], outcome["web"][:17]} == {"http://127.0.0.1:"}
        assert stopped(process) == (0, "")


@pytest.mark.usefixtures("no_browser")
def test_the_report_is_readable_and_serve_stays_until_it_is_stopped(tmp_path: Path) -> None:
    """Without a browser the demo succeeds too, and names the pages that wait for one (spec 1.7)."""
    process = start("demo", "--serve", "--data", str(tmp_path / "data"), cwd=tmp_path)
    assert process.stdout
    try:
        report = "".join(iter(process.stdout.readline, "All checks passed.\n"))
        assert_readable(report)
        for text in (
            *("feeds: 8 of 8\n", "NEW, 2 LATEST\n", "  NEW    [bold red]Sale", "onlyonly…\n", "  LATEST 水門"),
            *("Documents by host\n", "     4  weather.demo.test\n", "Waiting URLs\n", "Canonical articles\n  7"),
            *("http://vault.demo.test/", "http://clinic.demo.test/", "waits for a browser (2 pages wait)"),
            *("(bills 24", "(28 of 32 ", "politeness is kept", "Time  start "),
        ):
            assert text in report
        for reason in ("max_retries", "cookie_wall", "login_wall", "no_browser", "robots_unreachable"):
            assert Reason.of(reason).sentence in " ".join(report.split())
        assert "FAIL " not in report
        program = "headwater" if shutil.which("headwater") == PROGRAM[0] else PROGRAM[0]
        where = "".join(iter(process.stdout.readline, f"  {program} source enable bills\n"))
        assert_readable(where.replace(str(tmp_path), ""))
        assert f"export HEADWATER_CONFIG={tmp_path}/data/headwater.toml\n  {program} today\n" in where
        (api,) = re.findall(r"curl -s '(http://[\d.:]+)/search\?q=flood'\n", where)
        (web,) = re.findall(r"curl -s -H 'Host: gazette.demo.test' (http://[\d.:]+)/feed.xml\n", where)
        assert f"Headwater listens on {api} (OpenAPI at /docs).\n" in where
        assert f"The small web listens on {web}, which lists its hosts:\n" in where
        with urllib.request.urlopen(web, timeout=5) as answer:
            index = answer.read().decode()
        assert answer.headers.get_content_type() == "text/html"
        for site in SITES:
            assert site.host in where
            assert f"curl -H 'Host: {site.host}' {web}/" in index
        with urllib.request.urlopen(f"{api}/search?q=flood", timeout=5) as answer:
            assert json.load(answer)["hits"]
        beside = headwater("source", "budgets", cwd=tmp_path, config=tmp_path / "data/headwater.toml")
        for said in (
            "api.demo.test  32 requests",
            "bills             24     24     0",
        ):
            assert said in beside.stdout
        asked = urllib.request.Request(f"{web}/feed.xml", headers={"Host": "gazette.demo.test"})
        with urllib.request.urlopen(asked, timeout=5) as answer:
            assert b"<rss" in answer.read()
        assert stopped(process) == (0, "")
        assert no_server_is_left(tmp_path)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.usefixtures("no_browser")
def test_an_unexpected_outcome_is_named_and_exits_with_1(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", WITH_HOSTS_GONE, "demo"],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
        cwd=tmp_path,
    )
    assert (answer.returncode, answer.stderr) == (1, "")
    assert "FAIL every URL ends or waits with an expected reason" in answer.stdout
    assert "http://mirror.demo.test/copies/parish-maps: gone, expected stored" in answer.stdout
    assert "http://mirror.demo.test/private/minutes: gone, expected robots_blocked" in answer.stdout
    wrong_feed = "http://sahifa.demo.test/feed.atom: 0 items, 0 NEW, 0 LATEST, expected 2 items, 1 NEW, 0 LATEST"
    assert wrong_feed in " ".join(answer.stdout.split())
    assert "Some checks failed." in answer.stdout


@pytest.mark.parametrize(
    ("words", "by", "said"),
    [
        (("--data", "data"), signal.SIGTERM, " Run again with the same --data to continue from here."),
        (("--data", "data"), signal.SIGINT, " Run again with the same --data to continue from here."),
        ((), signal.SIGHUP, ""),
    ],
)
def test_a_stopped_demo_says_so_and_leaves_nothing_behind(
    words: tuple[str, ...], by: signal.Signals, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 9.3."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with forked("demo", *words, cwd=tmp_path) as process:
        assert process.stdout.readline() == "feeds: 8 of 8\n"
        assert stopped(process, by) == (128 + by, f"headwater: stopped.{said}\n")
        assert no_server_is_left(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == [*words][1:]


@pytest.mark.usefixtures("no_browser")
async def test_a_demo_stopped_while_fetching_releases_its_leases(tmp_path: Path) -> None:
    """Spec 2.4, 9.3: no lease is left to expire, and the program prints one line."""
    folder = tmp_path / "data"
    with forked("demo", "--data", str(folder), cwd=tmp_path) as process:
        wait_until(lambda: len(list(folder.glob("corpus/*/bodies/raw/**/*.*"))) >= 10, 60)
        said = "headwater: stopped. Run again with the same --data to continue from here.\n"
        assert stopped(process, signal.SIGINT) == (128 + signal.SIGINT, said)
    with open_server(folder) as server:
        connection = await asyncpg.connect(server.dsn)
        try:
            held = [
                (table, await connection.fetchval(f"SELECT count(*) FROM {table} WHERE lease_token IS NOT NULL"))
                for table in RESCUERS
            ]
        finally:
            await connection.close()
    assert held == [(table, 0) for table in RESCUERS]


async def test_without_a_temporary_folder_the_demo_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/nowhere")
    with pytest.raises(OperatorError, match="--data, or set TMPDIR") as raised:
        async with open_demo(None):
            pass
    assert raised.value.reason is Reason.FOLDER_UNUSABLE


async def test_only_a_demo_that_stays_writes_settings(tmp_path: Path) -> None:
    """Issue 3: another demo on the same folder must not lead commands to a web that has ended."""
    async with open_demo(tmp_path, stays=True) as first:
        written = (tmp_path / "headwater.toml").read_text()
        assert str(first.web.port) in written
        async with open_demo(tmp_path):
            assert (tmp_path / "headwater.toml").read_text() == written


def test_a_folder_whose_name_is_not_utf_8_is_refused_if_settings_are_written(tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    done = headwater("demo", "--serve", "--data", folder, cwd=tmp_path)
    assert done.returncode == 2
    assert "its name is not UTF-8, as a settings file must be. Name another with --data." in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_waiting_url_has_a_reason_and_a_due_time(site: Site, make_settings: Callable[..., Settings]) -> None:
    """Spec 2.4, 8.3."""
    site.answers["http://news.test/feed"] = rss("http://news.test/busy", "http://news.test/good")
    site.answers["http://news.test/busy"] = Answer(status=503)
    site.answers["http://news.test/good"] = Answer(page("good"))
    async with open_harness(make_settings(connect_to=site.connect_to, retry_base_seconds=600)) as harness:
        await harness.operations.sources.add("http://news.test/feed")
        untried = (await harness.operations.frontier.list_urls()).urls
        await harness.work(until_attempts=2)
        outcomes = {outcome.url: outcome for outcome in (await harness.operations.frontier.list_urls()).urls}
        soon = harness.runtime.context.clock.now() + timedelta(minutes=5)
    assert [(outcome.status, outcome.waiting_reason) for outcome in untried] == [("pending", None)] * 2
    waiting, good = outcomes["http://news.test/busy"], outcomes["http://news.test/good"]
    assert (good.status, good.reason, good.waiting_reason, good.due_at) == ("fetched", "stored", None, None)
    assert (waiting.status, waiting.reason, waiting.waiting_reason) == ("pending", None, "http_5xx")
    assert waiting.due_at is not None
    assert waiting.due_at > soon


@pytest.mark.usefixtures("no_browser")
async def test_a_host_that_fails_for_a_while_changes_no_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 4.2: faults can be switched on and off while the program runs."""
    monkeypatch.setattr(run, "DemoWeb", partial(DemoWeb, sites=(GAZETTE, KAWABE)))
    async with open_demo(tmp_path / "data") as demo:

        def break_one(stage: str, done: int, total: int, waits_for: str) -> None:
            del waits_for
            if (stage, done) == ("feeds", total):
                demo.web.break_host("gazette.demo.test", status(500), times=3)

        outcome = await demo.run(break_one)
        assert [check for check in outcome.checks if not check.holds] == []
        assert sum(request.status == 500 for request in demo.web.requests if "gazette" in request.host) == 3


@pytest.mark.usefixtures("no_browser")
async def test_a_page_of_another_day_fails_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spec 3.3, 9.2: the page and its sitemap name an earlier day."""
    write = build._Builder.moments

    def one_day_before(builder: Any, piece: Piece) -> tuple[datetime | None, datetime | None]:
        published, updated = write(builder, piece)
        return published and published - timedelta(days=1), updated

    monkeypatch.setattr(build._Builder, "moments", one_day_before)
    monkeypatch.setattr(run, "DemoWeb", partial(DemoWeb, sites=(LEDGER,)))
    async with open_demo(tmp_path / "data") as demo:
        outcome = await demo.run(lambda *_: None)
    new = LEDGER.url(LEDGER.pieces[0])
    wrong = {check.name: check.wrong for check in outcome.checks if not check.holds}
    assert f"{new}: None, expected NEW" in wrong["every other source has its NEW and LATEST"]


@pytest.mark.usefixtures("no_browser")
async def test_progress_names_pages_that_are_not_found_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spec 8.2."""
    monkeypatch.setattr(run, "DemoWeb", partial(DemoWeb, sites=(LEDGER,)))
    monkeypatch.setattr(run, "PATIENCE_SECONDS", 0.5)
    reports: list[tuple[str, int, int, str]] = []
    async with open_demo(tmp_path / "data") as demo:
        demo.web.break_host(LEDGER.host, status(410))
        outcome = await demo.run(lambda *report: reports.append(report))
    assert not outcome.as_expected
    assert [report for report in reports if report[0] == "pages"][-1] == (
        *("pages", 0, 3),
        f"3 pages of {LEDGER.host} to be found",
    )


@pytest.mark.usefixtures("no_browser")
async def test_a_demo_begun_days_ago_has_the_outcome_of_its_own_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 2, spec 9.3: without a request, sitemaps and the Federal Register are read for the last days only."""
    monkeypatch.setattr(run, "DemoWeb", partial(DemoWeb, sites=(LEDGER, *FEDERAL)))
    begun = day_of(datetime.now(UTC), Settings().timezone) - timedelta(days=10)
    (tmp_path / run.DAY_FILE).write_text(begun.isoformat())
    async with open_demo(tmp_path) as demo:
        outcome = await demo.run(lambda *_: None)
    assert outcome.day == begun
    assert [check for check in outcome.checks if not check.holds] == []
