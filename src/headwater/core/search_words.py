"""The words of a text as search sees them: folded, and pairs of characters for scripts without spaces.

The index and a query use the same function, so that both have the same words at the same positions.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple

FUNCTION_VERSION = 1
"""Raise it with each change of the words that `split_words` makes: `headwater search reindex` makes all words again."""
LONGEST_WORD = 60  # characters; the rest of a word is not searched
LARGEST_INDEX = 900_000  # bytes; a tsvector holds at most 1 MB
LAST_POSITION = 16_383  # of a tsvector; all later words have this position

CONFIGURATIONS = {
    "ar": "arabic", "hy": "armenian", "eu": "basque", "ca": "catalan", "da": "danish", "nl": "dutch", "en": "english",
    "et": "estonian", "fi": "finnish", "fr": "french", "de": "german", "el": "greek", "hi": "hindi", "hu": "hungarian",
    "id": "indonesian", "ga": "irish", "it": "italian", "lt": "lithuanian", "ne": "nepali", "no": "norwegian",
    "nb": "norwegian", "nn": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian",
    "es": "spanish", "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
SIMPLE = "simple"

# Signs that belong to the letter before them. `\w` does not match them.
_SIGNS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u07a6-\u07b0\u0816-\u082d\u0859-\u085b\u08d3-\u08e1"
    "\u08e3-\u0903\u093a-\u093c\u093e-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09d7\u0a01-\u0a03\u0a3c-\u0a51"
    "\u0a70-\u0a75\u0a81-\u0a83\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b57\u0b82\u0bbe-\u0bcd\u0bd7\u0c00-\u0c04\u0c3e-\u0c56"
    "\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d4d\u0d57\u0d82\u0d83\u0dca-\u0ddf\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u0f71-\u0f84\u102b-\u103e\u1056-\u1059\u17b4-\u17d3\u1ab0-\u1aff\u1dc0-\u1dff"
    "\u200c\u200d\u20d0-\u20f0\u3099\u309a\ufe00-\ufe0f\ufe20-\ufe2f"
)
_RUN = re.compile(rf"\w+(?:[{_SIGNS}]+\w*)*")  # in a text without underscores
_ASCII_RUN = re.compile("[0-9A-Za-z]+")
# Han, Hiragana, Katakana, Hangul, Thai, Lao, Myanmar, Khmer: scripts without spaces, or whose words carry endings.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u3105-\u318f\u31a0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00016fe0-\U00018cff\U0001b000-\U0001b2ff"
    "\U00020000-\U0003fffd"
)
_HAS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_PIECE = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
# Accents of Latin, Greek and Cyrillic, points of Arabic and Hebrew, joiners. й is a letter of its own in Russian.
_ACCENT = re.compile(
    "(?<![ий])[\u0300-\u036f]|(?<=[ий])[\u0300-\u0305\u0307-\u036f]|[\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670"
    "\u06d6-\u06ed\u200c\u200d\ufe00-\ufe0f]"
)
_LETTERS = str.maketrans(
    {
        "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "\u0131": "i", "ħ": "h", "ŧ": "t",
        "ŋ": "n", "ĸ": "k", "ȷ": "j", "\u0649": "\u064a", "\u06cc": "\u064a", "\u06a9": "\u0643", "\u0671": "\u0627",
    }
    | {zero + digit: str(digit) for zero in (0x660, 0x6F0, 0x966) for digit in range(10)}
)  # fmt: skip
_NO_LETTER = re.compile(rf"[^\w{_SIGNS}]|_")


class Form(Enum):
    """How a word was cut from the text."""

    WORD = auto()
    PAIR = auto()  # two characters of a script without spaces
    LAST = auto()  # the last character of such a run: a search for one character finds it, and longer ones skip it
    LONE = auto()  # a run of one character


class SearchWord(NamedTuple):
    """A word of a text: folded, and its place in the text."""

    text: str
    start: int
    end: int
    form: Form = Form.WORD


def get_configuration(language: str | None) -> str:
    """Return the text search configuration of PostgreSQL for a language.

    A text without a language is searched as English: most such texts are English PDFs. Words of other languages are
    found as they are written.
    """
    return CONFIGURATIONS.get(language, SIMPLE) if language is not None else CONFIGURATIONS["en"]


def split_words(text: str) -> Iterator[SearchWord]:
    """Yield the words of a text in order. The number of a word, from 1 on, is its position in the index."""
    for run in _RUN.finditer(text.replace("_", " ")):
        found, start = run[0], run.start()
        if found.isascii():
            yield SearchWord(found[:LONGEST_WORD].lower(), start, run.end())
        elif not _HAS_UNSPACED.search(found):
            if folded := fold(found):
                yield SearchWord(folded, start, run.end())
        else:
            for piece in _PIECE.finditer(found):
                yield from _split_piece(piece[0], start + piece.start())


def _split_piece(piece: str, start: int) -> Iterator[SearchWord]:
    end = start + len(piece)
    if not _HAS_UNSPACED.match(piece):
        if folded := fold(piece):
            yield SearchWord(folded, start, end)
        return
    characters = _NO_LETTER.sub("", unicodedata.normalize("NFKC", piece).casefold())
    is_same_length = len(characters) == len(piece)
    for number in range(len(characters) - 1):
        place = (start + number, start + number + 2) if is_same_length else (start, end)
        yield SearchWord(characters[number : number + 2], *place, Form.PAIR)
    if characters:
        form = Form.LONE if len(characters) == 1 else Form.LAST
        yield SearchWord(characters[-1], end - 1 if is_same_length else start, end, form)


@lru_cache(maxsize=20_000)
def fold(word: str) -> str:
    """Return a word in small letters, without accents and in one form of its letters. It may be empty."""
    plain = unicodedata.normalize("NFKC", word[:LONGEST_WORD]).casefold()
    plain = _ACCENT.sub("", unicodedata.normalize("NFD", plain))
    plain = unicodedata.normalize("NFC", plain).casefold().translate(_LETTERS)
    return _NO_LETTER.sub("", plain)[:LONGEST_WORD]


def join_words(text: str) -> str:
    """Return the words of a text for PostgreSQL, as many as a tsvector holds."""
    words = list(_list_texts(text))
    joined = " ".join(words)
    # A word takes its bytes, and at most 6 more.
    if len(joined.encode()) + 6 * len(words) > LARGEST_INDEX:
        return " ".join(_cut(words))
    return joined


def _list_texts(text: str) -> Iterable[str]:
    """Return the texts of the words that `split_words` yields. It takes a fifth of the time."""
    if text.isascii():
        return [found[:LONGEST_WORD] for found in _ASCII_RUN.findall(text.lower())]
    if _HAS_UNSPACED.search(text):
        return [word.text for word in split_words(text)]
    runs = _RUN.findall(text.replace("_", " "))
    words = {run: run[:LONGEST_WORD].lower() if run.isascii() else fold(run) for run in set(runs)}
    return filter(None, map(words.__getitem__, runs))


def _cut(words: Iterable[str]) -> Iterator[str]:
    """Yield as many of the words as a tsvector holds."""
    seen: set[str] = set()
    size = 0
    for word in words:
        if word in seen:
            size += 2
        else:
            seen.add(word)
            size += len(word.encode()) + 6
        if size > LARGEST_INDEX:
            return
        yield word
