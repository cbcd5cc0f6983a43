"""The words of pages that stand in the way, from `interstitial_words.toml`.

Whether there is no such page is told by what is left of a name once the words of such pages are taken out: nothing of
"Sorry, that page can't be found", but "history" and "archive" of "Page of history not found in archive".
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable
from importlib import resources
from typing import Any

_LONGEST_SENTENCE = 200
# What is written without spaces, or in signs that Python takes for no part of a word, is taken out as it stands.
_UNSPACED = re.compile("[\u0900-\u09ff\u0b80-\u0bff\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
# Of Latin, Greek and Cyrillic, Hebrew, Arabic, Devanagari, Thai and Japanese.
_ACCENTS = re.compile(
    "[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u093c\u094d\u0e38-\u0e3a\u0e48-\u0e4b\u3099\u309a]+"
)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_NUMBERS = frozenset({"404", "410"})


def fold(text: str) -> str:
    """Return a text without case and accents, as titles and addresses of pages are often written."""
    if text.isascii():
        return text.lower()
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    return unicodedata.normalize("NFC", bare).replace("\u2019", "'").replace("\u0131", "i")


def _pattern(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(fold, patterns)))


def _words(rows: Iterable[dict[str, Any]], *names: str) -> list[str]:
    return [fold(word) for row in rows for name in names for word in row[name].split()]


_TABLE = tomllib.loads(resources.files(__package__).joinpath("interstitial_words.toml").read_text("utf-8"))
_SPACED_ROWS, _UNSPACED_ROWS = _TABLE["missing"].values(), _TABLE["unspaced"].values()
_DECORATION = frozenset(fold(_TABLE["decoration"]).split())
_VOCABULARY = _DECORATION.union(_words(_SPACED_ROWS, "nouns", "words"))
_STEMS = tuple(word[:-1] for word in _VOCABULARY if word.endswith("*"))
_MISSING = _pattern(says for row in (*_SPACED_ROWS, *_UNSPACED_ROWS) for says in row["says"])
_NOUNS = re.compile(
    rf"\b(?:{'|'.join(_words(_SPACED_ROWS, 'nouns'))})\b|{'|'.join(_words(_UNSPACED_ROWS, 'nouns'))}"
    rf"|{fold(_TABLE['nothing'])}"
)
_PHRASES = _pattern(
    [
        *(says for row in _UNSPACED_ROWS for says in row["says"]),
        *sorted(_words(_UNSPACED_ROWS, "nouns", "words"), key=len, reverse=True),
    ]
)

VOICE = _pattern(_TABLE["voice"])
THIS = _pattern(_TABLE["this"])
CHALLENGE_NAMES = _pattern(_TABLE["challenge"]["names"])
CHALLENGE_SAYS = _pattern(_TABLE["challenge"]["says"])
CHALLENGE_VOICE = _pattern(_TABLE["challenge"]["voice"])
CHALLENGE_MAKERS = _pattern(_TABLE["challenge"]["makers"])
CHALLENGE_WORDS = _pattern(_TABLE["challenge"]["words"])
LOGIN_BEGINS = _pattern(_TABLE["login"]["begins"])
LOGIN_SAYS = _pattern(_TABLE["login"]["says"])
LOGIN_HINTS = _pattern(_TABLE["login"]["hints"])
LOGIN_HELPS = _pattern(_TABLE["login"]["helps"])
LOGIN_FOR_OTHER = _pattern(_TABLE["login"]["other"])
LOGIN_WORDS = _pattern(_TABLE["login"]["words"])
PRICES = _pattern(_TABLE["login"]["prices"])
CONSENT_WORDS = _pattern(_TABLE["consent"]["words"])
CONSENT_SURE = _pattern(_TABLE["consent"]["sure"])
CONSENT_WEB = _pattern(_TABLE["consent"]["web"])
CONSENT_SAYS = _pattern(_TABLE["consent"]["says"])
POLICIES = _pattern(_TABLE["consent"]["policies"])
AGREE = _pattern(_TABLE["consent"]["agree"])


def has_only_words_of_missing(name: str) -> bool:
    """Tell whether a folded name has no other words than those in which a page says that it is missing."""
    return not _has_strange_letters(name, most=0)


def says_missing(name: str) -> bool:
    """Tell whether a folded name as a whole says that there is no such page."""
    return has_only_words_of_missing(name) and _MISSING.search(name) is not None


def names_what_is_missing(name: str) -> bool:
    """Tell whether it also says that it is a page: "Page not found", "404 Not Found", but not "Introuvable"."""
    return says_missing(name) and (_NOUNS.search(name) is not None or not _NUMBERS.isdisjoint(_WORD.findall(name)))


def is_number_of_missing(name: str) -> bool:
    """Tell whether a folded name is nothing but the number of the error: "404", "Error 404"."""
    return is_excuse(name) and not _NUMBERS.isdisjoint(_WORD.findall(name))


def is_excuse(name: str) -> bool:
    """Tell whether a folded name says only that something is wrong: "Oops!", "Error 404"."""
    return all(word in _DECORATION for word in _WORD.findall(name))


def speaks_of_missing(sentence: str) -> bool:
    """Tell whether a folded sentence says so of a page, in little else than the words of such pages."""
    if len(sentence) > _LONGEST_SENTENCE or _has_strange_letters(sentence, most=len(sentence) // 4):
        return False
    return _MISSING.search(sentence) is not None and _NOUNS.search(sentence) is not None


def is_mostly_of_missing(text: str) -> bool:
    """Tell whether a folded text has little but words of such pages: what to try, whom to ask."""
    return not _has_strange_letters(text, most=len(text) * 3 // 10)


def _has_strange_letters(text: str, most: int) -> bool:
    """Tell whether more letters than that belong to words that such pages do not use."""
    if _UNSPACED.search(text):
        text = _PHRASES.sub(" ", text)
    strange = 0
    for word in _WORD.findall(text):
        if word not in _VOCABULARY and not word.startswith(_STEMS):
            strange += len(word)
            if strange > most:
                return True
    return False
