"""Save a discovery: items, their tags, the pages to fetch, the links of categories and the daily index."""

import hashlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import structlog

from headwater.core.clock import Clock
from headwater.core.dates import bounds, day_of
from headwater.core.errors import InvalidURL, LeaseLost
from headwater.core.frontier import Candidate, Origin
from headwater.core.json_values import JsonObject, check_state
from headwater.core.politeness import KeyOf
from headwater.core.poll import RequestedDelay
from headwater.core.run import RunCounters
from headwater.core.source import DiscoveredUrl, Item, Lookup, Source
from headwater.core.url_input import explain_unstorable
from headwater.core.urls import identify, uid_of
from headwater.db import canonical, frontier, hosts, items, sources
from headwater.db.items import SavedItem
from headwater.db.pool import Connection, Database, is_down
from headwater.db.runs import RunClaim
from headwater.db.sources import PollClaim
from headwater.documents.page_items import save_page_items
from headwater.frontier.submit import LOWEST, KnownUrl, Submitted, normalize_candidates, priority, submit
from headwater.handoff.handoffs import drop_volatile, queue_handoffs
from headwater.sources.kind import Kind, refuse_shared_paths
from headwater.sources.registry import category_of
from headwater.sources.visit import SiteVisit

log = structlog.get_logger()
# Some sites report every page as changed at every poll. A page is fetched again at most once in this time.
_MIN_ITEM_AGE = timedelta(hours=1)
_MIN_URL_AGE = timedelta(hours=24)
_NO_DATE = datetime.min.replace(tzinfo=UTC)
_NO_LOOKUP = Lookup()
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


class FoundItem(NamedTuple):
    """An item, and the path for the raw bytes of its page."""

    item: Item
    subpath: str | None


@dataclass(frozen=True, slots=True)
class SaveResult:
    """The counts of what was saved of a discovery."""

    items: int = 0
    new_items: int = 0
    new_urls: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    handoff_ids: tuple[int, ...] | None = None  # None: hand-offs are off

    def __add__(self, other: "SaveResult") -> "SaveResult":
        ids = (self.handoff_ids, other.handoff_ids)
        return SaveResult(
            self.items + other.items,
            self.new_items + other.new_items,
            self.new_urls + other.new_urls,
            {**self.refused, **other.refused},
            tuple(chain.from_iterable(filter(None, ids))) if ids != (None, None) else None,
        )


@dataclass(slots=True)
class DiscoveryResult:
    """The findings of a poll. Items are saved at its end. URLs without items are saved in batches meanwhile.

    If the kind is saved in parts, `items` holds what is not saved yet and `saved` counts what is.
    """

    claim: PollClaim
    kind: Kind
    run: RunClaim | None
    origin: Origin
    interval: timedelta | None  # the usual time between two polls; None: the source is polled only when asked
    state: JsonObject
    counters: RunCounters
    on_urls: Callable[[int], None]  # called with the number of URLs saved so far
    visit: SiteVisit | None = None  # the poll is a part of it
    items: list[FoundItem] = field(default_factory=list)
    pending_urls: list[DiscoveredUrl] = field(default_factory=list)
    url_count: int = 0
    new_urls: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    learned: JsonObject = field(default_factory=dict)
    requested_delay: RequestedDelay | None = None
    left: int = 0
    saved: SaveResult = field(default_factory=SaveResult)
    saved_state: JsonObject | None = None  # the state that was saved with the parts


