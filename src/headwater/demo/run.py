"""`headwater demo`: serves the small web and runs the whole flow on it."""

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from headwater.app.maintenance import MaintenanceRole
from headwater.app.metrics import Metrics
from headwater.app.operations import Operations
from headwater.app.polling import PollerRole
from headwater.app.roles import Role, make_fetch_pool, run_in_background
from headwater.app.runtime import open_runtime
from headwater.canonical.operations import CanonicalTotals
from headwater.core.dates import day_of
from headwater.core.errors import FolderUnusable, OperatorError, RunUnderWay
from headwater.core.frontier import FrontierStatus
from headwater.core.json_values import JsonObject
from headwater.core.run import RunStatus
from headwater.core.settings import SETTINGS_FILE, Settings
from headwater.core.urls import host_of
from headwater.core.waiting import finish_or_cancel
from headwater.db.context import open_database_context
from headwater.db.frontier import UrlLine
from headwater.demo.expected import Expected, ExpectedFeed, expected_feeds, expected_outcomes
from headwater.demo.federal_run import has_federal, read_federal
from headwater.demo.federal_sites import KEY, SHARES
from headwater.demo.govuk_site import GOVUK
from headwater.demo.outcome import DATED_SOURCE, DemoOutcome, check_outcome, count_unfinished_handoffs
from headwater.demo.progress import Progress, describe_wait, repeat_progress
from headwater.demo.web import DemoWeb
from headwater.documents.days import DayState
from headwater.documents.operations import DayFilter
from headwater.politeness.gate import Gate

DELAY_MS = 50
LEASE_SECONDS = 8.0  # short, so that a demo does not wait long for the leases of a killed one
LONG_WAIT = timedelta(minutes=1)  # a URL that waits longer is shown as waiting
PATIENCE_SECONDS = 90.0
_CHECK_SECONDS = 0.1  # between two checks of what is left to do
DAY_FILE = "demo-day"
CATEGORY = "demo"
# A slow run would otherwise also read the sitemaps of these sites, and find more pages than a quick one.
_FEED_SETTINGS = {"category": CATEGORY, "sitemap_hours": None}


@dataclass(frozen=True, slots=True)
class Demo:
    """A running small web, and the settings of a Headwater that uses it."""

    web: DemoWeb
    settings: Settings
    is_continued: bool  # the folder has the data of an earlier demo, which may have been killed

    async def run(self, progress: Progress) -> DemoOutcome:
        """Run one whole cycle and check its result."""
        ends = {"": time.monotonic()}
        async with repeat_progress(progress) as report:
            report("start", 0, 1, "the database")
            async with (
                open_database_context(self.settings) as context,
                open_runtime(context) as runtime,
                _starting_browser(runtime.gate) as has_browser,
            ):
                report("start", 1, 1, "")
                runtime.sandbox.start()
                operations = Operations(runtime, Metrics())
                ends["start"] = time.monotonic()
                await _read_feeds(operations, expected_feeds(self.web), report)
                expected = expected_outcomes(self.web, has_browser=await has_browser, is_continued=self.is_continued)
                await _add_sites(operations, expected)
                ends["feeds"] = time.monotonic()
                day_is_read = await _read_day(operations, expected, report)
                federal_is_read = not has_federal(self.web) or await read_federal(operations, self.web.today, report)
                ends["sources"] = time.monotonic()
                await _fetch_pages(operations, expected, report, day_is_read, federal_is_read)
                articles = await _make_articles(operations, report)
                ends["pages"] = time.monotonic()
                outcome = await check_outcome(operations, self.web, expected, articles, DELAY_MS / 1000)
                ends["checks"] = time.monotonic()
        return replace(outcome, seconds={stage: end - start for (_, start), (stage, end) in pairwise(ends.items())})


@contextlib.asynccontextmanager
async def open_demo(data: Path | None, *, stays: bool = False) -> AsyncIterator[Demo]:
    """Open the demo in a folder, or in a temporary one. With `stays`, write its settings for other commands."""
    with contextlib.nullcontext(data) if data else _temporary_folder() as folder:
        day, begun_at, is_continued = _read_or_begin_day(folder)
        async with DemoWeb(today=day, begun_at=begun_at) as web:
            chosen = _demo_settings(folder, web)
            if stays:  # otherwise another demo may serve from this folder
                _write_settings(folder, chosen)
            yield Demo(web, Settings(**chosen), is_continued)


