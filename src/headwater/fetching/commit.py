"""Visits become documents: one transaction for a batch, fenced claim by claim."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from headwater.core.politeness import KeyOf, own_key
from headwater.core.reasons import Reason
from headwater.core.urls import identify, url_hash
from headwater.db import canonical, documents, frontier, hosts, items
from headwater.db.pool import Connection
from headwater.extraction.pdf.document import BodyStatus
from headwater.fetching.fetcher import FetchResult
from headwater.fetching.merge_metadata import fuse
from headwater.frontier.complete import Finish, finish, still_held
from headwater.frontier.submit import submit


async def commit(
    connection: Connection, visits: Collection[FetchResult], now: datetime, key_of: KeyOf = own_key
) -> list[Finish]:
    """Save what visits brought and end their claims; those that lost their lease change nothing and are left out."""
    held = await still_held(connection, [visited.finish.claim for visited in visits])
    visits = [visited for visited in visits if visited.finish.claim.url_id in held]
    visits = await _fuse_with_lists(connection, visits)
    finishes = await _save_documents(connection, visits, now)
    await _name_twins(connection, visits, now)
    await _send_onward(connection, visits, now, key_of)
    await finish(connection, finishes, now)
    return finishes


async def _send_onward(connection: Connection, visits: Collection[FetchResult], now: datetime, key_of: KeyOf) -> None:
    """Submit where redirects lead; the items that led to the old address go along, so they find their document."""
    onward = [(visited.onward, visited.finish.claim.url_id) for visited in visits if visited.onward]
    if not onward:
        return
    submitted = await submit(connection, [candidate for candidate, _ in onward], now, key_of)
    moved = {old: submitted.known[candidate.url].id for candidate, old in onward if candidate.url in submitted.known}
    await items.move_items(connection, moved)
    await frontier.note_moves(connection, moved)


async def _name_twins(connection: Connection, visits: Collection[FetchResult], now: datetime) -> None:
    """Remember the addresses that redirects within a host led to, so that none of them is fetched for itself."""
    if not any(visited.twins for visited in visits):
        return
    keeps_slash = await hosts.slash_hosts(connection)
    led_to = {}
    for visited in visits:
        for url in visited.twins:
            identity, _ = identify(url, keeps_slash=keeps_slash)
            digest = url_hash(identity)
            led_to[digest] = (visited.finish.claim.url_id, identity, digest)
    await items.move_items(connection, await frontier.name_twins(connection, led_to.values(), now))


async def _fuse_with_lists(connection: Connection, visits: Collection[FetchResult]) -> list[FetchResult]:
    """Let documents have what the items that led to them say, where that is to be trusted more than the page."""
    claims = [visited.finish.claim for visited in visits if visited.document]
    if not claims:
        return list(visits)
    entries = await items.entries_of_urls(connection, {claim.url_id: claim.source_id for claim in claims})
    fused = []
    for visited in visits:
        entry = entries.get(visited.finish.claim.url_id)
        if visited.document and entry:
            article = fuse(visited.document.article, entry)
            fused.append(replace(visited, document=replace(visited.document, article=article)))
        else:
            fused.append(visited)
    return fused


async def _save_documents(connection: Connection, visits: Collection[FetchResult], now: datetime) -> list[Finish]:
    """Save texts once each; a page whose text was there already is linked to it."""
    texts = {visited.document.content_hash: visited.document.article.text for visited in visits if visited.document}
    if not texts:
        return [visited.finish for visited in visits]
    before = await documents.current_texts(connection, [visited.finish.claim.url_id for visited in visits])
    unclaimed = await documents.save_texts(connection, texts, now)
    finishes = []
    changed: list[int] = []
    for visited in visits:
        done, document = visited.finish, visited.document
        if document:
            url_id, source_id = done.claim.url_id, done.claim.source_id
            is_another = await documents.save_document(connection, url_id, source_id, document, now)
            if is_another:
                changed.append(url_id)
            if url_id in before and not is_another:
                done = replace(done, ending=replace(done.ending, reason=Reason.UNCHANGED))
            elif document.article.body_status is BodyStatus.SCANNED_NO_TEXT:
                done = replace(done, ending=replace(done.ending, reason=Reason.SCANNED_NO_TEXT))
            elif document.content_hash not in (*unclaimed, before.get(url_id)):
                done = replace(done, ending=replace(done.ending, reason=Reason.LINKED))
            unclaimed.discard(document.content_hash)
        finishes.append(done)
    if changed:
        await canonical.articles_changed(connection, changed, now)
    return finishes
