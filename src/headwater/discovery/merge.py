"""How several sightings of one item become one (spec 6.4)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from typing import Any

import msgspec

from headwater.core.source import Item

_canonical = msgspec.json.Encoder(order="sorted").encode
_NEVER = datetime.min.replace(tzinfo=UTC)


def merge_items(items: Sequence[Item]) -> Item:
    """Return what the sightings of one item in one run make, in whatever order they came.

    It is the one updated last, and of several of that time the one with the greatest raw record, with the tags of all.
    """
    by_age = items if len(items) == 1 else sorted(items, key=_age)
    tags: Mapping[str, Any] = reduce(unite_tags, (item.tags for item in by_age), {})
    return replace(by_age[-1], tags=tags)


def _age(item: Item) -> tuple[datetime, bytes]:
    return item.updated_at or _NEVER, _canonical(item.raw)


def unite_tags(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return tags with the lists of both as sorted sets; of all else the new ones count, where they say something."""
    return {name: _unite(old.get(name), new.get(name)) for name in sorted(old.keys() | new.keys())}


def _unite(old: Any, new: Any) -> Any:
    if _is(list | tuple, old, new):
        return _sorted_set([*(old if isinstance(old, list | tuple) else ()), *(new or ())])
    if _is(Mapping, old, new):
        return unite_tags(old if isinstance(old, Mapping) else {}, new or {})
    return old if new is None else new


def _is(sort: Any, old: Any, new: Any) -> bool:
    return isinstance(old if new is None else new, sort)


def _sorted_set(values: Iterable[Any]) -> list[Any]:
    found = {_canonical(value): value for value in values}
    return sorted(found.values(), key=lambda value: (value if isinstance(value, str) else "", _canonical(value)))
