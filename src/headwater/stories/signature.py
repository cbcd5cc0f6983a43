"""The signature of a document, which stories compare instead of its text. It depends on the document alone.

A text becomes a sketch, the smallest hashes of its shingles (bottom-k MinHash): two sketches estimate how much of one
text is in the other. The title and the lead become a sparse vector of words, in which names, numbers and rare words
weigh more. A signature has a few keys. Two documents are compared only if they share a key.
"""

import math
import re
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from heapq import nlargest
from importlib.resources import files
from zlib import crc32

import msgspec

from headwater.core.search_words import FUNCTION_VERSION as WORDS_VERSION
from headwater.core.search_words import Form, SearchWord, split_words

FUNCTION_VERSION = 1000 * WORDS_VERSION + 1
"""Raise it with each change of signatures or of their comparison: the role then makes all stories again."""
WINDOW = timedelta(days=3)
"""Two reports of one event are at most so far apart."""
COMPARED_CHARACTERS = 8_000
"""So many characters of a text are compared."""

SKETCH = 160
_TITLE_CHARACTERS = 500
_LEAD_CHARACTERS = 1200
_SHINGLE = 4  # words, or pairs of characters in scripts without spaces
_COPY_KEYS = 6
_TERMS = 40
_TERM_KEYS = 9
_BUCKET = 2 * WINDOW.total_seconds()  # two rows of buckets, half a bucket apart: each two near dates share a bucket
_RUN = re.compile(r"[^\W_]+")
_SENTENCE_END = frozenset('.!?:;\n"\u201c\u201d\u2018\u2019\u00bb\u00ab\u2022|')
_WEIGHTS = (0.0, 0.05, 0.2, 0.4, 0.65)  # of the classes of common_words.txt; other words weigh 1
_NAME, _NUMBER, _OTHER = 1.6, 1.3, 0.8
_IN_TITLE = 1.6
_SHORT = 3  # letters
_CACHED_LENGTH = 40
_STEM = 6  # letters: impeach and impeachment are one word
_YEAR = re.compile("(?:19|20)[0-9]{2}")
UNIT = 1000
"""The length of each vector."""


class Signature(msgspec.Struct, frozen=True, array_like=True):
    """The signature of a document. Words are hashes."""

    site: int
    """A hash of its host."""
    published: int | None
    """When it was published, in seconds. Without it the document can only be a copy."""
    sketch: tuple[int, ...]
    """The smallest hashes of its shingles, in order."""
    shingles: int
    """The number of its different shingles."""
    strong: dict[int, int]
    """The weights of the names, the numbers and the words of the title."""
    weak: dict[int, int]
    """The weights of the other words."""
    title: int
    """A hash of the words of the title."""
    title_numbers: tuple[int, ...]
    """The numbers in the title."""

    def list_keys(self) -> list[int]:
        """Return the keys under which the document is found."""
        keys = list(self.sketch[:_COPY_KEYS])
        if self.published is not None:
            both = self.strong | self.weak
            best = nlargest(_TERM_KEYS, both, key=lambda term: (both[term], term))
            place = self.published / _BUCKET
            buckets = 2 * math.floor(place), 2 * math.floor(place + 0.5) + 1
            keys += [(bucket + 2**22) << 32 | term for term in best for bucket in buckets]
        return keys


def make_signature(title: str, text: str, *, host: str, published_at: datetime | None) -> Signature:
    """Make the signature of a document."""
    words = list(split_words(title[:_TITLE_CHARACTERS]))
    shingles = sorted(_make_shingles(text[:COMPARED_CHARACTERS]))
    weights, strong = _weigh(title, words, text[:_LEAD_CHARACTERS])
    best = nlargest(_TERMS, weights, key=lambda term: (weights[term], term))
    length = math.sqrt(sum(weights[term] ** 2 for term in best)) or 1.0
    rounded = {term: max(1, round(UNIT * weights[term] / length)) for term in best}
    return Signature(
        site=_hash(host.removeprefix("www.")),
        published=int(published_at.timestamp()) if published_at else None,
        sketch=tuple(shingles[:SKETCH]),
        shingles=len(shingles),
        strong={term: weight for term, weight in rounded.items() if term in strong},
        weak={term: weight for term, weight in rounded.items() if term not in strong},
        title=_hash(" ".join(word.text for word in words)),
        title_numbers=tuple(sorted({_hash(word.text) for word in words if word.text.isdigit()})),
    )


