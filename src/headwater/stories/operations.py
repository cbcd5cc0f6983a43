"""Operations on stories: list and show them, compare their documents, make them again and verify them."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Literal, NamedTuple, TypeVar

import msgspec

from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason
from headwater.core.record import LARGEST_ID, RowId, extend, record
from headwater.db import documents, stories
from headwater.db.context import DatabaseContext
from headwater.db.documents import RevisionText
from headwater.db.pool import Connection
from headwater.db.stories import DocumentStory as DocumentStory
from headwater.db.stories import MemberRow, StoryRow
from headwater.db.stories import StoryLine as StoryLine
from headwater.documents.diff import TextDiff, diff_texts
from headwater.stories.builder import StoryBuilder, find_links, find_roots, sign_documents
from headwater.stories.matching import estimate_shares
from headwater.stories.signature import COMPARED_CHARACTERS, Signature

MOST_SHOWN = 50
_COUNT_TO = 100
_OTHERS = 5
_LEAST_COPIED = 0.2  # of a text; less is a quote
_PAGE = 200
_MOST_LISTED = 100
_PENDING_TO = 1_000_000
_WAITING_TO = 10_000
OnProgress = Callable[[int, int], None]
T = TypeVar("T")


@record
class StoryDocument:
    """A document of a story."""

    id: int
    url: str
    source: str
    title: str
    language: str | None
    region: str | None
    dated_at: datetime
    """When it was published, by the page or its source, or else when its text was first seen."""
    fetched_at: datetime
    copied_from: int | None
    """The earlier document of the story that has most of its text. Null if none has a fifth of it."""
    copied: float
    """How much of its text is in that document, from 0 to 1; an estimate."""


@record
class Story:
    """Documents about one event: copies of a text, and reports of several sources."""

    id: int
    """The document that was stored first."""
    title: str
    """The title of the oldest document."""
    first_source: str
    """The source of the oldest document."""
    documents: list[StoryDocument]
    """The oldest 50 documents, the oldest first."""
    has_more: bool
    """Whether the story has more documents."""


@record
class StoryPage:
    """A page of stories: the story that got a document last is the first."""

    stories: list[StoryLine]
    next: int | None
    """The `before` of the next page. Null on the last page."""


@record
class DocumentStories:
    """The stories that documents belong to. A document that is alone in its story is left out."""

    stories: list[DocumentStory]


@record
class StoryDiff(TextDiff):
    """The changes from one document of a story to another. The counts are of paragraphs."""

    before: StoryDocument
    after: StoryDocument


@record
class StoryRebuild:
    """The result of `story rebuild`."""

    changes: int
    """The number of changes that were read."""


@record
class StoryFault:
    """A document whose place among stories is not the one that the documents give."""

    document_id: int
    fault: Literal["missing", "surplus", "signature", "links", "story"]


@record
class StoryVerification:
    """The result of `story verify`."""

    documents: int
    faults: list[StoryFault]
    """At most 100 faults."""
    keys_differ: bool
    """Whether the keys of the signatures are incomplete, or there are surplus keys."""

    @property
    def is_right(self) -> bool:
        """Whether all stories are those that the documents give."""
        return not self.faults and not self.keys_differ


class FoldedLine(NamedTuple, Generic[T]):
    """A line of a list. If it has a story, it opens to the other lines of the story and to documents elsewhere."""

    line: T
    story: DocumentStory | None
    folded: list[T]


class StoryOperations:
    """Operations on stories."""

    def __init__(self, context: DatabaseContext) -> None:
        self._context = context
        self._builder = StoryBuilder(context)

    async def list_page(self, *, limit: int = 20, before: int | None = None) -> StoryPage:
        """List the stories of two documents or more, the one that got a document last first."""
        rows = await self._context.database.run(stories.list_stories, before=before, limit=limit, count_to=_COUNT_TO)
        return StoryPage(rows, rows[-1].last_document if len(rows) == limit else None)

    async def get(self, document_id: int) -> Story:
        """Return the story that a document belongs to, with its oldest documents and who copied from whom."""
        _check_id(document_id)

        async def read(connection: Connection) -> tuple[int, list[MemberRow]] | None:
            story_id = await stories.find_story(connection, document_id)
            return (
                None
                if story_id is None
                else (story_id, await stories.list_members(connection, story_id, MOST_SHOWN + 1))
            )

        found = await self._context.database.transact(read)
        if found is None or not found[1]:
            raise _unknown(document_id)
        story_id, rows = found
        members = await asyncio.to_thread(_find_copies, rows[:MOST_SHOWN])
        return Story(story_id, members[0].title, members[0].source, members, has_more=len(rows) > MOST_SHOWN)

    async def list_of(self, ids: Sequence[RowId]) -> DocumentStories:
        """Return the stories that documents belong to. A document that is alone in its story is left out."""
        return DocumentStories(await self._context.database.run(stories.stories_of, ids, _COUNT_TO, _OTHERS))

    async def diff(self, document_id: int, other_id: int | None = None) -> StoryDiff:
        """Compare a document with another one of its story: by default the one that it copied, or else the oldest."""
        story = await self.get(document_id)
        members = {one.id: one for one in story.documents}
        after = members.get(document_id)
        before = members.get(
            (after.copied_from if after else None) or story.documents[0].id if other_id is None else other_id
        )
        if before is None or after is None:
            raise _unknown(document_id if after is None else other_id or 0)
        old, new = await self._read_text(before.id), await self._read_text(after.id)
        diff = await asyncio.to_thread(diff_texts, old.text, new.text, old.title, new.title)
        return extend(diff, StoryDiff, before=before, after=after)

    async def rebuild(self, on_progress: OnProgress = lambda *_: None) -> StoryRebuild:
        """Make all stories again from the documents. Meanwhile some are missing. Headwater may be running."""
        await self._builder.begin_again()
        return StoryRebuild(await self._catch_up(on_progress))

    async def verify(self, on_progress: OnProgress = lambda *_: None) -> StoryVerification:
        """Compare all stories with those that the documents give. Changes that wait are put into stories first."""
        await self._catch_up(lambda *_: None)
        database = self._context.database
        total = await database.run(documents.count_documents)
        faults: list[StoryFault] = []
        after = checked = keys = missing = 0
        story_of: dict[int, int] = {}
        pairs: list[tuple[int, int]] = []
        while page := await database.run(stories.list_ids, after, _PAGE):
            found = await database.transact(_verify_page, page)
            faults += found.faults
            keys += found.keys
            missing += found.missing_keys
            story_of |= {row.document_id: row.story_id for row in found.rows}
            pairs += [(row.document_id, link) for row in found.rows for link in row.links]
            checked += len(page)
            after = page[-1]
            on_progress(checked, max(checked, total.documents))
        roots = find_roots(pairs)
        faults += [StoryFault(one, "story") for one, story in story_of.items() if roots.get(one, one) != story]
        faults += [StoryFault(one, "surplus") for one in await database.run(stories.list_surplus, _MOST_LISTED)]
        differ = missing > 0 or keys != await database.run(stories.count_keys)
        return StoryVerification(checked, faults[:_MOST_LISTED], keys_differ=differ)

    async def count_waiting(self) -> int:
        """Return the number of changes that are not in stories yet, counted up to 10,000."""
        return await self._context.database.run(stories.count_changes, _WAITING_TO)

    async def _catch_up(self, on_progress: OnProgress) -> int:
        total = await self._context.database.run(stories.count_changes, _PENDING_TO)
        done = 0
        while number := await self._builder.step():
            done += number
            on_progress(done, max(done, total))
        return done

    async def _read_text(self, document_id: int) -> RevisionText:
        found = await self._context.database.run(documents.get_revision, document_id, None)
        if found is None:
            raise _unknown(document_id)
        return found


def fold_lines(
    lines: Sequence[T], document_of: Callable[[T], int | None], stories: Sequence[DocumentStory]
) -> list[FoldedLine[T]]:
    """Return one line for each story. It is where the first document of the story is among the lines."""
    known = {one.document_id: one for one in stories}
    folded: dict[int, FoldedLine[T]] = {}
    shown: list[FoldedLine[T]] = []
    for line in lines:
        story = known.get(document_of(line) or 0)
        if story is None or story.story_id not in folded:
            shown.append(FoldedLine(line, story, []))
            if story is not None:
                folded[story.story_id] = shown[-1]
        elif document_of(folded[story.story_id].line) != story.document_id:
            folded[story.story_id].folded.append(line)
        else:
            shown.append(FoldedLine(line, None, []))  # two items of one document
    return shown


@dataclass(frozen=True, slots=True)
class _VerifiedPage:
    rows: list[StoryRow]
    faults: list[StoryFault]
    keys: int
    missing_keys: int


async def _verify_page(connection: Connection, ids: list[int]) -> _VerifiedPage:
    rows = await stories.read_rows(connection, ids)
    read = await stories.read_documents(connection, ids, COMPARED_CHARACTERS)
    signatures = await asyncio.to_thread(sign_documents, read)
    links = await find_links(connection, signatures)
    faults: list[StoryFault] = []
    for one, signature in signatures.items():
        row = rows.get(one)
        if row is None:
            faults.append(StoryFault(one, "missing"))
        elif _decode(row.signature) != signature:
            faults.append(StoryFault(one, "signature"))
        elif row.links != links[one]:
            faults.append(StoryFault(one, "links"))
    keys = {one: signature.list_keys() for one, signature in signatures.items()}
    lacking = await stories.count_missing_keys(connection, keys)
    return _VerifiedPage(list(rows.values()), faults, sum(map(len, keys.values())), lacking)


_decode = msgspec.msgpack.Decoder(Signature).decode


def _find_copies(rows: Sequence[MemberRow]) -> list[StoryDocument]:
    """Return the documents of a story, each with the earlier one that has most of its text."""
    signatures = [_decode(row.signature) for row in rows]
    members = []
    for number, row in enumerate(rows):
        shares = [(estimate_shares(signatures[number], signatures[one])[0], -one) for one in range(number)]
        copied, earlier = max(shares, default=(0.0, 0))
        is_copy = copied >= _LEAST_COPIED
        fields = {name: getattr(row, name) for name in _SHARED_FIELDS}
        members.append(
            StoryDocument(
                **fields,
                copied_from=rows[-earlier].id if is_copy else None,
                copied=round(copied, 2) if is_copy else 0.0,
            )
        )
    return members


_SHARED_FIELDS = ("id", "url", "source", "title", "language", "region", "dated_at", "fetched_at")


def _check_id(document_id: int) -> None:
    if not 0 < document_id <= LARGEST_ID:
        raise _unknown(document_id)


def _unknown(document_id: int) -> HeadwaterError:
    return HeadwaterError(f"No story has a document {document_id}.", reason=Reason.UNKNOWN_DOCUMENT)
