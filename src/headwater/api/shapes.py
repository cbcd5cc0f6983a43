"""The shapes of what the API takes and answers."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field


class ErrorBody(BaseModel):
    """Why a request was not answered."""

    reason: str = Field(description="A code from the closed list of reasons.")
    message: str = Field(description="A sentence for a person.")
    run_id: int | None = Field(
        default=None, description="With `run_under_way`: that run, null where a poll is in the way."
    )


class ErrorAnswer(BaseModel):
    """The one shape of every error."""

    error: ErrorBody


class Health(BaseModel):
    """A sign of life."""

    status: str
    version: str


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
