"""Typed functions over queries/search.sql."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import asyncpg

from headwater.core.errors import SchemaMismatch
from headwater.core.search_words import get_configuration, join_words
from headwater.db.pool import Connection
from headwater.db.sql import query

SEARCHED_CHARACTERS = 100_000  # of a text
TITLE_CHARACTERS = 2000
MOST_COUNTED = 2000
"""So many matches are counted and ranked."""
_MOST_BY_TITLE = 500  # of the matches beyond
_MOST_RANKED_BY_TEXT = 300
_NEAR, _FAR = 15, 18  # the blocks of make_search_marks: so many bits of an id number the documents of a block
_INDEXING_SECONDS = 7 * 86_400.0  # longer than the largest index takes


class Words(NamedTuple):
    """The parts of a document that search reads."""

    document_id: int
    title: str
    byline: str | None
    language: str | None
    text: str


class Prepared(NamedTuple):
    """A search in the words of the configurations in use."""

    wanted: str
    ranked: str
    in_titles: str
    titled: str | None
    lexemes: list[str]
    last_document: int


@dataclass(frozen=True, slots=True)
class Position:
    """The last hit of a page, and what the search sees: documents up to an id, and the age of each at a time."""

    is_best: bool
    score: float
    id: int
    last_document: int
    now: datetime


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search in the terms of the database. An empty list is a field of which no document has a value."""

    prepared: Prepared
    last_document: int
    now: datetime
    limit: int
    after_hit: Position | None = None
    newest_first: bool = False
    after: datetime | None = None
    before: datetime | None = None
    languages: list[str] | None = None
    source_ids: list[int] | None = None
    sites: list[str] | None = None
    topics: list[str] | None = None
    topic: str | None = None
    unwanted_marks: list[str] = field(default_factory=list)
    unwanted_topics: list[str] | None = None
    first_characters: list[str] = field(default_factory=list)


class Ranked(NamedTuple):
    """A document that matches, in its order."""

    id: int
    is_best: bool
    score: float


class Found(NamedTuple):
    """A document that matches, its text, and the places of the words in it."""

    id: int
    url: str
    source: str
    title: str
    language: str | None
    region: str | None
    fetched_at: datetime
    published_at: datetime | None
    text: str
    title_places: list[int] | None
    text_places: list[int] | None
    text_begins: int


async def index_documents(connection: Connection, documents: Sequence[Words]) -> int:
    """Make the rows that search reads of documents. Returns how many were made or changed."""
    if not documents:
        return 0
    value: int = await connection.fetchval(
        query("index_documents"),
        [one.document_id for one in documents],
        [get_configuration(one.language) for one in documents],
        [join_words(one.title[:TITLE_CHARACTERS]) for one in documents],
        [join_words((one.byline or "")[:TITLE_CHARACTERS]) for one in documents],
        [join_words(one.text[:SEARCHED_CHARACTERS]) for one in documents],
    )
    return value


async def documents_to_index(connection: Connection, after: int, limit: int) -> list[Words]:
    """Return the next documents after an id with what search reads of them."""
    rows = await connection.fetch(query("documents_to_index"), after, SEARCHED_CHARACTERS, limit)
    return [Words(row["id"], row["title"], row["byline"], row["language"], row["body"]) for row in rows]


async def count_indexable(connection: Connection) -> int:
    """Return the number of documents."""
    value: int = await connection.fetchval(query("count_documents"))
    return value


async def read_search_version(connection: Connection) -> int:
    """Return the version of the function that cut the words of all rows."""
    value: int = await connection.fetchval(query("read_search_version"))
    return value


async def save_search_version(connection: Connection, version: int) -> None:
    """Save the version of the function that cut the words of all rows."""
    await connection.execute(query("save_search_version"), version)


async def prepare_search(
    connection: Connection,
    wanted: str,
    ranked: str,
    titled: str,
    words: Sequence[str],
    configurations: Collection[str] | None,
) -> Prepared | None:
    """Return a search in the words of the configurations in use. None if no document can match.

    The texts are in the syntax of to_tsquery. Each configuration searches its own documents only.
    """
    rows = await connection.fetch(
        query("prepare_search"),
        wanted,
        ranked,
        titled,
        None if configurations is None else list(configurations),
        " ".join(words),
    )
    pairs = [(row["configuration"], row) for row in rows]
    searches = [_restrict(row["wanted"], name) for name, row in pairs if row["wanted"] or not wanted]
    if not searches:
        return None
    in_titles = [_restrict(row["ranked"], name) for name, row in pairs if row["ranked"]]
    titles = [_restrict(row["titled"], name) for name, row in pairs if row["titled"]]
    return Prepared(
        wanted=" | ".join(searches),
        ranked=" | ".join(f"({one})" for one in dict.fromkeys(row["ranked"] for _, row in pairs) if one),
        in_titles=" | ".join(in_titles),
        titled=(" | ".join(titles) or "'#'") if titled else None,
        lexemes=sorted({lexeme for _, row in pairs for lexeme in row["lexemes"]}),
        last_document=max(row["last_document"] for row in rows),
    )


