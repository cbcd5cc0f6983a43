"""Pages in the browser (spec 1.7, 4.2, 4.3)."""

import asyncio
import gzip
import socket

import pytest

from headwater.core.errors import ExchangeFailed, NotNow
from headwater.core.http import Limits
from headwater.core.reasons import Reason
from tests.browser.conftest import HERE, HTML, Browsing
from tests.server import Answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = "http://a.test/page"


def page(script: str, head: str = "", **options: int) -> Answer:
    return Answer(f"<!doctype html><head>{head}</head><body><script>{script}</script></body>", headers=HTML, **options)


async def test_the_response_is_the_document_that_scripts_made(browsing: Browsing) -> None:
    script = "fetch('/data').then(answer => answer.text()).then(text => document.body.append(text))"
    browsing.site.answers[PAGE] = page(script, "<script src=http://b.test/said.js></script>")
    browsing.site.answers["http://b.test/said.js"] = Answer("addEventListener('load', () => document.title = 'said')")
    browsing.site.answers["http://a.test/data"] = Answer("fetched later: Łódź")
    response = await browsing.get(PAGE)
    text = response.body.decode()
    assert (response.status, response.url) == (200, PAGE)
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert text.startswith("<!DOCTYPE html><html>")
    assert "<title>said</title>" in text
    assert "fetched later: Łódź" in text
    assert sorted(browsing.asked) == sorted([PAGE, "http://b.test/said.js", "http://a.test/data"])
    assert all(request.sent_at and request.status == 200 for request in browsing.admitted)


async def test_styles_pictures_and_fonts_are_not_requested(browsing: Browsing) -> None:
    looks = "<link rel=stylesheet href=/s.css onload='document.title=\"styled\"'><link rel=icon href=/i.ico>"
    body = "<img src=/i.png><video src=/v.mp4></video><iframe src=/frame></iframe><object data=/o></object>"
    browsing.site.answers[PAGE] = Answer(f"<!doctype html>{looks}<body>{body}</body>", headers=HTML)
    response = await browsing.get(PAGE)
    assert b"<title>styled</title>" in response.body  # scripts that wait for a style sheet continue
    assert browsing.asked == [PAGE]
    assert [seen.url for seen in browsing.site.seen] == [PAGE]


@pytest.mark.parametrize("status", [301, 307])
async def test_a_redirect_is_returned_and_not_followed(status: int, browsing: Browsing) -> None:
    browsing.site.answers[PAGE] = Answer(status=status, headers={"Location": "/other"})
    browsing.site.answers["http://a.test/other"] = page("")
    response = await browsing.get(PAGE)
    assert (response.status, response.headers["location"]) == (status, "/other")
    assert browsing.site.visits("http://a.test/other") == 0


async def test_a_redirect_of_a_script_is_a_request_of_its_own(browsing: Browsing) -> None:
    browsing.site.answers[PAGE] = page("", "<script src=/old.js></script>")
    browsing.site.answers["http://a.test/old.js"] = Answer(status=302, headers={"Location": "http://b.test/new.js"})
    browsing.site.answers["http://b.test/new.js"] = Answer("document.title = 'moved'")
    response = await browsing.get(PAGE)
    assert b"<title>moved</title>" in response.body
    assert browsing.asked == [PAGE, "http://a.test/old.js", "http://b.test/new.js"]


@pytest.mark.parametrize("how", ["location = 'http://b.test/y?z=1'", "location.replace('http://b.test/y?z=1')"])
async def test_a_page_that_navigates_by_script_is_a_redirect(how: str, browsing: Browsing) -> None:
    browsing.site.answers[PAGE] = page(how)
    response = await browsing.get(PAGE)
    assert (response.status, response.headers["location"]) == (302, "http://b.test/y?z=1")
    assert [seen.url for seen in browsing.site.seen] == [PAGE]


async def test_a_page_may_load_itself_again_a_limited_number_of_times(browsing: Browsing) -> None:
    browsing.site.answers[PAGE] = [page("location.reload()", status=403), page("document.title = 'let in'")]
    response = await browsing.get(PAGE)
    assert (response.status, b"<title>let in</title>" in response.body) == (200, True)
    browsing.site.answers["http://a.test/again"] = page("location.reload()")
    response = await browsing.get("http://a.test/again")
    assert (response.status, b"location.reload()" in response.body) == (200, True)
    assert browsing.site.visits("http://a.test/again") == 5


@pytest.mark.parametrize("status", [404, 429, 503])
async def test_an_error_page_is_returned_without_running_its_scripts(status: int, browsing: Browsing) -> None:
    browsing.site.answers[PAGE] = Answer("<script src=/s.js></script>", status, {**HTML, "Retry-After": "7"})
    response = await browsing.get(PAGE)
    assert (response.status, response.headers["retry-after"]) == (status, "7")
    assert browsing.admitted[0].status == status
    assert browsing.asked == [PAGE]


