"""A page that lists other pages is a dated feed: the mode `list` of a site, through all doors (issue 24)."""

from collections.abc import AsyncIterator, Callable

import pytest

from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from tests.api import TOKEN, open_api
from tests.harness import AppHarness, open_harness
from tests.pages import open_reader
from tests.refusals import refused
from tests.server import Answer, Site, page

LIST = "http://news.test/notices"
TITLES = ("The ferry has a new timetable", "The market hall reopens", "The quay is repaired", "The fair", "The library")
HTML = {"Content-Type": "text/html"}


@pytest.fixture
async def harness(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    async with open_harness(make_settings(connect_to=site.connect_to, api_token=TOKEN)) as opened:
        yield opened


def listing(titles: tuple[str, ...] = TITLES, etag: str = '"1"') -> Answer:
    cards = "".join(
        f"<article><h2><a href=/n/{title.replace(' ', '-')}>{title}</a></h2>"
        f"{f'<time datetime=2026-01-0{number}>' if number else ''}</article>"
        for number, title in enumerate(titles)
    )
    return Answer(f"<title>Notices</title><main>{cards}</main>", headers=HTML | {"ETag": etag})


async def test_a_list_becomes_dated_items_and_new_entries_become_new_items(site: Site, harness: AppHarness) -> None:
    """Entries without a date are as old as our first sight of them."""
    sources = harness.operations.sources
    site.answers[LIST] = [listing(), Answer(status=304), listing((*TITLES, "The bridge"), '"2"')]
    added = await sources.add(LIST, mode="list")
    assert (added.items, added.title, added.requests, added.method) == (5, "Notices", 2, "main")
    assert added.settings == {"site_url": LIST, "ingestion_mode": "list"}
    days = {item.title: None if item.published_is_sighting else item.published_at.day for item in added.newest}
    assert days == {title: number or None for number, title in enumerate(TITLES)}
    assert (await harness.poll("news.test")).items == 0
    assert site.seen[-1].headers["If-None-Match"] == '"1"'
    assert (await harness.poll("news.test")).new_items == 1
    assert [seen.url for seen in site.seen].count(LIST) == 3


async def test_a_list_that_lists_nothing_any_more_fails_and_keeps_its_items(site: Site, harness: AppHarness) -> None:
    sources = harness.operations.sources
    site.answers[LIST] = [listing(), Answer(page("Notices"), headers=HTML)]
    await sources.add(LIST, mode="list")
    assert (await harness.poll("news.test")).reason is Reason.NO_LIST
    assert (await harness.method()).consecutive_errors == 1
    assert len((await sources.show("news.test")).last_items) == 5


async def test_a_page_without_entries_is_not_added_as_a_list(site: Site, harness: AppHarness) -> None:
    site.answers[LIST] = Answer(page("One story"), headers=HTML)
    with refused(Reason.NO_LIST, LIST):
        await harness.operations.sources.add(LIST, mode="list")
    assert await harness.operations.sources.list_sources() == []


async def test_add_reads_a_page_as_a_list_if_the_site_has_no_feed_and_no_sitemap(
    site: Site, harness: AppHarness
) -> None:
    site.answers[LIST] = listing()
    added = await harness.operations.sources.add(LIST)
    assert added.settings == {"site_url": LIST, "ingestion_mode": "list"}
    assert (added.items, site.visits(LIST)) == (5, 1)


async def test_a_few_links_are_no_list_unasked(site: Site, harness: AppHarness) -> None:
    site.answers[LIST] = listing(TITLES[:4])
    with refused(Reason.NOT_A_FEED, "--mode list", "--mode spider"):
        await harness.operations.sources.add(LIST)
    assert (await harness.operations.sources.add(LIST, mode="list")).items == 4


async def test_a_trial_reads_the_list_and_names_the_command_that_adds_it(site: Site, harness: AppHarness) -> None:
    site.answers[LIST] = listing()
    tried = await harness.operations.sources.test(LIST)
    assert (tried.works, tried.stages[-1].name) == (False, "feeds")
    assert "headwater add" in str(tried.stages[-1].error)
    assert len(tried.stages[-1].found) == 5
    await harness.operations.sources.add(LIST, mode="list")
    site.answers["http://news.test/n/The-ferry-has-a-new-timetable"] = Answer(page("The ferry"), headers=HTML)
    tried = await harness.operations.sources.test("news.test")
    assert (tried.works, [stage.name for stage in tried.stages]) == (
        True,
        ["settings", "list", "newest page", "article"],
    )


async def test_a_list_is_exported_and_imported(site: Site, harness: AppHarness) -> None:
    sources = harness.operations.sources
    site.answers[LIST] = listing()
    await sources.add(LIST, mode="list")
    exported = await sources.export_yaml()
    await sources.remove("news.test")
    assert (await sources.import_list(exported)).added == ["news.test"]
    assert (await sources.show("news.test")).settings == {"site_url": LIST, "ingestion_mode": "list"}
    assert (await harness.poll("news.test")).items == 5


async def test_the_api_and_the_pages_add_a_list(site: Site, harness: AppHarness) -> None:
    site.answers[LIST] = listing()
    site.answers["http://more.test/notices"] = listing()
    async with open_api(harness.operations.settings) as api:
        status, added = await api.request("POST", "/sources", {"url": LIST, "mode": "list"})
        assert (status, added["items"], added["settings"]["ingestion_mode"]) == (201, 5, "list")
    async with open_reader(harness.operations.settings) as reader:
        await reader.sign_in()
        shown = await reader.submit_form("/ui/add-source", url="http://more.test/notices", mode="list")
        assert (shown.status, shown.texts("h1")) == (200, ["more.test"])
