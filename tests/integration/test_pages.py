"""The frame of the pages: sign-in, forms, headers and errors, without JavaScript (spec 8.4, 11.13)."""

import asyncio
import contextlib
import re
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from yarl import URL

from headwater.access import operations as access
from headwater.access.operations import Scope
from headwater.api.access import get_needed_scope
from headwater.app import server
from headwater.app.metrics import Metrics
from headwater.app.operations import Operations
from headwater.core.settings import Settings
from headwater.web import SignInLinks, live, make_app
from headwater.web.view import NAVIGATION
from tests.api import TOKEN, open_api
from tests.faults.database import own_server
from tests.harness import AppHarness, open_harness
from tests.pages import Page, Reader, open_reader
from tests.server import Answer, Site, page, rss
from tests.waiting import until

LARGEST_PAGE = 150_000  # bytes
OPEN_FORMS = {"/sign-in", "/sign-out", "/since"}  # they change only the cookies of the browser
FEED = "http://news.test/feed"
HOSTILE_TITLE = 'Sale <script>alert(1)</script> "now" \x1b[31mred\x1b[0m \u202eevil\u2069'
CALM_TITLE = 'Sale <script>alert(1)</script> "now" red evil'


@pytest.fixture
async def page_settings(site: Site, make_settings: Callable[..., Settings]) -> Settings:
    """Settings of a database with an item whose texts are hostile."""
    site.answers[FEED] = rss(
        "http://news.test/a?&quot;onmouseover=&quot;x", "http://news.test/b", title="A 'feed' \"x\""
    )
    for name in ("a?%22onmouseover=%22x", "b"):
        site.answers[f"http://news.test/{name}"] = Answer(page("river"), headers={"Content-Type": "text/html"})
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as harness:
        await harness.operations.sources.add(FEED)
        await harness.work()
        # The readers clean titles. The pages do not rely on it.
        await harness.execute("UPDATE items SET title = $1", HOSTILE_TITLE)
        await harness.execute("UPDATE documents SET title = $1", HOSTILE_TITLE)
    return settings


@pytest.fixture
async def reader(page_settings: Settings) -> AsyncIterator[Reader]:
    """A browser without JavaScript, and without sign-in."""
    async with open_reader(page_settings) as opened:
        yield opened


def check_page(shown: Page) -> None:
    """Check what holds for each page: text from outside is text, and the page loads nothing from elsewhere."""
    policy = dict(part.strip().split(" ", 1) for part in shown.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert "unsafe" not in " ".join(policy.values())
    assert policy["script-src"] == policy["style-src"] == policy["img-src"] == "'self'"
    assert shown.headers["X-Content-Type-Options"] == "nosniff"
    assert [node.attributes["src"].partition("?")[0] for node in shown.tree.css("script")] == ["/ui/static/app.js"]
    for node in shown.tree.css("*"):
        assert not [name for name in node.attributes if name.startswith("on") or name == "style"]
    for node in shown.tree.css("[src], link[href], form[action]"):
        address = node.attributes.get("src") or node.attributes.get("href") or node.attributes.get("action") or ""
        assert re.match(r"/(?!/)", address), address
    for node in shown.tree.css("a[href]"):
        address = node.attributes["href"] or ""
        assert re.match(r"/(?!/)|\?|#|https?://", address), address
        assert address[0] in "/?#" or "noopener" in (node.attributes.get("rel") or "")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown.text)
    assert len(shown.text.encode()) < LARGEST_PAGE
    assert shown.tree.css_first("h1")


async def test_the_first_address_leads_to_today(reader: Reader) -> None:
    shown = await reader.get("/")
    assert shown.status == 200
    assert shown.links(".main-nav a[aria-current]") == {"Today": "/ui/today"}


@pytest.mark.parametrize("signed_in", [False, True])
async def test_every_page_of_the_navigation_shows_text_from_outside_as_text(reader: Reader, signed_in: bool) -> None:
    if signed_in:
        await reader.sign_in()
    entries = [entry for entry in NAVIGATION if signed_in or not entry.needs_write]
    for entry in entries:
        shown = await reader.get(f"/ui{entry.path}")
        assert shown.status == 200, entry
        check_page(shown)
        assert shown.links(".main-nav a[aria-current]") == {entry.label: f"/ui{entry.path}"}
        assert list(shown.links(".main-nav a").values()) == [f"/ui{each.path}" for each in entries]


