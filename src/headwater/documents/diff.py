"""What changed between two texts, in paragraphs and words, as a person would tell it (spec 4.4)."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

MOST_CHANGES = 500  # that are told one by one
_MOST_COMPARED = 3000  # paragraphs on either side, once equal beginnings and ends are off
_WORDS_COMPARED = 150_000  # pairs of equal words, in all: those of a second at worst
_REPEATED = 30  # how often what is compared may be there on average: where all is the same, it takes for ever
_LIKENED = 5_000_000  # words of paragraphs that are held against others, in all: those of half a second
_LIKENING = 30  # words, whose time it takes to hold a paragraph of none against another
_LONGEST_LIKENED = 2_000_000  # characters: to take more apart takes too long
_WIDEST_ROW = 20  # cells
_LONGEST_BEHIND = 100
_LONGEST_NUMBER = 30
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_ALIKE = 0.5  # share of words that two paragraphs must have in common to be one that has changed

# Scripts that put no space between words are compared by the character.
_UNSPACED = "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
# A word has the space before it: what follows one is more often another sign than what precedes it.
# A number is one, and so is a date or a time: who changed a part of it has changed it.
_WORD = re.compile(
    rf"\s*(?:[{_UNSPACED}]|[^\W{_UNSPACED}]+(?:(?<=\d)[.,:/\u2013-](?=\d)[^\W{_UNSPACED}]+)*|.)", re.DOTALL
)


class Piece(NamedTuple):
    """A part of a paragraph that is as it was, or came, or went."""

    kind: Literal["same", "added", "removed"]
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A paragraph that came, went, or says something else now. `paragraph` counts in the text that it is in, from 1.

    A changed one that is a bare number, as in a table, has in `behind` the words that stand before it.
    """

    kind: Literal["added", "removed", "changed"]
    paragraph: int
    pieces: tuple[Piece, ...]
    behind: str = ""


@dataclass(frozen=True, slots=True)
class TextDiff:
    """What changed; the counts are of paragraphs, and exact however many changes are told."""

    title_before: str
    title_after: str
    added: int
    removed: int
    changed: int
    unchanged: int
    changes: tuple[Change, ...]

    @property
    def told_all(self) -> bool:
        """Whether every change is told."""
        return len(self.changes) == self.added + self.removed + self.changed

    def sentences(self) -> list[str]:
        """Say it in a few words."""
        said = []
        if self.title_before != self.title_after:
            said.append(f"The title changed from “{self.title_before}” to “{self.title_after}”.")
        counts = [(self.added, "added"), (self.removed, "removed"), (self.changed, "changed")]
        parts = [f"{count:,} {verb}" for count, verb in counts if count]
        if parts:
            first, *rest = parts
            number, verb = first.split(" ")
            first = f"{number} {'paragraph was' if number == '1' else 'paragraphs were'} {verb}"
            said.append(
                f"{_listed([first, *rest])}; {self.unchanged:,} {'is' if self.unchanged == 1 else 'are'} as before."
            )
        elif not said:
            said.append("Nothing has changed.")
        else:
            said.append("The text is as before.")
        return said


def diff_texts(before: str, after: str, title_before: str = "", title_after: str = "") -> TextDiff:
    """Compare two texts by paragraphs, and those that changed by words; what is huge is compared less closely."""
    old, new = _paragraphs(before), _paragraphs(after)
    counts: Counter[str] = Counter()
    told: list[Change] = []
    budget = [_WORDS_COMPARED]
    for change in _changes(old, new):
        counts[change.kind] += 1
        if len(told) < MOST_CHANGES:
            told.append(change if change.kind != "changed" else _by_words(change, _behind(new, change), budget))
    changed = counts["changed"]
    return TextDiff(
        title_before,
        title_after,
        counts["added"],
        counts["removed"],
        changed,
        len(new) - counts["added"] - changed,
        tuple(told),
    )


def _paragraphs(text: str) -> list[str]:
    return [line for part in text.split("\n") if (line := part.strip())]


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    """Yield the changes in the order of the new text."""
    start, end = _common(old, new)
    middle_old, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    if (
        max(len(middle_old), len(middle_new)) > _MOST_COMPARED
        or sum(map(len, middle_old)) + sum(map(len, middle_new)) > _LONGEST_LIKENED
        or _equal_pairs(middle_old, middle_new) is None
    ):
        yield from _by_presence(middle_old, middle_new, start)
        return
    matcher = SequenceMatcher(None, middle_old, middle_new, autojunk=False)
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if kind != "equal":
            went, came = middle_old[old_from:old_to], middle_new[new_from:new_to]
            yield from _block(
                went, came, start + old_from, start + new_from, _LIKENED * len(went) // (len(middle_old) or 1)
            )


