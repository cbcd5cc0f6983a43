"""What a PDF says."""

from dataclasses import dataclass
from enum import StrEnum


class BodyStatus(StrEnum):
    """How the text of a body came out; all but the first are reasons too, of the same code."""

    OK = "ok"
    SCANNED_NO_TEXT = "scanned_no_text"  # pictures of pages, at most stamped with a line
    EMPTY_TEXT = "empty_text"  # nothing is on any page
    ENCRYPTED = "encrypted"  # it opens with a password only
    BROKEN = "broken"  # it says it is a PDF, but cannot be opened
    NOT_A_PDF = "not_a_pdf"  # an error page, something compressed, nothing at all
    TOO_LARGE = "too_large"  # more pages or text than is read


@dataclass(frozen=True, slots=True)
class Artifact:
    """A table that Markdown cannot show as it is: over 20 columns wide, or with cells that span others.

    `rows` are of one length; a cell that another one spans is None. `page` counts from one.
    """

    name: str
    page: int
    why: str
    rows: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True, slots=True)
class PdfDocument:
    """A PDF as Markdown. Without the status `ok` there is no text."""

    markdown: str
    status: BodyStatus
    artifacts: tuple[Artifact, ...] = ()
    page_count: int = 0
    title: str | None = None
