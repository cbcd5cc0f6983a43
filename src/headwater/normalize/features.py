"""What is known of each block before it is judged: where it stands, how that place is named, how it reads.

A feature is a short text, such as `word:sidebar` or `size:7:end`. Most are made of steps: `size:7` is the eighth of
the sizes below.
"""

from bisect import bisect_right
from collections.abc import Mapping
from functools import lru_cache

from headwater.normalize.blocks import HEADINGS, SENTENCE_ENDS, Block, Element

_SIZES = (8, 16, 25, 40, 60, 80, 110, 160, 240, 400, 700)
_SHARES = (0.001, 0.05, 0.15, 0.3, 0.5, 0.7, 0.9)
_FEW_SHARES = (0.01, 0.2, 0.5)
# What publishers call the element that holds the article.
_ARTICLE_NAMES = (
    *({"article", "body"}, {"article", "content"}, {"article", "text"}, {"entry", "content"}),
    *({"post", "content"}, {"post", "body"}, {"story", "body"}),
)
# In longer texts single words tell little.
_WORDS_UP_TO = 400
_NO_WORDS: frozenset[str] = frozenset()
_PUNCTUATION = ".,:;!?()"


# Of a block: steps of its size, how it ends, its tag, steps of its links; where it stands in the prose, and whether in
# the container; what kind is before it, it is, is after it; of its group, steps of prose and of links, few of prose.
Look = tuple[int, str, str, int, str, str, str, str, str, int, int, int]


class PageFeatures:
    """The features of the blocks of a page: those of a block's place, which it may share with others, and its own.

    The words of places and what is said in blocks come without the others' prefix, since they are so many; `words` are
    the weights of the first, which are added up on the way down the tree.
    """

    def __init__(self, blocks: list[Block], elements: list[Element], words: Mapping[str, int]) -> None:
        container = _container(elements)
        self._blocks = blocks
        self._places = _Places(elements, container, words)
        self._groups = _Groups(blocks, container.prose or 1)
        self._kinds = ["edge", *map(_kind, blocks), "edge"]
        self._first, self._last = _extent(blocks, self._places)

    def place(self, number: int) -> "Place":
        """Return the place of the block with that number."""
        return self._places[self._blocks[number].element]

    def of_place(self, place: "Place") -> list[str]:
        """Return the features of a place."""
        return self._places.features(place)

    def look(self, number: int) -> "Look":
        """Return how the block with that number looks; many blocks of many pages look the same."""
        block = self._blocks[number]
        before, kind, after = self._kinds[number : number + 3]
        return (
            bisect_right(_SIZES, block.size),
            _end(block.text),
            block.element.tag,
            bisect_right(_SHARES, block.links / block.size),
            "before" if number < self._first else "after" if number > self._last else "amid",
            self._places[block.element].inside,
            before,
            kind,
            after,
            *self._groups[block.likeness],
        )

    def said(self, number: int) -> set[str]:
        """Return the words of the block with that number, unless it is long."""
        block = self._blocks[number]
        if block.size > _WORDS_UP_TO:
            return set()
        return {word.strip(_PUNCTUATION) for word in block.text.lower().split()}


class Place:
    """What blocks share that stand in one element, or in elements that are alike."""

    __slots__ = ("branch", "inside", "judged", "share", "words", "words_judged")

    def __init__(
        self, words: frozenset[str], branch: Element | None, inside: str, share: int, words_judged: int
    ) -> None:
        self.words = words  # that the element and those around it, up to the container, are named with
        self.words_judged = words_judged
        self.branch = branch  # the child of the container, or of what is around it, that the element is in
        self.inside = inside  # the container: "in" or "out"
        self.share = share  # how much of the prose the element holds, in steps
        self.judged: int | None = None


