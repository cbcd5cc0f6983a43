"""Typed functions over queries/search_index.sql."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.db.pool import Connection
from headwater.db.sql import query


@record
class IndexState:
    """The state of the index of documents in Elasticsearch or OpenSearch."""

    generation: int
    current: str | None
    """The index that the alias points at. Null until the first one is built."""
    building: str | None
    """The index that is being built."""
    built_to: int
    """The last document in it."""
    retired: str | None
    """The index before, which is removed soon."""
    retired_at: datetime | None
    failures: int
    """The failed requests in a row."""
    not_before: datetime | None
    error: str | None
    """The last failure."""

    @property
    def targets(self) -> list[str]:
        """The indexes that get all changes."""
        return [name for name in (self.current, self.building) if name is not None]


class QueuedChange(NamedTuple):
    """A changed document that was claimed."""

    document_id: int
    version: int
    attempts: int


class IndexedDocument(NamedTuple):
    """A document as it is in the index."""

    id: int
    version: int
    url: str
    host: str
    source: str
    source_id: int
    title: str
    byline: str | None
    language: str | None
    region: str | None
    published_at: datetime | None
    updated_at: datetime | None
    fetched_at: datetime
    canonical_url: str | None
    image: str | None
    abstract: str | None
    revision: int
    content_hash: str
    text: str
    dated_at: datetime
    topics: Sequence[str]
    titles: Sequence[str]
    """The stems of title and byline, each with its positions. The configuration has none."""
    words: Sequence[str]


@record
class ParkedDocument:
    """A document that the index refused."""

    document_id: int
    url: str | None
    detail: str | None


class IndexBacklog(NamedTuple):
    """Changes that the index has not, each counted up to some thousands."""

    waiting: int
    parked: int


async def get_state(connection: Connection) -> IndexState | None:
    """Return the state of the index. None if none was ever begun."""
    row = await connection.fetchrow(query("get_search_index"))
    return IndexState(**row) if row else None


async def begin_index(connection: Connection, name: str) -> None:
    """Begin to build an index, unless one is being built. All later changes are queued. Call it in a transaction."""
    if await get_state(connection) is None:
        await connection.execute(query("lock_documents"))
    await connection.execute(query("begin_index"), name)


async def next_ids(connection: Connection, after: int, limit: int) -> list[int]:
    """Return the ids of the next documents."""
    return [row["id"] for row in await connection.fetch(query("ids_to_build"), after, limit)]


async def save_built_to(connection: Connection, building: str, before: int, after: int) -> None:
    """Save that an index has all documents up to an id, if it had those up to `before`."""
    await connection.execute(query("save_built_to"), building, before, after)


async def end_index(connection: Connection, name: str, now: datetime) -> None:
    """Save that the alias points at the index that was built."""
    await connection.execute(query("end_index"), name, now)


async def forget_retired(connection: Connection, name: str) -> None:
    """Save that an index was removed."""
    await connection.execute(query("forget_retired"), name)


async def save_success(connection: Connection) -> None:
    """Save that the index answers again."""
    await connection.execute(query("save_index_success"))


async def save_failure(connection: Connection, error: str, not_before: datetime) -> None:
    """Save a failed request, and when the next one may be sent."""
    await connection.execute(query("save_index_failure"), error, not_before)


async def claim_changes(connection: Connection, now: datetime, until: datetime, limit: int) -> list[QueuedChange]:
    """Claim due changes."""
    rows = await connection.fetch(query("claim_index_changes"), now, until, limit)
    return [QueuedChange(*row) for row in rows]


async def end_changes(connection: Connection, versions: Mapping[int, int]) -> None:
    """Remove the changes of documents, given with the versions that the index has."""
    await connection.execute(query("end_index_changes"), list(versions), list(versions.values()))


async def put_off_changes(connection: Connection, changes: Collection[QueuedChange], due_at: datetime) -> None:
    """Put changes off."""
    ids, versions = [one.document_id for one in changes], [one.version for one in changes]
    await connection.execute(query("put_off_index_changes"), ids, versions, due_at)


async def park_changes(connection: Connection, refused: Mapping[int, tuple[int, str]], reason: Reason) -> None:
    """Park documents, given with the versions and the answers of the index."""
    versions, details = [version for version, _ in refused.values()], [detail for _, detail in refused.values()]
    await connection.execute(query("park_index_changes"), list(refused), versions, details, str(reason))


async def retry_parked(connection: Connection) -> None:
    """Send parked documents again."""
    await connection.execute(query("retry_parked_index_changes"))


async def get_documents(connection: Connection, ids: Collection[int]) -> list[IndexedDocument]:
    """Return documents as they are in the index."""
    return [IndexedDocument(**row) for row in await connection.fetch(query("documents_for_index"), list(ids))]


async def count_changes(connection: Connection, count_to: int) -> IndexBacklog:
    """Count waiting and parked changes, each up to a number."""
    row = await connection.fetchrow(query("count_index_changes"), count_to)
    assert row is not None
    return IndexBacklog(**row)


async def list_parked(connection: Connection, limit: int) -> list[ParkedDocument]:
    """Return parked documents, the oldest first."""
    return [ParkedDocument(**row) for row in await connection.fetch(query("list_parked"), limit)]
