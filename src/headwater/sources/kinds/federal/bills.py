"""Bills: their list from the sitemaps of BILLSTATUS, and their titles, dates and actions from its files.

`run.state` holds `known` (the numbers of the bills that were yielded, as the bits of a number for each type of bill of
a Congress), `sitemaps` (the dates of change of the sitemaps that were read completely) and `oldest` (the first Congress
to read).
"""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, NamedTuple

from headwater.core.dates import day_of
from headwater.core.errors import HeadwaterError, NotNow, OperatorError, Unreadable
from headwater.core.reasons import Reason
from headwater.core.source import DiscoveredUrl, FetchProfile, Intervals, Item, Method, Undated
from headwater.core.urls import host_of
from headwater.feeds.results import SitemapRef
from headwater.feeds.sitemap_selection import SitemapReading
from headwater.sources.kinds.federal.congress import CongressApi, CongressKind, congress_on, refuse_future
from headwater.sources.kinds.records import US_CAPITAL, Record, check_url, read_midnight, read_object, read_text
from headwater.sources.run import Problems, Run

FIRST_CONGRESS = 108  # the first one with BILLSTATUS
_MINUTES = 240  # govinfo writes the files of the current Congress every four hours
_BILL = re.compile(r"/BILLSTATUS-(\d{1,3})([a-z]{1,8})(\d{1,5})\.xml$")
_SERIES = re.compile(r"/(\d{1,3})[a-z]{1,8}/sitemap[^/]*\.xml$")
_FAILURES_THAT_END_LOOKUPS = 5  # in a row
_NO_CONGRESS_YET = 1000
_SETTLED = timedelta(hours=25)
_ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)


class Bill(NamedTuple):
    """A bill and the URL of its status."""

    url: str
    congress: int
    type: str
    number: int
    changed_at: datetime | None


