"""What a reading has found is saved: at its end, and in parts before that where its kind lets it."""

from copy import deepcopy

import structlog

from headwater.core.clock import Clock
from headwater.core.errors import LeaseLost
from headwater.core.politeness import KeyOf
from headwater.db import sources
from headwater.db.pool import Connection, Database, is_down
from headwater.db.runs import RunClaim
from headwater.db.sources import PollClaim
from headwater.discovery.reader import Kept, Part, Reading
from headwater.discovery.save import category_of, rebuild_days, rebuild_read_day, save_items, save_links
from headwater.handoff.queue import queue_handoffs
from headwater.sources.kind import Kind
from headwater.sources.validation import check_state, refuse_shared_paths

log = structlog.get_logger()


class DiscoveryWriter:
    """Saves items, their pages, their links and their days, always for the holder of the lease alone."""

    def __init__(self, database: Database, clock: Clock, timezone: str, key_of: KeyOf) -> None:
        self._database = database
        self._clock = clock
        self._timezone = timezone
        self._key_of = key_of

    async def save(
        self, connection: Connection, claim: PollClaim, kind: Kind, reading: Reading, run: RunClaim | None
    ) -> Part:
        """Save what was found since the last part. Must run inside a transaction."""
        source, now = claim.source, self._clock.now()
        if not await sources.lock_poll(connection, claim):
            raise LeaseLost(f"The poll of {source.name} took longer than its lease.")
        saved, urls, touched = await save_items(
            connection, source, kind, kind.origin_of(claim.method), reading.found, now, self._key_of
        )
        handoff_ids = await queue_handoffs(connection, source.id, run.id, touched) if run else None
        if category := category_of(source, kind):
            await save_links(connection, category, reading.found, urls, now)
        timezone = kind.timezone or self._timezone
        if run and run.day:
            await rebuild_read_day(connection, source, timezone, run.day, run.started_at)
        else:
            await rebuild_days(connection, source, timezone, saved)
        return Part(len(saved), sum(item.is_new for item in saved), urls.new, urls.refused, handoff_ids)

    async def save_part(self, claim: PollClaim, kind: Kind, reading: Reading, run: RunClaim | None) -> None:
        """Save what a kind has brought so far, with its memory: whoever reads after a kill goes on from here."""
        if not (kind.in_parts and reading.found):
            return
        memory = deepcopy(reading.memory)
        check_state(claim.source.name, memory)
        refuse_shared_paths(claim.source.name, reading.found)

        async def work(connection: Connection) -> Part:
            part = await self.save(connection, claim, kind, reading, run)
            await sources.save_state(connection, claim, memory)
            return part

        reading.saved += await self._database.transact(work)
        reading.saved_memory = memory
        reading.found.clear()

    async def save_partial(self, claim: PollClaim, kind: Kind | None, reading: Reading, run: RunClaim | None) -> None:
        """Save what a kind that is saved in parts had found before its reading broke off, if it can be saved."""
        if kind is None:
            return
        try:
            await self.save_part(claim, kind, reading, run)
        except Exception as error:
            if is_down(error) or isinstance(error, LeaseLost):
                raise
            log.warning("part.not_kept", source=claim.source.name, items=len(reading.found), error=words_of(error))

    async def keep_day(
        self, connection: Connection, claim: PollClaim, kind: Kind | None, reading: Reading, run: RunClaim
    ) -> Kept:
        """Save the items that were found before a reading broke off, if they can be saved."""
        if kind is None or not await sources.lock_poll(connection, claim):
            return Kept()
        try:
            refuse_shared_paths(claim.source.name, reading.found)
            async with connection.transaction():
                origin = kind.origin_of(claim.method)
                saved = await save_items(
                    connection, claim.source, kind, origin, reading.found, self._clock.now(), self._key_of
                )
                handoff_ids = await queue_handoffs(connection, claim.source.id, run.id, saved.touched)
        except Exception as error:
            if is_down(error):
                raise
            log.warning("part.not_kept", source=claim.source.name, items=len(reading.found), error=words_of(error))
            return Kept()
        return Kept(len(saved.items), handoff_ids)


def words_of(error: Exception) -> str:
    """Say what an error is and what it says."""
    return f"{type(error).__name__}: {error}"
