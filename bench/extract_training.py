"""Learn to guess the kind of a page and to choose its text: python -m bench.extract_training.

Writes `page_kinds.json` and `weights.json` next to `block_classifier.py`. They keep no text, only words that occur on
many sites. numpy and scipy run in an environment of their own.
"""

from __future__ import annotations  # arrays name their items in types only

import asyncio
import json
import math
import tempfile
import zlib
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from publicsuffixlist import PublicSuffixList
from selectolax.lexbor import LexborHTMLParser

from bench.extract_labels import label_blocks
from bench.extract_pages import Page, read_pages
from bench.peers import BENCH, make_environment, run
from headwater.core.charset import decode_html
from headwater.extraction.article import PageKind
from headwater.extraction.html import block_classifier
from headwater.extraction.html.block_classifier import PageFeatures, aspect_features
from headwater.extraction.html.blocks import Block, Element, read_blocks
from headwater.extraction.html.main_text import choose_blocks
from headwater.extraction.html.metadata import read_metadata
from headwater.extraction.html.page_kinds import page_features

FOLDER = Path(block_classifier.__file__).parent
PARTS = 5
MIN_SITES = 8  # on which a feature must occur
MIN_WEIGHT = 0.06
NEWS_MATTERS = 3.0  # how much more a page of a news corpus matters for the text
NEWS_MATTERS_FOR_KINDS = 0.3
KINDS = list(PageKind)
_SUFFIXES = PublicSuffixList()
_WORD_FEATURES = ("words:", "says:")
Key = tuple[str, str]


class Numbers(dict[str, int]):
    """Numbers for texts, in the order of their first use."""

    def __missing__(self, key: str) -> int:
        """Give the next number to a new text."""
        self[key] = number = len(self)
        return number


@dataclass(frozen=True, slots=True)
class Lesson:
    """The blocks of a page, the features of the page and of its blocks by number, and the labels of its blocks."""

    page: Page
    blocks: list[Block]
    page_features: list[int]
    features: list[array[int]]
    labels: list[bool | None]

    @property
    def site(self) -> str:
        """Return the registrable domain of the page, or its name if its address is unknown."""
        host = urlsplit(self.page.url).hostname or ""
        return f"{self.page.corpus}:{self.page.name}" if host == "fakehost" else _SUFFIXES.privatesuffix(host) or host

    @property
    def key(self) -> Key:
        """Return the corpus and the name of the page."""
        return self.page.corpus, self.page.name


@dataclass(frozen=True, slots=True)
class Lessons:
    """All pages, and the numbers of the features of pages and of blocks."""

    pages: list[Lesson]
    page_names: Numbers
    block_names: Numbers


@dataclass(frozen=True, slots=True)
class Learned:
    """The scores of each example, and the weights: a row for all kinds, and one for each kind."""

    scores: array[float]
    weights: list[array[float]]


def read_lessons(pages: Sequence[Page]) -> Lessons:
    """Read all pages."""
    lessons = Lessons([], Numbers(), Numbers())
    for page in pages:
        tree = LexborHTMLParser(decode_html(page.body(), None))
        blocks, elements = read_blocks(tree.body) if tree.body is not None else ([], [])
        _, declared = read_metadata(tree, page.url, {})
        about = page_features(blocks, elements, page.url, declared)
        numbers = sorted(lessons.page_names[feature] for feature in {*about, "bias"})
        features = _features(blocks, elements, lessons.block_names) if blocks else []
        lessons.pages.append(Lesson(page, blocks, numbers, features, label_blocks(page, blocks)))
    return lessons


def _features(blocks: list[Block], elements: list[Element], names: Numbers) -> list[array[int]]:
    page = PageFeatures(blocks, elements, {})
    features = []
    for number, position in enumerate(page.positions):
        words = {f"words:{word}" for word in position.words}
        says = {f"says:{word}" for word in page.words_of_block(number)}
        aspects = {feature for aspect in page.aspects(number) for feature in aspect_features(aspect)}
        every = words | says | aspects | set(page.position_features(position))
        features.append(array("i", sorted(names[feature] for feature in every)))
    return features