@pytest.mark.parametrize(
    ("content_type", "body"),
    [("application/pdf", b"%PDF-1.7\n\xff\xfe"), ("application/rss+xml", b"<rss/>"), ("application/json", b"{}")],
)
async def test_a_body_that_is_not_html_is_returned_unchanged(
    content_type: str, body: bytes, browsing: Browsing
) -> None:
    browsing.site.answers[PAGE] = Answer(body, headers={"Content-Type": content_type, "ETag": '"1"'})
    response = await browsing.get(PAGE)
    assert (response.body, response.headers["content-type"]) == (body, content_type)


async def test_a_page_sent_as_a_download_is_rendered(browsing: Browsing) -> None:
    headers = {**HTML, "Content-Disposition": 'attachment; filename="page.html"'}
    browsing.site.answers[PAGE] = Answer("<script>document.title = 'run'</script>", headers=headers)
    assert b"<title>run</title>" in (await browsing.get(PAGE)).body


async def test_a_document_that_scripts_have_changed_has_no_validators(browsing: Browsing) -> None:
    browsing.site.answers[PAGE] = Answer("<p>text", headers={**HTML, "ETag": '"1"', "Last-Modified": "yesterday"})
    assert {"etag", "last-modified"}.isdisjoint((await browsing.get(PAGE)).headers)


ZEROS = gzip.compress(bytes(8 * 1024 * 1024), mtime=0)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"<p>" + b"x" * 3_000_000, headers=HTML),
        Answer(ZEROS, headers={**HTML, "Content-Encoding": "gzip"}),
        Answer(ZEROS, headers={"Content-Type": "application/pdf", "Content-Encoding": "gzip"}),
        page("document.body.append('x'.repeat(3_000_000))"),
    ],
)
async def test_bodies_have_a_cap_before_and_after_decompression(answer: Answer, browsing: Browsing) -> None:
    browsing.site.answers[PAGE] = answer
    with pytest.raises(ExchangeFailed) as caught:
        await browsing.get(PAGE)
    assert caught.value.reason is Reason.BODY_TOO_LARGE


async def test_a_script_that_is_too_large_is_left_out(browsing: Browsing) -> None:
    browsing.site.answers[PAGE] = page("document.title = 'read'", "<script src=/large.js></script>")
    browsing.site.answers["http://a.test/large.js"] = Answer(b"//" + b"x" * 3_000_000)
    assert b"<title>read</title>" in (await browsing.get(PAGE)).body


async def test_a_page_that_does_not_answer_in_time_has_timed_out(browsing: Browsing) -> None:
    browsing.site.hanging.add(PAGE)
    with pytest.raises(ExchangeFailed) as caught:
        await browsing.get(PAGE, limits=Limits(total_seconds=1.5))
    assert caught.value.reason is Reason.TIMEOUT


async def test_a_page_that_is_never_quiet_is_taken_at_the_end_of_its_time(browsing: Browsing) -> None:
    browsing.site.answers[PAGE] = page("document.title = 'begun'; fetch('/never')")
    browsing.site.hanging.add("http://a.test/never")
    response = await browsing.get(PAGE, limits=Limits(total_seconds=3))
    assert b"<title>begun</title>" in response.body


async def test_a_page_continues_without_a_script_that_never_comes(browsing: Browsing) -> None:
    browsing.site.answers[PAGE] = page("document.title = 'gone on'", "<script src=/never.js></script>")
    browsing.site.hanging.add("http://a.test/never.js")
    response = await browsing.get(PAGE, limits=Limits(total_seconds=6))
    assert b"<title>gone on</title>" in response.body


async def test_a_page_that_still_waits_for_scripts_times_out_and_is_not_truncated(browsing: Browsing) -> None:
    scripts = [f"http://a.test/{number}.js" for number in range(5)]
    browsing.site.answers[PAGE] = page("", "".join(f"<script src={script}></script>" for script in scripts))
    browsing.site.hanging.update(scripts)
    with pytest.raises(ExchangeFailed, match="waiting for scripts") as caught:
        await browsing.get(PAGE, limits=Limits(total_seconds=3))
    assert caught.value.reason is Reason.TIMEOUT


async def test_a_cancelled_request_releases_its_host(browsing: Browsing) -> None:
    browsing.site.answers[PAGE] = page(
        "const stop = new AbortController(); setTimeout(() => stop.abort(), 500);"
        "fetch('/never', {signal: stop.signal}).catch(() => fetch('/data')).then(() => document.title = 'data')"
    )
    browsing.site.answers["http://a.test/data"] = Answer("data")
    browsing.site.hanging.add("http://a.test/never")
    response = await browsing.get(PAGE, limits=Limits(total_seconds=10))
    assert b"<title>data</title>" in response.body


async def test_a_page_with_too_many_requests_fails(browsing: Browsing) -> None:
    flood = "for (let n = 0; n < 300; n++) fetch('/' + n, {method: 'POST', body: 'x'.repeat(200)}).catch(() => 0)"
    browsing.site.answers[PAGE] = page(f"setInterval(() => {{ {flood} }}, 100)")
    browsing.site.answers["http://a.test/next"] = page("document.title = 'next'")
    with pytest.raises(ExchangeFailed) as caught:
        await browsing.get(PAGE)
    assert caught.value.reason is Reason.BODY_TOO_LARGE
    assert b"<title>next</title>" in (await browsing.get("http://a.test/next")).body


