"""A day of GOV.UK that cannot be read whole is not passed off as one (spec 6.5, 6.6; issue 7)."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
import pytest

from headwater.core.dates import day_of
from headwater.core.http import Response
from headwater.core.settings import Settings
from headwater.demo.answers import Answer, Body, Maker, always, busy, hang, reset, status, truncated, whole
from headwater.demo.api import ApiRequest, When
from headwater.demo.govuk_api import GovukApi
from headwater.demo.govuk_pages import LONDON, GovukPage
from headwater.demo.visits import TOLERANCE_SECONDS
from headwater.http.client import HttpClient
from headwater.sources.kinds import govuk
from tests.api_faults import (
    empty_page,
    error_under_200,
    moved_total,
    short_page,
    shrunk_total,
    text_error,
    text_under_200,
)
from tests.database_state import count
from tests.govuk import DAY, NIGHT, RETRY, DayHarness, open_day_harness, page
from tests.govuk_catalogue import make_catalogue

MakeSettings = Callable[..., Settings]
NEXT_DAY = DAY + timedelta(days=1)
SIZE, FITS = 30, 15  # pages of a day, and of an answer


def capped_total(body: Body) -> Answer:
    """Stop counting, as a search engine may."""
    decoded = msgspec.json.decode(body.content) | {"total": 10_000}
    return whole(Body(msgspec.json.encode(decoded), body.content_type, body.modified))


def is_page(asked: ApiRequest) -> bool:
    """Return whether a request asks for results, and not only for their count."""
    return asked.is_search() and asked.first("count") != "0"


FAULTS: dict[str, tuple[Maker, When, str]] = {
    "500": (always(status(500)), ApiRequest.is_search, "http_5xx"),
    "503 in words": (always(text_error(503)), ApiRequest.is_search, "http_5xx"),
    "reset": (always(reset), ApiRequest.is_search, "network"),
    "broken off": (always(truncated), ApiRequest.is_search, "network"),
    "an early empty page": (empty_page, is_page, "incomplete"),
    "a short page": (short_page, is_page, "incomplete"),
    "a shrunk total": (shrunk_total, ApiRequest.is_search, "incomplete"),
    "a moved total": (moved_total, ApiRequest.is_search, "incomplete"),
    "an error under 200": (always(error_under_200), ApiRequest.is_search, "incomplete"),
    "words under 200": (always(text_under_200), ApiRequest.is_search, "incomplete"),
    "a total of 10,000": (capped_total, ApiRequest.is_search, "incomplete"),
}
LOOK_UP_FAULTS: dict[str, tuple[Maker, str]] = {
    "500": (always(status(500)), "http_5xx"),
    "503 in words": (always(text_error(503)), "http_5xx"),
    "reset": (always(reset), "network"),
    "an error under 200": (always(error_under_200), "incomplete"),
    "words under 200": (always(text_under_200), "incomplete"),
    "429": (always(status(429)), "rate_limited"),
}


def two_days() -> GovukApi:
    """DAY, and the day after it, which takes several answers a window."""
    days = {DAY: 3, NEXT_DAY: 1}
    pages = [one for day, share in days.items() for one in make_catalogue(day, new=20 // share, latest=10 // share)]
    return GovukApi(_own_links(pages))


def _own_links(pages: list[GovukPage]) -> list[GovukPage]:
    return [replace(one, link=f"{one.link}-{number}") for number, one in enumerate(pages)]


async def read_good_day(harness: DayHarness) -> None:
    """Read DAY in its night, and come to the night after it."""
    assert (await harness.ingest(DAY)).status == "succeeded"
    harness.clock.set(NIGHT + timedelta(days=1))


async def indexed(harness: DayHarness) -> list[tuple[Any, ...]]:
    """All that is in the index."""
    return await harness.rows("SELECT * FROM daily_index ORDER BY source_id, day, item_id")


@pytest.fixture
def small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that holds as much less than a day as a real one does of 3,000 items, so that many can be tried."""
    monkeypatch.setattr(govuk, "MAX_RESULTS", FITS)


