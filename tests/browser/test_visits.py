"""Pages of sources that need a browser, through frontier, gate and corpus like all others (spec 1.7, 2.3, 4.2)."""

import asyncio
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headwater import __version__
from headwater.core.settings import Settings
from headwater.demo.web import DemoWeb
from headwater.http.user_agents import HONEST, user_agent
from tests import kinds
from tests.browser.conftest import HTML
from tests.browser.processes import find_browser_processes, find_drivers, is_running
from tests.demo_client import TODAY
from tests.harness import AppHarness, open_harness
from tests.program import forked, program_settings
from tests.server import Answer, Site, page
from tests.waiting import until

NEWS = "http://news.test"
RENDERED = page("rendered").replace("<article>", "<article hidden>") + (
    "<script>document.querySelector('article').hidden = false;"
    "document.querySelector('h1').textContent = 'Written by a script'; document.title = 'Written by a script'</script>"
)
DELAY_MS = 150


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch, chromium: str) -> None:
    del chromium
    kinds.install(monkeypatch, "plain", kinds.PlainKind)


@pytest.fixture
async def harness(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    settings = make_settings(connect_to=site.connect_to, host_delay_ms=DELAY_MS, lease_seconds=30.0)
    async with open_harness(settings) as opened:
        yield opened


async def fetch(harness: AppHarness, *urls: str, source: str = "walled", **settings: Any) -> dict[str, str | None]:
    """Hand pages in for a source that needs a browser, and work until all have ended."""
    if source not in {known.name for known in await harness.operations.sources.list_sources()}:
        await harness.operations.sources.create(source, "manual", {"needs_browser": True, **settings})
    await harness.operations.frontier.submit(urls, source)
    await harness.work()
    return await harness.outcomes()


async def test_the_scripts_document_is_stored_and_each_request_waits_its_turn(site: Site, harness: AppHarness) -> None:
    """Hosts are asked one thing at a time and at their pace, robots.txt is obeyed for scripts too."""
    scripts = [*(f"/{number}.js" for number in range(3)), "/closed/4.js", "http://cdn.test/5.js"]
    tags = "".join(f"<script src={script}></script>" for script in scripts)
    site.answers[f"{NEWS}/robots.txt"] = Answer("User-agent: headwater\nDisallow: /closed/\n")
    site.answers[f"{NEWS}/page"] = Answer(RENDERED + tags, headers=HTML)
    for number in range(3):
        site.answers[f"{NEWS}/{number}.js"] = Answer("")
    written = "document.querySelector('h1').textContent += ' or two'; document.title += ' or two'"
    site.answers["http://cdn.test/5.js"] = Answer(written)
    assert await fetch(harness, f"{NEWS}/page") == {f"{NEWS}/page": "stored"}
    (line,) = (await harness.operations.documents.list_page()).documents
    document = await harness.operations.documents.get(line.id)
    assert document.title == "Written by a script or two"
    assert await harness.operations.documents.raw_file_matches(document)
    asked = [seen.url for seen in site.seen]
    own = [f"{NEWS}/{path}" for path in ("robots.txt", "page", "0.js", "1.js", "2.js")]
    assert sorted(asked) == sorted([*own, "http://cdn.test/robots.txt", "http://cdn.test/5.js"])
    for host in (NEWS, "http://cdn.test"):
        visits = sorted((seen for seen in site.seen if seen.url.startswith(host)), key=lambda seen: seen.arrived)
        assert all(later.arrived - earlier.arrived > DELAY_MS / 1000 - 0.01 for earlier, later in pairwise(visits))
    agents = {seen.headers["User-Agent"] for seen in site.seen}
    assert len(agents) == 1
    assert agents.pop().startswith("Headwater/")


async def test_a_page_has_the_user_agent_of_the_real_browser(site: Site, harness: AppHarness, chromium: str) -> None:
    """Spec 0: a user agent like a browser's agrees with the Chromium that runs."""
    site.answers[f"{NEWS}/page"] = Answer(RENDERED, headers=HTML)
    assert await fetch(harness, f"{NEWS}/page", user_agent="browser") == {f"{NEWS}/page": "stored"}
    agents = {seen.url: seen.headers["User-Agent"] for seen in site.seen}
    stated = await asyncio.to_thread(subprocess.run, [chromium, "--version"], capture_output=True, text=True)
    version = re.search(r"(\d+)\.\d+\.\d+\.\d+", stated.stdout)
    assert version
    assert f" Chrome/{version[1]}.0.0.0 " in agents[f"{NEWS}/page"]
    assert "Linux" in agents[f"{NEWS}/page"]
    assert agents[f"{NEWS}/robots.txt"] == user_agent(HONEST, __version__)


@pytest.mark.parametrize("pause", [{"Retry-After": "600"}, {}])
async def test_hosts_with_one_pace_share_it_in_the_browser_and_429_stops_a_page(
    pause: dict[str, str], site: Site, make_settings: Callable[..., Settings]
) -> None:
    """Spec 2.3, 4.2: the turn is the registrable domain's, robots.txt is each host's own."""
    scripts = ["http://cdn.news.test/1.js", "http://cdn.news.test/closed/2.js"]
    tags = "".join(f"<script src={script}></script>" for script in scripts)
    more = "const more = document.createElement('script'); more.src = name; document.head.append(more);"
    site.answers["http://www.news.test/page"] = Answer(RENDERED + tags, headers=HTML)
    site.answers["http://cdn.news.test/robots.txt"] = Answer("User-agent: *\nDisallow: /closed/\n")
    site.answers["http://cdn.news.test/1.js"] = Answer(f"for (const name of ['/busy.js', '/after.js']) {{{more}}}")
    site.answers["http://www.news.test/busy.js"] = Answer(status=429, headers=pause)
    settings = make_settings(
        connect_to=site.connect_to, host_delay_ms=DELAY_MS, lease_seconds=30.0, politeness_scope="domain"
    )
    async with open_harness(settings) as harness:
        assert await fetch(harness, "http://www.news.test/page") == {"http://www.news.test/page": "stored"}
        (host,) = await harness.rows(
            "SELECT not_before > now() + interval '5 minutes' FROM host_state WHERE host LIKE $1", "d%"
        )
    visits = sorted(site.seen, key=lambda seen: seen.arrived)
    assert {seen.url.rpartition("/")[2] for seen in visits} == {"robots.txt", "page", "1.js", "busy.js"}
    assert all(later.arrived - earlier.arrived > DELAY_MS / 1000 - 0.01 for earlier, later in pairwise(visits))
    assert host == (bool(pause),)


async def test_answers_have_the_same_reasons_as_without_a_browser(site: Site, harness: AppHarness) -> None:
    """Redirects within a host and to another, by status and by script; errors; forbidden pages."""
    site.answers[f"{NEWS}/robots.txt"] = Answer("User-agent: *\nDisallow: /closed/\n")
    site.answers[f"{NEWS}/moved"] = Answer(status=301, headers={"Location": "/here"})
    site.answers[f"{NEWS}/here"] = Answer(page("here"), headers=HTML)
    site.answers[f"{NEWS}/away"] = Answer(status=302, headers={"Location": "http://other.test/there"})
    site.answers[f"{NEWS}/script"] = Answer("<script>location = 'http://other.test/there'</script>", headers=HTML)
    site.answers["http://other.test/there"] = Answer(page("there"), headers=HTML)
    site.answers[f"{NEWS}/failing"] = [Answer(status=503), Answer(page("failing"), headers=HTML)]
    site.answers[f"{NEWS}/busy"] = [Answer(status=429, headers={"Retry-After": "0"}), Answer(page("b"), headers=HTML)]
    paths = ("moved", "away", "script", "gone", "failing", "busy", "closed/page")
    outcomes = await fetch(harness, *(f"{NEWS}/{path}" for path in paths))
    assert outcomes == {
        f"{NEWS}/moved": "stored",
        f"{NEWS}/here": "same_page",
        f"{NEWS}/away": "redirect",
        f"{NEWS}/script": "redirect",
        "http://other.test/there": "stored",
        f"{NEWS}/gone": "not_found",
        f"{NEWS}/failing": "stored",
        f"{NEWS}/busy": "stored",
        f"{NEWS}/closed/page": "robots_blocked",
    }
    assert site.visits(f"{NEWS}/closed/page") == 0
    assert site.visits("http://other.test/there") == 1
    attempts = await harness.attempts()
    assert ("rate_limited", 1, 429) in attempts
    assert ("http_5xx", 1, 503) in attempts


async def test_the_browser_reads_lists_but_not_apis(site: Site, harness: AppHarness) -> None:
    site.answers["http://api.test/list"] = Answer(
        '[{"url": "http://news.test/page", "number": "1", "date": "2026-3-1"}]'
    )
    site.answers[f"{NEWS}/page"] = Answer(RENDERED, headers=HTML)
    settings = {"urls": ["http://api.test/list"], "needs_browser": True, "stealth": "light"}
    await harness.operations.sources.create("listed", "plain", settings)
    await harness.operations.sources.sync("listed")
    await harness.work()
    assert await harness.outcomes() == {f"{NEWS}/page": "stored"}
    by_browser = {seen.url for seen in site.seen if "Upgrade-Insecure-Requests" in seen.headers}
    assert by_browser == {f"{NEWS}/page"}


async def test_without_chromium_a_page_waits_and_says_why(
    site: Site, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    settings = make_settings(connect_to=site.connect_to, chromium_path=str(tmp_path / "chromium"))
    async with open_harness(settings) as harness:
        await harness.operations.sources.create("walled", "manual", {"needs_browser": True})
        await harness.operations.frontier.submit([f"{NEWS}/page"], "walled")
        await harness.work(until_attempts=1)
        (waiting,) = (await harness.operations.frontier.list_urls()).urls
        soon = harness.runtime.context.clock.now() + timedelta(minutes=5)
        (attempt,) = await harness.log()
    assert (waiting.status, waiting.waiting_reason) == ("pending", "no_browser")
    assert waiting.due_at is not None
    assert waiting.due_at > soon
    assert "HEADWATER_CHROMIUM_PATH" in (attempt.detail or "")
    assert site.visits(f"{NEWS}/page") == 0


async def test_a_worker_that_stops_releases_its_page_and_leaves_no_browser(
    site: Site, harness: AppHarness, folder: Path, tmp_path: Path
) -> None:
    """Spec 1.7, 9.3."""
    url = f"{NEWS}/hangs"
    site.hanging.add(url)
    await harness.operations.sources.create("walled", "manual", {"needs_browser": True})
    await harness.operations.frontier.submit([url], "walled")
    settings = harness.runtime.context.settings
    with forked("worker", cwd=tmp_path, **program_settings(settings)) as worker:
        await until(lambda: url in site.waiting or worker.returncode is not None)
        started = [*find_browser_processes(folder), *find_drivers(folder)]
        worker.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(worker.wait, 20) == 0
        await until(lambda: not any(map(is_running, started)))
    assert len(started) > 3
    assert await harness.attempts() == [("shutdown", 1, None)]


async def test_a_bot_wall_admits_only_visitors_that_look_like_people(
    make_settings: Callable[..., Settings],
) -> None:
    """Spec 1.7, 9.2."""
    async with DemoWeb(today=TODAY) as web:
        settings = make_settings(connect_to=(f"*.demo.test={web.ip}:{web.port}",), max_retries=0)
        (vault,) = [site for site in web.sites if site.walled]
        first, second = map(vault.url, vault.pieces)
        async with open_harness(settings) as harness:
            await harness.operations.sources.create("plain", "manual", {})
            await harness.operations.frontier.submit([first], "plain")
            await harness.work()
            assert await harness.outcomes() == {first: "max_retries"}
            await fetch(harness, second, source="driven", stealth="none")
            assert (await harness.outcomes())[second] == "max_retries"
            assert {reason for reason, *_ in await harness.attempts()} == {"max_retries"}
            await harness.operations.sources.edit("driven", {"stealth": "light"})
            await harness.operations.frontier.retry([second])
            await harness.work()
            assert (await harness.outcomes())[second] == "stored"
