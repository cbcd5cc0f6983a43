"""GOV.UK's search. A result is accepted only if all counts agree.

The search cannot page through a stable order. A window that does not fit one answer is halved until it fits.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from headwater.core.errors import HeadwaterError
from headwater.core.json_values import clean_json
from headwater.core.reasons import Reason
from headwater.sources.kinds.records import READINGS, IncompleteList, Record, get_record
from headwater.sources.run import Run

MAX_RESULTS = 1500  # in one answer
MAX_COUNT = 10_000  # the search may stop counting here
MAX_RECORDS = 100_000  # of a day; GOV.UK publishes far less
_SECOND = timedelta(seconds=1)
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


class _Answer(NamedTuple):
    total: int
    is_exact: bool  # False: there may be more than `total`
    records: dict[str, Record]  # by link


@dataclass(slots=True)
class GovukSearch:
    """Requests to the search API for a run. They update the run's counters."""

    run: Run
    api_url: str
    seen: dict[str, Record] = field(default_factory=dict)  # all records so far, also of readings that failed

    async def read(self, name: str, since: datetime, until: datetime) -> dict[str, Record]:
        """Return by link all records whose field `name` lies in a window of whole seconds, with both ends.

        Raises HeadwaterError with the reason INCOMPLETE if the counts of the last reading do not agree either.
        """
        counters = self.run.counters
        before = counters.fetched, counters.total or 0
        for reading in range(1, READINGS + 1):
            counters.fetched, counters.total = before
            try:
                found = await self._read_window(name, since, until)
                # Count again: a cluster in trouble may have returned and counted less than it has.
                total, is_exact, _ = await self._request(name, since, until, 0)
                if len(found) != total if is_exact else len(found) < total:
                    raise IncompleteList(f"{len(found)} results came, and then there were {total}, {since} to {until}.")
                if found or reading == READINGS:  # an index that is being rebuilt is empty
                    counters.fetched, counters.total = before[0] + len(found), before[1] + len(found)
                    return found
                why = "it is empty."
            except IncompleteList as error:
                why = str(error)
            if reading < READINGS:
                await self.run.http.rest(reading)
        raise HeadwaterError(f"The search by {name} does not add up: {why}", reason=Reason.INCOMPLETE)

    async def _read_window(
        self, name: str, since: datetime, until: datetime, *, is_part: bool = False
    ) -> dict[str, Record]:
        total, is_exact, records = await self._request(name, since, until, MAX_RESULTS)
        counters = self.run.counters
        if not is_part:
            counters.total = (counters.total or 0) + total
        if is_exact and total <= MAX_RESULTS:
            if len(records) != total:
                raise IncompleteList(f"{len(records)} of {total} results came from {since} to {until}.")
            for record in records.values() if name == "public_timestamp" else ():
                moment = parse_moment(record.get("public_timestamp"))
                if moment is None or not since <= moment < until + _SECOND:
                    raise IncompleteList(f"{record['link']} has a time that is not between {since} and {until}.")
            counters.fetched += len(records)
            return records
        if until - since < 2 * _SECOND:
            raise IncompleteList(f"there are {total} or more at {since}, and one answer holds {MAX_RESULTS}.")
        # Both halves contain the second between them, so that no fraction of it is lost.
        middle = since + (until - since) // (2 * _SECOND) * _SECOND
        found = await self._read_window(name, since, middle, is_part=True)
        found |= await self._read_window(name, middle, until, is_part=True)
        if is_exact and len(found) != total:
            raise IncompleteList(f"{len(found)} of {total} results came in parts from {since} to {until}.")
        return found

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
        records = {record["link"]: clean_json(record) for record in results}
        self.seen |= records
        if len(self.seen) > MAX_RECORDS:
            message = f"The search has answered with more than {MAX_RECORDS:,} pages for a day."
            raise HeadwaterError(message, reason=Reason.INCOMPLETE)
        return _Answer(total, relation == "eq" and total < MAX_COUNT, records)


def parse_moment(text: Any) -> datetime | None:
    """Return a time in UTC. A time without an offset is in UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None
