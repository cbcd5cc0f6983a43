"""Operations of search: find documents, and make the rows that search reads again."""

import math
from collections.abc import Callable, Collection
from datetime import datetime

import structlog

from headwater.core.errors import HeadwaterError, OperatorError
from headwater.core.reasons import Reason
from headwater.core.record import LARGEST_ID, record
from headwater.core.search_query import LONGEST_QUERY as LONGEST_QUERY
from headwater.core.search_query import SearchQuery, list_prefixes, list_words, parse_query, write_query
from headwater.core.search_words import FUNCTION_VERSION, SIMPLE, get_configuration
from headwater.core.text import make_storable
from headwater.db import search, search_index
from headwater.db.context import DatabaseContext
from headwater.db.documents import DocumentLine
from headwater.db.items import ContentFilter as ContentFilter
from headwater.db.pool import Connection
from headwater.db.search import MOST_COUNTED, Found, Position, Ranked, SearchRequest
from headwater.db.search_index import IndexState as IndexState
from headwater.db.search_index import ParkedDocument as ParkedDocument
from headwater.documents.content_filter import prepare_filter
from headwater.search.feed import DocumentFeed as DocumentFeed
from headwater.search.feed import FeedDocument
from headwater.search.feeder import IndexFeeder
from headwater.search.highlight import TextPart as TextPart
from headwater.search.highlight import make_snippet, mark_matches
from headwater.search.index_client import IndexLost, open_index
from headwater.search.index_format import ALIAS, make_search

_CURSOR_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"
_PAGE = 200  # documents to index at once
_COUNT_TO = 10_000
LEAD_CHARACTERS = 500
_REFUSED_SHOWN = 20
log = structlog.get_logger()
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
class IndexStatus:
    """The index in Elasticsearch or OpenSearch, and its outbox."""

    state: IndexState | None
    """Null if there was never an index."""
    waiting: int
    """The number of changes that the index has not yet, counted up to some thousands."""
    parked: int
    """The number of documents that the index refused."""
    refused: list[ParkedDocument]
    """The first of them."""


