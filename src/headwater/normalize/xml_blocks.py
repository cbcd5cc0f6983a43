"""The blocks of an XML document, as they become text and Markdown."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from lxml import etree

from headwater.policy.text import one_line

_NONE: frozenset[str] = frozenset()
_DEEPEST_HEADING = 6
_MARKUP = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_[]<>|"})


@dataclass(slots=True)
class Blocks:
    """Headings, paragraphs, lines of a list and tables, gathered in the order in which they are read."""

    texts: list[str] = field(default_factory=list)
    marked: list[str] = field(default_factory=list)

    def heading(self, text: str, level: int) -> None:
        """Add a heading; the first level is the title's."""
        self._add(text, f"{'#' * min(level, _DEEPEST_HEADING)} {escaped(text)}")

    def paragraph(self, text: str) -> None:
        """Add a paragraph."""
        self._add(text, _unlisted(escaped(text)))

    def lines(self, lines: Iterable[str]) -> None:
        """Add a list."""
        told = [line for line in map(one_line, lines) if line]
        self._add("\n".join(told), "\n".join(f"- {escaped(line)}" for line in told))

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Add a table, whose first row is its head; rows that are too short end with empty cells."""
        width = max((len(row) for row in rows), default=0)
        full = [[*row, *[""] * (width - len(row))] for row in rows]
        marked = [f"| {' | '.join(map(escaped, row))} |" for row in full]
        marked.insert(1, f"|{' --- |' * width}")
        self._add("\n".join(" | ".join(filter(None, row)) for row in full), "\n".join(marked))

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


def escaped(text: str) -> str:
    """Return a text whose signs mean themselves in Markdown."""
    return text.translate(_MARKUP)


def _unlisted(text: str) -> str:
    """Keep a paragraph from being taken for a heading or an entry of a list."""
    return f"\\{text}" if text.startswith(("#", "- ", "+ ")) else text


def name_of(element: etree._Element) -> str:
    """Return an element's name without its namespace."""
    return etree.QName(element).localname


def children(element: etree._Element) -> Iterator[etree._Element]:
    """Yield the elements below one; references to entities, which nobody resolves, are none."""
    return (child for child in element if isinstance(child.tag, str))


def text_of(element: etree._Element, skipped: Collection[str] = _NONE) -> str:
    """Return all text of an element as one line, without that of the elements that are skipped."""
    return one_line("".join(_texts(element, skipped)))


def own_text(element: etree._Element) -> str:
    """Return the text that stands in an element itself, and in none below it."""
    return one_line(" ".join([element.text or "", *(child.tail or "" for child in element)]))


def find_text(element: etree._Element, *paths: str) -> str:
    """Return the text of the first of some paths of names that leads somewhere, whatever the namespaces."""
    for path in paths:
        found = next(find_all(element, path), None)
        if found is not None and (text := text_of(found)):
            return text
    return ""


def find_all(element: etree._Element, path: str) -> Iterator[etree._Element]:
    """Yield the elements that a path of names leads to."""
    name, _, rest = path.partition("/")
    for child in children(element):
        if name_of(child) == name:
            yield from find_all(child, rest) if rest else (child,)


def _texts(element: etree._Element, skipped: Collection[str]) -> Iterator[str]:
    if element.text:
        yield element.text
    for child in element:
        if isinstance(child.tag, str) and name_of(child) not in skipped:
            yield from _texts(child, skipped)
        if child.tail:
            yield child.tail
