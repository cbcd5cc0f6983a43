"""The part of a page that its heading stands over, where what is said does not tell which part is the text."""

from collections.abc import Iterator, Sequence

from headwater.extraction.html.blocks import Block, Element

AROUND_THE_TEXT = frozenset({"nav", "header", "footer", "aside", "form", "dialog", "menu", "noscript"})
ARTICLES = ("article", "main")
_HEADERS = frozenset({"header", "hgroup"})
_SENTENCE = 40


def headed_section(blocks: Sequence[Block]) -> Element | None:
    """Return the article around the first heading that has a text, else the smallest element with both; or None.

    Without such a heading it is the only article of the page.
    """
    for heading in (block for block in blocks if block.element.tag == "h1"):
        around = [element for element in heading.element.ancestors() if element.tag not in _HEADERS][1:]
        around.sort(key=lambda element: element.tag not in ARTICLES)
        for element in around:
            if element.tag != "body" and element.size - element.links - heading.size >= _SENTENCE:
                return element
    return _only_article(blocks)


def _only_article(blocks: Sequence[Block]) -> Element | None:
    articles = {element for block in blocks for element in block.element.near() if element.tag == "article"}
    only = articles.pop() if len(articles) == 1 else None
    return only if only and only.size - only.links >= _SENTENCE else None


def blocks_in(section: Element, blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield the blocks that stand in a section."""
    return (block for block in blocks if section in block.element.near())


def text_of(section: Element, blocks: Sequence[Block]) -> list[Block]:
    """Return what a section says below its heading, without links and what is set apart."""
    inside = list(blocks_in(section, blocks))
    heading = next((number for number, block in enumerate(inside) if block.element.tag == "h1"), -1)
    below = (block for block in inside[heading + 1 :] if block.links * 2 <= block.size)
    return [block for block in below if not _is_set_apart(block, section)]


def _is_set_apart(block: Block, section: Element) -> bool:
    for element in block.element.near():
        if element is section:
            return False
        if element.tag in AROUND_THE_TEXT:
            return True
    return False