class BillsKind(CongressKind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bills and resolutions of the current Congress, and of earlier ones on request.

    Sitemaps and files need no key. The file of a bill gives its title, its date of introduction, and the day of its
    last action. With `lookups_per_run`, title and date of introduction come from api.congress.gov, with the key. The
    next run follows at once if lookups are left.
    """

    in_parts: ClassVar[bool] = True

    sitemap_url: str = "https://www.govinfo.gov/sitemap/bulkdata/BILLSTATUS/sitemapindex.xml"
    congresses: tuple[int, ...] = ()
    # For a list without files (`fetch_items` false). With 1000, a run ends before the next files appear.
    lookups_per_run: int = 0

    def fetch_profile(self, source: str) -> FetchProfile:
        """Return how requests are made. Without lookups there is no budget: no request needs the key."""
        return replace(super().fetch_profile(source), budget=self.budget if self.lookups_per_run else None)

    def methods(self, interval: timedelta) -> Intervals:
        """Return the sitemap method, which can read back (`headwater source backfill`)."""
        del interval
        return {Method.SITEMAP: timedelta(minutes=self.poll_interval_minutes or _MINUTES)}

    def check(self) -> None:
        """Refuse settings that cannot work, with a ValueError that names the field."""
        check_url("sitemap_url", self.sitemap_url)
        if self.schedule is not None:
            raise ValueError("schedule: bills are read by interval; set poll_interval_minutes")
        if any(congress < FIRST_CONGRESS for congress in self.congresses):
            raise ValueError(f"congresses: BILLSTATUS starts with the {FIRST_CONGRESS}th Congress")
        if not 0 <= self.lookups_per_run <= 100_000:
            raise ValueError("lookups_per_run: must be from 0 to 100000")
        super().check()

    async def discover(self, run: Run) -> AsyncIterator[Item | DiscoveredUrl]:
        """Yield new bills as items, and known bills as URLs, which are fetched again if they have changed."""
        reading = _Reading(self, run)
        for sitemap in await reading.sitemaps():
            async for found in reading.bills(sitemap):
                yield found
        reading.finish()

    def partition(self, item: Item) -> str:
        """Return `billstatus/{congress}/{type}/BILLSTATUS-{congress}{type}{number}.xml`."""
        ids = item.tags["native_ids"]
        congress, kind = ids["congress"], ids["type"]
        return f"billstatus/{congress}/{kind}/BILLSTATUS-{congress}{kind}{ids['number']}.xml"

    def wanted(self, run: Run) -> set[int]:
        """Return the Congresses to read. A Congress that was read once is read from then on."""
        zone = self.timezone or US_CAPITAL
        now = congress_on(day_of(run.now, zone))
        refuse_future(self.congresses, now)
        since = congress_on(day_of(run.since, zone)) if run.since else now
        run.state["oldest"] = oldest = max(FIRST_CONGRESS, min(run.state.get("oldest", now), since))
        return {*self.congresses, *range(oldest, now + 1)}

    def item(self, bill: Bill, record: Record) -> Item:
        """Return the item of a bill and its record."""
        return Item(
            url=bill.url,
            title=read_text(record, "title") or f"{bill.type.upper()} {bill.number}, Congress {bill.congress}",
            # `updateDate` and a sitemap's `lastmod` are dates of files. Without this date, a bill belongs to no day.
            published_at=read_midnight(record, "introducedDate", self.timezone),
            undated=Undated.PAGE if self.fetch_items and not self.lookups_per_run else Undated.UNKNOWN,
            tags={
                "document_type": "Bill",
                "topic": sorted(filter(None, [read_text(read_object(record, "policyArea"), "name")])),
                "native_ids": {"congress": str(bill.congress), "type": bill.type, "number": str(bill.number)},
            },
            raw=record,
        )


class _Reading:
    """One reading of the sitemaps with a limited number of lookups."""

    def __init__(self, kind: BillsKind, run: Run) -> None:
        self._kind = kind
        self._run = run
        self._wanted = kind.wanted(run)
        self._known_bills = _KnownBills(run.state)
        self._api = CongressApi(run, kind.api_url)
        self._problems = Problems()
        self._looked_up = self._found = self._left = self._failed_in_a_row = 0

    async def sitemaps(self) -> list[SitemapRef]:
        """Return the sitemaps that may have changed and may list bills to read, the newest Congress first."""
        index = (await self._sitemap(self._kind.sitemap_url)).sitemaps
        if not index:
            message = "The index of BILLSTATUS names no sitemaps."
            raise Unreadable(message, reason=Reason.INCOMPLETE, url=self._kind.sitemap_url)
        wanted = {*self._wanted, _NO_CONGRESS_YET}
        unread = [one for one in index if _congress_of(one) in wanted and not self._known_bills.has_read(one)]
        return sorted(unread, key=_congress_of, reverse=True)

    async def bills(self, sitemap: SitemapRef) -> AsyncIterator[Item | DiscoveredUrl]:
        """Yield the bills of a sitemap. A bill that cannot be read does not stop the others."""
        try:
            listed = _bills(await self._sitemap(sitemap.url), self._wanted)
            bills = sorted(listed, key=lambda bill: -bill.congress)
        except HeadwaterError as error:
            self._problems.add(sitemap.url, error)
            return
        is_complete = bool(bills)  # sometimes a sitemap is empty by mistake
        for bill in bills:
            if self._known_bills.knows(bill):
                self._found += 1
                if self._kind.fetch_items:
                    yield DiscoveredUrl(bill.url, bill.changed_at)
            elif self._is_spent():
                is_complete = False
                self._left += 1
            elif (record := await self._look_up(bill)) is None:
                is_complete = False
            else:
                self._found += 1
                yield self._kind.item(bill, record)
                self._known_bills.learn(bill)
        # A page that was fetched within a day is not fetched again, so a young sitemap is read again.
        if is_complete and sitemap.lastmod and self._run.now - sitemap.lastmod > _SETTLED:
            self._known_bills.note_read(sitemap)

    def finish(self) -> None:
        """Save the problems. Raise the first one if the run found no bill."""
        if self._problems.first and not self._found:
            raise self._problems.first
        self._problems.save(self._run.state)
        if self._failed_in_a_row < _FAILURES_THAT_END_LOOKUPS:  # otherwise an early run would fail too
            self._run.left = self._left

    def _is_spent(self) -> bool:
        """Return whether the rest is left for the next run: the limit is reached, or lookups keep failing."""
        return 0 < self._kind.lookups_per_run <= self._looked_up or self._failed_in_a_row >= _FAILURES_THAT_END_LOOKUPS

    async def _look_up(self, bill: Bill) -> Record | None:
        if not self._kind.lookups_per_run:
            return {}
        self._looked_up += 1
        try:
            record = await self._api.read_record(f"bill/{bill.congress}/{bill.type}/{bill.number}", "bill") or {}
        except (NotNow, OperatorError):  # the other bills would fail too
            raise
        except HeadwaterError as error:
            self._problems.add(bill.url, error)
            self._failed_in_a_row += 1
            return None
        self._failed_in_a_row = 0
        return record

    async def _sitemap(self, url: str) -> SitemapReading:
        page = await self._run.http.get(url)
        return await page.sitemap(_ALWAYS, [host_of(self._kind.sitemap_url)], "/")


def _congress_of(sitemap: SitemapRef) -> int:
    """Return the Congress of a sitemap, or a high number if its name does not say."""
    series = _SERIES.search(sitemap.url)
    return int(series[1]) if series else _NO_CONGRESS_YET


def _bills(reading: SitemapReading, wanted: set[int]) -> Iterator[Bill]:
    if reading.problem:
        raise Unreadable(reading.problem)
    for entries in reading.batches():
        for entry in entries:
            name = _BILL.search(entry.url)
            if name and int(name[1]) in wanted:
                yield Bill(entry.url, int(name[1]), name[2], int(name[3]), entry.lastmod)


class _KnownBills:
    def __init__(self, state: dict[str, Any]) -> None:
        self._sitemaps: dict[str, str] = state.setdefault("sitemaps", {})
        self._known: dict[str, str] = state.setdefault("known", {})

    def has_read(self, sitemap: SitemapRef) -> bool:
        """Return whether a sitemap is unchanged since it was read completely. Without a date, it may have changed."""
        return sitemap.lastmod is not None and self._sitemaps.get(sitemap.url) == sitemap.lastmod.isoformat()

    def note_read(self, sitemap: SitemapRef) -> None:
        if sitemap.lastmod is not None:
            self._sitemaps[sitemap.url] = sitemap.lastmod.isoformat()

    def knows(self, bill: Bill) -> bool:
        return bool(self._bits(bill) >> bill.number & 1)

    def learn(self, bill: Bill) -> None:
        self._known[f"{bill.congress}{bill.type}"] = f"{self._bits(bill) | 1 << bill.number:x}"

    def _bits(self, bill: Bill) -> int:
        return int(self._known.get(f"{bill.congress}{bill.type}", "0"), 16)
