"""The outbox of the index `raw_content`, and the build of a new one (spec 4.4).

A process claims some changes, reads the present documents, and sends them in one bulk request. It sends one request at
a time, so a slow index is not flooded. The index keeps the greatest version of a document, so a document may be sent
twice or late. A document that the index refuses is parked. If the index is away, all changes wait.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec
import structlog

from headwater.core.backoff import retry_wait
from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason
from headwater.core.waiting import wait_for_any
from headwater.db import search_index
from headwater.db.context import DatabaseContext
from headwater.db.pool import AWAY
from headwater.db.search_index import IndexedDocument, IndexState, QueuedChange
from headwater.search.index_client import BulkLine, BulkResult, IndexClient, IndexLost
from headwater.search.index_format import ALIAS, TEMPLATE, make_document, make_template

log = structlog.get_logger()

_AT_ONCE = 200
_BULK_BYTES = 5 * 1024 * 1024
_CLAIM = timedelta(seconds=90)  # longer than the requests of a claim take
_LONGEST_WAIT = timedelta(minutes=5)
_KEEP_RETIRED = timedelta(minutes=2)  # longer than a process sends to an index after it was replaced
_TOO_LARGE = 413


@dataclass(frozen=True, slots=True)
class IndexFeeder:
    """Sends changes of documents to the index, and builds it."""

    context: DatabaseContext
    client: IndexClient

    async def step(self) -> int:
        """Do the next piece of work. Returns the number of documents that were sent; 0: there is nothing to do now."""
        state = await self.get_state()
        if state is None or (state.current is None and state.building is None):
            await self.begin()
            state = await self.get_state()
            assert state is not None
        if state.not_before is not None and state.not_before > self.context.clock.now():
            return 0
        try:
            done = await self._work(state)
        except IndexLost as error:
            await self._save_failure(state, error)
            return 0
        if state.failures:
            await self.context.database.run(search_index.save_success)
        return done

    async def get_state(self) -> IndexState | None:
        """Return the state of the index."""
        return await self.context.database.run(search_index.get_state)

    async def begin(self) -> None:
        """Begin to build a new index."""
        await self.context.database.transact(search_index.begin_index, ALIAS)

    async def build_page(self, state: IndexState) -> int:
        """Send the next documents to the index that is being built. At the end, point the alias at it."""
        assert state.building is not None
        if state.built_to == 0:
            await self.client.put_template(TEMPLATE, make_template())
            await self.client.create_index(state.building)
        ids = await self.context.database.run(search_index.next_ids, state.built_to, _AT_ONCE)
        if not ids:
            await self.client.refresh(state.building)
            await self.client.point_alias(ALIAS, state.building, state.current)
            await self.context.database.run(search_index.end_index, state.building, self.context.clock.now())
            log.info("index.built", index=state.building)
            return 1
        documents = await self.context.database.run(search_index.get_documents, ids)
        lines = [_make_line(document) for document in documents]
        results = await self._send([state.building], lines)
        if any(result.is_late for result in results):
            raise IndexLost(f"{self.client.place} accepts no more documents now.")
        await self._park(lines, results)
        await self.context.database.run(search_index.save_built_to, state.building, state.built_to, ids[-1])
        return len(ids)

    async def _work(self, state: IndexState) -> int:
        now = self.context.clock.now()
        if state.retired is not None and state.retired_at is not None and now - state.retired_at > _KEEP_RETIRED:
            await self.client.delete_index(state.retired)
            await self.context.database.run(search_index.forget_retired, state.retired)
        sent = await self._send_changes(state)
        if state.failures and not sent:
            await self.client.get_version()
        return sent + (await self.build_page(state) if state.building is not None else 0)

    async def _send_changes(self, state: IndexState) -> int:
        database, now = self.context.database, self.context.clock.now()
        if state.building is not None and state.built_to == 0:
            return 0  # the index does not exist yet
        changes = await database.transact(search_index.claim_changes, now, now + _CLAIM, _AT_ONCE)
        if not changes:
            return 0
        try:
            await self._send_claimed(state, changes)
        except BaseException:
            await asyncio.shield(database.run(search_index.put_off_changes, changes, now))
            raise
        return len(changes)

    async def _send_claimed(self, state: IndexState, changes: Sequence[QueuedChange]) -> None:
        database = self.context.database
        documents = await database.run(search_index.get_documents, [change.document_id for change in changes])
        present = {document.id: document for document in documents}
        lines = [
            _make_line(present[one.document_id])
            if one.document_id in present
            else BulkLine(one.document_id, one.version, None)
            for one in changes
        ]
        results = await self._send(state.targets, lines)
        pairs = list(zip(lines, results, strict=True))
        done = {line.document_id: line.version for line, result in pairs if not result.is_late and not result.refusal}
        await database.run(search_index.end_changes, done)
        await self._park(lines, results)
        late = [change for change, result in zip(changes, results, strict=True) if result.is_late]
        if late:
            wait = _wait(max(change.attempts for change in late), self.context.settings.retry_base_seconds)
            await database.run(search_index.put_off_changes, late, self.context.clock.now() + wait)

    async def _send(self, indexes: Sequence[str], lines: Sequence[BulkLine]) -> list[BulkResult]:
        """Send lines to each index. A line counts as late or refused if one index answers that."""
        answers = [await self._send_all(index, lines) for index in indexes]
        return [
            next((one for one in each if one.is_late), next((one for one in each if one.refusal), BulkResult()))
            for each in zip(*answers, strict=True)
        ]

    async def _send_all(self, index: str, lines: Sequence[BulkLine]) -> list[BulkResult]:
        return [result for part in _split(lines) for result in await self._send_part(index, part)]

    async def _send_part(self, index: str, lines: Sequence[BulkLine]) -> list[BulkResult]:
        """Send one bulk request, in halves if the server calls it too large."""
        try:
            return await self.client.bulk(index, lines)
        except IndexLost as error:
            if error.status != _TOO_LARGE:
                raise
            if len(lines) == 1:
                return [BulkResult(refusal=str(error))]
        half = len(lines) // 2
        return [*await self._send_part(index, lines[:half]), *await self._send_part(index, lines[half:])]

    async def _park(self, lines: Sequence[BulkLine], results: Sequence[BulkResult]) -> None:
        pairs = zip(lines, results, strict=True)
        refused = {line.document_id: (line.version, result.refusal) for line, result in pairs if result.refusal}
        if refused:
            for document_id, (_, detail) in refused.items():
                log.warning("index.refused", document=document_id, detail=detail)
            await self.context.database.run(search_index.park_changes, refused, Reason.INDEX_REFUSED)

    async def _save_failure(self, state: IndexState, error: IndexLost) -> None:
        wait = _wait(state.failures + 1, self.context.settings.retry_base_seconds)
        log.warning("index.lost", error=str(error), failures=state.failures + 1)
        now = self.context.clock.now()
        await self.context.database.run(search_index.save_failure, str(error), now + wait)


@dataclass(slots=True, eq=False)
class IndexRole:
    """Feeds the index until it must stop."""

    feeder: IndexFeeder
    look_seconds: float = 1.0
    on_sent: Callable[[int], None] = field(default=lambda _: None)

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Send changes until `stop`. Claims that a kill interrupts are sent again later."""
        while not stop.is_set():
            sent = 0
            step = asyncio.create_task(self.feeder.step())
            stopped = asyncio.create_task(stop.wait())
            await asyncio.wait([step, stopped], return_when=asyncio.FIRST_COMPLETED)
            if not step.done():
                await asyncio.wait([step], timeout=grace_seconds)
                step.cancel()
            stopped.cancel()
            try:
                sent = await step
            except asyncio.CancelledError:
                if not stop.is_set():
                    raise
            except (*AWAY, HeadwaterError) as error:
                log.warning("index.failed", error=str(error))
            self.on_sent(sent)
            if not sent:
                await wait_for_any((stop,), self.look_seconds)


def _make_line(document: IndexedDocument) -> BulkLine:
    return BulkLine(document.id, document.version, make_document(document))


def _split(lines: Sequence[BulkLine]) -> Iterator[list[BulkLine]]:
    """Yield lines in parts that are small enough for one request."""
    part: list[BulkLine] = []
    size = 0
    for line in lines:
        length = len(msgspec.json.encode(line.body))
        if part and size + length > _BULK_BYTES:
            yield part
            part, size = [], 0
        part.append(line)
        size += length
    if part:
        yield part


def _wait(times: int, base_seconds: float) -> timedelta:
    return min(retry_wait(times, base_seconds, random.random()), _LONGEST_WAIT)  # noqa: S311 - it only spreads retries
