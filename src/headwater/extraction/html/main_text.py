"""The main text of a page, without what stands around it.

Every block of the page is judged by learned weights. Where the verdicts leave something open, the heading tells in
which part of the page the text is. Where they leave too much open, trafilatura is asked for a second opinion: it is an
order of magnitude slower, and independent.
"""

import logging
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lxml import etree, html

from headwater.core.text import has_sky_high_marks, join_blocks
from headwater.extraction.html.block_classifier import score_blocks
from headwater.extraction.html.blocks import Block, Element
from headwater.extraction.html.markdown import to_markdown

# trafilatura says on the log what it returns anyway; without a handler Python would print it.
logging.getLogger("trafilatura").addHandler(logging.NullHandler())

# The share of the text that is expected to be wrong, above which a second opinion is worth its time.
DOUBTFUL = 0.9
# ... above which what stands elsewhere than the heading is not believed.
_UNSURE = 0.2
_BY_ITS_PLACE = 0.5  # the doubt about what is too short to be judged, but stands below the heading
_LITTLE_TEXT = 200
_LITTLE_ELSEWHERE = 600  # what a site says of itself
_SHORT = 1000  # of longer texts there would have been more to keep
_LONGEST_FOR_A_SECOND = 500_000  # it takes seconds for the longest pages
_MOST_LINKS = 300_000  # each as often as there are elements around it
_NO_LETTERS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class MainText:
    """Blocks in their order, or one text where trafilatura saw what is in no block; `doubt` is 0 for none."""

    blocks: Sequence[Block]
    text: str
    origin: str
    doubt: float

    @property
    def markdown(self) -> str:
        """The same as Markdown."""
        return to_markdown(self.blocks) if self.text == _text(self.blocks) else self.text


def find_main_text(page: str, blocks: list[Block], elements: list[Element]) -> MainText:
    """Return the main text of a page, empty where there is none."""
    return decide(page, blocks, score_blocks(blocks, elements) if blocks else [])


def decide(page: str, blocks: Sequence[Block], verdicts: Sequence[float]) -> MainText:
    """Keep what the verdicts are for, unless they leave too much open."""
    kept = [block for block, verdict in zip(blocks, verdicts, strict=True) if verdict > 0]
    doubt = _doubt(blocks, verdicts)
    in_question = doubt > _UNSURE or _size(kept) < _LITTLE_ELSEWHERE
    section = headed_section(blocks) if in_question else None
    if section and (doubt > _UNSURE or section.tag in ARTICLES):
        inside = list(blocks_in(section, kept))
        if _is_little(inside, kept) and section.size - section.links < _SHORT:
            short = text_of(section, blocks)
            return MainText(short, _text(short), "dom", _BY_ITS_PLACE)
        if _size(inside) * 2 >= _size(kept):
            kept = inside
    if doubt <= DOUBTFUL:
        return MainText(kept, _text(kept), "dom", doubt)
    second = _by_trafilatura(page) if len(page) <= _LONGEST_FOR_A_SECOND else ""
    if second:
        agreed = _blocks_within(second, blocks)
        text = _text(agreed)
        # it may see text where we see none, such as in templates
        return MainText(agreed, text if len(text) * 5 >= len(second) * 4 else second, "trafilatura", doubt)
    # too small, or too odd, to tell what in it is the article
    kept = kept or [block for block in blocks if not _stands_around(block)]
    return MainText(kept, _text(kept), "dom", 1.0)


def _is_little(inside: Sequence[Block], kept: Sequence[Block]) -> bool:
    return _size(inside) < _LITTLE_TEXT and _size(kept) < _LITTLE_ELSEWHERE


def _size(blocks: Sequence[Block]) -> int:
    return sum(block.size for block in blocks)


def _doubt(blocks: Sequence[Block], verdicts: Sequence[float]) -> float:
    kept = wrong = 0.0
    for block, verdict in zip(blocks, verdicts, strict=True):
        if verdict > 0:
            kept += block.size
        wrong += block.size / (1 + math.exp(min(abs(verdict), 50.0)))
    return wrong / kept if kept >= _LITTLE_TEXT else 1.0


def _blocks_within(text: str, blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks whose words stand in a text, however its markup was written down."""
    whole = _letters(text)
    return [block for block in blocks if (letters := _letters(block.text)) and letters in whole]


def _letters(text: str) -> str:
    return "".join(_NO_LETTERS.split(text))


def _text(blocks: Sequence[Block]) -> str:
    return "\n\n".join(block.text for block in blocks)


def _stands_around(block: Block) -> bool:
    return any(element.tag in AROUND_THE_TEXT for element in block.element.near())


def _is_made_to_last(tree: html.HtmlElement) -> bool:
    """Tell whether it would take minutes: it looks at all links below each element, and it sorts marks."""
    depth = links = 0
    for event, element in etree.iterwalk(tree, events=("start", "end")):
        depth += 1 if event == "start" else -1
        if event == "start" and element.tag == "a":
            links += depth
    return links > _MOST_LINKS or has_sky_high_marks("".join(map(str, tree.itertext())))


def _by_trafilatura(page: str) -> str:
    # imported here: it brings half a dozen libraries, which most pages do not need
    from trafilatura import extract

    parser = html.HTMLParser(encoding="utf-8", collect_ids=False, remove_comments=True, remove_pis=True)
    try:
        tree = html.document_fromstring(page.encode(errors="replace"), parser=parser)
    except etree.ParserError:
        return ""
    if _is_made_to_last(tree):
        return ""
    extracted = extract(tree, fast=True, include_comments=False, include_tables=True)
    return join_blocks(extracted.split("\n")) if extracted else ""


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
