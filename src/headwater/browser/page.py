"""One page in the browser, from the first request to the text that its scripts have made.

Every request of the page stops here, twice: before it leaves, until whoever leads it says that its host may be asked,
and when it is answered, so that its body is counted, and redirects are never followed unseen. What the page may not do
at all (frames, workers, windows, sockets, forms) is forbidden by a policy that is added to its own.
"""

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headwater.browser.page_policy import POLICIES
from headwater.browser.page_scripts import come_to_rest, write_out
from headwater.browser.proxy import Proxy, TooMuchCame, first_of
from headwater.core.errors import ExchangeFailed, HeadwaterError
from headwater.core.http import AdmittedRequest, Limits, Response
from headwater.core.reasons import Reason
from headwater.http.http_errors import too_large

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page

DiscoveredUrl = Callable[[str], AbstractAsyncContextManager[AdmittedRequest]]
ClassifyError = Callable[[Exception, str], Awaitable[HeadwaterError]]

# A page is read without its looks: those are answered with nothing, so that scripts which wait for them go on.
_ASKED_FOR = frozenset({"Script", "XHR", "Fetch"})
_ANSWERED_EMPTY = frozenset({"Stylesheet"})
_NO_LOOKS = [
    {"name": "Content-Type", "value": "text/css"},
    {"name": "Access-Control-Allow-Origin", "value": "*"},
]
_MOST_REQUESTS, _MOST_DOCUMENTS = 100, 5  # of one page: it may load itself again, but not for ever
_FLOOD = (
    500  # requests of one page, refused ones too, that it is given up for: each costs us time and the browser memory
)
_HTML = ("text/html", "application/xhtml+xml")
# Bot walls answer with this and send the page on once it has proved itself.
_CHALLENGE_STATUS = 403
_CHALLENGE_SECONDS = 6.0
_REQUEST_SECONDS = 15.0  # for a host to answer one of its requests
_REQUEST_SHARE = 1 / 3  # and no more of the page's time than this, so that it can go on without the answer
_LOOK_SECONDS = 0.02  # between two looks whether a page has come to rest
_QUIET_SECONDS = 0.3  # a page that has asked for nothing for so long has all it wants
_LAST_SECONDS = 1.0  # kept back to take what there is of a page that never comes to rest
_CHUNK = 256 * 1024
# Undone or already heeded by the browser before the body reaches us.
_DROPPED = frozenset({"content-encoding", "content-length", "set-cookie", "transfer-encoding"})
_NOT_SHOWN = frozenset({"content-disposition"})  # it would be saved to a file, and not run
# They speak of the bytes that were sent, not of what the scripts have made of them.
_VALIDATORS = frozenset({"etag", "last-modified"})


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a host answered to one request of the page."""

    status: int
    headers: Mapping[str, str]
    raw_headers: list[dict[str, str]]
    sent_at: datetime
    is_html: bool
    length: int | None = None  # of its body, where that is told as it comes to us


class _CalledOff(ConnectionError):
    """The page does not want an answer any more."""


class Rendering:
    """A page under way."""

    def __init__(
        self,
        page: "Page",
        session: "CDPSession",
        proxy: Proxy,
        *,
        url: str,
        limits: Limits,
        lead: DiscoveredUrl,
        classify_error: ClassifyError,
        clock: Callable[[], datetime],
    ) -> None:
        self._page = page
        self._session = session
        self._proxy = proxy
        self._url = url
        self._limits = limits
        self._lead = lead
        self._classify_error = classify_error
        self._clock = clock
        loop = asyncio.get_running_loop()
        self._outcome: asyncio.Future[Response] = loop.create_future()  # set where there is nothing to be rendered
        self._rendered = asyncio.Event()  # the browser has a document to run
        self._document: _Answer | None = None
        self._place: tuple[str, str] | None = None  # the document's frame, and its address as the browser spells it
        self._documents = 0
        self._asked = asyncio.Event()
        self._requests = 0
        self._received = 0
        self._began = loop.time()
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}  # by its stop, and by the network's name
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self) -> Response:
        """Return what came: the document as its scripts left it, or any answer that is not rendered, as it is."""
        self._session.on("Fetch.requestPaused", self._on_paused)
        self._session.on("Network.loadingFailed", self._on_failed)
        for ending in ("crash", "close"):
            self._page.on(ending, lambda _: self._fail(crashed(self._url)))
        patterns = [{"urlPattern": "*", "requestStage": stage} for stage in ("Request", "Response")]
        try:
            await self._session.send("Network.enable")
            await self._session.send("Network.setCacheDisabled", {"cacheDisabled": True})
            await self._session.send("Fetch.enable", {"patterns": patterns})
            navigating = asyncio.create_task(self._navigate())
            self._under_way.add(navigating)
            navigating.add_done_callback(self._under_way.discard)
            return await self._wait()
        finally:
            # Nobody asks for them any more, and this may be the last that is done here.
            expected: list[asyncio.Future[Any]] = [self._outcome, *self._answers.values()]
            for awaited in expected:
                if not awaited.cancel() and not awaited.cancelled():
                    awaited.exception()
            tasks = [*self._under_way]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _navigate(self) -> None:
        try:
            await self._session.send("Page.navigate", {"url": self._url})
        except Exception as error:  # noqa: BLE001 (it is told where the outcome is waited for)
            self._fail(error)

    async def _wait(self) -> Response:
        """Wait for an outcome, else for the page to come to rest; what there is when the time is over is taken."""
        try:
            async with asyncio.timeout(max(0.1, self._limits.total_seconds - _LAST_SECONDS)):
                await first_of(asyncio.wait([self._outcome]), self._rendered.wait())
                if not self._outcome.done():
                    await first_of(asyncio.wait([self._outcome]), self._rest())
        except TimeoutError as error:
            if not self._rendered.is_set():
                raise await self._classify_error(error, self._url) from error
        if self._outcome.done():
            return self._outcome.result()
        return await self._taken()

    async def _rest(self) -> None:
        """Wait until the page has loaded and asks for nothing more; one that was kept at a wall has longer."""
        while True:
            self._asked.clear()
            if self._under_way:
                await asyncio.wait(self._under_way)
                continue
            assert self._document is not None
            patience = _CHALLENGE_SECONDS if self._document.status == _CHALLENGE_STATUS else _QUIET_SECONDS
            with contextlib.suppress(Exception):  # it has gone on to another document; that it died is told elsewhere
                await come_to_rest(self._session, self._frame, patience)
                if not self._asked.is_set():
                    return
            await asyncio.sleep(_LOOK_SECONDS)

    async def _taken(self) -> Response:
        now, end = asyncio.get_running_loop().time(), self._began + self._limits.total_seconds
        try:
            async with asyncio.timeout_at(max(end, now + _LAST_SECONDS)):
                text, is_read = await self._written()
        except TimeoutError as error:
            raise self._too_late("was still at work") from error
        if not is_read:
            raise self._too_late("was still waiting for scripts before the rest of it could be read")
        body = (text or "").encode("utf-8", "replace")
        if text is None or len(body) > self._limits.body_bytes:
            raise self._too_large()
        assert self._document is not None
        headers = {name: value for name, value in self._document.headers.items() if name not in _VALIDATORS}
        return self._response(self._document, headers | {"content-type": "text/html; charset=utf-8"}, body)

    async def _written(self) -> tuple[str | None, bool]:
        """Return the document as it is; while it gives way to another, there is none."""
        from playwright.async_api import Error

        while True:
            try:
                return await write_out(self._session, self._frame, self._limits.body_bytes)
            except Error:
                if self._outcome.done():
                    raise
                await asyncio.sleep(_LOOK_SECONDS)

    @property
    def _frame(self) -> str:
        assert self._place is not None
        return self._place[0]

    def _response(self, answer: _Answer, headers: Mapping[str, str], body: bytes) -> Response:
        elapsed = asyncio.get_running_loop().time() - self._began
        return Response(self._url, answer.status, headers, body, answer.sent_at, elapsed)

    def _on_paused(self, event: dict[str, Any]) -> None:
        waiting = self._answers.get(event["requestId"])
        is_answer = "responseStatusCode" in event or "responseErrorReason" in event
        if is_answer and waiting and not waiting.done():
            waiting.set_result(event)
            return
        self._asked.set()
        self._requests += not is_answer
        if self._requests > _FLOOD:
            self._fail(self._too_much(f"asked for over {_FLOOD} things"))
            return
        task = asyncio.create_task(self._refuse(event) if is_answer else self._handle(event))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def _on_failed(self, event: dict[str, Any]) -> None:
        """End the wait for an answer that nobody wants any more; any other failure stops as an answer does."""
        waiting = self._answers.get(event["requestId"])
        if waiting and not waiting.done():
            waiting.set_exception(_CalledOff("the page called it off"))

    async def _handle(self, event: dict[str, Any]) -> None:
        """Do with a request what is to be done with it; if it is the document's, its failure is the page's."""
        kind, url = event["resourceType"], event["request"]["url"]
        if kind == "Document" and self._place is None:
            self._place = (event["frameId"], url)
        is_document = kind == "Document" and self._place is not None and self._place[0] == event["frameId"]
        self._documents += is_document
        try:
            if is_document and self._place and self._place[1] != url:
                self._lead_on(url)
            if kind in _ANSWERED_EMPTY:
                await self._fulfill(event, 200, _NO_LOOKS, b"")
            elif self._is_wanted(event, is_document=is_document):
                await self._ask(event, url, is_document=is_document)
            else:
                await self._refuse(event)
        except Exception as error:  # noqa: BLE001 (it is told where the document is waited for)
            if is_document and not isinstance(error, _CalledOff):
                self._fail(await self._classify_error(error, url) if isinstance(error, OSError) else error)
            elif is_document and not self._document:
                self._fail(crashed(url))  # no script of the page's could have called it off
            await self._refuse(event)

    def _is_wanted(self, event: dict[str, Any], *, is_document: bool) -> bool:
        request = event["request"]
        return (
            (is_document or event["resourceType"] in _ASKED_FOR)
            and request["method"] == "GET"
            and "Sec-Purpose" not in request["headers"]  # it is only asked for in case it will be wanted
            and request["url"].startswith(("http://", "https://"))
            and self._requests <= _MOST_REQUESTS
            and self._documents <= _MOST_DOCUMENTS
            and not self._outcome.done()
        )

    def _lead_on(self, url: str) -> None:
        """Take a page that goes to another address by itself for a redirect: whether to follow is not ours to say."""
        if self._document and not self._outcome.done() and url.startswith(("http://", "https://")):
            answer = _Answer(302, {"location": url}, [], self._document.sent_at, is_html=False)
            self._outcome.set_result(self._response(answer, answer.headers, b""))

    async def _ask(self, event: dict[str, Any], url: str, *, is_document: bool) -> None:
        """Let a request out when its host's turn has come, and take in what is answered while the host is held."""
        async with self._lead(url) as passage:
            with self._proxy.admit(url, passage):
                came = await self._exchange(event)
                answer = await self._read_answer(came, url, passage)
                is_redirect = 300 <= answer.status < 400
                if is_redirect and not is_document:
                    # The browser follows by itself, and the next request stops here like any other.
                    await self._session.send("Fetch.continueRequest", {"requestId": came["requestId"]})
                    return
                body = b"" if is_redirect or answer.status == 204 else await self._body(came, answer, passage)
        if not is_document:
            await self._fulfill(came, answer.status, answer.raw_headers, body)
        elif _is_rendered(answer):
            self._document = answer
            self._rendered.set()
            shown = [header for header in answer.raw_headers if header["name"].lower() not in _NOT_SHOWN]
            await self._fulfill(came, answer.status, [*shown, *POLICIES], body)
        else:
            if not self._outcome.done():
                self._outcome.set_result(self._response(answer, answer.headers, body))
            await self._refuse(came)

    async def _exchange(self, event: dict[str, Any]) -> dict[str, Any]:
        answered: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        stopped = event["requestId"]
        sent = event.get("networkId", stopped)
        self._answers[stopped] = self._answers[sent] = answered
        try:
            await self._session.send("Fetch.continueRequest", {"requestId": stopped})
            async with asyncio.timeout(min(_REQUEST_SECONDS, self._limits.total_seconds * _REQUEST_SHARE)):
                return await answered
        finally:
            for name in {stopped, sent}:
                self._answers.pop(name, None)

    async def _read_answer(self, came: dict[str, Any], url: str, passage: AdmittedRequest) -> _Answer:
        status = came.get("responseStatusCode")
        if status is None:
            if isinstance(passage.error, TooMuchCame):
                raise self._too_large()
            error = passage.error or ConnectionError(f"the browser says {came['responseErrorReason']}")
            raise await self._classify_error(error, url) from error
        told = _joined(came["responseHeaders"])
        length = told.get("content-length", "") if "content-encoding" not in told else ""
        raw = [header for header in came["responseHeaders"] if header["name"].lower() not in _DROPPED]
        headers = _joined(raw)
        passage.status, passage.headers = status, headers
        is_html = headers.get("content-type", "").partition(";")[0].strip().lower() in _HTML
        sent_at = passage.sent_at or self._clock()
        return _Answer(status, headers, raw, sent_at, is_html, int(length) if length.isdecimal() else None)

    async def _body(self, came: dict[str, Any], answer: _Answer, passage: AdmittedRequest) -> bytes:
        """Return a body that is whole: the browser does not tell where one breaks off."""
        body = await self._read_body(came)
        if isinstance(passage.error, TooMuchCame):
            raise self._too_large()
        if passage.error or answer.length not in (None, len(body)):
            raise passage.error or ConnectionError("the answer broke off")
        return body

    async def _read_body(self, came: dict[str, Any]) -> bytes:
        """Read a body piece by piece, decompressed as it is, and no more of it than one page may bring in all."""
        opened = await self._session.send("Fetch.takeResponseBodyAsStream", {"requestId": came["requestId"]})
        handle = opened["stream"]
        pieces: list[bytes] = []
        try:
            while True:
                piece = await self._session.send("IO.read", {"handle": handle, "size": _CHUNK})
                data = base64.b64decode(piece["data"]) if piece.get("base64Encoded") else piece["data"].encode()
                self._received += len(data)
                if self._received > self._limits.body_bytes:
                    raise self._too_large()
                pieces.append(data)
                if piece["eof"]:
                    return b"".join(pieces)
        finally:
            with contextlib.suppress(Exception):
                await self._session.send("IO.close", {"handle": handle})

    async def _fulfill(self, event: dict[str, Any], status: int, headers: list[dict[str, str]], body: bytes) -> None:
        answer = {
            "requestId": event["requestId"],
            "responseCode": status,
            "responseHeaders": headers,
            "body": base64.b64encode(body).decode("ascii"),
        }
        await self._session.send("Fetch.fulfillRequest", answer)

    async def _refuse(self, event: dict[str, Any]) -> None:
        # It may be gone already, together with its page.
        with contextlib.suppress(Exception):
            # A document that is called off leaves the one before it where it is; any other failure would replace it.
            reason = "Aborted" if event["resourceType"] == "Document" else "BlockedByClient"
            await self._session.send("Fetch.failRequest", {"requestId": event["requestId"], "errorReason": reason})

    def _fail(self, error: Exception) -> None:
        if not self._outcome.done():
            self._outcome.set_exception(error)

    def _too_late(self, why: str) -> ExchangeFailed:
        return ExchangeFailed(f"The page {why} when its time was over.", reason=Reason.TIMEOUT, url=self._url)

    def _too_large(self) -> ExchangeFailed:
        return too_large(self._url, f"{self._url}: the page and what it loads are", self._limits.body_bytes)

    def _too_much(self, why: str) -> ExchangeFailed:
        return ExchangeFailed(f"{self._url}: the page {why}", reason=Reason.BODY_TOO_LARGE, url=self._url)


def _is_rendered(answer: _Answer) -> bool:
    """Tell whether the browser gets a document to run: no redirect, no error but a wall's, nothing but HTML."""
    return answer.is_html and (200 <= answer.status < 300 or answer.status == _CHALLENGE_STATUS)


def crashed(url: str) -> ExchangeFailed:
    """Say that the browser, or the part of it that had the page, is gone."""
    return ExchangeFailed("The browser died while it read the page.", reason=Reason.BROWSER_CRASHED, url=url)


def _joined(raw: list[dict[str, str]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for header in raw:
        name, value = header["name"].lower(), header["value"]
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
