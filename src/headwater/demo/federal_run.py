"""The federal sources of the demo, and how those with one key get along: a backfill of bills starves nobody."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Any

from headwater.app.operations import Operations
from headwater.core.errors import RunUnderWay
from headwater.demo.federal_sites import API_HOST, BACKFILL_SINCE, FEDERAL, SOURCES
from headwater.demo.progress import Progress
from headwater.demo.web import DemoWeb

BILLS = "bills"
REGISTER = "federal_register"
_WEEK = timedelta(days=7)  # what is read of the Federal Register at first
_PATIENCE_SECONDS = 10.0


def has_federal(web: DemoWeb) -> bool:
    """Tell whether the web has the hosts that are read here."""
    return set(FEDERAL) <= set(web.sites)


async def read_federal(operations: Operations, today: date, progress: Progress) -> bool:
    """Read the sources that were not read yet: bills, and all others while a backfill of bills waits for its budget.

    They bring what they would on the web's `today`, also later. Tell whether all have been read, and the backfill has
    been put aside.
    """
    sources = {source["name"]: source for source in await operations.sources.listed()}
    for name, reader in SOURCES.items():
        if name not in sources:
            since = {"since": (today - _WEEK).isoformat()} if name == REGISTER else {}
            await operations.sources.create(name, reader.kind, {**reader.settings, **since})
    unread = [name for name in SOURCES if name not in sources or sources[name]["last_success_at"] is None]
    if BILLS in unread:
        progress("federal", 0, len(SOURCES), BILLS)
        if not await _read(operations, BILLS):
            return False
    if others := [name for name in unread if name != BILLS]:
        async with _backfilling(operations):
            for done, name in enumerate(others, start=1):
                progress("federal", done, len(SOURCES), name)
                if not await _read(operations, name):
                    return False
    progress("federal", len(SOURCES), len(SOURCES), "")
    if BILLS not in sources or sources[BILLS]["enabled"]:
        # The backfill would be taken up again, and wait for an hour.
        await operations.sources.switch(BILLS, enabled=False)
        if "fetch_items" in (await operations.sources.show(BILLS))["settings"]:
            await operations.sources.edit(BILLS, {}, ["fetch_items"])
    return True


async def _read(operations: Operations, name: str) -> bool:
    """Read a source; one that would wait for a budget or a lease, since earlier demos were killed, is given up."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return (await operations.sources.sync(name)).error is None
    except (TimeoutError, RunUnderWay):
        return False


@contextlib.asynccontextmanager
async def _backfilling(operations: Operations) -> AsyncIterator[None]:
    """Keep a backfill of bills going that has used up its share, and waits.

    How far it comes depends on whether earlier demos were killed, so its pages are not fetched.
    """
    await operations.sources.edit(BILLS, {"fetch_items": False})
    backfill = asyncio.create_task(operations.sources.backfill(BILLS, BACKFILL_SINCE))
    try:
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while not (backfill.done() or await _bills_wait(operations)) and time.monotonic() < give_up:
            await asyncio.sleep(0.02)
        yield
    finally:
        backfill.cancel()
        await asyncio.gather(backfill, return_exceptions=True)


async def _bills_wait(operations: Operations) -> bool:
    return any(child["source"] == BILLS and not child["left"] for child in await shares(operations))


async def shares(operations: Operations) -> list[dict[str, Any]]:
    """Return what each source has of the key."""
    return [
        child for known in await operations.budgets() or () if known["host"] == API_HOST for child in known["sources"]
    ]
