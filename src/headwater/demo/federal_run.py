"""Reads the federal sources of the demo while a backfill of bills has used its share of their common key."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from datetime import date, timedelta

from headwater.app.operations import Operations
from headwater.core.errors import RunUnderWay
from headwater.core.waiting import finish_or_cancel
from headwater.db.budgets import SourceBudget
from headwater.demo.federal_sites import API_HOST, BACKFILL_SINCE, FEDERAL, SOURCES
from headwater.demo.progress import Progress
from headwater.demo.web import DemoWeb

BILLS = "bills"
REGISTER = "federal_register"
_WEEK = timedelta(days=7)  # the days of the Federal Register that the first run reads
_PATIENCE_SECONDS = 10.0


def has_federal(web: DemoWeb) -> bool:
    """Check whether the web has the federal hosts."""
    return set(FEDERAL) <= set(web.sites)


async def read_federal(operations: Operations, today: date, progress: Progress) -> bool:
    """Read the sources that were never read: bills first, the others while a backfill of bills waits for its budget.

    `today` is the day of the web. Returns whether all sources have been read and the backfill has been stopped.
    """
    sources = {source.name: source for source in await operations.sources.list_sources()}
    for name, source in SOURCES.items():
        if name not in sources:
            since = {"since": (today - _WEEK).isoformat()} if name == REGISTER else {}
            await operations.sources.create(name, source.kind, {**source.settings, **since})
    unread = [name for name in SOURCES if name not in sources or sources[name].last_success_at is None]
    if BILLS in unread:
        progress("federal", 0, len(SOURCES), BILLS)
        if not await _read(operations, BILLS):
            return False
    if others := [name for name in unread if name != BILLS]:
        async with _running_backfill(operations):
            for done, name in enumerate(others, start=1):
                progress("federal", done, len(SOURCES), name)
                if not await _read(operations, name):
                    return False
    progress("federal", len(SOURCES), len(SOURCES), "")
    if BILLS not in sources or sources[BILLS].enabled:
        # Otherwise the backfill would start again and wait for an hour.
        await operations.sources.set_enabled(BILLS, enabled=False)
        if "fetch_items" in (await operations.sources.show(BILLS)).settings:
            await operations.sources.edit(BILLS, {}, ["fetch_items"])
    return True


async def _read(operations: Operations, name: str) -> bool:
    """Read a source. Give up if it waits for a budget or for the lease of a demo that was killed."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return (await operations.sources.sync(name)).error is None
    except (TimeoutError, RunUnderWay):
        return False


@contextlib.asynccontextmanager
async def _running_backfill(operations: Operations) -> AsyncIterator[None]:
    """Run a backfill of bills that has used its share and waits.

    Its pages are not fetched: how many it finds depends on earlier demos that were killed.
    """
    await operations.sources.edit(BILLS, {"fetch_items": False})
    backfill = asyncio.create_task(operations.sources.backfill(BILLS, BACKFILL_SINCE))
    try:
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while not backfill.done() and time.monotonic() < give_up:
            if any(share.source == BILLS and not share.left for share in await key_shares(operations)):
                break
            await asyncio.sleep(0.02)
        yield
    finally:
        await finish_or_cancel([backfill], 0)


async def key_shares(operations: Operations) -> list[SourceBudget]:
    """Return the share of the key that each source has."""
    return [child for known in await operations.budgets() or () if known.host == API_HOST for child in known.sources]
