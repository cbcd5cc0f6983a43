"""`headwater demo`: serve the small web and run the whole flow on it."""

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from headwater.app.maintenance import MaintenanceRole
from headwater.app.metrics import Metrics
from headwater.app.operations import Operations
from headwater.app.polling import LONG_AT_ONCE, LONG_METHODS, PollerRole
from headwater.app.roles import Role, at_work, make_fetch_pool
from headwater.app.runtime import open_runtime
from headwater.canonical.operations import CanonicalTotals
from headwater.core.dates import day_of
from headwater.core.errors import OperatorError, RunUnderWay
from headwater.core.frontier import UrlStatus
from headwater.core.reasons import Reason
from headwater.core.settings import SETTINGS_FILE, Settings
from headwater.core.urls import host_of
from headwater.db.context import open_database_context
from headwater.demo.expected import Expected, ExpectedFeed, expected_feeds, expected_outcomes
from headwater.demo.federal_run import has_federal, read_federal
from headwater.demo.federal_sites import KEY, SHARES
from headwater.demo.govuk_site import GOVUK
from headwater.demo.outcome import DATED_SOURCE, DemoOutcome, look, unfinished_handoffs
from headwater.demo.progress import Progress, told_again, waited_for
from headwater.demo.web import DemoWeb
from headwater.documents.days import DayState
from headwater.documents.operations import DayFilter
from headwater.politeness.gate import Gate

DELAY_MS = 50
# Whoever killed an earlier demo need not wait long for its leases.
LEASE_SECONDS = 8.0
# What waits longer than this is shown as waiting.
LONG_WAIT = timedelta(minutes=1)
PATIENCE_SECONDS = 90.0
_LOOK_SECONDS = 0.1  # between two looks at how far it is
DAY_FILE = "demo-day"
CATEGORY = "demo"


@dataclass(frozen=True, slots=True)
class Demo:
    """The small web, up, and the settings of a Headwater that is turned towards it."""

    web: DemoWeb
    settings: Settings
    goes_on: bool  # an earlier one was here, which may have been killed

    async def run(self, progress: Progress) -> DemoOutcome:
        """Run one whole cycle and look at what it brought."""
        clock = _Stopwatch()
        async with told_again(progress) as tell:
            tell("start", 0, 1, "the database")
            async with (
                open_database_context(self.settings) as context,
                open_runtime(context) as runtime,
                _starting_browser(runtime.gate) as has_browser,
            ):
                tell("start", 1, 1, "")
                runtime.sandbox.start()
                operations = Operations(runtime, Metrics())
                clock.lap("start")
                await _read_feeds(operations, expected_feeds(self.web), tell)
                expected = expected_outcomes(self.web, has_browser=await has_browser, goes_on=self.goes_on)
                await _add_sites(operations, expected)
                clock.lap("feeds")
                day_is_read = await _read_day(operations, expected, tell)
                federal_is_read = not has_federal(self.web) or await read_federal(operations, self.web.today, tell)
                clock.lap("sources")
                await _fetch_pages(operations, expected, tell, day_is_read=day_is_read, federal_is_read=federal_is_read)
                articles = await _make_articles(operations, tell)
                clock.lap("pages")
                outcome = await look(operations, self.web, expected, articles, DELAY_MS / 1000)
                clock.lap("checks")
        return replace(outcome, seconds=clock.laps)


@contextlib.asynccontextmanager
async def open_demo(data: Path | None, *, stays: bool = False) -> AsyncIterator[Demo]:
    """Open the demo in a folder that is kept, or in one that is thrown away; `stays` is one to look around in."""
    with contextlib.nullcontext(data) if data else _passing_folder() as folder:
        day, goes_on = _day(folder)
        async with DemoWeb(today=day) as web:
            chosen = _chosen(folder, web)
            if stays:  # and not else: it may be another's, that serves from this folder
                _write_settings(folder, chosen)
            yield Demo(web, Settings(**chosen), goes_on)


