"""A day of GOV.UK, from its APIs to the index that people read (spec 6.1 to 6.4; issue 7)."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from headwater.core.dates import bounds
from headwater.core.errors import BadRequest
from headwater.core.settings import Settings
from headwater.db.items import DayFilter
from headwater.demo.govuk_pages import LONDON, READING, RIVERS, TAXON_NAMES
from headwater.demo.govuk_site import GOVUK, expected_day, govuk_api
from headwater.demo.visits import TOLERANCE_SECONDS
from tests.database_state import StoredItem, items
from tests.govuk import DAY, HOME, NIGHT, NOON, DayHarness, LimitedGovukApi, NextGovukApi, open_day_harness, page
from tests.govuk_catalogue import make_catalogue

MakeSettings = Callable[..., Settings]
SECOND = timedelta(seconds=1)
YESTERDAY, TODAY = NOON - timedelta(days=1), NOON
LONG_AGO = datetime(2025, 4, 1, 9, tzinfo=UTC)


def hours(number: float) -> timedelta:
    return timedelta(hours=number)


@pytest.mark.parametrize(
    ("day", "length", "lookups"),
    [
        (date(2026, 3, 29), 23, "auto"),
        (date(2026, 10, 25), 25, "auto"),
        (date(2026, 10, 25), 25, "never"),
        (DAY, 24, "always"),
        (date(2026, 1, 13), 24, "auto"),
    ],
)
async def test_items_at_both_edges_land_in_the_right_london_day(
    make_settings: MakeSettings, day: date, length: int, lookups: str
) -> None:
    """Spec 6.2, 6.8: half-open, right on days of 23 and of 25 hours."""
    start, end = bounds(day, LONDON)
    assert end - start == hours(length)
    edges = {"before": start - SECOND, "first": start, "last": end - SECOND, "after": end}
    pages = [page(f"/new/{name}", at) for name, at in edges.items()]
    pages += [page(f"/old/{name}", LONG_AGO, public_timestamp=at) for name, at in edges.items()]
    async with open_day_harness(make_settings(), pages, at=end + hours(2), content_lookups=lookups) as harness:
        assert (await harness.ingest(day)).status == "succeeded"
        found = await harness.buckets(day)
        assert found == {"/new/first": "NEW", "/new/last": "NEW", "/old/first": "LATEST", "/old/last": "LATEST"}
        for other, edge in ((day - timedelta(days=1), "before"), (day + timedelta(days=1), "after")):
            harness.clock.set(max(end, bounds(other, LONDON)[1]) + hours(2))  # it goes forward only
            await harness.ingest(other)
            assert await harness.buckets(other) == {f"/new/{edge}": "NEW", f"/old/{edge}": "LATEST"}
        assert await harness.buckets(day) == found


async def test_an_hour_of_utc_before_midnight_is_the_next_day_in_summer(make_settings: MakeSettings) -> None:
    """Issue 7: 2026-07-12T23:01:10Z is 13 July."""
    async with open_day_harness(make_settings(), [page("/a", datetime(2026, 7, 12, 23, 1, 10, tzinfo=UTC))]) as harness:
        await harness.ingest(DAY)
        assert await harness.buckets(DAY) == {"/a": "NEW"}
        await harness.ingest(DAY - timedelta(days=1))
        assert await harness.buckets(DAY - timedelta(days=1)) == {}


@pytest.mark.parametrize("lookups", ["auto", "always", "never"])
async def test_the_last_second_of_a_day_belongs_to_it(make_settings: MakeSettings, lookups: str) -> None:
    """Spec 6.2: half-open, so that a fraction of a second before midnight is in no other day."""
    late = bounds(DAY, LONDON)[1] - SECOND / 2
    pages = [page("/old", LONG_AGO, public_timestamp=late), page("/new", late, public_timestamp=late)]
    async with open_day_harness(make_settings(), pages, content_lookups=lookups) as harness:
        await harness.ingest()
        assert (await harness.buckets())["/old"] == "LATEST"
        assert (await harness.buckets())["/new"] == ("LATEST" if lookups == "never" else "NEW")
        harness.clock.set(NIGHT + timedelta(days=1))
        await harness.ingest(DAY + timedelta(days=1))
        assert await harness.buckets(DAY + timedelta(days=1)) == {}


@pytest.mark.parametrize("total_as_object", [False, True])
async def test_a_day_of_three_thousand_items_is_read_whole(make_settings: MakeSettings, total_as_object: bool) -> None:
    """Spec 6.2; issue 7: windows are halved until each fits one page, and the counts add up."""
    pages = make_catalogue(DAY, new=2000, latest=1000, others=150)
    api = NextGovukApi(pages, total_as_object=total_as_object, cap_at=2000 if total_as_object else None)
    lookups = "never" if total_as_object else "auto"
    async with open_day_harness(make_settings(), api, content_lookups=lookups) as harness:
        run = await harness.ingest()
        found = await harness.buckets()
        expected = {one.link: one.link.split("/")[-1].split("-")[0].upper() for one in pages}
        assert found == {link: bucket for link, bucket in expected.items() if bucket != "OTHER"}
        searches = [asked for asked in harness.api.requests if asked.is_search()]
        assert {asked.first("count") for asked in searches} == {"1500", "0"}
        assert {asked.first("order") for asked in searches} == {"public_timestamp"}
        assert len({asked.first("filter_public_timestamp") for asked in searches}) > 3
        start, end = bounds(DAY, LONDON)
        windows = 2000 + sum(one.public_timestamp is not None and start <= one.public_timestamp <= end for one in pages)
        assert (run.status, run.reason, run.error) == ("succeeded", "polled", None)
        assert (run.items, run.new, run.latest) == (3000, 2000, 1000)
        assert (run.pages, run.fetched, run.total) == (len(searches), windows, windows)
        assert run.seconds == (run.finished_at - run.started_at).total_seconds() > 0


TRAPS = [
    page("/both"),
    page("/updated", LONG_AGO, public_timestamp=NOON),
    page("/updated/unknown", LONG_AGO, public_timestamp=NOON, in_content=False),
    page("/published/again", NOON, public_timestamp=NOON + hours(24)),
    page("/published/undated", NOON, public_timestamp=None),
    page("/published/unknown", NOON, public_timestamp=None, in_content=False),
    page("/differs", NOON, public_timestamp=NOON + hours(24), content_first_published_at=LONG_AGO),
    page("/differs/too", LONG_AGO, public_timestamp=NOON, content_first_published_at=NOON - hours(1)),
    page("/updates/differ", LONG_AGO, public_timestamp=NOON, content_updated_at=NOON - hours(100)),
    page("https://elsewhere.test/apply", LONG_AGO, public_timestamp=NOON, content_id=None),
]
BY_WINDOWS = {
    "/both": ("NEW", "published_window"),
    "/updated": ("LATEST", "updated_window"),
    "/updated/unknown": ("LATEST", "updated_window"),
    "/published/again": ("NEW", "published_window"),
    "/published/undated": ("NEW", "published_window"),
    "/published/unknown": ("NEW", "published_window"),
    "/differs": ("NEW", "published_window"),
    "/differs/too": ("LATEST", "updated_window"),
    "/updates/differ": ("LATEST", "updated_window"),
    "https://elsewhere.test/apply": ("LATEST", "updated_window"),
}
BY_CONTENT = BY_WINDOWS | {
    "/updated": ("LATEST", "content_api"),
    "/published/again": ("NEW", "content_api"),
    "/published/undated": ("NEW", "content_api"),
    "/differs/too": ("NEW", "content_api"),
    "/updates/differ": ("LATEST", "content_api"),
}
del BY_CONTENT["/differs"]  # of which the Content API knows better: it is of another day


@pytest.mark.parametrize(
    ("lookups", "expected", "not_asked"),
    [
        ("auto", BY_CONTENT, {"/both", "https://elsewhere.test/apply"}),
        ("always", BY_CONTENT | {"/both": ("NEW", "content_api")}, {"https://elsewhere.test/apply"}),
        ("never", BY_WINDOWS, set(BY_WINDOWS)),
    ],
)
async def test_each_item_names_the_rule_that_put_it_into_the_day(
    make_settings: MakeSettings, lookups: str, expected: dict[str, Any], not_asked: set[str]
) -> None:
    """Spec 6.2; issue 7: look-ups where needed, for all, or for none; both APIs may disagree."""
    async with open_day_harness(make_settings(), TRAPS, content_lookups=lookups) as harness:
        assert (await harness.ingest()).status == "succeeded"
        assert await harness.index() == expected
        asked = [one.path.removeprefix("/api/content") for one in harness.api.requests if one.is_content()]
        assert sorted(asked) == sorted({one.link for one in TRAPS} - not_asked)
        dates = {row.url: (row.published_at, row.updated_at) for row in (await harness.view()).items}
        assert dates[f"{HOME}/updated/unknown"] == (None, NOON)
        assert dates[f"{HOME}/published/undated"][1] is None


async def test_the_api_is_asked_no_faster_than_it_allows(make_settings: MakeSettings) -> None:
    """Issue 7: look-ups at no more than 10 requests a second."""
    pages = [page(f"/{number}", LONG_AGO, public_timestamp=NOON) for number in range(14)]
    api = LimitedGovukApi(pages, 11)
    async with open_day_harness(make_settings(), api, rate_per_second=None) as harness:
        assert (await harness.ingest()).status == "succeeded"
        arrived = [asked.arrived for asked in harness.web.requests]
        assert {asked.status for asked in harness.web.requests} == {200}
        # No page was published: the run requests that three times, each time with its count, and then the days around.
        assert len(arrived) == 2 + 3 * 2 + 1 + 14
        assert all(later - first > 1 - 0.05 for first, later in zip(arrived, arrived[10:], strict=False))


async def test_pages_are_visited_by_the_hosts_manners_and_the_api_by_the_sources(make_settings: MakeSettings) -> None:
    """Spec 2.3: a declared API has no robots.txt and no pause; the pages of the same host have both."""
    day = DAY
    api = govuk_api(NIGHT.date(), 1)
    harness_settings = make_settings(host_delay_ms=150)
    unlimited: dict[str, Any] = {"fetch_items": True, "rate_per_second": None}
    async with open_day_harness(harness_settings, api, pieces=GOVUK.pieces, **unlimited) as harness:
        await harness.ingest(day)
        assert await harness.buckets(day) == dict(expected_day(day))
        before = [asked.path for asked in harness.web.requests]
        assert all(path.startswith("/api/") for path in before)
        arrivals = [asked.arrived for asked in harness.web.requests]
        assert any(later - earlier < 0.14 for earlier, later in pairwise(arrivals))
        await harness.work()
        pages = [asked for asked in harness.web.requests if asked.host == GOVUK.host][len(before) :]
        assert pages[0].path == "/robots.txt"
        gaps = [later.arrived - earlier.arrived for earlier, later in pairwise(pages)]
        assert len(gaps) >= 10
        assert min(gaps) >= 0.15 - TOLERANCE_SECONDS
        with_documents = [row.document_id for row in (await harness.view(day)).items if row.document_id]
        assert len(with_documents) == 10  # all but the one elsewhere


async def only_item(harness: DayHarness) -> StoredItem:
    (item,) = await items(harness)
    return item


async def test_an_item_seen_again_is_replaced_but_for_its_tags_which_are_united(make_settings: MakeSettings) -> None:
    """Spec 6.4."""
    rivers, reading = list(TAXON_NAMES)[:2]
    first = page("/a", organisations=(RIVERS,), taxons=(rivers,), document_type="guidance")
    async with open_day_harness(make_settings(), [first], content_lookups="always") as harness:
        await harness.ingest()
        later = NOON + hours(3)
        harness.api.put(
            replace(
                first,
                title="Another title",
                public_timestamp=later,
                organisations=(READING,),
                taxons=(reading,),
                document_type="news_story",
            )
        )
        await harness.ingest()
        item = await only_item(harness)
    assert (item.title, item.published_at, item.updated_at) == ("Another title", NOON, later)
    assert item.tags == {
        "document_type": "news_story",
        "native_ids": {"content_id": first.content_id, "taxons": sorted([rivers, reading])},
        "organisations": sorted([RIVERS.title, READING.title]),
        "topic": sorted(TAXON_NAMES[taxon] for taxon in (rivers, reading)),
    }
    assert [one["title"] for one in item.raw["search"]["organisations"]] == [READING.title]


@pytest.mark.parametrize("turned", [False, True])
async def test_the_same_address_twice_in_a_run_is_one_item_and_the_later_one(
    make_settings: MakeSettings, turned: bool
) -> None:
    """Spec 6.4: the latest updated_at wins, arrays are united, its raw is kept."""
    names = ("/a", f"{HOME}/a/")
    older, newer = names[::-1] if turned else names
    pages = [
        page(older, NOON, title="older", organisations=(RIVERS,)),
        page(newer, NOON, title="newer", organisations=(READING,), public_timestamp=NOON + hours(1)),
    ]
    async with open_day_harness(make_settings(), pages, content_lookups="never") as harness:
        run = await harness.ingest()
        assert (run.items, run.new, run.fetched) == (1, 1, 4)
        item = await only_item(harness)
    assert (item.title, item.updated_at) == ("newer", NOON + hours(1))
    assert item.tags["organisations"] == sorted([RIVERS.title, READING.title])
    assert item.raw["search"]["link"] == newer


async def test_a_page_updated_again_keeps_the_entry_that_it_had_the_day_before(make_settings: MakeSettings) -> None:
    """Spec 6.4: the observations decide, not the item as it is now."""
    async with open_day_harness(make_settings(), [page("/a"), page("/b")]) as harness:
        await harness.ingest()
        before = (await harness.view()).items
        again = NOON + hours(24)
        harness.api.put(page("/a", public_timestamp=again, title="About /a"))
        harness.clock.set(NIGHT + hours(24))
        await harness.ingest(DAY + timedelta(days=1))
        assert await harness.buckets(DAY + timedelta(days=1)) == {"/a": "LATEST"}
        assert (await harness.view()).items == before
        await harness.ingest()
        assert (await harness.view()).items == before


async def test_how_complete_a_day_is_depends_on_when_it_was_read(make_settings: MakeSettings) -> None:
    """Issue 7: past days that are rebuilt later say so; a day that is not over is only so far."""
    pages = [page("/a"), page("/month/before", NOON - timedelta(days=31))]
    async with open_day_harness(make_settings(), pages, at=NOON + hours(1)) as harness:
        assert await harness.state() == "not_read"
        await harness.ingest()
        assert await harness.state() == "so_far"
        harness.clock.set(NIGHT)
        await harness.ingest()
        assert await harness.state() == "complete"
        harness.clock.set(NIGHT + timedelta(days=9))
        await harness.ingest()
        assert await harness.state() == "complete"
        read_at = (await harness.view()).sources[0].read_at
        assert read_at is not None
        assert read_at < NIGHT + hours(1)
        past = DAY - timedelta(days=30)
        await harness.ingest(past)
        assert await harness.state(past) == "reconstructed"


async def test_a_day_is_read_in_pages_that_stay_on_their_day(make_settings: MakeSettings) -> None:
    """Spec 8.1: also the latest day, and no item is missing or on two pages after an item before them is gone."""
    pages = [page(f"/{number}", NOON - hours(number % 3)) for number in range(7)]
    pages += [page(f"/old/{number}", LONG_AGO, public_timestamp=NOON) for number in range(4)]
    async with open_day_harness(make_settings(), pages) as harness:
        await harness.ingest()
        days, whole = harness.operations.days, (await harness.view()).items
        assert len(whole) == 11
        for limit in (1, 3, 11, 12):
            view = await days.day(None, limit=limit)
            found = view.items
            while view.next:
                view = await days.day(None, limit=limit, after=view.next)
                assert view.day == DAY
                found += view.items
            assert found == whole
        first = await days.day(DAY, DayFilter(bucket="LATEST"), limit=2)
        assert first.next
        of_url = "(SELECT id FROM items WHERE url = $1)"
        await harness.execute(f"DELETE FROM daily_index WHERE item_id = {of_url}", whole[8].url)
        rest = await days.today(DayFilter(bucket="LATEST"), limit=5, after=first.next)
        assert (rest.day, rest.items, rest.next) == (DAY, whole[9:], None)
        wrong = (first.next.replace("2026-07-13", "2026-13-13"), first.next[:-1], "", "7", f"{first.next}0")
        for after in (*wrong, first.next.replace("T", "X"), "2026-07-13_a_NEW_0001-01-01T00:00+14:00_" + "a" * 64):
            with pytest.raises(BadRequest):
                await days.day(None, after=after)
        with pytest.raises(BadRequest):
            await days.day(DAY - timedelta(days=1), after=first.next)


async def test_the_day_can_be_filtered(make_settings: MakeSettings) -> None:
    """Issue 7: by source, bucket, organisation and type."""
    pages = [
        page("/a", organisations=(RIVERS,), document_type="guidance"),
        page("/b", organisations=(READING, RIVERS), document_type="news_story"),
        page("/c", LONG_AGO, public_timestamp=NOON, organisations=(READING,), document_type="guidance"),
    ]
    async with open_day_harness(make_settings(), pages) as harness:
        await harness.ingest()

        async def links(**only: Any) -> set[str]:
            return {row.url.removeprefix(HOME) for row in (await harness.view(**only)).items}

        assert await links() == await links(source="govuk") == {"/a", "/b", "/c"}
        assert await links(bucket="LATEST") == {"/c"}
        assert await links(organisation=RIVERS.title) == {"/a", "/b"}
        assert await links(document_type="guidance") == {"/a", "/c"}
        assert await links(document_type="guidance", organisation=READING.title, bucket="LATEST") == {"/c"}