def _make_shingles(text: str) -> set[int]:
    words: list[int] = []
    for chunk in text.split():
        words += _hash_chunk(chunk) if len(chunk) <= _CACHED_LENGTH else _hash_words(chunk)
    view = memoryview(struct.pack(f"<{len(words)}I", *words))
    size = 4 * _SHINGLE
    return {crc32(view[start : start + size]) for start in range(0, len(view) - size + 1, 4)}


def _hash_words(text: str) -> tuple[int, ...]:
    if text.isascii():
        return tuple(map(_hash, _RUN.findall(text.lower())))
    return tuple(_hash(word.text) for word in split_words(text) if word.form is not Form.LAST)


@lru_cache(maxsize=50_000)
def _hash_chunk(text: str) -> tuple[int, ...]:
    return _hash_words(text)


@lru_cache(maxsize=50_000)
def _hash(word: str) -> int:
    return int.from_bytes(blake2b(word.encode(), digest_size=4).digest())


def _weigh(title: str, words: Sequence[SearchWord], lead: str) -> tuple[dict[int, float], set[int]]:
    """Return the weights of the words of title and lead, and the strong words."""
    common = _read_common_words()
    titles = [word for word in words if _counts(word, common)]
    in_title = {word.text for word in titles}
    names: Counter[str] = Counter()
    if not _is_title_case(title, words):
        names.update(_find_names(title, titles))
    leads = [word for word in split_words(lead) if _counts(word, common)]
    names.update(_find_names(lead, leads))
    pairs = {word.text for word in (*titles, *leads) if word.form is Form.PAIR}
    weights: dict[int, float] = {}
    strong: set[int] = set()
    for word, count in Counter(word.text for word in (*titles, *leads)).items():
        is_number, is_name = word[0].isdigit(), names[word] > 0
        weight = (_NUMBER if is_number else _NAME if is_name else _OTHER) * common.get(word, 1.0)
        weight *= (1 + math.log(count)) * (_IN_TITLE if word in in_title else 1)
        term = _hash(word if is_number or word in pairs else word[:_STEM])
        weights[term] = max(weights.get(term, 0.0), weight)
        if is_name or is_number or word in in_title:
            strong.add(term)
    return weights, strong


def _counts(word: SearchWord, common: Mapping[str, float]) -> bool:
    """Return whether a word may distinguish events. Single digits and years do not."""
    if word.form in (Form.LAST, Form.LONE) or common.get(word.text) == 0:
        return False
    return not word.text.isdigit() or (len(word.text) > 1 and not _YEAR.fullmatch(word.text))


def _is_title_case(title: str, words: Sequence[SearchWord]) -> bool:
    long = [word for word in words if len(word.text) > _SHORT]
    return sum(title[word.start].isupper() for word in long) > 0.6 * len(long)


def _find_names(text: str, words: Sequence[SearchWord]) -> Counter[str]:
    """Count how often a word has a capital inside a sentence, less how often it has none."""
    found: Counter[str] = Counter()
    for word in words:
        first = text[word.start]
        if first.islower():
            found[word.text] -= 1
        elif first.isupper() and not _SENTENCE_END.intersection(text[max(0, word.start - 2) : word.start] or "."):
            found[word.text] += 1
    return found


@lru_cache(maxsize=1)
def _read_common_words() -> dict[str, float]:
    lines = files(__package__).joinpath("common_words.txt").read_text(encoding="utf-8").splitlines()
    return {word: weight for weight, line in zip(_WEIGHTS, lines, strict=True) for word in line.split()}
