"""How an address answers. A new behaviour, good or bad, is one small function.

A `Maker` makes an `Answer` of a `Body`. A fault is an `Answer` by itself: `heals` and `always` make a `Maker` of it,
`DemoWeb.break_host` gives it to a whole host. One that breaks the connection off raises ConnectionError.
"""

import asyncio
import gzip
import hashlib
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import chain, repeat

from aiohttp import web

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

HTML = "text/html; charset=utf-8"
_DRIP_SECONDS, _DRIPS = 0.1, 600  # a minute: longer than any visitor waits for a page
_FAR_TOO_MUCH = 64 * 1024 * 1024
_BOMB = gzip.compress(bytes(1024 * 1024), mtime=0) * 64  # as many members, a mebibyte each


@dataclass(frozen=True, slots=True)
class Body:
    """The bytes an address stands for, their type, and since when they have been so."""

    content: bytes
    content_type: str
    modified: datetime


Maker = Callable[[Body], Answer]


def whole(body: Body, status: int = 200) -> Answer:
    """Answer with all of it, every time."""

    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, body=body.content, headers={"Content-Type": body.content_type})

    return answer


def conditional(body: Body) -> Answer:
    """Send ETag and Last-Modified, and 304 to a visitor who has these bytes already."""
    tag = hashlib.sha256(body.content).hexdigest()[:32]
    validators = {"ETag": f'"{tag}"', "Last-Modified": format_datetime(body.modified, usegmt=True)}

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if _has_it(request, tag, body.modified):
            return web.Response(status=304, headers=validators)
        return web.Response(body=body.content, headers={"Content-Type": body.content_type, **validators})

    return answer


def gzipped(body: Body) -> Answer:
    """Send it compressed."""
    packed = gzip.compress(body.content, mtime=0)

    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=packed, headers={"Content-Type": body.content_type, "Content-Encoding": "gzip"})

    return answer


def mislabelled(declared: str, sent: str) -> Maker:
    """Declare one charset and send another."""

    def make(body: Body) -> Answer:
        content = body.content.decode().encode(sent, "xmlcharrefreplace")
        return whole(Body(content, f"text/html; charset={declared}", body.modified))

    return make


def redirect(status: int, to: str) -> Maker:
    """Send visitors on to another address."""

    def make(_body: Body) -> Answer:
        async def answer(_request: web.BaseRequest) -> web.StreamResponse:
            return web.Response(status=status, headers={"Location": to}, text=f"See {to}\n")

        return answer

    return make


def always(fault: Answer) -> Maker:
    """Answer with the fault every time."""
    return lambda _body: fault


def heals(fault: Answer, after: int = 1) -> Maker:
    """Answer with the fault at first, then with the whole body."""

    def make(body: Body) -> Answer:
        answers = chain(repeat(fault, after), repeat(whole(body)))
        return lambda request: next(answers)(request)

    return make


def status(code: int) -> Answer:
    """Answer with a status and next to nothing else."""

    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=code)

    return answer


def busy(seconds: int, *, as_date: bool = False) -> Answer:
    """Ask the visitor to come back later: 429, with Retry-After in seconds or as a date."""

    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        then = datetime.now(UTC) + timedelta(seconds=seconds)
        after = format_datetime(then, usegmt=True) if as_date else str(seconds)
        return web.Response(status=429, headers={"Retry-After": after})

    return answer


async def reset(request: web.BaseRequest) -> web.StreamResponse:
    """Break the connection off before a word was said."""
    if request.transport is not None:
        # Without lingering the kernel sends RST where it would say goodbye.
        no_lingering = struct.pack("ii", 1, 0)
        request.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_lingering)
        request.transport.abort()
    raise ConnectionResetError


async def drip(request: web.BaseRequest) -> web.StreamResponse:
    """Send a little and a little more, always in time for the next byte and never done."""
    response = await _begin(request, {})
    for _ in range(_DRIPS):
        await response.write(b"<!-- wait -->\n")
        await asyncio.sleep(_DRIP_SECONDS)
    return response


async def hang(_request: web.BaseRequest) -> web.StreamResponse:
    """Say nothing for as long as the visitor stays."""
    never: asyncio.Future[web.StreamResponse] = asyncio.Future()
    return await never


async def truncated(request: web.BaseRequest) -> web.StreamResponse:
    """Promise more bytes than come."""
    response = await _begin(request, {"Content-Length": "50000"})
    await response.write(b"<!doctype html><html><head><title>Half a page</title></head><body><p>It begins with")
    if request.transport is not None:
        request.transport.close()
    raise ConnectionAbortedError


async def oversized(request: web.BaseRequest) -> web.StreamResponse:
    """Announce a body that nobody can want."""
    response = await _begin(request, {"Content-Length": str(_FAR_TOO_MUCH)})
    for _ in range(_FAR_TOO_MUCH // 65536):
        await response.write(bytes(65536))
    return response


async def bomb(_request: web.BaseRequest) -> web.StreamResponse:
    """Send a small body that inflates to far too much."""
    return web.Response(body=_BOMB, headers={"Content-Type": HTML, "Content-Encoding": "gzip"})


async def _begin(request: web.BaseRequest, headers: Mapping[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": HTML, **headers})
    await response.prepare(request)
    return response


def _has_it(request: web.BaseRequest, tag: str, modified: datetime) -> bool:
    """Tell whether a 304 is due; If-Modified-Since counts only where no If-None-Match was sent (RFC 9110, 13.2.2)."""
    if request.if_none_match is not None:
        return any(known.value in (tag, "*") for known in request.if_none_match)
    since = request.if_modified_since
    return since is not None and since >= modified
