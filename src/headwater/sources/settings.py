"""A source's settings as people give them: checked before anything is saved, told by source and field."""

from collections.abc import Collection, Mapping
from typing import Any

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.core.source import Source
from headwater.core.url_input import redact
from headwater.db import sources
from headwater.db.pool import Connection
from headwater.sources.kind import Kind


def unknown(name: str) -> OperatorError:
    """Say that there is no such source."""
    return OperatorError(
        f"There is no source named {redact(name)}; `headwater source list` lists them.",
        reason=Reason.UNKNOWN_SOURCE,
    )


async def require_unread(connection: Connection, settings: Mapping[str, Any]) -> None:
    """Refuse a feed that another source reads."""
    feed_url = settings.get("feed_url")
    known = await sources.find_feed_owner(connection, feed_url) if isinstance(feed_url, str) else None
    if known:
        raise OperatorError(f"{feed_url} is read by source {known} already.", reason=Reason.SOURCE_EXISTS)


async def save_fetch_profile(connection: Connection, source: Source, kind: Kind) -> None:
    """Let the pages of a source be asked for and read by its settings as they are now, before it is polled again."""
    profile = kind.fetch_profile_json(source.name)
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
