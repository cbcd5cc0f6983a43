"""Blocks of a document that was no page, as they become text and Markdown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headwater.core.text import blocks_of_markup, join_blocks, one_line
from headwater.extraction import markdown_escape

_DEEPEST_HEADING = 6


@dataclass(slots=True)
class Blocks:
    """Headings, paragraphs, lines of a list and tables, gathered in the order in which they are read."""

    texts: list[str] = field(default_factory=list)
    marked: list[str] = field(default_factory=list)

    def heading(self, text: str, level: int) -> None:
        """Add a heading; the first level is the title's."""
        self._add(text, markdown_escape.heading(text, min(level, _DEEPEST_HEADING)))

    def paragraph(self, text: str) -> None:
        """Add a paragraph."""
        self._add(text, markdown_escape.paragraph(text))

    def lines(self, lines: Iterable[str]) -> None:
        """Add a list."""
        told = [line for line in map(one_line, lines) if line]
        self._add("\n".join(told), "\n".join(f"- {markdown_escape.paragraph(line)}" for line in told))

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Add a table, whose first row is its head, and as wide as the widest; rows may be shorter."""
        width = max((len(row) for row in rows), default=0)
        head = [*rows[0], *[""] * (width - len(rows[0]))] if rows else []
        marked = [f"| {' | '.join(map(markdown_escape.cell, row))} |" for row in (head, *rows[1:])]
        marked.insert(1, f"|{' --- |' * width}")
        self._add("\n".join(" | ".join(filter(None, row)) for row in rows), "\n".join(marked))

    def text(self) -> str:
        """Return all of it without marks."""
        return "\n\n".join(self.texts)

    def markdown(self) -> str:
        """Return all of it as Markdown."""
        return "\n\n".join(self.marked)

    def _add(self, text: str, marked: str) -> None:
        if text.strip():
            self.texts.append(text)
            self.marked.append(marked)


def paragraphs_of(summary: str) -> str:
    """Return the paragraphs of a summary, which is markup or plain lines."""
    return blocks_of_markup(summary) if "<" in summary else join_blocks(summary.split("\n"))