async def test_a_hostile_title_is_text(reader: Reader) -> None:
    shown = await reader.get("/ui/days/2026-03-12")
    assert shown.texts(".line-title") == [CALM_TITLE, CALM_TITLE]
    check_page(shown)


async def test_a_token_signs_in_and_shows_buttons(reader: Reader) -> None:
    assert "Submit URLs" not in (await reader.get("/ui/today")).links()
    shown = await reader.sign_in()
    assert shown.status == 200
    assert "Submit URLs" in shown.links()
    cookie = next(iter(reader.session.cookie_jar))
    assert (cookie["httponly"], cookie["samesite"]) == (True, "strict")
    assert TOKEN not in cookie.value
    shown = await reader.post("/ui/sign-out")
    assert not len(reader.session.cookie_jar)
    assert "Submit URLs" not in shown.links()


async def test_an_unknown_token_does_not_sign_in(reader: Reader) -> None:
    shown = await reader.sign_in("another-token")
    assert shown.status == 401
    assert shown.tree.css_first("[role=alert]")
    assert not len(reader.session.cookie_jar)


@pytest.mark.parametrize(("scope", "writes"), [(Scope.READ, False), (Scope.WRITE, True)])
async def test_the_scope_of_a_token_decides_which_buttons_show(
    reader: Reader, page_settings: Settings, scope: Scope, writes: bool
) -> None:
    async with open_harness(page_settings) as harness:
        added = await harness.operations.tokens.add("desk", scope)
        shown = await reader.sign_in(added.token)
        assert "Sign out" in shown.texts("button")
        assert ("Submit URLs" in shown.links()) is writes
        assert (await reader.get("/ui/submit")).status == (200 if writes else 403)
        posted = await reader.submit_form("/ui/submit", urls="http://news.test/scoped")
        assert posted.status == (200 if writes else 403)
        await harness.operations.tokens.remove("desk")
        again = await harness.operations.tokens.add("desk", Scope.ADMIN)
        assert again.created_at != added.created_at

    async def is_signed_out() -> bool:
        return "Sign out" not in (await reader.get("/ui/today")).texts("button")

    await until(is_signed_out)  # processes read removed tokens within a second


async def test_a_changed_cookie_is_no_session(reader: Reader) -> None:
    await reader.sign_in()
    cookie = next(iter(reader.session.cookie_jar))
    text, _, signature = cookie.value.partition(".")
    for changed in (f"{text}x.{signature}", f"{text}.{'0' * len(signature)}", text, ".", ""):
        reader.session.cookie_jar.update_cookies({cookie.key: changed}, response_url=URL(reader.base))
        assert "Submit URLs" not in (await reader.get("/ui/today")).links()


async def test_a_link_signs_in_once(page_settings: Settings) -> None:
    links = SignInLinks()
    async with open_api(page_settings, lambda operations: make_app(operations, links)) as api:
        link = links.make(api.base)
        async with api.session.get(link, allow_redirects=False) as response:
            assert (response.status, response.headers["Location"]) == (303, "/ui/today")
            assert "HttpOnly" in response.headers["Set-Cookie"]
        async with api.session.get(link, allow_redirects=False) as response:
            assert response.status == 403


@pytest.mark.parametrize("path", ["//evil.test", "https://evil.test", "/\\evil.test", "\r\nX: y"])
async def test_sign_in_leads_only_to_pages_of_this_server(reader: Reader, path: str) -> None:
    async with reader.session.post(
        reader.base + "/ui/sign-in", data={"token": TOKEN, "next": path}, allow_redirects=False
    ) as response:
        assert response.status == 303
        assert response.headers["Location"].startswith("/ui/")


async def test_a_form_submits_urls(reader: Reader) -> None:
    await reader.sign_in()
    shown = await reader.submit_form("/ui/submit", urls="http://news.test/new\nhttp://news.test/b\nftp://news.test/")
    assert shown.texts("td .badge") == ["new", "known", "refused"]
    assert shown.texts("textarea") == ["ftp://news.test/"]
    check_page(shown)


