"""Lists that are trusted only where their counts add up: an early empty page, or an error under 200, is no end."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from headwater.core.errors import HeadwaterError, Unreadable
from headwater.core.json_values import clean_json
from headwater.core.reasons import Reason
from headwater.sources.run import Run

T = TypeVar("T")
Record = Mapping[str, Any]
READINGS = 3  # of a list whose counts do not add up


class DoesNotAddUp(Exception):
    """What was answered cannot be all there is; the text says why."""


async def until_it_adds_up(run: Run, what: str, read: Callable[[], Awaitable[T]]) -> T:
    """Read, and read again what does not add up.

    Raises HeadwaterError with the reason INCOMPLETE where even the last reading does not.
    """
    before = run.counters.fetched
    for reading in range(1, READINGS + 1):
        run.counters.fetched = before
        try:
            return await read()
        except DoesNotAddUp as error:
            why = str(error)
        if reading < READINGS:
            await run.http.rest(reading)
    raise HeadwaterError(f"{what} does not add up: {why}", reason=Reason.INCOMPLETE)


async def ask(run: Run, url: str) -> Record:
    """Return the JSON object at an address; what is none was no answer, whatever its status."""
    page = await run.http.get(url)
    run.counters.pages += 1
    try:
        body = await page.json()
    except Unreadable as error:
        raise DoesNotAddUp(f"the answer is no JSON ({error})") from error
    if not isinstance(body, dict):
        raise DoesNotAddUp("the answer is no object.")
    return body


def records_of(body: Record, name: str) -> list[Record]:
    """Return the records of a list, fit to be kept."""
    found = body.get(name)
    if not isinstance(found, list) or not all(isinstance(record, dict) for record in found):
        raise DoesNotAddUp(f"the answer holds no list of {name}.")
    return [clean_json(record) for record in found]


def count_of(body: Record) -> int:
    """Return how many records there are, as the answer says."""
    count = body.get("count")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise DoesNotAddUp("the answer does not say how many there are.")
    return count
