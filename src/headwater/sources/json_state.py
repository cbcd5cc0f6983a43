"""What a kind may keep in `run.state`: JSON values, which come back from the database as they were."""

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason
from headwater.core.text import is_storable

_DEEPEST = 50  # far less than what the encoder and the database bear
_LARGEST = 1024 * 1024  # bytes of JSON; all of it is read and written with each poll
_Path = tuple[Any, ...]


def check_state(source: str, state: dict[str, Any]) -> None:
    """Refuse a memory that cannot be kept, naming the key: another value would come back, or none, or too much.

    Raises HeadwaterError with the reason BAD_SOURCE.
    """
    fault = next(_faults(state, ()), None)
    if fault:
        raise HeadwaterError(
            f"Source {source}: {fault}. A source remembers JSON values only: text, numbers, true, false, null, lists, "
            "and dictionaries with text as keys. Nothing was saved.",
            reason=Reason.BAD_SOURCE,
        )
    if _size(state) > _LARGEST:
        largest = max(state, key=lambda key: _size(state[key]))
        raise HeadwaterError(
            f"Source {source}: run.state takes {_size(state):,} bytes as JSON, most of them {_place((largest,))}. "
            f"A source remembers {_LARGEST:,} bytes at most. Nothing was saved.",
            reason=Reason.BAD_SOURCE,
        )


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))


def _faults(value: Any, path: _Path) -> Iterator[str]:
    """Tell what is wrong in a value, and where."""
    if len(path) > _DEEPEST:
        yield f"{_place(path[:1])} is nested too deeply"
    elif isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                yield f"{_place(path)} has the key {key!r}, which is no text"
            elif not is_storable(key):
                yield f"{_place(path)} has a key with a character that cannot be stored"
            yield from _faults(inner, (*path, key))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _faults(inner, (*path, number))
    elif fault := _fault_of_scalar(value):
        yield f"{_place(path)} {fault}"


def _fault_of_scalar(value: Any) -> str | None:
    if isinstance(value, str):
        return None if is_storable(value) else "has a character that cannot be stored"
    if isinstance(value, float):
        return None if math.isfinite(value) else f"is {value}"
    if isinstance(value, int):
        return None if -(2**63) <= value < 2**63 else "is a number of more than 64 bits"
    return None if value is None else f"is a {type(value).__name__}"


def _place(path: _Path) -> str:
    return "run.state" + "".join(f"[{key!r}]" for key in path)