@contextlib.contextmanager
def _passing_folder() -> Iterator[Path]:
    try:
        passing = tempfile.TemporaryDirectory(prefix="headwater-demo-")
    except OSError as error:
        raise OperatorError(
            f"No folder can be made for the demo: {error.strerror}. Name one with --data, or set TMPDIR.",
            reason=Reason.FOLDER_UNUSABLE,
        ) from None
    with passing as name:
        yield Path(name)


def _chosen(data: Path, web: DemoWeb) -> dict[str, Any]:
    """Return settings that are quick where the defaults are patient."""
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
        "poll_look_seconds": 0.5,
        "api_data_gov_key": KEY,
        "rate_limits": dict(SHARES),
    }


def _write_settings(data: Path, chosen: Mapping[str, Any]) -> None:
    """Write them down for whoever runs other commands beside the demo: without them there is neither web nor key."""
    tables = {name: value for name, value in chosen.items() if isinstance(value, dict)}
    lines = [f"{name} = {_toml(value)}" for name, value in chosen.items() if name not in tables]
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
    path = data / SETTINGS_FILE
    draft = path.with_suffix(".new")
    try:
        draft.write_bytes(("\n".join(lines) + "\n").encode())
        draft.replace(path)
    except UnicodeEncodeError:
        raise _unusable(data, "its name is not UTF-8, as a settings file must be") from None
    except OSError as error:
        raise _unusable(data, error.strerror or str(error)) from None


def _toml(value: object) -> str:
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)


def _day(data: Path) -> tuple[date, bool]:
    """Return the demo's day, and whether it is one that was begun before: then it goes on with the same web."""
    try:
        data.mkdir(parents=True, exist_ok=True)
        path = data / DAY_FILE
        if path.exists():
            return date.fromisoformat(path.read_text(encoding="ascii")), True
        draft = path.with_suffix(".new")
        if any(entry != draft for entry in data.iterdir()):
            raise OperatorError(
                f"The folder {data} holds something that is not the demo's; name an empty or a new one.",
                reason=Reason.FOLDER_UNUSABLE,
            )
        today = day_of(datetime.now(UTC), Settings().timezone)
        draft.write_text(today.isoformat(), encoding="ascii")
        draft.replace(path)
    except (FileExistsError, NotADirectoryError):
        raise _unusable(data, "it, or a part of the way to it, is not a folder") from None
    except OSError as error:
        raise _unusable(data, error.strerror or str(error)) from None
    except ValueError:
        raise _unusable(data, f"what is in its file {DAY_FILE} is not a day") from None
    return today, False


def _unusable(data: Path, why: str) -> OperatorError:
    what = f"The folder {data} cannot be used for the demo: {why}. Name another with --data."
    return OperatorError(what, reason=Reason.FOLDER_UNUSABLE)


async def _read_feeds(operations: Operations, feeds: Mapping[str, ExpectedFeed], progress: Progress) -> None:
    known = {source["settings"].get("feed_url") for source in await operations.sources.listed()}
    for done, (host, feed) in enumerate(feeds.items()):
        progress("feeds", done, len(feeds), host)
        if feed.url not in known:
            await _add(operations, feed.url)
    progress("feeds", len(feeds), len(feeds), "")


async def _add(operations: Operations, url: str) -> None:
    try:
        await operations.sources.add(url, overrides={"category": CATEGORY})
    except OperatorError as error:
        if error.url != url:
            raise
        # The feed did not answer as it must: the check of the feeds will say so.


async def _add_sites(operations: Operations, expected: Expected) -> None:
    """Add the sites without a feed; their sitemaps and pages are read while other pages are fetched."""
    known = {source["name"]: source["last_success_at"] for source in await operations.sources.listed()}
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
    """Let sitemaps that are read later than on their day be read for what was new then."""
    if day < day_of(operations.runtime.context.clock.now(), operations.runtime.context.settings.timezone):
        with contextlib.suppress(RunUnderWay):  # by another demo, or one that died at it
            await operations.sources.request_backfill(host, day - timedelta(days=1))


@contextlib.asynccontextmanager
async def _starting_browser(gate: Gate) -> AsyncIterator["asyncio.Task[bool]"]:
    """Start the browser while other things are done, and find out whether there is one."""
    starting = asyncio.create_task(_has_browser(gate))
    try:
        yield starting
    finally:
        starting.cancel()
        await asyncio.wait([starting])


