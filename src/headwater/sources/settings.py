"""A source's settings as people give them: checked before anything is saved, told by source and field."""

from collections.abc import Collection, Mapping
from typing import Any

from headwater.core.errors import InvalidURL, OperatorError
from headwater.core.reasons import Reason
from headwater.core.source import Source
from headwater.core.text import is_storable
from headwater.core.url_input import redact
from headwater.core.urls import normalize_url
from headwater.db import sources
from headwater.db.pool import Connection
from headwater.sources.kind import Kind
from headwater.sources.registry import configure


def prepare(name: str, kind: str, settings: Mapping[str, Any]) -> tuple[Kind, dict[str, Any]]:
    """Return a source's kind, configured, and its settings as they are kept; refuse what cannot work."""
    kept = dict(settings)
    for field, value in kept.items():
        if not _holds_only_storable((field, value)):
            raise OperatorError(
                f"Source {redact(name)}: {redact(field)}: has a character that no text can hold.",
                reason=Reason.BAD_SOURCE,
            )
    if isinstance(address := kept.get("feed_url"), str):
        try:
            kept["feed_url"] = normalize_url(address, keep_trailing_slash=True)
        except InvalidURL as error:
            raise OperatorError(f"Source {redact(name)}: feed_url: {error}", reason=Reason.BAD_SOURCE) from None
    return configure(name, kind, kept), kept


def unknown(name: str) -> OperatorError:
    """Say that there is no such source."""
    return OperatorError(
        f"There is no source named {redact(name)}; `headwater source list` lists them.",
        reason=Reason.UNKNOWN_SOURCE,
    )


def _holds_only_storable(value: Any) -> bool:
    if isinstance(value, str):
        return is_storable(value)
    if isinstance(value, Mapping):
        return all(map(_holds_only_storable, value.items()))
    return all(map(_holds_only_storable, value)) if isinstance(value, list | tuple) else True


async def require_unread(connection: Connection, settings: Mapping[str, Any]) -> None:
    """Refuse a feed that another source reads."""
    feed_url = settings.get("feed_url")
    known = await sources.find_feed_owner(connection, feed_url) if isinstance(feed_url, str) else None
    if known:
        raise OperatorError(f"{feed_url} is read by source {known} already.", reason=Reason.SOURCE_EXISTS)


async def save_fetch_profile(connection: Connection, source: Source, kind: Kind) -> None:
    """Let the pages of a source be asked for and read by its settings as they are now, before it is polled again."""
    profile = sources.fetch_profile_json(kind.fetch_profile(source.name), kind.gap, kind.selectors.given())
    await sources.save_fetch_profile(connection, source.id, profile)


def require_set(source: Source, changes: Mapping[str, Any], unset: Collection[str]) -> None:
    """Refuse to take back what was not set."""
    for field in unset:
        if field in changes:
            raise OperatorError(
                f"Source {source.name}: {redact(field)}: cannot be set and unset at once.",
                reason=Reason.BAD_REQUEST,
            )
        if field not in source.settings:
            is_set = ", ".join(sorted(source.settings)) or "nothing"
            raise OperatorError(
                f"Source {source.name}: {redact(field)}: is not set; set is {is_set}.", reason=Reason.BAD_REQUEST
            )
