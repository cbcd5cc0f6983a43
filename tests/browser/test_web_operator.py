"""The operator pages in a real Chromium, with and without JavaScript (spec 8.4, 11.13)."""

from collections.abc import AsyncIterator, Callable

import pytest
from playwright.async_api import expect

from headwater.core.settings import Settings
from tests.api import TOKEN
from tests.browser.test_web import HTML, PATIENCE, Desk, open_desk
from tests.harness import open_harness
from tests.server import Answer, Site, page, rss

FEED, PAGE, WAITING = "http://second.test/feed", "http://second.test/story", "http://slow.test/waits"


@pytest.fixture
async def desk(site: Site, make_settings: Callable[..., Settings], chromium: str) -> AsyncIterator[Desk]:
    """A Headwater with a blocked host, and with a feed that no source reads yet."""
    site.answers[FEED] = rss(PAGE)
    site.answers[PAGE] = Answer(page("estuary"), headers=HTML)
    site.answers[WAITING] = Answer(page("lock"), headers=HTML)
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as harness:
        await harness.operations.frontier.close_host("slow.test")
    async with open_desk(settings, site, chromium) as opened:
        yield opened


@pytest.mark.timeout(300)
async def test_the_page_of_a_source_shows_a_poll_without_a_reload(desk: Desk) -> None:
    async with desk.open() as opened, desk.open() as other:
        for window in (opened, other):
            await desk.sign_in(window)
        await other.goto("/ui/add-source")
        await other.get_by_label("Address").fill(FEED)
        await other.get_by_label("Name").first.fill("second")
        await other.get_by_role("button", name="Add").first.click()
        await expect(other.get_by_role("heading", level=1)).to_have_text("second", timeout=PATIENCE)
        async with opened.expect_request("**/ui/live/*"):
            await opened.goto("/ui/sources/second")
        await opened.evaluate("window.isSame = true")
        numbers = opened.locator("details[data-keep]").first
        await numbers.locator("summary").click(timeout=PATIENCE)
        await other.get_by_role("button", name="Sync now").click()
        await expect(opened.locator(".event .badge", has_text="run")).to_have_count(1, timeout=PATIENCE)
        assert await opened.evaluate("window.isSame")
        await expect(numbers).to_have_attribute("open", "")
        assert not desk.faults


@pytest.mark.timeout(300)
@pytest.mark.parametrize("has_scripts", [True, False])
async def test_an_operator_adds_a_source_submits_a_url_and_releases_its_host(desk: Desk, has_scripts: bool) -> None:
    async with desk.open(java_script_enabled=has_scripts) as opened:
        await desk.sign_in(opened)
        pages = opened.get_by_role("navigation", name="Pages")

        await pages.get_by_role("link", name="Sources").click()
        await opened.get_by_role("link", name="Add a source").click()
        await opened.get_by_label("Address").fill("http://nowhere.test/")
        await opened.get_by_role("button", name="Add").first.click()
        await expect(opened.get_by_role("alert")).to_be_visible(timeout=PATIENCE)
        await opened.get_by_label("Address").fill(FEED)
        await opened.get_by_label("Name").first.fill("second")
        await opened.get_by_role("button", name="Add").first.click()
        await expect(opened.get_by_role("heading", level=1)).to_have_text("second", timeout=PATIENCE)

        await opened.get_by_role("link", name="Edit").click()
        await opened.get_by_label("category").fill("policy")
        await opened.get_by_role("button", name="Save").click()
        await expect(opened.get_by_role("status")).to_contain_text("category")
        await opened.get_by_role("button", name="Disable").click()
        await expect(opened.get_by_role("button", name="Enable")).to_be_visible()

        await pages.get_by_role("link", name="Submit URLs").click()
        await opened.get_by_label("URLs, one on each line").fill(WAITING)
        await opened.get_by_role("button", name="Submit").click()
        await expect(opened.locator("td .badge")).to_have_text(["new"])

        await pages.get_by_role("link", name="Hosts").click()
        await opened.get_by_role("link", name="slow.test").click()
        await expect(opened.get_by_role("link", name=WAITING)).to_be_visible()
        await opened.get_by_role("button", name="Release").click()
        await expect(opened.get_by_role("button", name="Release")).to_have_count(0)
        for _ in range(100):  # the page is fetched meanwhile
            await opened.goto("/ui/frontier/urls?host=slow.test")
            if await opened.locator("td .badge").inner_text() == "fetched":
                break
        await expect(opened.locator("td .badge")).to_have_text("fetched")

        await pages.get_by_role("link", name="Sources").click()
        await opened.get_by_role("link", name="second").click()
        await opened.get_by_role("link", name="Remove").click()
        await opened.get_by_role("button", name="Remove second").click()
        await expect(opened.get_by_role("link", name="second")).to_have_count(0)
