"""Pages that stand in the way of the page that was asked for: they answer 200, and are no documents.

What a page calls itself must as a whole be what such pages are called, or one of its lines must say what only they say;
and then nothing may be left that an article consists of. What the words leave open the markup decides, and it is looked
at only then. No rule is about a single site.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise

from selectolax.lexbor import LexborHTMLParser

from headwater.model.article import Article
from headwater.model.reasons import Reason
from headwater.normalize.blocks import HEADINGS, Block, Element
from headwater.normalize.wall_words import (
    AGREE,
    CHALLENGE_NAMES,
    CHALLENGE_SAYS,
    CHALLENGE_WORDS,
    CONSENT_WORDS,
    LOGIN_BEGINS,
    LOGIN_FOR_OTHER,
    LOGIN_HINTS,
    LOGIN_SAYS,
    LOGIN_WORDS,
    PRICES,
    VOICE,
    fold,
    has_only_words_of_missing,
    is_excuse,
    is_mostly_of_missing,
    is_number_of_missing,
    names_what_is_missing,
    says_missing,
    speaks_of_missing,
)

# Of the paragraphs that would be kept, in letters. Where a page is not found they can be many: what else the site has.
_MOST_OF_CONSENT = 1_500
_MOST_OF_A_CHALLENGE = 1_200
_MOST_OF_OTHERS = 600
# Of an article there is at least one paragraph of this size, or there are several that have it together.
_PARAGRAPH = 200
_SENTENCE = 100
_LONGEST_NAME = 120
_LONGEST_PLAIN_NAME = 65
_LONGEST_LINE = 400
_LONGEST_BUTTON = 40
_LONGEST_ASIDE = 500
_LONGEST_OFFER = 250
_FIRST_LINES = 5
_MOST_LINES = 60

_STATED = frozenset({"json-ld", "opengraph"})
_ASIDE = frozenset(
    {"footer", "bottom", "copyright", "legal", "imprint", "nav", "menu", "navigation", "sidebar", "banner"}
)
_ITEMS = frozenset({"li", "td", "th", "dd", "dt", "figcaption"})
_SEPARATOR = re.compile(r" [-\u2013\u2014\u00b7\u2022\u00bb\u203a:/~]+ | ?[|_] ?| [\u00ab\u2039] ")
_STOPS = r"[.!?\u2026\u3002\uff01\uff1f\u061f\u0964|:,\uff0c\u060c]"
_SENTENCE_END = re.compile(rf"(?<!{_STOPS}){_STOPS}++(?=\s|$)|[\u3002\uff01\uff1f]")
_SIGNS = re.compile(
    r"[!\"$%(-,./:-@\[-`{-~\u00a1\u00ab\u00bb\u00bf\u060c\u061f\u2010-\u2026\u3001-\u3003\uff01-\uff1f]+"
)

_MISSING_MARKS = (
    'body[class*="404"], html[class*="404"], [class*="error-404"], [class*="error404"], [class*="page-404"], '
    '[class*="not-found"], [class*="notfound"], [class*="not_found"], [id*="404"], [id*="not-found"], '
    '[id*="notfound"], meta[name="robots"][content*="noindex"]'
)
# What only the pages have that keep programs out; fields with a test are on ordinary pages too.
_CHALLENGE_MARKS = (
    'script[src*="captcha-delivery"], script[src*="/orchestrate/"], script[src*="awswaf"], script[src*="_Incapsula_"], '
    'iframe[src*="_Incapsula_"], script[src*="/anubis/"], [id="px-captcha"], [id="cf-error-details"], '
    '[id="challenge-form"], [id="challenge-stage"], [id="challenge-running"], [id="challenge-container"], '
    '[id="challenge-error-text"], [id="challenge-error-title"]'
)
_CHALLENGE_SCRIPTS = (
    "_cf_chl_opt",
    "gokuProps",
    "_Incapsula_Resource",
    "captcha-delivery",
    "_pxAppId",
    "AwsWafIntegration",
)


def find_wall(
    tree: LexborHTMLParser, article: Article, blocks: Sequence[Block], kept: Sequence[Block]
) -> Reason | None:
    """Return what keeps the page from being read; `blocks` are all that is seen of it, `kept` would be the document."""
    page = _Page(tree, article, blocks, kept)
    if page.size > _MOST_OF_CONSENT and not page.plain_names:
        return None
    return next((reason for reason, stands_here in _WALLS.items() if stands_here(page)), None)


class _Page:
    """What a page says. Whatever takes time is done once, and only when it is asked for."""

    def __init__(
        self, tree: LexborHTMLParser, article: Article, blocks: Sequence[Block], kept: Sequence[Block]
    ) -> None:
        self.tree = tree
        self._title = article.title or ""
        self._blocks = blocks
        self._kept = kept or blocks
        self._paragraphs = [block for block in self._kept if _is_paragraph(block)]
        self._folded: dict[int, str] = {}
        self.size = sum(block.size for block in self._paragraphs)
        # who publishes an article says when, where programs look for it
        self.is_stated = article.provenance.get("published_at") in _STATED

    @cached_property
    def _stated_names(self) -> list[str]:
        titles = {self._title}
        if self.size <= _MOST_OF_CONSENT and (node := self.tree.css_first("title")):
            titles.add(" ".join(node.text().split()))
        parts = [part for title in titles for part in (title, *_SEPARATOR.split(title))]
        headings = (block.text for block in self._blocks if block.element.tag in ("h1", "h2"))
        return [name for name in dict.fromkeys([*parts, *islice(headings, 2)]) if 0 < len(name) <= _LONGEST_NAME]

    @cached_property
    def names(self) -> list[str]:
        """All that the page calls itself: its titles, their parts, and the first headings."""
        return list(map(_bare, self._stated_names))

    @cached_property
    def plain_names(self) -> list[str]:
        """Those that have no other words than pages that are missing have."""
        short = [_bare(name) for name in self._stated_names if len(name) <= _LONGEST_PLAIN_NAME]
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

    def has_prose(self, is_own: Callable[[str], object], least: int = 0) -> bool:
        """Tell whether there is such a paragraph."""
        return any(True for _ in self.prose(is_own, least))

    def _stands_aside(self, block: Block) -> bool:
        return any(
            not _ASIDE.isdisjoint(element.names) and element.prose <= _LONGEST_ASIDE and element not in self._places
            for element in block.element.ancestors()
        )

    @cached_property
    def _places(self) -> set[Element]:
        """Where the first heading stands: whatever that is called, it is not aside."""
        heading = next((block for block in self._blocks if block.element.tag in ("h1", "h2")), None)
        return set(heading.element.ancestors()) if heading else set()

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
        around = self._blocks[max(self._first - 2, 0) : self._first + _FIRST_LINES]
        return [sentence for block in around for sentence in _sentences(fold(block.text[:_LONGEST_LINE]))]

    def says(self, pattern: re.Pattern[str], *, except_headlines: bool = False) -> bool:
        """Tell whether one of the short lines says such a thing."""
        return any(pattern.search(line) for line, is_headline in self.lines if not (except_headlines and is_headline))

    def is_marked(self, selector: str, *scripts: str) -> bool:
        """Tell whether there is such an element, or a script that has one of these names."""
        return self.tree.css_first(selector) is not None or any(map(self.tree.scripts_contain, scripts))


def _is_challenge(page: _Page) -> bool:
    if page.size > _MOST_OF_A_CHALLENGE or (page.is_stated and page.size):
        return False
    if page.is_named(CHALLENGE_NAMES.fullmatch):
        if page.is_marked(_CHALLENGE_MARKS, *_CHALLENGE_SCRIPTS):
            return True
        least = _SENTENCE if page.says(CHALLENGE_SAYS, except_headlines=True) else 0
        return not page.has_prose(_is_own_of_challenge, least)
    if page.size > _MOST_OF_OTHERS or page.has_prose(_is_own_of_challenge):
        return False
    return page.says(CHALLENGE_SAYS) or (not page.size and page.is_marked(_CHALLENGE_MARKS, *_CHALLENGE_SCRIPTS))


def _is_missing(page: _Page) -> bool:
    if _is_named_missing(page):
        if page.is_stated and page.has_prose(_is_own_of_missing, _SENTENCE):
            return False
        return not _is_article(page) or page.is_marked(_MISSING_MARKS)
    if page.is_stated or page.size > _MOST_OF_OTHERS or page.has_prose(_is_own_of_missing, _SENTENCE):
        return False
    if any(is_number_of_missing(name) or says_missing(name) for name in page.plain_names):
        return not page.has_prose(_is_own_of_missing) or page.is_marked(_MISSING_MARKS)
    said = [*page.names, *(line for line, _ in page.lines), *(text for text, _ in page.kept)]
    return not page.has_prose(_is_own_of_missing) and any(
        speaks_of_missing(sentence) for text in said for sentence in _sentences(text)
    )


def _is_named_missing(page: _Page) -> bool:
    if any(map(names_what_is_missing, page.plain_names)):
        return True
    is_hinted = any(is_excuse(name) or says_missing(name) for name in page.plain_names)
    return is_hinted and any(map(names_what_is_missing, page.first_sentences))


def _is_consent(page: _Page) -> bool:
    if page.is_stated or page.has_prose(CONSENT_WORDS.search, _SENTENCE):
        return False
    said = [(text, block) for text, block in page.kept if block.links * 2 <= block.size]
    about = [(text, block) for text, block in said if CONSENT_WORDS.search(text)]
    if 2 * sum(block.size for _, block in about) <= sum(block.size for _, block in said):
        return False
    voiced = sum(block.size for text, block in about if VOICE.search(text))
    voiceless = sum(block.size for text, block in about if _is_paragraph(block) and not VOICE.search(text))
    return voiced > voiceless and any(map(AGREE.search, _buttons(page)))


def _is_login(page: _Page) -> bool:
    if page.size > _MOST_OF_OTHERS or page.has_prose(_is_own_of_login, _PARAGRAPH):
        return False
    if _has_paragraphs(list(page.prose(_is_own_of_login))):
        return False
    asked = [line for line, is_headline in page.lines if not is_headline and not LOGIN_FOR_OTHER.search(line)]
    if any(map(LOGIN_SAYS.search, asked)):
        return True
    if not page.has_prose(_is_own_of_login) and any(map(LOGIN_HINTS.search, asked)):
        return True
    return not page.has_prose(_is_own_of_login, _SENTENCE) and _is_form_to_log_in(page)


def _is_form_to_log_in(page: _Page) -> bool:
    begins = [*page.names, *(_bare(line) for line, _ in page.lines[:_FIRST_LINES])]
    return any(map(LOGIN_BEGINS.match, begins)) and page.is_marked('input[type="password"]')


_WALLS: dict[Reason, Callable[[_Page], bool]] = {
    Reason.CHALLENGE: _is_challenge,
    Reason.SOFT_404: _is_missing,
    Reason.COOKIE_WALL: _is_consent,
    Reason.LOGIN_WALL: _is_login,
}


def _is_own_of_challenge(text: str) -> bool:
    return bool(CHALLENGE_SAYS.search(text) or _speaks_of(CHALLENGE_WORDS, text))


def _is_own_of_missing(text: str) -> bool:
    return is_mostly_of_missing(text) or any(map(speaks_of_missing, _sentences(text)))


def _is_own_of_login(text: str) -> bool:
    if LOGIN_SAYS.search(text) or LOGIN_HINTS.search(text):
        return True
    return len(text) <= _LONGEST_OFFER and bool(PRICES.search(text) or _speaks_of(LOGIN_WORDS, text))


def _speaks_of(words: re.Pattern[str], text: str) -> bool:
    return bool(words.search(text) and VOICE.search(text))


def _is_paragraph(block: Block) -> bool:
    tag = block.element.tag
    return block.is_prose and tag not in _ITEMS and tag not in HEADINGS


def _has_paragraphs(prose: Sequence[Block]) -> bool:
    return any(block.size >= _PARAGRAPH for block in prose) or (
        len(prose) > 1 and sum(block.size for block in prose) >= _PARAGRAPH
    )


def _is_article(page: _Page) -> bool:
    """Tell whether paragraphs follow each other in one place; those of a list of articles stand below a link each."""
    below_links = {id(block) for (_, above), (_, block) in pairwise(page.kept) if above.links * 2 > above.size}
    places: dict[int, list[Block]] = {}
    for block in page.prose(_is_own_of_missing):
        if id(block) not in below_links:
            places.setdefault(id(block.element.parent), []).append(block)
    return any(len(place) > 1 and _has_paragraphs(place) for place in places.values())


def _buttons(page: _Page) -> Iterator[str]:
    """Yield what can be pressed, or looks so."""
    yield from (line for line, _ in page.lines if len(line) <= _LONGEST_BUTTON)
    for node in page.tree.css("button, a, input[type=submit], input[type=button], [role=button]"):
        said = " ".join((node.text() or node.attributes.get("value") or "").split())
        if len(said) <= _LONGEST_BUTTON:
            yield fold(said)


def _sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in _SENTENCE_END.split(text) if sentence.strip()]


def _bare(name: str) -> str:
    """Return a name without the signs around it and between its words."""
    return " ".join(_SIGNS.sub(" ", fold(name)).split()).strip(" -")
