"""Blocks as Markdown: headings, lists, quotations and tables are kept, what is within a paragraph is not."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from headwater.normalize import escaping
from headwater.normalize.blocks import HEADINGS, Block, Element

_CELLS = frozenset({"td", "th"})


def to_markdown(blocks: Sequence[Block]) -> str:
    """Return the blocks as Markdown."""
    parts = []
    for (kind, _), group in groupby(blocks, key=_group):
        if kind == "table":
            parts.append("\n".join(_table(list(group))))
        elif kind == "list":
            parts.append("\n".join(map(_item, group)))
        else:
            parts += map(_paragraph, group)
    return "\n\n".join(parts)


def _group(block: Block) -> tuple[str, int]:
    """Return what a block is written together with: the cells of a table, the items of a list."""
    for element in block.element.near():
        if element.tag == "table" and block.element.tag in _CELLS:
            return "table", element.order
        if element.tag in ("ul", "ol") and block.element.tag == "li":
            return "list", element.order
    return "", 0


def _table(cells: list[Block]) -> Iterator[str]:
    for number, (_, row) in enumerate(groupby(cells, key=lambda cell: _row(cell.element).order)):
        texts = [escaping.cell(cell.text) for cell in row]
        yield f"| {' | '.join(texts)} |"
        if number == 0:
            yield "|" + " --- |" * len(texts)


def _row(element: Element) -> Element:
    return element.parent or element


def _item(block: Block) -> str:
    parent = block.element.parent
    mark = "1." if parent is not None and parent.tag == "ol" else "-"
    return f"{mark} {escaping.paragraph(block.text)}"


def _paragraph(block: Block) -> str:
    tag = block.element.tag
    if tag in HEADINGS:
        return escaping.heading(block.text, int(tag[1]))
    text = escaping.paragraph(block.text)
    quoted = any(element.tag == "blockquote" for element in block.element.near())
    return f"> {text}" if quoted else text