@pytest.mark.usefixtures("small_answers")
@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_on_any_page_fails_the_run_keeps_items_and_leaves_the_index(
    make_settings: MakeSettings, name: str
) -> None:
    """Spec 6.5: FAILED with its reason, items kept, index untouched, last good date served with who is behind."""
    fault, when, reason = FAULTS[name]
    async with open_day_harness(make_settings(), two_days(), content_lookups="never") as harness:
        await read_good_day(harness)
        before, good_day = await indexed(harness), (await harness.view(DAY)).items
        nth = 0
        while True:
            nth += 1
            harness.api.faults.clear()
            harness.api.faults.plan(fault, when=when, nth=nth, times=None)
            harness.api.requests.clear()
            run = await harness.ingest(NEXT_DAY)
            if sum(when(asked) for asked in harness.api.requests) < nth:
                break  # there is no such request any more
            assert (run.status, run.reason) == ("failed", reason), nth
            assert run.error
            assert (run.new, run.latest) == (None, None)
            assert run.items >= (FITS if nth > 1 else 0)  # the records of the answers before it
            assert await indexed(harness) == before
            latest = await harness.view(None)
            assert (latest.day, latest.items) == (DAY, good_day)
            assert [(one.day, one.state, one.reason) for one in latest.behind] == [(NEXT_DAY, "failed", reason)]
        assert nth > 6
        assert run.status == "succeeded"
        assert sorted((await harness.buckets(NEXT_DAY)).values()) == ["LATEST"] * 10 + ["NEW"] * 20
        assert (await harness.view(None)).behind == []
        assert (await harness.view(DAY)).items == good_day


@pytest.mark.parametrize("name", LOOK_UP_FAULTS)
async def test_a_look_up_that_stays_broken_fails_the_run_and_keeps_what_was_found(
    make_settings: MakeSettings, name: str
) -> None:
    """Spec 6.5."""
    fault, reason = LOOK_UP_FAULTS[name]
    async with open_day_harness(make_settings(), two_days()) as harness:
        await read_good_day(harness)
        before = await indexed(harness)
        harness.api.faults.plan(fault, when=ApiRequest.is_content, nth=4, times=None)
        run = await harness.ingest(NEXT_DAY)
        assert (run.status, run.reason, run.items) == ("failed", reason, SIZE)
        assert await indexed(harness) == before
        assert await harness.state(NEXT_DAY) == "failed"
        harness.api.faults.clear()
        assert (await harness.ingest(NEXT_DAY)).status == "succeeded"
        assert sorted((await harness.buckets(NEXT_DAY)).values()) == ["LATEST"] * 10 + ["NEW"] * 20


async def test_a_day_of_thousands_that_breaks_off_keeps_its_thousands(make_settings: MakeSettings) -> None:
    """Spec 6.5: items kept, index as of the reading before, its day still served; then it is read whole."""
    pages = make_catalogue(DAY, new=1400, latest=700)
    async with open_day_harness(make_settings(), pages[:40], content_lookups="never") as harness:
        await harness.ingest()
        before, good_day = await indexed(harness), (await harness.view()).items
        for one in pages[40:]:
            harness.api.put(one)
        harness.api.faults.plan(empty_page, when=is_page, nth=4, times=None)
        run = await harness.ingest()
        assert (run.status, run.reason) == ("failed", "incomplete")
        assert "0 of 1400" in run.error
        assert 1000 <= run.items < 2100
        assert await count(harness, "items") >= run.items
        assert await indexed(harness) == before
        assert (await harness.view()).items == (await harness.view(None)).items == good_day
        assert await harness.state() == "complete"
        assert (await harness.view()).sources[0].reason == "incomplete"
        harness.api.faults.clear()
        run = await harness.ingest()
        assert (run.status, run.new, run.latest) == ("succeeded", 1400, 700)


async def test_a_day_that_was_read_before_its_end_is_behind_when_its_night_fails(make_settings: MakeSettings) -> None:
    """Spec 6.5: the last good date is served, and the answer says that a later one should be there."""
    async with open_day_harness(make_settings(), [page("/a")], at=NIGHT - timedelta(days=1)) as harness:
        await harness.ingest(DAY - timedelta(days=1))
        harness.clock.set(NIGHT - timedelta(hours=10))
        await harness.ingest(DAY)
        assert await harness.state() == "so_far"
        harness.clock.set(NIGHT)
        harness.api.faults.plan(always(status(500)), times=None)
        assert (await harness.ingest(DAY)).status == "failed"
        latest = await harness.view(None)
        assert latest.day == DAY - timedelta(days=1)
        assert [(one.day, one.state, one.reason) for one in latest.behind] == [(DAY, "so_far", "http_5xx")]


def last_day() -> date:
    """The last London day that is over, by the clock of the web, which also gives its dates."""
    return day_of(datetime.now(UTC), LONDON) - timedelta(days=1)


