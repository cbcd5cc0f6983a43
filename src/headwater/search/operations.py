"""Operations of search: find documents, and make the rows that search reads again."""

import math
from collections.abc import Callable, Collection
from datetime import datetime

from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason
from headwater.core.record import LARGEST_ID, record
from headwater.core.search_query import LONGEST_QUERY as LONGEST_QUERY
from headwater.core.search_query import SearchQuery, list_prefixes, list_words, parse_query, write_query
from headwater.core.search_words import FUNCTION_VERSION, SIMPLE, get_configuration
from headwater.core.text import make_storable
from headwater.db import search
from headwater.db.context import DatabaseContext
from headwater.db.documents import DocumentLine
from headwater.db.items import ContentFilter as ContentFilter
from headwater.db.pool import Connection
from headwater.db.search import MOST_COUNTED, Found, Position, SearchRequest
from headwater.documents.content_filter import prepare_filter
from headwater.search.highlight import TextPart as TextPart
from headwater.search.highlight import make_snippet, mark_matches

_CURSOR_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"
_PAGE = 200  # documents to index at once
OnProgress = Callable[[int, int], None]


@record
class Hit(DocumentLine):
    """A document that matches a search."""

    score: float
    title_parts: list[TextPart]
    """The title. The parts together are the whole title."""
    snippet: list[TextPart]
    """The text around the matches."""


@record
class Hits:
    """The documents that match a search, best first or newest first."""

    hits: list[Hit]
    total: int
    """The number of all documents that match, or, with `has_more`, the number that was counted."""
    has_more: bool
    """Whether more documents match than were counted."""
    next: str | None
    """The `cursor` of the next page. Null on the last page."""
    notes: list[str]
    """What could not be understood. A search with a note finds nothing."""


@record
class Reindexing:
    """The result of `search reindex`."""

    documents: int
    changed: int
    """The number of documents whose rows were missing or differed."""


class SearchOperations:
    """Operations of search."""

    def __init__(self, context: DatabaseContext) -> None:
        self._context = context

    async def find(
        self,
        words: str,
        only: ContentFilter | None = None,
        *,
        limit: int = 10,
        cursor: str | None = None,
        newest_first: bool = False,
    ) -> Hits:
        """Search titles, bylines and texts. Words: "a phrase", -without, or, site: source: lang: title: and others."""
        position = _read_cursor(cursor) if cursor is not None else None
        parsed = parse_query(make_storable(words))

        async def work(connection: Connection) -> Hits:
            chosen = await prepare_filter(connection, only) if only else ContentFilter()
            request = await self._prepare(connection, parsed, chosen, position, limit, newest_first=newest_first)
            if request is None:
                return Hits([], 0, has_more=False, next=None, notes=list(parsed.notes))
            total, found = await search.search_documents(connection, request)
            page = found[:limit]
            has_next = len(found) > limit
            return Hits(
                hits=[_make_hit(one) for one in page],
                total=min(total, MOST_COUNTED),
                has_more=total > MOST_COUNTED,
                next=_write_cursor(page[-1], request) if has_next else None,
                notes=[],
            )

        return await self._context.database.transact(work)

    async def reindex(self, on_progress: OnProgress = lambda *_: None) -> Reindexing:
        """Make the rows that search reads again from the documents. Rows that are right stay as they are."""
        database = self._context.database
        total = await database.run(search.count_indexable)
        after = documents = changed = 0
        while page := await database.run(search.documents_to_index, after, _PAGE):
            changed += await database.transact(search.index_documents, page)
            after = page[-1].document_id
            documents += len(page)
            on_progress(documents, max(documents, total))
        await database.transact(search.save_search_version, FUNCTION_VERSION)
        return Reindexing(documents, changed)

    async def _prepare(
        self,
        connection: Connection,
        parsed: SearchQuery,
        only: ContentFilter,
        position: Position | None,
        limit: int,
        *,
        newest_first: bool,
    ) -> SearchRequest | None:
        """Return the search in the terms of the database. None if no document can match."""
        if parsed.notes or parsed.is_empty:
            return None
        languages = _intersect(parsed.get("lang").wanted or None, only.language)
        source_ids, unwanted_ids = await _find_sources(connection, parsed, only)
        if languages == set() or source_ids == set():
            return None
        wanted = parsed.alternatives
        titled = (parsed.title,) if parsed.title.wanted or parsed.title.unwanted else ()
        prepared = await search.prepare_search(
            connection,
            write_query(wanted),
            write_query((*wanted, *titled), only_wanted=True),
            write_query(titled),
            list_words((*wanted, *titled)),
            None if languages is None else sorted({SIMPLE, *map(get_configuration, languages)}),
        )
        if prepared is None:
            return None
        topics = {topic.lower() for topic in parsed.get("topic").wanted}
        last = position.last_document if position else await search.last_searched_document(connection)
        return SearchRequest(
            prepared=prepared,
            last_document=last,
            now=position.now if position else self._context.clock.now(),
            limit=limit + 1,
            after_hit=position,
            newest_first=newest_first,
            after=max(filter(None, (parsed.after, only.since)), default=None),
            before=parsed.before,
            languages=None if languages is None else sorted(languages),
            source_ids=None if source_ids is None else sorted(source_ids),
            sites=list(parsed.get("site").wanted) or None,
            topics=sorted(topics) or None,
            topic=only.topic.lower() if only.topic is not None else None,
            unwanted_marks=[
                *(f"site:{one}" for one in parsed.get("site").unwanted),
                *(f"lang:{one}" for one in parsed.get("lang").unwanted),
                *(f"source:{one}" for one in sorted(unwanted_ids)),
            ],
            unwanted_topics=[topic.lower() for topic in parsed.get("topic").unwanted] or None,
            first_characters=list_prefixes((*wanted, *titled)),
        )