@contextlib.contextmanager
def _temporary_folder() -> Iterator[Path]:
    try:
        folder = tempfile.TemporaryDirectory(prefix="headwater-demo-")
    except OSError as error:
        raise FolderUnusable(
            f"The demo cannot create a temporary folder: {error.strerror}. Name a folder with --data, or set TMPDIR."
        ) from None
    with folder as name:
        yield Path(name)


def _demo_settings(data: Path, web: DemoWeb) -> JsonObject:
    return {
        "data_dir": data,
        "listen_port": 0,
        "allow_networks": ("127.0.0.0/8",),
        "connect_to": (f"*.demo.test={web.ip}:{web.port}",),
        "host_delay_ms": DELAY_MS,
        "lease_seconds": LEASE_SECONDS,
        "page_timeout_seconds": 0.75,
        "max_body_mb": 4,
        "retry_base_seconds": 0.02,
        "poll_check_seconds": 0.5,
        "api_data_gov_key": KEY,
        "rate_limits": dict(SHARES),
    }


def _write_settings(data: Path, chosen: Mapping[str, Any]) -> None:
    """Write the settings file that other commands need to use the small web and its key."""
    with _using(data):
        _replace_file(data / SETTINGS_FILE, "".join(f"{name} = {_toml(value)}\n" for name, value in chosen.items()))


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(inner)}" for name, inner in value.items()) + " }"
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)


def _read_or_begin_day(data: Path) -> tuple[date, datetime, bool]:
    """Return the day of the demo in a folder, when it was begun, and whether an earlier demo began it."""
    with _using(data):
        data.mkdir(parents=True, exist_ok=True)
        path = data / DAY_FILE
        if path.exists():
            return date.fromisoformat(path.read_text(encoding="ascii")), _read_time(path), True
        if any(entry != path.with_suffix(".new") for entry in data.iterdir()):
            raise FolderUnusable(
                f"The folder {data} holds files that are not the demo's. Name an empty or a new folder."
            )
        today = day_of(datetime.now(UTC), Settings().timezone)
        _replace_file(path, today.isoformat())
        return today, _read_time(path), False


