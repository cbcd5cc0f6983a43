"""Feeds of a day, a source, a category, a search, a saved search and a story."""

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import NamedTuple
from urllib.parse import quote, urlencode

from headwater.core.errors import BadRequest, OperatorError
from headwater.core.reasons import Reason
from headwater.core.text import make_storable
from headwater.core.url_input import redact
from headwater.db import saved_searches, search, stories
from headwater.db.context import DatabaseContext
from headwater.db.feed_addresses import FeedKind
from headwater.db.items import ContentFilter, DayFilter, DayItem
from headwater.db.saved_searches import SavedSearch
from headwater.documents.days import DayOperations, DayView
from headwater.search.feed import DocumentFeed, FeedDocument
from headwater.search.operations import LEAD_CHARACTERS, LONGEST_QUERY, SearchOperations

MOST_ENTRIES = 500
_TODAY, _LATEST = "today", "latest"
_MOST_OTHERS = 20  # documents of a story that an entry links to
_NUMBER = re.compile("[0-9]{1,18}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class FeedTarget(NamedTuple):
    """The subject of a feed, and which one it is."""

    kind: FeedKind
    value: str

    @property
    def path(self) -> str:
        """The path of its feed on this server, for readers that send a token."""
        if self.kind is FeedKind.SEARCH:
            return f"/feeds/search.atom?{urlencode({'q': self.value})}"
        if self.kind is FeedKind.CATEGORY:
            return f"/feeds/category.atom?{urlencode({'category': self.value})}"
        return f"/feeds/{self.kind}/{quote(self.value, safe='')}.atom"


@dataclass(frozen=True, slots=True)
class FeedOperations:
    """Makes feeds."""

    context: DatabaseContext
    search: SearchOperations
    days: DayOperations

    async def check(self, target: FeedTarget) -> None:
        """Refuse a feed of something that does not exist. A search may find nothing."""
        if target.kind is FeedKind.SAVED:
            await self._find_saved(target.value)
        elif target.kind is FeedKind.DAY:
            _read_day(target.value)
        elif not target.value or len(target.value) > LONGEST_QUERY:
            raise BadRequest(f"value: give 1 to {LONGEST_QUERY} characters.")
        else:
            await self.make(target, address="", limit=1)

    async def make(
        self, target: FeedTarget, *, address: str, limit: int | None = None, with_text: bool = False
    ) -> DocumentFeed:
        """Return a feed, the newest entries first. A story is one entry, except in its own feed."""
        if target.kind is FeedKind.STORY:
            return await self._make_story(target.value, address=address, limit=limit or 50, with_text=with_text)
        return await self.fold(await self._make(target, address=address, limit=limit, with_text=with_text))

    async def fold(self, feed: DocumentFeed) -> DocumentFeed:
        """Return a feed with one entry for each story: its newest document in the feed, with links to the others."""
        ids = [one.id for one in feed.documents if one.id]
        found = await self.context.database.run(stories.stories_of, ids, 1, _MOST_OTHERS) if ids else []
        known = {one.document_id: one for one in found}
        seen: set[int] = set()
        documents = []
        for one in feed.documents:
            story = known.get(one.id)
            if story is None:
                documents.append(one)
            elif story.story_id not in seen:
                seen.add(story.story_id)
                documents.append(replace(one, others=tuple(story.others)))
        return replace(feed, documents=documents)

    async def _make_story(self, value: str, *, address: str, limit: int, with_text: bool) -> DocumentFeed:
        """Return the feed of a story, given by the id of one of its documents."""
        number = int(value) if _NUMBER.fullmatch(value) else 0
        story = await self.context.database.run(stories.find_story, number)
        if story is None:
            raise OperatorError(f"No story has a document {redact(value)}.", reason=Reason.UNKNOWN_DOCUMENT)
        ids = await self.context.database.run(stories.list_newest, story, limit)
        rows = await self.context.database.run(search.feed_documents, ids, LEAD_CHARACTERS, with_text=with_text)
        documents = sorted((FeedDocument(**row) for row in rows.values()), key=lambda one: one.changed_at, reverse=True)
        title = min(rows.values(), key=lambda row: row["changed_at"])["title"] if rows else value
        return DocumentFeed(f"Headwater: {title}", address, documents)

    async def _make(
        self, target: FeedTarget, *, address: str, limit: int | None = None, with_text: bool = False
    ) -> DocumentFeed:
        value = target.value
        if target.kind is FeedKind.DAY:
            return await self._make_day(value, address=address, limit=limit or MOST_ENTRIES, with_text=with_text)
        words, only, title = value, ContentFilter(), value
        if target.kind is FeedKind.SAVED:
            saved = await self._find_saved(value)
            words, title = saved.words, saved.name
            only = ContentFilter(saved.source, saved.category, saved.topic, saved.language)
        elif target.kind is not FeedKind.SEARCH:
            bare = value.replace('"', "").strip("/")
            words = f'{target.kind}:"{bare}"'
            only = ContentFilter(source=value) if target.kind is FeedKind.SOURCE else ContentFilter(category=value)
        return await self.search.make_feed(
            words, only, address=address, title=title, limit=limit or 50, with_text=with_text
        )

    async def _make_day(self, value: str, *, address: str, limit: int, with_text: bool) -> DocumentFeed:
        """Return the feed of a day. An item whose page is not stored yet is an entry without text."""
        view = await self._view_day(value, limit)
        ids = [item.document_id for item in view.items if item.document_id is not None]
        rows = await self.context.database.run(search.feed_documents, ids, LEAD_CHARACTERS, with_text=with_text)
        entries: dict[str, FeedDocument] = {}
        for item in view.items:
            row = rows.get(item.document_id or 0)
            entries[item.url] = FeedDocument(**row) if row else _make_entry(item, view.day)
        return DocumentFeed(
            f"Headwater: {view.day}", address, sorted(entries.values(), key=lambda one: one.changed_at, reverse=True)
        )

    async def _view_day(self, value: str, limit: int) -> DayView:
        day = _read_day(value)
        if value == _TODAY:
            return await self.days.today(DayFilter(), limit=limit)
        return await self.days.day(day, DayFilter(), limit=limit)

    async def _find_saved(self, name: str) -> SavedSearch:
        found = await self.context.database.run(saved_searches.list_saved_searches, make_storable(name))
        if not found:
            raise OperatorError(f"There is no saved search {redact(name)}.", reason=Reason.UNKNOWN_SAVED_SEARCH)
        return found[0]


def _read_day(value: str) -> date | None:
    """Return a day; None for one that moves."""
    if value in (_TODAY, _LATEST):
        return None
    try:
        return date.fromisoformat(value if _DAY.fullmatch(value) else "")
    except ValueError:
        raise BadRequest(f"day: {redact(value)!r} is not a day such as 2026-03-29, {_TODAY} or {_LATEST}.") from None


def _make_entry(item: DayItem, day: date) -> FeedDocument:
    changed_at = item.updated_at or item.published_at or datetime(day.year, day.month, day.day, tzinfo=UTC)
    return FeedDocument(0, item.url, item.title, None, None, item.published_at, changed_at, "", None)
