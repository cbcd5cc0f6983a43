"""Kinds of source that tests install."""

import asyncio
from collections.abc import AsyncIterator
from typing import ClassVar, Literal

import pytest

from headwater import Item, Kind, Run
from headwater.sources.registry import get_kinds


class LedgerKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reads lists of records one after the other from an API that counts requests. Each record is an item."""

    api_hosts: ClassVar[frozenset[str]] = frozenset({"api.test", "api2.test"})

    lists: tuple[str, ...]
    subpath: str | None = None
    budget: Literal["api.data.gov"] | None = "api.data.gov"
    rate_per_second: float = 1000.0

    async def discover(self, run: Run) -> AsyncIterator[Item]:
        for url in self.lists:
            page = await run.http.get(url)
            for record in await page.json():
                yield Item(url=record, title=record)
        run.state["read"] = run.state.get("read", 0) + 1

    def partition(self, item: Item) -> str | None:
        return self.subpath


def install(monkeypatch: pytest.MonkeyPatch, name: str = "ledger", kind: type[Kind] = LedgerKind) -> None:
    """Install a kind for one test."""
    monkeypatch.setitem(get_kinds(), name, kind)


class PlainKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests some addresses of an API at once. It overrides no default."""

    api_hosts: ClassVar[frozenset[str]] = frozenset({"api.test"})

    urls: tuple[str, ...] = ()

    async def discover(self, run: Run) -> AsyncIterator[Item]:
        for page in await asyncio.gather(*(run.http.get(url) for url in self.urls)):
            for record in await page.json():
                yield Item(url=record["url"], title=record["number"], raw=record)

    def partition(self, item: Item) -> str | None:
        year, month, _ = item.raw["date"].split("-")
        return f"{year}/{month}/{item.raw['number']}.html"


class CatalogKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reads a list of records from an API. A record may change from run to run."""

    api_hosts: ClassVar[frozenset[str]] = frozenset({"api.test"})

    list_url: str = "http://api.test/list"
    rate_per_second: float = 1000.0

    async def discover(self, run: Run) -> AsyncIterator[Item]:
        page = await run.http.get(self.list_url)
        for record in await page.json():
            yield Item(url=record["url"], title=record["title"], raw=record)
