"""Parsers of setting values. Each takes a value from the environment or the file.

A parser returns the value, or raises a ValueError whose text continues the name of the setting ("must be ...").
"""

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from headwater.core.access import check_token
from headwater.core.dates import check_timezone
from headwater.core.text import is_address
from headwater.core.url_input import is_mail_address

T = TypeVar("T", int, float)
_HOST_NAME = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")


def text(raw: object) -> str:
    """Parse text, without the space around it."""
    if not isinstance(raw, str):
        raise ValueError("must be text")
    return raw.strip()


def whole(low: int, high: int) -> Callable[[object], int]:
    """Return a parser of whole numbers from `low` to `high`."""
    return lambda raw: _parse_number(raw, int, low, high, "a whole number")


def number(low: float, high: float) -> Callable[[object], float]:
    """Return a parser of numbers from `low` to `high`."""
    return lambda raw: _parse_number(raw, float, low, high, "a number")


def _parse_number(raw: object, convert: Callable[[float | str], T], low: T, high: T, what: str) -> T:
    try:
        if isinstance(raw, bool) or not isinstance(raw, (int, str) if convert is int else (int, float, str)):
            raise ValueError
        value = convert(raw)
    except ValueError:
        raise ValueError(f"must be {what} from {low} to {high}") from None
    if not low <= value <= high:
        raise ValueError(f"must be from {low} to {high}")
    return value


def one_of(*choices: str) -> Callable[[object], str]:
    """Return a parser of these words, in any case."""

    def parse(raw: object) -> str:
        value = text(raw).lower()
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return value

    return parse


def folder(raw: object) -> Path:
    """Parse the path of a folder. The folder need not exist."""
    value = text(raw)
    if not value:
        raise ValueError("must name a folder")
    return Path(value).expanduser().absolute()


def database_url(raw: object) -> str:
    """Parse the address of a PostgreSQL server, or an empty text."""
    value = text(raw)
    if value and not value.startswith(("postgresql://", "postgres://")):
        raise ValueError("must start with postgresql://")
    return value


def redis_url(raw: object) -> str:
    """Parse the address of a Redis server, or an empty text."""
    value = text(raw)
    if not value:
        return value
    if not value.startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("must start with redis://, rediss:// (with TLS) or unix://")
    try:
        parts = urlsplit(value)
        is_valid = parts.scheme == "unix" or ((parts.port or 0) >= 0 and re.fullmatch(r"/?\d*", parts.path))
    except ValueError:
        is_valid = None
    if not is_valid:
        raise ValueError("must be as redis://user:password@host:port/0, with @ in a password as %40 and / as %2F")
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        if name != "db" and not name.startswith("ssl_"):
            raise ValueError(f"has the parameter {name[:40]!r}; db and those of TLS (ssl_...) can be given")
    return value


def search_url(raw: object) -> str:
    """Parse the address of an Elasticsearch or OpenSearch server, or an empty text."""
    value = text(raw)
    if not value:
        return value
    try:
        parts = urlsplit(value)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 0) >= 0
    except ValueError:
        is_valid = False
    if not is_valid or parts.query or parts.fragment:
        raise ValueError("must be as https://user:password@host:port, with @ in a password as %40 and / as %2F")
    return value


def smtp_url(raw: object) -> str:
    """Parse the address of a mail server, or an empty text."""
    value = text(raw)
    if not value:
        return value
    try:
        parts = urlsplit(value)
        is_valid = parts.scheme in ("smtp", "smtps", "smtp+plain") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_valid = False
    if is_valid and not unquote(f"{parts.username or ''}{parts.password or ''}").isascii():
        raise ValueError("must have a user and a password in ASCII")
    if not is_valid or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("must be as smtp://user:password@host:587, with @ in a password as %40 and / as %2F")
    return value


def mail_address(raw: object) -> str:
    """Parse an address of a mailbox."""
    value = text(raw)
    if not is_mail_address(value):
        raise ValueError("must be an address such as headwater@example.org")
    return value


def timezone(raw: object) -> str:
    """Parse the name of a time zone."""
    value = text(raw)
    check_timezone(value)
    return value


def parts(raw: object) -> list[str]:
    """Parse a list, or text with commas."""
    given = raw if isinstance(raw, list | tuple) else text(raw).split(",")
    return [text(part) for part in given if text(part)]


def networks(raw: object) -> tuple[str, ...]:
    """Parse a list of networks."""
    for part in parts(raw):
        try:
            ipaddress.ip_network(part)
        except ValueError as error:
            raise ValueError(f"{part!r} is not a network such as 10.0.0.0/8 ({error})") from None
    return tuple(parts(raw))


def api_token(raw: object) -> str:
    """Parse an API token, or an empty text."""
    value = text(raw)
    return check_token(value) if value else value


def hosts(raw: object) -> tuple[str, ...]:
    """Parse a list of host names and addresses, without ports."""
    names = [part.lower().rstrip(".").strip("[]") for part in parts(raw)]
    for name in names:
        if not _HOST_NAME.fullmatch(name) and not is_address(name):
            raise ValueError(f"{name!r} is not a host name such as headwater.example.org, or an address without a port")
    return tuple(names)


def api_key(raw: object) -> str:
    """Parse a key for api.data.gov, or an empty text."""
    value = text(raw)
    if not re.fullmatch("[!-~]*", value):
        raise ValueError("must be one word, as https://api.data.gov/signup/ shows it")
    return value
