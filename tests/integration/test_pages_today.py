"""The pages of news: a day by source, category and topic, and the changes since a browser last looked (spec 8.4)."""

from collections.abc import AsyncIterator, Callable
from datetime import date, timedelta

import pytest

from headwater.core.dates import day_of
from headwater.core.settings import Settings
from headwater.documents.days import DayState, SourceDay
from headwater.web.today import _describe_day
from tests.api import TOKEN, Api
from tests.harness import open_harness
from tests.integration.test_pages import check_page
from tests.pages import Reader, open_reader
from tests.server import Answer, Site, page

DAY = "/ui/days/2026-03-12"
HTML = {"Content-Type": "text/html"}


def make_feed(host: str, topics: dict[str, str]) -> Answer:
    entries = "".join(
        f"<item><title>{name} of {host}</title><link>http://{host}/{name}</link><category>{topic}</category>"
        "<pubDate>Thu, 12 Mar 2026 10:00:00 GMT</pubDate></item>"
        for name, topic in topics.items()
    )
    body = f'<rss version="2.0"><channel><title>{host}</title>{entries}</channel></rss>'
    return Answer(body, headers={"Content-Type": "application/rss+xml"})


@pytest.fixture
async def page_settings(site: Site, make_settings: Callable[..., Settings]) -> Settings:
    """Settings of a database with two sources of two categories, whose items have topics."""
    topics = {"news.test": {"a": "Rivers", "b": "Roads"}, "gazette.test": {"c": "rivers"}}
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as harness:
        for host, names in topics.items():
            site.answers[f"http://{host}/feed"] = make_feed(host, names)
            for name in names:
                site.answers[f"http://{host}/{name}"] = Answer(page(f"{name} of {host}"), headers=HTML)
            await harness.operations.sources.add(f"http://{host}/feed", overrides={"category": f"towns/{host[0]}"})
        await harness.work()
    return settings


@pytest.fixture
async def reader(page_settings: Settings) -> AsyncIterator[Reader]:
    async with open_reader(page_settings) as opened:
        yield opened


async def test_a_day_shows_one_line_of_each_document_with_its_lead(reader: Reader) -> None:
    shown = await reader.get(DAY)
    check_page(shown)
    assert shown.texts(".lines-group h2") == ["gazette.test", "news.test"]
    assert sorted(shown.texts(".line-title")) == ["a of news.test", "b of news.test", "c of gazette.test"]
    assert all("published this morning" in text for text in shown.texts(".line-lead"))
    assert shown.texts(".lines .badge") == ["NEW"] * 3
    assert len(shown.tree.css(".lines time[datetime]")) == 3


