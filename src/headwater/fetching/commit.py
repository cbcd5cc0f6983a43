"""Saves a batch of fetched pages in one transaction. A claim whose lease is lost changes nothing."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from headwater.core.frontier import UrlStatus
from headwater.core.politeness import KeyOf, own_key
from headwater.core.reasons import Reason
from headwater.core.refetch import FetchEnd
from headwater.core.site_memory import SiteMemory
from headwater.core.text import one_line
from headwater.core.urls import identify, url_hash
from headwater.db import canonical, documents, frontier, hosts, items, site_memory, watches
from headwater.db.documents import NewDocument, SavedDocument
from headwater.db.pool import Connection
from headwater.db.search import Words, index_documents
from headwater.documents.page_items import note_changed_pages, save_page_items
from headwater.extraction.article import Article, BodyStatus
from headwater.extraction.html.metadata import is_image_address, read_byline
from headwater.feeds.results import FeedEntry
from headwater.fetching.fetcher import FetchResult
from headwater.frontier.claim import Finish, finish
from headwater.frontier.submit import submit
from headwater.frontier.watches import plan_after_fetches

# A feed names a page as its publisher does, and a page shows its date only in part. A feed's summary is often the cut
# beginning of the text, and its image is often small.
_TRUST_IN_FEEDS = {
    **dict.fromkeys(("title", "byline", "published_at", "updated_at"), 0.85),
    **dict.fromkeys(("abstract", "image"), 0.75),
}
_ABSTRACT_LENGTHS = range(41, 240)


async def commit(
    connection: Connection,
    results: Collection[FetchResult],
    now: datetime,
    *,
    timezone: str,
    key_of: KeyOf = own_key,
) -> list[Finish]:
    """Save the results of fetches and end their claims. Return the finishes of the claims that are still ours.

    `timezone` is for the days of sources without a time zone.
    """
    ours = await frontier.lock_claims(connection, [result.finish.claim for result in results])
    results = [result for result in results if result.finish.claim.url_id in ours]
    before = await documents.current_texts(connection, ours) if any(result.document for result in results) else {}
    finishes = await _save_documents(connection, results, before, now)
    await _save_aliases(connection, results, now)
    targets = await _submit_redirects(connection, results, now, key_of)
    await finish(connection, finishes, now)
    ends = _find_ends(results, before)
    if watched := {url_id: end for url_id, end in ends.items() if ours[url_id]}:
        await plan_after_fetches(connection, watched, now)
    if changes := [url_id for url_id, end in watched.items() if end is FetchEnd.CHANGED]:
        await note_changed_pages(connection, changes, timezone, now)
    stored = {result.finish.claim.url_id for result in results if result.document}
    changed = {url_id for url_id, end in ends.items() if end is FetchEnd.CHANGED}
    await save_page_items(connection, stored | targets, timezone, now, changed)
    await _learn_site_blocks(connection, results, finishes, ends)  # last: no other lock is taken after its locks
    return finishes


def drop_future_dates(article: Article, now: datetime) -> Article:
    """Return the article without dates after the fetch. These are closing dates, events or mistakes."""
    stated = {"published_at": article.published_at, "updated_at": article.updated_at}
    future = {name for name, moment in stated.items() if moment and moment > now}
    if not future:
        return article
    return replace(
        article,
        published_at=None if "published_at" in future else article.published_at,
        updated_at=None if "updated_at" in future else article.updated_at,
        provenance={name: origin for name, origin in article.provenance.items() if name not in future},
        confidence={name: trust for name, trust in article.confidence.items() if name not in future},
    )


def merge_metadata(article: Article, entry: FeedEntry) -> Article:
    """Return the article with the values of the feed entry that we trust more than the page's."""
    summary = one_line(entry.summary)
    listed: dict[str, Any] = {
        "title": one_line(entry.title),
        "byline": None if "@" in (entry.author or "") else read_byline(entry.author or ""),
        "published_at": entry.published_at,
        "updated_at": entry.updated_at,
        "abstract": summary if len(summary) in _ABSTRACT_LENGTHS else None,
        "image": entry.image if is_image_address(entry.image or "") else None,
    }
    better = {
        name: value
        for name, value in listed.items()
        if value and article.confidence.get(name, 0.0) < _TRUST_IN_FEEDS[name]
    }
    return replace(
        article,
        **better,
        provenance={**article.provenance, **dict.fromkeys(better, "feed")},
        confidence={**article.confidence, **{name: _TRUST_IN_FEEDS[name] for name in better}},
    )


def _find_ends(results: Collection[FetchResult], before: Mapping[int, bytes]) -> dict[int, FetchEnd]:
    """Return how the fetches ended that do not try again, by the ids of their URLs. `before` are the earlier texts."""
    ends: dict[int, FetchEnd] = {}
    for result in results:
        outcome, url_id = result.finish.outcome, result.finish.claim.url_id
        if outcome.status is UrlStatus.DEAD:
            ends[url_id] = FetchEnd.GONE if outcome.reason is Reason.GONE else FetchEnd.FAILED
        elif outcome.status is UrlStatus.FETCHED:
            document = result.document
            if document is None or document.content_hash == before.get(url_id):
                ends[url_id] = FetchEnd.UNCHANGED
            else:
                ends[url_id] = FetchEnd.CHANGED if url_id in before else FetchEnd.FIRST
    return ends


