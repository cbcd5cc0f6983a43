"""JSON values: read from a body, checked or cleaned for the database, and converted from and to dataclasses."""

import math
import re
from collections.abc import Mapping
from typing import Any, Self, TypeAlias

import msgspec

from headwater.core.errors import HeadwaterError, Unreadable
from headwater.core.reasons import Reason
from headwater.core.text import clean, is_storable

JsonObject: TypeAlias = dict[str, Any]
_MAX_DEPTH = 20
_INTEGER_LIMIT = 2**63  # PostgreSQL's bigint
_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_MAX_STATE_DEPTH = 50  # the encoder and the database allow far more
_MAX_STATE_BYTES = 1024 * 1024  # as JSON; each poll reads and writes the whole state


class JsonState:
    """A dataclass that is saved as JSON between two polls."""

    __slots__ = ()

    @classmethod
    def from_json(cls, stored: object) -> Self | None:
        """Read one from JSON. Returns None if the JSON does not have the right shape."""
        if stored is None:  # the usual case; msgspec takes long to build an error message
            return None
        try:
            return msgspec.convert(stored, cls)
        except msgspec.ValidationError:
            return None

    def to_json(self) -> JsonObject:
        """Return the fields as JSON values."""
        fields: JsonObject = msgspec.to_builtins(self)
        return fields


def parse_json(body: bytes) -> Any:
    """Parse a JSON body. Raises Unreadable if it is not JSON, such as an error page with a JSON content type.

    A number of more than 64 bits becomes a float, because neither the database nor a sandbox can return it.
    """
    text = body.removeprefix(b"\xef\xbb\xbf")
    try:
        value = msgspec.json.decode(text)
        return _replace_large_numbers(value) if _LONG_NUMBER.search(text) else value
    except (msgspec.DecodeError, OverflowError, RecursionError, UnicodeDecodeError) as error:
        start = body[:80].decode("utf-8", "replace")
        raise Unreadable(f"The body is not JSON ({error}). It begins with {start!r}.") from None


def _replace_large_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _replace_large_numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_replace_large_numbers(inner) for inner in value]
    is_large = isinstance(value, int) and not -_INTEGER_LIMIT <= value < _INTEGER_LIMIT
    return float(value) if is_large else value


def check_state(source: str, state: Mapping[str, Any]) -> None:
    """Refuse a state that the database cannot return as it is, or that is too large.

    Raises HeadwaterError with the reason BAD_SOURCE.
    """
    if fault := _find_fault(state, ()):
        raise HeadwaterError(
            f"Source {source}: {fault}. A source remembers JSON values only: text, numbers, true, false, null, lists, "
            "and dictionaries with text as keys. Nothing was saved.",
            reason=Reason.BAD_SOURCE,
        )
    size = len(msgspec.json.encode(state))
    if size > _MAX_STATE_BYTES:
        largest = max(state, key=lambda key: len(msgspec.json.encode(state[key])))
        raise HeadwaterError(
            f"Source {source}: run.state takes {size:,} bytes as JSON, most of them {_format_path((largest,))}. A "
            f"source remembers {_MAX_STATE_BYTES:,} bytes at most. Nothing was saved.",
            reason=Reason.BAD_SOURCE,
        )


def _find_fault(value: Any, path: tuple[Any, ...]) -> str | None:
    fault: str | None = None
    if isinstance(value, str):
        fault = None if is_storable(value) else "has a character that cannot be stored"
    elif isinstance(value, float):
        fault = None if math.isfinite(value) else f"is {value}"
    elif isinstance(value, int):
        fault = None if -_INTEGER_LIMIT <= value < _INTEGER_LIMIT else "is a number of more than 64 bits"
    elif len(path) > _MAX_STATE_DEPTH:
        path, fault = path[:1], "is nested too deeply"
    elif isinstance(value, dict):
        if odd := [key for key in value if not isinstance(key, str)]:
            fault = f"has the key {odd[0]!r}, which is no text"
        elif not all(map(is_storable, value)):
            fault = "has a key with a character that cannot be stored"
        else:
            return next(filter(None, (_find_fault(inner, (*path, key)) for key, inner in value.items())), None)
    elif isinstance(value, list | tuple):
        return next(filter(None, (_find_fault(inner, (*path, key)) for key, inner in enumerate(value))), None)
    elif value is not None:
        fault = f"is a {type(value).__name__}"
    return f"{_format_path(path)} {fault}" if fault else None


def _format_path(path: tuple[Any, ...]) -> str:
    return "run.state" + "".join(f"[{key!r}]" for key in path)


def clean_json(value: Any, depth: int = 0) -> Any:
    """Return a JSON value that PostgreSQL accepts.

    Texts are cleaned. A value that is nested too deep, a number over 64 bits, NaN and infinity become None.
    """
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(name)): clean_json(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list):
        return [clean_json(inner, depth + 1) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if -_INTEGER_LIMIT <= value < _INTEGER_LIMIT else None
    return value