async def test_the_items_of_a_source_are_in_the_order_of_the_times_that_are_shown(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    """Also an item that was updated later on its day: NEW shows when it was published."""
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as harness:
        site.answers["http://news.test/feed"] = make_feed("news.test", dict.fromkeys("abcd", "x"))
        await harness.operations.sources.add("http://news.test/feed")
        await harness.execute(
            "UPDATE daily_index x SET published_at = x.day + (ascii(right(i.url, 1)) - 90) * interval '1 hour', "
            "updated_at = x.day + (120 - ascii(right(i.url, 1))) * interval '1 hour' "
            "FROM items i WHERE i.id = x.item_id"
        )
        days = harness.operations.days
        whole = await days.day(date(2026, 3, 12))
        first = await days.day(date(2026, 3, 12), limit=2)
        second = await days.day(None, limit=2, after=first.next)
    assert [item.url[-1] for item in whole.items] == ["d", "c", "b", "a"]
    assert first.items + second.items == whole.items


@pytest.mark.parametrize(
    ("label", "left"),
    [
        ("news.test", ["a of news.test", "b of news.test"]),
        ("towns/g", ["c of gazette.test"]),
        ("Roads", ["b of news.test"]),
        ("Latest 0", []),
    ],
)
async def test_filters_are_links(reader: Reader, label: str, left: list[str]) -> None:
    shown = await reader.get(DAY)
    shown = await reader.get(shown.links(".sidebar a, .tabs a")[label])
    check_page(shown)
    assert sorted(shown.texts(".line-title")) == left


async def test_filters_join_and_can_be_removed(reader: Reader) -> None:
    shown = await reader.get(f"{DAY}?topic=RIVERS&source=news.test")
    assert shown.texts(".line-title") == ["a of news.test"]
    (link, *_) = shown.links(".facets .chosen").values()
    removed = await reader.get(link)
    assert len(removed.texts(".line-title")) == 2


async def test_the_api_counts_what_the_page_shows(reader: Reader) -> None:
    status, counts = await Api(reader.session, reader.base).get("/daily/2026-03-12/counts")
    assert status == 200
    assert (counts["new"], counts["latest"]) == (3, 0)
    assert [(one["name"], one["new"]) for one in counts["sources"]] == [("news.test", 2), ("gazette.test", 1)]
    assert {one["name"] for one in counts["categories"]} == {"towns/n", "towns/g"}
    assert sum(one["new"] for one in counts["topics"]) == 3
    status, leads = await Api(reader.session, reader.base).get("/documents/leads?id=1&id=999")
    assert [one["id"] for one in leads["leads"]] == [1]


async def test_days_lead_to_their_neighbours_but_not_into_the_future(reader: Reader, page_settings: Settings) -> None:
    shown = await reader.get(DAY)
    assert "/ui/days/2026-03-11" in shown.links(".tools a").values()
    assert "/ui/days/2026-03-13" in shown.links(".tools a").values()
    assert not (await reader.get("/ui/today")).tree.css(".tools a[rel=next]")
    assert (await reader.get("/ui/latest")).texts(".line-title")


async def test_an_empty_day_names_the_next_step(reader: Reader) -> None:
    shown = await reader.get("/ui/days/2020-01-01")
    assert shown.links(".empty a") == {"Go to the last day with items": "/ui/latest"}
    shown = await reader.get("/ui/days/2020-01-01?bucket=NEW")
    assert shown.links(".empty a") == {"Show all items of the day.": "/ui/days/2020-01-01"}


def make_state(state: DayState) -> SourceDay:
    return SourceDay("govuk", date(2026, 3, 12), "Europe/London", state)


@pytest.mark.parametrize(
    ("states", "is_over", "kind", "named"),
    [
        ([], True, "quiet", 0),
        ([DayState.COMPLETE, DayState.COMPLETE], True, "good", 0),
        ([DayState.COMPLETE, DayState.RECONSTRUCTED], True, "good", 1),
        ([DayState.COMPLETE, DayState.SO_FAR], True, "warn", 1),
        ([DayState.NOT_READ, DayState.RUNNING], True, "warn", 2),
        ([DayState.COMPLETE, DayState.FAILED], True, "bad", 1),
        ([DayState.NOT_READ], False, "quiet", 0),
        ([DayState.FAILED, DayState.NOT_READ], False, "bad", 1),
    ],
)
def test_a_banner_reports_that_the_day_is_complete_or_what_it_lacks(
    states: list[DayState], is_over: bool, kind: str, named: int
) -> None:
    banner = _describe_day([make_state(state) for state in states], is_over=is_over)
    assert (banner["kind"], len(banner["sources"])) == (kind, named)


async def test_the_changes_since_a_browser_looked_begin_after_its_mark(reader: Reader, page_settings: Settings) -> None:
    shown = await reader.get("/ui/since")
    check_page(shown)
    assert len(shown.texts(".line-title")) == 3
    (cursor,) = [node.attributes["value"] or "" for node in shown.tree.css("input[name=cursor]")]
    shown = await reader.post("/ui/since", cursor=cursor)
    assert shown.texts(".line-title") == []
    async with open_harness(page_settings) as harness:
        await harness.operations.documents.delete(1)
    shown = await reader.get("/ui/since")
    assert shown.texts(".lines .badge") == ["deleted"]
    async with reader.session.post(reader.base + "/ui/since", data={"cursor": "<script>"}) as response:
        assert response.status == 422


async def test_a_spoilt_mark_begins_again(reader: Reader) -> None:
    await reader.post("/ui/since", cursor="c999999999999999999")
    shown = await reader.get("/ui/since")
    assert shown.status == 200
    assert len(shown.texts(".line-title")) == 3


async def test_today_is_the_day_of_the_time_zone(reader: Reader, page_settings: Settings) -> None:
    async with open_harness(page_settings) as harness:
        now = harness.operations.now()
    expected = day_of(now, page_settings.timezone) - timedelta(days=1)
    assert f"/ui/days/{expected}" in (await reader.get("/ui/today")).links(".tools a").values()