async def learn_kinds(lessons: Lessons, leave_out: Sequence[Callable[[Lesson], bool]]) -> list[list[Learned]]:
    """Return for each of the parts to leave out a regression for each kind."""
    pages = lessons.pages
    targets = {}
    for number, is_left_out in enumerate(leave_out):
        rows = [None if is_left_out(lesson) else lesson.page.kind or PageKind.ARTICLE for lesson in pages]
        for kind in KINDS:
            targets[f"{number}-{kind}"] = [None if row is None else row == kind for row in rows], [0] * len(pages)
    matters = [1.0 if lesson.page.kind else NEWS_MATTERS_FOR_KINDS for lesson in pages]
    learned = await _learn(
        [array("i", lesson.page_features) for lesson in pages], [lesson.site for lesson in pages], targets, matters,
        set(), {"features": len(lessons.page_names), "kinds": 0, "stiffness": 33.0},
    )  # fmt: skip
    return [[learned[f"{number}-{kind}"] for kind in KINDS] for number in range(len(leave_out))]


def likely_kind(learned: Sequence[Learned], number: int) -> PageKind:
    """Return the kind with the highest score for the page with that number."""
    return KINDS[max(range(len(KINDS)), key=lambda kind: learned[kind].scores[number])]


async def learn_blocks(
    lessons: Lessons, leave_out: Sequence[Callable[[Lesson], bool]], kinds: Sequence[Sequence[PageKind]]
) -> list[Learned]:
    """Return a regression for each of the parts to leave out. `kinds` are those of the pages for each part."""
    targets = {}
    for number, (is_left_out, of) in enumerate(zip(leave_out, kinds, strict=True)):
        labels: list[bool | None] = []
        rows: list[int] = []
        for lesson, kind in zip(lessons.pages, of, strict=True):
            labels += [None] * len(lesson.blocks) if is_left_out(lesson) else lesson.labels
            rows += [KINDS.index(kind)] * len(lesson.blocks)
        targets[str(number)] = labels, rows
    matters: list[float] = []
    for lesson in lessons.pages:
        per_block = 1 if lesson.page.text else 3
        of_page = [math.sqrt(1 + block.size / 6) * per_block for block in lesson.blocks]
        known = sum(one for one, label in zip(of_page, lesson.labels, strict=True) if label is not None)
        news = 1 if lesson.page.kind else NEWS_MATTERS
        matters += [one * news / math.sqrt(max(known, 50)) for one in of_page]
    crossed = {number for name, number in lessons.block_names.items() if not name.startswith(_WORD_FEATURES)}
    learned = await _learn(
        [features for lesson in lessons.pages for features in lesson.features],
        [lesson.site for lesson in lessons.pages for _ in lesson.blocks], targets, matters, crossed,
        {"features": len(lessons.block_names), "kinds": len(KINDS), "stiffness": 15.0},
    )  # fmt: skip
    return [learned[str(number)] for number in range(len(leave_out))]


async def _learn(
    examples: Sequence[array[int]],
    sites: Sequence[str],
    targets: Mapping[str, tuple[Sequence[bool | None], Sequence[int]]],
    matters: Sequence[float],
    crossed: set[int],
    settings: dict[str, Any],
) -> dict[str, Learned]:
    """Learn a regression for each target, in an environment that has numpy."""
    python = await make_environment("learn")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pointers, features, groups = array("q", [0]), array("i"), Numbers()
        for example in examples:
            features.extend(example)
            pointers.append(len(features))
        arrays: dict[str, array[Any]] = {
            "features": features,
            "pointers": pointers,
            "groups": array("i", [groups[site] for site in sites]),
        }
        arrays["crossed"] = array("b", [number in crossed for number in range(settings["features"])])
        for target, (labels, kinds) in targets.items():
            arrays[f"{target}.labels"] = array("b", [-1 if label is None else label for label in labels])
            arrays[f"{target}.kinds"] = array("b", kinds)
            arrays[f"{target}.matters"] = array("d", matters)
        for target, values in arrays.items():
            with (folder / target).open("wb") as file:
                values.tofile(file)
        problem = {"regressions": list(targets), "min_groups": MIN_SITES, "kind_stiffness": 4.0, **settings}
        (folder / "problem.json").write_text(json.dumps(problem))
        await run(python, BENCH / "extract_learn.py", folder)
        return {target: _read_learned(folder, target, settings["features"]) for target in targets}


