"""GOV.UK by days (spec 6): the pages published on a day, and the older pages updated on it."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, ClassVar, Literal
from urllib.parse import urljoin, urlsplit

from headwater.core.dates import bounds
from headwater.core.errors import ExchangeFailed, HeadwaterError, InvalidURL, Unreadable
from headwater.core.json_values import clean_json
from headwater.core.reasons import Reason
from headwater.core.source import Item, Retry, Timeout, Undated
from headwater.core.urls import host_of, normalize_url
from headwater.sources.kind import Kind
from headwater.sources.kinds.govuk_search import GovukSearch, parse_moment
from headwater.sources.kinds.records import READINGS, Record, read_object, read_objects, read_text
from headwater.sources.run import Run

_SECOND = timedelta(seconds=1)
_MAX_RATE = 10
_MAX_TAXONS = 4000  # names in the state
_MAX_NAME_LENGTH = 100
_CONTENT_FIELDS = ("content_id", "document_type", "first_published_at", "public_updated_at")


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
    content_lookups: Literal["auto", "always", "never"] = "auto"

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
            for link, record in sorted(day.seen.items()):
                yield day.make_item(link, record, {"undated": Undated.UNKNOWN})
            raise
        for item in day.make_items():
            yield item


@dataclass(slots=True)
class _Day:
    """The records of a day from `start` to before `end`, by link."""

    run: Run
    site: str
    start: datetime
    end: datetime
    updated: dict[str, Record] = field(default_factory=dict)  # last updated on the day, by the search
    published: dict[str, Record] = field(default_factory=dict)  # first published on the day, by the search
    contents: dict[str, Record] = field(default_factory=dict)  # looked up in the Content API
    seen: dict[str, Record] = field(default_factory=dict)

    async def search(self) -> None:
        """Search by both dates. The search filters by each, but returns only the date of the last update."""
        search = GovukSearch(self.run, f"{self.site}/api/", self.seen)
        self.run.counters.stage = "searching"
        # A window ends at a whole second. With the end itself, it contains the fractions of the day's last second.
        for link, record in (await search.read("public_timestamp", self.start, self.end)).items():
            updated_at = parse_moment(record.get("public_timestamp"))
            if updated_at is None or updated_at < self.end:
                self.updated[link] = record
        self.published = await search.read("first_published_at", self.start, self.end - _SECOND)

    async def look_up(self, mode: str) -> None:
        """Look pages up in the Content API: all, or in mode "auto" the pages that were found by only one date.

        The first page that cannot be read ends it.
        """
        if mode == "never":
            return
        both = self.updated.keys() & self.published.keys() if mode == "auto" else set[str]()
        pages = (self.updated.keys() | self.published.keys()) - both
        links = sorted(link for link in pages if link.startswith("/"))
        counters = self.run.counters
        counters.stage, counters.done, counters.of = "looking up", 0, len(links)
        # A TaskGroup that is cancelled while a task fails would raise only the failure.
        tasks = [asyncio.create_task(self._look_up(link)) for link in links]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_up(self, link: str) -> None:
        """Look a page up, and remember the names of its taxons: the search returns only their ids."""
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
            self.contents[link] = clean_json({name: body.get(name) for name in _CONTENT_FIELDS})
            names = self.run.state.setdefault("taxons", {})
            for taxon in read_objects(read_object(body, "links"), "taxons"):
                taxon_id, name = read_text(taxon, "content_id"), read_text(taxon, "title")
                if taxon_id and name and len(names) < _MAX_TAXONS:
                    names[taxon_id[:_MAX_NAME_LENGTH]] = name[:_MAX_NAME_LENGTH]
            break
        else:
            message = f"The Content API answers for {link} with something else than a content item."
            raise HeadwaterError(message, reason=Reason.INCOMPLETE)
        self.run.counters.done += 1

    def make_items(self) -> Iterator[Item]:
        """Yield each page once, with its dates and the rule that found them."""
        for link in sorted(self.updated.keys() | self.published.keys()):
            record = self.updated.get(link) or self.published[link]
            dates: dict[str, Any] = {"undated": Undated.EARLIER, "rule": "updated_window", "is_certain": False}
            if link in self.published:
                # The time of publication is unknown. It is probably that of the last update, if that is on the day.
                updated_at = parse_moment(record.get("public_timestamp"))
                moment = updated_at if updated_at and self.start <= updated_at < self.end else self.start
                dates = {"published_at": moment, "rule": "published_window", "is_certain": False}
            yield self.make_item(link, record, dates)

    def make_item(self, link: str, record: Record, dates: Mapping[str, Any]) -> Item:
        """Return the item of a record, with the date of the Content API if it was looked up, or else `dates`."""
        content = self.contents.get(link)
        if content and (published_at := parse_moment(content.get("first_published_at"))):
            dates = {"published_at": published_at, "rule": "content_api"}
        names = self.run.state.get("taxons", {})
        taxons = record.get("taxons")
        taxon_ids = {taxon for taxon in taxons if isinstance(taxon, str)} if isinstance(taxons, list) else set()
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
                "topic": sorted({names[taxon] for taxon in taxon_ids if taxon in names}),
                "organisations": sorted(filter(None, set(organisations))),
                "document_type": next((one for one in document_type if one and isinstance(one, str)), None),
                "native_ids": {
                    name: value for name, value in native_ids.items() if value and isinstance(value, str | list)
                },
            },
            raw={"search": record, "content": content},
            **dates,
        )
