"""Guess the kind of a page, such as an article or a listing, by weights that were learned from real pages.

`bench/extract_training.py` learns the weights. A feature of a page is a short text: a word in the names of its elements
or in its address, a declared type, or a count that reaches a step (`tag:li>=5`).
"""

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from urllib.parse import urlsplit

from headwater.extraction.article import PageKind
from headwater.extraction.html.block_classifier import block_sort
from headwater.extraction.html.blocks import Block, Element

_COUNTS = (1, 2, 3, 5, 8, 12, 18, 27, 40, 60, 90, 140, 220, 350, 600, 1000)
_SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_SORTS = ("link", "long", "prose", "head", "short", "line")
_TAGS = (
    *("article", "li", "td", "h1", "h2", "h3", "form", "pre", "dd", "p", "section", "aside", "table", "details"),
    "blockquote",
)
# Names that elements have once for each thing on the page.
_REPEATED_NAMES = frozenset(
    """
    product price post comment reply card item author message user date entry topic article cart rating review faq
    testimonial hero listing code
    """.split()  # noqa: SIM905 (as a list of literals it would fill the page)
)
_WORD = re.compile(r"[a-z]{2,}")
_DATE_IN_PATH = re.compile(r"/(?:19|20)\d\d/")
_LONG_NUMBER = re.compile(r"\d{3}")
_MIN_SIZE = 700  # letters; a page with fewer shows no kind, and a short notice is an article
_MAX_ADDRESS_LENGTH = 2000
_MAX_PLAIN_NAME = 12  # a longer last part of an address is the title of the page


def guess_page_kind(
    blocks: Sequence[Block], elements: Sequence[Element], url: str, declared: Iterable[str]
) -> PageKind:
    """Return the likely kind of a page. `declared` are the types that it states in its metadata."""
    if not blocks or elements[0].size < _MIN_SIZE:
        return PageKind.ARTICLE
    weights, kinds = _weights(), list(PageKind)
    known = weights.keys() & page_features(blocks, elements, url, declared)
    sums = [sum(column) for column in zip(weights["bias"], *map(weights.__getitem__, known), strict=True)]
    return kinds[max(range(len(sums)), key=sums.__getitem__)]


@cache
def _weights() -> dict[str, list[int]]:
    """Return whole hundredths for each kind in order, by feature."""
    rows = json.loads(resources.files(__package__).joinpath("page_kinds.json").read_text("utf-8"))
    return {feature: [round(float(weight) * 100) for weight in row.split()] for feature, row in rows.items()}


def page_features(blocks: Sequence[Block], elements: Sequence[Element], url: str, declared: Iterable[str]) -> set[str]:
    """Return the features of a page."""
    features = set(declared)
    if not blocks:
        return features
    counts, sizes = Counter[str](), Counter[str]()
    for block in blocks:
        sort = block_sort(block)
        counts[sort] += 1
        sizes[sort] += block.size
    body = elements[0]
    for sort in _SORTS:
        features.update(_steps(f"number:{sort}", counts[sort], _COUNTS))
        features.update(_steps(f"share:{sort}", sizes[sort] / body.size, _SHARES))
    features.update(_steps("size", body.size / 100, _COUNTS))
    features.update(_steps("prose", body.prose / body.size, _SHARES))
    features.update(_steps("links", body.links / body.size, _SHARES))
    features.update(_steps("longest", max((b.size for b in blocks if b.is_prose), default=0) / 50, _COUNTS))
    features.update(_steps("alike", max(Counter(b.likeness for b in blocks).values()), _COUNTS))
    prose = Counter(block.likeness for block in blocks if block.is_prose)
    features.update(_steps("alike:prose", max(prose.values(), default=0), _COUNTS))
    tags = Counter(element.tag for element in elements)
    for tag in _TAGS:
        features.update(_steps(f"tag:{tag}", tags[tag], _COUNTS))
    return features | _name_features(elements) | _address_features(url)


def _name_features(elements: Sequence[Element]) -> set[str]:
    names = Counter(element.names for element in elements)
    words = {word for of in names for word in of}
    features = {f"name:{word}" for word in words}
    for word in words & _REPEATED_NAMES:
        number = sum(count for of, count in names.items() if word in of)
        features.update(_steps(f"repeated:{word}", number, _COUNTS))
    return features


def _address_features(url: str) -> set[str]:
    try:
        address = urlsplit(url[:_MAX_ADDRESS_LENGTH])
        host = address.hostname or ""
    except ValueError:
        return set()
    if not host:
        return set()
    path = address.path.lower()
    parts = [part for part in path.split("/") if part]
    last = parts[-1] if parts else ""
    named = parts if len(parts) == 1 or len(last) < _MAX_PLAIN_NAME else parts[:-1]
    features = {f"path:{word}" for part in named for word in _WORD.findall(part)}
    features |= {f"host:{word}" for word in _WORD.findall(host)}
    ending = "slash" if path.endswith("/") else "html" if ".htm" in path[-5:] else "plain"
    facts = {"number": _LONG_NUMBER.search(last), "date": _DATE_IN_PATH.search(path), "query": address.query}
    features |= {f"address:{name}" for name, fact in facts.items() if fact} | {f"address:{ending}"}
    features.update(_steps("address:depth", len(parts), _COUNTS))
    features.update(_steps("address:hyphens", last.count("-"), _COUNTS))
    return features


def _steps(name: str, number: float, steps: Sequence[float]) -> Iterable[str]:
    """Yield a feature for each step that a number reaches."""
    return (f"{name}>={step}" for step in range(1, bisect_right(steps, number) + 1))
