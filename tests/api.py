"""The HTTP API of a running program, and a client of it."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
from fastapi import FastAPI

from headwater.api import make_app
from headwater.app.operations import Operations
from headwater.app.roles import RoleName, serve
from headwater.core.settings import Settings

TOKEN = "a-token-for-tests-0123456789-abcdef"


class Api:
    """A client of a running API."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self.session = session
        self.base = base

    async def get(self, path: str, **options: Any) -> tuple[int, Any]:
        async with self.session.get(self.base + path, **options) as response:
            return response.status, await response.json()

    async def post(self, path: str, body: object, token: str | None = TOKEN) -> tuple[int, Any]:
        return await self.request("POST", path, body, token)

    async def request(self, method: str, path: str, body: object = None, token: str | None = TOKEN) -> tuple[int, Any]:
        """Send a request, and return the status and the JSON or the text of the answer."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self.session.request(method, self.base + path, json=body, headers=headers) as response:
            is_json = response.content_type == "application/json"
            return response.status, await (response.json() if is_json else response.text())


@contextlib.asynccontextmanager
async def open_api(settings: Settings, make: Callable[[Operations], FastAPI] = make_app) -> AsyncIterator[Api]:
    """Serve the API as a program does."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(settings, [RoleName.API], make, on_ready=address.set_result))
    async with aiohttp.ClientSession() as session:
        yield Api(session, await address)
    os.kill(os.getpid(), signal.SIGTERM)
    await serving
