"""Find the main text of a page.

Learned weights score each block of the page. If the scores leave doubt, the section of the heading decides. If they
leave much doubt, trafilatura gives a second opinion. It is independent, but takes ten times as long.
"""

import logging
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from lxml import etree, html

from headwater.core.text import has_hostile_marks, join_blocks
from headwater.extraction.article import PageKind
from headwater.extraction.html.blocks import SENTENCE_ENDS, Block, Element
from headwater.extraction.html.markdown import to_markdown

# trafilatura also logs its problems. Without a handler, Python would print them.
logging.getLogger("trafilatura").addHandler(logging.NullHandler())

# The expected share of wrong text above which trafilatura is asked.
_MAX_DOUBT = 0.9
# The expected share of wrong text above which text outside of the section of the heading is dropped.
_SOME_DOUBT = 0.15
_LITTLE_DOUBT = 0.1  # the same for a short text, which may be that of the site
_DOUBT_BELOW_HEADING = 0.5  # the doubt of a text that is too short for scores, but below the heading
_CAUTION = 0.7  # the share of a score that counts on pages that are no articles, because their scores err together
_MIN_COPY = 3  # paragraphs
_SURE = 1.0  # a score nearer to zero is in doubt
_BEFORE_BYLINE = 12  # characters, such as "Written by "
_MAX_DATE = 40
_MIN_ALIKE = 3  # blocks
_LITTLE_TEXT = 200
_SITE_TEXT = 600  # a site describes itself in texts of this size
_SHORT = 1000  # a section of a longer text would have had more good blocks
_MAX_SECOND_OPINION_LENGTH = 500_000  # trafilatura takes seconds for longer pages
_MAX_NESTED_LINKS = 300_000  # each counted once for each of its ancestors
_NON_LETTERS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class MainText:
    """The blocks of the main text, or a text of trafilatura that is in no block. `doubt` is 0 for none."""

    blocks: Sequence[Block]
    text: str
    origin: str
    doubt: float

    @property
    def markdown(self) -> str:
        """The main text as Markdown."""
        return to_markdown(self.blocks) if self.text == join_texts(self.blocks) else self.text


def choose_blocks(
    page: str, blocks: Sequence[Block], scores: Sequence[float], kind: PageKind, byline: str | None = None
) -> MainText:
    """Return the main text, without a line that has only the byline and a date.

    In an article, these are the blocks with a score above zero, unless the scores leave too much doubt. The blocks of
    other pages are less certain. There, the most likely blocks are kept up to the best expected F1.
    """
    found = _choose_article(page, blocks, scores) if kind is PageKind.ARTICLE else choose_likely(blocks, scores)
    own = byline if found.origin == "dom" else None
    once = _drop_copies([block for block in found.blocks if not (own and _is_byline(block, own))])
    return found if len(once) == len(found.blocks) else replace(found, blocks=once, text=join_texts(once))


def choose_likely(blocks: Sequence[Block], scores: Sequence[float]) -> MainText:
    """Return the most likely blocks, as many as give the best expected F1 of the text."""
    likely = [1 / (1 + math.exp(-max(-50.0, min(50.0, score * _CAUTION)))) for score in scores]
    expected = sum(share * block.size for share, block in zip(likely, blocks, strict=True))
    right = kept = best = least = 0.0
    for number in sorted(range(len(blocks)), key=lambda number: -likely[number]):
        right, kept = right + likely[number] * blocks[number].size, kept + blocks[number].size
        if 2 * right / (kept + expected) > best:
            best, least = 2 * right / (kept + expected), likely[number]
    least = min(least, 0.5)
    chosen = [block for block, share in zip(blocks, likely, strict=True) if share >= least]
    return MainText(chosen, join_texts(chosen), "dom", 1 - best)


