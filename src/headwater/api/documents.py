"""Routes that read documents: lists, one document, its Markdown, its changes, and search."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Response
from pydantic import BaseModel, Field

from headwater.app.operations import Operations
from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason

LARGEST_ID = 2**63 - 1  # the database can hold no larger one


class DocumentLine(BaseModel):
    """A document in a list."""

    id: int
    url: str
    source: str
    title: str
    published_at: datetime | None
    language: str | None
    fetched_at: datetime


class DocumentPage(BaseModel):
    """Documents, newest first; `next` is the `before` of the page after, None on the last."""

    documents: list[DocumentLine]
    next: str | None


class Revision(BaseModel):
    """What a document was before its text changed."""

    revision: int
    title: str
    content_hash: str = Field(description="SHA-256 of the text.")
    raw_hash: str = Field(description="SHA-256 of the raw bytes.")
    fetched_at: datetime
    replaced_at: datetime


class Document(DocumentLine):
    """A document with its text and provenance."""

    revision: int = Field(description="1, and one more each time the text has changed.")
    revisions: list[Revision] = Field(description="The earlier ones, newest first.")
    text: str
    byline: str | None
    image: str | None
    abstract: str | None
    updated_at: datetime | None = Field(description="When it was changed last, by the page's own words or its feed's.")
    canonical_url: str | None = Field(description="The address that the page names as the one it should be known by.")
    provenance: dict[str, str] = Field(description="For each field, where it came from.")
    confidence: dict[str, float] = Field(description="For each field, how far it is to be trusted, from 0 to 1.")
    normalizer: str
    content_hash: str = Field(description="SHA-256 of the text.")
    raw_path: str = Field(description="The raw bytes, below the corpus folder.")
    raw_hash: str = Field(description="SHA-256 of the raw bytes.")
    raw_bytes: int
    body_status: str = Field(description="`ok`, or `scanned_no_text` for a PDF of pictures.")
    artifacts: list[dict[str, Any]] = Field(description="Tables that the text cannot show as they are, row by row.")


class Piece(BaseModel):
    """A part of a paragraph."""

    kind: Literal["same", "added", "removed"]
    text: str


class Change(BaseModel):
    """A paragraph that came, went or changed; of one that changed, the pieces that did are marked."""

    kind: Literal["added", "removed", "changed"]
    paragraph: int = Field(
        description="Its place in the text that it is in, from 1; of a changed one in the later text."
    )
    pieces: list[Piece]
    behind: str = Field(description="The words before a number that changed, as in the row of a table; else empty.")


class Diff(BaseModel):
    """What changed in a document from one revision to another. The counts are of paragraphs."""

    document_id: int
    url: str
    before: int = Field(description="The earlier revision.")
    after: int = Field(description="The later revision.")
    last: int = Field(description="The document's last revision.")
    before_came_at: datetime = Field(description="When the page first said what it says there.")
    after_came_at: datetime
    before_fetched_at: datetime = Field(description="When the page said that for the last time.")
    after_fetched_at: datetime
    title_before: str
    title_after: str
    summary: list[str] = Field(description="The same in sentences.")
    added: int
    removed: int
    changed: int
    unchanged: int
    changes: list[Change] = Field(description="In the order of the text; at most 500 of them.")
    told_all: bool = Field(description="Whether these are all.")


class Hit(BaseModel):
    """A document that was found; matches in the snippet stand between ⟦ and ⟧."""

    id: int
    url: str
    source: str
    title: str
    published_at: datetime | None
    rank: float
    snippet: str


class Hits(BaseModel):
    """Documents that were found, best first."""

    hits: list[Hit]


def add_documents(app: FastAPI, operations: Operations) -> None:
    """Add the routes that read documents."""

    @app.get("/documents", tags=["reading"])
    async def documents(
        limit: Annotated[int, Query(ge=1, le=500)] = 50, before: str | None = None, source: str | None = None
    ) -> DocumentPage:
        """List documents, newest first."""
        rows = await operations.documents(limit=limit, before=_cursor(before), source=source)
        last = rows[-1] if len(rows) == limit else None
        following = f"{last['fetched_at']:%Y-%m-%dT%H:%M:%S.%fZ}_{last['id']}" if last else None
        return DocumentPage(documents=[DocumentLine(**row) for row in rows], next=following)

    @app.get("/documents/{document_id}", tags=["reading"])
    async def document(document_id: int) -> Document:
        """Return a document with its text, provenance and earlier revisions."""
        row = await operations.document(document_id) if 0 < document_id <= LARGEST_ID else None
        if row is None:
            raise HeadwaterError(f"There is no document {document_id}.", reason=Reason.UNKNOWN_DOCUMENT)
        revisions = [Revision(**_with_hex_hashes(revision)) for revision in row["revisions"]]
        return Document(**(_with_hex_hashes(row) | {"revisions": revisions}))

    @app.get("/documents/{document_id}/markdown", tags=["reading"], response_class=Response)
    async def markdown(document_id: int) -> Response:
        """Return a document as Markdown, made from its raw file; one at a time, and 503 for who waits too long."""
        return Response(await operations.markdown(document_id), media_type="text/markdown; charset=utf-8")

    @app.get("/documents/{document_id}/diff", tags=["reading"])
    async def diff(
        document_id: int,
        before: Annotated[int | None, Query(alias="from", ge=1, description="By default the one before.")] = None,
        after: Annotated[int | None, Query(alias="to", ge=1, description="By default the last.")] = None,
    ) -> Diff:
        """Tell what changed in a document from one revision to another, by paragraphs and words."""
        found = await operations.diffs.diff(document_id, before, after)
        return Diff(
            document_id=found.document_id,
            url=found.url,
            before=found.before,
            after=found.after,
            last=found.last,
            before_came_at=found.before_came_at,
            after_came_at=found.after_came_at,
            before_fetched_at=found.before_fetched_at,
            after_fetched_at=found.after_fetched_at,
            title_before=found.diff.title_before,
            title_after=found.diff.title_after,
            summary=found.diff.sentences(),
            added=found.diff.added,
            removed=found.diff.removed,
            changed=found.diff.changed,
            unchanged=found.diff.unchanged,
            changes=[
                Change(
                    kind=change.kind,
                    paragraph=change.paragraph,
                    pieces=[Piece(kind=piece.kind, text=piece.text) for piece in change.pieces],
                    behind=change.behind,
                )
                for change in found.diff.changes
            ],
            told_all=found.diff.told_all,
        )

    @app.get("/search", tags=["reading"])
    async def search(
        q: Annotated[str, Query(min_length=1, max_length=500, description='Words, "a phrase", or, -not.')],
        limit: Annotated[int, Query(ge=1, le=100)] = 10,
        offset: Annotated[int, Query(ge=0, le=10_000)] = 0,
    ) -> Hits:
        """Search titles and texts, best first."""
        return Hits(hits=[Hit(**row) for row in await operations.search(q, limit=limit, offset=offset)])


def _with_hex_hashes(row: dict[str, Any]) -> dict[str, Any]:
    return row | {name: row[name].hex() for name in ("content_hash", "raw_hash")}


def _cursor(text: str | None) -> tuple[datetime, int] | None:
    if text is None:
        return None
    moment, _, number = text.rpartition("_")
    try:
        fetched_at, document_id = datetime.fromisoformat(moment), int(number)
    except ValueError:
        fetched_at, document_id = None, 0
    if fetched_at is None or fetched_at.tzinfo is None or not 0 < document_id <= LARGEST_ID:
        raise HeadwaterError("before: must be the `next` of the page before.", reason=Reason.BAD_REQUEST)
    return fetched_at, document_id
