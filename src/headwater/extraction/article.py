"""The results of extraction: articles, PDF documents and tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class BodyStatus(StrEnum):
    """The result of reading a body. Each value except `ok` is also the code of a reason."""

    OK = "ok"
    SCANNED_NO_TEXT = "scanned_no_text"  # pictures of pages with at most a line of text
    EMPTY_TEXT = "empty_text"  # all pages are empty
    ENCRYPTED = "encrypted"  # the document needs a password
    BROKEN = "broken"  # the document has the header of a PDF, but cannot be opened
    NOT_A_PDF = "not_a_pdf"  # the body is something else, such as an error page
    TOO_LARGE = "too_large"  # the document has more pages or text than the reader accepts; the first pages may be read


class PageKind(StrEnum):
    """The kinds of HTML pages."""

    ARTICLE = "article"
    DOCUMENTATION = "documentation"
    FORUM = "forum"
    PRODUCT = "product"
    SERVICE = "service"
    COLLECTION = "collection"
    LISTING = "listing"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A table that Markdown cannot show: it has over 20 columns, or cells that span others.

    All `rows` have the same length. A spanned cell is None. `page` counts from one.
    """

    name: str
    page: int
    why: str
    rows: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True, slots=True)
class PdfDocument:
    """A PDF as Markdown. It has text with the status `ok`, and the first pages with `too_large`."""

    markdown: str
    status: BodyStatus
    artifacts: tuple[Artifact, ...] = ()
    page_count: int = 0
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Article:
    """The text and the fields that a normalizer finds in a body."""

    text: str
    title: str | None = None
    byline: str | None = None
    abstract: str | None = None
    markdown: str = ""
    published_at: datetime | None = None
    updated_at: datetime | None = None
    language: str | None = None
    """The plain code of the language that the page declares, such as `de`."""
    region: str | None = None
    """The region that the page declares with its language, such as `DE`."""
    image: str | None = None
    """The address of the lead image."""
    canonical_url: str | None = None
    page_kind: PageKind | None = None
    """The kind of an HTML page, which its counts, names and declared types suggest."""
    body_status: BodyStatus = BodyStatus.OK
    artifacts: tuple[Artifact, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    """The origin of each field, by its name."""
    confidence: Mapping[str, float] = field(default_factory=dict)
    """How reliable each field is, from 0 to 1, by its name."""
