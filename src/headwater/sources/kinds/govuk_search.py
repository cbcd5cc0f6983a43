"""GOV.UK's search, asked for all that happened in a window of time, and trusted only where its counts add up.

Nothing sorts its results so that pages could be turned: a window that does not fit one answer is halved until it does.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from headwater.core.errors import HeadwaterError, Unreadable
from headwater.core.json_values import clean_json
from headwater.core.reasons import Reason
from headwater.sources.run import Run

Record = Mapping[str, Any]
MOST_RESULTS = 1500  # in one answer
MOST_COUNTED = 10_000  # a total that has got there may have stopped counting
MOST_RECORDS = 100_000  # of a day; nobody publishes as much
READINGS = 3  # of a window whose counts do not add up
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


class _Total(NamedTuple):
    number: int
    is_exact: bool


class _Answer(NamedTuple):
    total: _Total
    records: dict[str, Record]  # by link


class _DoesNotAddUp(Exception):
    """What was answered cannot be all there is."""


class Search:
    """Asks the search API on behalf of a run, and counts in its counters."""

    def __init__(self, run: Run, api_url: str) -> None:
        self._run = run
        self._url = f"{api_url}search.json"
        self.seen: dict[str, Record] = {}  # whatever was answered, also by readings that were given up

    async def read(self, field: str, since: datetime, until: datetime) -> dict[str, Record]:
        """Return all records whose `field` lies in a window of whole seconds, both ends included, by their links.

        Raises HeadwaterError with the reason INCOMPLETE where even the last reading does not add up.
        """
        counters = self._run.counters
        before = counters.fetched, counters.total or 0
        for reading in range(1, READINGS + 1):
            counters.fetched, counters.total = before
            try:
                found = await self._window(field, since, until)
                await self._confirm(field, since, until, len(found))
                if found or reading == READINGS:  # an index that is being made anew is empty, and says so
                    counters.fetched, counters.total = before[0] + len(found), before[1] + len(found)
                    return found
                why = "it is empty."
            except _DoesNotAddUp as error:
                why = str(error)
            if reading < READINGS:
                await self._run.http.rest(reading)
        raise HeadwaterError(f"The search by {field} does not add up: {why}", reason=Reason.INCOMPLETE)

    async def _window(
        self, field: str, since: datetime, until: datetime, *, is_part: bool = False
    ) -> dict[str, Record]:
        answer = await self._ask(field, since, until, MOST_RESULTS)
        total, counters = answer.total, self._run.counters
        if not is_part:
            counters.total = (counters.total or 0) + total.number
        if total.is_exact and total.number <= MOST_RESULTS:
            if len(answer.records) != total.number:
                raise _DoesNotAddUp(f"{len(answer.records)} came of {total.number} from {since} to {until}.")
            if field == "public_timestamp":
                _refuse_other_times(answer.records.values(), since, until)
            counters.fetched += len(answer.records)
            return answer.records
        if until - since < 2 * _SECOND:
            raise _DoesNotAddUp(f"there are {total.number} or more at {since}, and one answer holds {MOST_RESULTS}.")
        # The halves share a second, or what has fractions of it would be in neither.
        middle = since + (until - since) // (2 * _SECOND) * _SECOND
        found = await self._window(field, since, middle, is_part=True)
        found |= await self._window(field, middle, until, is_part=True)
        if total.is_exact and len(found) != total.number:
            raise _DoesNotAddUp(f"{len(found)} came in parts of {total.number} from {since} to {until}.")
        return found

    async def _confirm(self, field: str, since: datetime, until: datetime, found: int) -> None:
        """Ask again how many there are: a cluster in trouble may have counted and answered less than it has."""
        total = (await self._ask(field, since, until, 0)).total
        adds_up = found == total.number if total.is_exact else found >= total.number
        if not adds_up:
            raise _DoesNotAddUp(f"{found} came, and afterwards there were {total.number} from {since} to {until}.")

    async def _ask(self, field: str, since: datetime, until: datetime, count: int) -> _Answer:
        query = {
            f"filter_{field}": f"from:{since:%Y-%m-%dT%H:%M:%SZ},to:{until:%Y-%m-%dT%H:%M:%SZ}",
            "order": "public_timestamp",
            "count": count,
            "start": 0,
            "fields": ",".join(_FIELDS),
        }
        page = await self._run.http.get(f"{self._url}?{urlencode(query)}")
        try:
            body = await page.json()
        except Unreadable as error:
            raise _DoesNotAddUp(f"the answer is no JSON ({error})") from error
        self._run.counters.pages += 1
        answer = _read(body)
        self.seen |= answer.records
        if len(self.seen) > MOST_RECORDS:
            message = f"The search has answered with more than {MOST_RECORDS:,} pages for a day."
            raise HeadwaterError(message, reason=Reason.INCOMPLETE)
        return answer


def _refuse_other_times(records: Iterable[Record], since: datetime, until: datetime) -> None:
    """Refuse records that are not of the window they were asked for: a day would lack them, and nobody would know."""
    for record in records:
        moment = moment_of(record.get("public_timestamp"))
        if moment is None or not since <= moment < until + _SECOND:
            raise _DoesNotAddUp(f"{record['link']} has a time that is not between {since} and {until}.")


def moment_of(text: Any) -> datetime | None:
    """Read a moment; one without an offset is meant in UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None


def _read(body: Any) -> _Answer:
    """Read an answer; what has not the shape of one is an error, whatever its status was."""
    results = body.get("results") if isinstance(body, dict) else None
    if not isinstance(results, list):
        raise _DoesNotAddUp("the answer holds no results.")
    if not all(isinstance(record, dict) and isinstance(record.get("link"), str) for record in results):
        raise _DoesNotAddUp("a result has no link.")
    return _Answer(_read_total(body.get("total")), {record["link"]: clean_json(record) for record in results})


def _read_total(total: Any) -> _Total:
    """Read a total, a number or an object that says whether there may be more."""
    count, relation = (total.get("value"), total.get("relation")) if isinstance(total, dict) else (total, "eq")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise _DoesNotAddUp("the answer does not say how many there are.")
    return _Total(count, is_exact=relation == "eq" and count < MOST_COUNTED)
