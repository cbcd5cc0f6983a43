"""What a reading brought, into the database: items, the pages to fetch, the days they belong to."""

import hashlib
from collections.abc import Collection, Container, Iterable
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import NamedTuple

from headwater.canonical.rules import LONGEST_CATEGORY, uid_of
from headwater.core.dates import bounds
from headwater.core.errors import InvalidURL
from headwater.core.frontier import Origin
from headwater.core.politeness import KeyOf
from headwater.core.source import DiscoveredUrl, Item, Source
from headwater.core.url_input import explain_unstorable
from headwater.core.urls import identify
from headwater.db import canonical, daily, frontier, hosts, items
from headwater.db.items import SavedItem
from headwater.db.pool import Connection
from headwater.discovery.merge import merge_items, unite_tags
from headwater.documents import daily_index
from headwater.frontier.priority import LOWEST, priority
from headwater.frontier.submit import Candidate, KnownUrl, Submitted, spell, submit
from headwater.sources.kind import Kind

# Sites that call every page changed whenever they are asked must not be fetched from morning to night.
_ITEM_REST = timedelta(hours=1)
_LEAD_REST = timedelta(hours=24)


class Found(NamedTuple):
    """An item, and where the raw bytes of its page go."""

    item: Item
    subpath: str | None


class Saved(NamedTuple):
    """What was saved: the items as they stand now, what became of their addresses, and what was told of each."""

    items: list[SavedItem]
    urls: Submitted
    touched: dict[str, Item]  # by id


async def save_items(
    connection: Connection, source: Source, kind: Kind, origin: Origin, found: list[Found], now: datetime, key_of: KeyOf
) -> Saved:
    """Save items and submit their pages; where those are not to be fetched, addresses only get their one spelling."""
    found, homeless = await _without_taken_places(connection, source, found)
    weight = priority(kind.priority, origin)
    candidates = [Candidate(item.url, source.id, origin, weight, subpath=subpath) for item, subpath in found]
    urls = await submit(connection, candidates, now, key_of) if kind.fetch_items else spell(candidates)
    rows = await _rows(connection, source, kind, found, urls)
    saved = await items.save_items(connection, source.id, rows, now) if rows else []
    if kind.fetch_items:
        changed = _changed(urls, ((item.url, item.updated_at) for item, _ in found))
        await frontier.refresh_urls(connection, changed, rested_since=now - _ITEM_REST, priority=weight, now=now)
        await _note_sightings(connection, source, origin, urls.known.values(), weight, now)
    touched = {item_id: item for item_id, (item, _) in rows.items()}
    return Saved(saved, replace(urls, refused={**urls.refused, **homeless}), touched)


async def _rows(
    connection: Connection, source: Source, kind: Kind, found: list[Found], urls: Submitted
) -> dict[str, tuple[Item, int | None]]:
    """Return each item once, by its id, with the tags that it had before, and its page's id."""
    sightings: dict[str, list[Item]] = {}
    pages: dict[str, KnownUrl] = {}
    for item, _ in found:
        if known := urls.known.get(item.url):
            pages[item_id := _item_id(source, known.url)] = known
            sightings.setdefault(item_id, []).append(item)
    tags = await items.lock_tags(connection, pages) if pages else {}
    rows: dict[str, tuple[Item, int | None]] = {}
    for item_id, seen in sightings.items():
        item, page, old_tags = merge_items(seen), pages[item_id], tags.get(item_id)
        if old_tags or item.url != page.url:  # most are new, and spelled as they should be
            item = replace(item, url=page.url, tags=unite_tags(old_tags or {}, item.tags))
        rows[item_id] = (item, page.id if kind.fetch_items else None)
    return rows


