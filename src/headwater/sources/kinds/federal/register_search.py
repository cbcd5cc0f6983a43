"""The Federal Register's search for all documents of some days.

It counts and returns 10,000 documents at most. A window of days with more, or that does not fit one answer, is halved
until it fits. Only a single day is read page by page.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from urllib.parse import urlencode

from headwater.sources.kinds.records import (
    IncompleteList,
    Record,
    get_record,
    read_count,
    read_day,
    read_records,
    read_text,
    read_until_complete,
)
from headwater.sources.run import Run

MAX_COUNT = 10_000
PAGE = 1_000  # records in an answer at most; a server may return fewer
_DAY = timedelta(days=1)
_FIELDS = (
    "document_number",
    "title",
    "type",
    "action",
    "abstract",
    "citation",
    "publication_date",
    "effective_on",
    "agencies",
    "docket_ids",
    "regulation_id_numbers",
    "html_url",
    "pdf_url",
    "full_text_xml_url",
)
Found = dict[tuple[str, str], Record]  # by day and number, because some numbers were used twice


@dataclass(frozen=True, slots=True)
class _Answer:
    count: int
    records: Found

    @property
    def is_capped(self) -> bool:
        """Whether there may be more documents than the count."""
        return self.count >= MAX_COUNT


@dataclass(frozen=True, slots=True)
class RegisterSearch:
    """Requests to the search for a run. They update the run's counters."""

    run: Run
    url: str

    async def read(self, first: date, last: date) -> Found:
        """Return all documents of some days, the first and the last included.

        Raises HeadwaterError with the reason INCOMPLETE if the counts do not agree.
        """

        async def read() -> Found:
            found = await self._window(first, last)
            await self._confirm(first, last, len(found))
            return found

        found = await read_until_complete(self.run, f"What was published from {first} to {last}", read)
        self.run.counters.total = len(found)
        return found

    async def _window(self, first: date, last: date) -> Found:
        answer = await self._ask(first, last)
        found = answer.records
        if not answer.is_capped and len(found) == answer.count:
            self.run.counters.fetched += len(found)
            return found
        if first < last:
            middle = first + (last - first) // 2
            found = await self._window(first, middle) | await self._window(middle + _DAY, last)
        else:
            found = await self._read_pages(first, answer)
        if answer.is_capped:
            if len(found) < MAX_COUNT:
                raise IncompleteList(f"{len(found)} came of {MAX_COUNT} or more from {first} to {last}.")
        elif len(found) != answer.count:
            raise IncompleteList(f"{len(found)} came of {answer.count} from {first} to {last}.")
        return found

    async def _read_pages(self, only: date, answer: _Answer) -> Found:
        """Return the documents of a day that do not fit one answer."""
        if answer.is_capped:
            raise IncompleteList(f"there are {answer.count} or more on {only}, and the search counts no further.")
        found, page = dict(answer.records), 1
        while len(found) < answer.count:
            page += 1
            following = (await self._ask(only, only, page)).records
            if not following.keys() - found.keys():
                raise IncompleteList(f"{len(found)} came of {answer.count} on {only}; page {page} has no more.")
            found |= following
        self.run.counters.fetched += len(found)
        return found

    async def _confirm(self, first: date, last: date, found: int) -> None:
        """Count again: an index that is being rebuilt may return and count less than it has."""
        answer = await self._ask(first, last, size=1)
        if found < answer.count if answer.is_capped else found != answer.count:
            raise IncompleteList(f"{found} came, and afterwards there were {answer.count} from {first} to {last}.")

    async def _ask(self, first: date, last: date, page: int = 1, size: int = PAGE) -> _Answer:
        query = [
            ("conditions[publication_date][gte]", first.isoformat()),
            ("conditions[publication_date][lte]", last.isoformat()),
            ("order", "oldest"),
            ("per_page", str(size)),
            ("page", str(page)),
            *(("fields[]", field) for field in _FIELDS),
        ]
        body = await get_record(self.run, f"{self.url}?{urlencode(query)}")
        count = read_count(body)
        if count == 0 and "results" not in body:  # an empty answer has no list
            return _Answer(0, {})
        records: Found = {}
        for record in read_records(body, "results"):
            published, number = read_day(record, "publication_date"), read_text(record, "document_number")
            if published is None or not number or not first <= published <= last:
                raise IncompleteList(f"{number or 'a document'} is not from {first} to {last}.")
            records[published.isoformat(), number] = record
        return _Answer(count, records)