@dataclass(frozen=True, slots=True)
class DiscoveryWriter:
    """Saves discoveries. Only the holder of the poll's lease can save."""

    database: Database
    clock: Clock
    timezone: str
    key_of: KeyOf

    async def save(self, connection: Connection, found: DiscoveryResult, *, is_complete: bool = True) -> SaveResult:
        """Save the items that are not saved yet. Must run inside a transaction.

        An incomplete discovery changes neither the links of its category nor the daily index.
        """
        source, run, now = found.claim.source, found.run, self.clock.now()
        if not await sources.lock_poll(connection, found.claim):
            raise LeaseLost(f"The poll of {source.name} took longer than its lease.")
        saved, urls, payloads = await self._save_items(connection, found, now)
        handoff_ids, touched = None, len(saved)
        if run:
            # A rerun of a dated source changes nothing, so its runs hand off only what they read.
            with_pages = not found.kind.dated
            handoff_ids = await queue_handoffs(connection, source.id, run.id, payloads, with_pages=with_pages)
            touched = max(touched, len(handoff_ids or ()))
        if is_complete:
            if category := category_of(source, found.kind):
                given = [item.url for item, _ in found.items if item.url in urls.known]
                links = {uid_of(url): url for url in given if explain_unstorable(url) is None}
                await canonical.note_links(connection, category, links, now)
            await self._rebuild_days(connection, found, saved)
        return SaveResult(touched, sum(item.is_new for item in saved), urls.new, urls.refused, handoff_ids)

    async def save_urls(self, found: DiscoveryResult) -> Submitted:
        """Submit the pending URLs at once: a poll that fails later has lost none of them.

        A known page that has changed is fetched again, after all new pages.
        """
        pending, found.pending_urls = found.pending_urls, []
        source, origin, now = found.claim.source, found.origin, self.clock.now()

        async def work(connection: Connection) -> Submitted:
            if not await sources.lock_poll(connection, found.claim):
                raise LeaseLost(f"The poll of {source.name} took longer than its lease.")
            base = found.kind.priority
            candidates = [
                Candidate(
                    one.url, source.id, origin, priority(base, origin, one.depth), one.depth, found_on=one.found_on
                )
                for one in pending
            ]
            urls = await submit(connection, candidates, now, self.key_of)
            if changes := _find_changes(urls, ((one.url, one.changed_at) for one in pending)):
                first_seen = await frontier.record_sightings(
                    connection, changes, source.id, origin, fetched_before=now - _MIN_URL_AGE, priority=LOWEST, now=now
                )
                await save_page_items(connection, first_seen, self.timezone, now)
            return urls

        return await self.database.transact(work)

    async def save_part(self, found: DiscoveryResult) -> None:
        """Save the items so far with the kind's state. The next poll continues from here if this process dies."""
        if not (found.kind.in_parts and found.items):
            return
        state = deepcopy(found.state)
        check_state(found.claim.source.name, state)
        refuse_shared_paths(found.claim.source.name, found.items)

        async def work(connection: Connection) -> SaveResult:
            part = await self.save(connection, found)
            await sources.save_state(connection, found.claim, state)
            return part

        found.saved += await self.database.transact(work)
        found.saved_state = state
        found.items.clear()

    async def save_partial(self, found: DiscoveryResult) -> None:
        """Save the last part of a discovery that failed, if its kind allows parts and the items can be saved."""
        try:
            await self.save_part(found)
        except Exception as error:
            if is_down(error) or isinstance(error, LeaseLost):
                raise
            _log_not_saved(found, error)

    async def save_partial_day(self, connection: Connection, found: DiscoveryResult) -> SaveResult:
        """Save the items of a day that was not read to its end, if they can be saved. Its daily index stays."""
        try:
            refuse_shared_paths(found.claim.source.name, found.items)
            async with connection.transaction():
                return await self.save(connection, found, is_complete=False)
        except LeaseLost:
            pass
        except Exception as error:
            if is_down(error):
                raise
            _log_not_saved(found, error)
        return SaveResult()

    async def _save_items(
        self, connection: Connection, found: DiscoveryResult, now: datetime
    ) -> tuple[list[SavedItem], Submitted, dict[str, Item]]:
        """Save each item once and submit its page. Return the saved items, the pages, and by id the items as listed.

        A saved item also has the tags of earlier sightings and the results of lookups. If the kind's pages are not
        fetched, their URLs are only normalized.
        """
        source, kind, origin = found.claim.source, found.kind, found.origin
        listed, taken = found.items, dict[str, str]()
        if any(subpath is not None for _, subpath in listed):
            listed, taken = await _drop_taken_places(connection, source, listed)
        weight = priority(kind.priority, origin)
        candidates = [Candidate(item.url, source.id, origin, weight, subpath=subpath) for item, subpath in listed]
        urls = (
            await submit(connection, candidates, now, self.key_of)
            if kind.fetch_items
            else normalize_candidates(candidates)
        )
        pages: dict[str, KnownUrl] = {}
        sightings: dict[str, list[Item]] = {}
        for item, _ in listed:
            if known := urls.known.get(item.url):
                item_id = hashlib.sha256(f"{source.name}:{known.url}".encode()).hexdigest()
                pages[item_id] = known
                sightings.setdefault(item_id, []).append(item)
        saved_tags = await items.lock_tags(connection, pages) if pages else {}
        payloads: dict[str, Item] = {}
        merged: dict[str, Item] = {}
        for item_id, seen in sightings.items():
            item, tags = merge_items(seen), saved_tags.get(item_id)
            if item.url != pages[item_id].url:
                item = replace(item, url=pages[item_id].url)
            payloads[item_id] = item
            lookup = item.lookup
            if lookup.published_at:
                item = replace(item, published_at=lookup.published_at, rule=lookup.rule, is_certain=True)
            if tags or lookup.tags:
                item = replace(item, tags=reduce(unite_tags, (tags or {}, item.tags, lookup.tags)))
            merged[item_id] = item
        changes = _find_changes(urls, ((item.url, item.updated_at) for item, _ in listed))
        url_ids = [page.id if kind.fetch_items else None for page in pages.values()]
        saved = await items.save_items(connection, source.id, merged, url_ids, now) if merged else []
        if kind.fetch_items and changes:
            await frontier.record_sightings(
                connection, changes, source.id, origin, fetched_before=now - _MIN_ITEM_AGE, priority=weight, now=now
            )
        return saved, replace(urls, refused={**urls.refused, **taken}), payloads

    async def _rebuild_days(self, connection: Connection, found: DiscoveryResult, saved: list[SavedItem]) -> None:
        """Rebuild the daily index of the days that have new dates of items.

        A run of a day rebuilds that day, and all days of its items that were read before: a run that failed may have
        saved their dates already.
        """
        source_id, run = found.claim.source.id, found.run
        timezone = found.kind.timezone or self.timezone
        read_day = run.day if run else None
        dated = (item for item in saved if read_day or item.dates_are_new)
        days = {day_of(moment, timezone) for item in dated for moment in (item.published_at, item.updated_at) if moment}
        if read_day:
            days = {read_day, *await items.find_days_read(connection, source_id, days)}
        if days:
            await items.rebuild_days(connection, source_id, {day: bounds(day, timezone) for day in sorted(days)})


