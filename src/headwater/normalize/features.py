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


class PageFeatures:
    """The features of the blocks of a page: those of a block's place, which it may share with others, and its own.

    The words of places and what is said in blocks come without the others' prefix, since they are so many; `words` are
    the weights of the first, which are added up on the way down the tree.
    """

    def __init__(self, blocks: list[Block], elements: list[Element], words: Mapping[str, float]) -> None:
        container = _container(elements)
        self._blocks = blocks
        self._places = _Places(elements[0], container, words)
        self._groups = _Groups(blocks, container.prose or 1)
        self._kinds = ["edge", *map(_kind, blocks), "edge"]
        self._first, self._last = _extent(blocks, self._places)

    def place(self, number: int) -> "Place":
        """Return the place of the block with that number."""
        return self._places[self._blocks[number].element]

    def of_place(self, place: "Place") -> list[str]:
        """Return the features of a place."""
        return self._places.features(place)

    def own(self, number: int) -> list[str]:
        """Return the features of the block with that number."""
        block, kinds = self._blocks[number], self._kinds
        inside = self._places[block.element].inside
        before, kind, after = kinds[number : number + 3]
        size = bisect_right(_SIZES, block.size)
        end = _end(block.text)
        where = "before" if number < self._first else "after" if number > self._last else "amid"
        tag = block.element.tag
        return [
            f"size:{size}:{end}",
            f"size:{size}:{inside}",
            f"links:{bisect_right(_SHARES, block.links / block.size)}:{inside}",
            f"tag:{tag}:{end}",
            f"tag:{tag}:{inside}",
            f"kind:{kind}:{where}:{inside}",
            f"near:{before}:{kind}:{inside}",
            f"near:{kind}:{after}:{inside}",
            *self._groups.features(block, kind, inside),
        ]

    def said(self, number: int) -> set[str]:
        """Return the words of the block with that number, unless it is long."""
        block = self._blocks[number]
        if block.size > _WORDS_UP_TO:
            return set()
        return {word.strip(_PUNCTUATION) for word in block.text.lower().split()}


class Place:
    """What all blocks in an element share."""

    __slots__ = ("branch", "element", "inside", "judged", "words", "words_judged")

    def __init__(
        self, element: Element, words: frozenset[str], branch: Element | None, inside: str, words_judged: float
    ) -> None:
        self.element = element
        self.words = words  # that the element and those around it, up to the container, are named with
        self.words_judged = words_judged
        self.branch = branch  # the child of the container, or of what is around it, that the element is in
        self.inside = inside  # the container: "in" or "out"
        self.judged: float | None = None


class _Places:
    """The place of each element, made when first asked for."""

    def __init__(self, body: Element, container: Element, weights: Mapping[str, float]) -> None:
        self._held = container.prose or 1
        self._total = body.prose or 1
        self._weights = weights
        # What names the container and all around it does not tell its blocks apart.
        self._places = {element: Place(element, _NO_WORDS, None, "out", 0.0) for element in container.ancestors()}
        self._places[container] = Place(container, _NO_WORDS, None, "in", 0.0)

    def __getitem__(self, element: Element) -> Place:
        place = self._places.get(element)
        if place is None:
            assert element.parent
            above = self[element.parent]
            words, judged = above.words, above.words_judged
            names = element.names
            if not names <= words:
                judged += sum([self._weights.get(word, 0.0) for word in names if word not in words])
                words |= names
            place = self._places[element] = Place(element, words, above.branch or element, above.inside, judged)
        return place

    def features(self, place: Place) -> list[str]:
        inside, branch = place.inside, place.branch
        features = [f"own:{bisect_right(_SHARES, place.element.prose / self._held)}:{inside}"]
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

    def features(self, block: Block, kind: str, inside: str) -> tuple[str, ...]:
        size, links, prose = self._sums[block.likeness]
        share = prose / self._held
        return (
            f"group:prose{bisect_right(_SHARES, share)}:{inside}",
            f"group:links{bisect_right(_SHARES, links / size)}:{inside}",
            f"group:{kind}:{bisect_right(_FEW_SHARES, share)}",
        )


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
