"""Matches new changes with the saved searches that receivers watch, and makes deliveries of those that match.

Each receiver has its place in the change feed. The work is bounded by the number of new changes: a search is evaluated
for their documents only, and the corpus is never read.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

import structlog

from headwater.core.waiting import wait_for
from headwater.db import saved_searches
from headwater.db.context import DatabaseContext
from headwater.db.pool import AWAY, Connection
from headwater.db.saved_searches import WatchingReceiver
from headwater.notify.digests import DigestMaker
from headwater.search.operations import SearchOperations

log = structlog.get_logger()
CHANGES_AT_ONCE = 500
_MOST_STEPS = 50  # without a look at the signal to stop


class _ReceiverFailed(Exception):
    """The changes of one receiver cannot be matched. The others must not wait for it."""

    def __init__(self, receiver_id: int) -> None:
        super().__init__(receiver_id)
        self.receiver_id = receiver_id


@dataclass(frozen=True, slots=True)
class SearchMatcher:
    """Makes deliveries for receivers with a search."""

    context: DatabaseContext
    search: SearchOperations

    async def match_all(self) -> int:
        """Match the changes that no receiver with a search has passed yet. Returns how many deliveries were made."""
        made = 0
        failed: set[int] = set()
        for _ in range(_MOST_STEPS):
            try:
                step = await self.context.database.transact(self._match_next, failed)
            except _ReceiverFailed as error:
                log.exception("search.match_failed", receiver=error.receiver_id)
                failed.add(error.receiver_id)
                continue
            if step is None:
                break
            made += step
        return made

    async def _match_next(self, connection: Connection, failed: Collection[int]) -> int | None:
        """Match one batch of changes for the receiver that is most behind. None if no receiver is behind."""
        receiver = await saved_searches.lock_watching_receiver(connection, failed)
        if receiver is None:
            return None
        try:
            return await self._match(connection, receiver)
        except AWAY:
            raise
        except Exception as error:
            raise _ReceiverFailed(receiver.id) from error

    async def _match(self, connection: Connection, receiver: WatchingReceiver) -> int:
        to, documents = await saved_searches.next_changed_documents(connection, receiver.position, CHANGES_AT_ONCE)
        matching = await self.search.match(connection, receiver.words, receiver.only, documents)
        return await saved_searches.report_matches(connection, receiver, to, matching, self.context.clock.now())


@dataclass(slots=True, eq=False)
class MatcherRole:
    """Matches changes and makes the digests that are due, every second."""

    matcher: SearchMatcher
    maker: DigestMaker
    look_seconds: float = 1.0

    async def run(self, stop: asyncio.Event, _grace_seconds: float) -> None:
        """Run until `stop`."""
        while not stop.is_set():
            try:
                if made := await self.matcher.match_all():
                    log.info("search.matched", deliveries=made)
                if made := await self.maker.make_due():
                    log.info("digests.made", digests=made)
            except AWAY as error:
                log.warning("search.match_failed", error=str(error))
            except Exception:
                log.exception("search.match_failed")
            await wait_for(stop, self.look_seconds)
