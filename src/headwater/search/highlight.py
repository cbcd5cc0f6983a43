"""The parts of a text that a hit shows: plain text, cut around its matches. Pure."""

import itertools
from collections.abc import Collection, Iterator, Sequence

from headwater.core.record import record
from headwater.core.search_words import LAST_POSITION, split_words

_WINDOW = 25  # words in which most matches are searched
_WORDS_BEFORE = 8
_LONGEST = 280  # characters
_ELLIPSIS = "…"


@record
class TextPart:
    """A part of a text."""

    text: str
    """Plain text from a page. Escape it before you put it into HTML."""
    is_match: bool


def mark_matches(text: str, places: Collection[int]) -> list[TextPart]:
    """Return a whole text in parts. The places of the matches are numbers of words, from 1 on."""
    return _cut(text, 0, len(text), _find_ranges(text, set(places), 1))


def make_snippet(text: str, places: Sequence[int]) -> list[TextPart]:
    """Return the part of a text with most matches close together, or its beginning."""
    places = sorted(place for place in places if 0 < place < LAST_POSITION)
    begin = max(1, _find_window(places) - _WORDS_BEFORE) if places else 1
    ahead = itertools.islice(split_words(text), begin - 1, begin)
    start = next((word.start for word in ahead), 0) if begin > 1 else 0
    end = min(len(text), start + _LONGEST)
    if end < len(text) and (blank := text.rfind(" ", start + _LONGEST * 2 // 3, end)) > 0:
        end = blank
    # The words before the cut are numbered as in the whole text.
    ranges = _find_ranges(text[:end], set(places), begin)
    parts = _cut(text, start, end, ranges)
    if start > 0:
        parts.insert(0, TextPart(_ELLIPSIS, is_match=False))
    if end < len(text):
        parts.append(TextPart(_ELLIPSIS, is_match=False))
    return parts


def _find_window(places: Sequence[int]) -> int:
    """Return the first match of the window with most matches; of several such windows the first."""
    best, most, left = places[0], 0, 0
    for right, place in enumerate(places):
        while place - places[left] > _WINDOW:
            left += 1
        if right - left + 1 > most:
            best, most = places[left], right - left + 1
    return best


def _find_ranges(text: str, places: Collection[int], begin: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of characters of the matches, from a word on. Pairs of characters overlap: their ranges join."""
    last: tuple[int, int] | None = None
    for number, word in enumerate(split_words(text), 1):
        if number < begin or number not in places:
            continue
        if last and word.start <= last[1]:
            last = last[0], max(last[1], word.end)
            continue
        if last:
            yield last
        last = word.start, word.end
    if last:
        yield last


def _cut(text: str, start: int, end: int, ranges: Iterator[tuple[int, int]]) -> list[TextPart]:
    parts: list[TextPart] = []

    def add(piece: str, *, is_match: bool) -> None:
        if piece:
            parts.append(TextPart(piece.replace("\n", " "), is_match))

    at = start
    for first, last in ranges:
        add(text[at:first], is_match=False)
        add(text[first:last], is_match=True)
        at = last
    add(text[at:end], is_match=False)
    return parts
