"""Checks of what a kind yields and remembers. Runs, trials and golden pairs use them before anything is saved."""

import math
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

import msgspec

from headwater.core.errors import HeadwaterError, StorageFailed
from headwater.core.reasons import Reason
from headwater.core.source import Item
from headwater.core.text import is_storable
from headwater.sources.kind import Kind
from headwater.storage.folder import raw_path

_MAX_DEPTH = 50  # the encoder and the database allow far more
_MAX_BYTES = 1024 * 1024  # of JSON; each poll reads and writes the whole state
_Path = tuple[Any, ...]


def check_item(source: str, kind: Kind, item: Item) -> str | None:
    """Return the normalized path of the raw bytes of an item's page, or None if the kind gives none.

    Raises HeadwaterError, with the field, if the item cannot be saved.
    """
    for name, value in (("published_at", item.published_at), ("updated_at", item.updated_at)):
        if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
            raise _bad_item(source, f"{name}: must be a datetime with a time zone, not {value!r}.", item.url)
    subpath = kind.partition(item)
    if subpath is None:
        return None
    if not isinstance(subpath, str):
        raise _bad_item(source, f"partition: must return text or None, not {subpath!r}.", item.url)
    try:
        raw_path(source, subpath)
    except StorageFailed as error:
        raise _bad_item(source, f"partition: {error}", item.url) from None
    return str(PurePosixPath(subpath))


def refuse_shared_paths(source: str, items: Iterable[tuple[Item, str | None]]) -> None:
    """Refuse two pages whose raw bytes have the same path, or one path below the other.

    The second file would replace the first, or would need it as a folder.
    """
    paths = [(item.url, subpath) for item, subpath in items if subpath is not None]
    owners: dict[str, str] = {}
    for url, subpath in paths:
        if owners.setdefault(subpath, url) != url:
            raise _bad_item(source, f"partition: {subpath!r} is given to {owners[subpath]} and to {url}.", url)
    for url, subpath in paths:
        for folder in map(str, PurePosixPath(subpath).parents):
            if owners.get(folder, url) != url:
                both = f"{folder!r} is given to {owners[folder]}, and {subpath!r} to {url}"
                raise _bad_item(source, f"partition: {both}, which would need it as a folder.", url)


def _bad_item(source: str, what: str, url: str) -> HeadwaterError:
    return HeadwaterError(f"Source {source}: {what}", reason=Reason.BAD_SOURCE, url=url)


def check_state(source: str, state: dict[str, Any]) -> None:
    """Refuse a state that the database cannot return as it is, or that is too large.

    Raises HeadwaterError with the reason BAD_SOURCE.
    """
    fault = next(_find_faults(state, ()), None)
    if fault:
        raise HeadwaterError(
            f"Source {source}: {fault}. A source remembers JSON values only: text, numbers, true, false, null, lists, "
            "and dictionaries with text as keys. Nothing was saved.",
            reason=Reason.BAD_SOURCE,
        )
    if _count_bytes(state) > _MAX_BYTES:
        largest = max(state, key=lambda key: _count_bytes(state[key]))
        raise HeadwaterError(
            f"Source {source}: run.state takes {_count_bytes(state):,} bytes as JSON, most of them "
            f"{_format_path((largest,))}. A source remembers {_MAX_BYTES:,} bytes at most. Nothing was saved.",
            reason=Reason.BAD_SOURCE,
        )


def _count_bytes(value: Any) -> int:
    return len(msgspec.json.encode(value))


def _find_faults(value: Any, path: _Path) -> Iterator[str]:
    if len(path) > _MAX_DEPTH:
        yield f"{_format_path(path[:1])} is nested too deeply"
    elif isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                yield f"{_format_path(path)} has the key {key!r}, which is no text"
            elif not is_storable(key):
                yield f"{_format_path(path)} has a key with a character that cannot be stored"
            yield from _find_faults(inner, (*path, key))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _find_faults(inner, (*path, number))
    elif fault := _find_scalar_fault(value):
        yield f"{_format_path(path)} {fault}"


def _find_scalar_fault(value: Any) -> str | None:
    if isinstance(value, str):
        return None if is_storable(value) else "has a character that cannot be stored"
    if isinstance(value, float):
        return None if math.isfinite(value) else f"is {value}"
    if isinstance(value, int):
        return None if -(2**63) <= value < 2**63 else "is a number of more than 64 bits"
    return None if value is None else f"is a {type(value).__name__}"


def _format_path(path: _Path) -> str:
    return "run.state" + "".join(f"[{key!r}]" for key in path)
