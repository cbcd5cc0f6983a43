"""One page in the browser, from its first request to the document that its scripts have made.

Every request of the page pauses twice. The first pause lasts until the host may be asked. The second begins when the
answer arrives: the body is counted then, and redirects are checked. A policy that is added to the page's own
forbids everything else (frames, workers, windows, sockets, forms).
"""

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headwater.browser.chromium import BrowserProfile
from headwater.browser.page_scripts import POLICIES, read_document, wait_until_quiet
from headwater.browser.proxy import Proxy, TooMuchReceived, first_of
from headwater.core.errors import ExchangeFailed, HeadwaterError
from headwater.core.http import AdmittedRequest, Limits, Response
from headwater.core.json_values import JsonObject
from headwater.core.reasons import Reason
from headwater.http.http_errors import too_large

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page

AdmitRequest = Callable[[str], AbstractAsyncContextManager[AdmittedRequest]]
ClassifyError = Callable[[Exception, str], Awaitable[HeadwaterError]]

_SENT_TYPES = frozenset({"Script", "XHR", "Fetch"})
# Only the text of a page is read. Style sheets get an empty answer, so that scripts which wait for them continue.
_EMPTY_TYPES = frozenset({"Stylesheet"})
_EMPTY_STYLE = [
    {"name": "Content-Type", "value": "text/css"},
    {"name": "Access-Control-Allow-Origin", "value": "*"},
]
_MAX_REQUESTS, _MAX_DOCUMENTS = 100, 5  # of one page, which may also load itself again
_FLOOD_REQUESTS = 500  # refused requests count too: each costs our time and the browser's memory
_HTML = ("text/html", "application/xhtml+xml")
# Interstitials answer with this status. They load the real page when the browser has passed their test.
_CHALLENGE_STATUS = 403
_CHALLENGE_SECONDS = 6.0
_REQUEST_SECONDS = 15.0  # for a host to answer one request
_REQUEST_SHARE = 1 / 3  # of the page's time at most, so that the page can continue without the answer
_CHECK_SECONDS = 0.02
_QUIET_SECONDS = 0.3  # a page that sent no request for this long is complete
_LAST_SECONDS = 1.0  # reserved to take the document of a page that is never quiet
_CHUNK = 256 * 1024
# The browser has already applied these before it passes the body on.
_APPLIED_HEADERS = frozenset({"content-encoding", "content-length", "set-cookie", "transfer-encoding"})
_DOWNLOAD_HEADERS = frozenset({"content-disposition"})  # the browser would save the body and not show it
_VALIDATORS = frozenset({"etag", "last-modified"})  # of the bytes that were sent, not of the scripts' document


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    raw_headers: list[dict[str, str]]
    sent_at: datetime
    is_html: bool
    length: int | None = None  # of the body as the browser passes it on, if the host announced it


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page to open. Each of its requests enters `admit`, which holds the host until the answer has come."""

    url: str
    profile: BrowserProfile
    limits: Limits
    admit: AdmitRequest


class _RequestCancelled(ConnectionError):
    """The page no longer wants an answer."""


@dataclass(eq=False)  # without slots, because Playwright adds attributes
class Rendering:
    """One page while it loads and runs."""

    page: "Page"
    session: "CDPSession"
    proxy: Proxy
    request: PageRequest
    classify_error: ClassifyError
    clock: Callable[[], datetime]
    _outcome: asyncio.Future[Response] = field(init=False)  # set if there is nothing to render
    _began: float = field(init=False)
    _has_document: asyncio.Event = field(default_factory=asyncio.Event)  # the browser has one to run
    _document: _Answer | None = None
    _main_frame: tuple[str, str] | None = None  # its id, its URL in the browser's spelling
    _documents: int = 0
    _activity: asyncio.Event = field(default_factory=asyncio.Event)
    _requests: int = 0
    _received: int = 0
    # By the id of the pause and of the request.
    _answers: dict[str, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._outcome, self._began = loop.create_future(), loop.time()

    async def run(self) -> Response:
        """Return the document that the scripts have made, or any answer that is not rendered, unchanged."""
        self.session.on("Fetch.requestPaused", self._on_paused)
        self.session.on("Network.loadingFailed", self._on_failed)
        for ending in ("crash", "close"):
            self.page.on(ending, lambda _: self._fail(crashed(self.request.url)))
        patterns = [{"urlPattern": "*", "requestStage": stage} for stage in ("Request", "Response")]
        try:
            await self.session.send("Network.enable")
            await self.session.send("Network.setCacheDisabled", {"cacheDisabled": True})
            await self.session.send("Fetch.enable", {"patterns": patterns})
            self._start_task(self._navigate())
            return await self._wait_for_outcome()
        finally:
            # Retrieve the errors that no one waits for any more, or asyncio logs them.
            expected: list[asyncio.Future[Any]] = [self._outcome, *self._answers.values()]
            for awaited in expected:
                if not awaited.cancel() and not awaited.cancelled():
                    awaited.exception()
            tasks = [*self._tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _navigate(self) -> None:
        try:
            await self.session.send("Page.navigate", {"url": self.request.url})
        except Exception as error:  # noqa: BLE001 (the wait for the outcome raises it)
            self._fail(error)

    async def _wait_for_outcome(self) -> Response:
        """Wait for an outcome, else until the page is quiet. When the time is over, the document is taken as it is."""
        try:
            async with asyncio.timeout(max(0.1, self.request.limits.total_seconds - _LAST_SECONDS)):
                await first_of(asyncio.wait([self._outcome]), self._has_document.wait())
                if not self._outcome.done():
                    await first_of(asyncio.wait([self._outcome]), self._wait_until_quiet())
        except TimeoutError as error:
            if not self._has_document.is_set():
                raise await self.classify_error(error, self.request.url) from error
        if self._outcome.done():
            return self._outcome.result()
        return await self._take_document()

    async def _wait_until_quiet(self) -> None:
        """Wait until the page has loaded and sends no more requests. An interstitial gets more time."""
        while True:
            self._activity.clear()
            if self._tasks:
                await asyncio.wait(self._tasks)
                continue
            assert self._document is not None
            patience = _CHALLENGE_SECONDS if self._document.status == _CHALLENGE_STATUS else _QUIET_SECONDS
            with contextlib.suppress(Exception):  # the page has loaded another document; _on events report its death
                await wait_until_quiet(self.session, self._frame_id, patience)
                if not self._activity.is_set():
                    return
            await asyncio.sleep(_CHECK_SECONDS)

    async def _take_document(self) -> Response:
        now, end = asyncio.get_running_loop().time(), self._began + self.request.limits.total_seconds
        try:
            async with asyncio.timeout_at(max(end, now + _LAST_SECONDS)):
                text, is_parsed = await self._read_document()
        except TimeoutError as error:
            raise self._too_late("was still at work") from error
        if not is_parsed:
            raise self._too_late("was still waiting for scripts before the rest of it could be read")
        body = (text or "").encode("utf-8", "replace")
        if text is None or len(body) > self.request.limits.body_bytes:
            raise self._too_large()
        assert self._document is not None
        headers = {name: value for name, value in self._document.headers.items() if name not in _VALIDATORS}
        return self._response(self._document, headers | {"content-type": "text/html; charset=utf-8"}, body)

    async def _read_document(self) -> tuple[str | None, bool]:
        """Return the document as it is now. There is none while another document replaces it."""
        from playwright.async_api import Error

        while True:
            try:
                return await read_document(self.session, self._frame_id, self.request.limits.body_bytes)
            except Error:
                if self._outcome.done():
                    raise
                await asyncio.sleep(_CHECK_SECONDS)

    @property
    def _frame_id(self) -> str:
        assert self._main_frame is not None
        return self._main_frame[0]

    def _response(self, answer: _Answer, headers: Mapping[str, str], body: bytes) -> Response:
        elapsed = asyncio.get_running_loop().time() - self._began
        return Response(self.request.url, answer.status, headers, body, answer.sent_at, elapsed)

    def _on_paused(self, event: JsonObject) -> None:
        waiting = self._answers.get(event["requestId"])
        is_answer = "responseStatusCode" in event or "responseErrorReason" in event
        if is_answer and waiting and not waiting.done():
            waiting.set_result(event)
            return
        self._activity.set()
        self._requests += not is_answer
        if self._requests > _FLOOD_REQUESTS:
            what = f"{self.request.url}: the page sent over {_FLOOD_REQUESTS} requests"
            self._fail(ExchangeFailed(what, reason=Reason.BODY_TOO_LARGE, url=self.request.url))
            return
        self._start_task(self._refuse(event) if is_answer else self._handle(event))

    def _on_failed(self, event: JsonObject) -> None:
        """End the wait for a cancelled answer. Any other failure pauses the request, as an answer does."""
        waiting = self._answers.get(event["requestId"])
        if waiting and not waiting.done():
            waiting.set_exception(_RequestCancelled("the page cancelled the request"))

    async def _handle(self, event: JsonObject) -> None:
        """Send, answer or refuse a request. If it is for the document, its failure is the failure of the page."""
        kind, url = event["resourceType"], event["request"]["url"]
        if kind == "Document" and self._main_frame is None:
            self._main_frame = (event["frameId"], url)
        is_document = kind == "Document" and self._main_frame is not None and self._main_frame[0] == event["frameId"]
        self._documents += is_document
        try:
            if is_document and self._main_frame and self._main_frame[1] != url:
                self._treat_as_redirect(url)
            if kind in _EMPTY_TYPES:
                await self._fulfill(event, 200, _EMPTY_STYLE, b"")
            elif self._is_allowed(event, is_document=is_document):
                await self._send_admitted(event, url, is_document=is_document)
            else:
                await self._refuse(event)
        except Exception as error:  # noqa: BLE001 (the wait for the outcome raises it)
            if is_document and not isinstance(error, _RequestCancelled):
                self._fail(await self.classify_error(error, url) if isinstance(error, OSError) else error)
            elif is_document and not self._document:
                self._fail(crashed(url))  # no script of the page could have cancelled it
            await self._refuse(event)

    def _is_allowed(self, event: JsonObject, *, is_document: bool) -> bool:
        request = event["request"]
        return (
            (is_document or event["resourceType"] in _SENT_TYPES)
            and request["method"] == "GET"
            and "Sec-Purpose" not in request["headers"]  # a prefetch
            and request["url"].startswith(("http://", "https://"))
            and self._requests <= _MAX_REQUESTS
            and self._documents <= _MAX_DOCUMENTS
            and not self._outcome.done()
        )

    def _treat_as_redirect(self, url: str) -> None:
        """Return a redirect if a script sends the page to another URL: the caller decides whether to follow it."""
        if self._document and not self._outcome.done() and url.startswith(("http://", "https://")):
            answer = _Answer(302, {"location": url}, [], self._document.sent_at, is_html=False)
            self._outcome.set_result(self._response(answer, answer.headers, b""))

    async def _send_admitted(self, event: JsonObject, url: str, *, is_document: bool) -> None:
        """Send a request when its host may be asked, and read the answer while the host is held."""
        async with self.request.admit(url) as admitted:
            with self.proxy.admit(url, admitted):
                paused = await self._exchange(event)
                answer = await self._read_answer(paused, url, admitted)
                is_redirect = 300 <= answer.status < 400
                if is_redirect and not is_document:
                    # The browser follows it, and the next request pauses like any other.
                    await self.session.send("Fetch.continueRequest", {"requestId": paused["requestId"]})
                    return
                has_body = not is_redirect and answer.status != 204
                body = await self._read_whole_body(paused, answer, admitted) if has_body else b""
        if not is_document:
            await self._fulfill(paused, answer.status, answer.raw_headers, body)
        elif answer.is_html and (200 <= answer.status < 300 or answer.status == _CHALLENGE_STATUS):
            self._document = answer
            self._has_document.set()
            shown = [header for header in answer.raw_headers if header["name"].lower() not in _DOWNLOAD_HEADERS]
            await self._fulfill(paused, answer.status, [*shown, *POLICIES], body)
        else:
            if not self._outcome.done():
                self._outcome.set_result(self._response(answer, answer.headers, body))
            await self._refuse(paused)

    async def _exchange(self, event: JsonObject) -> JsonObject:
        answered: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        pause_id: str = event["requestId"]
        network_id: str = event.get("networkId", pause_id)
        self._answers[pause_id] = self._answers[network_id] = answered
        try:
            await self.session.send("Fetch.continueRequest", {"requestId": pause_id})
            async with asyncio.timeout(min(_REQUEST_SECONDS, self.request.limits.total_seconds * _REQUEST_SHARE)):
                return await answered
        finally:
            for name in {pause_id, network_id}:
                self._answers.pop(name, None)

    async def _read_answer(self, paused: JsonObject, url: str, admitted: AdmittedRequest) -> _Answer:
        status = paused.get("responseStatusCode")
        if status is None:
            if isinstance(admitted.error, TooMuchReceived):
                raise self._too_large()
            error = admitted.error or ConnectionError(f"the browser reports {paused['responseErrorReason']}")
            raise await self.classify_error(error, url) from error
        sent_headers = _join_headers(paused["responseHeaders"])
        length = sent_headers.get("content-length", "") if "content-encoding" not in sent_headers else ""
        raw = [header for header in paused["responseHeaders"] if header["name"].lower() not in _APPLIED_HEADERS]
        headers = _join_headers(raw)
        admitted.status, admitted.headers = status, headers
        is_html = headers.get("content-type", "").partition(";")[0].strip().lower() in _HTML
        sent_at = admitted.sent_at or self.clock()
        return _Answer(status, headers, raw, sent_at, is_html, int(length) if length.isdecimal() else None)

    async def _read_whole_body(self, paused: JsonObject, answer: _Answer, admitted: AdmittedRequest) -> bytes:
        """Return a complete body. The browser does not report one that breaks off."""
        body = await self._read_body(paused)
        if isinstance(admitted.error, TooMuchReceived):
            raise self._too_large()
        if admitted.error or answer.length not in (None, len(body)):
            raise admitted.error or ConnectionError("the answer broke off")
        return body

    async def _read_body(self, paused: JsonObject) -> bytes:
        """Read a decompressed body in pieces, up to the limit for all bodies of one page."""
        opened = await self.session.send("Fetch.takeResponseBodyAsStream", {"requestId": paused["requestId"]})
        handle = opened["stream"]
        pieces: list[bytes] = []
        try:
            while True:
                piece = await self.session.send("IO.read", {"handle": handle, "size": _CHUNK})
                data = base64.b64decode(piece["data"]) if piece.get("base64Encoded") else piece["data"].encode()
                self._received += len(data)
                if self._received > self.request.limits.body_bytes:
                    raise self._too_large()
                pieces.append(data)
                if piece["eof"]:
                    return b"".join(pieces)
        finally:
            with contextlib.suppress(Exception):
                await self.session.send("IO.close", {"handle": handle})

    async def _fulfill(self, event: JsonObject, status: int, headers: list[dict[str, str]], body: bytes) -> None:
        answer = {
            "requestId": event["requestId"],
            "responseCode": status,
            "responseHeaders": headers,
            "body": base64.b64encode(body).decode("ascii"),
        }
        await self.session.send("Fetch.fulfillRequest", answer)

    async def _refuse(self, event: JsonObject) -> None:
        with contextlib.suppress(Exception):  # the request may have ended with its page
            # An aborted document leaves the current one in place; any other failure would replace it.
            reason = "Aborted" if event["resourceType"] == "Document" else "BlockedByClient"
            await self.session.send("Fetch.failRequest", {"requestId": event["requestId"], "errorReason": reason})

    def _fail(self, error: Exception) -> None:
        if not self._outcome.done():
            self._outcome.set_exception(error)

    def _too_late(self, why: str) -> ExchangeFailed:
        return ExchangeFailed(f"The page {why} when its time was over.", reason=Reason.TIMEOUT, url=self.request.url)

    def _too_large(self) -> ExchangeFailed:
        return too_large(
            self.request.url, f"{self.request.url}: the page and what it loads are", self.request.limits.body_bytes
        )


def crashed(url: str) -> ExchangeFailed:
    """Return the error of a page whose browser, or whose part of it, has died."""
    return ExchangeFailed("The browser died while it read the page.", reason=Reason.BROWSER_CRASHED, url=url)


def _join_headers(raw: list[dict[str, str]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for header in raw:
        name, value = header["name"].lower(), header["value"]
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
