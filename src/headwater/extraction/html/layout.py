"""Describe the position of a block in the layout of its page, without regard to prose.

Lists of products, jobs or articles have almost no prose. They are recognized as repeated siblings: many elements of one
tag below one parent.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter

from headwater.extraction.html.blocks import HEADINGS, Block, Element

_SHARES = (0.005, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
_COUNTS = (3, 5, 8, 13, 24, 48)
_SIZES = (8, 16, 30, 60, 110, 200, 400, 900)
_PLACES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98)
_LINK_SHARES = (0.001, 0.1, 0.3, 0.5, 0.7, 0.9)
_MIN_SIBLINGS = 3
_NO_SIBLINGS = HEADINGS | {"p", "br"}  # paragraphs and headings repeat in every text
_CURRENCIES = "$\u20ac\xa3\xa5"
_MAX_PRICE_LENGTH = 60
_NEAR_HEADING = 16  # blocks
_size = attrgetter("size")
_SAME_SECTION = 0.8  # an element with this share of its parent is the same section

# "layout" (the largest repetition around: whether it is the largest of the page, its share, number, sizes and links;
# the section: position, tag, share, links, whether it has the main heading) or "order" (place on the page, position to
# the main heading, distance from it, repetition of the text, beginning of the text, size).
LayoutAspect = tuple[str, str, int, int, int, int, str, str, int, int, str]
OrderAspect = tuple[str, int, str, str, str, str, int]


@dataclass(frozen=True, slots=True, order=True)
class _Siblings:
    """Repeated siblings: the steps of their share of the page, their number, their mean size and their links."""

    share: float
    count: int
    size: float
    links: float


class PageLayout:
    """The layout of a page."""

    def __init__(self, blocks: Sequence[Block], elements: Sequence[Element]) -> None:
        self._blocks = blocks
        self._size = elements[0].size or 1
        self._heading = next((number for number, block in enumerate(blocks) if block.element.tag == "h1"), None)
        self._layouts = self._describe_elements(elements)
        self._counts = Counter(block.text for block in blocks)
        self._firsts = {blocks[number].text: number for number in range(len(blocks) - 1, -1, -1)}
        self._sizes_before = [0, *accumulate(block.size for block in blocks)]

    def aspects(self, number: int) -> tuple[LayoutAspect, OrderAspect]:
        """Return the aspects of the block with that number."""
        block = self._blocks[number]
        text = block.text
        repetition = "no" if self._counts[text] == 1 else "first" if self._firsts[text] == number else "again"
        place = bisect_right(_PLACES, self._sizes_before[number] / self._size)
        heading = self._heading
        if heading is None:
            where, distance = "none", ""
        else:
            where = "before" if number < heading else "h1" if number == heading else "after"
            steps = number - heading
            distance = str(max(-5, min(8, steps // 2))) if abs(steps) < _NEAR_HEADING else "far"
        size = bisect_right(_SIZES, block.size)
        return self._layouts[block.element.order], ("order", place, where, distance, repetition, _beginning(text), size)

    def _describe_elements(self, elements: Sequence[Element]) -> list[LayoutAspect]:
        children: dict[int, list[Element]] = defaultdict(list)
        for element in elements[1:]:
            assert element.parent
            children[element.parent.order].append(element)
        repeated = self._find_repeated(children)
        largest = max(repeated.values(), default=None)
        center = elements[0]
        while children[center.order]:
            child = max(children[center.order], key=_size)
            if child.size < _SAME_SECTION * center.size or child.tag == "p":
                break
            center = child
        around = set(center.ancestors())
        heading = set() if self._heading is None else set(self._blocks[self._heading].element.ancestors())
        around_siblings: list[_Siblings | None] = []
        sections: list[tuple[str, str, int, int, str] | None] = []
        layouts: list[LayoutAspect] = []
        for element in elements:  # parents come before their children
            parent = element.parent
            siblings = around_siblings[parent.order] if parent else None
            own = repeated.get((parent.order, element.tag)) if parent else None
            if own and (siblings is None or own > siblings):
                siblings = own
            around_siblings.append(siblings)
            section = sections[parent.order] if parent else None
            if section is None and element not in around:
                section = (
                    "in" if parent is center else "out",
                    element.tag,
                    bisect_right(_SHARES, element.size / self._size),
                    bisect_right(_LINK_SHARES, element.links / (element.size or 1)),
                    "none" if self._heading is None else "with" if element in heading else "without",
                )
            sections.append(section)
            layouts.append(("layout", *_steps(siblings, largest), *(section or ("self", "", 0, 0, ""))))
        return layouts

    def _find_repeated(self, children: dict[int, list[Element]]) -> dict[tuple[int, str], _Siblings]:
        repeated: dict[tuple[int, str], _Siblings] = {}
        for parent, elements in children.items():
            if len(elements) < _MIN_SIBLINGS:
                continue
            by_tag: dict[str, list[Element]] = defaultdict(list)
            for element in elements:
                by_tag[element.tag].append(element)
            for tag, alike in by_tag.items():
                if len(alike) >= _MIN_SIBLINGS and tag not in _NO_SIBLINGS:
                    size, links = sum(e.size for e in alike), sum(e.links for e in alike)
                    repeated[parent, tag] = _Siblings(
                        size / self._size, len(alike), size / len(alike), links / (size or 1)
                    )
        return repeated


def _steps(siblings: _Siblings | None, largest: _Siblings | None) -> tuple[str, int, int, int, int]:
    if siblings is None:
        return "none", 0, 0, 0, 0
    return (
        "top" if siblings == largest else "sub",
        bisect_right(_SHARES, siblings.share),
        bisect_right(_COUNTS, siblings.count),
        bisect_right(_SIZES, siblings.size),
        bisect_right(_LINK_SHARES, siblings.links),
    )


def _beginning(text: str) -> str:
    if len(text) < _MAX_PRICE_LENGTH and (any(map(text.__contains__, _CURRENCIES)) or "USD" in text):
        return "price"
    first = text[0]
    if first.isdigit():
        return "digit"
    if text.isupper():
        return "upper"
    return "lower" if first.islower() else "capital" if first.isupper() else "sign"


def layout_features(aspect: LayoutAspect) -> list[str]:
    """Return the features of the layout around a block."""
    _, rank, share, count, size, links, inside, tag, section_share, section_links, heading = aspect
    section = f"section:{inside}"
    if inside != "self":
        section = f"section:{inside}:{tag}"
    features = [section, f"section:share{section_share}:{section_links}:{inside}", f"section:{inside}:h1:{heading}"]
    if rank == "none":
        return [*features, "repeat:none"]
    repeat = [f"repeat:{rank}:{share}", f"repeat:count{count}:{size}:{rank}", f"repeat:links{links}:{size}:{rank}"]
    return [*features, *repeat]


def order_features(aspect: OrderAspect) -> list[str]:
    """Return the features of the place of a block on the page."""
    _, place, where, distance, repetition, beginning, size = aspect
    features = [f"place:{place}", f"h1:{where}", f"place:{min(place // 2, 5)}:{where}"]
    return [*features, f"h1:distance:{distance}", f"text:{repetition}", f"text:{beginning}:{size}"]
