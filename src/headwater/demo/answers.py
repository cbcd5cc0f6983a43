"""How an address answers. A new behaviour, good or bad, is one small function that makes an `Answer` of a `Body`."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime

from aiohttp import web

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


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


def redirect(status: int, to: str) -> Maker:
    """Send visitors on to another address."""

    def make(_body: Body) -> Answer:
        async def answer(_request: web.BaseRequest) -> web.StreamResponse:
            return web.Response(status=status, headers={"Location": to}, text=f"See {to}\n")

        return answer

    return make


def _has_it(request: web.BaseRequest, tag: str, modified: datetime) -> bool:
    """Tell whether a 304 is due; If-Modified-Since counts only where no If-None-Match was sent (RFC 9110, 13.2.2)."""
    if request.if_none_match is not None:
        return any(known.value in (tag, "*") for known in request.if_none_match)
    since = request.if_modified_since
    return since is not None and since >= modified
