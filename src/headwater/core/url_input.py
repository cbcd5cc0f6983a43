"""Text that a person or a program hands in as an address: whether it can be stored, and how messages show it."""

import re

_CREDENTIALS = re.compile(r"^(\s*[a-z][a-z0-9+.-]*:/{0,2})?.*@", re.IGNORECASE | re.DOTALL)
_MAX_LENGTH = 200


def explain_unstorable(text: str) -> str | None:
    """Return why the database cannot store a text as an address, or None if it can."""
    if "\0" in text:
        return "The address contains a NUL character."
    try:
        text.encode()
    except UnicodeEncodeError:
        return "The address is not UTF-8."
    return None


def redact(text: str) -> str:
    """Return a text as messages and logs may show it: without credentials, encodable, at most 200 characters."""
    shown = _CREDENTIALS.sub(r"\1***@", text.encode(errors="backslashreplace").decode())
    return shown if len(shown) <= _MAX_LENGTH else f"{shown[:_MAX_LENGTH]}…"