async def test_a_form_needs_its_csrf_token_its_origin_and_a_session(reader: Reader, page_settings: Settings) -> None:
    url = "http://news.test/forged"
    assert (await reader.post("/ui/submit", urls=url)).status == 403
    await reader.sign_in()
    csrf = (await reader.get("/ui/today")).csrf()
    assert (await reader.post("/ui/submit", urls=url)).status == 422
    assert (await reader.post("/ui/submit", urls=url, csrf="x" * len(csrf))).status == 422
    for origin in ("http://evil.test", "null"):
        assert (await reader.post("/ui/submit", origin=origin, urls=url, csrf=csrf)).status == 403
    async with open_harness(page_settings) as harness:
        assert url not in await harness.urls()


async def test_a_token_of_the_api_does_not_post_forms(reader: Reader) -> None:
    """A form is sent by a browser with a session. Programs use the API."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with reader.session.post(
        reader.base + "/ui/submit", data={"urls": "http://a.test/"}, headers=headers
    ) as sent:
        assert sent.status == 403


async def test_every_post_needs_a_scope(harness: AppHarness) -> None:
    """Without a session, each form that changes data is refused before it is read."""
    app = make_app(Operations(harness.runtime, Metrics()))
    (pages,) = [route.app._app for route in app.routes if getattr(route, "path", "") == "/ui"]
    needs = {
        route.path: get_needed_scope(route, "POST")
        for route in pages.router.routes
        if getattr(route, "methods", None) and "POST" in route.methods
    }
    assert {path for path, needed in needs.items() if needed is None} == OPEN_FORMS
    async with open_reader(harness.operations.settings) as reader:
        for path in needs.keys() - OPEN_FORMS:
            filled = re.sub(r"\{.*?\}", "1", path)
            assert (await reader.post(f"/ui{filled}")).status == 403, path


async def test_errors_are_pages_for_browsers_and_json_for_programs(reader: Reader) -> None:
    shown = await reader.get("/nothing")
    assert (shown.status, shown.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    check_page(shown)
    shown = await reader.get("/nothing", Accept="application/json")
    assert (shown.status, shown.headers["Content-Type"]) == (404, "application/json")
    for path in ("/ui/nothing", "/ui/days/2026-99-99", "/ui/days/0001-01-01", "/ui/today?source=nobody"):
        shown = await reader.get(path)
        assert 400 <= shown.status < 500, path
        check_page(shown)


async def test_an_invalid_value_is_named_without_the_words_of_the_validator(reader: Reader) -> None:
    for path in ("/ui/days/2026-99-99", "/ui/today?bucket=OLD", "/ui/documents/abc", "/ui/runs?day=x"):
        shown = await reader.get(path)
        assert shown.status == 422, path
        assert "Value error" not in shown.text
    async with reader.session.get(f"{reader.base}/daily/2026-99-99/counts") as answer:
        assert (answer.status, "Value error" in await answer.text()) == (422, False)


async def test_an_outage_of_the_database_is_a_page_for_signed_in_users(
    tmp_path: Path, make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request reads the tokens, as one does that is more than a second later. Style sheets need no session."""
    monkeypatch.setattr(access, "_RELOAD_SECONDS", -1.0)
    with own_server(tmp_path / "database") as database:
        settings = make_settings(database_url=database.url, api_token=TOKEN)
        async with open_harness(settings) as harness:
            added = await harness.operations.tokens.add("desk", Scope.ADMIN)
        async with open_reader(settings) as reader:
            shown = await reader.sign_in(added.token)
            assert "Sign out" in shown.texts("button")
            (style,) = [node.attributes["href"] or "" for node in shown.tree.css("[rel=stylesheet]")]
            await database.end(signal.SIGINT)
            for path, status in (
                ("/ui/today", 503),
                ("/ui/sign-in", 503),
                ("/ui/nothing", 404),
                ("/ui/static/nothing", 404),
                ("/nothing", 404),
            ):
                shown = await reader.get(path)
                assert shown.status == status, path
                check_page(shown)
            assert (await reader.get(style)).status == 200
            await database.start_again()


