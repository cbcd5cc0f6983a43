"""Follow the changes of documents, and derive stories from them.

A document joins the closest of the earlier documents that share a key with it. Of each key only the last documents
before it count, so the work for a document does not grow with the corpus. Its parent depends only on its signature and
on those of these documents. So when a document is new, changed or deleted, the next documents of its keys
are compared again, and the result is the same as if all stories were made again from the documents.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec
import structlog

from headwater.core.waiting import finish_or_cancel, wait_for
from headwater.db import stories
from headwater.db.changes import number_changes
from headwater.db.context import DatabaseContext
from headwater.db.pool import AWAY, Connection
from headwater.db.stories import ComparedDocument, StoryRow
from headwater.stories.matching import Match, match
from headwater.stories.signature import COMPARED_CHARACTERS, FUNCTION_VERSION, Signature, make_signature

log = structlog.get_logger()

_CHANGES_AT_ONCE = 100
_FOR_A_KEY = 20  # documents that are compared because of one key
_COMPARED = 16  # documents that a document is compared with
_decode = msgspec.msgpack.Decoder(Signature).decode


@dataclass(frozen=True, slots=True)
class StoryBuilder:
    """Derives stories from documents."""

    context: DatabaseContext

    async def step(self) -> int:
        """Put the documents of the next changes into stories. Returns the number of changes; 0: there are no more."""
        await self.context.database.transact(number_changes)
        return await self.context.database.transact(self._step)

    async def begin_again(self) -> None:
        """Forget all stories."""
        await self.context.database.transact(stories.begin_stories, FUNCTION_VERSION)

    async def _step(self, connection: Connection) -> int:
        state = await stories.lock_state(connection)
        if state is None:
            return 0
        if state.version != FUNCTION_VERSION:
            await stories.begin_stories(connection, FUNCTION_VERSION)
            return 1
        last, ids, changes = await stories.list_changed(connection, state.position, _CHANGES_AT_ONCE)
        if changes:
            await place_documents(connection, ids)
            await stories.save_position(connection, last)
        return changes


async def place_documents(connection: Connection, ids: Collection[int]) -> None:
    """Put documents that are new, changed or deleted into stories. The caller has locked the stories."""
    rows = await stories.read_rows(connection, ids)
    old = {one: _decode(row.signature) for one, row in rows.items()}
    documents = await stories.read_documents(connection, ids, COMPARED_CHARACTERS)
    new = await asyncio.to_thread(sign_documents, documents)
    changed = {one for one in ids if old.get(one) != new.get(one)}
    if not changed:
        return
    removed = {one: old[one].list_keys() for one in changed if one in old}
    added = {one: new[one].list_keys() for one in changed if one in new}
    await stories.change_keys(connection, removed, added)
    last = await stories.last_document(connection)
    later = await stories.find_later(connection, _merge(removed, added, last), for_a_key=_FOR_A_KEY)
    affected = await stories.read_rows(connection, later - changed)
    signatures = {one: new[one] for one in added} | {one: _decode(row.signature) for one, row in affected.items()}
    placed = await find_places(connection, signatures)
    kept = rows | affected
    await stories.save_rows(
        connection,
        [row for row in placed if row != kept.get(row.document_id)],
        [one for one in changed if one not in new],
    )


def sign_documents(documents: Iterable[ComparedDocument]) -> dict[int, Signature]:
    """Make the signatures of documents."""
    return {
        one.id: make_signature(one.title, one.text, host=one.host, published_at=one.published_at) for one in documents
    }


async def find_places(connection: Connection, signatures: Mapping[int, Signature]) -> list[StoryRow]:
    """Return the place of each document among stories, in the order of their ids."""
    keys = {one: signature.list_keys() for one, signature in signatures.items()}
    candidates = await stories.find_earlier(connection, keys, for_a_key=_FOR_A_KEY, limit=_COMPARED)
    wanted = {one for found in candidates.values() for one in found} - signatures.keys()
    rows = await stories.read_rows(connection, wanted)
    known = {one: _decode(row.signature) for one, row in rows.items()} | dict(signatures)
    stories_of = {one: row.story_id for one, row in rows.items()}
    placed = []
    for one in sorted(signatures):
        parent, found = find_parent(one, candidates[one], known)
        stories_of[one] = stories_of[parent] if parent is not None else one
        placed.append(_make_row(one, stories_of[one], parent, found, signatures[one]))
    return placed


def find_parent(
    document_id: int, candidates: Iterable[int], signatures: Mapping[int, Signature]
) -> tuple[int | None, Match | None]:
    """Return the closest of the candidates that belongs to the same story; of equal ones the first document."""
    own = signatures[document_id]
    matches = ((one, match(own, signatures[one])) for one in candidates if one in signatures)
    found = [(kin, -one) for one, kin in matches if kin is not None]
    if not found:
        return None, None
    kin, parent = max(found)
    return -parent, kin


def _make_row(
    document_id: int, story_id: int, parent: int | None, found: Match | None, signature: Signature
) -> StoryRow:
    relation = found.relation if found else None
    likeness = round(1000 * found.likeness) if found else None
    return StoryRow(document_id, story_id, parent, relation, likeness, msgspec.msgpack.encode(signature))


def _merge(removed: dict[int, list[int]], added: dict[int, list[int]], last: int) -> dict[int, set[int]]:
    """Return the keys whose later documents may have other parents now. No document is later than the last one."""
    return {one: {*removed.get(one, ()), *added.get(one, ())} for one in (removed | added) if one < last}


@dataclass(slots=True, eq=False)
class StoryRole:
    """Puts documents into stories until it must stop."""

    builder: StoryBuilder
    look_seconds: float = 1.0

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Follow the changes until `stop`. A step that a stop interrupts is rolled back and made again."""
        while not stop.is_set():
            step = asyncio.create_task(self.builder.step())
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait((step, stopping), return_when=asyncio.FIRST_COMPLETED)
            await finish_or_cancel((stopping,), 0)
            if await finish_or_cancel((step,), grace_seconds):
                return
            try:
                done = step.result()
            except AWAY as error:
                log.warning("stories.failed", error=str(error))
                done = 0
            if not done:
                await wait_for(stop, self.look_seconds)