async def _has_browser(gate: Gate) -> bool:
    """Tell whether there is a browser that starts: what is behind a wall waits, where there is none."""
    try:
        await gate.start_browser()
    except OperatorError:
        return False
    return True


async def _read_day(operations: Operations, expected: Expected, progress: Progress) -> bool:
    """Read the day of the source that has days, unless somebody is at it; tell whether it has been read."""
    if not expected.day_links:
        return True
    (stands,) = (await operations.days.day(expected.day, DayFilter(source=DATED_SOURCE))).sources
    if stands.read_at or stands.state is DayState.RUNNING:
        return stands.read_at is not None
    progress("day", 0, 1, f"GOV.UK on {expected.day}")
    run = await operations.runs.ingest(DATED_SOURCE, expected.day)
    progress("day", 1, 1, "")
    return bool(run["status"] == "succeeded")


async def _fetch_pages(
    operations: Operations, expected: Expected, progress: Progress, *, day_is_read: bool, federal_is_read: bool
) -> None:
    """Read sites and fetch pages until nothing is left to do but wait; polls that were cut short are done again."""
    pages = len(expected.outcomes)
    found_on_sites = {url for url in expected.outcomes if host_of(url) in expected.sites}
    roles: list[Role] = [
        make_fetch_pool(operations.runtime, operations.metrics),
        MaintenanceRole(operations.runtime.context, look_seconds=0.5),
        PollerRole(operations.runtime, methods=LONG_METHODS, at_once=LONG_AT_ONCE),
    ]
    async with at_work(roles):
        feeds_are_read = False
        give_up = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < give_up:
            day_is_read = day_is_read or await _read_day(operations, expected, progress)
            federal_is_read = federal_is_read or await read_federal(operations, expected.today, progress)
            listed = [] if feeds_are_read else await operations.sources.listed()
            unread = [source for source in listed if _is_unread_feed(source)]
            feeds_are_read = not unread
            for source in unread:
                if not source["polling"]:
                    with contextlib.suppress(RunUnderWay):  # of a program that died: it ends with its lease
                        await operations.sources.sync(source["name"])
            soon = operations.runtime.context.clock.now() + LONG_WAIT
            outcomes = await operations.frontier.urls()
            unsettled = [outcome for outcome in outcomes if not _is_settled(outcome, soon)]
            unfound = found_on_sites.difference(outcome["url"] for outcome in outcomes)
            are_read = {"GOV.UK": day_is_read, "federal sources": federal_is_read}
            waits_for = waited_for(
                feeds=len(unread),
                unsettled=unsettled,
                unfound=unfound,
                sources=[name for name, is_read in are_read.items() if not is_read],
                handoffs=await unfinished_handoffs(operations),
            )
            progress("pages", len(outcomes) - len(unsettled), max(pages, len(outcomes)), waits_for)
            if not waits_for:
                break
            await asyncio.sleep(_LOOK_SECONDS)


async def _make_articles(operations: Operations, progress: Progress) -> CanonicalTotals:
    """Let every link of the feeds have its canonical article, or the code of why it has none; nothing is asked for."""
    totals = CanonicalTotals()
    give_up = time.monotonic() + 2 * LEASE_SECONDS
    progress("articles", 0, 1, "")
    while await operations.runtime.canonical_runner.run(totals, contextlib.nullcontext) and time.monotonic() < give_up:
        await asyncio.sleep(0.1)  # a demo that was killed has left its lease
    progress("articles", 1, 1, "")
    return totals


def _is_unread_feed(source: Mapping[str, Any]) -> bool:
    return source["last_success_at"] is None and "feed_url" in source["settings"]


def _is_settled(outcome: Mapping[str, Any], soon: datetime) -> bool:
    """Tell whether a URL has ended, or waits for so long that it is shown as waiting."""
    waits = outcome["status"] == UrlStatus.PENDING and outcome["due_at"] > soon
    return waits or outcome["status"] in (UrlStatus.FETCHED, UrlStatus.DEAD)


class _Stopwatch:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, stage: str) -> None:
        now = time.monotonic()
        self.laps[stage] = now - self._last
        self._last = now