class _Places:
    """The place of each element that says something."""

    def __init__(self, elements: list[Element], container: Element, weights: Mapping[str, int]) -> None:
        self._held = container.prose or 1
        self._total = elements[0].prose or 1
        self._weights = weights
        around = set(container.ancestors())
        places: list[Place | None] = []
        alike: dict[tuple[Place, frozenset[str], int], Place] = {}
        for element in elements:  # parents stand before their children
            place = None
            if element.size:
                share = bisect_right(_SHARES, element.prose / self._held)
                above = places[element.parent.order] if element.parent else None
                if above is None or element in around:
                    # what names the container and all around it does not tell its blocks apart
                    place = Place(_NO_WORDS, None, "in" if element is container else "out", share, 0)
                elif above.branch is None:
                    place = self._below(above, element, element, share)
                elif (place := alike.get((above, element.names, share))) is None:
                    place = self._below(above, element, above.branch, share)
                    alike[above, element.names, share] = place
            places.append(place)
        self._places = places

    def __getitem__(self, element: Element) -> Place:
        place = self._places[element.order]
        assert place
        return place

    def _below(self, above: Place, element: Element, branch: Element, share: int) -> Place:
        words, judged, names = above.words, above.words_judged, element.names
        if not names <= words:
            weights = self._weights
            judged += sum([weights.get(word, 0) for word in names if word not in words])
            words |= names
        return Place(words, branch, above.inside, share, judged)

    def features(self, place: Place) -> list[str]:
        inside, branch = place.inside, place.branch
        features = [f"own:{place.share}:{inside}"]
        if branch is not None:
            whole = self._held if inside == "in" else self._total
            features += (
                f"branch:share{bisect_right(_SHARES, branch.prose / whole)}:{inside}",
                f"branch:links{bisect_right(_SHARES, branch.links / (branch.size or 1))}:{inside}",
                f"branch:{branch.tag}:{inside}",
            )
        return features


class _Groups:
    """Blocks whose elements and parents are named alike: the paragraphs of a text are, and so are teasers."""

    def __init__(self, blocks: list[Block], held: int) -> None:
        self._held = held
        self._sums: dict[object, list[int]] = {}
        for block in blocks:
            sums = self._sums.setdefault(block.likeness, [0, 0, 0])
            sums[0] += block.size
            sums[1] += block.links
            if block.is_prose:
                sums[2] += block.size

    def __getitem__(self, likeness: object) -> tuple[int, int, int]:
        size, links, prose = self._sums[likeness]
        share = prose / self._held
        return bisect_right(_SHARES, share), bisect_right(_SHARES, links / size), bisect_right(_FEW_SHARES, share)


def features_of(look: Look) -> list[str]:
    """Return the features of all blocks that look so."""
    size, end, tag, links, where, inside, before, kind, after, group_prose, group_links, group_few = look
    return [
        f"size:{size}:{end}",
        f"size:{size}:{inside}",
        f"links:{links}:{inside}",
        f"tag:{tag}:{end}",
        f"tag:{tag}:{inside}",
        f"kind:{kind}:{where}:{inside}",
        f"near:{before}:{kind}:{inside}",
        f"near:{kind}:{after}:{inside}",
        f"group:prose{group_prose}:{inside}",
        f"group:links{group_links}:{inside}",
        f"group:{kind}:{group_few}",
    ]


def _container(elements: list[Element]) -> Element:
    """Return the smallest element that holds most of the prose, of those called an article where one holds half."""
    container = elements[0]
    half = container.prose / 2
    container = max((e for e in elements if e.prose >= half and _is_article(e)), key=_prose, default=container)
    children: dict[Element | None, list[Element]] = {}
    for element in elements:
        if element.prose:
            children.setdefault(element.parent, []).append(element)
    while below := children.get(container):
        child = max(below, key=_prose)
        if child.prose * 5 < container.prose * 4 or child.tag == "p":
            break
        container = child
    return container


def _prose(element: Element) -> int:
    return element.prose


@lru_cache(maxsize=10_000)
def _is_named_article(names: frozenset[str]) -> bool:
    return any(wanted <= names for wanted in _ARTICLE_NAMES)


def _is_article(element: Element) -> bool:
    if element.tag in ("article", "main"):
        return True
    return _is_named_article(element.names)


def _extent(blocks: list[Block], places: _Places) -> tuple[int, int]:
    """Return the numbers of the first and of the last block of prose in the container."""
    prose = [number for number, block in enumerate(blocks) if block.is_prose and places[block.element].inside == "in"]
    return (prose[0], prose[-1]) if prose else (0, len(blocks))


def _kind(block: Block) -> str:
    if block.links * 2 > block.size:
        return "link"
    if block.is_prose:
        return "long" if block.size > 160 else "prose"
    if block.element.tag in HEADINGS:
        return "head"
    return "short" if block.size < 25 else "line"


def _end(text: str) -> str:
    return "end" if text[-1] in SENTENCE_ENDS else "colon" if text[-1] == ":" else "open"
