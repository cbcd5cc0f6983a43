"""GOV.UK by days (spec 6): the pages published on a day, and the older pages updated on it.

A search result is accepted only if all counts agree. The search cannot page through a stable order, so a window of time
that does not fit one answer is halved until it fits.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from itertools import islice
from typing import Any, ClassVar, Literal, NamedTuple
from urllib.parse import urlencode, urljoin, urlsplit

import msgspec

from headwater.core.dates import bounds
from headwater.core.errors import ExchangeFailed, HeadwaterError, InvalidURL, Unreadable
from headwater.core.json_values import clean_json
from headwater.core.reasons import Reason
from headwater.core.source import Item, Lookup, Retry, Timeout, Undated
from headwater.core.urls import host_of, normalize_url
from headwater.sources.kind import Kind
from headwater.sources.kinds.records import (
    READINGS,
    IncompleteList,
    Record,
    get_record,
    read_object,
    read_objects,
    read_text,
)
from headwater.sources.run import Run

MAX_RESULTS = 1500  # in one answer
MAX_COUNT = 10_000  # the search may stop counting here
MAX_RECORDS = 100_000  # of a day; GOV.UK publishes far less
_SECOND = timedelta(seconds=1)
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_FIELDS = (
    "title",
    "link",
    "description",
    "public_timestamp",
    "content_id",
    "format",
    "content_store_document_type",
    "organisations",
    "taxons",
    "latest_change_note",
)
_MAX_RATE = 10
# The state keeps this many results of lookups, those of the last run first.
_MAX_TAXONS = 4000
_MAX_DATES = 8000
_MAX_ID_LENGTH = 40
_MAX_NAME_LENGTH = 100
_AROUND = timedelta(days=7)  # an empty day is believed if these days around it are not empty


class GovukKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The search and Content APIs of GOV.UK, read for a day in London."""

    dated: ClassVar[bool] = True
    first_day: ClassVar[date] = date(2012, 1, 1)

    schedule: str | None = "0 2 * * *"
    timezone: str | None = "Europe/London"
    timeout: Timeout = Timeout(connect=10.0, read=30.0, total=30.0)
    rate_per_second: float = 10.0  # the limit of the Content API
    retry: Retry = Retry(attempts=4, on_rate_limit=True, longest_seconds=900.0)
    site_url: str = "https://www.gov.uk"
    # When to look up the date of first publication, which the search does not return. "auto" looks up the pages whose
    # day or time is unknown after the search.
    content_lookups: Literal["auto", "always", "never"] = "always"

    @property
    def api_hosts(self) -> frozenset[str]:
        """The APIs, without the pages."""
        return frozenset({f"{host_of(self.site_url)}/api/"})

    def check(self) -> None:
        """Refuse settings that cannot work, with a ValueError that names the field."""
        try:
            address = urlsplit(normalize_url(self.site_url))
        except InvalidURL as error:
            raise ValueError(f"site_url: {str(error).rstrip('.')}") from None
        if address.path not in ("", "/") or address.query:
            raise ValueError("site_url: must be an address without a path, such as https://www.gov.uk")
        super().check()
        if host_of(self.site_url) == "www.gov.uk" and self.rate_per_second > _MAX_RATE:
            raise ValueError(f"rate_per_second: GOV.UK allows {_MAX_RATE}")

    async def discover(self, run: Run) -> AsyncIterator[Item]:
        """Yield the items of the day. If a request fails, yield what is known so far first."""
        assert run.day is not None, "a dated kind is given a day"
        assert self.timezone is not None
        day = _Day(run, self.site_url.rstrip("/"), *bounds(run.day, self.timezone))
        try:
            await day.search()
            await day.look_up(self.content_lookups)
        except (Exception, asyncio.CancelledError):  # the deadline cancels
            # An item without a looked-up date belongs to no day yet.
            for (link, _), record in sorted(day.seen.items()):
                yield day.make_item(link, record, {"undated": Undated.UNKNOWN})
            raise
        for item in day.make_items():
            yield item
        day.save_lookups()


