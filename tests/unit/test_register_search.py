"""The Federal Register is read whole or not at all, however little it counts and answers (spec 1.1; issue 10)."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason
from headwater.core.run import RunCounters
from headwater.demo.api import ApiRequest, read_parameters
from headwater.demo.federal_api import RegisterApi
from headwater.demo.federal_sites import register_document
from headwater.sources.kinds.federal import register_search
from headwater.sources.kinds.federal.register_search import RegisterSearch

FIRST = date(2026, 1, 1)
DAYS = 40
Alter = Callable[[dict[str, Any]], dict[str, Any]]


class RequestedDelay:
    """A way out that leads straight to the stand-in; `alter` may change what the n-th answer says."""

    def __init__(self, api: RegisterApi, alter: Callable[[int, dict[str, Any]], Any] = lambda _, body: body) -> None:
        self.api, self.alter, self.number = api, alter, 0

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> Any:
        del headers
        self.number += 1
        address = urlsplit(url)
        status, body = self.api.reply(ApiRequest(address.path, read_parameters(address.query)))
        assert status == 200
        told = self.alter(self.number, body)

        async def json() -> Any:
            return told

        return SimpleNamespace(json=json)

    async def rest(self, failures: int) -> None:
        del failures


def api_of(days: list[int], **habits: int) -> RegisterApi:
    """Documents by the day after the first that each was published on."""
    return RegisterApi(
        [register_document(f"2026-{number:05}", "t", FIRST + timedelta(days=day)) for number, day in enumerate(days)],
        **habits,
    )


def read(asked: RequestedDelay) -> set[str] | None:
    """The numbers that were found, None where it is said to be incomplete."""
    run: Any = SimpleNamespace(http=asked, counters=RunCounters())
    search = RegisterSearch(run, "http://register.demo.test/api/v1/documents.json")
    with patch.object(register_search, "MAX_COUNT", asked.api.cap_at):
        try:
            found = asyncio.run(search.read(FIRST, FIRST + timedelta(days=DAYS - 1)))
        except HeadwaterError as error:
            assert error.reason is Reason.INCOMPLETE  # noqa: PT017
            return None
    assert run.counters.pages == asked.number
    assert run.counters.fetched == run.counters.total == len(found)
    return {number for _, number in found}


def expected(days: list[int]) -> set[str]:
    return {f"2026-{number:05}" for number, day in enumerate(days) if 0 <= day < DAYS}


PUBLISHED = st.lists(st.one_of(st.integers(-2, DAYS + 2), st.sampled_from([0, 7, 7, 7, DAYS - 1])), max_size=60)


@given(PUBLISHED, st.integers(2, 12), st.integers(1, 5))
def test_windows_are_halved_until_all_is_there_or_it_is_said_that_it_is_not(
    days: list[int], cap: int, per_page: int
) -> None:
    """A window that reaches the cap may have more; only a single day that does cannot be read."""
    found = read(RequestedDelay(api_of(days, cap_at=cap, per_page=per_page)))
    if found is None:
        assert max(days.count(day) for day in days) >= cap
    else:
        assert found == expected(days)
        assert all(days.count(day) < cap for day in days if 0 <= day < DAYS)


def _short(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"results": body.get("results", [])[:-1]}


def _fewer(body: dict[str, Any]) -> dict[str, Any]:
    count = max(0, body["count"] - 1)
    return body | {"count": count, "results": body.get("results", [])[:count]}


def _more(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"count": body["count"] + 1}


def _none(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"results": []}


def _wrong_days(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"results": [one | {"publication_date": "1999-01-01"} for one in body.get("results", [])]}


def _words(body: dict[str, Any]) -> Any:
    del body
    return ["The search is away for a moment."]


LIES = st.sampled_from([_short, _fewer, _more, _none, _wrong_days, _words])


@given(PUBLISHED, st.integers(1, 5), st.integers(1, 30), LIES)
def test_one_answer_that_lies_never_makes_less_pass_for_all(
    days: list[int], per_page: int, lying: int, lie: Alter
) -> None:
    """The fault is an empty page, a smaller total, or a text with status 200."""
    api = api_of(days, per_page=per_page)
    asked = RequestedDelay(api, lambda number, body: lie(body) if number == lying else body)
    assert read(asked) == expected(days)


@given(PUBLISHED, st.integers(1, 5), st.integers(1, 10), st.sampled_from([_short, _more, _none, _wrong_days, _words]))
def test_answers_that_lie_from_some_moment_on_never_make_less_pass_for_all(
    days: list[int], per_page: int, first: int, lie: Alter
) -> None:
    asked = RequestedDelay(api_of(days, per_page=per_page), lambda number, body: lie(body) if number >= first else body)
    assert read(asked) in (None, expected(days))


@pytest.mark.parametrize("count", [9_999, 10_000, 10_001])
def test_ten_thousand_may_be_more(count: int) -> None:
    """The real limit: a count at the limit is not trusted, and two days with as many are read one by one."""
    days = [number % 2 for number in range(count)]
    asked = RequestedDelay(api_of(days))
    assert read(asked) == expected(days)
    one_day = read(RequestedDelay(api_of([0] * count)))
    assert one_day == (expected([0] * count) if count < 10_000 else None)
