"""Requests to api.congress.gov: complete lists, and single records."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal
from urllib.parse import urlencode

from headwater.core.errors import ExchangeFailed, HeadwaterError
from headwater.core.json_values import clean_json
from headwater.core.reasons import Reason
from headwater.core.urls import host_of
from headwater.sources.kind import Kind
from headwater.sources.kinds.records import (
    US_CAPITAL,
    IncompleteList,
    Record,
    check_url,
    get_record,
    read_count,
    read_object,
    read_records,
    read_until_complete,
)
from headwater.sources.run import Run

API_URL = "https://api.congress.gov/v3"
PAGE = 250  # records in an answer at most
_MAX_RECORDS = 100_000
_FIRST_YEAR = 1789


def congress_on(today: date) -> int:
    """Return the number of the Congress on a day. A new one starts on 3 January of odd years."""
    year = today.year - ((today.month, today.day) < (1, 3))
    return (year - _FIRST_YEAR) // 2 + 1


def refuse_future(congresses: Iterable[int], now: int) -> None:
    """Refuse a Congress that is further in the future than the next one."""
    if far := [congress for congress in congresses if congress > now + 1]:
        message = f"congresses: Congress {far[0]} is yet to come; now it is {now}."
        raise HeadwaterError(message, reason=Reason.BAD_SOURCE)


class CongressKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that all kinds of api.congress.gov share."""

    timezone: str | None = US_CAPITAL
    budget: Literal["api.data.gov"] | None = "api.data.gov"
    api_url: str = API_URL

    @property
    def api_hosts(self) -> frozenset[str]:
        """The API, which counts requests, without the files."""
        return frozenset({host_of(self.api_url)})

    def check(self) -> None:
        """Refuse settings that cannot work, with a ValueError that names the field."""
        check_url("api_url", self.api_url)
        super().check()


@dataclass(frozen=True, slots=True)
class CongressApi:
    """Requests for a run. Each carries the key and counts against the source's budget."""

    run: Run
    api_url: str

    async def read_list(
        self, path: str, name: str, key: Callable[[Record], Hashable], query: Mapping[str, str] | None = None
    ) -> list[Record]:
        """Return all records of a list, each once.

        Raises HeadwaterError with the reason INCOMPLETE if its count is not reached.
        """
        found = await read_until_complete(
            self.run, f"The list {path}", lambda: self._pages(path, name, key, query or {})
        )
        self.run.counters.fetched += len(found)
        self.run.counters.total = (self.run.counters.total or 0) + len(found)
        return list(found.values())

    async def read_record(self, path: str, name: str) -> Record | None:
        """Return a record, or None if it does not exist."""

        async def read() -> Record:
            body = await get_record(self.run, f"{self.api_url.rstrip('/')}/{path}?format=json")
            found: Record = clean_json(read_object(body, name))
            if not found:
                raise IncompleteList(f"the answer holds no {name}.")
            return found

        try:
            return await read_until_complete(self.run, f"The record {path}", read)
        except ExchangeFailed as error:
            if error.reason not in (Reason.NOT_FOUND, Reason.GONE):
                raise
            return None

    async def _pages(
        self, path: str, name: str, key: Callable[[Record], Hashable], query: Mapping[str, str]
    ) -> dict[Hashable, Record]:
        found: dict[Hashable, Record] = {}
        offset, count = 0, 0
        while True:
            asked = {"format": "json", "limit": PAGE, "offset": offset, **query}
            body = await get_record(self.run, f"{self.api_url.rstrip('/')}/{path}?{urlencode(asked)}")
            records = read_records(body, name)
            before, count = count, read_count(read_object(body, "pagination"))
            if offset and count != before:
                raise IncompleteList(f"there were {before}, and then {count}.")
            if count > _MAX_RECORDS:
                raise IncompleteList(f"there are more than {_MAX_RECORDS:,}.")
            found |= {key(record): record for record in records}
            offset += len(records)
            if offset >= count:
                break
            if not records:
                raise IncompleteList(f"{offset} came of {count}, and then none.")
        if len(found) != count:
            raise IncompleteList(f"{len(found)} came of {count}.")
        return found