async def _find_sources(
    connection: Connection, parsed: SearchQuery, only: ContentFilter
) -> tuple[set[int] | None, set[int]]:
    """Return the sources of which documents may be, None for all, and those of which they may not be."""
    wanted: set[int] | None = None
    for names in (parsed.get("source").wanted, (only.source,) if only.source else ()):
        if names:
            wanted = _meet(wanted, await search.sources_of_names(connection, names))
    for categories in (parsed.get("category").wanted, (only.category,) if only.category else ()):
        if categories:
            wanted = _meet(wanted, await search.sources_of_categories(connection, categories))
    unwanted = await search.sources_of_names(connection, parsed.get("source").unwanted)
    return wanted, unwanted | await search.sources_of_categories(connection, parsed.get("category").unwanted)


def _meet(first: set[int] | None, second: set[int]) -> set[int]:
    return second if first is None else first & second


def _intersect(values: Collection[str] | None, value: str | None) -> set[str] | None:
    if value is None:
        return set(values) if values is not None else None
    return {value} if values is None or value in values else set()


def _make_hit(found: Found) -> Hit:
    text_places = [place - found.text_begins for place in found.text_places or ()]
    return Hit(
        id=found.id,
        url=found.url,
        source=found.source,
        title=found.title,
        published_at=found.published_at,
        language=found.language,
        region=found.region,
        fetched_at=found.fetched_at,
        score=found.score,
        title_parts=mark_matches(found.title, found.title_places or ()),
        snippet=make_snippet(found.text, text_places),
    )


def _write_cursor(last: Found, request: SearchRequest) -> str:
    return f"{last.is_best:d}_{last.score!r}_{last.id}_{request.last_document}_{request.now:{_CURSOR_TIME}}"


def _read_cursor(text: str) -> Position:
    try:
        is_best, score, document_id, last, moment = text.split("_")
        now = datetime.fromisoformat(moment)
        position = Position(is_best == "1", float(score), int(document_id), int(last), now)
    except ValueError:
        position = None
    if (
        position is None
        or not math.isfinite(position.score)
        or not 0 < position.id <= LARGEST_ID
        or not 0 <= position.last_document <= LARGEST_ID
        or position.now.tzinfo is None
    ):
        raise HeadwaterError("cursor: must be the `next` of the page before.", reason=Reason.BAD_REQUEST)
    return position