async def _save_documents(
    connection: Connection, results: Collection[FetchResult], before: Mapping[int, bytes], now: datetime
) -> list[Finish]:
    """Save each text once. Link a page whose text is there already to that text."""
    texts = {result.document.content_hash: result.document.article.text for result in results if result.document}
    if not texts:
        return [result.finish for result in results]
    new_texts = await documents.save_texts(connection, texts, now)
    claims = [result.finish.claim for result in results if result.document]
    entries = await items.entries_of_urls(connection, {claim.url_id: claim.source_id for claim in claims})
    made = {
        result.finish.claim.url_id: _complete(result.document, entries.get(result.finish.claim.url_id), now)
        for result in results
        if result.document
    }
    saved = await documents.save_documents(
        connection, [(claim.url_id, claim.source_id, made[claim.url_id]) for claim in claims], now
    )
    finishes: list[Finish] = []
    for result in results:
        done, reason = result.finish, None
        if document := made.get(done.claim.url_id):
            reason = _find_reason(document, saved[done.claim.url_id], before.get(done.claim.url_id), new_texts)
            new_texts.discard(document.content_hash)
        finishes.append(replace(done, outcome=replace(done.outcome, reason=reason)) if reason else done)
    await index_documents(
        connection,
        [
            Words(one.id, article.title or "", article.byline, article.language, article.text)
            for url_id, one in saved.items()
            if not one.is_in_search and (article := made[url_id].article)
        ],
    )
    if changed := [url_id for url_id, one in saved.items() if one.is_changed]:
        await canonical.mark_articles_changed(connection, changed, now)
    return finishes


def _complete(document: NewDocument, entry: FeedEntry | None, now: datetime) -> NewDocument:
    """Return the document with the better values of its feed entry, and without dates in the future."""
    article = drop_future_dates(document.article, now)
    return replace(document, article=merge_metadata(article, entry) if entry else article)


def _find_reason(
    document: NewDocument, saved: SavedDocument, before: bytes | None, new_texts: Collection[bytes]
) -> Reason | None:
    """Return the reason of a page that is stored in another way than most. `before` is the hash of its earlier text."""
    if before is not None and not saved.is_changed:
        return Reason.UNCHANGED
    if document.article.body_status is BodyStatus.SCANNED_NO_TEXT:
        return Reason.SCANNED_NO_TEXT
    return Reason.LINKED if document.content_hash not in (*new_texts, before) else None


async def _learn_site_blocks(
    connection: Connection, results: Collection[FetchResult], finishes: Collection[Finish], ends: Mapping[int, FetchEnd]
) -> None:
    """Count the blocks of pages that were read for the first time and whose text is new."""
    stored = {done.claim.url_id for done in finishes if done.outcome.reason is Reason.STORED}
    pages: dict[str, list[tuple[int, Sequence[int]]]] = defaultdict(list)
    for result in results:
        claim, document = result.finish.claim, result.document
        is_first = claim.url_id in stored and ends.get(claim.url_id) is FetchEnd.FIRST
        if document and document.site_blocks and is_first:
            pages[claim.host.host].append((claim.url_id, document.site_blocks))
    if not pages:
        return
    memories = await site_memory.lock_site_memories(connection, pages)
    learned: dict[str, SiteMemory] = {}
    for host, of_host in pages.items():
        memory = memories.get(host, SiteMemory())
        if taught := [blocks for url_id, blocks in of_host if memory.is_taught_by(url_id)]:
            learned[host] = memory.learn(taught)
    if learned:
        await site_memory.save_site_memories(connection, learned)


async def _save_aliases(connection: Connection, results: Collection[FetchResult], now: datetime) -> None:
    """Save the URLs that redirects within a host led to, so that no worker fetches them as pages of their own."""
    if not any(result.aliases for result in results):
        return
    keeps_slash = await hosts.list_slash_hosts(connection)
    aliases: dict[bytes, tuple[int, str, bytes]] = {}
    for result in results:
        for url in result.aliases:
            identity, _ = identify(url, keeps_slash=keeps_slash)
            digest = url_hash(identity)
            aliases[digest] = (result.finish.claim.url_id, identity, digest)
    page_ids = await frontier.save_aliases(connection, aliases.values(), now)
    await items.move_items(connection, page_ids)
    await watches.move_watches(connection, page_ids, now)


async def _submit_redirects(
    connection: Connection, results: Collection[FetchResult], now: datetime, key_of: KeyOf
) -> set[int]:
    """Submit the targets of redirects and return their ids.

    Items and sightings of the old URL move to the target, so that they find their document.
    """
    redirects = [(result.redirect, result.finish.claim.url_id) for result in results if result.redirect]
    if not redirects:
        return set()
    submitted = await submit(connection, [candidate for candidate, _ in redirects], now, key_of)
    moved = {old: submitted.known[target.url].id for target, old in redirects if target.url in submitted.known}
    await items.move_items(connection, moved)
    await frontier.save_moves(connection, moved)
    await watches.move_watches(connection, moved, now)
    return set(moved.values())
