"""JSON values: read from a body, cleaned for the database, and converted from and to dataclasses."""

import math
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from headwater.core.errors import Unreadable
from headwater.core.text import clean

_MAX_DEPTH = 20
_INTEGER_LIMIT = 2**63  # PostgreSQL's bigint


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

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields


def parse_json(body: bytes) -> Any:
    """Parse a JSON body. Raises Unreadable if it is not JSON, such as an error page with a JSON content type."""
    try:
        return msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        start = body[:80].decode("utf-8", "replace")
        raise Unreadable(f"The body is not JSON ({error}). It begins with {start!r}.") from None


def copy_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deep copy of a JSON object."""
    copied: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return copied


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