def _read_learned(folder: Path, target: str, features: int) -> Learned:
    scores, weights = array("d"), array("d")
    for values, ending in ((scores, "scores"), (weights, "weights")):
        values.frombytes((folder / f"{target}.{ending}").read_bytes())
    return Learned(scores, [weights[start : start + features] for start in range(0, len(weights), features)])


def part_of(lesson: Lesson) -> int:
    """Return the part of the data to which all pages of a site belong."""
    return zlib.crc32(lesson.site.encode()) % PARTS


async def guess_held_out_kinds(lessons: Lessons) -> list[PageKind]:
    """Return the kind of each page, guessed with weights that were learned without its site."""
    by_part = await learn_kinds(lessons, [_in_part(part) for part in range(PARTS)])
    return [likely_kind(by_part[part_of(lesson)], number) for number, lesson in enumerate(lessons.pages)]


async def held_out_texts(lessons: Lessons, kinds: Sequence[PageKind]) -> dict[Key, str]:
    """Return the text of each page by corpus and name, found with weights that were learned without the page's site."""
    by_part = await learn_blocks(lessons, [_in_part(part) for part in range(PARTS)], [kinds] * PARTS)
    return _texts(lessons, kinds, lambda lesson: by_part[part_of(lesson)])


async def other_corpora_texts(lessons: Lessons) -> dict[Key, str]:
    """Return the text of each page, found with weights that were learned from the other corpora only."""
    corpora = list(dict.fromkeys(lesson.page.corpus for lesson in lessons.pages))
    leave_out = [_in_corpus(corpus) for corpus in corpora]
    by_corpus = await learn_kinds(lessons, leave_out)
    kinds = [[likely_kind(of, number) for number in range(len(lessons.pages))] for of in by_corpus]
    learned = dict(zip(corpora, await learn_blocks(lessons, leave_out, kinds), strict=True))
    own = [kinds[corpora.index(lesson.page.corpus)][number] for number, lesson in enumerate(lessons.pages)]
    return _texts(lessons, own, lambda lesson: learned[lesson.page.corpus])


def _in_part(part: int) -> Callable[[Lesson], bool]:
    return lambda lesson: part_of(lesson) == part


def _in_corpus(corpus: str) -> Callable[[Lesson], bool]:
    return lambda lesson: lesson.page.corpus == corpus


def _texts(lessons: Lessons, kinds: Sequence[PageKind], choose: Callable[[Lesson], Learned]) -> dict[Key, str]:
    texts, start = {}, 0
    for lesson, kind in zip(lessons.pages, kinds, strict=True):
        scores = choose(lesson).scores[start : start + len(lesson.blocks)]
        start += len(lesson.blocks)
        texts[lesson.key] = choose_blocks(decode_html(lesson.page.body(), None), lesson.blocks, scores, kind).text
    return texts


async def train(lessons: Lessons) -> None:
    """Learn from all pages, and write the weights."""
    nothing: list[Callable[[Lesson], bool]] = [lambda _: False]
    # The weights of blocks are learned with the kinds that are guessed, since those of unknown pages are guessed too.
    kinds = await guess_held_out_kinds(lessons)
    of_kinds = (await learn_kinds(lessons, nothing))[0]
    rows = {
        name: [round(learned.weights[0][number], 2) for learned in of_kinds]
        for name, number in lessons.page_names.items()
    }
    kind_weights = {name: " ".join(map(str, row)) for name, row in rows.items() if max(map(abs, row)) >= MIN_WEIGHT}
    _write("page_kinds.json", kind_weights)
    weights: dict[str, dict[str, float]] = {name: {} for name in ("steps", "words", "says", *KINDS)}
    learned = (await learn_blocks(lessons, nothing, [kinds]))[0]
    for name, number in lessons.block_names.items():
        for row, values in zip(("", *KINDS), learned.weights, strict=True):
            weight = round(values[number], 2)
            if abs(weight) >= MIN_WEIGHT:
                kind, _, word = name.partition(":")
                if row or kind not in weights:
                    weights[row or "steps"][name] = weight
                else:
                    weights[kind][word] = weight
    _write("weights.json", weights)
    print({kind: len(of) for kind, of in weights.items()})


def _write(name: str, value: object) -> None:
    (FOLDER / name).write_text(json.dumps(value, indent=0, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(train(read_lessons(read_pages())))