def _common(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Count the equal paragraphs at the beginning and, of the rest, at the end."""
    shorter = min(len(old), len(new))
    start = next((place for place in range(shorter) if old[place] != new[place]), shorter)
    rest = shorter - start
    return start, next((place for place in range(rest) if old[-1 - place] != new[-1 - place]), rest)


def _by_presence(old: Sequence[str], new: Sequence[str], start: int) -> Iterator[Change]:
    """Tell only what is in one of the texts and not in the other, wherever it stands."""
    for kind, here, there in (("removed", old, new), ("added", new, old)):
        left = Counter(there)
        for place, paragraph in enumerate(here):
            if left[paragraph]:
                left[paragraph] -= 1
            elif kind == "removed":
                yield _whole("removed", start + place, paragraph)
            else:
                yield _whole("added", start + place, paragraph)


def _block(old: Sequence[str], new: Sequence[str], old_start: int, new_start: int, budget: int) -> Iterator[Change]:
    """Tell which paragraphs have changed, and which others went or came."""
    next_old = next_new = 0
    for place, twin in [*_pairs(old, new, budget), (len(old), len(new))]:
        for went in range(next_old, place):
            yield _whole("removed", old_start + went, old[went])
        for came in range(next_new, twin):
            yield _whole("added", new_start + came, new[came])
        if place < len(old):
            yield Change("changed", new_start + twin + 1, (Piece("removed", old[place]), Piece("added", new[twin])))
        next_old, next_new = place + 1, twin + 1


def _pairs(old: Sequence[str], new: Sequence[str], budget: int) -> list[tuple[int, int]]:
    """Pair the paragraphs that say much the same: in order, and so that the pairs have most in common altogether."""
    words_before, words = [[_words_of(paragraph) for paragraph in side] for side in (old, new)]
    around = max(1, budget // (1 + 2 * sum(len(own) + _LIKENING for own in words_before)))
    chains: list[_Chain] = []  # the best that ends at each place or before it: places and scores rise
    for place, own in enumerate(words_before):
        middle = place * len(new) // len(old)
        longer = []
        for twin in range(max(0, middle - around), min(len(new), middle + around + 1)):
            likeness = _likeness(own, words[twin])
            if likeness >= _ALIKE:
                shorter = bisect_left(chains, twin, key=lambda chain: chain.twin)
                before = chains[shorter - 1] if shorter else None
                longer.append(_Chain(place, twin, likeness + (before.score if before else 0), before))
        for chain in longer:
            _keep(chains, chain)
    return chains[-1].pairs() if chains else []


class _Chain(NamedTuple):
    """Paragraphs that are paired, the last first."""

    place: int
    twin: int
    score: float
    before: "_Chain | None"

    def pairs(self) -> list[tuple[int, int]]:
        """List them in order."""
        found, chain = [], self
        while True:
            found.append((chain.place, chain.twin))
            if chain.before is None:
                return found[::-1]
            chain = chain.before


def _keep(chains: list[_Chain], chain: _Chain) -> None:
    """Put a chain among the others, unless one that ends no later is as good; let go those that it is as good as."""
    first = bisect_right(chains, chain.twin, key=lambda other: other.twin)
    if first and chains[first - 1].score >= chain.score:
        return
    if first and chains[first - 1].twin == chain.twin:
        first -= 1
    last = bisect_right(chains, chain.score, lo=first, key=lambda other: other.score)
    chains[first:last] = [chain]


def _whole(kind: Literal["added", "removed"], place: int, paragraph: str) -> Change:
    return Change(kind, place + 1, (Piece(kind, paragraph),))


def _words_of(paragraph: str) -> frozenset[str]:
    """Return its words, the second of the same as another one; signs count only where there is nothing else.

    Every bare number is just so much like every other that one in its place has changed.
    """
    if len(paragraph) <= _LONGEST_NUMBER and not _LETTER.search(paragraph) and _DIGIT.search(paragraph):
        return frozenset({"a number", paragraph})
    tokens = [token.strip() for token in _WORD.findall(paragraph)]
    seen: Counter[str] = Counter()
    words = set()
    for word in [token for token in tokens if token[-1:].isalnum()] or tokens:
        seen[word] += 1
        words.add(word if seen[word] == 1 else f"{word} {seen[word]}")
    return frozenset(words)


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Tell which share of their words they have in common."""
    both = len(one) + len(other)
    return 2 * len(one & other) / both if 2 * min(len(one), len(other)) >= _ALIKE * both else 0.0


def _behind(new: Sequence[str], change: Change) -> str:
    """Return the last words before a number that changed: the row of a table begins with them."""
    place = change.paragraph - 1
    if _LETTER.search(new[place]):
        return ""
    before = reversed(new[max(0, place - _WIDEST_ROW) : place])
    return next((paragraph[:_LONGEST_BEHIND] for paragraph in before if _LETTER.search(paragraph)), "")


def _by_words(change: Change, behind: str, budget: list[int]) -> Change:
    """Mark the words of a changed paragraph, as long as there is something left of the budget for it."""
    old, new = (_WORD.findall(piece.text) for piece in change.pieces)
    cost = _equal_pairs(old, new)
    if cost is None or cost > budget[0]:
        return replace(change, behind=behind)
    budget[0] -= cost
    spans = [
        ("".join(old[old_from:old_to]), "".join(new[new_from:new_to]))
        for _, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    ]
    return Change("changed", change.paragraph, tuple(_pieces(_readable(spans))), behind)


def _readable(spans: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Join changes that have less between them than they change themselves: who reads that reads over it."""
    joined: list[tuple[str, str]] = []
    for span in spans:
        joined.append(span)
        if len(joined) < 3 or span[0] == span[1]:
            continue
        (old, new), (same, _), _ = joined[-3:]
        if len(same) <= min(max(len(old), len(new)), max(map(len, span))):
            joined[-3:] = [(old + same + span[0], new + same + span[1])]
    return joined


def _pieces(spans: Iterable[tuple[str, str]]) -> Iterator[Piece]:
    for old, new in spans:
        if old == new:
            yield Piece("same", new)
            continue
        if old:
            yield Piece("removed", old)
        if new:
            yield Piece("added", new)


def _equal_pairs(old: Sequence[str], new: Sequence[str]) -> int | None:
    """Count what a comparison looks at; None where that is too much for what there is to find."""
    counts = Counter(new)
    pairs = sum(count * counts[item] for item, count in Counter(old).items())
    return pairs if pairs <= _REPEATED * max(len(old), len(new), 1) else None


def _listed(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