FLOOD = "const flood = () => { for (let n = 0; n < 5000; n++) console.log('x'.repeat(20000)); setTimeout(flood) }; "


async def test_a_page_that_floods_the_browser_is_killed_and_no_other_page_is(
    browsing: Browsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not charged either, before it has been open alone: it might have been the other one."""
    monkeypatch.setattr("headwater.browser.client._CHECK_SECONDS", 0.1)
    monkeypatch.setattr("headwater.browser.client._MONITOR_RESPONSE_SECONDS", 0.5)
    url = "http://flood.test/page"
    browsing.site.answers[url] = page(f"{FLOOD} setTimeout(flood)")
    browsing.site.answers[PAGE] = page("document.title = 'neighbour'")
    await browsing.get(PAGE)
    flooding = asyncio.create_task(browsing.try_once(url, "another"))
    while not flooding.done():
        assert b"<title>neighbour</title>" in (await browsing.get(PAGE)).body
    with pytest.raises(NotNow, match="tried again alone"):
        await flooding


async def test_a_page_that_a_script_replaces_is_the_new_page(browsing: Browsing) -> None:
    made = "new Blob(['<title>made here</title>'], {type: 'text/html'})"
    browsing.site.answers[PAGE] = page(f"location = URL.createObjectURL({made})")
    assert b"<title>made here</title>" in (await browsing.get(PAGE)).body


async def test_a_page_that_is_always_busy_times_out_and_the_next_page_works(browsing: Browsing) -> None:
    browsing.site.answers[PAGE] = page("for (;;) {}")
    browsing.site.answers["http://a.test/next"] = page("document.title = 'next'")
    with pytest.raises(ExchangeFailed, match="The page was still at work when its time was over") as caught:
        await browsing.get(PAGE, limits=Limits(total_seconds=2))
    assert caught.value.reason is Reason.TIMEOUT
    assert b"<title>next</title>" in (await browsing.get("http://a.test/next")).body


async def test_an_unknown_name_and_a_host_that_is_down_have_different_reasons(browsing: Browsing) -> None:
    with socket.create_server((HERE, 0)) as closed_soon:
        nobody = closed_soon.getsockname()[1]
    for url, reason in (("http://nowhere.invalid/", Reason.DNS), (f"http://{HERE}:{nobody}/", Reason.NETWORK)):
        with pytest.raises(ExchangeFailed) as caught:
            await browsing.get(url)
        assert caught.value.reason is reason


HALF = gzip.compress(b"<p>half", mtime=0)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ("Content-Type: text/html\r\nContent-Length: 5000", b"<p>half"),
        ("Content-Type: application/pdf\r\nContent-Length: 5000", b"%PDF-1.7"),
        ("Content-Type: text/html\r\nTransfer-Encoding: chunked", b"5\r\n<p>ha\r\n"),
        ("Content-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Length: 5000", HALF),
    ],
    ids=["length", "not HTML", "chunks", "compressed"],
)
async def test_an_incomplete_answer_fails(headers: str, body: bytes, browsing: Browsing) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\n{headers}\r\n\r\n".encode() + body)
        writer.close()

    server = await asyncio.start_server(answer, HERE, 0)
    try:
        with pytest.raises(ExchangeFailed) as caught:
            await browsing.get(f"http://{HERE}:{server.sockets[0].getsockname()[1]}/")
    finally:
        server.close()
    assert caught.value.reason is Reason.NETWORK


async def test_a_large_page_whose_first_script_waits_is_complete(browsing: Browsing) -> None:
    filler = "".join(f"<p>Paragraph {number} of {'very ' * 25}many.</p>" for number in range(10_000))  # 1.6 MB
    browsing.site.answers[PAGE] = Answer(f"<script src=/first.js></script><body>{filler}</body>", headers=HTML)
    browsing.site.answers["http://a.test/first.js"] = Answer("document.title = 'ready'")
    body = (await browsing.get(PAGE)).body
    assert b"<title>ready</title>" in body
    assert f"<p>Paragraph 9999 of {'very ' * 25}many.</p>".encode() in body


async def test_cookies_stay_with_their_source(browsing: Browsing) -> None:
    browsing.site.answers[PAGE] = Answer(
        "<script>document.cookie = 'b=2'</script>", headers={**HTML, "Set-Cookie": "a=1"}
    )
    for source in ("one", "one", "other"):
        await browsing.get(PAGE, source)
    assert [seen.headers.get("Cookie") for seen in browsing.site.seen] == [None, "a=1; b=2", None]


@pytest.mark.parametrize(("stealth", "driven"), [("full", b"false"), ("light", b"false"), ("none", b"true")])
async def test_the_stealth_profile_decides_whether_a_page_detects_the_browser(
    stealth: str, driven: bytes, browsing: Browsing
) -> None:
    browsing.site.answers[PAGE] = page("document.title = navigator.webdriver + navigator.userAgent")
    body = (await browsing.get(PAGE, stealth=stealth)).body
    assert b"<title>" + driven + b"Headwater/test</title>" in body
