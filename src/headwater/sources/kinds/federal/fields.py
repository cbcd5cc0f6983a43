"""Fields of records that others wrote."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from headwater.core.dates import bounds
from headwater.core.errors import InvalidURL
from headwater.core.text import one_line
from headwater.core.urls import normalize_url

HOME = "America/New_York"


def text(record: Mapping[str, Any], name: str) -> str:
    """Return a field as one line, empty where it is no text."""
    value = record.get(name)
    return one_line(value) if isinstance(value, str) else ""


def inner(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the record in a field, empty where it is none."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def inners(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the records in a field, none where it is no list."""
    value = record.get(name)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def day(record: Mapping[str, Any], name: str) -> date | None:
    """Return the day that a field begins with."""
    try:
        return date.fromisoformat(text(record, name)[: len("2026-01-15")])
    except ValueError:
        return None


def midnight(record: Mapping[str, Any], name: str, timezone: str | None) -> datetime | None:
    """Return the midnight that the day in a field begins with, where the source is at home."""
    found = day(record, name)
    return bounds(found, timezone or HOME)[0] if found and date.min < found < date.max else None


def check_address(name: str, url: str) -> None:
    """Refuse, with a ValueError that names the setting, what is no address."""
    try:
        normalize_url(url)
    except InvalidURL as error:
        raise ValueError(f"{name}: {str(error).rstrip('.')}") from None
