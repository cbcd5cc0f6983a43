"""A stand-in for GOV.UK's two APIs, search and content, with the habits that the real ones are known for.

It is an `Answer`: a site of the demo web that has it as `api` answers with it to all below `/api/`.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web

from headwater.demo.answers import Body, status, whole
from headwater.demo.arrival import arrival
from headwater.demo.govuk_faults import CONTENT_PATH, JSON, ApiRequest, Faults
from headwater.demo.govuk_pages import TAXON_NAMES, GovukPage
from headwater.demo.govuk_query import BY_POPULARITY, Order, Parameters, Refused, read_query
from headwater.demo.govuk_results import KNOWN_FIELDS, content_item, search_result

_KEPT_REQUESTS = 20_000  # a web that is left running must not grow


class GovukApi:
    """Both APIs over one set of pages, which may change between two requests.

    `total_as_object` and `cap_at` are what the next search engine may do to the total: `{"value", "relation"}`, and
    no counting beyond so many. `limit_per_second` is how many requests the Content API takes from a client in any
    second; those beyond are answered 429 and not counted.
    """

    def __init__(
        self,
        pages: Iterable[GovukPage],
        *,
        taxon_names: Mapping[str, str] = TAXON_NAMES,
        total_as_object: bool = False,
        cap_at: int | None = None,
        limit_per_second: int | None = None,
    ) -> None:
        self.taxon_names = taxon_names
        self.total_as_object = total_as_object
        self.cap_at = cap_at
        self.faults = Faults()
        self.requests: deque[ApiRequest] = deque(maxlen=_KEPT_REQUESTS)
        self._pages = {page.link: page for page in pages}
        self._limit = RateLimit(limit_per_second)
        self._random = Random(1)  # noqa: S311 - not a secret

    @property
    def pages(self) -> tuple[GovukPage, ...]:
        """What is in the index."""
        return tuple(self._pages.values())

    def put(self, page: GovukPage) -> None:
        """Publish a page, or the next edition of it."""
        self._pages[page.link] = page

    def withdraw(self, link: str) -> None:
        """Take a page away."""
        del self._pages[link]

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request, as it should be answered or with the fault that is planned for it."""
        path, _, raw_query = request.raw_path.partition("?")
        asked = ApiRequest(path, read_parameters(raw_query))
        self.requests.append(asked)
        if asked.is_content() and not self._limit.admits(request.remote or "", arrival(request)):
            return await status(429)(request)
        code, payload = self.reply(asked)
        body = Body(msgspec.json.encode(payload), JSON, datetime.now(UTC))
        fault = self.faults.due(asked)
        answer = whole(body, code) if fault is None else fault(body)
        return await answer(request)

    def reply(self, asked: ApiRequest) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON of the right answer."""
        if asked.is_search():
            try:
                return 200, self._search(asked.query)
            except Refused as refused:
                return 422, {"error": str(refused)}
        page = self._pages.get(asked.path.removeprefix(CONTENT_PATH))
        if page is None or not page.in_content or not asked.is_content():
            return 404, {"error": {"code": 404, "message": "Nothing is known under this path"}}
        return 200, content_item(page, self.taxon_names)

    def _search(self, parameters: Parameters) -> dict[str, Any]:
        query = read_query(parameters, KNOWN_FIELDS)
        found = self._sorted(filter(query.finds, self._pages.values()), query.order or BY_POPULARITY)
        shown = found[query.start : query.start + query.count]
        return {
            "results": [search_result(page, query.fields, None if query.order else page.popularity) for page in shown],
            "total": self._total(len(found)),
            "start": query.start,
            "aggregates": {},
            "suggested_queries": [],
            "suggested_autocomplete": [],
            "es_cluster": "A",
        }

    def _sorted(self, pages: Iterable[GovukPage], order: Order) -> list[GovukPage]:
        """Sort pages, what lacks the value last; those with the same value come in another order every time."""
        shuffled = list(pages)
        self._random.shuffle(shuffled)
        keyed = [(value, page) for page in shuffled if (value := order.value(page)) is not None]
        keyed.sort(key=lambda pair: pair[0], reverse=order.descending)
        return [page for _, page in keyed] + [page for page in shuffled if order.value(page) is None]

    def _total(self, found: int) -> int | dict[str, Any]:
        is_capped = self.cap_at is not None and found > self.cap_at
        value = self.cap_at if self.cap_at is not None and is_capped else found
        return {"value": value, "relation": "gte" if is_capped else "eq"} if self.total_as_object else value


class RateLimit:
    """So many requests from a client in any second; None: as many as it likes."""

    def __init__(self, per_second: int | None) -> None:
        self._per_second = per_second
        self._admitted: defaultdict[str, deque[float]] = defaultdict(deque)

    def admits(self, client: str, now: float) -> bool:
        """Tell whether a client may ask now, and count it if so."""
        if self._per_second is None:
            return True
        times = self._admitted[client]
        while times and times[0] <= now - 1:
            times.popleft()
        if len(times) >= self._per_second:
            return False
        times.append(now)
        return True


def read_parameters(raw_query: str) -> Parameters:
    """Return each parameter of a query string with all its values, in the order they came."""
    parameters: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for name, value in parse_qsl(raw_query, keep_blank_values=True):
        parameters[name] += (value,)
    return dict(parameters)
