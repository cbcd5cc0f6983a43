"""The labelled pairs of stories_labels.json: real pages and entries of feeds, and editions derived from them.

The file has references and labels only. `page:CORPUS/NAME` is a page, read by Headwater. `truth:CORPUS/NAME` is the
text that the corpus gives for the same page: another program has made it. `entry:FILE/ID` is the title and the lead of
an entry of a real feed. `edited:N:REFERENCE` is an edition of it that another newspaper could have made.
"""

import gzip
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from bench.extract_pages import CORPORA, Page, read_pages
from headwater import HeadwaterError, extract_html, parse_feed

LABELS = Path(__file__).with_name("stories_labels.json")
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？\n]*\s*")  # noqa: RUF001 - the marks of Chinese and Japanese
_NUMBER = re.compile(r"\d+")
_AGENCY = (
    "This article first appeared in another newspaper. We publish it with its permission.\n",
    "Sign up for our newsletter. Follow us for more news of this sort.\n",
)


@dataclass(frozen=True, slots=True)
class LabelledDocument:
    """A document of a pair."""

    url: str
    title: str
    text: str
    published_at: datetime | None


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two documents, and whether they belong to one story."""

    sort: str
    first: str
    second: str
    is_same: bool


def read_pairs() -> list[LabelledPair]:
    """Return the labelled pairs."""
    labels = json.loads(LABELS.read_text(encoding="utf-8"))
    same = set(labels["same"])
    return [
        LabelledPair(sort, first, second, sort in same)
        for sort, pairs in labels["pairs"].items()
        for first, second in pairs
    ]


def read_document(reference: str) -> LabelledDocument:
    """Return the document of a reference. Raises an error if the corpus has no such document."""
    kind, _, rest = reference.partition(":")
    if kind == "edited":
        number, _, source = rest.partition(":")
        return _EDITORS[int(number)](read_document(source))
    if kind == "entry":
        file, _, name = rest.partition("/")
        return _read_entries(file)[name]
    page = _list_pages()[rest]
    article = extract_html(page.body(), url=page.url)
    found = LabelledDocument(_make_url(page), article.title or "", article.text, article.published_at)
    return found if kind == "page" else _move(replace(found, text=page.text or article.text), "truth")


def has_corpora() -> bool:
    """Return whether the corpora are on this machine."""
    return (CORPORA / "real-feeds-kagi").is_dir()


@lru_cache
def _list_pages() -> dict[str, Page]:
    return {f"{page.corpus}/{page.name}": page for page in read_pages()}


def _make_url(page: Page) -> str:
    parts = urlsplit(page.url)
    is_usable = parts.scheme in ("http", "https") and parts.hostname not in (None, "fakehost")
    return page.url if is_usable else f"http://{hashlib.sha256(page.name.encode()).hexdigest()[:8]}.test/"


@lru_cache
def _read_entries(file: str) -> dict[str, LabelledDocument]:
    body = gzip.decompress((CORPORA / "real-feeds-kagi" / "benchmark_data" / f"{file}.gz").read_bytes())
    return {
        name_entry(entry.url): LabelledDocument(entry.url, entry.title, entry.summary, entry.published_at)
        for entry in parse_feed(body, f"http://{file}.test/").entries
        if entry.url
    }


def name_entry(url: str) -> str:
    """Return the name of an entry in references."""
    return hashlib.sha256(url.encode()).hexdigest()[:12]


def _move(document: LabelledDocument, site: str) -> LabelledDocument:
    """Return a document of another site, an hour later."""
    later = document.published_at + timedelta(hours=1) if document.published_at else None
    return replace(document, url=f"http://{site}.{urlsplit(document.url).hostname}/", published_at=later)


def _split(text: str) -> list[str]:
    return [one for one in _SENTENCE.findall(text) if one.strip()]


def _republish(document: LabelledDocument) -> LabelledDocument:
    """The whole text, between two notes of another newspaper."""
    return _move(replace(document, text=_AGENCY[0] + document.text + "\n" + _AGENCY[1]), "again")


def _shorten(document: LabelledDocument) -> LabelledDocument:
    """The first 60 % of the sentences, with a longer title."""
    sentences = _split(document.text)
    kept = sentences[: max(1, len(sentences) * 6 // 10)]
    return _move(replace(document, title=f"In brief: {document.title}", text="".join(kept)), "short")


def _thin_out(document: LabelledDocument) -> LabelledDocument:
    """Without every fifth sentence, and with a note at the beginning."""
    sentences = _split(document.text)
    kept = [one for number, one in enumerate(sentences) if number % 5 != 3]
    return _move(replace(document, text=_AGENCY[0] + "".join(kept)), "thin")


def _update(document: LabelledDocument) -> LabelledDocument:
    """A later edition: every second number is another, and the second sentence and the last are gone."""
    sentences = _split(document.text)
    count = iter(range(10**9))

    def change(found: re.Match[str]) -> str:
        return str(int(found[0][:9]) + 3) if next(count) % 2 else found[0]

    kept = sentences[:1] + sentences[2:-1] if len(sentences) > 3 else sentences
    return _move(replace(document, text=_NUMBER.sub(change, "".join(kept))), "update")


_EDITORS: Sequence[Callable[[LabelledDocument], LabelledDocument]] = (_republish, _shorten, _thin_out, _update)


def read_documents(references: Sequence[str]) -> dict[str, LabelledDocument]:
    """Return the documents of references. A page that cannot be read is left out."""
    found = {}
    for reference in references:
        try:
            found[reference] = read_document(reference)
        except (HeadwaterError, KeyError, OSError):
            continue
    return found
