"""GOV.UK, a day at a time (spec 6): what was published on it, and what was updated on it and is older."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, ClassVar, Literal
from urllib.parse import urljoin, urlsplit

from headwater.core.dates import bounds
from headwater.core.errors import ExchangeFailed, HeadwaterError, InvalidURL, Unreadable
from headwater.core.json_values import clean_json
from headwater.core.reasons import Reason
from headwater.core.source import Item, Retry, Timeout, Undated
from headwater.core.text import one_line
from headwater.core.urls import host_of, normalize_url
from headwater.sources.kind import Kind
from headwater.sources.kinds.govuk_search import READINGS, Record, Search, moment_of
from headwater.sources.run import Run

_SECOND = timedelta(seconds=1)
_MOST_A_SECOND = 10
_MOST_TAXONS = 4000  # whose names are remembered
_LONGEST_NAME = 100


class GovukKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """GOV.UK's search and Content APIs, read for a day of London."""

    dated: ClassVar[bool] = True
    first_day: ClassVar[date] = date(2012, 1, 1)

    schedule: str | None = "0 2 * * *"
    timezone: str | None = "Europe/London"
    timeout: Timeout = Timeout(connect=10.0, read=30.0, total=30.0)
    rate_per_second: float = 10.0  # as much as the Content API allows
    retry: Retry = Retry(attempts=4, on_rate_limit=True, longest_seconds=900.0)
    site_url: str = "https://www.gov.uk"
    # Whether the Content API is asked when a page was first published, which the search does not say: where the search
    # leaves open whether it was that day or at what time, for every page, or not at all.
    content_lookups: Literal["auto", "always", "never"] = "auto"

    @property
    def api_hosts(self) -> frozenset[str]:
        """Its APIs, but not its pages."""
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
        if host_of(self.site_url) == "www.gov.uk" and self.rate_per_second > _MOST_A_SECOND:
            raise ValueError(f"rate_per_second: GOV.UK allows {_MOST_A_SECOND}")

    async def discover(self, run: Run) -> AsyncIterator[Item]:
        """Yield the items of the day; whatever fails, those that are known are yielded first."""
        assert run.day is not None, "a dated kind is given a day"
        assert self.timezone is not None
        reading = _Day(run, self.site_url.rstrip("/"), *bounds(run.day, self.timezone))
        try:
            await reading.search()
            await reading.look_up(reading.open_links(self.content_lookups))
        except (Exception, asyncio.CancelledError):  # the deadline cancels
            for item in reading.part():
                yield item
            raise
        for item in reading.items():
            yield item


@dataclass(frozen=True, slots=True)
class _Content:
    """What the Content API says of a page."""

    first_published_at: datetime | None
    raw: Mapping[str, Any]


