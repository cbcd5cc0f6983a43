"""Typed functions over queries/stories.sql, and the records that they return."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from headwater.core.record import record
from headwater.db.pool import Connection
from headwater.db.sql import query


class StoryState(NamedTuple):
    """How far the stories are, and the version of the function that made their signatures."""

    position: int
    version: int


class ComparedDocument(NamedTuple):
    """All of a document that its signature depends on."""

    id: int
    title: str
    text: str
    host: str
    published_at: datetime | None


class StoryRow(NamedTuple):
    """A document, its story, and the earlier documents that it is linked to."""

    document_id: int
    story_id: int
    links: list[int]
    signature: bytes


class LinkedDocument(NamedTuple):
    """The links of a document, and its signature."""

    document_id: int
    links: list[int]
    signature: bytes


class MemberRow(NamedTuple):
    """A document of a story."""

    id: int
    url: str
    source: str
    title: str
    language: str | None
    region: str | None
    dated_at: datetime
    fetched_at: datetime
    signature: bytes


@record
class StoryLine:
    """A story of two documents or more."""

    id: int
    """The first document of it that was stored."""
    title: str
    documents: int
    """The number of its documents, counted up to 100."""
    sources: int
    """The number of their sources."""
    since: datetime
    """The date of its oldest document."""
    last_document: int
    """The last document that was stored."""


@record
class StoryMember:
    """A document of a story, in short."""

    id: int
    title: str
    url: str
    source: str


@record
class DocumentStory:
    """The story that a document belongs to."""

    document_id: int
    story_id: int
    documents: int
    """The number of documents of the story, counted up to 100."""
    others: list[StoryMember]
    """Up to five other documents of it: those that were stored first."""


async def lock_state(connection: Connection) -> StoryState | None:
    """Lock the stories until the transaction ends. None if another transaction has locked them."""
    row = await connection.fetchrow(query("lock_story_state"))
    return StoryState(*row) if row else None


async def get_state(connection: Connection) -> StoryState:
    """Return how far the stories are."""
    row = await connection.fetchrow(query("get_story_state"))
    assert row is not None
    return StoryState(*row)


async def save_position(connection: Connection, position: int) -> None:
    """Save that all changes up to a position are in the stories."""
    await connection.execute(query("save_story_position"), position)


async def begin_stories(connection: Connection, version: int) -> None:
    """Forget all stories. The role makes them again from the first change on."""
    await connection.execute(query("forget_stories"))
    await connection.execute(query("begin_stories"), version)


async def list_changed(connection: Connection, after: int, limit: int) -> tuple[int, set[int], int]:
    """Return the position of the last of the next changes, their documents, and the number of changes."""
    rows = await connection.fetch(query("changed_documents"), after, limit)
    ids = {row["document_id"] for row in rows if row["document_id"] is not None}
    return (rows[-1]["position"] if rows else after), ids, len(rows)


async def count_changes(connection: Connection, limit: int) -> int:
    """Return the number of changes that are not in the stories yet, up to a limit."""
    value: int = await connection.fetchval(query("count_story_changes"), limit)
    return value


async def read_documents(connection: Connection, ids: Collection[int], characters: int) -> list[ComparedDocument]:
    """Return documents with the beginning of their texts."""
    rows = await connection.fetch(query("documents_for_stories"), list(ids), characters)
    return [ComparedDocument(*row) for row in rows]


async def list_ids(connection: Connection, after: int, limit: int) -> list[int]:
    """Return the ids of the next documents."""
    return [row["id"] for row in await connection.fetch(query("ids_for_stories"), after, limit)]


async def read_rows(connection: Connection, ids: Collection[int]) -> dict[int, StoryRow]:
    """Return the places of documents among stories."""
    rows = await connection.fetch(query("story_rows"), list(ids))
    return {row["document_id"]: StoryRow(*row) for row in rows}


async def change_keys(
    connection: Connection, removed: Mapping[int, Collection[int]], added: Mapping[int, Collection[int]]
) -> None:
    """Remove and add keys of documents."""
    if any(removed.values()):
        await connection.execute(query("remove_story_keys"), *_to_columns(removed))
    if any(added.values()):
        await connection.execute(query("add_story_keys"), *_to_columns(added))


async def find_earlier(
    connection: Connection, keys: Mapping[int, Collection[int]], *, for_a_key: int, limit: int
) -> dict[int, list[int]]:
    """Return the documents with smaller ids that each document is compared with."""
    found: dict[int, list[int]] = {one: [] for one in keys}
    for row in await connection.fetch(query("documents_before"), *_to_columns(keys), for_a_key, limit):
        found[row["document_id"]].append(row["candidate"])
    return found


async def find_later(connection: Connection, keys: Mapping[int, Collection[int]], *, for_a_key: int) -> set[int]:
    """Return the documents with larger ids that are compared with documents."""
    rows = await connection.fetch(query("documents_after"), *_to_columns(keys), for_a_key)
    return {row["document_id"] for row in rows}


async def last_document(connection: Connection) -> int:
    """Return the largest id of a document that has a place among stories."""
    value: int = await connection.fetchval(query("last_story_document"))
    return value


async def save_links(connection: Connection, documents: Collection[LinkedDocument]) -> None:
    """Save links and signatures. A new document is a story of its own at first."""
    ids = [one.document_id for one in documents]
    links = ["{" + ",".join(map(str, one.links)) + "}" for one in documents]
    await connection.execute(query("save_story_rows"), ids, links, [one.signature for one in documents])


async def remove_rows(connection: Connection, ids: Collection[int]) -> None:
    """Remove documents from their stories."""
    await connection.execute(query("remove_story_rows"), list(ids))


async def merge_stories(connection: Connection, targets: Mapping[int, int]) -> None:
    """Give the documents of stories to other stories."""
    await connection.execute(query("merge_stories"), list(targets), list(targets.values()))


async def move_documents(connection: Connection, stories: Mapping[int, int]) -> None:
    """Put documents into other stories."""
    await connection.execute(query("move_story_documents"), list(stories), list(stories.values()))


async def list_links(connection: Connection, stories: Collection[int]) -> dict[int, tuple[int, list[int]]]:
    """Return the documents of stories, each with its story and its links."""
    rows = await connection.fetch(query("links_of_stories"), list(stories))
    return {row["document_id"]: (row["story_id"], row["links"]) for row in rows}


async def count_keys(connection: Connection) -> int:
    """Return the number of all keys."""
    value: int = await connection.fetchval(query("count_story_keys"))
    return value


async def count_missing_keys(connection: Connection, keys: Mapping[int, Collection[int]]) -> int:
    """Return how many of the keys of documents are missing."""
    value: int = await connection.fetchval(query("count_missing_story_keys"), *_to_columns(keys))
    return value


async def list_surplus(connection: Connection, limit: int) -> list[int]:
    """Return documents that have a place among stories and do not exist."""
    return [row["document_id"] for row in await connection.fetch(query("surplus_story_documents"), limit)]


async def find_story(connection: Connection, document_id: int) -> int | None:
    """Return the story of a document."""
    value: int | None = await connection.fetchval(query("story_of_document"), document_id)
    return value


async def list_members(connection: Connection, story_id: int, limit: int) -> list[MemberRow]:
    """Return the documents of a story in the order of their dates."""
    return [MemberRow(*row) for row in await connection.fetch(query("story_members"), story_id, limit)]


async def list_newest(connection: Connection, story_id: int, limit: int) -> list[int]:
    """Return the documents of a story that were stored last."""
    rows = await connection.fetch(query("newest_of_story"), story_id, limit)
    return [row["document_id"] for row in rows]


async def list_stories(connection: Connection, *, before: int | None, limit: int, count_to: int) -> list[StoryLine]:
    """Return the stories of two documents or more, the one that got a document last first."""
    return [StoryLine(**row) for row in await connection.fetch(query("list_stories"), before, limit, count_to)]


async def stories_of(connection: Connection, ids: Sequence[int], count_to: int, others: int) -> list[DocumentStory]:
    """Return the stories of two documents or more that documents belong to, each with some other documents of it."""
    counts: dict[int, int] = {}
    members: dict[int, list[StoryMember]] = {}
    for row in await connection.fetch(query("stories_of_documents"), list(ids), count_to, others + 1):
        counts[row["story_id"]] = row["documents"]
        member = StoryMember(row["id"], row["title"], row["url"], row["source"])
        members.setdefault(row["story_id"], []).append(member)
    if not members:
        return []
    return [
        DocumentStory(
            document_id, story, counts[story], [one for one in members[story] if one.id != document_id][:others]
        )
        for document_id, story in await connection.fetch(query("stories_by_document"), list(ids))
        if story in members
    ]


def _to_columns(keys: Mapping[int, Collection[int]]) -> tuple[list[int], list[int]]:
    """Return keys, and the document of each."""
    pairs = [(key, document_id) for document_id, of_one in keys.items() for key in of_one]
    return [key for key, _ in pairs], [document_id for _, document_id in pairs]
