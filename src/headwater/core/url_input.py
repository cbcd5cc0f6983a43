"""What people hand in, before it is known to be an address: what can never be one, and how it may be shown."""

import re

_CREDENTIALS = re.compile(r"^(\s*[a-z][a-z0-9+.-]*:/{0,2})?.*@", re.IGNORECASE | re.DOTALL)
_SHOWN_CHARACTERS = 200


def why_unusable(text: str) -> str | None:
    """Tell why a text cannot be stored, whatever it says; None: it can."""
    if "\0" in text:
        return "The address contains a NUL character."
    try:
        text.encode()
    except UnicodeEncodeError:
        return "The address is not UTF-8."
    return None


def presentable(text: str) -> str:
    """Return a text so that it can be repeated to whoever gave it and to logs: no password, no bytes, not endless."""
    shown = _CREDENTIALS.sub(r"\1***@", text.encode(errors="backslashreplace").decode())
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}…"
