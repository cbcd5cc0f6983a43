"""Visits become documents: one transaction for a batch, fenced claim by claim."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from headwater.fetch.visit import Visited
from headwater.frontier.finish import Finish, finish, still_held
from headwater.frontier.submit import submit
from headwater.model.reasons import Reason
from headwater.store import documents, items
from headwater.store.pool import Connection


async def commit(connection: Connection, visits: Collection[Visited], now: datetime) -> list[Finish]:
    """Save what visits brought and end their claims; those that lost their lease change nothing and are left out."""
    held = await still_held(connection, [visited.finish.claim for visited in visits])
    visits = [visited for visited in visits if visited.finish.claim.url_id in held]
    finishes = await _save_documents(connection, visits, now)
    await _send_onward(connection, visits, now)
    await finish(connection, finishes, now)
    return finishes


async def _send_onward(connection: Connection, visits: Collection[Visited], now: datetime) -> None:
    """Submit where redirects lead; the items that led to the old address go along, so they find their document."""
    onward = {visited.onward.url: visited.finish.claim.url_id for visited in visits if visited.onward}
    if not onward:
        return
    submitted = await submit(connection, [visited.onward for visited in visits if visited.onward], now)
    moved = {old: submitted.known[url].id for url, old in onward.items() if url in submitted.known}
    await items.move_items(connection, moved)


async def _save_documents(connection: Connection, visits: Collection[Visited], now: datetime) -> list[Finish]:
    """Save texts once each; a page whose text was there already is linked to it."""
    texts = {visited.document.content_hash: visited.document.article.text for visited in visits if visited.document}
    unclaimed = await documents.save_texts(connection, texts, now) if texts else set()
    finishes = []
    for visited in visits:
        done, document = visited.finish, visited.document
        if document:
            await documents.save_document(connection, done.claim.url_id, done.claim.source_id, document, now)
            if document.content_hash not in unclaimed:
                done = replace(done, ending=replace(done.ending, reason=Reason.LINKED))
            unclaimed.discard(document.content_hash)
        finishes.append(done)
    return finishes
