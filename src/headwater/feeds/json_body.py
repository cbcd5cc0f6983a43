"""JSON as APIs send it."""

from typing import Any

import msgspec

from headwater.core.errors import Unreadable


def parse_json(body: bytes) -> Any:
    """Return what a JSON body holds; an error page under a JSON type is no JSON, whatever its status."""
    try:
        return msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        start = body[:80].decode("utf-8", "replace")
        raise Unreadable(f"The body is not JSON ({error}); it begins with {start!r}.") from None
