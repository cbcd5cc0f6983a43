"""Learn the weights of a block's features from the corpora: python -m bench.extract_training [--check].

Writes `weights.json` next to `block_classifier.py`. With --check it writes nothing: it learns without the sites of each
fifth of the pages, and prints the scores of that fifth. It keeps no text, only words that occur on many sites.
"""

import argparse
import json
import math
import re
import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser

from bench.extract_pages import Page, read_pages
from bench.extract_scores import Found, score_corpora, tokens
from headwater.core.charset import decode_html
from headwater.extraction.html import block_classifier
from headwater.extraction.html.block_classifier import PageFeatures, aspect_features
from headwater.extraction.html.blocks import Block, Element, read_blocks
from headwater.extraction.html.main_text import choose_blocks

WEIGHTS = Path(block_classifier.__file__).with_name("weights.json")
PARTS = 5
# A feature must occur on this many sites, and have this weight.
MIN_SITES = 8
MIN_WEIGHT = 0.05
STIFFNESS = 15.0  # L2: the higher, the less a weight follows few examples
PASSES = 12


@dataclass(frozen=True, slots=True)
class Example:
    """A block: its features, whether it belongs to the text, and its importance."""

    features: Sequence[str]
    belongs: bool
    matters: float


@dataclass(frozen=True, slots=True)
class Lesson:
    """The blocks of a page and its examples."""

    page: Page
    blocks: list[Block]
    features: list[list[str]]
    examples: list[Example]

    @property
    def site(self) -> str:
        """Return the part of the host that all pages of a publisher share."""
        name = re.split(r"_20\d\d|\.", self.page.name.removeprefix("www."))[0]
        return f"{self.page.corpus}:{name}" if self.page.corpus in ("readability", "newspaper") else name.lower()


def read_lesson(page: Page) -> Lesson:
    """Read a page and label its blocks."""
    body = LexborHTMLParser(decode_html(page.body(), None)).body
    blocks, elements = read_blocks(body) if body is not None else ([], [])
    features = _features(blocks, elements) if blocks else []
    labels = _whole_labels(page, blocks) if page.text else _segment_labels(page, blocks)
    examples = [
        Example(tuple(set(of)), belongs, math.sqrt(1 + block.size / 6) * (1 if page.text else 3))
        for block, of, belongs in zip(blocks, features, labels, strict=True)
        if belongs is not None
    ]
    return Lesson(page, blocks, features, examples)


def _features(blocks: list[Block], elements: list[Element]) -> list[list[str]]:
    page = PageFeatures(blocks, elements, {})
    features = []
    for number, position in enumerate(page.positions):
        words = (f"words:{word}" for word in position.words)
        says = (f"says:{word}" for word in page.words_of_block(number))
        aspects = (feature for aspect in page.aspects(number) for feature in aspect_features(aspect))
        features.append([*words, *says, *page.position_features(position), *aspects])
    return features


def _segment_labels(page: Page, blocks: list[Block]) -> list[bool | None]:
    inside, outside = ([" ".join(segment.split()) for segment in part] for part in (page.inside, page.outside))
    labels: list[bool | None] = []
    for block in blocks:
        if any(segment in block.text for segment in inside):
            labels.append(True)
        else:
            labels.append(False if any(segment in block.text for segment in outside) else None)
    return labels


def _whole_labels(page: Page, blocks: list[Block]) -> list[bool | None]:
    """Label a block by the share of its runs of three words that occur in the true text. A middle share is unclear."""
    words = tokens(page.text)
    there, line = set(zip(words, words[1:], words[2:], strict=False)), f" {' '.join(words)} "
    shares = []
    for block in blocks:
        own = tokens(block.text)
        runs = list(zip(own, own[1:], own[2:], strict=False))
        here = sum(run in there for run in runs) / len(runs) if runs else float(f" {' '.join(own)} " in line)
        shares.append((here if own else 0.0, len(own)))
    sure = [number for number, (share, length) in enumerate(shares) if length >= 8 and share > 0.7]
    # The words of a menu occur in many texts, so a short block counts only near a long one.
    first, last = (sure[0] - 1, sure[-1] + 1) if sure else (0, len(blocks))
    return [
        False if length < 6 and not first <= number <= last else None if 0.3 < share < 0.7 else share >= 0.5
        for number, (share, length) in enumerate(shares)
    ]


def learn(lessons: Sequence[Lesson]) -> dict[str, float]:
    """Return the weights by logistic regression: Newton's steps for one weight after the other, in several passes."""
    sites: dict[str, set[str]] = defaultdict(set)
    for lesson in lessons:
        for feature in {feature for example in lesson.examples for feature in example.features}:
            sites[feature].add(lesson.site)
    examples = [example for lesson in lessons for example in lesson.examples]
    mean = sum(example.matters for example in examples) / len(examples)
    matters = [example.matters / mean for example in examples]
    belongs = [float(example.belongs) for example in examples]
    occurs: dict[str, list[int]] = {feature: [] for feature in sorted(sites) if len(sites[feature]) >= MIN_SITES}
    for number, example in enumerate(examples):
        for feature in example.features:
            if feature in occurs:
                occurs[feature].append(number)
    weights, sums = dict.fromkeys(occurs, 0.0), [0.0] * len(examples)
    for _ in range(PASSES):
        for feature, numbers in occurs.items():
            slope, bend = STIFFNESS * weights[feature], STIFFNESS
            for number in numbers:
                likely = 1 / (1 + math.exp(-sums[number]))
                slope += (likely - belongs[number]) * matters[number]
                bend += likely * (1 - likely) * matters[number]
            step = max(-1.0, min(1.0, -slope / bend))
            weights[feature] += step
            for number in numbers:
                sums[number] += step
    return {name: round(weight, 2) for name, weight in weights.items() if abs(weight) >= MIN_WEIGHT}


def part_of(lesson: Lesson) -> int:
    """Return the part of the data to which all pages of a site belong."""
    return zlib.crc32(lesson.site.encode()) % PARTS


def held_out_texts(lessons: Sequence[Lesson]) -> dict[tuple[str, str], str]:
    """Return the text of each page by corpus and name, found with weights that were learned without the page's site."""
    found: dict[tuple[str, str], str] = {}
    for part in range(PARTS):
        weights = learn([lesson for lesson in lessons if part_of(lesson) != part])
        for lesson in (lesson for lesson in lessons if part_of(lesson) == part):
            scores = [sum(weights.get(feature, 0) for feature in of) for of in lesson.features]
            text = choose_blocks(decode_html(lesson.page.body(), None), lesson.blocks, scores).text
            found[lesson.page.corpus, lesson.page.name] = text
    return found


def check(lessons: Sequence[Lesson]) -> None:
    """Print the scores of pages with weights that were learned without their site."""
    found = {key: Found(text) for key, text in held_out_texts(lessons).items()}
    for corpus, scores in score_corpora([lesson.page for lesson in lessons], found).items():
        print(f"{corpus:12} {scores['text']:.3f}")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="print scores of pages that were not learned from")
    options = parser.parse_args()
    lessons = [read_lesson(page) for page in read_pages()]
    if options.check:
        check(lessons)
        return
    weights: dict[str, dict[str, float]] = {"steps": {}, "words": {}, "says": {}}
    for name, weight in learn(lessons).items():
        kind, _, word = name.partition(":")
        if kind in weights:
            weights[kind][word] = weight
        else:
            weights["steps"][name] = weight
    WEIGHTS.write_text(json.dumps(weights, indent=0, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    print({kind: len(of) for kind, of in weights.items()})


if __name__ == "__main__":
    main()