async def save_leads(
    connection: Connection,
    source: Source,
    kind: Kind,
    origin: Origin,
    leads: list[DiscoveredUrl],
    now: datetime,
    key_of: KeyOf,
) -> Submitted:
    """Submit pages of which nothing more is known; what has changed is fetched again, after all that is new."""
    urls = await submit(
        connection,
        [
            Candidate(lead.url, source.id, origin, priority(kind.priority, origin, lead.depth), lead.depth)
            for lead in leads
        ],
        now,
        key_of,
    )
    changed = _changed(urls, ((lead.url, lead.changed_at) for lead in leads))
    await frontier.refresh_urls(connection, changed, rested_since=now - _LEAD_REST, priority=LOWEST, now=now)
    await _note_sightings(connection, source, origin, urls.known.values(), LOWEST, now)
    return urls


def category_of(source: Source, kind: Kind) -> str | None:
    """Return the category whose links a source's items are; None: it has none, or its pages are not fetched."""
    category = source.settings.get("category")
    return category.strip()[:LONGEST_CATEGORY] or None if isinstance(category, str) and kind.fetch_items else None


async def save_links(connection: Connection, category: str, found: list[Found], urls: Submitted, now: datetime) -> None:
    """Keep the addresses of items, as they were given, as links of their category."""
    given = [item.url for item, _ in found if item.url in urls.known and explain_unstorable(item.url) is None]
    links = {uid_of(url): url for url in given}
    await canonical.note_links(connection, category, links, now)


async def rebuild_days(connection: Connection, source: Source, timezone: str, saved: list[SavedItem]) -> None:
    """Bring the index of the days that saved items belong to up to date."""
    days = daily_index.touched_days(saved, timezone)
    if days:
        await daily_index.rebuild(connection, source.id, days, timezone)


async def rebuild_read_day(connection: Connection, source: Source, timezone: str, day: date, read_at: datetime) -> None:
    """Build the index of a day that was read whole, and keep when that was."""
    await daily_index.rebuild(connection, source.id, [day], timezone)
    await daily.note_day_read(connection, source.id, day, read_at, bounds(day, timezone)[1])


def _changed(urls: Submitted, told: Iterable[tuple[str, datetime | None]]) -> dict[int, datetime]:
    """Return when pages that were known already have changed, by their ids, as far as that is told."""
    return {
        known.id: changed_at
        for url, changed_at in told
        if changed_at and (known := urls.known.get(url)) and not known.is_new
    }


async def _without_taken_places(
    connection: Connection, source: Source, found: list[Found]
) -> tuple[list[Found], dict[str, str]]:
    """Leave out items whose raw bytes would be in the way of another page's; return the rest, and why not those."""
    places = [subpath for _, subpath in found if subpath is not None]
    if not places:
        return found, {}
    taken = await frontier.taken_places(connection, source.id, places)
    keeps_slash = await hosts.slash_hosts(connection)
    refused: dict[str, str] = {}
    for item, subpath in found:
        for place, owner in taken.get(subpath or "", ()):
            if not _is_same(item.url, owner, keeps_slash):
                refused[item.url] = f"Its place for raw bytes, {subpath}, {_in_the_way(subpath or '', place, owner)}."
    return [one for one in found if one.item.url not in refused], refused


def _in_the_way(wanted: str, place: str, owner: str) -> str:
    """Say what another page's place is to the one that is wanted."""
    if place == wanted:
        return f"is that of {owner}"
    if wanted.startswith(f"{place}/"):
        return f"needs a folder where {place} of {owner} is"
    return f"is the folder of {place} of {owner}"


def _is_same(url: str, identity: str, keeps_slash: Container[str]) -> bool:
    try:
        return identify(url, keeps_slash=keeps_slash)[0] == identity
    except InvalidURL:
        return True  # which is refused for what it is


async def _note_sightings(
    connection: Connection, source: Source, origin: Origin, known: Collection[KnownUrl], weight: int, now: datetime
) -> None:
    """Keep that a source has seen what another one brought, and let it have what was given up with its source."""
    seen_before = [identity.id for identity in known if not identity.is_new]
    if seen_before:
        await frontier.adopt_urls(connection, seen_before, source.id, origin, weight, now)
        await frontier.note_sightings(connection, seen_before, source.id, origin, now)


def _item_id(source: Source, url: str) -> str:
    return hashlib.sha256(f"{source.name}:{url}".encode()).hexdigest()
