"""The pages in a real Chromium, with and without JavaScript (spec 8.4, 11.13)."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from headwater.app.roles import RoleName, serve
from headwater.core.settings import Settings
from headwater.web import SignInLinks, make_app
from tests.api import TOKEN
from tests.every_page import ADDRESSES, fill_pages
from tests.harness import open_harness
from tests.server import Answer, Site, page, rss

FEED = "http://news.test/feed"
CHANGED, BLOCKED = "http://news.test/changed", "http://news.test/private/blocked"
HTML = {"Content-Type": "text/html"}
HOSTILE = '<script>alert(1)</script> \u202e"it\'s"'
ROLES = [RoleName.API, RoleName.FETCHER, RoleName.MAINTENANCE]
PATIENCE = 60_000  # milliseconds, on a machine with much other work
# Pages in other states than in `ADDRESSES`, for a user who has not signed in.
SIGNED_OUT = (
    "/ui/today",
    "/ui/documents/1",
    "/ui/search",
    "/ui/search?q=river&source=news.test",
    "/ui/search?q=zebra",
    "/ui/why",
    "/ui/sources",
    "/ui/system",
    "/ui/sign-in",
    "/ui/nothing",
)


class Desk:
    """A running Headwater and a browser that visits it."""

    def __init__(self, base: str, links: SignInLinks, browser: Browser, site: Site) -> None:
        self.base = base
        self.links = links
        self.browser = browser
        self.site = site
        self.faults: list[str] = []

    @contextlib.asynccontextmanager
    async def open(self, **options: object) -> AsyncIterator[Page]:
        """Open a window of its own. It notes errors of scripts, and requests to other hosts."""
        context: BrowserContext = await self.browser.new_context(base_url=self.base, **options)  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE)
        opened = await context.new_page()
        opened.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        opened.on("console", lambda line: self.faults.append(line.text) if _is_fault(line.type, line.text) else None)
        opened.on(
            "request", lambda sent: None if sent.url.startswith(self.base) else self.faults.append(f"sent: {sent.url}")
        )
        opened.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))
        try:
            yield opened
        finally:
            await context.close()

    async def sign_in(self, opened: Page) -> None:
        await opened.goto(self.links.make(self.base))
        await expect(opened.get_by_role("button", name="Sign out")).to_be_visible(timeout=PATIENCE)


def _is_fault(kind: str, text: str) -> bool:
    return kind in ("error", "warning") and "status of 4" not in text  # the page of an error is one


@pytest.fixture
async def desk(site: Site, make_settings: Callable[..., Settings], chromium: str) -> AsyncIterator[Desk]:
    """A Headwater with a document of two revisions, a blocked URL and a hostile title."""
    site.answers["http://news.test/robots.txt"] = Answer("User-agent: *\nDisallow: /private/")
    site.answers[FEED] = rss(CHANGED, BLOCKED, "http://news.test/hostile", "http://news.test/river")
    site.answers[CHANGED] = Answer(page("weir", extra="<p>The weir of the town costs 12 million.</p>"), headers=HTML)
    for name in ("hostile", "river"):
        site.answers[f"http://news.test/{name}"] = Answer(page(name), headers=HTML)
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as harness:
        await harness.operations.sources.add(FEED)
        await harness.work()
        site.answers[CHANGED] = Answer(
            page("weir", extra="<p>The weir of the town costs 15 million.</p>"), headers=HTML
        )
        await harness.operations.frontier.retry([CHANGED])
        await harness.work()
        for table in ("documents", "items"):
            await harness.execute(f"UPDATE {table} SET title = $1 WHERE title IN ('hostile', 'Entry 2')", HOSTILE)
    async with open_desk(settings, site, chromium) as desk:
        yield desk


@contextlib.asynccontextmanager
async def open_desk(settings: Settings, site: Site, chromium: str) -> AsyncIterator[Desk]:
    """Run a browser and Headwater. The browser is first: if it does not start, nothing is left running."""
    links = SignInLinks()
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    make = partial(make_app, links=links)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        serving = asyncio.create_task(serve(settings, ROLES, make, on_ready=address.set_result))
        desk = Desk(await address, links, browser, site)
        yield desk
        await browser.close()
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
    assert desk.faults == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("has_scripts", [True, False])
async def test_a_reader_signs_in_submits_searches_compares_asks_why_retries_and_signs_out(
    desk: Desk, has_scripts: bool
) -> None:
    new = "http://news.test/new"
    desk.site.answers[new] = Answer(page("estuary"), headers=HTML)
    async with desk.open(java_script_enabled=has_scripts) as opened:
        await opened.goto("/")
        await expect(opened.get_by_role("link", name="Submit URLs")).to_have_count(0)
        await opened.get_by_role("link", name="Sign in").click()
        await opened.get_by_label("Token").fill("a wrong token")
        await opened.get_by_role("button", name="Sign in").click()
        await expect(opened.get_by_role("alert")).to_be_visible()
        await opened.get_by_label("Token").fill(TOKEN)
        await opened.get_by_role("button", name="Sign in").click()

        await opened.get_by_role("link", name="Submit URLs").click()
        await opened.get_by_label("URLs, one on each line").fill(f"{new}\nftp://no.test/")
        await opened.get_by_role("button", name="Submit").click()
        await expect(opened.locator("td .badge")).to_have_text(["new", "refused"])

        await opened.get_by_role("navigation", name="Pages").get_by_role("link", name="Search").click()
        for _ in range(100):  # the page is fetched meanwhile
            await opened.get_by_label("Words").fill("estuary")
            await opened.get_by_label("Words").press("Enter")
            await opened.wait_for_load_state()
            if await opened.locator(".hits a").count():
                break
        await expect(opened.locator(".hits mark").first).to_have_text("estuary")

        await opened.goto("/ui/documents/1")
        await opened.get_by_role("link", name="What changed").first.click()
        await expect(opened.locator("del")).to_contain_text("12")
        await expect(opened.locator("ins")).to_contain_text("15")

        await opened.get_by_role("navigation", name="Pages").get_by_role("link", name="Why").click()
        await opened.get_by_label("Address").fill(BLOCKED)
        await opened.get_by_role("button", name="Explain").click()
        await expect(opened.locator(".why-head .badge")).to_have_text("robots blocked")
        await opened.get_by_role("button", name="Fetch again").click()
        await expect(opened.get_by_role("status")).to_be_visible()

        await opened.get_by_role("button", name="Sign out").click()
        await expect(opened.get_by_role("link", name="Submit URLs")).to_have_count(0)


@pytest.mark.timeout(300)
async def test_a_submitted_url_becomes_a_document_without_a_reload(desk: Desk) -> None:
    async with desk.open() as opened:
        await desk.sign_in(opened)
        await opened.goto("/ui/since")
        await expect(opened.locator(".line-title").first).to_be_visible()
        await opened.evaluate("window.sameLoad = true")
        desk.site.answers["http://news.test/live"] = Answer(page("Live lines"), headers=HTML)
        other = await opened.context.new_page()
        await other.goto("/ui/submit")
        await other.get_by_label("URLs, one on each line").fill("http://news.test/live")
        await other.get_by_role("button", name="Submit").click()
        await expect(other.locator("td .badge")).to_have_text(["new"])
        await other.close()
        await expect(opened.get_by_role("link", name="Live lines")).to_be_visible(timeout=PATIENCE)
        assert await opened.evaluate("window.sameLoad")


@pytest.mark.timeout(300)
async def test_keys_choose_and_open_lines_and_find_the_search(desk: Desk) -> None:
    async with desk.open() as opened:
        await opened.goto("/ui/days/2026-03-12")
        titles = await opened.locator("[data-line] a").all_inner_texts()
        assert len(titles) >= 3
        chosen = opened.locator("[data-chosen] a")
        for key, number in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
            await opened.keyboard.press(key)
            await expect(chosen).to_have_text(titles[number])
            await expect(chosen).to_be_focused()
        await opened.keyboard.press("?")
        await expect(opened.get_by_role("dialog")).to_be_visible()
        await opened.keyboard.press("Escape")
        await opened.keyboard.press("o")
        await opened.wait_for_url("**/ui/documents/*")
        await opened.keyboard.press("/")
        await opened.wait_for_url("**/ui/search")
        await opened.keyboard.type("j?")  # in a field, keys are letters
        await expect(opened.get_by_label("Words")).to_have_value("j?")


@pytest.mark.timeout(300)
async def test_a_hidden_tab_has_no_stream(desk: Desk) -> None:
    async with desk.open() as opened:
        async with opened.expect_request("**/ui/live/*"):
            await opened.goto("/ui/today")
        async with opened.expect_event("requestfailed", lambda sent: "/ui/live/" in sent.url):
            await opened.evaluate(_SET_HIDDEN, True)
        async with opened.expect_request("**/ui/live/*"):
            await opened.evaluate(_SET_HIDDEN, False)


@pytest.mark.timeout(300)
async def test_a_link_from_another_site_leads_a_signed_in_reader_to_its_page(
    site: Site, make_settings: Callable[..., Settings], chromium: str
) -> None:
    """Reading needs a session here, and the browser does not send its cookie with a request from another site."""
    settings = make_settings(api_token=TOKEN, allowed_hosts=("headwater.test",))
    async with open_desk(settings, site, chromium) as desk, desk.open() as opened:
        await desk.sign_in(opened)
        await opened.goto(desk.base.replace("127.0.0.1", "localhost") + "/health")  # another site
        await opened.evaluate("address => { location.href = address }", f"{desk.base}/ui/search")
        await expect(opened.get_by_label("Words")).to_be_visible()
        desk.faults.clear()  # the other site is one


_SET_HIDDEN = """hidden => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture
async def full_desk(site: Site, make_settings: Callable[..., Settings], chromium: str) -> AsyncIterator[Desk]:
    """A Headwater with something to show on every page."""
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as harness:
        await fill_pages(harness, site)
        await harness.execute("UPDATE items SET title = $1", HOSTILE)
    async with open_desk(settings, site, chromium) as desk:
        yield desk


