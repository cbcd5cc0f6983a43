"""The base of the demo web's APIs: JSON answers, a record of the requests, and faults for chosen requests.

A site that has such an API as `api` passes it all requests below `/api/`. A fault is a `Maker`: it makes another
`Answer` from the right body. `always` makes one from an `Answer`, for example `plan(always(status(500)))`.
"""

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, repeat
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web

from headwater.core.json_values import JsonObject
from headwater.demo.answers import Body, Maker, whole

_JSON = "application/json; charset=utf-8"
_SEARCH_PATH = "/api/search.json"
CONTENT_PATH = "/api/content"
_KEPT_REQUESTS = 20_000  # bounds the memory of a web that runs for long

Parameters = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request to an API: the path, and each parameter of the query with all its values."""

    path: str
    query: Parameters
    headers: Mapping[str, str] = field(default_factory=dict, compare=False)

    def is_search(self) -> bool:
        """Check whether GOV.UK's search API is meant."""
        return self.path == _SEARCH_PATH

    def is_content(self) -> bool:
        """Check whether GOV.UK's Content API is meant."""
        return self.path.startswith(f"{CONTENT_PATH}/")

    def first(self, name: str) -> str | None:
        """Return the first value of a parameter."""
        return self.query.get(name, (None,))[0]


def read_parameters(raw_query: str) -> Parameters:
    """Return each parameter of a query string with all its values, in their order."""
    parameters: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for name, value in parse_qsl(raw_query, keep_blank_values=True):
        parameters[name] += (value,)
    return dict(parameters)


When = Callable[[ApiRequest], bool]


@dataclass(slots=True)
class Faults:
    """The faults that are planned for an API."""

    plans: list[tuple[Maker, When, Iterator[bool]]] = field(default_factory=list)

    def plan(self, fault: Maker, *, when: When = lambda _asked: True, nth: int = 1, times: int | None = 1) -> None:
        """Answer with a fault from the nth request that matches `when` on, for `times` requests; None: without end.

        Each plan counts all requests that match it. If several plans apply to a request, the first one is used.
        """
        is_due = chain(repeat(False, nth - 1), repeat(True) if times is None else repeat(True, times), repeat(False))
        self.plans.append((fault, when, is_due))

    def clear(self) -> None:
        """Remove all plans."""
        self.plans.clear()

    def due(self, asked: ApiRequest) -> Maker | None:
        """Return the fault for a request, and count the request."""
        return next(iter([fault for fault, when, is_due in self.plans if when(asked) and next(is_due)]), None)


@dataclass(eq=False)
class DemoApi(ABC):
    """Answers with JSON, or with the fault that is planned for a request."""

    faults: Faults = field(default_factory=Faults, init=False)
    requests: deque[ApiRequest] = field(default_factory=lambda: deque(maxlen=_KEPT_REQUESTS), init=False)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        path, _, raw_query = request.raw_path.partition("?")
        asked = ApiRequest(path, read_parameters(raw_query), request.headers)
        self.requests.append(asked)
        status, payload = self.reply(asked)
        body = Body(msgspec.json.encode(payload), _JSON, datetime.now(UTC))
        fault = self.faults.due(asked)
        response = await (whole(body, status) if fault is None else fault(body))(request)
        response.headers.update(self.headers())
        return response

    @abstractmethod
    def reply(self, asked: ApiRequest) -> tuple[int, JsonObject]:
        """Return the status and the JSON of the right answer."""

    def headers(self) -> dict[str, str]:
        """Return the headers that every answer has."""
        return {}
