"""Pages that stand in the way of the page that was asked for: they answer 200, and are no documents.

What a page calls itself must as a whole be what such pages are called, or one of its lines must say what only they say;
and then nothing may be left that an article consists of. What the words leave open the markup decides, and it is looked
at only then. No rule is about a single site.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise

from selectolax.lexbor import LexborHTMLParser, LexborNode

from headwater.core.reasons import Reason
from headwater.extraction.article import Article
from headwater.extraction.html.blocks import Block
from headwater.extraction.interstitial_page import (
    FIRST_LINES,
    MOST_OF_A_WALL,
    SENTENCE,
    Page,
    bare,
    is_paragraph,
    sentences_of,
    whole_sentences,
)
from headwater.extraction.interstitial_words import (
    AGREE,
    CHALLENGE_MAKERS,
    CHALLENGE_NAMES,
    CHALLENGE_SAYS,
    CHALLENGE_VOICE,
    CHALLENGE_WORDS,
    CONSENT_SAYS,
    CONSENT_SURE,
    CONSENT_WEB,
    CONSENT_WORDS,
    LOGIN_BEGINS,
    LOGIN_FOR_OTHER,
    LOGIN_HELPS,
    LOGIN_HINTS,
    LOGIN_SAYS,
    LOGIN_WORDS,
    POLICIES,
    PRICES,
    THIS,
    VOICE,
    fold,
    is_excuse,
    is_mostly_of_missing,
    is_number_of_missing,
    names_what_is_missing,
    says_missing,
    speaks_of_missing,
)

# Of its paragraphs, in letters, as MOST_OF_A_WALL is.
_MOST_OF_A_CHALLENGE = 1_200
_MOST_OF_OTHERS = 600
# Of an article there is at least one paragraph of this size, or there are several that have it together.
_PARAGRAPH = 200
_LONGEST_BUTTON = 40
_LONGEST_OFFER = 250
_SHORT_ORDER = 45
_LONGEST_ORDER = 90
_MOST_BUTTONS = 400
_MOST_OF_A_BUTTON = 12
_ASKING_FOR_CONSENT = (CONSENT_SURE, CONSENT_WEB, CONSENT_SAYS)
_BUTTONS = "button, a, input[type=submit], input[type=button], [role=button]"

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
    page = Page(tree, article, blocks, kept)
    if page.size > MOST_OF_A_WALL and not page.plain_names:
        return None
    return next((reason for reason, stands_here in _WALLS.items() if stands_here(page)), None)


def _is_challenge(page: Page) -> bool:
    if page.is_longer(_MOST_OF_A_CHALLENGE) or (page.is_stated and page.size):
        return False
    if page.is_named(CHALLENGE_NAMES.fullmatch):
        if _begins_as_article(page, _is_own_of_challenge):
            return False
        if page.is_marked(_CHALLENGE_MARKS, *_CHALLENGE_SCRIPTS) or page.says(_names_maker_of_challenge):
            return True
        least = SENTENCE if page.says(_asks_to_pass, except_headlines=True) else 0
        return not page.has_prose(_is_own_of_challenge, least)
    if page.is_longer(_MOST_OF_OTHERS) or page.has_prose(_is_own_of_challenge):
        return False
    return page.says(_asks_to_pass) or (not page.size and page.is_marked(_CHALLENGE_MARKS, *_CHALLENGE_SCRIPTS))


def _is_missing(page: Page) -> bool:
    if _is_named_missing(page):
        if page.is_stated and page.has_prose(_is_own_of_missing, SENTENCE):
            return False
        return not _is_article(page) or page.is_marked(_MISSING_MARKS)
    if page.is_stated or page.is_longer(_MOST_OF_OTHERS) or page.has_prose(_is_own_of_missing, SENTENCE):
        return False
    if any(is_number_of_missing(name) or says_missing(name) for name in page.plain_names):
        return not page.has_prose(_is_own_of_missing) or page.is_marked(_MISSING_MARKS)
    said = [*page.names, *(line for line, _ in page.lines), *(text for text, _ in page.kept)]
    return not page.has_prose(_is_own_of_missing) and any(_says_missing(text) for text in said)


def _is_named_missing(page: Page) -> bool:
    if any(map(names_what_is_missing, page.plain_names)):
        return True
    is_hinted = any(is_excuse(name) or says_missing(name) for name in page.plain_names)
    return is_hinted and any(map(names_what_is_missing, page.first_sentences))


def _is_consent(page: Page) -> bool:
    if page.is_stated or page.is_named(POLICIES.fullmatch) or page.has_prose(CONSENT_WORDS.search, SENTENCE):
        return False
    said = [(text, block) for text, block in page.kept if block.links * 2 <= block.size]
    about = [(text, block) for text, block in said if CONSENT_WORDS.search(text)]
    if 2 * sum(block.size for _, block in about) <= sum(block.size for _, block in said):
        return False
    if not any(all(pattern.search(text) for pattern in _ASKING_FOR_CONSENT) for text, _ in about):
        return False
    voiced = sum(block.size for text, block in about if VOICE.search(text))
    voiceless = sum(block.size for text, block in about if is_paragraph(block) and not VOICE.search(text))
    return voiced > voiceless and any(map(AGREE.search, _buttons(page)))


def _is_login(page: Page) -> bool:
    if page.is_longer(_MOST_OF_OTHERS) or page.has_prose(_is_own_of_login, _PARAGRAPH):
        return False
    if _has_paragraphs(list(page.prose(_is_own_of_login))):
        return False
    asked = [line for line, is_headline in page.lines if not is_headline and not LOGIN_FOR_OTHER.search(line)]
    if any(map(_asks_to_log_in, asked)):
        return True
    if not page.has_prose(_is_own_of_login) and any(map(_hints_at_login, asked)):
        return True
    return not page.has_prose(_is_own_of_login, SENTENCE) and _is_form_to_log_in(page)


def _is_form_to_log_in(page: Page) -> bool:
    begins = [*page.names, *(bare(line) for line, _ in page.lines[:FIRST_LINES])]
    if not any(map(LOGIN_BEGINS.match, begins)):
        return False
    return page.is_marked('input[type="password"]') or (
        page.says(LOGIN_HELPS.search) and page.is_marked('input[type="email"], input[name="username"]')
    )


_WALLS: dict[Reason, Callable[[Page], bool]] = {
    Reason.CHALLENGE: _is_challenge,
    Reason.SOFT_404: _is_missing,
    Reason.COOKIE_WALL: _is_consent,
    Reason.LOGIN_WALL: _is_login,
}


def _is_own_of_challenge(text: str) -> bool:
    is_possible = CHALLENGE_SAYS.search(text) or _speaks_of(CHALLENGE_WORDS, text, CHALLENGE_VOICE)
    return bool(is_possible) and _is_mostly(text, _is_sentence_of_challenge)


def _asks_to_pass(line: str) -> bool:
    if not CHALLENGE_SAYS.search(line):
        return False
    return any(map(_orders_to_pass, whole_sentences(line))) and _is_own_of_challenge(line)


def _is_sentence_of_challenge(sentence: str) -> bool:
    return _speaks_of(CHALLENGE_WORDS, sentence, CHALLENGE_VOICE) or _orders_to_pass(sentence)


def _orders_to_pass(sentence: str) -> bool:
    return _is_order(CHALLENGE_SAYS, sentence) or _speaks_of(CHALLENGE_SAYS, sentence, CHALLENGE_VOICE)


def _names_maker_of_challenge(line: str) -> bool:
    return any(_speaks_of(CHALLENGE_MAKERS, sentence, CHALLENGE_VOICE) for sentence in whole_sentences(line))


def _is_own_of_missing(text: str) -> bool:
    return (is_mostly_of_missing(text) or _says_missing(text)) and _is_mostly(text, _is_sentence_of_missing)


def _is_sentence_of_missing(sentence: str) -> bool:
    return is_mostly_of_missing(sentence) or _says_missing(sentence) or VOICE.search(sentence) is not None


def _says_missing(text: str) -> bool:
    return any(map(speaks_of_missing, sentences_of(text))) or any(map(names_what_is_missing, whole_sentences(text)))


def _is_own_of_login(text: str) -> bool:
    is_possible = any(pattern.search(text) for pattern in (LOGIN_WORDS, PRICES, LOGIN_SAYS, LOGIN_HINTS))
    return is_possible and _is_mostly(text, _is_sentence_of_login)


def _asks_to_log_in(line: str) -> bool:
    if not LOGIN_SAYS.search(line):
        return False
    return any(map(_orders_to_log_in, whole_sentences(line))) and _is_own_of_login(line)


def _is_sentence_of_login(sentence: str) -> bool:
    if _orders_to_log_in(sentence) or _hints_at_login(sentence):
        return True
    return len(sentence) <= _LONGEST_OFFER and bool(PRICES.search(sentence) or _speaks_of(LOGIN_WORDS, sentence))


def _orders_to_log_in(sentence: str) -> bool:
    """Tell whether that is asked of the reader, or said of the page itself: others are asked in the news."""
    return _is_order(LOGIN_SAYS, sentence) or bool(
        LOGIN_SAYS.search(sentence) and (THIS.search(sentence) or VOICE.search(sentence))
    )


def _hints_at_login(text: str) -> bool:
    return _is_order(LOGIN_HINTS, text) or _speaks_of(LOGIN_HINTS, text)


def _is_order(orders: re.Pattern[str], sentence: str) -> bool:
    """Tell whether a sentence begins so, or says little else."""
    said = orders.search(sentence)
    return said is not None and len(sentence) <= (_SHORT_ORDER if said.start() else _LONGEST_ORDER)


def _is_mostly(text: str, is_own: Callable[[str], bool]) -> bool:
    """Tell whether most of what a text says is the wall's own."""
    sentences = whole_sentences(text)
    return 3 * sum(len(sentence) for sentence in sentences if is_own(sentence)) > 2 * sum(map(len, sentences))


