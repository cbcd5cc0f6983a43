"""Decide which blocks of a page are its main text, by weights that were learned from real pages.

`bench/extract_training.py` learns the weights. A feature of a block is a short text, such as `word:sidebar` or
`size:7:end`. A number in a feature is a step of a scale below: `size:7` is the eighth size. On pages of a kind, such as
listings, a feature has that weight and the one of its kind. Weights are whole hundredths, so that their sum does not
depend on their order.
"""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from operator import attrgetter
from typing import cast

from headwater.extraction.article import PageKind
from headwater.extraction.html.blocks import HEADINGS, SENTENCE_ENDS, Block, Element
from headwater.extraction.html.layout import LayoutAspect, OrderAspect, PageLayout, layout_features, order_features

_HOPELESS = -600  # the other features of a block never outweigh such a position
_SIZES = (8, 16, 25, 40, 60, 80, 110, 160, 240, 400, 700)
_SHARES = (0.001, 0.05, 0.15, 0.3, 0.5, 0.7, 0.9)
_FEW_SHARES = (0.01, 0.2, 0.5)
# Names that publishers give to the element of the article.
_ARTICLE_NAMES = (
    *({"article", "body"}, {"article", "content"}, {"article", "text"}, {"entry", "content"}),
    *({"post", "content"}, {"post", "body"}, {"story", "body"}),
)
_MAX_SIZE_FOR_WORDS = 400  # single words say little about longer blocks
_NO_WORDS: frozenset[str] = frozenset()
_prose = attrgetter("prose")
_PUNCTUATION = ".,:;!?()"

# One aspect of a block: "own" (size, end, tag, links, picture before), "near" (position in the prose; the sorts of the
# block before, the block and the block after) or "group" (sort; prose, links and low steps of prose of its group), and
# those of the layout. The last value is "in" or "out" of the container. There are few aspects, but many combinations.
Aspect = tuple[int | str, ...]


def score_blocks(blocks: list[Block], elements: list[Element], kind: PageKind) -> list[float]:
    """Return a score for each block of a page of that kind. Blocks above zero likely belong to the main text."""
    if not blocks:
        return []
    weights = _weights()
    steps, block_words = _steps_of(kind).get, weights["says"].get
    features = PageFeatures(blocks, elements, weights["words"])
    scores = []
    for number, position in enumerate(features.positions):
        score = position.score
        if score is None:
            score = position.words_score + sum([steps(feature, 0) for feature in features.position_features(position)])
            position.score = score
        if score > _HOPELESS:
            score += sum([_score_aspect(aspect, kind) for aspect in features.aspects(number)])
            score += sum([block_words(word, 0) for word in features.words_of_block(number)])
        scores.append(score / 100)
    return scores


@lru_cache(maxsize=20_000)
def _score_aspect(aspect: Aspect, kind: PageKind) -> int:
    steps = _steps_of(kind)
    return sum([steps.get(feature, 0) for feature in aspect_features(aspect)])


@cache
def _steps_of(kind: PageKind) -> dict[str, int]:
    """Return the weights of all features that are not words, on pages of that kind."""
    weights = _weights()
    steps = dict(weights["steps"])
    for feature, weight in weights[kind].items():
        steps[feature] = steps.get(feature, 0) + weight
    return steps


@cache
def _weights() -> dict[str, dict[str, int]]:
    text = resources.files(__package__).joinpath("weights.json").read_text("utf-8")
    return {kind: {name: round(weight * 100) for name, weight in of.items()} for kind, of in json.loads(text).items()}


class PageFeatures:
    """The features of the blocks of a page. A block has features of its own, and shares those of its position.

    `word_weights` are the weights of words in the names of elements. They are added up on the way down the tree.
    """

    def __init__(self, blocks: list[Block], elements: list[Element], word_weights: Mapping[str, int]) -> None:
        container = _find_container(elements)
        self._blocks = blocks
        self._tree = tree = _Positions(elements, container, word_weights)
        self.positions = [tree[block.element] for block in blocks]
        self._groups = _Groups(blocks, container.prose or 1)
        self._sorts = ["edge", *map(block_sort, blocks), "edge"]
        self._layout = PageLayout(blocks, elements)
        self._first, self._last = _extent(blocks, self.positions)

    def position_features(self, position: "BlockPosition") -> list[str]:
        """Return the features of a position."""
        return self._tree.features(position)

    def aspects(self, number: int) -> tuple[Aspect, ...]:
        """Return the aspects of the block with that number."""
        block = self._blocks[number]
        before, sort, after = self._sorts[number : number + 3]
        where = "before" if number < self._first else "after" if number > self._last else "amid"
        inside, tag = self.positions[number].inside, block.element.tag
        prose, links, few = self._groups[block.likeness]
        size_step, link_step = bisect_right(_SIZES, block.size), bisect_right(_SHARES, block.links / block.size)
        return (
            ("own", size_step, _end(block.text), tag, link_step, "media" if block.follows_media else "", inside),
            ("near", where, before, sort, after, inside),
            ("group", sort, prose, links, few, inside),
            *self._layout.aspects(number),
        )

    def words_of_block(self, number: int) -> set[str]:
        """Return the words of the block with that number. A long block has none."""
        block = self._blocks[number]
        if block.size > _MAX_SIZE_FOR_WORDS:
            return set()
        return {word.strip(_PUNCTUATION) for word in block.text.lower().split()}


