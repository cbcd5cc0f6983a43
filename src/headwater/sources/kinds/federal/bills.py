"""Bills: which there are, from the sitemaps of BILLSTATUS, and what each is called, from api.congress.gov.

`run.state` holds `known` (the numbers of the bills that were yielded, for each sort of bill of a Congress, as the bits
of a number), `sitemaps` (of those that were read whole, when they were last changed) and `oldest` (the first Congress
that was ever wanted).
"""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal, NamedTuple

from headwater.core.dates import day_of
from headwater.core.errors import HeadwaterError, NotNow, OperatorError, Unreadable
from headwater.core.reasons import Reason
from headwater.core.source import DiscoveredUrl, Item, Method, Undated
from headwater.core.urls import host_of
from headwater.feeds.results import SitemapRef
from headwater.feeds.sitemap_selection import SitemapReading
from headwater.sources.kind import Kind
from headwater.sources.kinds.federal.congress import API_URL, CongressApi, congress_on, refuse_to_come
from headwater.sources.kinds.records import US_CAPITAL, Record, check_url, read_midnight, read_object, read_text
from headwater.sources.run import Problems, Run

FIRST_CONGRESS = 108  # before, there is no BILLSTATUS
_MINUTES = 240  # govinfo makes the files of the Congress that sits anew every four hours
_BILL = re.compile(r"/BILLSTATUS-(\d{1,3})([a-z]{1,8})(\d{1,5})\.xml$")
_SERIES = re.compile(r"/(\d{1,3})[a-z]{1,8}/sitemap[^/]*\.xml$")
_FAILURES_THAT_END_LOOKUPS = 5  # in a row
_NO_CONGRESS_YET = 1000
_ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)


class Bill(NamedTuple):
    """A bill, by the address of its status."""

    url: str
    congress: int
    type: str
    number: int
    changed_at: datetime | None


class BillsKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bills and resolutions of the Congress that sits now, and of those before it that are asked for.

    Sitemaps and files are open to all. What a bill is called and when it was introduced is looked up once, with the
    key; what a run does not come to is left for the next, which follows at once.
    """

    in_parts: ClassVar[bool] = True

    timezone: str | None = US_CAPITAL
    budget: Literal["api.data.gov"] | None = "api.data.gov"
    sitemap_url: str = "https://www.govinfo.gov/sitemap/bulkdata/BILLSTATUS/sitemapindex.xml"
    api_url: str = API_URL
    congresses: tuple[int, ...] = ()
    # So that a run takes no longer than new files do. 0: nothing is looked up, and no key is needed.
    lookups_per_run: int = 1000

    @property
    def api_hosts(self) -> frozenset[str]:
        """The API, which counts requests; sitemaps and files are not part of it."""
        return frozenset({host_of(self.api_url)})

    def methods(self, interval: timedelta) -> Mapping[Method, timedelta | None]:
        """Return that its sitemaps are read, which can reach back (`headwater source backfill`)."""
        del interval
        return {Method.SITEMAP: timedelta(minutes=self.poll_interval_minutes or _MINUTES)}

    def check(self) -> None:
        """Refuse settings that cannot work, with a ValueError that names the field."""
        check_url("sitemap_url", self.sitemap_url)
        check_url("api_url", self.api_url)
        if self.schedule is not None:
            raise ValueError("schedule: bills are read by interval; set poll_interval_minutes")
        if any(congress < FIRST_CONGRESS for congress in self.congresses):
            raise ValueError(f"congresses: there is no BILLSTATUS before the {FIRST_CONGRESS}th Congress")
        if not 0 <= self.lookups_per_run <= 100_000:
            raise ValueError("lookups_per_run: must be from 0 to 100000")
        super().check()

    async def discover(self, run: Run) -> AsyncIterator[Item | DiscoveredUrl]:
        """Yield new bills as items, and known ones as leads: those are fetched again if they have changed."""
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
        """Return the Congresses whose bills are read; one that was wanted once is wanted from then on."""
        zone = self.timezone or US_CAPITAL
        now = congress_on(day_of(run.now, zone))
        refuse_to_come(self.congresses, now)
        since = congress_on(day_of(run.since, zone)) if run.since else now
        run.state["oldest"] = oldest = max(FIRST_CONGRESS, min(run.state.get("oldest", now), since))
        return {*self.congresses, *range(oldest, now + 1)}

    def item(self, bill: Bill, record: Record) -> Item:
        """Return a bill with what was looked up of it."""
        return Item(
            url=bill.url,
            title=read_text(record, "title") or f"{bill.type.upper()} {bill.number}, Congress {bill.congress}",
            # `updateDate`, and a sitemap's `lastmod`, are when a file was made: without this a bill is of no day.
            published_at=read_midnight(record, "introducedDate", self.timezone),
            undated=Undated.UNKNOWN,
            tags={
                "document_type": "Bill",
                "topic": sorted(filter(None, [read_text(read_object(record, "policyArea"), "name")])),
                "native_ids": {"congress": str(bill.congress), "type": bill.type, "number": str(bill.number)},
            },
            raw=record,
        )


class _Reading:
    """One reading of the sitemaps, which looks up so many bills and no more."""

    def __init__(self, kind: BillsKind, run: Run) -> None:
        self._kind = kind
        self._run = run
        self._wanted = kind.wanted(run)
        self._memory = _Memory(run.state)
        self._api = CongressApi(run, kind.api_url)
        self._problems = Problems()
        self._looked_up = self._found = self._left = self._failed_in_a_row = 0

    async def sitemaps(self) -> list[SitemapRef]:
        """Return the sitemaps that may have changed and may list bills that are wanted, the newest Congress first."""
        index = (await self._sitemap(self._kind.sitemap_url)).sitemaps
        if not index:
            message = "The index of BILLSTATUS names no sitemaps."
            raise Unreadable(message, reason=Reason.INCOMPLETE, url=self._kind.sitemap_url)
        unread = [one for one in index if _may_hold(one, self._wanted) and not self._memory.has_read(one)]
        return sorted(unread, key=_congress_of, reverse=True)

    async def bills(self, sitemap: SitemapRef) -> AsyncIterator[Item | DiscoveredUrl]:
        """Yield the bills of a sitemap; one that cannot be read does not keep the others."""
        try:
            bills = sorted(_bills(await self._sitemap(sitemap.url), self._wanted), key=_newest_congress_first)
        except HeadwaterError as error:
            self._problems.add(sitemap.url, error)
            return
        is_whole = bool(bills)  # at times they are empty: that is no answer
        for bill in bills:
            if self._memory.knows(bill):
                self._found += 1
                if self._kind.fetch_items:
                    yield DiscoveredUrl(bill.url, bill.changed_at)
            elif self._is_spent():
                is_whole = False
                self._left += 1
            elif (record := await self._look_up(bill)) is None:
                is_whole = False
            else:
                self._found += 1
                yield self._kind.item(bill, record)
                self._memory.learn(bill)
        if is_whole:
            self._memory.note_read(sitemap)

    def finish(self) -> None:
        """Keep what went wrong; raise it where nothing else came of the run."""
        if self._problems.first and not self._found:
            raise self._problems.first
        self._problems.save(self._run.state)
        if self._failed_in_a_row < _FAILURES_THAT_END_LOOKUPS:  # else nothing is gained by coming sooner
            self._run.left = self._left

    def _is_spent(self) -> bool:
        """Tell whether the rest is left for the next run: so many were looked up, or it seems that none can be."""
        return 0 < self._kind.lookups_per_run <= self._looked_up or self._failed_in_a_row >= _FAILURES_THAT_END_LOOKUPS

    async def _look_up(self, bill: Bill) -> Record | None:
        """Return the record of a bill, None where it cannot be read now: that does not keep the others."""
        if not self._kind.lookups_per_run:
            return {}
        self._looked_up += 1
        try:
            record = await self._api.record(f"bill/{bill.congress}/{bill.type}/{bill.number}", "bill") or {}
        except (NotNow, OperatorError):  # which no other bill would fare better with
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
    """Return the Congress whose bills a sitemap lists; one that does not say may list those of the newest."""
    series = _SERIES.search(sitemap.url)
    return int(series[1]) if series else _NO_CONGRESS_YET


def _newest_congress_first(bill: Bill) -> int:
    return -bill.congress


def _may_hold(sitemap: SitemapRef, wanted: set[int]) -> bool:
    """Tell whether bills that are wanted may be in a sitemap, by its name where that says so."""
    congress = _congress_of(sitemap)
    return congress == _NO_CONGRESS_YET or congress in wanted


def _bills(reading: SitemapReading, wanted: set[int]) -> Iterator[Bill]:
    if reading.problem:
        raise Unreadable(reading.problem)
    for entries in reading.batches():
        for entry in entries:
            name = _BILL.search(entry.url)
            if name and int(name[1]) in wanted:
                yield Bill(entry.url, int(name[1]), name[2], int(name[3]), entry.lastmod)


class _Memory:
    """What is remembered of sitemaps and bills."""

    def __init__(self, state: dict[str, Any]) -> None:
        self._sitemaps: dict[str, str] = state.setdefault("sitemaps", {})
        self._known: dict[str, str] = state.setdefault("known", {})

    def has_read(self, sitemap: SitemapRef) -> bool:
        """Tell whether a sitemap has not changed since it was read whole; one that does not tell may have."""
        return sitemap.lastmod is not None and self._sitemaps.get(sitemap.url) == sitemap.lastmod.isoformat()

    def note_read(self, sitemap: SitemapRef) -> None:
        """Remember that a sitemap was read whole."""
        if sitemap.lastmod is not None:
            self._sitemaps[sitemap.url] = sitemap.lastmod.isoformat()

    def knows(self, bill: Bill) -> bool:
        """Tell whether a bill was yielded before."""
        return bool(self._bits(bill) >> bill.number & 1)

    def learn(self, bill: Bill) -> None:
        """Remember that a bill was yielded."""
        self._known[f"{bill.congress}{bill.type}"] = f"{self._bits(bill) | 1 << bill.number:x}"

    def _bits(self, bill: Bill) -> int:
        return int(self._known.get(f"{bill.congress}{bill.type}", "0"), 16)