def _speaks_of(words: re.Pattern[str], text: str, voice: re.Pattern[str] = VOICE) -> bool:
    return bool(words.search(text) and voice.search(text))


def _has_paragraphs(prose: Sequence[Block]) -> bool:
    return any(block.size >= _PARAGRAPH for block in prose) or (
        len(prose) > 1 and sum(block.size for block in prose) >= _PARAGRAPH
    )


def _begins_as_article(page: Page, is_own: Callable[[str], object]) -> bool:
    return page.report is not None and not is_own(page.folded(page.report))


def _is_article(page: Page) -> bool:
    """Tell whether paragraphs follow each other in one place; those of a list of articles stand below a link each."""
    if _begins_as_article(page, _is_own_of_missing):
        return True
    below_links = {id(block) for (_, above), (_, block) in pairwise(page.kept) if above.links * 2 > above.size}
    places: dict[int, list[Block]] = {}
    for block in page.prose(_is_own_of_missing):
        if id(block) not in below_links:
            places.setdefault(id(block.element.parent), []).append(block)
    return any(len(place) > 1 and _has_paragraphs(place) for place in places.values())


def _buttons(page: Page) -> Iterator[str]:
    """Yield what can be pressed, or looks so."""
    yield from (line for line, _ in page.lines if len(line) <= _LONGEST_BUTTON)
    for node in islice(page.tree.css(_BUTTONS), _MOST_BUTTONS):
        yield fold(_label_of(node))


def _label_of(node: LexborNode) -> str:
    """Return what a button says within a few elements: to read all that is nested in each would take seconds."""
    parts, waiting = [node.attributes.get("value") or ""], [node.first_child]
    for _ in range(_MOST_OF_A_BUTTON):
        inner = waiting.pop() if waiting else None
        if inner is None:
            break
        waiting += [following for following in (inner.next, inner.first_child) if following is not None]
        if inner.tag == "-text":
            parts.append(inner.text_content or "")
    said = " ".join(" ".join(parts).split())
    return said if len(said) <= _LONGEST_BUTTON else ""
