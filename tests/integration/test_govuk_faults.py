"""A day of GOV.UK that cannot be read whole is not passed off as one (spec 6.5, 6.6; issue 7)."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from headwater.config import Settings
from headwater.demo.answers import Body, Maker, always, busy, hang, reset, status, truncated
from headwater.demo.govuk import GovukApi
from headwater.demo.govuk_faults import (
    ApiRequest,
    When,
    empty_page,
    error_under_200,
    moved_total,
    short_page,
    shrunk_total,
    text_error,
    text_under_200,
)
from headwater.demo.govuk_pages import LONDON, make_catalogue
from headwater.policy.days import day_of
from headwater.sources import govuk_search
from tests.govuk import DAY, NIGHT, RETRY, DayHouse, open_day_house, page

MakeSettings = Callable[..., Settings]
NEXT_DAY = DAY + timedelta(days=1)
SIZE, FITS = 30, 15  # pages of a day, and of an answer


def capped_total(body: Body) -> Any:
    """Stop counting, as a search engine may."""
    import msgspec

    from headwater.demo.answers import whole

    told = msgspec.json.decode(body.content) | {"total": 10_000}
    return whole(Body(msgspec.json.encode(told), body.content_type, body.modified))


def is_page(asked: ApiRequest) -> bool:
    """Tell whether results are asked for, and not only how many there are."""
    return asked.is_search() and asked.first("count") != "0"


FAULTS: dict[str, tuple[Maker, When, str]] = {
    "500": (always(status(500)), ApiRequest.is_search, "http_5xx"),
    "503 in words": (always(text_error(503)), ApiRequest.is_search, "http_5xx"),
    "reset": (always(reset), ApiRequest.is_search, "network"),
    "broken off": (always(truncated), ApiRequest.is_search, "network"),
    "an early empty page": (empty_page, is_page, "incomplete"),
    "a short page": (short_page(), is_page, "incomplete"),
    "a shrunk total": (shrunk_total(), ApiRequest.is_search, "incomplete"),
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


def _own_links(pages: list[Any]) -> list[Any]:
    from dataclasses import replace

    return [replace(one, link=f"{one.link}-{number}") for number, one in enumerate(pages)]


async def read_good_day(house: DayHouse) -> None:
    """Read DAY in its night, and come to the night after it."""
    assert (await house.ingest(DAY))["status"] == "succeeded"
    house.clock.set(NIGHT + timedelta(days=1))


async def indexed(house: DayHouse) -> list[tuple[Any, ...]]:
    """All that is in the index."""
    return await house.rows("SELECT * FROM daily_index ORDER BY source_id, day, item_id")


@pytest.fixture
def small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that holds as much less than a day as a real one does of 3,000 items, so that many can be tried."""
    monkeypatch.setattr(govuk_search, "MOST_RESULTS", FITS)


@pytest.mark.usefixtures("small_answers")
@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_on_any_page_fails_the_run_keeps_items_and_leaves_the_index(
    make_settings: MakeSettings, name: str
) -> None:
    """Spec 6.5: FAILED with its reason, items kept, index untouched, last good date served with who is behind."""
    fault, when, reason = FAULTS[name]
    async with open_day_house(make_settings(), two_days(), content_lookups="never") as house:
        await read_good_day(house)
        before, good_day = await indexed(house), (await house.view(DAY)).items
        begun = len(house.api.requests)
        count_of = {True: 0}
        house.api.faults.plan(always(status(500)), when=lambda _: False)
        # As many tries as such a day takes requests; the last meets the last of them.
        tries = 0
        while True:
            tries += 1
            house.api.faults.clear()
            house.api.faults.plan(fault, when=when, nth=tries, times=None)
            met = sum(when(asked) for asked in house.api.requests)
            run = await house.ingest(NEXT_DAY)
            asked = sum(when(asked) for asked in house.api.requests) - met
            if asked < tries:
                break  # there was no such request any more
            assert (run["status"], run["reason"]) == ("failed", reason), tries
            assert run["error"]
            assert (run["new"], run["latest"]) == (None, None)
            assert run["items"] >= FITS if tries > 1 and reason != "incomplete" else run["items"] >= 0
            assert await indexed(house) == before
            latest = await house.view(None)
            assert (latest.day, latest.items) == (DAY, good_day)
            assert [(one.day, one.state, one.reason) for one in latest.behind] == [(NEXT_DAY, "failed", reason)]
        del begun, count_of
        assert tries > 6
        assert run["status"] == "succeeded"
        assert sorted((await house.buckets(NEXT_DAY)).values()) == ["LATEST"] * 10 + ["NEW"] * 20
        assert (await house.view(None)).behind == []
        assert (await house.view(DAY)).items == good_day
