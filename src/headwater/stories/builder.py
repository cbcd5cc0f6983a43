"""Follow the changes of documents, and derive stories from them.

A document is linked to the earlier documents that match it, of those that share a key with it. Of each key only the
last documents before it count, so the work for a document does not grow with the corpus. Its links depend only on its
signature and on those of these documents. So when a document is new, changed or deleted, the next documents of its keys
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
from headwater.db.stories import ComparedDocument, LinkedDocument
from headwater.stories.matching import are_one_story
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
    links = await find_links(connection, signatures)
    known = rows | affected
    linked = [
        LinkedDocument(one, found, msgspec.msgpack.encode(signatures[one]))
        for one, found in links.items()
        if one in changed or found != known[one].links
    ]
    gone = rows.keys() - new.keys()
    await stories.remove_rows(connection, gone)
    await stories.save_links(connection, linked)
    old_links = {one.document_id: set(known[one.document_id].links) for one in linked if one.document_id in known}
    if gone or any(old_links[one] - set(links[one]) for one in old_links):
        touched = {row.story_id for row in known.values()}
        await _divide_stories(connection, touched, linked)
    else:
        await _merge_stories(connection, linked)


async def _merge_stories(connection: Connection, linked: Collection[LinkedDocument]) -> None:
    """Make one story of linked stories. No link was removed."""
    wanted = {other for one in linked for other in (one.document_id, *one.links)}
    story_of = {one: row.story_id for one, row in (await stories.read_rows(connection, wanted)).items()}
    pairs = [(story_of[one.document_id], story_of[other]) for one in linked for other in one.links]
    roots = find_roots(pairs)
    await stories.merge_stories(connection, {story: root for story, root in roots.items() if story != root})


async def _divide_stories(connection: Connection, touched: Collection[int], linked: Collection[LinkedDocument]) -> None:
    """Make the stories of documents anew from the links of all their documents: some links were removed."""
    wanted = {other for one in linked for other in (one.document_id, *one.links)}
    rows = await stories.read_rows(connection, wanted)
    documents = await stories.list_links(connection, {*touched, *(row.story_id for row in rows.values())})
    roots = find_roots((one, other) for one, (_, links) in documents.items() for other in links)
    moved = {one: roots.get(one, one) for one, (story, _) in documents.items() if roots.get(one, one) != story}
    await stories.move_documents(connection, moved)


def find_roots(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return the smallest of all that are connected with each."""
    parents: dict[int, int] = {}

    def find(one: int) -> int:
        while (parent := parents.setdefault(one, one)) != one:
            parents[one] = one = parents[parent]
        return one

    for first, second in pairs:
        low, high = sorted((find(first), find(second)))
        parents[high] = low
    return {one: find(one) for one in list(parents)}


def sign_documents(documents: Iterable[ComparedDocument]) -> dict[int, Signature]:
    """Make the signatures of documents."""
    return {
        one.id: make_signature(one.title, one.text, host=one.host, published_at=one.published_at) for one in documents
    }


async def find_links(connection: Connection, signatures: Mapping[int, Signature]) -> dict[int, list[int]]:
    """Return the earlier documents that each document is linked to."""
    keys = {one: signature.list_keys() for one, signature in signatures.items()}
    candidates = await stories.find_earlier(connection, keys, for_a_key=_FOR_A_KEY, limit=_COMPARED)
    wanted = {one for found in candidates.values() for one in found} - signatures.keys()
    rows = await stories.read_rows(connection, wanted)
    known = {one: _decode(row.signature) for one, row in rows.items()} | dict(signatures)
    return await asyncio.to_thread(_match_all, signatures, candidates, known)


def _match_all(
    signatures: Mapping[int, Signature], candidates: Mapping[int, list[int]], known: Mapping[int, Signature]
) -> dict[int, list[int]]:
    return {
        one: sorted(other for other in candidates[one] if other in known and are_one_story(signature, known[other]))
        for one, signature in signatures.items()
    }


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
