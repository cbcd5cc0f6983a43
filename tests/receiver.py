"""A real receiver of webhooks: a test decides each answer, and the receiver checks signatures with its own code."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

RESET, HANG = "reset", "hang"
Behaviour = int | str | tuple[int, Mapping[str, str]]  # a status, one with headers, or a fault


@dataclass(frozen=True)
class Received:
    """A delivery as it arrived."""

    hook: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["Webhook-Id"]

    @property
    def payload(self) -> dict[str, Any]:
        payload: dict[str, Any] = json.loads(self.body)
        return payload

    @property
    def document(self) -> tuple[str, int]:
        """The last part of the URL and the revision of the document."""
        return self.payload["url"].rpartition("/")[2], self.payload["document"]["revision"]

    def is_signed_with(self, secret: str) -> bool:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = b".".join((self.id.encode(), self.headers["Webhook-Timestamp"].encode(), self.body))
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        return self.headers["Webhook-Signature"] == f"v1,{expected}"


@dataclass
class ReceiverServer:
    """Answers 200, or the listed behaviours of a hook in turn; the last one repeats."""

    behaviours: dict[str, list[Behaviour]] = field(default_factory=dict)
    seen: list[Received] = field(default_factory=list)
    held: set[str] = field(default_factory=set)  # hooks that get no answer until `release`
    _released: asyncio.Event = field(default_factory=asyncio.Event)
    _port: int = 0

    async def __aenter__(self) -> Self:
        await self.come_back()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.go_away()

    async def come_back(self) -> None:
        """Listen, always on the same port."""
        self._runner = web.ServerRunner(web.Server(self._serve, access_log=None), shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]

    async def go_away(self) -> None:
        """Close all connections and refuse new ones."""
        await self._runner.cleanup()

    def url(self, hook: str) -> str:
        return f"http://127.0.0.1:{self._port}/{hook}"

    def release(self) -> None:
        """Answer the held requests."""
        self.held.clear()
        self._released.set()

    def received(self, hook: str) -> list[Received]:
        return [one for one in self.seen if one.hook == hook]

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        hook = request.path.strip("/")
        assert request.method == "POST"
        self.seen.append(Received(hook, dict(request.headers), await request.read()))
        listed = self.behaviours.get(hook, [200])
        behaviour = listed.pop(0) if len(listed) > 1 else listed[0]
        if hook in self.held:
            await self._released.wait()
        if behaviour == HANG:
            await asyncio.Event().wait()
        if behaviour == RESET:
            assert request.transport
            request.transport.abort()
            return web.Response()
        status, headers = behaviour if isinstance(behaviour, tuple) else (behaviour, {})
        return web.Response(status=int(status), headers=dict(headers), text="thanks")
