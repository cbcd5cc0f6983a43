"""Text that a person or a program hands in as an address: whether it can be stored, and how messages show it."""

import re

_CREDENTIALS = re.compile(r"^(\s*[a-z][a-z0-9+.-]*:/{0,2})?.*@", re.IGNORECASE | re.DOTALL)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
_MAIL_ADDRESS = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@"
    r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*"
)
_MAX_MAIL_LENGTH = 254
_MAX_LENGTH = 200
_MAX_ADDRESS_LENGTH = 8192  # urls.py has the same limit


def is_mail_address(text: str) -> bool:
    """Return whether a text is the address of one mailbox, in ASCII and without a name."""
    return len(text) <= _MAX_MAIL_LENGTH and _MAIL_ADDRESS.fullmatch(text) is not None


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
    """Return a text as messages and logs may show it: without credentials, encodable.

    An address stays whole. Of other texts and of endless ones, 200 characters stay.
    """
    shown = _CREDENTIALS.sub(r"\1***@", text.encode(errors="backslashreplace").decode())
    is_whole = len(shown) <= _MAX_LENGTH or (len(shown) <= _MAX_ADDRESS_LENGTH and _ADDRESS.fullmatch(shown))
    return shown if is_whole else f"{shown[:_MAX_LENGTH]}…"
