"""What can go wrong with the stand-in for GOV.UK, and when.

A fault is a `Maker`, as everywhere in the demo web: it makes another `Answer` of the right body. `always` makes one of
an `Answer`, so `plan(always(status(500)))`, `plan(always(text_error(503)))`; the others here alter a page of results.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from headwater.demo.answers import Answer, Body, Maker, whole

JSON = "application/json; charset=utf-8"
SEARCH_PATH = "/api/search.json"
CONTENT_PATH = "/api/content"


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """What was asked: the path as it was sent, and each parameter with all its values."""

    path: str
    query: Mapping[str, tuple[str, ...]]

    def is_search(self) -> bool:
        """Tell whether search was asked."""
        return self.path == SEARCH_PATH

    def is_content(self) -> bool:
        """Tell whether the Content API was asked."""
        return self.path.startswith(f"{CONTENT_PATH}/")

    def first(self, name: str) -> str | None:
        """Return the first value of a parameter."""
        return self.query.get(name, (None,))[0]


When = Callable[[ApiRequest], bool]


@dataclass(slots=True)
class _Plan:
    fault: Maker
    when: When
    first: int
    last: float
    seen: int = 0

    def meets(self, asked: ApiRequest) -> bool:
        if not self.when(asked):
            return False
        self.seen += 1
        return self.first <= self.seen <= self.last


class Faults:
    """The faults that are planned for an API."""

    def __init__(self) -> None:
        self._plans: list[_Plan] = []

    def plan(self, fault: Maker, *, when: When = lambda _asked: True, nth: int = 1, times: int | None = 1) -> None:
        """Let the nth request from now on that `when` is true of meet a fault, and those after it, so many in all.

        With `times` None it never ends. A request that another fault was planned for counts all the same, and meets
        the one that was planned first.
        """
        self._plans.append(_Plan(fault, when, nth, float("inf") if times is None else nth + times - 1))

    def clear(self) -> None:
        """Forget all that was planned."""
        self._plans.clear()

    def due(self, asked: ApiRequest) -> Maker | None:
        """Return the fault that a request meets, and count it."""
        met = [plan.fault for plan in self._plans if plan.meets(asked)]
        return met[0] if met else None


def text_error(code: int) -> Answer:
    """Answer with an error in words that are called JSON."""
    return _words(f"The search did not answer ({code})", code)


def _words(text: str, code: int) -> Answer:
    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=code, body=text.encode(), headers={"Content-Type": JSON})

    return answer


text_under_200 = _words("The search is away for a moment. Please come back later.", 200)
error_under_200 = _words('{"error": "The search could not be reached"}', 200)


def empty_page(body: Body) -> Answer:
    """Give no results, under a total that is right."""
    return _altered(body, lambda page: page | {"results": []})


def short_page(by: int = 1) -> Maker:
    """Leave out the last results of a page, under a total that is right."""
    return lambda body: _altered(body, lambda page: page | {"results": page["results"][: -by or None]})


def shrunk_total(by: int = 1) -> Maker:
    """Answer as if there were so many results fewer: the total and the pages agree, and both are wrong."""

    def alter(page: dict[str, Any]) -> dict[str, Any]:
        total = max(0, _total(page) - by)
        return _with_total(page, total) | {"results": page["results"][: max(0, total - page["start"])]}

    return lambda body: _altered(body, alter)


def moved_total(body: Body) -> Answer:
    """Count one result more than there are."""
    return _altered(body, lambda page: _with_total(page, _total(page) + 1))


def _altered(body: Body, alter: Callable[[dict[str, Any]], dict[str, Any]]) -> Answer:
    page = msgspec.json.decode(body.content)
    if "results" not in page:
        raise ValueError("only a page of results can be altered: plan this fault for searches that succeed")
    return whole(Body(msgspec.json.encode(alter(page)), body.content_type, body.modified))


def _total(page: Mapping[str, Any]) -> int:
    total = page["total"]
    return int(total["value"] if isinstance(total, dict) else total)


def _with_total(page: Mapping[str, Any], total: int) -> dict[str, Any]:
    is_object = isinstance(page["total"], dict)
    return {**page, "total": page["total"] | {"value": total} if is_object else total}