@record
class Reindexing:
    """The result of `search reindex`."""

    documents: int
    changed: int
    """The number of documents whose rows were missing or differed."""
    index: IndexStatus | None
    """The index in Elasticsearch or OpenSearch, if one is configured."""


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

        async def prepare(connection: Connection) -> SearchRequest | None:
            chosen = await prepare_filter(connection, only) if only else ContentFilter()
            return await self._prepare(connection, parsed, chosen, position, limit, newest_first=newest_first)

        request = await self._context.database.run(prepare)
        if request is None:
            notes = list(parsed.notes) or await self._context.database.run(_explain_sources, parsed)
            return Hits([], 0, has_more=False, next=None, notes=notes)
        total, ranked = await self._search(request)
        page = ranked[:limit]
        shown = await self._context.database.run(search.show_hits, [one.id for one in page], request)
        return Hits(
            hits=[_make_hit(shown[one.id], one.score) for one in page if one.id in shown],
            total=min(total, MOST_COUNTED),
            has_more=total > MOST_COUNTED,
            next=_write_cursor(page[-1], request) if len(ranked) > limit else None,
            notes=[],
        )

    async def make_feed(
        self,
        words: str,
        only: ContentFilter | None = None,
        *,
        address: str,
        title: str | None = None,
        limit: int = 50,
        with_text: bool = False,
    ) -> DocumentFeed:
        """Return a feed of the documents that match a search, the newest first."""
        found = await self.find(words, only, limit=limit, newest_first=True)
        ids = [hit.id for hit in found.hits]
        rows = await self._context.database.run(search.feed_documents, ids, LEAD_CHARACTERS, with_text=with_text)
        documents = [FeedDocument(**rows[one]) for one in ids if one in rows]
        return DocumentFeed(f"Headwater: {title or words}", address, documents)

    async def match(
        self, connection: Connection, words: str, only: ContentFilter, document_ids: Collection[int]
    ) -> set[int]:
        """Return the documents among some that match a search. Call it in a transaction."""
        if not document_ids:
            return set()
        try:
            chosen = await prepare_filter(connection, only)
        except OperatorError:
            return set()  # its source was removed
        request = await self._prepare(connection, parse_query(words), chosen, None, 1, newest_first=True)
        return await search.match_documents(connection, request, document_ids) if request else set()

    async def get_index(self) -> IndexStatus:
        """Return the state of the index in Elasticsearch or OpenSearch, and the documents that it refused."""
        database = self._context.database
        backlog = await database.run(search_index.count_changes, _COUNT_TO)
        return IndexStatus(
            state=await database.run(search_index.get_state),
            waiting=backlog.waiting,
            parked=backlog.parked,
            refused=await database.run(search_index.list_parked, _REFUSED_SHOWN),
        )

    async def _rebuild_index(self, on_progress: OnProgress) -> IndexStatus:
        """Build a new index, and point the alias at it. Searches use the old one until then.

        A build that was interrupted continues.
        """
        context = self._context
        await context.database.run(search_index.retry_parked)
        total = await context.database.run(search.count_indexable)
        async with open_index(context.settings, context.clock.now) as client:
            feeder = IndexFeeder(context, client)
            await feeder.begin()
            done = 0
            while (state := await feeder.get_state()) is not None and state.building is not None:
                done += await feeder.build_page(state)
                on_progress(min(done, total), total)
        return await self.get_index()

    async def _search(self, request: SearchRequest) -> tuple[int, list[Ranked]]:
        """Return the number of matches and a page of them, from the index if one is configured and answers."""
        context = self._context
        if context.settings.search_url:
            try:
                async with open_index(context.settings, context.clock.now) as client:
                    return await client.search_page(ALIAS, make_search(request))
            except IndexLost as error:
                log.warning("search.index_lost", error=str(error))
        return await context.database.transact(search.search_documents, request)

    async def reindex(
        self, on_words: OnProgress = lambda *_: None, on_index: OnProgress = lambda *_: None
    ) -> Reindexing:
        """Make the rows that search reads again from the documents. Rows that are right stay as they are.

        If an index is configured, a new one is built afterwards.
        """
        database = self._context.database
        total = await database.run(search.count_indexable)
        after = documents = changed = 0
        while page := await database.run(search.documents_to_index, after, _PAGE):
            changed += await database.transact(search.index_documents, page)
            after = page[-1].document_id
            documents += len(page)
            on_words(documents, max(documents, total))
        await database.transact(search.save_search_version, FUNCTION_VERSION)
        index = await self._rebuild_index(on_index) if self._context.settings.search_url else None
        return Reindexing(documents, changed, index)

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
        last = position.last_document if position else prepared.last_document
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
    unwanted: set[int] = set()
    if names := parsed.get("source").unwanted:
        unwanted |= await search.sources_of_names(connection, names)
    if categories := parsed.get("category").unwanted:
        unwanted |= await search.sources_of_categories(connection, categories)
    return wanted, unwanted


async def _explain_sources(connection: Connection, parsed: SearchQuery) -> list[str]:
    """Return a note for each name and each category of the search that no source has."""
    unknown = [
        f"source: no source has the name {name}; `headwater source list` lists them."
        for name in sorted(parsed.get("source").wanted)
        if not await search.sources_of_names(connection, [name])
    ]
    return unknown + [
        f"category: no source has the category {category}."
        for category in sorted(parsed.get("category").wanted)
        if not await search.sources_of_categories(connection, [category])
    ]


def _meet(first: set[int] | None, second: set[int]) -> set[int]:
    return second if first is None else first & second


def _intersect(values: Collection[str] | None, value: str | None) -> set[str] | None:
    if value is None:
        return set(values) if values is not None else None
    return {value} if values is None or value in values else set()


def _make_hit(found: Found, score: float) -> Hit:
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
        score=score,
        title_parts=mark_matches(found.title, found.title_places or ()),
        snippet=make_snippet(found.text, text_places),
    )


def _write_cursor(last: Ranked, request: SearchRequest) -> str:
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
