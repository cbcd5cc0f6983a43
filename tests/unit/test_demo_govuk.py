"""The demo web's GOV.UK behaves as the real APIs are known to (spec 6.1, 6.2, 6.5, 9.2)."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from headwater.core.dates import bounds
from headwater.demo.answers import Maker, always, busy, hang, reset, status, truncated
from headwater.demo.api import ApiRequest
from headwater.demo.govuk_api import GovukApi
from headwater.demo.govuk_pages import LONDON, RIVERS, TAXON_NAMES, GovukPage
from headwater.demo.govuk_site import GOVUK, expected_day, govuk_api
from headwater.demo.web import DemoWeb
from tests import api_faults
from tests.demo_client import TODAY, get, open_client
from tests.govuk import LimitedGovukApi, NextGovukApi, RateLimit, serving
from tests.govuk import page as make_page
from tests.govuk_catalogue import make_catalogue

HOME = "http://govuk.demo.test"
SUMMER = datetime(2026, 7, 13, 9, 30, tzinfo=UTC)
RIVER_TAXON = next(iter(TAXON_NAMES))


def page(link: str, at: datetime | None = SUMMER, **details: Any) -> GovukPage:
    return make_page(link, at, **({"updated_at": SUMMER} | details))


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


class Visit:
    """A client of an API."""

    def __init__(self, api: GovukApi, client: aiohttp.ClientSession) -> None:
        self.api = api
        self.client = client

    async def get(self, path: str) -> tuple[aiohttp.ClientResponse, bytes]:
        return await get(self.client, HOME + path)

    async def search(self, **parameters: object) -> dict[str, Any]:
        answer, body = await self.get(f"/api/search.json?{urlencode(parameters, doseq=True)}")
        assert answer.status == 200, body
        found: dict[str, Any] = json.loads(body)
        return found

    async def links(self, **parameters: object) -> list[str]:
        return [result["link"] for result in (await self.search(**parameters))["results"]]


@asynccontextmanager
async def visiting(api: GovukApi) -> AsyncIterator[Visit]:
    async with DemoWeb(today=TODAY, sites=(serving(api),)) as web, open_client(web) as client:
        yield Visit(api, client)


async def test_a_search_without_parameters_gives_ten_results_with_the_default_fields() -> None:
    """Spec 6.1."""
    pages = [
        page(f"/p/{n}", organisations=(RIVERS,), taxons=(RIVER_TAXON,), latest_change_note="More.") for n in range(30)
    ]
    async with visiting(GovukApi(pages)) as visit:
        answer, body = await visit.get("/api/search.json")
        assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
        found = json.loads(body)
    assert list(found) == ["results", "total", "start"]
    assert (found["total"], found["start"], len(found["results"])) == (30, 0, 10)
    first = found["results"][0]
    assert set(first) == {
        *("description", "format", "link", "organisations", "public_timestamp", "title", "_id", "document_type")
    }
    assert (first["document_type"], first["_id"]) == ("edition", first["link"])
    assert first["public_timestamp"] == "2026-07-13T09:30:00Z"
    assert first["organisations"] == [{"title": RIVERS.title, "slug": RIVERS.slug}]


async def test_only_requested_fields_with_a_value_are_returned() -> None:
    """Spec 6.1."""
    full = page("/full", taxons=(RIVER_TAXON,), latest_change_note="More.", document_type="policy_paper")
    bare = page("https://elsewhere.test/x", None, content_id=None)
    asked = "title,content_id,content_store_document_type,taxons,updated_at,latest_change_note,public_timestamp"
    always_there = {"_id", "document_type"}
    async with visiting(GovukApi([full, bare])) as visit:
        first, second = (await visit.search(fields=asked, order="public_timestamp"))["results"]
    assert {name: first[name] for name in first.keys() - always_there} == {
        "title": "About /full",
        "content_id": full.content_id,
        "content_store_document_type": "policy_paper",
        "taxons": [RIVER_TAXON],
        "updated_at": "2026-07-13T09:30:00Z",
        "latest_change_note": "More.",
        "public_timestamp": "2026-07-13T09:30:00Z",
    }
    assert first["document_type"] == "edition"
    assert second.keys() - always_there == {"title", "content_store_document_type", "taxons", "updated_at"}


async def test_every_page_can_be_filtered_by_first_publication_but_only_niche_types_show_it() -> None:
    """Spec 6.1."""
    pages = [page("/usual"), page("/niche", document_type="drug_safety_update")]
    async with visiting(GovukApi(pages)) as visit:
        found = await visit.search(filter_first_published_at="from:2026-07-13", fields="link,first_published_at")
    dates = {result["link"]: result.get("first_published_at") for result in found["results"]}
    assert dates == {"/usual": None, "/niche": "2026-07-13T09:30:00Z"}
    assert {result["document_type"] for result in found["results"]} == {"edition", "drug_safety_update"}


@pytest.mark.parametrize(
    "query",
    [
        "foo=1&bar=2",
        "count=1501",
        "count=-1",
        "count=ten",
        "count=1&count=2",
        "start=900001",
        "order=first_published_at",
        "order=-updated_at",
        "fields=title,nonsense",
        "filter_nonsense=1",
        "filter_public_timestamp=from:yesterday",
        "filter_public_timestamp=2026-07-13",
        "filter_public_timestamp=from:2026-07-13T00:00:00+01:00",  # a plus that is not encoded is a space
        "filter_public_timestamp=from:2026-07-13&filter_public_timestamp=to:2026-07-14",
    ],
)
async def test_the_search_refuses_a_query_that_it_does_not_know(query: str) -> None:
    async with visiting(GovukApi([page("/a")])) as visit:
        answer, body = await visit.get(f"/api/search.json?{query}")
    assert (answer.status, list(json.loads(body))) == (422, ["error"])


@pytest.mark.parametrize("query", ["count=0", "count=1500", "start=900000"])
async def test_the_search_accepts_the_largest_numbers(query: str) -> None:
    async with visiting(GovukApi([page("/a")])) as visit:
        assert (await visit.get(f"/api/search.json?{query}"))[0].status == 200


async def test_the_default_order_does_not_follow_time_and_pages_join_up() -> None:
    pages = [page(f"/p/{n}", SUMMER + minutes(n)) for n in range(50)]
    async with visiting(GovukApi(pages)) as visit:
        once = await visit.links(count=50)
        again = [link for start in range(0, 60, 20) for link in await visit.links(count=20, start=start)]
        popular = await visit.links(count=50, order="-popularity")
        assert (await visit.search(count=0))["results"] == []
        assert (await visit.search(count=0))["total"] == 50
    assert once == again == popular
    assert sorted(once) == sorted(page.link for page in pages)
    assert once not in ([page.link for page in pages], [page.link for page in reversed(pages)])


async def test_pages_without_the_value_come_last_in_both_directions() -> None:
    pages = [page("/late", SUMMER + minutes(9)), page("/never", None), page("/early")]
    async with visiting(GovukApi(pages)) as visit:
        assert await visit.links(order="public_timestamp") == ["/early", "/late", "/never"]
        assert await visit.links(order="-public_timestamp") == ["/late", "/early", "/never"]


async def test_pages_with_the_same_time_come_in_another_order_with_every_request() -> None:
    """Spec 6.2: no order of a window is stable, so its pages neither join up nor cover it."""
    api = GovukApi([page(f"/p/{n}") for n in range(40)])
    async with visiting(api) as visit:
        orders = [await visit.links(order="public_timestamp", count=40) for _ in range(5)]
        halves = [await visit.links(order="public_timestamp", count=20, start=start) for start in (0, 20)]
    assert all(sorted(first) == sorted(second) and first != second for first, second in pairwise(orders))
    assert len({*halves[0], *halves[1]}) < 40


@pytest.mark.parametrize(
    ("span", "found"),
    [
        ("from:2026-07-12T23:00:00Z,to:2026-07-13T22:59:59Z", {"/first", "/noon", "/last"}),
        ("from:2026-07-12T23:00:01Z,to:2026-07-13T22:59:58Z", {"/noon"}),
        ("from:2026-07-12T23:00:00,to:2026-07-13T22:59:59", {"/first", "/noon", "/last"}),
        ("from:2026-07-13T00:00:00+01:00,to:2026-07-13T23:59:59+01:00", {"/first", "/noon", "/last"}),
        ("from:2026-07-13T12:00:00Z,to:2026-07-13T12:00:00Z", {"/noon"}),
        ("from:2026-07-13T12:00:01Z", {"/last", "/next"}),
        ("to:2026-07-12T23:00:00", {"/first"}),
        ("to:2026-07-13T22:59:59.500Z", {"/first", "/noon", "/last"}),
    ],
)
async def test_spans_include_both_ends_and_are_in_utc(span: str, found: set[str]) -> None:
    """Spec 6.2."""
    moments = {
        "/first": datetime(2026, 7, 12, 23, tzinfo=UTC),
        "/noon": datetime(2026, 7, 13, 12, tzinfo=UTC),
        "/last": datetime(2026, 7, 13, 22, 59, 59, tzinfo=UTC),
        "/next": datetime(2026, 7, 13, 23, tzinfo=UTC),
        "/never": None,
    }
    async with visiting(GovukApi([page(link, at) for link, at in moments.items()])) as visit:
        assert set(await visit.links(filter_public_timestamp=span)) == found
        assert set(await visit.links(filter_first_published_at=span)) == found


@pytest.mark.parametrize(
    ("settings", "total"),
    [
        ({}, 30),
        ({"cap_at": 30}, 30),
        ({"cap_at": 20}, 20),
        ({"total_as_object": True}, {"value": 30, "relation": "eq"}),
        ({"total_as_object": True, "cap_at": 30}, {"value": 30, "relation": "eq"}),
        ({"total_as_object": True, "cap_at": 20}, {"value": 20, "relation": "gte"}),
    ],
)
async def test_the_total_can_become_an_object_or_stop_while_results_do_not(
    settings: dict[str, Any], total: object
) -> None:
    api = NextGovukApi([page(f"/p/{n}") for n in range(30)], **settings)
    async with visiting(api) as visit:
        assert (await visit.search())["total"] == total
        assert len(await visit.links(start=25)) == 5


async def test_the_content_api_gives_the_dates_of_a_page_in_london_time() -> None:
    """Spec 6.1."""
    known = page(
        "/government/publications/a",
        public_timestamp=SUMMER + minutes(1),
        taxons=(RIVER_TAXON,),
        document_type="policy_paper",
    )
    winter = page("/winter", datetime(2026, 1, 13, 9, 30, tzinfo=UTC))
    async with visiting(GovukApi([known, winter])) as visit:
        answer, body = await visit.get("/api/content/government/publications/a")
        _, other = await visit.get("/api/content/winter")
    item = json.loads(body)
    assert answer.content_type == "application/json"
    assert (item["base_path"], item["title"], item["content_id"]) == (known.link, known.title, known.content_id)
    assert item["document_type"] == "policy_paper"
    assert item["first_published_at"] == "2026-07-13T10:30:00+01:00"
    assert item["public_updated_at"] == "2026-07-13T10:31:00+01:00"
    assert item["links"]["taxons"] == [{"content_id": RIVER_TAXON, "title": TAXON_NAMES[RIVER_TAXON]}]
    assert json.loads(other)["first_published_at"] == "2026-01-13T09:30:00+00:00"


async def test_the_content_api_can_disagree_with_the_search_and_lack_pages() -> None:
    earlier = SUMMER - timedelta(days=4)
    pages = [
        page("/differs", content_updated_at=earlier, content_first_published_at=earlier),
        page("/unknown", in_content=False),
        page("https://elsewhere.test/x"),
        page("/undated", None),
    ]
    async with visiting(GovukApi(pages)) as visit:
        assert len(await visit.links()) == 4
        item = json.loads((await visit.get("/api/content/differs"))[1])
        undated = json.loads((await visit.get("/api/content/undated"))[1])
        for path in ("/unknown", "/nothing", "", "/", "/https://elsewhere.test/x", "https://elsewhere.test/x"):
            answer, body = await visit.get(f"/api/content{path}")
            assert (answer.status, json.loads(body)["error"]["code"]) == (404, 404), path
    assert item["public_updated_at"] == item["first_published_at"] == "2026-07-09T10:30:00+01:00"
    assert undated["public_updated_at"] is None


@given(st.lists(st.floats(0, 3).map(lambda moment: round(moment, 2)), max_size=60).map(sorted), st.integers(1, 12))
def test_a_client_gets_exactly_its_limit_in_any_second(times: list[float], limit: int) -> None:
    gate = RateLimit(limit)
    admitted: list[float] = []
    for now in times:
        is_free = sum(before > now - 1 for before in admitted) < limit
        assert gate.admits("us", now) == is_free
        if is_free:
            admitted.append(now)
    assert gate.admits("somebody else", 3.0)


async def test_only_the_content_api_refuses_too_many_requests_in_a_second() -> None:
    async with visiting(LimitedGovukApi([page("/a")], 10)) as visit:
        answers = await asyncio.gather(*(visit.get("/api/content/a") for _ in range(12)))
        assert sorted(answer.status for answer, _ in answers) == [200] * 10 + [429] * 2
        assert (await visit.get("/api/search.json"))[0].status == 200
    async with visiting(GovukApi([page("/a")])) as visit:
        answers = await asyncio.gather(*(visit.get("/api/content/a") for _ in range(12)))
        assert {answer.status for answer, _ in answers} == {200}


async def test_requests_are_kept_with_their_parameters() -> None:
    async with visiting(GovukApi([page("/a")])) as visit:
        await visit.get("/api/search.json?filter_link=%2Fa&filter_link=%2Fb&q=")
        await visit.get("/api/content/a")
        search, content = visit.api.requests
    assert search == ApiRequest("/api/search.json", {"filter_link": ("/a", "/b"), "q": ("",)})
    assert (search.is_search(), search.is_content(), search.first("filter_link")) == (True, False, "/a")
    assert (content.path, content.is_search(), content.is_content()) == ("/api/content/a", False, True)
    assert content.first("start") is None


async def test_a_fault_starts_with_the_nth_matching_request_and_lasts_so_many_times() -> None:
    async with visiting(GovukApi([page("/a")])) as visit:

        async def statuses(*paths: str) -> list[int]:
            return [(await visit.get(f"/api/{path}"))[0].status for path in paths]

        visit.api.faults.plan(always(status(500)), when=ApiRequest.is_content, nth=2, times=2)
        assert await statuses("content/a", "search.json", *["content/a"] * 3) == [200, 200, 500, 500, 200]
        second_page = "search.json?start=1500"
        visit.api.faults.plan(always(busy(7)), when=lambda asked: asked.first("start") == "1500", times=None)
        assert await statuses("search.json", second_page, second_page) == [200, 429, 429]
        visit.api.faults.clear()
        assert await statuses(second_page) == [200]
        visit.api.faults.plan(always(status(502)))
        visit.api.faults.plan(always(status(503)), nth=2)
        assert await statuses(*["search.json"] * 3) == [502, 503, 200]
        assert len(visit.api.requests) == 12


@pytest.mark.parametrize(
    ("fault", "code", "start"),
    [
        (api_faults.text_error(503), 503, b"The search did not answer"),
        (api_faults.text_error(400), 400, b"The search did not answer"),
        (api_faults.text_under_200, 200, b"The search is away"),
        (api_faults.error_under_200, 200, b'{"error": '),
    ],
)
async def test_errors_can_be_text_under_a_json_type_or_under_200(fault: Any, code: int, start: bytes) -> None:
    """Spec 6.5."""
    async with visiting(GovukApi([page("/a")])) as visit:
        visit.api.faults.plan(always(fault))
        answer, body = await visit.get("/api/search.json")
        assert (answer.status, answer.content_type) == (code, "application/json")
        assert body.startswith(start)
        assert len(await visit.links()) == 1


@pytest.mark.parametrize("fault", [reset, truncated, hang])
async def test_faults_can_cut_the_connection_to_an_api(fault: Any) -> None:
    async with visiting(GovukApi([page("/a")])) as visit:
        visit.api.faults.plan(always(fault), times=None)  # aiohttp repeats a request after a reset
        with pytest.raises((aiohttp.ClientError, TimeoutError)):
            async with visit.client.get(f"{HOME}/api/search.json", timeout=aiohttp.ClientTimeout(total=0.1)) as answer:
                await answer.read()
        visit.api.faults.clear()
        assert len(await visit.links()) == 1


@pytest.mark.parametrize(
    ("fault", "start", "total", "results"),
    [
        (api_faults.empty_page, 10, 30, 0),
        (api_faults.short_page, 10, 30, 9),
        (api_faults.shrunk_total, 20, 29, 9),
        (api_faults.moved_total, 20, 31, 10),
    ],
)
async def test_a_fault_alters_a_page_of_results(fault: Maker, start: int, total: int, results: int) -> None:
    """Spec 6.5."""
    api = GovukApi([page(f"/p/{n}") for n in range(30)])
    async with visiting(api) as visit:
        api.faults.plan(fault, when=ApiRequest.is_search)
        wrong = await visit.search(start=start)
        right = await visit.search(start=start)
    assert wrong["results"] == right["results"][:results]
    assert len(wrong["results"]) == results
    assert (wrong["total"], right["total"], wrong["start"]) == (total, 30, start)


async def test_pages_can_change_between_two_requests() -> None:
    first = page("/a")
    async with visiting(GovukApi([first])) as visit:
        visit.api.put(replace(first, public_timestamp=SUMMER + minutes(5)))
        visit.api.put(page("/b"))
        assert await visit.links(order="public_timestamp") == ["/b", "/a"]
        assert visit.api.pages[0] == replace(first, public_timestamp=SUMMER + minutes(5))


async def read_day(visit: Visit, day: date) -> dict[str, str]:
    """Return the labels of a London day by two queries, each of which fits one page."""
    start, end = bounds(day, LONDON)
    span = f"from:{start:%Y-%m-%dT%H:%M:%SZ},to:{end - timedelta(seconds=1):%Y-%m-%dT%H:%M:%SZ}"
    new = await visit.links(filter_first_published_at=span, count=1500)
    touched = await visit.links(filter_public_timestamp=span, count=1500)
    return dict.fromkeys(touched, "LATEST") | dict.fromkeys(new, "NEW")


DAYS = [TODAY, date(2026, 7, 14), date(2026, 3, 30), date(2026, 10, 26)]  # the last two follow days of 23 and 25 hours


@pytest.mark.parametrize("today", DAYS)
async def test_two_queries_find_the_expected_labels_of_a_day(today: date) -> None:
    """Spec 6.2."""
    yesterday = today - timedelta(days=1)
    async with DemoWeb(today=today, sites=(GOVUK,)) as web, open_client(web) as client:
        visit = Visit(govuk_api(today), client)
        labels = {day: await read_day(visit, day) for day in (yesterday, today)}
    assert labels[yesterday] == expected_day(yesterday) == expected_day(yesterday, today=today)
    assert labels[today] == expected_day(today, today=today)
    assert sorted(labels[yesterday].values()) == ["LATEST"] * 4 + ["NEW"] * 7
    assert sorted(labels[today].values()) == ["LATEST", "NEW"]
    assert expected_day(today - timedelta(days=2), today=today) == {}


async def test_the_host_has_every_trap_of_a_day() -> None:
    """Spec 6.2."""
    pages = govuk_api(TODAY).pages
    start, end = bounds(TODAY - timedelta(days=1), LONDON)
    first = {page.link: page.first_published_at for page in pages if page.first_published_at}
    in_day = [page for page in pages if page.public_timestamp and start <= page.public_timestamp < end]
    traps: dict[str, Callable[[GovukPage], object]] = {
        "last second": lambda page: page.first_published_at == end - timedelta(seconds=1),
        "first second": lambda page: page.first_published_at == start,
        "first second of the next day": lambda page: page.first_published_at == end,
        "no public_timestamp": lambda page: page.public_timestamp is None,
        "elsewhere": lambda page: page.link.startswith("http://") and page.content_id is None,
        "not in the Content API": lambda page: not page.in_content and page in in_day,
        "both disagree": lambda page: page.content_updated_at and page in in_day,
        "again today": lambda page: page.public_timestamp and page.public_timestamp > end,
        "again on its day": lambda page: page in in_day and start < first[page.link] != page.public_timestamp,
    }
    for name, is_there in traps.items():
        assert sum(bool(is_there(page)) for page in pages) == 1, name


async def test_pages_and_api_share_the_host_and_agree() -> None:
    async with DemoWeb(today=TODAY, sites=(GOVUK,)) as web, open_client(web) as client:
        visit = Visit(govuk_api(TODAY), client)
        results = (await visit.search(count=50, fields="title,link"))["results"]
        own = [result for result in results if result["link"].startswith("/")]
        assert (len(results), len(own)) == (14, 13)
        for result in own:
            answer, body = await visit.get(result["link"])
            assert (answer.status, answer.content_type) == (200, "text/html")
            tree = LexborHTMLParser(body)
            assert [heading.text() for heading in tree.css("h1")] == [result["title"]]
        assert (await visit.get("/"))[0].content_type == "text/html"
        assert [(await visit.get(path))[0].status for path in ("/api", "/api/nothing", "/nothing")] == [404] * 3
        assert (await visit.get("/api/nothing"))[0].content_type == "application/json"
        web.break_host(GOVUK.host, status(503), times=1)
        assert [(await visit.get("/api/search.json"))[0].status for _ in range(2)] == [503, 200]


async def test_a_generated_day_has_the_requested_pages_of_each_kind() -> None:
    """Spec 6.2."""
    for day in (TODAY, date(2026, 3, 29), date(2026, 10, 25)):
        pages = make_catalogue(day, new=700, latest=500, others=100)
        async with visiting(GovukApi(pages)) as visit:
            labels = list((await read_day(visit, day)).values())
        assert (labels.count("NEW"), labels.count("LATEST"), len(pages)) == (700, 500, 1300)
    assert pages == make_catalogue(date(2026, 10, 25), new=700, latest=500, others=100)


async def test_a_day_of_thousands_takes_several_requests_and_each_can_get_a_fault() -> None:
    """Spec 6.2, 6.5."""
    pages = make_catalogue(TODAY, new=2000, latest=1000)
    async with visiting(GovukApi(pages)) as visit:
        visit.api.faults.plan(api_faults.empty_page, when=ApiRequest.is_search, nth=2)
        starts = (0, 1500, 1500)
        sizes = [len(await visit.links(count=1500, start=start, order="public_timestamp")) for start in starts]
        assert sizes == [1500, 0, 1500]
        assert (await visit.search(count=0))["total"] == 3000