def merge_items(seen: Sequence[Item]) -> Item:
    """Merge the sightings of one item in one run. Their order does not matter.

    The result is the sighting with the latest update and the tags of all. Between equal dates of update, the greater
    raw record wins.
    """
    by_age = sorted(seen, key=lambda item: (item.updated_at or _NO_DATE, _encode_sorted(drop_volatile(item.raw))))
    tags: Mapping[str, Any] = reduce(unite_tags, (item.tags for item in by_age), {})
    lookups = [item.lookup for item in by_age if item.lookup != _NO_LOOKUP]
    if lookups:
        latest = max(lookups, key=lambda lookup: lookup.published_at is not None)
        found_tags: Mapping[str, Any] = reduce(unite_tags, (lookup.tags for lookup in lookups), {})
        return replace(by_age[-1], tags=tags, lookup=replace(latest, tags=found_tags))
    return replace(by_age[-1], tags=tags)


def unite_tags(old: Mapping[str, Any], new: Mapping[str, Any]) -> JsonObject:
    """Unite tags: lists become sorted sets, mappings are united by key, and any other new value wins unless None."""
    united: JsonObject = {}
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        value = before if after is None else after
        if isinstance(value, list | tuple):
            values = [*(before if isinstance(before, list | tuple) else ()), *(after or ())]
            by_key = {(one if isinstance(one, str) else "", _encode_sorted(one)): one for one in values}
            value = [by_key[key] for key in sorted(by_key)]
        elif isinstance(value, Mapping):
            value = unite_tags(before if isinstance(before, Mapping) else {}, after or {})
        united[name] = value
    return united


def _find_changes(urls: Submitted, changes: Iterable[tuple[str, datetime | None]]) -> dict[int, datetime | None]:
    """Return the ids of the URLs that were known before, with the date of the last change if the source states it."""
    dates = {urls.known[url].id: moment for url, moment in changes if moment and url in urls.known}
    return {known.id: dates.get(known.id) for known in urls.known.values() if not known.is_new}


async def _drop_taken_places(
    connection: Connection, source: Source, listed: list[FoundItem]
) -> tuple[list[FoundItem], dict[str, str]]:
    """Drop items whose path for raw bytes conflicts with another page. Return the rest, and the reasons by URL."""
    taken = await frontier.find_path_conflicts(connection, source.id, [path for _, path in listed if path is not None])
    keeps_slash = await hosts.list_slash_hosts(connection)
    refused: dict[str, str] = {}
    for item, subpath in listed:
        for place, owner in taken.get(subpath or "", ()):
            if not _is_same(item.url, owner, keeps_slash):
                conflict = _explain_conflict(subpath or "", place, owner)
                refused[item.url] = f"Its path for raw bytes, {subpath}, {conflict}."
    return [one for one in listed if one.item.url not in refused], refused


def _explain_conflict(wanted: str, place: str, owner: str) -> str:
    if place == wanted:
        return f"belongs to {owner}"
    if wanted.startswith(f"{place}/"):
        return f"needs a folder at {place}, the file of {owner}"
    return f"is the folder of {place}, the file of {owner}"


def _is_same(url: str, identity: str, keeps_slash: Container[str]) -> bool:
    try:
        return identify(url, keeps_slash=keeps_slash)[0] == identity
    except InvalidURL:
        return True  # the submit refuses it with the right reason


def _log_not_saved(found: DiscoveryResult, error: Exception) -> None:
    name = found.claim.source.name
    log.warning("part.not_saved", source=name, items=len(found.items), error=f"{type(error).__name__}: {error}")
