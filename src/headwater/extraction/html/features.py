"""What is known of each block before it is judged: where it stands, how that place is named, how it reads.

A feature is a short text, such as `word:sidebar` or `size:7:end`. Most are made of steps: `size:7` is the eighth of
the sizes below.
"""

from bisect import bisect_right
from collections.abc import Mapping

from headwater.extraction.html.blocks import HEADINGS, SENTENCE_ENDS, Block, Element

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


# A part of how a block looks; the last is whether it stands in the container. Of these there are few, of all together
# many.
# "own": steps of its size, how it ends, its tag, steps of its links.
# "near": where it stands in the prose; what kind is before it, it is, is after it.
# "group": what kind it is; of its group, steps of prose and of links, few of prose.
Look = tuple[str, int | str, int | str, int | str, int | str, str]


class PageFeatures:
    """The features of the blocks of a page: those of a block's place, which it may share with others, and its own.

    The words of places and what is said in blocks come without the others' prefix, since they are so many; `words` are
    the weights of the first, which are added up on the way down the tree.
    """

    def __init__(self, blocks: list[Block], elements: list[Element], words: Mapping[str, int]) -> None:
        container = _container(elements)
        self._blocks = blocks
        self._places = places = _Places(elements, container, words)
        self.places = [places[block.element] for block in blocks]  # of each block
        self._groups = _Groups(blocks, container.prose or 1)
        self._kinds = ["edge", *map(_kind, blocks), "edge"]
        self._first, self._last = _extent(blocks, self.places)

    def of_place(self, place: "Place") -> list[str]:
        """Return the features of a place."""
        return self._places.features(place)

    def looks(self, number: int) -> tuple[Look, Look, Look]:
        """Return how the block with that number looks; many blocks of many pages look the same in one of the ways."""
        block = self._blocks[number]
        before, kind, after = self._kinds[number : number + 3]
        where = "before" if number < self._first else "after" if number > self._last else "amid"
        inside, tag = self.places[number].inside, block.element.tag
        prose, links, few = self._groups[block.likeness]
        size_step, link_step = bisect_right(_SIZES, block.size), bisect_right(_SHARES, block.links / block.size)
        return (
            ("own", size_step, _end(block.text), tag, link_step, inside),
            ("near", where, before, kind, after, inside),
            ("group", kind, prose, links, few, inside),
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
        self._of_branches: dict[Element, list[str]] = {}
        self._places: list[Place] = []
        around = set(container.ancestors())
        alike: dict[tuple[Place | None, frozenset[str], int], Place] = {}
        for element in elements:  # parents stand before their children
            share = bisect_right(_SHARES, element.prose / self._held) if element.prose else 0
            above = self._places[element.parent.order] if element.parent else None
            alike_by = above, element.names, share
            if alike_by in alike:
                place = alike[alike_by]
            elif above is None or element in around:
                # what names the container and all around it does not tell its blocks apart
                place = Place(_NO_WORDS, None, "in" if element is container else "out", share, 0)
            elif above.branch is None:
                place = self._below(above, element, element, share)
            else:
                alike[alike_by] = place = self._below(above, element, above.branch, share)
            self._places.append(place)

    def __getitem__(self, element: Element) -> Place:
        return self._places[element.order]

    def _below(self, above: Place, element: Element, branch: Element, share: int) -> Place:
        words, judged, names = above.words, above.words_judged, element.names
        if not names <= words:
            weights = self._weights
            judged += sum([weights.get(word, 0) for word in names if word not in words])
            words |= names
        return Place(words, branch, above.inside, share, judged)

    def features(self, place: Place) -> list[str]:
        features = [f"own:{place.share}:{place.inside}"]
        if place.branch is not None:
            features += self._of_branches.get(place.branch) or self._of_branch(place.branch, place.inside)
        return features

    def _of_branch(self, branch: Element, inside: str) -> list[str]:
        whole = self._held if inside == "in" else self._total
        self._of_branches[branch] = features = [
            f"branch:share{bisect_right(_SHARES, branch.prose / whole)}:{inside}",
            f"branch:links{bisect_right(_SHARES, branch.links / branch.size)}:{inside}",
            f"branch:{branch.tag}:{inside}",
        ]
        return features


class _Groups:
    """Blocks whose elements and parents are named alike: the paragraphs of a text are, and so are teasers."""

    def __init__(self, blocks: list[Block], held: int) -> None:
        self._held = held
        self._sums: dict[object, list[int]] = {}
        for block in blocks:
            sums = self._sums.get(block.likeness)
            if sums is None:
                self._sums[block.likeness] = sums = [0, 0, 0]
            sums[0] += block.size
            sums[1] += block.links
            if block.is_prose:
                sums[2] += block.size

    def __getitem__(self, likeness: object) -> tuple[int, int, int]:
        size, links, prose = self._sums[likeness]
        share = prose / self._held
        return bisect_right(_SHARES, share), bisect_right(_SHARES, links / size), bisect_right(_FEW_SHARES, share)


def features_of(look: Look) -> list[str]:
    """Return the features of all blocks that look so in one of the ways."""
    if look[0] == "own":
        _, size, end, tag, links, inside = look
        steps = [f"size:{size}:{end}", f"size:{size}:{inside}", f"links:{links}:{inside}"]
        return [*steps, f"tag:{tag}:{end}", f"tag:{tag}:{inside}"]
    if look[0] == "near":
        _, where, before, kind, after, inside = look
        return [f"kind:{kind}:{where}:{inside}", f"near:{before}:{kind}:{inside}", f"near:{kind}:{after}:{inside}"]
    _, kind, prose, links, few, inside = look
    return [f"group:prose{prose}:{inside}", f"group:links{links}:{inside}", f"group:{kind}:{few}"]


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


def _is_article(element: Element) -> bool:
    return element.tag in ("article", "main") or any(wanted <= element.names for wanted in _ARTICLE_NAMES)


def _extent(blocks: list[Block], places: list[Place]) -> tuple[int, int]:
    """Return the numbers of the first and of the last block of prose in the container."""
    prose = [number for number, block in enumerate(blocks) if block.is_prose and places[number].inside == "in"]
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
