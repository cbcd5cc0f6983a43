"""Scores the result of an extractor against the correct one, in the same way for every extractor."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from bench.extract_pages import Page

_SHINGLE = 4
# Scripts that set no spaces between words: Thai and Lao, Burmese, Khmer, kana, Han.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_TOKEN = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_WORDS = re.compile(r"\w+")
ALL_KINDS = "all"
_BETWEEN_NAMES = re.compile(r"[,;|&/\n]|\b(?:and|und|et|y)\b")
_BEFORE_NAMES = re.compile(r"^(?:written |posted )?(?:by|von|par|por)\b:?")
_SIZE = re.compile(r"\d{2,4}x\d{2,4}|\b[whs]?\d{2,4}\b")
_WORDS_IN_PATH = re.compile(r"[^\W\d]{3}|\d{5}")
_LONG_NUMBER = re.compile(r"(?=[a-z_-]*\d)[0-9a-z]{9,}")


@dataclass(frozen=True, slots=True)
class Found:
    """The result of an extractor for a page."""

    text: str = ""
    title: str = ""
    author: str = ""
    date: str = ""
    image: str = ""


def score_corpora(pages: Iterable[Page], found: Mapping[tuple[str, str], Found]) -> dict[str, dict[str, float]]:
    """Return the score of each field by corpus, from 0 to 1.

    A text that is known by segments gets the F1 of all segments of its corpus, a whole text the F1 of its shingles. The
    score of another field is the share of correct pages among those with a known result. The text of a page of a known
    kind counts for its kind, and for `all`.
    """
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    segments: dict[str, Counter[str]] = defaultdict(Counter)
    for page in pages:
        one = found[page.corpus, page.name]
        segments[page.corpus] += count_segments(page, one.text)
        for field, value in score_page(page, one).items():
            values[page.corpus][field].append(value)
    scores = {corpus: {field: sum(of) / len(of) for field, of in fields.items()} for corpus, fields in values.items()}
    for corpus, counts in segments.items():
        if counts:
            scores[corpus]["text"] = f1(counts["kept"], counts["kept"] + counts["let in"], counts["inside"])
    return scores


def score_page(page: Page, found: Found) -> dict[str, float]:
    """Return the score of each field with a known result, except texts that are known by segments."""
    scores: dict[str, float] = {}
    if page.text:
        # Listings and products have many short lines, so only single words are compared on pages of all kinds.
        by_kind = dict.fromkeys((page.kind, ALL_KINDS), word_f1(page.text, found.text)) if page.kind else {}
        scores |= by_kind or {"text": shingle_f1(page.text, found.text)}
    if page.title:
        scores["title"] = _line(page.title) == _line(found.title)
    if wanted := names(*page.authors):
        scores["author"] = wanted == names(found.author)
    if page.date:
        scores["date"] = page.date == found.date
    if page.images:
        scores["image"] = bool(found.image) and any(_is_same_asset(found.image, image) for image in page.images)
    return scores


def count_segments(page: Page, text: str) -> Counter[str]:
    """Return the number of wanted segments found, of all wanted ones, and of unwanted ones found."""
    line = " ".join(text.split())
    kept = sum(" ".join(segment.split()) in line for segment in page.inside)
    let_in = sum(" ".join(segment.split()) in line for segment in page.outside)
    return Counter({"kept": kept, "inside": len(page.inside), "let in": let_in})


def shingle_f1(wanted: str, found: str) -> float:
    """Return the F1 of all runs of four words, or of four characters in scripts without spaces."""
    there, here = _shingles(wanted), _shingles(found)
    return f1((there & here).total(), here.total(), there.total())


def word_f1(wanted: str, found: str) -> float:
    """Return the F1 of all words, in any order."""
    there, here = (Counter(_WORDS.findall(text.lower())) for text in (wanted, found))
    return f1((there & here).total(), here.total(), there.total())


def f1(right: float, found: float, wanted: float) -> float:
    """Return the harmonic mean of precision and recall."""
    return 2 * right / (found + wanted) if right else 0.0


def names(*texts: str) -> set[str]:
    """Return the names in bylines, with any separator."""
    parts = (_BEFORE_NAMES.sub("", _line(part)) for text in texts for part in _BETWEEN_NAMES.split(text.lower()))
    return {part.strip(" .:-") for part in parts if part.strip(" .:-")}


def tokens(text: str) -> list[str]:
    """Return the words of a text, or its characters in scripts without spaces."""
    return _TOKEN.findall(text.lower())


def _shingles(text: str) -> Counter[tuple[str, ...]]:
    words = tokens(text)
    return Counter(tuple(words[start : start + _SHINGLE]) for start in range(max(len(words) - _SHINGLE + 1, 1)))


def _line(text: str) -> str:
    return " ".join(text.split()).casefold()


def _is_same_asset(one: str, other: str) -> bool:
    """Check whether two addresses are of one picture. Size, crop, type and server may differ."""
    return bool(_asset_names(one) & _asset_names(other))


def _asset_names(address: str) -> set[str]:
    """Return the common part of all sizes of a picture: its name without size and type, and its long numbers."""
    whole = unquote(unquote(address))
    last = re.sub(r"[?#].*|[/=]+$", "", whole[whole.rfind("http") :]).lower()
    parts = [part for part in last.split("/")[3:] if _WORDS_IN_PATH.search(_SIZE.sub("", part))]
    stem = _SIZE.sub("", re.sub(r"(?:\.(?:jpe?g|png|webp|gif|avif|html?))+$", "", (parts or [last])[-1])).strip("-_.=")
    return {stem, *_LONG_NUMBER.findall(" ".join(parts[-2:]))}
