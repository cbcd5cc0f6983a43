"""GOV.UK's search and Content APIs with the habits of the real ones. The search refuses all that it does not know."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

from headwater.core.json_values import JsonObject
from headwater.demo.api import CONTENT_PATH, ApiRequest, DemoApi, Parameters
from headwater.demo.govuk_pages import FIELDS, GovukPage, content_item, search_result

_MOST_RESULTS, _LAST_START, _DEFAULT_COUNT = 1500, 900_000, 10
_FILTERS: Mapping[str, Callable[[GovukPage], datetime | None]] = {
    "filter_first_published_at": lambda page: page.first_published_at,
    "filter_public_timestamp": lambda page: page.public_timestamp,
}
_ORDERS: Mapping[str, Callable[[GovukPage], Any]] = {
    "public_timestamp": lambda page: page.public_timestamp,
    "-public_timestamp": lambda page: page.public_timestamp,
    "-popularity": lambda page: page.popularity,
}


class GovukApi(DemoApi):
    """Both APIs over one set of pages, which may change between two requests."""

    def __init__(self, pages: Iterable[GovukPage]) -> None:
        super().__init__()
        self._pages = {page.link: page for page in pages}
        self._random = Random(1)  # noqa: S311 - not a secret

    @property
    def pages(self) -> tuple[GovukPage, ...]:
        """The pages in the index."""
        return tuple(self._pages.values())

    def put(self, page: GovukPage) -> None:
        """Publish a page, or its next edition."""
        self._pages[page.link] = page

    def reply(self, asked: ApiRequest) -> tuple[int, JsonObject]:
        """Return the status and the JSON of the right answer."""
        if asked.is_search():
            try:
                return 200, self._search(asked.query)
            except ValueError as error:
                return 422, {"error": str(error)}
        page = self._pages.get(asked.path.removeprefix(CONTENT_PATH))
        if page is None or not page.in_content or not asked.is_content():
            return 404, {"error": {"code": 404, "message": "Nothing is known under this path"}}
        return 200, content_item(page)

    def _search(self, parameters: Parameters) -> JsonObject:
        query = read_query(parameters)
        found = self._sorted([page for page in self._pages.values() if query.matches(page)], query.order)
        shown = found[query.start : query.start + query.count]
        results = [search_result(page, query.fields) for page in shown]
        return {"results": results, "total": self.count_results(len(found)), "start": query.start}

    def _sorted(self, pages: list[GovukPage], order: str) -> list[GovukPage]:
        """Sort pages. Pages without the value come last; equal ones come in another order with every request."""
        self._random.shuffle(pages)
        value = _ORDERS[order]
        known = [page for page in pages if value(page) is not None]
        known.sort(key=value, reverse=order.startswith("-"))
        return known + [page for page in pages if value(page) is None]

    def count_results(self, found: int) -> int | JsonObject:
        """Return the total of an answer. Another search engine may write another one."""
        return found


@dataclass(frozen=True, slots=True)
class Query:
    """A search. `fields` None: the default ones."""

    start: int
    count: int
    order: str
    fields: tuple[str, ...] | None
    spans: Mapping[str, tuple[datetime, datetime]]  # by filter, with both ends

    def matches(self, page: GovukPage) -> bool:
        """Check whether a page is among the results."""
        moments = [(_FILTERS[name](page), span) for name, span in self.spans.items()]
        return all(moment is not None and span[0] <= moment <= span[1] for moment, span in moments)


def read_query(parameters: Parameters) -> Query:
    """Read a query. Raises ValueError if the search does not know something in it."""
    unknown = [name for name in parameters if name not in {"start", "count", "order", "fields", *_FILTERS}]
    if unknown:
        raise ValueError(f"Unexpected parameters: {', '.join(unknown)}")
    given = {name: _single(name, values) for name, values in parameters.items()}
    order = given.get("order", "-popularity")
    if order not in _ORDERS:
        raise ValueError(f'Results cannot be sorted by "{order}"')
    fields = tuple(filter(None, given.get("fields", "").split(",")))
    if unknown := [name for name in fields if name not in FIELDS]:
        raise ValueError(f"No such fields are returned: {', '.join(unknown)}")
    return Query(
        start=_number("start", given.get("start", "0"), _LAST_START),
        count=_number("count", given.get("count", str(_DEFAULT_COUNT)), _MOST_RESULTS),
        order=order,
        fields=fields or None,
        spans={name: _span(name, value) for name, value in given.items() if name in _FILTERS},
    )


def _single(name: str, values: tuple[str, ...]) -> str:
    if len(values) > 1:
        raise ValueError(f'"{name}" may be given once, not {len(values)} times')
    return values[0]


def _number(name: str, value: str, most: int) -> int:
    if not (value.isascii() and value.isdigit() and int(value) <= most):
        raise ValueError(f'"{name}" must be a whole number from 0 to {most}, not "{value}"')
    return int(value)


def _span(name: str, value: str) -> tuple[datetime, datetime]:
    sides = {"from": datetime.min.replace(tzinfo=UTC), "to": datetime.max.replace(tzinfo=UTC)}
    for part in value.split(","):
        side, _, text = part.partition(":")
        try:
            if side not in sides:
                raise ValueError
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(f'"{name}" takes from: and to: with ISO 8601 times, not "{part}"') from None
        sides[side] = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return sides["from"], sides["to"]
