"""Compare two texts by paragraphs and words (spec 4.4)."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from headwater.core.record import record

MAX_CHANGES = 500
_MAX_COMPARED = 3000  # paragraphs on each side, without the equal ones at the beginning and the end
_WORD_BUDGET = 150_000  # pairs of equal words in one diff: about a second
_MAX_REPEATS = 30  # average repeats of a word or paragraph: SequenceMatcher is too slow beyond
_PAIRING_BUDGET = 5_000_000  # words of paragraphs that one diff compares with others: about half a second
_PAIRING_COST = 30  # words: the cost of a comparison with an empty paragraph
_MAX_PAIRED_CHARACTERS = 2_000_000
_WIDEST_ROW = 20  # cells
_MAX_LABEL = 100
_MAX_NUMBER = 30
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_MIN_LIKENESS = 0.5  # the share of words that a changed paragraph has in common with its earlier text

# Scripts that put no space between words are compared by character.
_UNSPACED = "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
# A word includes the space before it. A number, a date or a time is one word, because a part of it means little.
_WORD = re.compile(
    rf"\s*(?:[{_UNSPACED}]|[^\W{_UNSPACED}]+(?:(?<=\d)[.,:/\u2013-](?=\d)[^\W{_UNSPACED}]+)*|.)", re.DOTALL
)


@record
class TextPiece:
    """A part of a paragraph."""

    kind: Literal["same", "added", "removed"]
    text: str


@record
class ParagraphChange:
    """A paragraph that was added, removed or changed."""

    kind: Literal["added", "removed", "changed"]
    paragraph: int
    """The number of the paragraph, from 1: in the earlier text if it was removed, else in the later text."""
    pieces: tuple[TextPiece, ...]
    """The pieces of the paragraph. In a changed paragraph the pieces that changed are marked."""
    row_label: str = ""
    """The words before a number that changed, as in the row of a table."""


@record
class TextDiff:
    """The changes between two texts. The counts are of paragraphs."""

    title_before: str
    title_after: str
    summary: list[str]
    """The changes in sentences."""
    added: int
    removed: int
    changed: int
    unchanged: int
    changes: list[ParagraphChange]
    """The changes in the order of the text, at most 500 of them."""
    has_all_changes: bool
    """Whether `changes` has every change."""


def diff_texts(before: str, after: str, title_before: str = "", title_after: str = "") -> TextDiff:
    """Compare two texts by paragraph, and changed paragraphs by word. Huge texts are compared less closely."""
    old, new = _paragraphs(before), _paragraphs(after)
    counts: Counter[str] = Counter()
    changes: list[ParagraphChange] = []
    budget = [_WORD_BUDGET]
    for change in _find_changes(old, new):
        counts[change.kind] += 1
        if len(changes) < MAX_CHANGES:
            changes.append(change if change.kind != "changed" else _mark_words(change, _row_label(new, change), budget))
    unchanged = len(new) - counts["added"] - counts["changed"]
    return TextDiff(
        title_before=title_before,
        title_after=title_after,
        summary=_summarize(counts, unchanged, title_before, title_after),
        added=counts["added"],
        removed=counts["removed"],
        changed=counts["changed"],
        unchanged=unchanged,
        changes=changes,
        has_all_changes=len(changes) == counts.total(),
    )


def _summarize(counts: Counter[str], unchanged: int, title_before: str, title_after: str) -> list[str]:
    sentences = []
    if title_before != title_after:
        sentences.append(f"The title changed from “{title_before}” to “{title_after}”.")
    parts = [f"{counts[kind]:,} {kind}" for kind in ("added", "removed", "changed") if counts[kind]]
    if parts:
        number, kind = parts[0].split(" ")
        parts[0] = f"{number} {'paragraph was' if number == '1' else 'paragraphs were'} {kind}"
        changed = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
        sentences.append(f"{changed}; {unchanged:,} {'is' if unchanged == 1 else 'are'} as before.")
    else:
        sentences.append("The text is as before." if sentences else "Nothing has changed.")
    return sentences


def _paragraphs(text: str) -> list[str]:
    return [line for part in text.split("\n") if (line := part.strip())]


def _find_changes(old: Sequence[str], new: Sequence[str]) -> Iterator[ParagraphChange]:
    start, end = _count_common(old, new)
    middle_old, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    if (
        max(len(middle_old), len(middle_new)) > _MAX_COMPARED
        or sum(map(len, middle_old)) + sum(map(len, middle_new)) > _MAX_PAIRED_CHARACTERS
        or _count_equal_pairs(middle_old, middle_new) is None
    ):
        yield from _find_changes_by_presence(middle_old, middle_new, start)
        return
    matcher = SequenceMatcher(None, middle_old, middle_new, autojunk=False)
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if kind != "equal":
            removed, added = middle_old[old_from:old_to], middle_new[new_from:new_to]
            budget = _PAIRING_BUDGET * len(removed) // (len(middle_old) or 1)
            yield from _compare_block(removed, added, start + old_from, start + new_from, budget)


def _count_common(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    shorter = min(len(old), len(new))
    start = next((place for place in range(shorter) if old[place] != new[place]), shorter)
    rest = shorter - start
    return start, next((place for place in range(rest) if old[-1 - place] != new[-1 - place]), rest)


def _find_changes_by_presence(old: Sequence[str], new: Sequence[str], start: int) -> Iterator[ParagraphChange]:
    """Yield the paragraphs that are only in one of the texts, whatever their order."""
    kinds: tuple[Literal["removed", "added"], ...] = ("removed", "added")
    for kind, here, there in zip(kinds, (old, new), (new, old), strict=True):
        left = Counter(there)
        for place, paragraph in enumerate(here):
            if left[paragraph]:
                left[paragraph] -= 1
            else:
                yield _whole(kind, start + place, paragraph)


def _compare_block(
    old: Sequence[str], new: Sequence[str], old_start: int, new_start: int, budget: int
) -> Iterator[ParagraphChange]:
    next_old = next_new = 0
    for place, match in [*_pair_paragraphs(old, new, budget), (len(old), len(new))]:
        for removed in range(next_old, place):
            yield _whole("removed", old_start + removed, old[removed])
        for added in range(next_new, match):
            yield _whole("added", new_start + added, new[added])
        if place < len(old):
            pieces = (TextPiece("removed", old[place]), TextPiece("added", new[match]))
            yield ParagraphChange("changed", new_start + match + 1, pieces)
        next_old, next_new = place + 1, match + 1


def _pair_paragraphs(old: Sequence[str], new: Sequence[str], budget: int) -> list[tuple[int, int]]:
    """Pair similar paragraphs in order, so that the likenesses of all pairs have the largest sum."""
    old_words, new_words = [[_word_set(paragraph) for paragraph in side] for side in (old, new)]
    radius = max(1, budget // (1 + 2 * sum(len(words) + _PAIRING_COST for words in old_words)))
    chains: list[_Chain] = []  # the best chain that ends at or before each place: places and scores rise
    for place, words in enumerate(old_words):
        middle = place * len(new) // len(old)
        longer = []
        for match in range(max(0, middle - radius), min(len(new), middle + radius + 1)):
            likeness = _likeness(words, new_words[match])
            if likeness >= _MIN_LIKENESS:
                shorter = bisect_left(chains, match, key=lambda chain: chain.match)
                before = chains[shorter - 1] if shorter else None
                longer.append(_Chain(place, match, likeness + (before.score if before else 0), before))
        for chain in longer:
            _add_chain(chains, chain)
    return chains[-1].pairs() if chains else []


class _Chain(NamedTuple):
    """Pairs of paragraphs, the last pair first."""

    place: int
    match: int
    score: float
    before: "_Chain | None"

    def pairs(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        chain: _Chain | None = self
        while chain is not None:
            found.append((chain.place, chain.match))
            chain = chain.before
        return found[::-1]


def _add_chain(chains: list[_Chain], chain: _Chain) -> None:
    """Add a chain unless one that ends no later is as good. Drop the chains that are no better than it."""
    first = bisect_right(chains, chain.match, key=lambda other: other.match)
    if first and chains[first - 1].score >= chain.score:
        return
    if first and chains[first - 1].match == chain.match:
        first -= 1
    last = bisect_right(chains, chain.score, lo=first, key=lambda other: other.score)
    chains[first:last] = [chain]


def _whole(kind: Literal["added", "removed"], place: int, paragraph: str) -> ParagraphChange:
    return ParagraphChange(kind, place + 1, (TextPiece(kind, paragraph),))


def _word_set(paragraph: str) -> frozenset[str]:
    """Return the words of a paragraph, with a number after each repeat. Signs count only if there are no words.

    A bare number is half like any other bare number, so that a cell of a table counts as changed.
    """
    if len(paragraph) <= _MAX_NUMBER and not _LETTER.search(paragraph) and _DIGIT.search(paragraph):
        return frozenset({"a number", paragraph})
    tokens = [token.strip() for token in _WORD.findall(paragraph)]
    seen: Counter[str] = Counter()
    words = set()
    for word in [token for token in tokens if token[-1:].isalnum()] or tokens:
        seen[word] += 1
        words.add(word if seen[word] == 1 else f"{word} {seen[word]}")
    return frozenset(words)


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of words in common, or 0 if the sizes alone keep it below the minimum."""
    both = len(one) + len(other)
    return 2 * len(one & other) / both if 2 * min(len(one), len(other)) >= _MIN_LIKENESS * both else 0.0