_COVERED = """
() => [...document.querySelectorAll(".lines > li")].filter(line => {
  const boxes = [...line.children].map(part => {
    const range = document.createRange();
    range.selectNodeContents(part);
    const box = range.getBoundingClientRect();
    return part.matches(".line-text") ? part.getBoundingClientRect() : box;
  });
  return boxes.some((box, i) => boxes.slice(i + 1).some(next =>
    box.right > next.left + 1 && next.right > box.left + 1 && box.bottom > next.top + 1 && next.bottom > box.top + 1))
    || boxes.at(-1).width < 250;
}).map(line => line.innerText)
"""


@pytest.mark.parametrize("width", [1280, 390])
async def test_no_part_of_a_line_covers_another_or_has_too_little_room(full_desk: Desk, width: int) -> None:
    async with full_desk.open(viewport={"width": width, "height": 900}) as opened:
        for path in ("/today", "/days/{day}", "/since", "/stories", "/stories/{document_id}"):
            await opened.goto(f"/ui{ADDRESSES[path]}")
            assert await opened.evaluate(_COVERED) == [], path
        assert await opened.locator(".lines > li").count() > 1


@pytest.mark.timeout(900)
@pytest.mark.parametrize("width", [1280, 390])
async def test_every_page_is_accessible_and_as_wide_as_its_window(full_desk: Desk, width: int) -> None:
    """Issue 22: axe-core finds no serious problem, light and dark."""
    axe = Axe()
    found = []
    async with full_desk.open(viewport={"width": width, "height": 900}, bypass_csp=True) as opened:
        for is_signed_in in (False, True):
            if is_signed_in:
                await full_desk.sign_in(opened)
            for path in [f"/ui{path}" for path in ADDRESSES.values()] if is_signed_in else SIGNED_OUT:
                await opened.goto(path)
                if await opened.evaluate("document.documentElement.scrollWidth") > width:
                    found.append(f"{path} is wider than its window")
                for scheme in ("light", "dark"):
                    await opened.emulate_media(color_scheme=scheme)
                    violations = (await axe.run(opened)).response["violations"]
                    found += [
                        f"{path}, {scheme}: {one['id']} ({one['nodes'][0]['html'][:200]})"
                        for one in violations
                        if one["impact"] in ("serious", "critical")
                    ]
    assert found == []