async def test_static_files_are_kept_for_good(reader: Reader) -> None:
    (address,) = [node.attributes["href"] for node in (await reader.get("/ui/today")).tree.css("[rel=stylesheet]")]
    shown = await reader.get(address or "")
    assert "immutable" in shown.headers["Cache-Control"]
    assert shown.headers["Content-Type"] == "text/css; charset=utf-8"
    assert not re.search(r"url\(|@import|https?:", shown.text)
    assert (await reader.get("/ui/static/../view.py")).status == 404


async def test_beyond_loopback_reading_needs_a_session(
    page_settings: Settings, make_settings: Callable[..., Settings], site: Site
) -> None:
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN, listen_host="0.0.0.0")
    async with open_reader(settings) as reader:
        shown = await reader.get("/ui/today?source=news.test")
        assert shown.texts("h1") == ["Sign in"]
        (field,) = shown.tree.css("input[name=next]")
        assert field.attributes["value"] == "/today?source=news.test"
        shown = await reader.post("/ui/sign-in", token=TOKEN, next="/today?source=news.test")
        assert shown.links(".main-nav a[aria-current]")


async def test_a_stream_reports_that_documents_changed(reader: Reader, page_settings: Settings) -> None:
    async with reader.session.get(reader.base + "/ui/live/documents") as stream:
        assert stream.content_type == "text/event-stream"
        first = await read_event(stream)
        async with open_harness(page_settings) as harness:
            (line, *_) = (await harness.operations.documents.list_page()).documents
            await harness.operations.documents.delete(line.id)
        assert await read_event(stream) != first
    assert (await reader.get("/ui/live/nothing")).status == 404


async def test_each_operator_page_names_a_topic_that_has_a_stream(reader: Reader) -> None:
    paths = ("/ui/frontier", "/ui/hosts", "/ui/runs", "/ui/system", "/ui/sources/news.test")
    topics = [(await reader.get(path)).tree.css("main")[0].attributes["data-live"] for path in paths]
    assert topics == ["frontier", "hosts", "runs", "system", "source:news.test"]
    for topic in topics:
        async with reader.session.get(f"{reader.base}/ui/live/{topic}") as stream, asyncio.timeout(30):
            assert await read_event(stream)


async def test_the_stream_of_a_source_reports_its_polls_and_no_others(
    reader: Reader, page_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_STATE_SECONDS", 0.01)
    async with reader.session.get(f"{reader.base}/ui/live/source:news.test") as stream, asyncio.timeout(30):
        first = await read_event(stream)
        async with open_harness(page_settings) as harness:
            await harness.operations.sources.create("other", "manual", {})
            await harness.operations.sources.set_enabled("other", enabled=False)
            await harness.operations.sources.set_enabled("news.test", enabled=False)
            state = await harness.operations.history.sources.get_state("news.test")
        assert await read_event(stream) != first
        assert "enabled" in str(state)


async def test_streams_take_at_most_half_of_the_connections(
    page_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if they begin at once. The other half serves pages."""
    monkeypatch.setattr(server, "_MOST_CONNECTIONS", 8)
    async with open_reader(page_settings) as reader, contextlib.AsyncExitStack() as stack:

        async def has_event() -> bool:
            stream = await stack.enter_async_context(reader.session.get(reader.base + "/ui/live/documents"))
            with contextlib.suppress(AssertionError):  # it ended
                return bool(await read_event(stream))
            return False

        assert sum(await asyncio.gather(*(has_event() for _ in range(6)))) == 4
        assert (await reader.get("/ui/live/documents")).status == 503
        assert (await reader.get("/ui/today")).status == 200


async def test_a_stream_continues_after_an_unforeseen_error(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    states = iter([ValueError("unforeseen"), 7])

    async def read_state(_: Operations) -> object:
        state = next(states, 7)
        if isinstance(state, Exception):
            raise state
        return state

    monkeypatch.setitem(live.TOPICS, "documents", read_state)
    monkeypatch.setattr(live, "_READ_SECONDS", 0.01)
    with structlog.testing.capture_logs() as logs:
        async with reader.session.get(reader.base + "/ui/live/documents") as stream, asyncio.timeout(10):
            assert await read_event(stream)
    assert [entry["topic"] for entry in logs if entry["event"] == "web.topic_failed"] == ["documents"]


async def read_event(stream: Any) -> str:
    async for line in stream.content:
        if line.startswith(b"data: "):
            return line.decode().strip()
    raise AssertionError("the stream ended")