@dataclass(slots=True, eq=False)
class BlockPosition:
    """The position that blocks share if their elements are the same or alike."""

    words: frozenset[str]  # in the names of the element and its ancestors below the container
    branch: Element | None  # the child of the container, or of its ancestors, that contains the element
    inside: str  # "in" or "out" of the container
    share: int  # of the prose that the element contains, in steps
    words_score: int
    score: int | None = None


class _Positions:
    def __init__(self, elements: list[Element], container: Element, weights: Mapping[str, int]) -> None:
        self._container_prose = container.prose or 1
        self._page_prose = elements[0].prose or 1
        self._weights = weights
        self._branch_features: dict[Element, list[str]] = {}
        self._positions: list[BlockPosition] = []
        around = set(container.ancestors())
        alike: dict[tuple[BlockPosition | None, frozenset[str], int], BlockPosition] = {}
        for element in elements:  # parents come before their children
            share = bisect_right(_SHARES, element.prose / self._container_prose) if element.prose else 0
            above = self._positions[element.parent.order] if element.parent else None
            key = above, element.names, share
            if key in alike:
                position = alike[key]
            elif above is None or element in around:
                # The names of the container and its ancestors are the same for all blocks.
                position = BlockPosition(_NO_WORDS, None, "in" if element is container else "out", share, 0)
            elif above.branch is None:
                position = self._below(above, element, element, share)
            else:
                alike[key] = position = self._below(above, element, above.branch, share)
            self._positions.append(position)

    def __getitem__(self, element: Element) -> BlockPosition:
        return self._positions[element.order]

    def _below(self, above: BlockPosition, element: Element, branch: Element, share: int) -> BlockPosition:
        words, score, names = above.words, above.words_score, element.names
        if not names <= words:
            weights = self._weights
            score += sum([weights.get(word, 0) for word in names if word not in words])
            words |= names
        return BlockPosition(words, branch, above.inside, share, score)

    def features(self, position: BlockPosition) -> list[str]:
        features = [f"own:{position.share}:{position.inside}"]
        if (branch := position.branch) is not None:
            if branch not in self._branch_features:
                self._branch_features[branch] = self._describe_branch(branch, position.inside)
            features += self._branch_features[branch]
        return features

    def _describe_branch(self, branch: Element, inside: str) -> list[str]:
        whole = self._container_prose if inside == "in" else self._page_prose
        return [
            f"branch:share{bisect_right(_SHARES, branch.prose / whole)}:{inside}",
            f"branch:links{bisect_right(_SHARES, branch.links / branch.size)}:{inside}",
            f"branch:{branch.tag}:{inside}",
        ]


class _Groups:
    """Groups of blocks whose elements and parents have the same names, such as paragraphs of a text, or teasers."""

    def __init__(self, blocks: list[Block], container_prose: int) -> None:
        self._container_prose = container_prose
        self._sums: dict[object, list[int]] = defaultdict(lambda: [0, 0, 0])
        for block in blocks:
            sums = self._sums[block.likeness]
            sums[0] += block.size
            sums[1] += block.links
            if block.is_prose:
                sums[2] += block.size

    def __getitem__(self, likeness: object) -> tuple[int, int, int]:
        size, links, prose = self._sums[likeness]
        share = prose / self._container_prose
        return bisect_right(_SHARES, share), bisect_right(_SHARES, links / size), bisect_right(_FEW_SHARES, share)


def aspect_features(aspect: Aspect) -> list[str]:
    """Return the features of an aspect."""
    if aspect[0] == "layout":
        return layout_features(cast(LayoutAspect, aspect))
    if aspect[0] == "order":
        return order_features(cast(OrderAspect, aspect))
    if aspect[0] == "own":
        _, size, end, tag, links, media, inside = aspect
        caption = [f"media:{size}:{end}", f"media:{tag}:{inside}"] if media else []
        steps = [f"size:{size}:{end}", f"size:{size}:{inside}", f"links:{links}:{inside}"]
        return [*steps, *caption, f"tag:{tag}:{end}", f"tag:{tag}:{inside}"]
    if aspect[0] == "near":
        _, where, before, sort, after, inside = aspect
        return [f"sort:{sort}:{where}:{inside}", f"near:{before}:{sort}:{inside}", f"near:{sort}:{after}:{inside}"]
    _, sort, prose, links, few, inside = aspect
    return [f"group:prose{prose}:{inside}", f"group:links{links}:{inside}", f"group:{sort}:{few}"]


def _find_container(elements: list[Element]) -> Element:
    """Return the smallest element with most of the prose. An element named as an article comes first if it has half."""
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


def _is_article(element: Element) -> bool:
    return element.tag in ("article", "main") or any(names <= element.names for names in _ARTICLE_NAMES)


def _extent(blocks: list[Block], positions: list[BlockPosition]) -> tuple[int, int]:
    prose = [number for number, block in enumerate(blocks) if block.is_prose and positions[number].inside == "in"]
    return (prose[0], prose[-1]) if prose else (0, len(blocks))


def block_sort(block: Block) -> str:
    """Return whether a block is links, long prose, prose, a heading, short or another line."""
    if block.links * 2 > block.size:
        return "link"
    if block.is_prose:
        return "long" if block.size > 160 else "prose"
    if block.element.tag in HEADINGS:
        return "head"
    return "short" if block.size < 25 else "line"


def _end(text: str) -> str:
    return "end" if text[-1] in SENTENCE_ENDS else "colon" if text[-1] == ":" else "open"
