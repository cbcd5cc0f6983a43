"""What GOV.UK's search makes of a query string; anything it does not know is refused."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from headwater.demo.govuk_pages import GovukPage

Parameters = Mapping[str, tuple[str, ...]]

_MOST_RESULTS, _LAST_START, _LONGEST_TEXT = 1500, 900_000, 512
_DEFAULT_COUNT = 10
_MISSING = "_MISSING"
_FILTER = re.compile(r"(filter|reject)_(?:(any|all)_)?(.+)")
_BARE_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_UNUSED = "c"  # allowed and without effect, so that caches can be passed by

_TEXTS: Mapping[str, Callable[[GovukPage], tuple[str, ...]]] = {
    "content_id": lambda page: (page.content_id,) if page.content_id else (),
    "content_store_document_type": lambda page: (page.document_type,),
    "document_type": lambda page: (page.index_type,),
    "elasticsearch_type": lambda page: (page.index_type,),
    "format": lambda page: (page.document_type,),
    "link": lambda page: (page.link,),
    "organisations": lambda page: tuple(organisation.slug for organisation in page.organisations),
    "taxons": lambda page: page.taxons,
}
_DATES: Mapping[str, Callable[[GovukPage], datetime | None]] = {
    "first_published_at": lambda page: page.first_published_at,
    "public_timestamp": lambda page: page.public_timestamp,
    "updated_at": lambda page: page.updated_at,
}


def _nothing(_page: GovukPage) -> None:
    return None


_ORDERS: Mapping[str, Callable[[GovukPage], datetime | str | float | None]] = {
    "public_timestamp": lambda page: page.public_timestamp,
    "title": lambda page: page.title.casefold(),
    "popularity": lambda page: page.popularity,
    **dict.fromkeys(
        (
            "assessment_date",
            "closing_date",
            "end_date",
            "ordering",
            "release_timestamp",
            "start_date",
            "tribunal_decision_decision_date",
        ),
        _nothing,
    ),
}


class Refused(Exception):
    """A query that is answered by a 422; the text is its error."""


@dataclass(frozen=True, slots=True)
class Order:
    """By what results are sorted."""

    value: Callable[[GovukPage], datetime | str | float | None]
    descending: bool


BY_POPULARITY = Order(_ORDERS["popularity"], descending=True)


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of search. `fields` None: the default ones."""

    start: int
    count: int
    text: str | None
    order: Order | None
    fields: tuple[str, ...] | None
    filters: tuple[Callable[[GovukPage], bool], ...]

    def finds(self, page: GovukPage) -> bool:
        """Tell whether a page is among the results."""
        if self.text is not None and self.text.casefold() not in page.title.casefold():
            return False
        return all(keeps(page) for keeps in self.filters)


def read_query(parameters: Parameters, known_fields: frozenset[str]) -> Query:
    """Read a query, or raise Refused with all that is wrong with it."""
    reader = _Reader(parameters)
    query = Query(
        start=reader.number("start", 0, _LAST_START),
        count=reader.number("count", _DEFAULT_COUNT, _MOST_RESULTS),
        text=reader.text(),
        order=reader.order(),
        fields=reader.fields(known_fields),
        filters=reader.filters(),
    )
    reader.refuse()
    return query


