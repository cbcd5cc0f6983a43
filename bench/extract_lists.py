"""The lists of real pages: how many of their entries, and of the titles of these, the reader of lists finds.

A person has chosen the entries. `extract_lists.json` names pages of WCXB with their hashes. For each entry it has two
hashes: of its address, and of its address with its title.
"""

import gzip
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.extract_pages import CORPORA
from headwater.extraction.html.page_list import PageList, read_list

LABELS = Path(__file__).with_name("extract_lists.json")


@dataclass(frozen=True, slots=True)
class ListScores:
    """The F1 of each page that is there and has not changed."""

    links: dict[str, float]
    titles: dict[str, float]


def score_lists(corpora: Path = CORPORA) -> ListScores:
    """Read the labelled pages of the corpora."""
    scores = ListScores({}, {})
    for name, label in json.loads(LABELS.read_text(encoding="utf-8")).items():
        path = corpora / "wcxb-dev" / "html" / f"{name}.html.gz"
        if not path.exists() or _hash(body := gzip.decompress(path.read_bytes())) != label["page"]:
            continue
        entries = hash_entries(read_list(body, label["url"]))
        for number, found in enumerate((scores.links, scores.titles)):
            found[name] = _f1({entry[number] for entry in entries}, {entry[number] for entry in label["entries"]})
    return scores


def hash_entries(found: PageList) -> list[tuple[str, str]]:
    """Return the two hashes of each entry."""
    return [
        (_hash(entry.url.encode()), _hash(f"{entry.url} {''.join(entry.title.lower().split())}".encode()))
        for entry in found.entries
    ]


def mean(scores: Iterable[float]) -> float:
    """Return the mean, which is 0 without any score."""
    values = list(scores)
    return sum(values) / max(len(values), 1)


def _f1(found: set[str], expected: set[str]) -> float:
    return 2 * len(found & expected) / max(len(found) + len(expected), 1)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
