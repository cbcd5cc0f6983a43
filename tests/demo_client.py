"""A client of the demo web without politeness: it sends what the test says, when the test says it."""

import socket
from datetime import date
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from headwater.demo.web import DemoWeb

TODAY = date(2026, 3, 3)  # the day of the demo web in tests


class _DemoResolver(AbstractResolver):
    def __init__(self, port: int) -> None:
        self.port = port

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[Any]:
        return [
            {"hostname": host, "host": "127.0.0.1", "port": self.port, "family": socket.AF_INET, "proto": 0, "flags": 0}
        ]

    async def close(self) -> None:
        pass


def open_client(web: DemoWeb, **options: Any) -> aiohttp.ClientSession:
    """Return a session that finds every host at the demo web."""
    connector = aiohttp.TCPConnector(resolver=_DemoResolver(web.port), use_dns_cache=False)
    return aiohttp.ClientSession(connector=connector, **options)


async def get(client: aiohttp.ClientSession, url: str, **headers: str) -> tuple[aiohttp.ClientResponse, bytes]:
    """Request a URL as it is written, and read the answer."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.get(URL(url, encoded=True), headers=sent, allow_redirects=False) as response:
        return response, await response.read()