_Key = tuple[str, bytes]  # the link of a record and a hash of the record: a link may have several records
_Found = dict[_Key, Record]


def _links(found: Collection[_Key]) -> set[str]:
    return {link for link, _ in found}


@dataclass(slots=True)
class _Day:
    """The records of a day from `start` to before `end`."""

    run: Run
    site: str
    start: datetime
    end: datetime
    updated: _Found = field(default_factory=dict)  # last updated on the day, by the search
    published: _Found = field(default_factory=dict)  # first published on the day, by the search
    seen: _Found = field(default_factory=dict)
    dates: dict[str, datetime] = field(default_factory=dict)  # of first publication by the Content API, by link
    names: dict[str, str] = field(default_factory=dict)  # of the taxons of this day's pages, by id

    async def search(self) -> None:
        """Search by both dates. The search filters by each, but returns only the date of the last update."""
        search = GovukSearch(self.run, f"{self.site}/api/", self.seen)
        self.run.counters.stage = "searching"
        # A window ends at a whole second. With the end itself, it contains the fractions of the day's last second.
        for key, record in (await search.read("public_timestamp", self.start, self.end)).items():
            updated_at = parse_moment(record.get("public_timestamp"))
            if updated_at is None or updated_at < self.end:
                self.updated[key] = record
        self.published = await search.read("first_published_at", self.start, self.end - _SECOND)

    async def look_up(self, mode: str) -> None:
        """Look up the dates and the names of taxons that no earlier run has looked up.

        In mode "auto", only the pages that were found by one date need a date. The first page that cannot be read ends
        the lookups.
        """
        self._recall_lookups()
        if mode == "never":
            return
        updated, published = _links(self.updated), _links(self.published)
        dated = self.dates.keys() | (updated & published if mode == "auto" else set[str]())
        pages = {link for link in updated | published if link.startswith("/")}
        looked_up = pages - dated
        await self._look_up_all(looked_up)
        # A page names all its taxons, so one page is enough for each name.
        unknown = {
            taxon: link
            for (link, _), record in sorted((self.updated | self.published).items())
            for taxon in _taxon_ids(record) - self.names.keys()
            if link in pages
        }
        await self._look_up_all(set(unknown.values()) - looked_up)

    def _recall_lookups(self) -> None:
        """Use the lookups of earlier runs, except dates that the search does not agree with."""
        found, published = self.updated | self.published, _links(self.published)
        taxons = {taxon for record in found.values() for taxon in _taxon_ids(record)}
        self.names = {taxon: name for taxon, name in self.run.state.get("taxons", {}).items() if taxon in taxons}
        saved = self.run.state.get("dates", {})
        for (link, _), record in found.items():
            date = parse_moment(saved.get(_lookup_key(link, record)))
            if date and (self.start <= date < self.end) == (link in published):
                self.dates[link] = date

    def save_lookups(self) -> None:
        """Save the lookups of this day in the state, and as many earlier ones as fit."""
        dates = {
            key: self.dates[link].isoformat()
            for (link, _), record in (self.updated | self.published).items()
            if link in self.dates and (key := _lookup_key(link, record))
        }
        state = self.run.state
        for name, ours, limit in (("dates", dates, _MAX_DATES), ("taxons", self.names, _MAX_TAXONS)):
            state[name] = dict(islice((ours | {**state.get(name, {}), **ours}).items(), limit))

    async def _look_up_all(self, links: Collection[str]) -> None:
        counters = self.run.counters
        counters.stage, counters.done, counters.of = "looking up", 0, len(links)
        # A TaskGroup that is cancelled while a task fails would raise only the failure.
        tasks = [asyncio.create_task(self._look_up(link)) for link in sorted(links)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_up(self, link: str) -> None:
        """Look a page up: its date, and the names of its taxons. The search returns only the ids of taxons."""
        for reading in range(READINGS):
            if reading:
                await self.run.http.rest(reading)
            try:
                body = await (await self.run.http.get(f"{self.site}/api/content{link}")).json()
            except ExchangeFailed as error:
                if error.reason not in (Reason.NOT_FOUND, Reason.GONE):
                    raise
                break  # the Content API does not have all pages of the search
            except Unreadable:
                continue
            if not isinstance(body, dict) or "base_path" not in body:
                continue
            if (date := parse_moment(body.get("first_published_at"))) and date <= self.run.now:
                self.dates[link] = date
            for taxon in read_objects(read_object(body, "links"), "taxons"):
                taxon_id, name = read_text(taxon, "content_id"), read_text(taxon, "title")
                if name and 0 < len(taxon_id) <= _MAX_ID_LENGTH:
                    self.names[taxon_id] = name[:_MAX_NAME_LENGTH]
            break
        else:
            message = f"The Content API answers for {link} with something else than a content item."
            raise HeadwaterError(message, reason=Reason.INCOMPLETE)
        self.run.counters.done += 1

    def make_items(self) -> Iterator[Item]:
        """Yield the item of each record, with its dates and the rule that found them."""
        published = _links(self.published)
        for (link, _), record in sorted((self.updated | self.published).items()):
            dates: dict[str, Any] = {"undated": Undated.EARLIER, "rule": "updated_window", "is_certain": False}
            if link in published:
                # The time of publication is unknown. It is probably that of the last update, if that is on the day.
                updated_at = parse_moment(record.get("public_timestamp"))
                moment = updated_at if updated_at and self.start <= updated_at < self.end else self.start
                dates = {"published_at": moment, "rule": "published_window", "is_certain": False}
            yield self.make_item(link, record, dates)

    def make_item(self, link: str, record: Record, dates: Mapping[str, Any]) -> Item:
        """Return the item of a record with `dates` by the search, and with what was looked up."""
        taxon_ids = _taxon_ids(record)
        published_at = self.dates.get(link)
        organisations = (
            read_text(one, "title") or read_text(one, "slug") for one in read_objects(record, "organisations")
        )
        native_ids = {"content_id": record.get("content_id"), "taxons": sorted(taxon_ids)}
        document_type = (record.get("content_store_document_type"), record.get("format"))
        return Item(
            url=urljoin(f"{self.site}/", link),
            title=read_text(record, "title") or link,
            updated_at=parse_moment(record.get("public_timestamp")),
            tags={
                "topic": [],
                "organisations": sorted(filter(None, set(organisations))),
                "document_type": next((one for one in document_type if one and isinstance(one, str)), None),
                "native_ids": {
                    name: value for name, value in native_ids.items() if value and isinstance(value, str | list)
                },
            },
            raw={"search": record},
            lookup=Lookup(
                published_at,
                "content_api" if published_at else None,
                {"topic": sorted({self.names[taxon] for taxon in taxon_ids if taxon in self.names})},
            ),
            **dates,
        )


def _taxon_ids(record: Record) -> set[str]:
    taxons = record.get("taxons")
    return {taxon for taxon in taxons if isinstance(taxon, str)} if isinstance(taxons, list) else set()


def _lookup_key(link: str, record: Record) -> str:
    """Return the key of a page's date in the state. Translations of a page share its content_id, but not its link."""
    content_id = record.get("content_id")
    return sha256(f"{content_id} {link}".encode()).hexdigest()[:16] if isinstance(content_id, str) else ""


class _Answer(NamedTuple):
    total: int
    is_exact: bool  # False: there may be more than `total`
    records: list[Record]


class _Window(NamedTuple):
    counts: Counter[_Key]  # a link that is listed twice counts twice
    records: _Found


@dataclass(slots=True)
class GovukSearch:
    """Requests to the search API for a run. They update the run's counters."""

    run: Run
    api_url: str
    seen: _Found = field(default_factory=dict)  # all records so far, also of readings that failed

    async def read(self, name: str, since: datetime, until: datetime) -> _Found:
        """Return all records whose field `name` lies in a window of whole seconds, with both ends.

        Raises HeadwaterError with the reason INCOMPLETE if the counts of the last reading do not agree either, or if
        the days around an empty window are empty too.
        """
        counters = self.run.counters
        before = counters.fetched, counters.total or 0
        for reading in range(1, READINGS + 1):
            counters.fetched, counters.total = before
            try:
                found = await self._read_window(name, since, until)
                # Count again: a cluster in trouble may have returned and counted less than it has.
                total, is_exact, _ = await self._request(name, since, until, 0)
                size, is_last = found.counts.total(), reading == READINGS
                if size != total if is_exact else size < total:
                    raise IncompleteList(f"{size} results came, and then there were {total}, {since} to {until}.")
                if size or (is_last and (await self._request(name, since - _AROUND, until + _AROUND, 0)).total):
                    counters.fetched, counters.total = before[0] + size, before[1] + size
                    return found.records
                why = "it is empty, and so are the days around it." if is_last else ""
            except IncompleteList as error:
                why = str(error)
            if reading < READINGS:
                await self.run.http.rest(reading)
        raise HeadwaterError(f"The search by {name} does not add up: {why}", reason=Reason.INCOMPLETE)

    async def _read_window(self, name: str, since: datetime, until: datetime, *, is_part: bool = False) -> _Window:
        total, is_exact, records = await self._request(name, since, until, MAX_RESULTS)
        counters = self.run.counters
        if not is_part:
            counters.total = (counters.total or 0) + total
        if is_exact and total <= MAX_RESULTS:
            if len(records) != total:
                raise IncompleteList(f"{len(records)} of {total} results came from {since} to {until}.")
            for record in records if name == "public_timestamp" else ():
                moment = parse_moment(record.get("public_timestamp"))
                if moment is None or not since <= moment < until + _SECOND:
                    raise IncompleteList(f"{record['link']} has a time that is not between {since} and {until}.")
            counters.fetched += len(records)
            return _Window(Counter(map(_key_of, records)), {_key_of(record): record for record in records})
        if until - since < 2 * _SECOND:
            raise IncompleteList(f"there are {total} or more at {since}, and one answer holds {MAX_RESULTS}.")
        # Both halves contain the second between them, so that no fraction of it is lost.
        middle = since + (until - since) // (2 * _SECOND) * _SECOND
        first = await self._read_window(name, since, middle, is_part=True)
        second = await self._read_window(name, middle, until, is_part=True)
        counts = first.counts | second.counts
        if is_exact and counts.total() != total:
            raise IncompleteList(f"{counts.total()} of {total} results came in parts from {since} to {until}.")
        return _Window(counts, first.records | second.records)

    async def _request(self, name: str, since: datetime, until: datetime, count: int) -> _Answer:
        query = {
            f"filter_{name}": f"from:{since:%Y-%m-%dT%H:%M:%SZ},to:{until:%Y-%m-%dT%H:%M:%SZ}",
            "order": "public_timestamp",
            "count": count,
            "start": 0,
            "fields": ",".join(_FIELDS),
        }
        body = await get_record(self.run, f"{self.api_url}search.json?{urlencode(query)}")
        results = body.get("results")
        if not isinstance(results, list):
            raise IncompleteList("the answer holds no results.")
        if not all(isinstance(record, dict) and isinstance(record.get("link"), str) for record in results):
            raise IncompleteList("a result has no link.")
        stated = body.get("total")
        total, relation = (stated.get("value"), stated.get("relation")) if isinstance(stated, dict) else (stated, "eq")
        if not isinstance(total, int) or isinstance(total, bool) or total < 0:
            raise IncompleteList("the answer does not say how many there are.")
        records = [clean_json(record) for record in results]
        self.seen |= {_key_of(record): record for record in records}
        if len(self.seen) > MAX_RECORDS:
            message = f"The search has answered with more than {MAX_RECORDS:,} pages for a day."
            raise HeadwaterError(message, reason=Reason.INCOMPLETE)
        return _Answer(total, relation == "eq" and total < MAX_COUNT, records)


def _key_of(record: Record) -> _Key:
    """Return the key of a record. Fields that were not requested, such as a score, may differ between two answers."""
    return record["link"], sha256(_encode_sorted([record.get(name) for name in _FIELDS])).digest()


def parse_moment(text: Any) -> datetime | None:
    """Return a time in UTC. A time without an offset is in UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None