@dataclass(slots=True)
class _Day:
    """What is known of a day, from its start to before its end."""

    run: Run
    site: str
    start: datetime
    end: datetime
    updated: dict[str, Record] = field(default_factory=dict)  # by link: last updated in the day, says the search
    published: dict[str, Record] = field(default_factory=dict)  # first published in it
    contents: dict[str, _Content] = field(default_factory=dict)
    seen: dict[str, Record] = field(default_factory=dict)

    async def search(self) -> None:
        """Read both windows: the search filters by the two dates, but tells only the later one."""
        search = Search(self.run, f"{self.site}/api/")
        self.seen = search.seen
        self.run.counters.stage = "searching"
        # With the end itself, and then without what is at it, or the fractions of the last second would be in no day.
        updated = await search.read("public_timestamp", self.start, self.end)
        self.updated = {link: record for link, record in updated.items() if not self._is_later(record)}
        self.published = await search.read("first_published_at", self.start, self.end - _SECOND)

    def _is_later(self, record: Record) -> bool:
        updated_at = moment_of(record.get("public_timestamp"))
        return updated_at is not None and updated_at >= self.end

    def open_links(self, mode: str) -> list[str]:
        """Return the links of pages that are to be looked up: by default those that are in one window only."""
        if mode == "never":
            return []
        links = self.updated.keys() | self.published.keys()
        if mode == "auto":
            links -= self.updated.keys() & self.published.keys()
        return sorted(link for link in links if link.startswith("/"))

    async def look_up(self, links: Collection[str]) -> None:
        """Ask the Content API for pages, a few at a time; the first that cannot be read ends it."""
        counters = self.run.counters
        counters.stage, counters.done, counters.of = "looking up", 0, len(links)
        # No TaskGroup: of one that was stopped while a task failed, only the failure is left.
        asking = [asyncio.create_task(self._look_up(link)) for link in links]
        try:
            await asyncio.gather(*asking)
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def _look_up(self, link: str) -> None:
        body = await self._ask_content(link)
        if body is not None:
            self.contents[link] = _content(body)
            self._learn_names(body)
        self.run.counters.done += 1

    async def _ask_content(self, link: str) -> Mapping[str, Any] | None:
        """Return what the Content API says of a page, None where it does not know it; garbage is asked for again."""
        for reading in range(READINGS):
            if reading:
                await self.run.http.rest(reading)
            try:
                body = await (await self.run.http.get(f"{self.site}/api/content{link}")).json()
            except ExchangeFailed as error:
                if error.reason not in (Reason.NOT_FOUND, Reason.GONE):
                    raise
                return None  # not every page that is found is in the Content API
            except Unreadable:
                continue
            if "base_path" in _dict(body):
                return _dict(body)
        message = f"The Content API answers for {link} with what is no content item."
        raise HeadwaterError(message, reason=Reason.INCOMPLETE)

    def _learn_names(self, body: Mapping[str, Any]) -> None:
        """Remember what taxons are called: the search knows them by number only."""
        names = self.run.state.setdefault("taxons", {})
        for taxon in _dicts(_dict(body.get("links")).get("taxons")):
            taxon_id, name = one_line(_text(taxon.get("content_id"))), one_line(_text(taxon.get("title")))
            if taxon_id and name and len(names) < _MOST_TAXONS:
                names[taxon_id[:_LONGEST_NAME]] = name[:_LONGEST_NAME]

    def items(self) -> Iterator[Item]:
        """Yield each page once, with its dates and the rule that they are known by."""
        for link in sorted(self.updated.keys() | self.published.keys()):
            record = self.updated.get(link) or self.published[link]
            yield self._item(link, record, **self._dates(link, moment_of(record.get("public_timestamp"))))

    def part(self) -> Iterator[Item]:
        """Yield what has been seen so far; what nobody has looked up belongs to no day yet."""
        for link, record in sorted(self.seen.items()):
            known = self._known(link)
            yield self._item(link, record, **(known or {"undated": Undated.UNKNOWN}))

    def _dates(self, link: str, updated_at: datetime | None) -> dict[str, Any]:
        if known := self._known(link):
            return known
        if link not in self.published:
            return {"undated": Undated.EARLIER, "rule": "updated_window", "is_certain": False}
        # On that day, at a time that nobody says: if that of its last update is in the day, it is hardly another.
        moment = updated_at if updated_at and self.start <= updated_at < self.end else self.start
        return {"published_at": moment, "rule": "published_window", "is_certain": False}

    def _known(self, link: str) -> dict[str, Any] | None:
        content = self.contents.get(link)
        if content is None or content.first_published_at is None:
            return None
        return {"published_at": content.first_published_at, "rule": "content_api"}

    def _item(self, link: str, record: Record, **dates: Any) -> Item:
        content = self.contents.get(link)
        return Item(
            url=urljoin(f"{self.site}/", link),
            title=one_line(_text(record.get("title"))) or link,
            updated_at=moment_of(record.get("public_timestamp")),
            tags=self._tags(record),
            raw={"search": record, "content": content.raw if content else None},
            **dates,
        )

    def _tags(self, record: Record) -> dict[str, Any]:
        """Return tags; `topic` has the names of taxons as far as they are known, `native_ids` the ids of all."""
        names = self.run.state.get("taxons", {})
        taxons = {taxon for taxon in _list(record.get("taxons")) if isinstance(taxon, str)}
        organisations = (
            one_line(_text(one.get("title")) or _text(one.get("slug"))) for one in _dicts(record.get("organisations"))
        )
        native_ids = {"content_id": _text(record.get("content_id")), "taxons": sorted(taxons)}
        return {
            "topic": sorted({names[taxon] for taxon in taxons if taxon in names}),
            "organisations": sorted(filter(None, set(organisations))),
            "document_type": _text(record.get("content_store_document_type")) or _text(record.get("format")) or None,
            "native_ids": {name: value for name, value in native_ids.items() if value},
        }


def _content(body: Mapping[str, Any]) -> _Content:
    kept = ("content_id", "document_type", "first_published_at", "public_updated_at")
    return _Content(moment_of(body.get("first_published_at")), clean_json({name: body.get(name) for name in kept}))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in _list(value) if isinstance(one, dict)]
