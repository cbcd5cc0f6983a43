"""Runs of GOV.UK days again, in any order and after any failure, change nothing (spec 6.4, 6.8, 11.4, 11.5)."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

import pytest

from headwater.core.settings import Settings
from headwater.db.handoffs import HandoffFilter
from headwater.db.items import DayItem
from headwater.db.jobs import JobFilter
from headwater.demo.answers import Answer, Body, Maker, always, reset, status, truncated, whole
from headwater.demo.api import ApiRequest
from headwater.demo.govuk_pages import READING, RIVERS, TAXON_NAMES, GovukPage
from headwater.demo.plan import Piece
from tests.api_faults import empty_page, error_under_200, moved_total, short_page, shrunk_total, text_error
from tests.database_state import items
from tests.govuk import DAY, HOME, NIGHT, NOON, DayHarness, DoublingGovukApi, open_day_harness, page

MakeSettings = Callable[..., Settings]
DAYS = [DAY - timedelta(days=back) for back in range(29, -1, -1)]
LONG_AGO = datetime(2025, 4, 1, 9, tzinfo=UTC)
RERUNS = 100
FAULTS: tuple[Maker, ...] = (
    always(status(500)),
    always(text_error(503)),
    always(status(403)),
    always(reset),
    always(truncated),
    always(error_under_200),
)
SEARCH_FAULTS: tuple[Maker, ...] = (empty_page, moved_total, short_page, shrunk_total)


def noon(day: date) -> datetime:
    return NOON - timedelta(days=(DAY - day).days)


def make_month(chance: Random) -> Iterable[GovukPage]:
    """Make the pages of a month: on most days one of each sort, with taxons that change from page to page."""
    taxons = list(TAXON_NAMES)
    for day in DAYS:
        at, later = noon(day), noon(chance.choice(DAYS))
        sorts: dict[str, dict[str, Any]] = {
            "new": {},
            "new-and-updated": {"public_timestamp": max(at, later) + timedelta(hours=1)},
            "updated": {"at": LONG_AGO, "public_timestamp": at},
            "dates-differ": {"content_first_published_at": later},
            "not-in-content": {"in_content": False, "public_timestamp": max(at, later)},
            "undated": {"public_timestamp": None},
        }
        for name, details in sorts.items():
            if chance.random() < 0.7:
                published = details.pop("at", at)
                yield page(f"/{name}/{day}", published, taxons=(chance.choice(taxons),), **details)


def make_api() -> DoublingGovukApi:
    """Make GOV.UK with a month of pages, of which the search lists some twice."""
    chance = Random(1)
    api = DoublingGovukApi(make_month(chance))
    for one in api.pages:
        if one.public_timestamp and chance.random() < 0.2:
            again = one.public_timestamp + timedelta(minutes=5)
            api.list_again(replace(one, public_timestamp=again, organisations=(READING,), title="Listed again"))
    return api


@contextlib.asynccontextmanager
async def open_month(make_settings: MakeSettings) -> AsyncIterator[DayHarness]:
    """Open an application in the night after the month. Half of the pages can be fetched."""
    api = make_api()
    links = sorted({one.link for one in api.pages})[::2]
    pieces = tuple(Piece(f"About {link}", "rivers", 1, path=link) for link in links)
    async with open_day_harness(make_settings(), api, pieces=pieces, fetch_items=True) as harness:
        yield harness


async def observe(harness: DayHarness) -> dict[str, Any]:
    """Return what must not depend on the way of the runs: the index, the payload hashes, the jobs, the fetches."""
    index = {day: [replace(one, document_id=None) for one in await read_items(harness, day)] for day in DAYS}
    handoffs = (await harness.operations.handoffs.list_handoffs(HandoffFilter(), limit=5000)).handoffs
    jobs = (await harness.operations.handoffs.list_jobs(JobFilter(), limit=5000)).jobs
    fetches = await harness.rows("SELECT url, status, fetch_count FROM url_frontier ORDER BY url")
    return {
        "index": index,
        "payloads": Counter((one.url, one.payload_hash) for one in handoffs),
        "jobs": Counter((one.url, one.payload_hash, one.status) for one in jobs),
        "fetches": fetches,
        "titles": [(one.url, one.title, one.published_at, one.updated_at, one.tags) for one in await items(harness)],
    }


async def read_items(harness: DayHarness, day: date) -> list[DayItem]:
    return (await harness.view(day)).items


async def run_with_fault(harness: DayHarness, day: date, chance: Random) -> str:
    """Run a day with a fault or a stop at one of its requests. Return the status of the run."""
    nth, times = chance.randrange(1, 12), chance.choice([1, None])
    if chance.random() < 0.3:
        run = asyncio.create_task(harness.ingest(day))

        def stop(body: Body) -> Answer:
            run.cancel()
            return whole(body)

        harness.api.faults.plan(stop, nth=nth)
        with contextlib.suppress(asyncio.CancelledError):
            return (await run).status
        return "stopped"
    if chance.random() < 0.5:
        harness.api.faults.plan(chance.choice(FAULTS), nth=nth, times=times)
    else:
        harness.api.faults.plan(chance.choice(SEARCH_FAULTS), when=ApiRequest.is_search, nth=nth % 5 + 1, times=times)
    return (await harness.ingest(day)).status


async def test_a_month_read_in_any_order_with_failures_equals_one_clean_run(make_settings: MakeSettings) -> None:
    """Spec 6.4, 6.8, 11.4: 100 runs give the index, payloads, jobs and fetches of one clean run."""
    async with open_month(make_settings) as harness:
        for day in DAYS:
            assert (await harness.ingest(day)).status == "succeeded"
            await harness.work()
        clean = await observe(harness)
        assert all(clean["index"].values())
        assert {status for _, _, status in clean["jobs"]} == {"ready", "failed"}
        await harness.execute("TRUNCATE sources, url_frontier, host_state, frontier_queue, frontier_counts CASCADE")

    chance = Random(2)
    left, statuses = set(DAYS), Counter[str]()
    async with open_month(make_settings) as harness:
        for number in range(RERUNS):
            # The last runs read the days that have only failed until then.
            day = chance.choice(sorted(left)) if RERUNS - number <= len(left) else chance.choice(DAYS)
            harness.clock.set(NIGHT + timedelta(hours=2 * number))
            harness.api.faults.clear()
            is_faulty = RERUNS - number > len(left) and chance.random() < 0.5
            outcome = await run_with_fault(harness, day, chance) if is_faulty else (await harness.ingest(day)).status
            statuses[outcome] += 1
            if outcome == "succeeded":
                left.discard(day)
            await harness.work()
        found = await observe(harness)
    assert not left
    assert statuses["failed"] > 10
    assert statuses["stopped"] > 3
    for name, expected in clean.items():
        assert found[name] == expected, name


async def test_a_link_that_is_listed_twice_is_one_item_and_counts_twice(make_settings: MakeSettings) -> None:
    """Spec 6.4, 11.5: the latest wins, the arrays are united, and the run is complete."""
    older = page("/a", title="older", organisations=(RIVERS,))
    newer = replace(older, title="newer", organisations=(READING,), public_timestamp=NOON + timedelta(hours=1))
    async with open_day_harness(make_settings(), DoublingGovukApi([older])) as harness:
        harness.api.list_again(newer)
        run = await harness.ingest()
        assert (run.status, run.items, run.new, run.fetched, run.total) == ("succeeded", 1, 1, 4, 4)
        assert await harness.state() == "complete"
        (item,) = await items(harness)
    assert (item.title, item.updated_at) == ("newer", NOON + timedelta(hours=1))
    assert item.tags["organisations"] == sorted([RIVERS.title, READING.title])


async def test_published_at_is_the_date_of_first_publication(make_settings: MakeSettings) -> None:
    """Spec 6.1, 11.4: also for a page that both searches find. The date is looked up once, also after a restart."""
    first = NOON - timedelta(hours=3)
    settings = make_settings()
    async with open_day_harness(settings, [page("/a", first, public_timestamp=NOON)]) as harness:
        await harness.ingest()
        (row,) = (await harness.view()).items
        assert (row.published_at, row.updated_at, row.rule) == (first, NOON, "content_api")
        await harness.ingest()
        assert [asked.path for asked in harness.api.requests if asked.is_content()] == ["/api/content/a"]
        assert (await harness.view()).items == [row]


async def test_a_saved_date_that_the_search_contradicts_is_looked_up_again(make_settings: MakeSettings) -> None:
    """Spec 6.1: editors can back-date a page."""
    async with open_day_harness(make_settings(), [page("/a", public_timestamp=NOON)]) as harness:
        await harness.ingest()
        harness.api.put(page("/a", LONG_AGO, public_timestamp=NOON))
        await harness.ingest()
        assert len([asked for asked in harness.api.requests if asked.is_content()]) == 2
        assert [one.published_at for one in await items(harness)] == [LONG_AGO]


async def test_a_date_in_the_future_is_not_a_date_of_publication(make_settings: MakeSettings) -> None:
    """Issue 20: the window of the search dates the page instead, and no later day has it."""
    coming = NIGHT + timedelta(days=9)
    async with open_day_harness(make_settings(), [page("/a", content_first_published_at=coming)]) as harness:
        await harness.ingest()
        assert await harness.index() == {"/a": ("NEW", "published_window")}
        assert [one.published_at for one in await items(harness)] == [NOON]
        assert await harness.index(coming.date()) == {}


async def test_translations_of_a_page_have_their_own_dates(make_settings: MakeSettings) -> None:
    """Spec 6.1: they share a content_id."""
    morning = NOON - timedelta(hours=3)
    pages = [page("/a", public_timestamp=NOON), page("/a.cy", morning, public_timestamp=NOON, content_id="shared")]
    pages[0] = replace(pages[0], content_id="shared")
    async with open_day_harness(make_settings(), pages) as harness:
        for _ in range(2):
            await harness.ingest()
            assert [(one.url, one.published_at) for one in await items(harness)] == [
                (f"{HOME}/a", NOON),
                (f"{HOME}/a.cy", morning),
            ]


@pytest.mark.parametrize("lookups", ["auto", "always"])
async def test_topics_are_named_in_the_run_that_finds_them(make_settings: MakeSettings, lookups: str) -> None:
    """Spec 6.1: one page is looked up for each unknown name, also if the dates of all pages are known."""
    rivers, *_, weather = TAXON_NAMES
    pages = [page(f"/{number}", taxons=(rivers,)) for number in range(4)]
    async with open_day_harness(make_settings(), pages, content_lookups=lookups) as harness:
        await harness.ingest()
        assert {tuple(one.tags["topic"]) for one in await items(harness)} == {(TAXON_NAMES[rivers],)}
        before = len(harness.api.requests)
        for one in pages:
            harness.api.put(replace(one, taxons=(rivers, weather)))
        await harness.ingest()
        asked = [request.path for request in list(harness.api.requests)[before:] if request.is_content()]
        assert len(asked) == 1
        names = tuple(sorted((TAXON_NAMES[rivers], TAXON_NAMES[weather])))
        assert {tuple(one.tags["topic"]) for one in await items(harness)} == {names}


async def test_a_payload_does_not_depend_on_lookups(make_settings: MakeSettings) -> None:
    """Spec 11.4: the same payloads and jobs, whatever an earlier run knew of dates and taxons."""
    pages = [page("/a", taxons=tuple(TAXON_NAMES)), page("/b", LONG_AGO, public_timestamp=NOON)]
    async with open_day_harness(make_settings(), pages, fetch_items=True) as harness:

        async def payloads() -> Counter[tuple[str, str]]:
            found = (await harness.operations.handoffs.list_handoffs(HandoffFilter())).handoffs
            return Counter((one.url, one.payload_hash) for one in found)

        harness.api.faults.plan(always(status(403)), when=ApiRequest.is_content, times=None)
        assert (await harness.ingest()).status == "failed"
        before = await payloads()
        assert len(before) == 2
        harness.api.faults.clear()
        for lookups in ("never", "auto", "always"):
            await harness.settings(content_lookups=lookups)
            assert (await harness.ingest()).status == "succeeded"
            assert await payloads() == before
        assert (await harness.operations.handoffs.list_jobs(JobFilter())).total == 2


async def test_an_empty_day_is_complete_only_if_the_days_around_it_are_not_empty(make_settings: MakeSettings) -> None:
    """Spec 11.5."""
    async with open_day_harness(make_settings(), []) as harness:
        assert (await harness.ingest()).status == "succeeded"
        assert await harness.state() == "complete"
        past = DAY - timedelta(days=60)
        run = await harness.ingest(past)
        assert (run.status, run.reason) == ("failed", "incomplete")
        assert await harness.state(past) == "failed"
