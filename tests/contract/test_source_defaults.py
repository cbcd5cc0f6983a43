"""The defaults of all sources (spec 1.8)."""

import asyncio
import gzip
import itertools
import json
import os
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import structlog
from aiohttp.abc import ResolveResult

from headwater import __version__
from headwater.app.roles import Role, run_roles
from headwater.app.scheduler import SchedulerRole
from headwater.core.http import Limits, Response
from headwater.core.reasons import Reason
from headwater.core.run import RunStatus
from headwater.core.settings import Settings, load
from headwater.db.runs import RunFilter
from headwater.http import user_agents
from headwater.http.client import HttpClient
from headwater.http.resolver import GuardedResolver
from tests import kinds
from tests.browser.conftest import chromium, folder
from tests.browser.processes import find_browser_processes, find_process
from tests.database_state import backdate, held_leases
from tests.harness import AppHarness, open_harness
from tests.program import headwater
from tests.server import Answer, Site, page, rss
from tests.waiting import until

__all__ = ["chromium", "folder"]  # fixtures

KEY = "abcdefgh" * 5
FEED = "http://news.test/feed"
LIST = "http://api.test/list"
PAGE = "http://news.test/2026-00123"
HTML = {"Content-Type": "text/html; charset=utf-8"}
RECORD = {"url": PAGE, "number": "2026-00123", "date": "2026-03-12"}
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HONEST = f"Headwater/{__version__} (+https://example.org/about)"


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds.install(monkeypatch, "plain", kinds.PlainKind)
    kinds.install(monkeypatch)


