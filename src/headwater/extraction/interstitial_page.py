"""What a short page says of itself, for `walls.py` to judge."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise

from selectolax.lexbor import LexborHTMLParser

from headwater.extraction.article import Article
from headwater.extraction.html.blocks import HEADINGS, Block, Element
from headwater.extraction.interstitial_words import VOICE, fold, has_only_words_of_missing

# Of the paragraphs that would be kept, in letters. Where a page is not found they can be many: what else the site has.
MOST_OF_A_WALL = 1_500
SENTENCE = 100
FIRST_LINES = 5
_LONGEST_NAME = 120
_LONGEST_PLAIN_NAME = 65
_LONGEST_LINE = 400
_LONGEST_ASIDE = 500
_MOST_LINES = 60
_FEWEST_CARDS = 2
_STATED = frozenset({"json-ld", "opengraph"})
_ASIDE = frozenset(
    {"footer", "bottom", "copyright", "legal", "imprint", "nav", "menu", "navigation", "sidebar", "banner"}
)
_LAST_LINES = 6
_OWNER = re.compile(r"\u00a9|\(c\) |copyright\b|all rights reserved", re.IGNORECASE)
_PLACES_OF_ARTICLES = frozenset({"body", "main", "article"})
_ITEMS = frozenset({"li", "td", "th", "dd", "dt", "figcaption"})
_SEPARATOR = re.compile(r" [-\u2013\u2014\u00b7\u2022\u00bb\u203a:/~]+ | ?[|_] ?| [\u00ab\u2039] ")
_STOPS = r"[.!?\u2026\u3002\uff01\uff1f\u061f\u0964|:,\uff0c\u060c]"
_SENTENCE_END = re.compile(rf"(?<!{_STOPS}){_STOPS}++(?=\s|$)|[\u3002\uff01\uff1f]")
_ENDS = r"[.!?\u2026\u061f\u0964]"
_FULL_STOP = re.compile(rf'(?<!{_ENDS}){_ENDS}++(?=[\s)\u201d"]|$)|[\u3002\uff01\uff1f]')
# What somebody else has said.
_QUOTED = re.compile(
    '[\u201c\u201e\u00ab\u300c][^\u201c\u201d\u00bb\u300d]{1,200}[\u201c\u201d\u00bb\u300d]|"[^"]{1,200}"'
)
_SIGNS = re.compile(
    r"[!\"$%(-,./:-@\[-`{-~\u00a1\u00ab\u00bb\u00bf\u060c\u061f\u2010-\u2026\u3001-\u3003\uff01-\uff1f]+"
)


class Page:
    """What a page says. Whatever takes time is done once, and only when it is asked for."""

    def __init__(
        self, tree: LexborHTMLParser, article: Article, blocks: Sequence[Block], kept: Sequence[Block]
    ) -> None:
        self.tree = tree
        self._title = article.title or ""
        self._blocks = blocks
        self._kept = kept or blocks
        self._paragraphs = [block for block in self._kept if is_paragraph(block)]
        self._folded: dict[int, str] = {}
        self.size = sum(block.size for block in self._paragraphs)
        self._provenance = article.provenance

    @cached_property
    def is_stated(self) -> bool:
        """Who publishes an article says so where programs look for it: when, by whom, or that it is one."""
        if self._provenance.get("published_at") in _STATED or self._provenance.get("byline") == "json-ld":
            return True
        return self.tree.css_first('meta[property="og:type"][content="article"]') is not None

    @cached_property
    def _stated_names(self) -> list[str]:
        titles = {self._title}
        if self.size <= MOST_OF_A_WALL and (node := self.tree.css_first("title")):
            titles.add(" ".join(node.text().split()))
        parts = [part for title in titles for part in (title, *_SEPARATOR.split(title))]
        headings = (block.text for block in self._blocks if block.element.tag in ("h1", "h2"))
        return [name for name in dict.fromkeys([*parts, *islice(headings, 2)]) if 0 < len(name) <= _LONGEST_NAME]

    @cached_property
    def names(self) -> list[str]:
        """All that the page calls itself: its titles, their parts, and the first headings."""
        return list(map(bare, self._stated_names))

    @cached_property
    def plain_names(self) -> list[str]:
        """Those that have no other words than pages that are missing have."""
        short = [bare(name) for name in self._stated_names if len(name) <= _LONGEST_PLAIN_NAME]
        return [name for name in short if name and has_only_words_of_missing(name)]

    def is_named(self, is_name: Callable[[str], object]) -> bool:
        """Tell whether one of its names is such a name as a whole."""
        return any(map(is_name, self.names))

    def folded(self, block: Block) -> str:
        """Return what a block says, without case and accents."""
        return self._folded.get(id(block)) or self._folded.setdefault(id(block), fold(block.text))

    @cached_property
    def kept(self) -> list[tuple[str, Block]]:
        """What would be the document, without what is on every page of the site."""
        return [(self.folded(block), block) for block in self._kept if not self._stands_aside(block)]

    def prose(self, is_own: Callable[[str], object], least: int = 0) -> Iterator[Block]:
        """Yield the paragraphs of the document, from that size on, that are not the wall's own."""
        for block in self._paragraphs:
            if block.size >= least and not is_own(self.folded(block)) and not self._stands_aside(block):
                yield block

    def is_longer(self, most: int) -> bool:
        """Tell whether its paragraphs have more letters than that, without those that stand aside."""
        return self.size > most and self._rest > most

    @cached_property
    def _rest(self) -> int:
        return sum(block.size for block in self._paragraphs if not self._stands_aside(block))

    def has_prose(self, is_own: Callable[[str], object], least: int = 0) -> bool:
        """Tell whether there is such a paragraph."""
        return any(True for _ in self.prose(is_own, least))

    def _stands_aside(self, block: Block) -> bool:
        return (
            id(block) in self._cards
            or id(block) in self._last_lines
            or any(
                not _ASIDE.isdisjoint(element.names) and element.prose <= _LONGEST_ASIDE and element not in self._places
                for element in block.element.near()
            )
        )

    @cached_property
    def _cards(self) -> set[int]:
        """The paragraphs below a link each, away from the first heading: what else the site has."""
        below = [
            block
            for above, block in pairwise(self._blocks)
            if block.is_prose
            and above.links * 2 > above.size
            and is_paragraph(block)
            and not self._is_beside_heading(block.element)
        ]
        alike = Counter(block.likeness for block in below)
        return {id(block) for block in below if alike[block.likeness] >= _FEWEST_CARDS}

    def _is_beside_heading(self, element: Element) -> bool:
        place, wider = islice((*element.near(), None, None), 1, 3)
        if place is None or place in self._places or place.tag in _PLACES_OF_ARTICLES:
            return True
        return wider is not None and wider.tag != "body" and wider in self._places

    @cached_property
    def _last_lines(self) -> set[int]:
        """Paragraphs beside the line that says whose the site is, outside of the place of the first heading."""
        return {
            id(block)
            for block, below in pairwise(self._blocks[-_LAST_LINES:])
            if _OWNER.match(below.text)
            and (place := block.element.parent) is below.element.parent
            and place is not None
            and place.tag not in _PLACES_OF_ARTICLES
            and place not in self._places
        }

    @cached_property
    def _places(self) -> set[Element]:
        """Where the first heading stands: whatever that is called, it is not aside."""
        heading = next((block for block in self._blocks if block.element.tag in ("h1", "h2")), None)
        return set(heading.element.near()) if heading else set()

    @cached_property
    def lines(self) -> list[tuple[str, bool]]:
        """The short lines from the first heading on, and which are headlines: what stands above is on every page."""
        below = [
            block for block in self._blocks[self._first : self._first + _MOST_LINES] if len(block.text) <= _LONGEST_LINE
        ]
        return [(self.folded(block), self._is_headline(block)) for block in below]

    def _is_headline(self, block: Block) -> bool:
        return block.element.tag == "h1" or (block.element.tag in HEADINGS and self._title.startswith(block.text))

    @cached_property
    def _first(self) -> int:
        return next((number for number, block in enumerate(self._blocks) if block.element.tag == "h1"), 0)

    @cached_property
    def first_sentences(self) -> list[str]:
        """What stands around the first heading."""
        around = self._blocks[max(self._first - 2, 0) : self._first + FIRST_LINES]
        return [sentence for block in around for sentence in sentences_of(fold(block.text[:_LONGEST_LINE]))]

    def says(self, is_said: Callable[[str], object], *, except_headlines: bool = False) -> bool:
        """Tell whether one of the short lines says such a thing."""
        return any(is_said(line) for line, is_headline in self.lines if not (except_headlines and is_headline))

    @cached_property
    def report(self) -> Block | None:
        """The paragraph right below the first heading, if it speaks to nobody: so do articles begin."""
        beginning = self._blocks[self._first : self._first + 3]
        if not beginning or beginning[0].element.tag != "h1":
            return None
        for above, block in pairwise(beginning):
            if is_paragraph(block):
                speaks_to_nobody = block.size >= SENTENCE and not VOICE.search(self.folded(block))
                return block if speaks_to_nobody and above.links * 2 <= above.size else None
        return None

    def is_marked(self, selector: str, *scripts: str) -> bool:
        """Tell whether there is such an element, or a script that has one of these names."""
        return self.tree.css_first(selector) is not None or any(map(self.tree.scripts_contain, scripts))


def is_paragraph(block: Block) -> bool:
    """Tell whether a block is a paragraph of prose."""
    tag = block.element.tag
    return block.is_prose and tag not in _ITEMS and tag not in HEADINGS


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text and their parts, between any signs."""
    return [sentence.strip() for sentence in _SENTENCE_END.split(text) if sentence.strip()]


def bare(name: str) -> str:
    """Return a name without the signs around it and between its words."""
    return " ".join(_SIGNS.sub(" ", fold(name)).split()).strip(" -")


def whole_sentences(text: str) -> list[str]:
    """Return the sentences of a folded text, without what they quote."""
    return [sentence.strip() for sentence in _FULL_STOP.split(_QUOTED.sub(" ", text)) if sentence.strip()]
