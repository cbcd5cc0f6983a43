"""Typed functions over queries/saved_searches.sql."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from headwater.core.record import record
from headwater.db.changes import MOST_PARKED, MOST_PENDING, ReceiverKind
from headwater.db.items import ContentFilter
from headwater.db.pool import Connection
from headwater.db.sql import query, to_record


@record
class SearchTerms:
    """The conditions of a saved search. A field that is null does not restrict it."""

    words: str
    """In the language of searches."""
    source: str | None = None
    category: str | None = None
    """The category of the source, or one above it."""
    topic: str | None = None
    language: str | None = None
    """The plain code of the document's language, such as `de`."""


@record
class SavedSearch:
    """A search with a name. Receivers watch it, and feeds show it."""

    name: str
    words: str
    source: str | None
    category: str | None
    topic: str | None
    language: str | None
    receivers: int
    """The receivers that get the documents that match."""
    created_at: datetime


@dataclass(frozen=True, slots=True)
class WatchingReceiver:
    """A locked receiver with a search, and the last change that it has passed."""

    id: int
    kind: ReceiverKind
    position: int
    words: str
    only: ContentFilter


async def add_saved_search(connection: Connection, name: str, terms: SearchTerms, now: datetime) -> bool:
    """Add a saved search; return False if its name is taken."""
    return await connection.fetchrow(query("add_saved_search"), name, *_columns(terms), now) is not None


async def change_saved_search(connection: Connection, name: str, terms: SearchTerms) -> bool:
    """Change what a saved search finds; return False if there is none."""
    return await connection.fetchrow(query("change_saved_search"), name, *_columns(terms)) is not None


async def remove_saved_search(connection: Connection, name: str) -> bool:
    """Remove a saved search with its receivers; return False if there is none."""
    return await connection.fetchval(query("remove_saved_search"), name) is not None


async def list_saved_searches(connection: Connection, name: str | None = None) -> list[SavedSearch]:
    """List saved searches by name, all or the one with a name."""
    return [to_record(SavedSearch, row) for row in await connection.fetch(query("list_saved_searches"), name)]


async def find_saved_search_id(connection: Connection, name: str) -> int | None:
    """Return the id of a saved search."""
    value: int | None = await connection.fetchval(query("find_saved_search_id"), name)
    return value


async def lock_watching_receiver(connection: Connection, without: Collection[int]) -> WatchingReceiver | None:
    """Lock the receiver with a search that is most behind and has room, except some. None if there is none."""
    row = await connection.fetchrow(query("lock_watching_receiver"), MOST_PENDING, MOST_PARKED, list(without))
    if row is None:
        return None
    only = ContentFilter(row["source"], row["category"], row["topic"], row["language"])
    return WatchingReceiver(row["id"], ReceiverKind(row["kind"]), row["position"], row["words"], only)


async def next_changed_documents(connection: Connection, after: int, limit: int) -> tuple[int, set[int]]:
    """Return the position of the last of the next changes, and the documents that they are about."""
    rows = await connection.fetch(query("next_changed_documents"), after, limit)
    return max((row["position"] for row in rows), default=after), {row["document_id"] for row in rows} - {None}


async def report_matches(
    connection: Connection, receiver: WatchingReceiver, to: int, matching: Collection[int], now: datetime
) -> int:
    """Make deliveries of the changes up to a position, or keep their documents for the next digest.

    The receiver moves to that position. Return how many there were.
    """
    parameters = (receiver.id, receiver.position, to, list(matching))
    if receiver.kind is ReceiverKind.WEBHOOK:
        made: int = await connection.fetchval(query("report_matches"), *parameters, now)
        return made
    kept: int = await connection.fetchval(query("collect_matches"), *parameters)
    return kept


def _columns(terms: SearchTerms) -> tuple[str | None, ...]:
    return terms.words, terms.source, terms.category, terms.topic, terms.language
