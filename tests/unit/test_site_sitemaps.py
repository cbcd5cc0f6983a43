"""The sitemap method of a site: the pages to read, their order, and the saved state (spec 3.3)."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from headwater.core.dates import parse_date
from headwater.core.errors import ExchangeFailed, HeadwaterError, Unreadable
from headwater.core.reasons import Reason
from headwater.feeds.sitemap_selection import is_older, read_sitemap
from headwater.sources.kinds import site_sitemaps
from tests.replaying import Answers, index, replay, urlset

MAP = "https://a.example/sitemap.xml"
ROBOTS = "https://a.example/robots.txt"
FRESH, OLD = "2026-01-15T09:00:00+00:00", "2026-01-01T09:00:00+00:00"


def sub(name: int | str) -> str:
    return f"https://a.example/maps/{name}.xml"


def own(path: str) -> str:
    return f"https://a.example/{path}"


async def read(folder: Path, answers: Answers, settings: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return await replay(folder, settings or {"sitemap_url": MAP}, answers, method="sitemap", **more)


def found_urls(result: dict[str, Any]) -> list[str]:
    return [found["url"] for found in result.get("urls", [])]


async def test_pages_of_the_last_48_hours_and_pages_without_a_date_count(tmp_path: Path) -> None:
    pages = urlset((own("new"), FRESH), (own("old"), OLD), (own("undated"), None), (own("edge"), "2026-01-13"))
    assert found_urls(await read(tmp_path, {MAP: pages})) == [own("new"), own("undated"), own("edge")]


async def test_after_a_longer_pause_the_window_reaches_back_to_the_last_reading(tmp_path: Path) -> None:
    pages = urlset((own("new"), FRESH), (own("week"), "2026-01-08T10:00:00Z"), (own("old"), OLD))
    result = await read(tmp_path, {MAP: pages}, state={"read_at": "2026-01-07T12:00:00+00:00"})
    assert found_urls(result) == [own("new"), own("week")]
    assert result["state"]["read_at"] == "2026-01-15T12:00:00+00:00"


@pytest.mark.parametrize(
    ("given", "wanted"), [("2026-01-13", True), ("2026-01-13T11:59:59Z", False), ("2026-01-12", False), ("", True)]
)
def test_a_date_alone_lasts_to_the_end_of_its_day(given: str, wanted: bool) -> None:
    since = parse_date("2026-01-13T12:00:00Z")
    assert since
    assert is_older(parse_date(given), since) is not wanted


async def test_the_window_has_a_limit(tmp_path: Path) -> None:
    pages = urlset((own("new"), FRESH), (own("old"), "2025-12-14T00:00:01Z"), (own("month"), "2025-12-17T00:00:01Z"))
    result = await read(tmp_path, {MAP: pages}, state={"read_at": "2025-01-01T00:00:00+00:00"})
    assert found_urls(result) == [own("new"), own("month")]


async def test_pages_of_other_sites_are_left_out(tmp_path: Path) -> None:
    pages = urlset(
        (own("1"), FRESH),
        ("https://news.a.example/2", FRESH),
        ("https://b.example/3", None),
        ("ftp://a.example/4", None),
    )
    assert found_urls(await read(tmp_path, {MAP: pages})) == [own("1"), "https://news.a.example/2"]


async def test_a_sitemap_of_another_sites_pages_is_a_problem(tmp_path: Path) -> None:
    result = await read(tmp_path, {MAP: urlset(("https://b.example/3", None))})
    (problem,) = result["state"]["problems"]
    assert problem["problem"].startswith("It lists 1 pages of other sites, and none of a.example")


@pytest.mark.parametrize("home", ["blog", "blog/", "blog/index.html"])
async def test_sitemaps_that_are_not_given_stay_below_the_home_page(home: str, tmp_path: Path) -> None:
    pages = urlset((own("blog/1"), FRESH), (own("shop/2"), FRESH), (own("blogs"), FRESH))
    result = await read(tmp_path, {ROBOTS: 404, MAP: pages, **_no_others()}, {"site_url": own(home)})
    assert found_urls(result) == [own("blog/1")]
    result = await read(tmp_path, {MAP: pages}, {"site_url": own(home), "sitemap_url": MAP})
    assert found_urls(result) == [own("blog/1"), own("shop/2"), own("blogs")]


async def test_a_search_that_found_no_sitemap_is_repeated_after_a_day(tmp_path: Path) -> None:
    answers = {ROBOTS: 404, MAP: 404, **_no_others()}
    home = {"site_url": own("")}
    first = (await read(tmp_path, answers, home))["state"]
    again = (await read(tmp_path, {}, home, state=first, now="2026-01-16T10:00:00Z"))["state"]
    assert again == first
    pages = {ROBOTS: f"Sitemap: {MAP}", MAP: urlset((own("new"), "2026-01-16T12:00:00Z"))}
    later = await read(tmp_path, pages, home, state=again, now="2026-01-16T13:00:00Z")
    assert found_urls(later) == [own("new")]
    assert "none_at" not in later["state"]


def _no_others() -> dict[str, int]:
    return {own("sitemap_index.xml"): 404, own("news-sitemap.xml"): 404}


async def test_a_site_without_a_sitemap_says_where_it_was_looked_for(tmp_path: Path) -> None:
    answers = {ROBOTS: 404, MAP: "<html>Not found", **_no_others()}
    (problem,) = (await read(tmp_path, answers, {"site_url": own("")}))["state"]["problems"]
    assert "names none, and none is at /sitemap.xml" in problem["problem"]
    with pytest.raises(Unreadable, match="No sitemap was found") as caught:
        await read(tmp_path, answers, {"site_url": own("")}, since="2024-01-01T00:00:00Z")
    assert caught.value.reason is Reason.NOT_FOUND


async def test_old_sub_sitemaps_are_not_asked_for_and_the_newest_come_first(tmp_path: Path) -> None:
    answers = {
        MAP: index((sub(1), OLD), (sub(2), None), (sub(3), "2026-01-14T09:00:00Z"), (sub(4), FRESH)),
        **{sub(number): urlset((own(f"{number}"), None)) for number in (2, 3, 4)},
    }
    assert found_urls(await read(tmp_path, answers)) == [own("4"), own("3"), own("2")]


@pytest.mark.parametrize("lastmod", [None, FRESH])
async def test_among_sitemaps_of_one_day_the_oldest_reading_is_first(
    lastmod: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_sitemaps, "_MAX_REQUESTS", 3)
    subs = {sub(number): urlset((own(f"{number}"), None)) for number in range(4)}
    answers = {MAP: index(*((url, lastmod) for url in subs)), **subs}
    first = await read(tmp_path, answers)
    assert found_urls(first) == [own("0"), own("1")]
    assert first["state"]["problems"][0]["problem"].startswith("2 sitemaps, this and older ones, are left")
    assert "read_at" not in first["state"]
    second = await read(tmp_path, answers, state=first["state"], now="2026-01-15T18:00:00Z")
    assert found_urls(second) == [own("2"), own("3")]


async def test_a_sitemap_with_the_same_bytes_is_not_read_again_but_an_index_is(tmp_path: Path) -> None:
    answers = {MAP: index((sub(1), None)), sub(1): urlset((own("1"), None))}
    first = await read(tmp_path, answers)
    again = await read(tmp_path, answers, state=first["state"])
    assert (found_urls(first), found_urls(again)) == ([own("1")], [])
    assert list(first["state"]["sitemaps"]) == [sub(1)]
    changed = {MAP: answers[MAP], sub(1): urlset((own("2"), None))}
    assert found_urls(await read(tmp_path, changed, state=again["state"])) == [own("2")]


async def test_a_backfill_reads_what_is_known_too(tmp_path: Path) -> None:
    answers = {MAP: urlset((own("old"), OLD), (own("older"), "2025-06-01"))}
    first = await read(tmp_path, answers)
    assert found_urls(first) == []
    assert found_urls(await read(tmp_path, answers, state=first["state"], since="2025-12-01T00:00:00Z")) == [own("old")]


async def test_a_pass_for_the_last_minutes_leaves_no_gap_behind_it(tmp_path: Path) -> None:
    """Known pages are not read again, so a run after an overflow reads all since the last run."""
    pages = urlset((own("morning"), "2026-01-15T08:00:00Z"), (own("old"), OLD))
    before = "2026-01-15T06:00:00+00:00"
    state = {"read_at": before, "sitemaps": {MAP: {"at": before, "body_hash": "00"}}}
    assert found_urls(await read(tmp_path, {MAP: pages}, state=state, since="2026-01-15T11:00:00Z")) == [own("morning")]
    assert found_urls(await read(tmp_path, {MAP: pages}, since="2026-01-15T11:00:00Z")) == []


def older(result: dict[str, Any]) -> dict[str, Any] | None:
    found: dict[str, Any] | None = result["state"].get("older")
    return found


async def test_pages_older_than_the_window_are_counted_until_they_are_taken(tmp_path: Path) -> None:
    """Issue 20: a page that a reading has taken stays taken, however old it gets."""
    pages = ((own("new"), FRESH), (own("old"), OLD), (own("older"), "2025-06-01T08:00:00Z"), (own("undated"), None))
    first = await read(tmp_path, {MAP: urlset(*pages)})
    assert older(first) == {"pages": 2, "sitemaps": 0, "oldest": "2025-06-01T08:00:00+00:00"}
    unchanged = await read(tmp_path, {MAP: urlset(*pages)}, state=first["state"])
    assert older(unchanged) == older(first)
    grown = urlset(*pages, (own("newest"), "2026-02-15T09:00:00Z"))
    month_later = await read(tmp_path, {MAP: grown}, state=first["state"], now="2026-02-15T12:00:00Z")
    assert older(month_later) == older(first)
    part = await read(tmp_path, {MAP: grown}, state=first["state"], since="2025-12-01T00:00:00Z")
    assert older(part) == {"pages": 1, "sitemaps": 0, "oldest": "2025-06-01T08:00:00+00:00"}
    whole = await read(tmp_path, {MAP: grown}, state=part["state"], since="2025-06-01T00:00:00Z")
    assert older(whole) is None


async def test_older_sitemaps_are_counted_until_a_backfill_reads_them(tmp_path: Path) -> None:
    answers = {
        MAP: index((sub(1), FRESH), (sub(2), OLD), (sub(3), OLD)),
        sub(1): urlset((own("old"), OLD)),
        sub(2): urlset((own("2"), OLD)),
        sub(3): urlset((own("3"), OLD)),
    }
    first = await read(tmp_path, answers)
    assert older(first) == {"pages": 1, "sitemaps": 2, "oldest": OLD}
    filled = await read(tmp_path, answers, state=first["state"], since="1970-01-01T00:00:00Z")
    assert len(found_urls(filled)) == 3
    assert older(filled) is None
    filled["state"]["sitemaps"] = {}  # they are too many to remember
    assert older(await read(tmp_path, answers, state=filled["state"])) is None


async def test_an_unfinished_backfill_continues_in_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_sitemaps, "_MAX_REQUESTS", 3)
    subs = {sub(number): urlset((own(f"{number}"), OLD)) for number in range(3)}
    answers = {MAP: index(*((url, None) for url in subs)), **subs}
    first = await read(tmp_path, answers, since="2025-12-01T00:00:00Z")
    assert found_urls(first) == [own("0"), own("1")]
    second = await read(tmp_path, answers, state=first["state"], now="2026-01-15T18:00:00Z")
    assert found_urls(second) == [own("2")]
    assert "backfill" in first["state"]
    assert "backfill" not in second["state"]


async def test_entries_of_news_become_items(tmp_path: Path) -> None:
    news = (
        '<urlset xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"><url><loc>https://a.example/n</loc>'
        "<news:news><news:publication_date>2026-01-15T08:00:00Z</news:publication_date><news:title>Ferry</news:title>"
        "</news:news></url></urlset>"
    )
    result = await read(tmp_path, {MAP: gzip.compress(news.encode())})
    (item,) = result["items"]
    assert (item["title"], item["published_at"]) == ("Ferry", "2026-01-15T08:00:00+00:00")


async def test_one_bad_sub_sitemap_does_not_lose_the_others(tmp_path: Path) -> None:
    answers = {
        MAP: index((sub(1), FRESH), (sub(2), None), (sub(3), None), (sub(4), None)),
        sub(1): 404,
        sub(2): "<html>Log in",
        sub(3): gzip.compress(urlset((own("3"), None)).encode())[:-20],
        sub(4): urlset((own("4"), None)),
    }
    result = await read(tmp_path, answers)
    assert found_urls(result) == [own("4")]
    assert [problem["url"] for problem in result["state"]["problems"]] == [sub(1), sub(2), sub(3)]


async def test_the_pages_of_a_truncated_sitemap_are_kept(tmp_path: Path) -> None:
    whole = urlset((own("1"), None), (own("2"), None), (own("3"), None))
    result = await read(tmp_path, {MAP: whole[: whole.index("/3</loc>")]})
    assert found_urls(result) == [own("1"), own("2")]
    assert [problem["url"] for problem in result["state"]["problems"]] == [MAP]
    assert result["state"]["sitemaps"] == {}


async def test_the_first_problem_is_raised_if_no_sitemap_can_be_read(tmp_path: Path) -> None:
    with pytest.raises(ExchangeFailed) as caught:
        await read(tmp_path, {MAP: index((sub(1), FRESH), (sub(2), None)), sub(1): 503, sub(2): 404})
    assert caught.value.reason is Reason.HTTP_5XX


async def test_a_passing_failure_keeps_the_window_open(tmp_path: Path) -> None:
    answers = {MAP: index((sub(1), FRESH), (sub(2), None)), sub(1): 503, sub(2): urlset()}
    result = await read(tmp_path, answers, state={"read_at": "2026-01-15T06:00:00+00:00"})
    assert result["state"]["read_at"] == "2026-01-15T06:00:00+00:00"


async def test_a_host_that_is_down_is_not_asked_for_all_its_sitemaps(tmp_path: Path) -> None:
    subs = {sub(number): 503 for number in range(1, 9)}
    answers = {MAP: index((sub(0), FRESH), *((url, None) for url in subs)), sub(0): urlset(), **subs}
    result = await read(tmp_path, answers)
    problems = [problem["url"] for problem in result["state"]["problems"]]
    assert problems == [*list(subs)[:5], sub(6)]
    assert result["state"]["problems"][-1]["problem"].startswith("3 sitemaps")


@pytest.mark.parametrize("nested", [[MAP], [sub(1), MAP], [sub(1), sub(1)]], ids=["itself", "round", "twice"])
async def test_a_sitemap_index_that_names_itself_is_refused(tmp_path: Path, nested: list[str]) -> None:
    chain = dict(zip([MAP, *nested[:-1]], (index((url, None)) for url in nested), strict=True))
    with pytest.raises(Unreadable, match="names itself"):
        await read(tmp_path, chain)


async def test_sitemaps_nested_too_deep_are_refused_at_the_fourth_index(tmp_path: Path) -> None:
    chain = {
        MAP: index((sub(1), None)),
        **{sub(n): index((sub(n + 1), None)) for n in (1, 2)},
        sub(3): index((sub(4), None)),
    }
    with pytest.raises(Unreadable, match="nested too deep"):
        await read(tmp_path, chain)


async def test_the_state_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_sitemaps, "_MAX_SAVED", 2)
    subs = {sub(number): urlset() for number in range(4)}
    result = await read(tmp_path, {MAP: index(*((url, None) for url in subs)), **subs})
    assert list(result["state"]["sitemaps"]) == [sub(2), sub(3)]


async def test_many_items_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_sitemaps, "_MAX_ITEMS", 1)
    entries = "".join(
        f"<url><loc>{own(str(n))}</loc><news:publication_date>2026-01-15</news:publication_date><news:title>T</news:title></url>"
        for n in range(3)
    )
    result = await read(tmp_path, {MAP: f"<urlset>{entries}</urlset>"})
    assert (len(result["items"]), len(result["urls"])) == (1, 2)


def test_a_zip_bomb_is_refused() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    since = parse_date("2026-01-13")
    assert since
    with pytest.raises(HeadwaterError, match="not a sitemap"):
        read_sitemap(bomb, MAP, since, ["a.example"])
