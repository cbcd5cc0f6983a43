"""Write blocks as Markdown: headings, lists, quotations, tables and code, but no markup within paragraphs."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from headwater.extraction import markdown_escape
from headwater.extraction.html.blocks import HEADINGS, Block, Element

_CELLS = frozenset({"td", "th"})
_INDENTS = {"ul": 2, "ol": 4}  # of nested items; numbers may have two digits
_WIDEST_INDENT = 40
_BACKTICKS = re.compile(r"`{3,}")


def to_markdown(blocks: Sequence[Block]) -> str:
    """Return the blocks as Markdown."""
    parts = []
    for (kind, _), group in groupby(blocks, key=_group):
        if kind == "table":
            rows = groupby(group, key=lambda cell: (cell.element.parent or cell.element).order)
            parts.append(markdown_escape.format_table([[cell.text for cell in row] for _, row in rows]))
        elif kind == "list":
            parts.append("\n".join(_items(group)))
        else:
            parts += map(_paragraph, group)
    return "\n\n".join(parts)


def _group(block: Block) -> tuple[str, int]:
    """Return the table of a cell or the outermost list of an item. Blocks with the same group are written together."""
    tag = block.element.tag
    if tag in _CELLS:
        table = next((element for element in block.element.near() if element.tag == "table"), None)
        return ("table", table.order) if table else ("", 0)
    lists = list(_lists_around(block.element)) if tag == "li" else []
    return ("list", lists[-1].order) if lists else ("", 0)


def _lists_around(element: Element) -> Iterator[Element]:
    return (above for above in element.near() if above.tag in _INDENTS)


def _items(blocks: Iterable[Block]) -> Iterator[str]:
    numbers: dict[Element, int] = {}
    for block in blocks:
        within, *above = _lists_around(block.element)
        numbers[within] = number = numbers.get(within, 0) + 1
        mark = f"{number}." if within.tag == "ol" else "-"
        indent = " " * min(sum(_INDENTS[element.tag] for element in above), _WIDEST_INDENT)
        yield f"{indent}{mark} {markdown_escape.escape_paragraph(block.text)}"


def _paragraph(block: Block) -> str:
    tag = block.element.tag
    if tag in HEADINGS:
        return markdown_escape.escape_heading(block.text, int(tag[1]))
    text = _fenced(block.text) if tag == "pre" else markdown_escape.escape_paragraph(block.text)
    quoted = any(element.tag == "blockquote" for element in block.element.near())
    return "> " + text.replace("\n", "\n> ") if quoted else text


def _fenced(code: str) -> str:
    fence = max(["```", *(f"{marks}`" for marks in _BACKTICKS.findall(code))], key=len)
    return f"{fence}\n{code}\n{fence}"