def _drop_copies(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks without a second copy of the text: three or more paragraphs in the same order as before."""
    prose = [block for block in blocks if block.is_prose]
    first: dict[str, int] = {}
    origins = [first.setdefault(block.text, number) for number, block in enumerate(prose)]
    copies: set[Block] = set()
    run: list[Block] = []
    for number, (block, origin) in enumerate(zip(prose, origins, strict=True)):
        if run and origin != origins[number - 1] + 1:
            run = []
        if origin != number:
            run.append(block)
            if len(run) >= _MIN_COPY:
                copies.update(run)
    return [block for block in blocks if block not in copies]


def _is_byline(block: Block, byline: str) -> bool:
    before, name, after = block.text.partition(byline)
    return bool(name) and len(before) <= _BEFORE_BYLINE and (not after or _is_date(after))


def _is_date(text: str) -> bool:
    return len(text) <= _MAX_DATE and any(map(str.isdigit, text)) and text[-1] not in SENTENCE_ENDS


def _choose_article(page: str, blocks: Sequence[Block], scores: Sequence[float]) -> MainText:
    alike: dict[object, list[float]] = defaultdict(list)
    for block, score in zip(blocks, scores, strict=True):
        alike[block.likeness].append(score)
    kept = [
        block
        for block, score in zip(blocks, scores, strict=True)
        if score > 0 and not _is_outvoted(score, alike[block.likeness])
    ]
    doubt = _doubt(blocks, scores)
    some_doubt = _SOME_DOUBT if _size(kept) >= _SITE_TEXT else _LITTLE_DOUBT
    section = find_section(blocks) if doubt > some_doubt or _size(kept) < _SITE_TEXT else None
    if section and (doubt > some_doubt or section.tag in ARTICLES):
        inside = list(blocks_in(section, kept))
        is_little = _size(inside) < _LITTLE_TEXT and _size(kept) < _SITE_TEXT
        if is_little and section.size - section.links < _SHORT:
            short = section_text(section, blocks)
            return MainText(short, join_texts(short), "dom", _DOUBT_BELOW_HEADING)
        if _size(inside) * 3 >= _size(kept):
            kept = inside
    if doubt <= _MAX_DOUBT:
        return MainText(kept, join_texts(kept), "dom", doubt)
    second = _extract_by_trafilatura(page) if len(page) <= _MAX_SECOND_OPINION_LENGTH else ""
    if second and _is_prose(second):
        found = _find_blocks(second, blocks)
        text = join_texts(found)
        # trafilatura also reads text outside of blocks, such as text in templates.
        return MainText(found, text if len(text) * 5 >= len(second) * 4 else second, "trafilatura", doubt)
    if kept or second:
        return choose_likely(blocks, scores)
    # The page is too small or too unusual to score.
    kept = kept or [block for block in blocks if not _is_aside(block)]
    return MainText(kept, join_texts(kept), "dom", 1.0)


def _is_outvoted(score: float, alike: Sequence[float]) -> bool:
    """Return whether a block is in doubt, and all blocks like it are unwanted. Teasers differ only in their words."""
    return score < _SURE and len(alike) >= _MIN_ALIKE and sum(other > 0 for other in alike) == 1


def _is_prose(text: str) -> bool:
    """Return whether most of a text is in lines as long as sentences."""
    lines = text.split("\n")
    return sum(len(line) for line in lines if len(line) >= _SENTENCE) * 2 >= len(text)


def _size(blocks: Sequence[Block]) -> int:
    return sum(block.size for block in blocks)


def _doubt(blocks: Sequence[Block], scores: Sequence[float]) -> float:
    kept = wrong = 0.0
    for block, score in zip(blocks, scores, strict=True):
        if score > 0:
            kept += block.size
        wrong += block.size / (1 + math.exp(min(abs(score), 50.0)))
    return wrong / kept if kept >= _LITTLE_TEXT else 1.0


def _find_blocks(text: str, blocks: Sequence[Block]) -> list[Block]:
    whole = _letters(text)
    return [block for block in blocks if (letters := _letters(block.text)) and letters in whole]


def _letters(text: str) -> str:
    return "".join(_NON_LETTERS.split(text))


def join_texts(blocks: Sequence[Block]) -> str:
    """Return the text of blocks, with an empty line between them."""
    return "\n\n".join(block.text for block in blocks)


def _is_slow_for_trafilatura(tree: html.HtmlElement) -> bool:
    """Return whether trafilatura would take minutes: it reads all links below each element, and it sorts accents."""
    depth = links = 0
    for event, element in etree.iterwalk(tree, events=("start", "end")):
        depth += 1 if event == "start" else -1
        if event == "start" and element.tag == "a":
            links += depth
    return links > _MAX_NESTED_LINKS or has_hostile_marks("".join(map(str, tree.itertext())))


def _extract_by_trafilatura(page: str) -> str:
    # Imported here, because it loads several libraries that most pages do not need.
    from trafilatura import extract

    parser = html.HTMLParser(encoding="utf-8", collect_ids=False, remove_comments=True, remove_pis=True)
    try:
        tree = html.document_fromstring(page.encode(errors="replace"), parser=parser)
    except etree.ParserError:
        return ""
    if _is_slow_for_trafilatura(tree):
        return ""
    extracted = extract(tree, fast=True, include_comments=False, include_tables=True)
    return join_blocks(extracted.split("\n")) if extracted else ""


AROUND_THE_TEXT = frozenset({"nav", "header", "footer", "aside", "form", "dialog", "menu", "noscript"})
ARTICLES = ("article", "main")
_HEADERS = frozenset({"header", "hgroup"})
_SENTENCE = 40


def find_section(blocks: Sequence[Block]) -> Element | None:
    """Return the article around the first heading with a text, else the smallest element with both, else None.

    Without a heading, return the only article of the page.
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
    """Yield the blocks in a section."""
    return (block for block in blocks if section in block.element.near())


def section_text(section: Element, blocks: Sequence[Block]) -> list[Block]:
    """Return the text of a section below its heading, without links and side elements."""
    inside = list(blocks_in(section, blocks))
    heading = next((number for number, block in enumerate(inside) if block.element.tag == "h1"), -1)
    below = (block for block in inside[heading + 1 :] if block.links * 2 <= block.size)
    return [block for block in below if not _is_aside(block, section)]


def _is_aside(block: Block, section: Element | None = None) -> bool:
    inside = takewhile(lambda element: element is not section, block.element.near())
    return any(element.tag in AROUND_THE_TEXT for element in inside)