@pytest.fixture
async def harness(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    settings = make_settings(connect_to=site.connect_to, contact_url="https://example.org/about", api_data_gov_key=KEY)
    async with open_harness(settings) as opened:
        yield opened


async def poll(harness: AppHarness, name: str = "plain", kind: str = "plain", **settings: Any) -> Any:
    await harness.operations.sources.create(name, kind, settings)
    return await harness.operations.sources.sync(name)


def listing(*context: dict[str, str], **headers: str) -> Answer:
    named = {header.replace("_", "-"): value for header, value in headers.items()}
    return Answer(json.dumps(context), headers={"Content-Type": "application/json", **named})


def gaps(site: Site) -> list[float]:
    """Return the times between two requests."""
    return [later.arrived - earlier.arrived for earlier, later in itertools.pairwise(site.seen)]


def agents_of(site: Site, url: str) -> set[str]:
    return {seen.headers["User-Agent"] for seen in site.seen if seen.url == url}


# 1. Schedules


async def test_a_schedule_uses_new_york_time_unless_its_source_has_a_time_zone(site: Site, harness: AppHarness) -> None:
    """A source's cron string is in America/New_York by default; its `timezone` overrides that."""
    schedule = {"schedule": "0 2 * * *"}
    for name, overrides in (("here", schedule), ("there", schedule | {"timezone": "Europe/London"})):
        site.answers[f"http://{name}.test/feed"] = rss()
        await harness.operations.sources.add(f"http://{name}.test/feed", name, overrides)
    await backdate(harness, "sources.created_at", timedelta(days=3))
    stop = asyncio.Event()
    roles: list[Role] = [SchedulerRole(harness.runtime, lambda polled: None)]
    working = asyncio.create_task(run_roles(roles, stop))
    succeeded = RunFilter(status=RunStatus.SUCCEEDED)

    async def both_slots() -> dict[str, datetime | None] | None:
        slots = {run.source: run.slot for run in await harness.operations.runs.list_runs(succeeded)}
        return slots if len(slots) == 2 else None

    found = await until(both_slots)
    stop.set()
    await working
    assert found["here"].astimezone(ZoneInfo("America/New_York")).hour == 2
    assert found["there"].astimezone(ZoneInfo("Europe/London")).hour == 2


def test_the_time_zone_of_schedules_is_a_documented_default() -> None:
    """The default is America/New_York, and the documentation says so."""
    assert Settings().timezone == "America/New_York"
    for document in ("settings.md", "sources.md"):
        assert "America/New_York" in (DOCS / document).read_text()


# 2. HTTP


async def test_requests_name_headwater_as_their_user_agent(site: Site, harness: AppHarness) -> None:
    """The user agent of polls, pages and robots.txt is Headwater's, with its address."""
    site.answers[LIST] = listing(RECORD)
    site.answers[PAGE] = Answer(page("honest"), headers=HTML)
    await poll(harness, urls=[LIST])
    await harness.work()
    assert {seen.headers["User-Agent"] for seen in site.seen} == {HONEST}
    assert len(site.seen) == 3


async def test_a_source_may_choose_to_look_like_a_browser(site: Site, harness: AppHarness) -> None:
    """The user agent of the browser ends with our name. robots.txt is requested and obeyed under our own name."""
    site.answers["http://news.test/robots.txt"] = Answer("User-agent: headwater\nDisallow: /closed\n")
    closed = RECORD | {"url": "http://news.test/closed", "number": "2"}
    site.answers[LIST] = listing(RECORD, closed)
    site.answers[PAGE] = Answer(page("disguised"), headers=HTML)
    await poll(harness, urls=[LIST], user_agent="browser")
    await harness.work()
    (seen,) = agents_of(site, LIST) | agents_of(site, PAGE)
    assert seen.startswith("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36")
    assert " Chrome/" in seen
    assert seen.endswith(f" headwater/{__version__}")
    assert agents_of(site, "http://news.test/robots.txt") == {HONEST}
    assert await harness.outcomes() == {PAGE: "stored", closed["url"]: "robots_blocked"}


async def test_a_browser_version_over_a_year_old_is_only_a_warning(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version is one dated constant. It should be updated after 12 months."""
    site.answers[LIST] = listing(RECORD)
    today = harness.runtime.context.clock.now().date()
    for released, is_old in ((today - timedelta(days=366), False), (today - timedelta(days=367), True)):
        monkeypatch.setattr(user_agents, "CHROME_RELEASED", released)
        with structlog.testing.capture_logs() as logs:
            assert (await poll(harness, f"of-{released}", urls=[LIST], user_agent="browser")).error is None
            assert (await poll(harness, f"honest-{released}", urls=[LIST])).error is None
        assert [line["source"] for line in logs if line["event"] == "agent.stale"] == [f"of-{released}"] * is_old


def test_the_imitated_browser_version_is_dated() -> None:
    assert isinstance(user_agents.CHROME_RELEASED, date)


async def test_a_temporary_failure_is_retried_twice_with_growing_waits(site: Site, harness: AppHarness) -> None:
    """Three attempts, exponential: the waits are 1 s and 2 s by default, here made short."""
    retry = kinds.PlainKind().retry
    assert (retry.attempts, retry.base_seconds, retry.on_rate_limit) == (3, 1.0, False)
    site.answers[LIST] = [Answer(status=500), Answer(status=503), listing()]
    quick = {"retry": {"base_seconds": 0.2}, "rate_per_second": 1000}
    assert (await poll(harness, urls=[LIST], **quick)).error is None
    first, second = (later.arrived - earlier.ended for earlier, later in itertools.pairwise(site.seen))
    assert first >= 0.19
    assert second >= 0.39
    site.answers[LIST] = Answer(status=502)
    assert (await harness.operations.sources.sync("plain")).reason is Reason.HTTP_5XX
    assert len(site.seen) == 6


@asynccontextmanager
async def hanging_up() -> AsyncIterator[tuple[int, list[None]]]:
    """A server that closes every connection without an answer."""
    calls: list[None] = []

    def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.append(None)
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], calls


async def test_a_broken_connection_is_a_temporary_failure(make_settings: Callable[..., Settings]) -> None:
    """Network errors are retried like 5xx."""
    async with (
        hanging_up() as (port, calls),
        open_harness(make_settings(connect_to=(f"*.test=127.0.0.1:{port}",))) as harness,
    ):
        polled = await poll(harness, urls=[LIST], retry={"base_seconds": 0}, rate_per_second=1000)
    assert polled.reason is Reason.NETWORK
    assert len(calls) == 3


@pytest.mark.parametrize("status", [400, 403, 404, 410, 429])
async def test_a_refusal_is_not_retried(status: int, site: Site, harness: AppHarness) -> None:
    """Only 5xx and network errors are retried."""
    site.answers[LIST] = Answer(status=status)
    assert (await poll(harness, urls=[LIST])).error
    assert site.visits(LIST) == 1


@pytest.mark.default_rate
async def test_a_source_sends_two_requests_a_second(site: Site, harness: AppHarness) -> None:
    """The rate is 2 a second for each source; a source may have another."""
    urls = [f"http://api.test/{number}" for number in range(3)]
    site.answers.update(dict.fromkeys(urls, listing()))
    await poll(harness, urls=urls)
    first, second = gaps(site)
    assert min(first, second) >= 0.49
    begun = len(site.seen)
    await poll(harness, "quick", urls=urls, rate_per_second=100)
    assert site.seen[-1].arrived - site.seen[begun].arrived < 0.9


async def test_a_late_request_delays_the_next_one(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rate counts from the moment a request is sent. Here a name server delays the first request."""
    urls = [f"http://api.test/{number}" for number in range(3)]
    site.answers.update(dict.fromkeys(urls, listing()))
    real = GuardedResolver.resolve

    async def slow(self: GuardedResolver, *place: Any, **options: Any) -> list[ResolveResult]:
        """Answer when the next request is nearly due."""
        due = "SELECT next_request_at < clock_timestamp() + interval '50 ms' FROM sources WHERE name = 'plain'"
        while await harness.rows(due) != [(True,)]:
            await asyncio.sleep(0.01)
        return await real(self, *place, **options)

    monkeypatch.setattr(GuardedResolver, "resolve", slow)
    assert (await poll(harness, urls=urls, rate_per_second=10 / 3)).error is None
    first, second = gaps(site)
    assert min(first, second) >= 0.29


async def test_a_request_has_ten_seconds_to_connect_and_sixty_to_answer(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10 s connect, 60 s read; a source may have others."""
    given: list[Limits] = []
    real = HttpClient.request

    async def watched(self: HttpClient, method: str, url: str, *, limits: Limits, **options: Any) -> Response:
        given.append(limits)
        return await real(self, method, url, limits=limits, **options)

    monkeypatch.setattr(HttpClient, "request", watched)
    site.answers[LIST] = listing()
    await poll(harness, urls=[LIST])
    assert [(limits.connect_seconds, limits.read_seconds) for limits in given] == [(10.0, 60.0)]
    site.hanging.add(LIST)
    timeout = {"read": 0.2, "total": 30}
    polled = await poll(harness, "hasty", urls=[LIST], timeout=timeout, retry={"attempts": 1})
    assert polled.reason is Reason.TIMEOUT
    assert (given[-1].connect_seconds, given[-1].read_seconds, given[-1].total_seconds) == (10.0, 0.2, 30)


@pytest.mark.parametrize(("overrides", "expected"), [({}, 4), ({"concurrency": 2}, 2)])
async def test_a_source_has_four_requests_at_once(
    overrides: dict[str, int], expected: int, site: Site, harness: AppHarness
) -> None:
    """The concurrency is 4 by default; a source may have another."""
    urls = [f"http://api.test/{number}" for number in range(8)]
    site.hanging.update(urls)
    polling = asyncio.create_task(poll(harness, urls=urls, rate_per_second=1000, timeout={"read": 60}, **overrides))
    while len(site.waiting) < expected:
        await asyncio.sleep(0.005)
    enough = time.monotonic() + 0.1  # at this rate, time for many more requests
    while time.monotonic() < enough:
        assert len(site.waiting) == expected
        await asyncio.sleep(0.005)
    polling.cancel()
    await asyncio.gather(polling, return_exceptions=True)


# 3. api.data.gov


async def test_every_request_to_the_api_carries_the_key_of_the_environment(
    site: Site, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    """HEADWATER_API_DATA_GOV_KEY is the key of all sources."""
    key = load({"HEADWATER_API_DATA_GOV_KEY": KEY}, tmp_path).settings.api_data_gov_key
    site.answers[LIST] = listing()
    async with open_harness(make_settings(connect_to=site.connect_to, api_data_gov_key=key)) as harness:
        for name in ("bills", "hearings"):
            assert (await poll(harness, name, "ledger", lists=[LIST])).error is None
    assert [seen.headers["X-Api-Key"] for seen in site.seen] == [KEY, KEY]
    assert not any(KEY in seen.url for seen in site.seen)


async def shares(harness: AppHarness) -> dict[str, tuple[int, int]]:
    """Return the hourly share and the spending of each source."""
    (host,) = await harness.operations.budgets() or ()
    return {row.source: (row.share, row.spent) for row in host.sources}


async def test_a_thousand_requests_an_hour_are_divided_among_the_sources(site: Site, harness: AppHarness) -> None:
    """bills 350, regulations.gov 200, hearings 150, public laws 100, roll-call votes 100, reserve 100."""
    site.answers[LIST] = listing()
    for name in ("bills", "regulations.gov", "crs"):
        await poll(harness, name, "ledger", lists=[LIST])
    assert await shares(harness) == {
        "bills": (350, 1),
        "regulations_gov": (200, 1),
        "hearings": (150, 0),
        "public_laws": (100, 0),
        "roll_call_votes": (100, 0),
        "reserve": (100, 1),
    }
    assert sum(share for share, _ in (await shares(harness)).values()) == 1000


async def test_a_larger_quota_scales_every_share(site: Site, harness: AppHarness) -> None:
    """X-RateLimit-Limit: 5000 gives bills 1750 without any setting."""
    site.answers[LIST] = listing(X_RateLimit_Limit="5000")
    await poll(harness, "bills", "ledger", lists=[LIST])
    found = {source: share for source, (share, _) in (await shares(harness)).items()}
    assert (found["bills"], found["hearings"], sum(found.values())) == (1750, 750, 5000)


async def test_an_operator_may_set_the_share_of_a_source(
    site: Site, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    """The setting is HEADWATER_RATE_LIMIT_<SOURCE>_PER_HOUR."""
    limits = load({"HEADWATER_RATE_LIMIT_BILLS_PER_HOUR": "7"}, tmp_path).settings.rate_limits
    site.answers[LIST] = listing()
    settings = make_settings(connect_to=site.connect_to, api_data_gov_key=KEY, rate_limits=limits)
    async with open_harness(settings) as harness:
        await poll(harness, "bills", "ledger", lists=[LIST])
        assert (await shares(harness))["bills"] == (7, 1)


async def test_all_sources_together_never_exceed_the_quota(site: Site, make_settings: Callable[..., Settings]) -> None:
    """All shares have one common parent. A late request waits, which is no error."""
    site.answers[LIST] = listing(X_RateLimit_Limit="5")
    settings = make_settings(
        connect_to=site.connect_to, api_data_gov_key=KEY, rate_limits={"bills": 100, "hearings": 100}
    )
    async with open_harness(settings) as harness:
        assert (await poll(harness, "bills", "ledger", lists=[LIST] * 3)).error is None
        with structlog.testing.capture_logs() as logs:
            polling = asyncio.create_task(poll(harness, "hearings", "ledger", lists=[LIST] * 3))
            while "budget.spent" not in [line["event"] for line in logs]:
                await asyncio.sleep(0.005)
        assert site.visits(LIST) == 5
        assert not polling.done()
        polling.cancel()
        await asyncio.wait([polling])
        assert [(await harness.method(name)).consecutive_errors for name in ("bills", "hearings")] == [0, 0]
        assert await held_leases(harness) == {}


# 5. The browser


async def test_sources_behind_a_bot_wall_share_one_browser_and_no_cookies(
    site: Site, harness: AppHarness, folder: Path
) -> None:
    """The first need starts the one browser, which stays. Each source has its own context."""
    headers = HTML | {"Set-Cookie": "visited=yes"}
    urls = [f"http://news.test/{number}" for number in range(3)]
    for url in urls:
        site.answers[url] = Answer(page(url), headers=headers)
    assert find_browser_processes(folder) == []
    started = []
    for source, url in zip(("gao", "gao", "cbo"), urls, strict=True):
        if source not in {known.name for known in await harness.operations.sources.list_sources()}:
            await harness.operations.sources.create(source, "manual", {"needs_browser": True})
        await harness.operations.frontier.submit([url], source)
        await harness.work()
        started.append(find_process("browser", folder).pid)
    assert await harness.outcomes() == dict.fromkeys(urls, "stored")
    assert len({*started}) == 1
    cookies = [seen.headers.get("Cookie") for seen in site.seen if seen.url in urls]
    assert cookies == [None, "visited=yes", None]


async def test_stealth_is_the_default_and_a_source_may_choose_another_profile(
    site: Site, harness: AppHarness, folder: Path
) -> None:
    """Patched by playwright-stealth: `navigator.webdriver` is false, unless the source says otherwise."""
    del folder
    write = "document.title = document.querySelector('h1').textContent = `driven ${navigator.webdriver}`"
    expected = {}
    for source, settings in (("patched", {}), ("light", {"stealth": "light"}), ("bare", {"stealth": "none"})):
        url = f"http://news.test/{source}"
        site.answers[url] = Answer(page(source, extra=f"<script>{write}</script>"), headers=HTML)
        await harness.operations.sources.create(source, "manual", {"needs_browser": True, **settings})
        await harness.operations.frontier.submit([url], source)
        expected[url] = "driven true" if source == "bare" else "driven false"
    await harness.work()
    assert {line.url: line.title for line in (await harness.operations.documents.list_page()).documents} == expected


def test_the_image_with_a_browser_has_the_locked_playwright_version() -> None:
    """Its tag equals the locked version. The image without a browser is python:3.12-slim."""
    (locked,) = re.findall(r"^playwright==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    texts = {path.name: path.read_text() for path in ROOT.glob("docker/Dockerfile*")}
    assert {name: re.findall(r"^FROM (\S+)", text, re.MULTILINE) for name, text in texts.items()} == {
        "Dockerfile": ["python:3.12-slim"],
        "Dockerfile.browser": [f"${{REGISTRY}}playwright/python:v{locked}-noble"],
    }


# 4. Raw files


async def stored(harness: AppHarness, site: Site, body: bytes | str, **headers: str) -> list[Path]:
    """Return the files of the corpus folder after a page was fetched."""
    site.answers[LIST] = listing(RECORD)
    site.answers[PAGE] = Answer(body, headers=HTML | headers)
    await poll(harness, "register", urls=[LIST])
    await harness.work()
    assert await harness.outcomes() == {PAGE: "stored"}
    return files(harness)


def files(harness: AppHarness) -> list[Path]:
    """Return all files in the folders of sources."""
    corpus = harness.runtime.context.settings.data_dir / "corpus"
    return [path.relative_to(corpus) for path in sorted(corpus.glob("*/**/*")) if path.is_file()]


async def test_raw_bytes_follow_the_partition_of_the_source(site: Site, harness: AppHarness) -> None:
    """corpus/<source>/bodies/raw/<subpath>, by the stable parts of the natural key: here year and month."""
    assert await stored(harness, site, page("layout")) == [Path("register/bodies/raw/2026/03/2026-00123.html")]


async def test_a_page_without_a_partition_is_stored_by_host_and_hash(site: Site, harness: AppHarness) -> None:
    site.answers[PAGE] = Answer(page("by hash"), headers=HTML)
    await harness.fetch(PAGE)
    (path,) = files(harness)
    assert path.parts[:4] == ("manual", "bodies", "raw", "news.test")
    assert path.name.startswith(path.parts[4])
    assert len(path.name) == 64


async def test_the_markdown_is_in_the_database_and_in_no_file(site: Site, harness: AppHarness) -> None:
    """There is no Markdown file next to the raw file."""
    (only,) = await stored(harness, site, page("one place"))
    corpus = harness.runtime.context.settings.data_dir / "corpus"
    assert (corpus / only).read_bytes() == page("one place").encode()
    text = (await harness.document()).text
    assert "one place" in text
    assert "<p>" not in text


async def test_raw_bytes_are_not_compressed(site: Site, harness: AppHarness) -> None:
    """Even a gzip answer is stored without compression."""
    body = page("uncompressed").encode()
    (only,) = await stored(harness, site, gzip.compress(body), **{"Content-Encoding": "gzip"})
    assert (harness.runtime.context.settings.data_dir / "corpus" / only).read_bytes() == body


async def test_an_update_replaces_the_whole_file(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is written under .tmp/, flushed and moved. Only backups keep the old bytes."""
    (only,) = await stored(harness, site, page("first edition"))
    target = harness.runtime.context.settings.data_dir / "corpus" / only
    steps: list[str] = []
    flush, replace = os.fsync, os.replace

    def noted_flush(descriptor: int) -> None:
        steps.append("flush")
        flush(descriptor)

    def noted_replace(draft: Path, place: Path) -> None:
        assert draft.parent == target.parents[2] / ".tmp"
        assert target.read_bytes() == page("first edition").encode()
        assert draft.read_bytes() == page("second edition").encode()
        steps.append("replace")
        replace(draft, place)

    monkeypatch.setattr(os, "fsync", noted_flush)
    monkeypatch.setattr(os, "replace", noted_replace)
    site.answers[PAGE] = Answer(page("second edition"), headers=HTML)
    await harness.operations.frontier.retry([PAGE])
    await harness.work()
    assert steps == ["flush", "replace", "flush"]
    assert target.read_bytes() == page("second edition").encode()
    assert files(harness) == [only]
    assert (await harness.document()).raw_path == str(only)


async def test_raw_files_are_kept_and_old_drafts_are_swept(
    site: Site, harness: AppHarness, database_url: str, tmp_path: Path
) -> None:
    """Raw files are kept indefinitely. `headwater source janitor NAME` sweeps only drafts over 24 hours old."""
    (only,) = await stored(harness, site, page("for good"))
    corpus = harness.runtime.context.settings.data_dir / "corpus"
    drafts = {age: corpus / "register/bodies/raw/.tmp" / f"{age:032x}" for age in (23, 25)}
    long_ago = time.time() - 20 * 365 * 86400
    os.utime(corpus / only, (long_ago, long_ago))
    for age, draft in drafts.items():
        draft.write_bytes(b"half a page")
        os.utime(draft, (time.time() - age * 3600,) * 2)
    settings = {"database_url": database_url, "data_dir": corpus.parent}
    swept = await asyncio.to_thread(headwater, "source", "janitor", "register", cwd=tmp_path, **settings)
    assert (swept.returncode, swept.stderr) == (0, "")
    assert files(harness) == sorted([only, drafts[23].relative_to(corpus)])