HANGING = always(hang)
HEALING: dict[str, tuple[Maker, When, int]] = {
    "500 twice": (always(status(500)), ApiRequest.is_search, 2),
    "500 thrice": (always(status(500)), ApiRequest.is_search, 3),
    "503 in words": (always(text_error(503)), ApiRequest.is_search, 3),
    "no answer in time": (HANGING, ApiRequest.is_search, 2),
    "reset": (always(reset), ApiRequest.is_search, 2),
    "broken off": (always(truncated), ApiRequest.is_search, 2),
    "429 without a word": (always(status(429)), ApiRequest.is_search, 3),
    "a moved total": (moved_total, ApiRequest.is_search, 1),
    "a shrunk total": (shrunk_total, ApiRequest.is_search, 1),
    "an empty page": (empty_page, is_page, 2),
    "an error under 200": (always(error_under_200), ApiRequest.is_search, 1),
    "words under 200": (always(text_under_200), ApiRequest.is_search, 1),
    "look-up 500": (always(status(500)), ApiRequest.is_content, 3),
    "look-up reset": (always(reset), ApiRequest.is_content, 2),
    "look-up without an answer": (HANGING, ApiRequest.is_content, 2),
}


@pytest.mark.usefixtures("small_answers")
async def test_a_fault_that_heals_in_time_is_waited_out(make_settings: MakeSettings) -> None:
    """Spec 6.6: 5xx, timeouts, resets and 429 are tried again; an incomplete answer is read again."""
    async with open_day_harness(make_settings(), two_days()) as harness:
        await read_good_day(harness)
        for name, (fault, when, times) in HEALING.items():
            seconds = 0.3 if fault is HANGING else 5
            await harness.settings(timeout={"connect": 5, "read": seconds, "total": seconds})
            for nth in (1, 4):
                harness.api.faults.clear()
                harness.api.faults.plan(fault, when=when, nth=nth, times=times)
                await harness.execute("UPDATE poll_state SET state = '{}'")  # forget the lookups
                run = await harness.ingest(NEXT_DAY)
                assert (run.status, run.new, run.latest) == ("succeeded", 20, 10), (name, nth)


@pytest.mark.parametrize("as_date", [False, True])
@pytest.mark.parametrize("when", [ApiRequest.is_search, ApiRequest.is_content])
async def test_no_request_is_sent_sooner_than_retry_after_says(
    make_settings: MakeSettings, when: When, as_date: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 6.6: 429, with Retry-After in seconds or as a date; it holds for all requests and not for one."""
    seconds = 2 if as_date else 1  # a date has no fractions, so that it asks for up to a second less
    pages = make_catalogue(day := last_day(), new=12, latest=8)
    begun: list[float] = []
    heard: list[int] = []  # how many were begun before
    real = HttpClient.request

    async def watched(self: HttpClient, method: str, url: str, **options: Any) -> Response:
        begun.append(time.monotonic())
        response = await real(self, method, url, **options)
        if response.status == 429:
            heard.append(len(begun))
        return response

    monkeypatch.setattr(HttpClient, "request", watched)
    async with open_day_harness(make_settings(), pages, at=datetime.now(UTC)) as harness:
        harness.api.faults.plan(always(busy(seconds, as_date=as_date)), when=when, nth=2)
        run = await harness.ingest(day)
        assert (run.status, run.new, run.latest) == ("succeeded", 12, 8)
        (refused,) = (asked for asked in harness.web.requests if asked.status == 429)
        (before,) = heard
        assert refused.pause > 0.5
        assert begun[before] >= refused.ended + refused.pause - 0.05
        # One may be on its way when the answer comes, which went out some ticks after `ended` at the latest.
        assert (
            sum(asked.arrived > refused.ended + TOLERANCE_SECONDS for asked in harness.web.requests)
            <= len(begun[before:]) + 1
        )


async def test_a_requested_wait_that_is_too_long_ends_the_run(make_settings: MakeSettings) -> None:
    """Spec 6.6: the run fails at once with the reason, and is not kept waiting."""
    retry = RETRY | {"longest_seconds": 5}
    async with open_day_harness(make_settings(), [page("/a")], retry=retry) as harness:
        harness.api.faults.plan(always(busy(60)))
        run = await asyncio.wait_for(harness.ingest(), 5)
        assert (run.status, run.reason, len(harness.api.requests)) == ("failed", "rate_limited", 1)