class _Reader:
    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.used = {_UNUSED}
        self.errors: list[str] = []

    def refuse(self) -> None:
        if unexpected := [name for name in self.parameters if name not in self.used]:
            self.errors.append(f"Unexpected parameters: {', '.join(unexpected)}")
        if self.errors:
            raise Refused(". ".join(self.errors))

    def single(self, name: str) -> str | None:
        self.used.add(name)
        values = self.parameters.get(name, ())
        if len(values) > 1:
            self.errors.append(f'"{name}" may be given once, not {len(values)} times')
        return values[0] if values else None

    def number(self, name: str, default: int, most: int) -> int:
        value = self.single(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdigit()):
            self.errors.append(f'"{name}" must be a whole number that is not negative, not "{value}"')
            return default
        if int(value) > most:
            self.errors.append(f'"{name}" must not be greater than {most}')
            return default
        return int(value)

    def text(self) -> str | None:
        text = (self.single("q") or "").strip()
        if len(text) > _LONGEST_TEXT:
            self.errors.append(f'"q" must not be longer than {_LONGEST_TEXT} characters')
        return text or None

    def order(self) -> Order | None:
        value = self.single("order")
        if value is None:
            return None
        field = value.removeprefix("-")
        if field not in _ORDERS:
            self.errors.append(f'Results cannot be sorted by "{field}"')
            return None
        return Order(_ORDERS[field], descending=value.startswith("-"))

    def fields(self, known: frozenset[str]) -> tuple[str, ...] | None:
        self.used.add("fields")
        asked = tuple(field for value in self.parameters.get("fields", ()) for field in value.split(",") if field)
        if unknown := [field for field in asked if field not in known]:
            self.errors.append(f"No such fields are returned: {', '.join(unknown)}")
        return asked or None

    def filters(self) -> tuple[Callable[[GovukPage], bool], ...]:
        matches = [match for name in self.parameters if (match := _FILTER.fullmatch(name))]
        return tuple(keeps for match in matches if (keeps := self.filter(match)) is not None)

    def filter(self, match: re.Match[str]) -> Callable[[GovukPage], bool] | None:
        name, (operation, which, field) = match[0], match.groups()
        self.used.add(name)
        values = [value for value in self.parameters[name] if value != _MISSING]
        or_missing = len(values) < len(self.parameters[name])
        hits: Callable[[GovukPage], bool]
        if field in _TEXTS:
            hits = _TextFilter(_TEXTS[field], frozenset(values), or_missing, every=which == "all").hits
        elif field in _DATES:
            hits = _DateFilter(_DATES[field], self.span(name, values), or_missing).hits
        else:
            self.errors.append(f'There is no {operation} by "{field}"')
            return None
        return hits if operation == "filter" else lambda page: not hits(page)

    def span(self, name: str, values: list[str]) -> tuple[datetime, datetime] | None:
        if len(values) > 1:
            self.errors.append(f'"{name}" may be given once, not {len(values)} times')
        if not values:
            return None
        sides = {"from": datetime.min.replace(tzinfo=UTC), "to": datetime.max.replace(tzinfo=UTC)}
        for part in values[0].split(","):
            side, _, moment = part.partition(":")
            try:
                if side not in sides:
                    raise ValueError
                sides[side] = _moment(moment, is_end=side == "to")
            except ValueError:
                self.errors.append(f'"{name}" takes from: and to: with ISO 8601 dates, not "{part}"')
        return sides["from"], sides["to"]


@dataclass(frozen=True, slots=True)
class _TextFilter:
    values: Callable[[GovukPage], tuple[str, ...]]
    wanted: frozenset[str]
    or_missing: bool
    every: bool

    def hits(self, page: GovukPage) -> bool:
        values = self.values(page)
        if not values:
            return self.or_missing
        found = self.wanted.intersection(values)
        return bool(found) and (found == self.wanted or not self.every)


@dataclass(frozen=True, slots=True)
class _DateFilter:
    value: Callable[[GovukPage], datetime | None]
    span: tuple[datetime, datetime] | None  # with both its ends; None: only what has no value is asked for
    or_missing: bool

    def hits(self, page: GovukPage) -> bool:
        moment = self.value(page)
        if moment is None:
            return self.or_missing
        return self.span is not None and self.span[0] <= moment <= self.span[1]


def _moment(text: str, *, is_end: bool) -> datetime:
    if _BARE_DATE.fullmatch(text):
        return datetime.combine(date.fromisoformat(text), time(23, 59, 59) if is_end else time(), UTC)
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