def _row_label(new: Sequence[str], change: ParagraphChange) -> str:
    """Return the last words before a number that changed: they begin its table row."""
    place = change.paragraph - 1
    if _LETTER.search(new[place]):
        return ""
    before = reversed(new[max(0, place - _WIDEST_ROW) : place])
    return next((paragraph[:_MAX_LABEL] for paragraph in before if _LETTER.search(paragraph)), "")


def _mark_words(change: ParagraphChange, row_label: str, budget: list[int]) -> ParagraphChange:
    """Mark the words that changed in a paragraph, if the budget allows it."""
    old, new = (_WORD.findall(piece.text) for piece in change.pieces)
    cost = _count_equal_pairs(old, new)
    if cost is None or cost > budget[0]:
        return replace(change, row_label=row_label)
    budget[0] -= cost
    spans = [
        ("".join(old[old_from:old_to]), "".join(new[new_from:new_to]))
        for _, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    ]
    return ParagraphChange("changed", change.paragraph, tuple(_make_pieces(_join_spans(spans))), row_label)


def _join_spans(spans: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Join two changes if the equal words between them are shorter than the changes: one change is easier to read."""
    joined: list[tuple[str, str]] = []
    for span in spans:
        joined.append(span)
        if len(joined) < 3 or span[0] == span[1]:
            continue
        (old, new), (same, _), _ = joined[-3:]
        if len(same) <= min(max(len(old), len(new)), max(map(len, span))):
            joined[-3:] = [(old + same + span[0], new + same + span[1])]
    return joined


def _make_pieces(spans: Iterable[tuple[str, str]]) -> Iterator[TextPiece]:
    for old, new in spans:
        if old == new:
            yield TextPiece("same", new)
            continue
        if old:
            yield TextPiece("removed", old)
        if new:
            yield TextPiece("added", new)


def _count_equal_pairs(old: Sequence[str], new: Sequence[str]) -> int | None:
    """Count the pairs that SequenceMatcher visits. Returns None if there are too many for the length."""
    counts = Counter(new)
    pairs = sum(count * counts[item] for item, count in Counter(old).items())
    return pairs if pairs <= _MAX_REPEATS * max(len(old), len(new), 1) else None
