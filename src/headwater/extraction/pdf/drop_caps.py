"""Large letters that begin a text and reach down beside several of its lines: each goes back to its word."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from headwater.extraction.pdf.page_content import INITIAL, Word

_BESIDE, _TOUCHING = 2.0, 0.35  # of the size of most letters: how far from an initial its text begins at most


def with_initials(words: list[Word]) -> list[Word]:
    """Return words, those that begin with an initial as one."""
    if not words:
        return words
    usual = median(word.size for word in words)
    whole: dict[int, Word | None] = {}
    for initial in words:
        if len(initial.text) == 1 and initial.size > INITIAL * usual and initial.text.isalpha():
            rest = _rest(initial, words, usual)
            if rest:
                whole[id(initial)] = None
                whole[id(rest)] = replace(rest, text=initial.text + rest.text, x0=initial.x0)
    return [found for word in words if (found := whole.get(id(word), word))] if whole else words


def _rest(initial: Word, words: Sequence[Word], usual: float) -> Word | None:
    """Return the word that an initial begins; None where neither several lines nor a word touching it are beside it."""
    beside = [
        word
        for word in words
        if -0.5 * usual <= word.x0 - initial.x1 <= _BESIDE * usual
        and word.size * INITIAL < initial.size
        and initial.top - usual <= word.middle <= initial.bottom
    ]
    first = min(beside, key=lambda word: (word.middle, word.x0), default=None)
    if first is None or not first.text[0].isalpha():
        return None
    has_lines = any(word.middle - first.middle > usual / 2 for word in beside)
    return first if has_lines or first.x0 - initial.x1 <= _TOUCHING * usual else None
