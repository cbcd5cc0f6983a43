"""What changed between two texts, in paragraphs and words, as a person would tell it (spec 4.4)."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

MOST_CHANGES = 500  # that are told one by one
_MOST_COMPARED = 3000  # paragraphs on either side, once equal beginnings and ends are off
_WORDS_COMPARED = 2_000_000  # pairs of equal words, in all
_REPEATED = 30  # how often what is compared may be there on average: where all is the same, it takes for ever
_LOOK_AHEAD = 10
_ALIKE = 0.5  # share of words that two paragraphs must have in common to be one that has changed

# Scripts that put no space between words are compared by the character.
_UNSPACED = "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"(?:[{_UNSPACED}]|[^\W{_UNSPACED}]+|.)\s*", re.DOTALL)


class Piece(NamedTuple):
    """A part of a paragraph that is as it was, or came, or went."""

    kind: Literal["same", "added", "removed"]
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A paragraph that came, went, or says something else now. `paragraph` counts in the text that it is in, from 1."""

    kind: Literal["added", "removed", "changed"]
    paragraph: int
    pieces: tuple[Piece, ...]


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
            told.append(change if change.kind != "changed" else _by_words(change, budget))
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
    if max(len(middle_old), len(middle_new)) > _MOST_COMPARED or _equal_pairs(middle_old, middle_new) is None:
        yield from _by_presence(middle_old, middle_new, start)
        return
    matcher = SequenceMatcher(None, middle_old, middle_new, autojunk=False)
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if kind != "equal":
            yield from _block(
                middle_old[old_from:old_to], middle_new[new_from:new_to], start + old_from, start + new_from
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


def _block(old: Sequence[str], new: Sequence[str], old_start: int, new_start: int) -> Iterator[Change]:
    """Pair the paragraphs that say much the same, in order; the others went or came."""
    words = [_words_of(paragraph) for paragraph in new]
    next_new = 0
    for place, paragraph in enumerate(old):
        own = _words_of(paragraph)
        ahead = range(next_new, min(len(new), next_new + _LOOK_AHEAD))
        twin = next((other for other in ahead if _are_alike(own, words[other])), None)
        if twin is None:
            yield _whole("removed", old_start + place, paragraph)
            continue
        for came in range(next_new, twin):
            yield _whole("added", new_start + came, new[came])
        yield Change("changed", new_start + twin + 1, (Piece("removed", paragraph), Piece("added", new[twin])))
        next_new = twin + 1
    for came in range(next_new, len(new)):
        yield _whole("added", new_start + came, new[came])


def _whole(kind: Literal["added", "removed"], place: int, paragraph: str) -> Change:
    return Change(kind, place + 1, (Piece(kind, paragraph),))


def _words_of(paragraph: str) -> Counter[str]:
    return Counter(word.strip() for word in _WORD.findall(paragraph))


def _are_alike(one: Counter[str], other: Counter[str]) -> bool:
    common = (one & other).total()
    return 2 * common >= _ALIKE * (one.total() + other.total())


def _by_words(change: Change, budget: list[int]) -> Change:
    """Mark the words of a changed paragraph, as long as there is something left of the budget for it."""
    old, new = (_WORD.findall(piece.text) for piece in change.pieces)
    cost = _equal_pairs(old, new)
    if cost is None or cost > budget[0]:
        return change
    budget[0] -= cost
    pieces: list[Piece] = []
    for kind, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            pieces.append(Piece("same", "".join(new[new_from:new_to])))
            continue
        if old_to > old_from:
            pieces.append(Piece("removed", "".join(old[old_from:old_to])))
        if new_to > new_from:
            pieces.append(Piece("added", "".join(new[new_from:new_to])))
    return Change("changed", change.paragraph, tuple(pieces))


def _equal_pairs(old: Sequence[str], new: Sequence[str]) -> int | None:
    """Count what a comparison looks at; None where that is too much for what there is to find."""
    counts = Counter(new)
    pairs = sum(count * counts[item] for item, count in Counter(old).items())
    return pairs if pairs <= _REPEATED * max(len(old), len(new), 1) else None


def _listed(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
