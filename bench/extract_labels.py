"""Label the blocks of a page by its correct text: whether each belongs to it."""

from bisect import bisect_left
from collections.abc import Sequence

from bench.extract_pages import Page
from bench.extract_scores import tokens
from headwater.extraction.html.blocks import Block

_RUNS = (4, 2, 1)  # words of an anchor; long anchors first
_FEW_WORDS = 50
_UNCLEAR = (0.4, 0.6)


def label_blocks(page: Page, blocks: Sequence[Block]) -> list[bool | None]:
    """Return for each block whether it belongs to the text. None is unknown."""
    return _by_text(page.text, blocks) if page.text else _by_segments(page, blocks)


def _by_segments(page: Page, blocks: Sequence[Block]) -> list[bool | None]:
    inside, outside = ([" ".join(segment.split()) for segment in part] for part in (page.inside, page.outside))
    labels: list[bool | None] = []
    for block in blocks:
        if any(segment in block.text for segment in inside):
            labels.append(True)
        else:
            labels.append(False if any(segment in block.text for segment in outside) else None)
    return labels


def _by_text(text: str, blocks: Sequence[Block]) -> list[bool | None]:
    """Label a block by the share of its words that the alignment of page and text matches."""
    words = [tokens(block.text) for block in blocks]
    matched = align([word for own in words for word in own], tokens(text))
    labels: list[bool | None] = []
    start = 0
    for own in words:
        share = sum(matched[start : start + len(own)]) / len(own) if own else 0.5
        start += len(own)
        labels.append(None if _UNCLEAR[0] < share < _UNCLEAR[1] else share > 0.5)
    return labels


def align(page: Sequence[str], text: Sequence[str]) -> list[bool]:
    """Return for each word of a page whether it is matched with a word of the text, in the order of both.

    Runs of words that occur once in both are anchors. The parts between two anchors are aligned in the same way.
    """
    matched = [False] * len(page)
    waiting = [(0, len(page), 0, len(text))]
    while waiting:
        start, end, text_start, text_end = waiting.pop()
        run = _equal(page[start:end], text[text_start:text_end])
        # Words next to an anchor match. The first or last words of a page may only be equal, such as those of a menu.
        if start > 0 or run >= _RUNS[0]:
            matched[start : start + run] = [True] * run
            start, text_start = start + run, text_start + run
        run = _equal(page[start:end][::-1], text[text_start:text_end][::-1])
        if end < len(page) or run >= _RUNS[0]:
            matched[end - run : end] = [True] * run
            end, text_end = end - run, text_end - run
        if start >= end or text_start >= text_end:
            continue
        for length in _RUNS:
            # A word alone is no anchor in a long part of the page that has few words of the text.
            if length == 1 and end - start > 20 * (text_end - text_start) + _FEW_WORDS:
                break
            if anchors := _anchors(page, (start, end), text, (text_start, text_end), length):
                for here, there in anchors:
                    if here >= start and there >= text_start:
                        matched[here : here + length] = [True] * length
                        waiting.append((start, here, text_start, there))
                        start, text_start = here + length, there + length
                waiting.append((start, end, text_start, text_end))
                break
    return matched


def _equal(page: Sequence[str], text: Sequence[str]) -> int:
    """Return how many words at the beginning are equal."""
    pairs = enumerate(zip(page, text, strict=False))
    return next((number for number, (own, other) in pairs if own != other), min(len(page), len(text)))


def _anchors(
    page: Sequence[str], here: tuple[int, int], text: Sequence[str], there: tuple[int, int], length: int
) -> list[tuple[int, int]]:
    """Return the longest rising sequence of runs that occur once in both."""
    own, other = _unique_runs(page, *here, length), _unique_runs(text, *there, length)
    pairs = sorted((position, other[run]) for run, position in own.items() if run in other)
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, position) in enumerate(pairs):
        step = bisect_left(ends, position)
        ends[step : step + 1] = [position]
        last[step : step + 1] = [number]
        before.append(last[step - 1] if step else -1)
    chain = []
    number = last[-1] if last else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]


def _unique_runs(words: Sequence[str], start: int, end: int, length: int) -> dict[tuple[str, ...], int]:
    found: dict[tuple[str, ...], int] = {}
    for position in range(start, end - length + 1):
        run = tuple(words[position : position + length])
        found[run] = -1 if run in found else position
    return {run: position for run, position in found.items() if position >= 0}
