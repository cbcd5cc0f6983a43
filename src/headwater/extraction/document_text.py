"""Build the text and the Markdown of a document that is not a page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from headwater.core.errors import Unreadable
from headwater.core.reasons import Reason
from headwater.core.text import clean, extract_blocks, join_blocks, one_line
from headwater.extraction import markdown_escape
from headwater.extraction.article import Article

_MAX_HEADING_LEVEL = 6
_TRUST = {"json": 1.0, "xml": 1.0, "url": 0.8}


@dataclass(slots=True)
class DocumentText:
    """The headings, paragraphs, lists and tables of a document, in reading order."""

    texts: list[str] = field(default_factory=list)
    markdown_parts: list[str] = field(default_factory=list)

    def add_heading(self, text: str, level: int) -> None:
        """Add a heading. The title has level one."""
        self._add(text, markdown_escape.escape_heading(text, min(level, _MAX_HEADING_LEVEL)))

    def add_paragraph(self, text: str) -> None:
        """Add a paragraph."""
        self._add(text, markdown_escape.escape_paragraph(text))

    def add_list(self, heading: str, lines: Iterable[str]) -> None:
        """Add a list with its heading. An empty list has none."""
        items = [line for line in map(one_line, lines) if line]
        if items:
            self.add_heading(heading, 2)
        self._add("\n".join(items), "\n".join(f"- {markdown_escape.escape_paragraph(line)}" for line in items))

    def add_table(self, rows: Sequence[Sequence[str]]) -> None:
        """Add a table. The first row is its head. Rows may be shorter than the widest."""
        width = max(map(len, rows))
        head = [*rows[0], *[""] * (width - len(rows[0]))]
        table = markdown_escape.format_table([head, *rows[1:]])
        self._add("\n".join(" | ".join(filter(None, row)) for row in rows), table)

    def make_article(
        self,
        url: str,
        origin: str,
        *,
        title: str = "",
        authors: Iterable[str] = (),
        published_at: datetime | None = None,
        date_origin: str = "",
        abstract: str = "",
    ) -> Article:
        """Return the article. All fields come from `origin`, except the date. Raises Unreadable if it has no text."""
        text = clean("\n\n".join(self.texts))
        if not text:
            raise Unreadable("The document contains no text.", reason=Reason.EMPTY_TEXT, url=url)
        byline = "; ".join(filter(None, authors))
        fields = {"text": text, "title": title, "byline": byline, "abstract": abstract}
        provenance = {name: origin for name, value in fields.items() if value}
        if published_at:
            provenance["published_at"] = date_origin or origin
        return Article(
            text=text,
            markdown=clean("\n\n".join(self.markdown_parts)),
            title=title or None,
            byline=byline or None,
            published_at=published_at,
            language="en",
            abstract=abstract or None,
            provenance=provenance,
            confidence={name: _TRUST[place] for name, place in provenance.items()},
        )

    def _add(self, text: str, markdown: str) -> None:
        if text.strip():
            self.texts.append(text)
            self.markdown_parts.append(markdown)


def split_paragraphs(summary: str) -> str:
    """Return the paragraphs of a summary, which is markup or plain lines."""
    return extract_blocks(summary) if "<" in summary else join_blocks(summary.split("\n"))
