"""The Federal Register: the documents of its API, and their XML."""

import re
from collections.abc import AsyncIterator
from datetime import date, timedelta

from headwater.core.dates import day_of
from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason
from headwater.core.source import Item, Retry
from headwater.core.urls import host_of
from headwater.sources.kind import Kind
from headwater.sources.kinds.federal.register_search import RegisterSearch
from headwater.sources.kinds.records import US_CAPITAL, Record, check_url, read_midnight, read_objects, read_text
from headwater.sources.run import Run

_OVERLAP = timedelta(days=7)  # read again each time: an issue may be late or corrected
_DAYS_PER_RUN = range(30, 3661)
_FIRST_ISSUE = date(1936, 3, 14)
_NUMBER = re.compile(r"\w[\w-]{0,63}")


class FederalRegisterKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules, notices and presidential documents, by their day of publication. The API takes no key."""

    schedule: str | None = "15 9 * * *"  # an issue appears at 08:45
    timezone: str | None = US_CAPITAL
    rate_per_second: float = 5.0
    retry: Retry = Retry(attempts=4, on_rate_limit=True)
    site_url: str = "https://www.federalregister.gov"
    since: date | None = None  # the first day to read; None: a week before the first run
    days_per_run: int = 366  # a longer time is read in several runs

    @property
    def api_hosts(self) -> frozenset[str]:
        """The API, without the documents."""
        return frozenset({f"{host_of(self.site_url)}/api/"})

    def check(self) -> None:
        """Refuse settings that cannot work, with a ValueError that names the field."""
        check_url("site_url", self.site_url)
        if self.since and self.since < _FIRST_ISSUE:
            raise ValueError(f"since: the first Federal Register is of {_FIRST_ISSUE}")
        if self.days_per_run not in _DAYS_PER_RUN:
            raise ValueError(f"days_per_run: must be from {_DAYS_PER_RUN[0]} to {_DAYS_PER_RUN[-1]}")
        super().check()

    async def discover(self, run: Run) -> AsyncIterator[Item]:
        """Yield the documents of the days that were not read yet, and of the last week."""
        first, last = self._span(run)
        search = RegisterSearch(run, f"{self.site_url.rstrip('/')}/api/v1/documents.json")
        found = await search.read(first, last)
        paths: set[str | None] = set()
        for _, record in sorted(found.items()):
            item = self._item(record)
            if (path := self.partition(item)) in paths:  # a month may have two documents with one number
                item = self._item({**record, "number_is_taken": True})
            paths.add(path)
            yield item
        run.state.update(since=self._since(), until=last.isoformat())

    def partition(self, item: Item) -> str | None:
        """Return `{YYYY}/{MM}/{document_number}.xml`, or None without XML or with the number of another document."""
        number, published = read_text(item.raw, "document_number"), read_text(item.raw, "publication_date")
        is_named = _NUMBER.fullmatch(number) and not item.raw.get("number_is_taken")
        if not is_named or item.url != read_text(item.raw, "full_text_xml_url"):
            return None
        return f"{published[:4]}/{published[5:7]}/{number}.xml"

    def _since(self) -> str | None:
        return self.since.isoformat() if self.since else None

    def _span(self, run: Run) -> tuple[date, date]:
        """Return the first and the last day to read: the days after the last run, or all if `since` has changed."""
        today = day_of(run.now, self.timezone or US_CAPITAL)
        if self.since and self.since > today:
            raise HeadwaterError(f"since: {self.since} is yet to come.", reason=Reason.BAD_SOURCE)
        until = run.state.get("until")
        if until is None or run.state.get("since") != self._since():
            first = self.since or today - _OVERLAP
        else:
            first = max(date.fromisoformat(until) - _OVERLAP, self.since or date.min)
        return first, min(today, first + timedelta(days=self.days_per_run - 1))

    def _item(self, record: Record) -> Item:
        agencies = {
            read_text(agency, "name") or read_text(agency, "raw_name") for agency in read_objects(record, "agencies")
        }
        return Item(
            url=read_text(record, "full_text_xml_url") or read_text(record, "pdf_url") or read_text(record, "html_url"),
            title=read_text(record, "title") or read_text(record, "document_number"),
            published_at=read_midnight(record, "publication_date", self.timezone),
            tags={
                "organisations": sorted(filter(None, agencies)),
                "document_type": read_text(record, "type") or None,
                "native_ids": {"document_number": read_text(record, "document_number")},
            },
            raw=record,
        )