def _read_time(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _replace_file(path: Path, text: str) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


@contextlib.contextmanager
def _using(data: Path) -> Iterator[None]:
    try:
        yield
        return
    except (FileExistsError, NotADirectoryError):
        why = "its path leads through a file"
    except OSError as error:
        why = error.strerror or str(error)
    except UnicodeEncodeError:
        why = "its name is not UTF-8, as a settings file must be"
    except ValueError:
        why = f"its file {DAY_FILE} holds no date"
    message = f"The demo cannot use the folder {data}: {why}. Name another with --data."
    raise FolderUnusable(message)


async def _read_feeds(operations: Operations, feeds: Mapping[str, ExpectedFeed], progress: Progress) -> None:
    known = {source.settings.get("feed_url") for source in await operations.sources.list_sources()}
    for done, (host, feed) in enumerate(feeds.items()):
        progress("feeds", done, len(feeds), host)
        if feed.url not in known:
            try:
                await operations.sources.add(feed.url, overrides=_FEED_SETTINGS)
            except OperatorError as error:
                if error.url != feed.url:  # if the feed failed, the check of the feeds reports it
                    raise
    progress("feeds", len(feeds), len(feeds), "")


async def _add_sites(operations: Operations, expected: Expected) -> None:
    """Add the sites without a feed. Their sitemaps and pages are read while other pages are fetched."""
    known = {source.name: source.last_success_at for source in await operations.sources.list_sources()}
    for host, settings in expected.sites.items():
        if host not in known:
            await operations.sources.create(host, "site", dict(settings))
        if not known.get(host) and "sitemap_url" in settings:
            await _reach_back(operations, host, expected.today)
    for host, pages in expected.walled.items():
        if host not in known:
            await operations.sources.create(host, "manual", {"needs_browser": True, "stealth": "full"})
        await operations.frontier.submit(pages, host)
    if expected.day_links and DATED_SOURCE not in known:
        await operations.sources.create(DATED_SOURCE, "govuk", {"site_url": GOVUK.home})


async def _reach_back(operations: Operations, host: str, day: date) -> None:
    """Request a backfill of a sitemap whose day is in the past, so that its new pages of that day are found."""
    if day < day_of(operations.runtime.context.clock.now(), operations.runtime.context.settings.timezone):
        with contextlib.suppress(RunUnderWay):
            await operations.sources.request_backfill(host, day - timedelta(days=1))


@contextlib.asynccontextmanager
async def _starting_browser(gate: Gate) -> AsyncIterator["asyncio.Task[bool]"]:
    """Start the browser in the background, and return a task that reports whether it starts."""
    starting = asyncio.create_task(_has_browser(gate))
    try:
        yield starting
    finally:
        await finish_or_cancel([starting], 0)


async def _has_browser(gate: Gate) -> bool:
    """Check whether a browser starts. Without one, the pages behind the bot wall wait."""
    try:
        await gate.browser.start()
    except OperatorError:
        return False
    return True


async def _read_day(operations: Operations, expected: Expected, progress: Progress) -> bool:
    """Read the day of GOV.UK unless another process reads it. Returns whether it has been read."""
    if not expected.day_links:
        return True
    (day,) = (await operations.days.day(expected.day, DayFilter(source=DATED_SOURCE))).sources
    if day.read_at or day.state is DayState.RUNNING:
        return day.read_at is not None
    progress("day", 0, 1, f"GOV.UK on {expected.day}")
    run = await operations.runs.ingest(DATED_SOURCE, expected.day)
    progress("day", 1, 1, "")
    return run.status is RunStatus.SUCCEEDED


async def _fetch_pages(
    operations: Operations, expected: Expected, progress: Progress, day_is_read: bool, federal_is_read: bool
) -> None:
    """Read sites and fetch pages until only long waits are left. Polls that were interrupted are repeated."""
    pages = len(expected.outcomes)
    found_on_sites = {url for url in expected.outcomes if host_of(url) in expected.sites}
    roles: list[Role] = [
        make_fetch_pool(operations.runtime, operations.metrics),
        MaintenanceRole(operations.runtime.context, interval_seconds=0.5),
        PollerRole(operations.runtime, is_long=True),
    ]
    async with run_in_background(roles):
        feeds_are_read = False
        give_up = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < give_up:
            day_is_read = day_is_read or await _read_day(operations, expected, progress)
            federal_is_read = federal_is_read or await read_federal(operations, expected.today, progress)
            listed = [] if feeds_are_read else await operations.sources.list_sources()
            unread = [one for one in listed if one.last_success_at is None and "feed_url" in one.settings]
            feeds_are_read = not unread
            for source in unread:
                if not source.polling:
                    with contextlib.suppress(RunUnderWay):  # the poll of a killed program ends with its lease
                        await operations.sources.sync(source.name)
            soon = operations.runtime.context.clock.now() + LONG_WAIT
            outcomes = (await operations.frontier.list_urls()).urls
            unsettled = [outcome for outcome in outcomes if not _is_settled(outcome, soon)]
            unfound = found_on_sites.difference(outcome.url for outcome in outcomes)
            are_read = {"GOV.UK": day_is_read, "federal sources": federal_is_read}
            waits_for = describe_wait(
                feeds=len(unread),
                unsettled=unsettled,
                unfound=unfound,
                sources=[name for name, is_read in are_read.items() if not is_read],
                handoffs=await count_unfinished_handoffs(operations),
            )
            progress("pages", len(outcomes) - len(unsettled), max(pages, len(outcomes)), waits_for)
            if not waits_for:
                break
            await asyncio.sleep(_CHECK_SECONDS)


async def _make_articles(operations: Operations, progress: Progress) -> CanonicalTotals:
    """Make the canonical article of every feed link, or record why it has none. This sends no request."""
    totals = CanonicalTotals()
    give_up = time.monotonic() + 2 * LEASE_SECONDS
    progress("articles", 0, 1, "")
    while await operations.runtime.canonical_runner.run(totals, contextlib.nullcontext) and time.monotonic() < give_up:
        await asyncio.sleep(0.1)  # the lease of a killed demo must end
    progress("articles", 1, 1, "")
    return totals


def _is_settled(outcome: UrlLine, soon: datetime) -> bool:
    """Check whether a URL has ended, or waits for so long that it is shown as waiting."""
    waits = outcome.status is FrontierStatus.PENDING and (outcome.due_at is None or outcome.due_at > soon)
    return waits or outcome.status in (FrontierStatus.FETCHED, FrontierStatus.DEAD)
