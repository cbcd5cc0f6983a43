"""Read JSON records of APIs: their fields, and lists whose counts must agree."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import date, datetime
from typing import Any, TypeVar

from headwater.core.dates import bounds
from headwater.core.errors import HeadwaterError, InvalidURL, Unreadable
from headwater.core.json_values import clean_json
from headwater.core.reasons import Reason
from headwater.core.text import one_line
from headwater.core.urls import normalize_url
from headwater.sources.run import Run

T = TypeVar("T")
Record = Mapping[str, Any]
US_CAPITAL = "America/New_York"  # the time zone of Washington
READINGS = 3  # of a list whose counts do not agree


class IncompleteList(Exception):
    """An answer lacks records, or its counts do not agree. The text says why."""


async def read_until_complete(run: Run, what: str, read: Callable[[], Awaitable[T]]) -> T:
    """Read a list, and read it again if it is incomplete.

    Raises HeadwaterError with the reason INCOMPLETE if the last reading is incomplete too.
    """
    before = run.counters.fetched
    for reading in range(1, READINGS + 1):
        run.counters.fetched = before
        try:
            return await read()
        except IncompleteList as error:
            why = str(error)
        if reading < READINGS:
            await run.http.rest(reading)
    raise HeadwaterError(f"{what} does not add up: {why}", reason=Reason.INCOMPLETE)


async def get_record(run: Run, url: str) -> Record:
    """Request a JSON object. Raises IncompleteList for any other body, whatever the status was."""
    page = await run.http.get(url)
    run.counters.pages += 1
    try:
        body = await page.json()
    except Unreadable as error:
        raise IncompleteList(f"the answer is no JSON ({error})") from error
    if not isinstance(body, dict):
        raise IncompleteList("the answer is no object.")
    return body


def read_records(body: Record, name: str) -> list[Record]:
    """Return the cleaned records of a list."""
    found = body.get(name)
    if not isinstance(found, list) or not all(isinstance(record, dict) for record in found):
        raise IncompleteList(f"the answer holds no list of {name}.")
    return [clean_json(record) for record in found]


def read_count(body: Record) -> int:
    """Return the number of records that the answer states."""
    count = body.get("count")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise IncompleteList("the answer does not say how many there are.")
    return count


def read_text(record: Record, name: str) -> str:
    """Return a field as one line. The line is empty if the field is no text."""
    value = record.get(name)
    return one_line(value) if isinstance(value, str) else ""


def read_object(record: Record, name: str) -> Record:
    """Return the object in a field, or an empty one."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def read_objects(record: Record, name: str) -> list[Record]:
    """Return the objects in the list of a field."""
    value = record.get(name)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def read_day(record: Record, name: str) -> date | None:
    """Return the day at the start of a field."""
    try:
        return date.fromisoformat(read_text(record, name)[: len("2026-01-15")])
    except ValueError:
        return None


def read_midnight(record: Record, name: str, timezone: str | None) -> datetime | None:
    """Return the first moment of the day at the start of a field."""
    found = read_day(record, name)
    return bounds(found, timezone or US_CAPITAL)[0] if found and date.min < found < date.max else None


def check_url(name: str, url: str | None) -> None:
    """Refuse an unusable URL, with a ValueError that names the setting."""
    try:
        if url is not None:
            normalize_url(url)
    except InvalidURL as error:
        raise ValueError(f"{name}: {str(error).rstrip('.')}") from None