def _restrict(search: str, configuration: str) -> str:
    """Restrict a search to the documents of a configuration: their words have its name among them."""
    return f"(({search}) & '#{configuration}')" if search else f"('#{configuration}')"


async def search_documents(connection: Connection, request: SearchRequest) -> tuple[int, list[Ranked]]:
    """Return the number of matches, up to one more than MOST_COUNTED, and a page of hits. Call it in a transaction."""
    await connection.execute(query("plan_for_search"))
    # Old documents of a time are found by their date.
    blocks = [] if request.before else _list_blocks(request.last_document)
    after_hit, prepared = request.after_hit, request.prepared
    rows = await connection.fetch(
        query("search_documents"),
        *_list_conditions(request),
        MOST_COUNTED + 1,
        _MOST_BY_TITLE,
        _MOST_RANKED_BY_TEXT,
        prepared.in_titles,
        prepared.ranked,
        request.now,
        request.newest_first,
        after_hit.is_best if after_hit else None,
        after_hit.score if after_hit else None,
        after_hit.id if after_hit else None,
        request.limit,
        [block.marks for block in blocks],
        [block.low for block in blocks],
        [block.high for block in blocks],
        min((block.low for block in blocks), default=request.last_document + 1),
    )
    hits = [dict(row) for row in rows]
    total = max(hit.pop("total") for hit in hits)
    return total, [Ranked(**hit) for hit in hits if hit["id"] is not None]


async def match_documents(connection: Connection, request: SearchRequest, ids: Collection[int]) -> set[int]:
    """Return the documents among some that match a search. Call it in a transaction."""
    await connection.execute(query("plan_for_search"))
    await connection.execute(query("plan_for_matching"))
    rows = await connection.fetch(query("match_documents"), *_list_conditions(request), list(ids))
    return {row["document_id"] for row in rows}


def _list_conditions(request: SearchRequest) -> tuple[object, ...]:
    """Return the arguments of the SQL function find_documents."""
    return (
        request.prepared.wanted,
        request.prepared.titled,
        request.after,
        request.before,
        _mark("lang", request.languages),
        _mark("source", request.source_ids),
        _mark("site", request.sites),
        request.unwanted_marks or None,
        request.topics,
        request.topic,
        request.unwanted_topics,
        request.last_document,
    )


async def show_hits(connection: Connection, ids: Collection[int], request: SearchRequest) -> dict[int, Found]:
    """Return documents with the places of the words that a search wants, by id."""
    rows = await connection.fetch(
        query("show_hits"), list(ids), request.prepared.lexemes, request.first_characters, SEARCHED_CHARACTERS
    )
    return {row["id"]: Found(**row) for row in rows}


class _Block(NamedTuple):
    marks: str
    low: int
    high: int


def _mark(name: str, values: Collection[object] | None) -> list[str] | None:
    return None if values is None else [f"{name}:{value}" for value in values]


def _list_blocks(last: int) -> list[_Block]:
    """Return the newest two ranges of document ids, the newest first, with the marks of their blocks."""
    near, far = max(last >> _NEAR, 1), max(last >> _FAR, 1)
    begins_near = (near - 1) << _NEAR
    begins_far = min((far - 1) << _FAR, begins_near)
    blocks = [_Block(f"near:{near},near:{near - 1}", begins_near, last)]
    if begins_near > begins_far:
        blocks.append(_Block(f"far:{far},far:{far - 1}", begins_far, begins_near - 1))
    return blocks


async def feed_documents(
    connection: Connection, ids: Collection[int], lead: int, *, with_text: bool
) -> dict[int, dict[str, Any]]:
    """Return the fields of documents in a feed, by id."""
    rows = await connection.fetch(query("feed_documents"), list(ids), lead, with_text)
    return {row["id"]: dict(row) for row in rows}


async def sources_of_names(connection: Connection, names: Collection[str]) -> set[int]:
    """Return the ids of sources."""
    return {row["id"] for row in await connection.fetch(query("sources_of_names"), list(names))}


async def sources_of_categories(connection: Connection, categories: Collection[str]) -> set[int]:
    """Return the ids of the sources of categories and of those below them."""
    return {row["id"] for row in await connection.fetch(query("sources_of_categories"), list(categories))}


async def search_index_is_whole(connection: Connection) -> bool | None:
    """Return whether the search index of the documents can be used. Returns None if there is no index."""
    value: bool | None = await connection.fetchval(query("search_index_is_whole"))
    return value


async def rebuild_search_index(connection: Connection) -> bool:
    """Rebuild the search index of the documents if it is not whole. Returns whether it was rebuilt.

    Another process that rebuilds it already is left alone. Call this outside a transaction, and close the connection
    afterwards: the connection then has a lock and no time limit.
    """
    if not await connection.fetchval(query("try_to_lock_search_index")) or await search_index_is_whole(connection):
        return False
    await connection.execute(query("remove_statement_timeout"))
    try:
        await connection.execute(query("drop_search_index"), timeout=_INDEXING_SECONDS)
        await connection.execute(query("make_search_index"), timeout=_INDEXING_SECONDS)
    except asyncpg.InsufficientPrivilegeError as error:
        raise SchemaMismatch(
            f"The search index cannot be made: {error}. Connect as the owner of the table document_search."
        ) from None
    return True
