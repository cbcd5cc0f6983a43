"""How an address of the demo web answers. Each behaviour, good or bad, is one small function.

A `Maker` makes an `Answer` from a `Body`. A fault is an `Answer` that needs no body: `heals` and `always` make a
`Maker` from it, and `DemoWeb.break_host` applies it to a whole host. A fault that closes the connection raises
ConnectionError.
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

from headwater.demo.content import read_file

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

HTML = "text/html; charset=utf-8"
_DRIP_SECONDS, _DRIPS = 0.1, 600  # one minute: longer than a client waits for a page
_OVERSIZED_BYTES = 64 * 1024 * 1024
_BOMB = gzip.compress(bytes(1024 * 1024), mtime=0) * 64  # inflates to 64 mebibytes


@dataclass(frozen=True, slots=True)
class Body:
    """The content of an address, its type, and the time of its last change."""

    content: bytes
    content_type: str
    modified: datetime


Maker = Callable[[Body], Answer]


def respond(body: bytes = b"", status: int = 200, **headers: str) -> Answer:
    """Answer every request with these bytes. An underscore in a header name means a hyphen."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, body=body, headers=named)

    return answer


def whole(body: Body, status: int = 200) -> Answer:
    """Answer every request with the whole body."""
    return respond(body.content, status, Content_Type=body.content_type)


def conditional(body: Body) -> Answer:
    """Send ETag and Last-Modified. Answer 304 if the client already has these bytes."""
    tag = hashlib.sha256(body.content).hexdigest()[:32]
    validators = {"ETag": f'"{tag}"', "Last-Modified": format_datetime(body.modified, usegmt=True)}

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if _is_unchanged(request, tag, body.modified):
            return web.Response(status=304, headers=validators)
        return web.Response(body=body.content, headers={"Content-Type": body.content_type, **validators})

    return answer


def gzipped(body: Body) -> Answer:
    """Send the body compressed with gzip."""
    return respond(gzip.compress(body.content, mtime=0), Content_Type=body.content_type, Content_Encoding="gzip")


def mislabelled(declared: str, sent: str) -> Maker:
    """Declare one charset and send another."""

    def make(body: Body) -> Answer:
        content = body.content.decode().encode(sent, "xmlcharrefreplace")
        return whole(Body(content, f"text/html; charset={declared}", body.modified))

    return make


def redirect(status: int, to: str) -> Maker:
    """Redirect to another address."""
    return always(respond(f"See {to}\n".encode(), status, Location=to, Content_Type="text/plain; charset=utf-8"))


def always(fault: Answer) -> Maker:
    """Answer every request with the fault."""
    return lambda _body: fault


def heals(fault: Answer, after: int = 1) -> Maker:
    """Answer the first `after` requests with the fault, and later ones with the whole body."""

    def make(body: Body) -> Answer:
        answers = chain(repeat(fault, after), repeat(whole(body)))
        return lambda request: next(answers)(request)

    return make


def status(code: int) -> Answer:
    """Answer with a status and an empty body."""
    return respond(status=code)


def busy(seconds: int, *, as_date: bool = False) -> Answer:
    """Answer 429 with Retry-After, in seconds or as a date."""

    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        then = datetime.now(UTC) + timedelta(seconds=seconds)
        after = format_datetime(then, usegmt=True) if as_date else str(seconds)
        return web.Response(status=429, headers={"Retry-After": after})

    return answer


async def reset(request: web.BaseRequest) -> web.StreamResponse:
    """Reset the connection before any byte is sent."""
    if request.transport is not None:
        # With a linger time of 0 the kernel sends RST instead of FIN.
        no_lingering = struct.pack("ii", 1, 0)
        request.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_lingering)
        request.transport.abort()
    raise ConnectionResetError


async def drip(request: web.BaseRequest) -> web.StreamResponse:
    """Send a few bytes at a time, so that no read times out and the answer never ends."""
    response = await _begin(request, {})
    for _ in range(_DRIPS):
        await response.write(b"<!-- wait -->\n")
        await asyncio.sleep(_DRIP_SECONDS)
    return response


async def hang(_request: web.BaseRequest) -> web.StreamResponse:
    """Send nothing until the client leaves."""
    never: asyncio.Future[web.StreamResponse] = asyncio.Future()
    return await never


async def truncated(request: web.BaseRequest) -> web.StreamResponse:
    """Close the connection before all announced bytes are sent."""
    response = await _begin(request, {"Content-Length": "50000"})
    await response.write(b"<!doctype html><html><head><title>Half a page</title></head><body><p>It begins with")
    if request.transport is not None:
        request.transport.close()
    raise ConnectionAbortedError


async def oversized(request: web.BaseRequest) -> web.StreamResponse:
    """Send a body that exceeds every limit."""
    response = await _begin(request, {"Content-Length": str(_OVERSIZED_BYTES)})
    for _ in range(_OVERSIZED_BYTES // 65536):
        await response.write(bytes(65536))
    return response


bomb = respond(_BOMB, Content_Type=HTML, Content_Encoding="gzip")


def walled(body: Body) -> Answer:
    """Answer 200 with a challenge until the request has the cookie that the script of the challenge makes.

    The script makes it only in a browser that does not look automated.
    """
    token = hashlib.sha256(body.content).hexdigest()[:16]
    challenge = read_file("looks", "variants", "wall.html").replace("$TOKEN", token).encode()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        proved = request.cookies.get("proof") == str(_proof(token + request.headers.get("User-Agent", "")))
        return web.Response(body=body.content if proved else challenge, headers={"Content-Type": HTML})

    return answer


async def _begin(request: web.BaseRequest, headers: Mapping[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": HTML, **headers})
    await response.prepare(request)
    return response


def _is_unchanged(request: web.BaseRequest, tag: str, modified: datetime) -> bool:
    """Check whether to answer 304. If-None-Match overrides If-Modified-Since (RFC 9110, 13.2.2)."""
    if request.if_none_match is not None:
        return any(known.value in (tag, "*") for known in request.if_none_match)
    since = request.if_modified_since
    return since is not None and since >= modified


def _proof(text: str) -> int:
    proof = 7
    for mark in text:
        proof = (proof * 31 + ord(mark)) % 1_000_000_007
    return proof
