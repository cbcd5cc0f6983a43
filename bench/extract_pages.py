"""Real pages from the corpora, and the correct result for each."""

import gzip
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selectolax.lexbor import LexborHTMLParser

CORPORA = Path(os.environ.get("HEADWATER_CORPORA", Path(__file__).parents[2] / "shared" / "corpora"))


@dataclass(frozen=True, slots=True)
class Page:
    """A page and its correct result. An unknown field is empty. A text is known as a whole or by segments."""

    corpus: str
    name: str
    path: Path
    url: str
    text: str = ""
    inside: Sequence[str] = ()
    outside: Sequence[str] = ()
    title: str = ""
    authors: Sequence[str] = ()
    date: str = ""
    images: Sequence[str] = ()  # addresses of the cover, in all its sizes
    kind: str = ""  # of the page, if it is known

    def body(self) -> bytes:
        """Return the body of the page."""
        return gzip.decompress(self.path.read_bytes())


def read_pages(corpora: Path = CORPORA) -> list[Page]:
    """Return all pages in a fixed order, or none if the corpora are missing."""
    there = {corpora / corpus: read for corpus, read in CORPUS_READERS.items() if (corpora / corpus).is_dir()}
    return [page for folder, read in there.items() for page in read(folder)]


def _trafilatura(folder: Path) -> Iterator[Page]:
    for url, truth in sorted(_json(folder / "tests" / "evaldata.json").items()):
        author = truth.get("author") or []
        paths = (folder / "tests" / part / f"{truth['file']}.gz" for part in ("eval", "cache"))
        yield Page(
            "trafilatura",
            truth["file"],
            next(path for path in paths if path.exists()),
            url,
            inside=truth["with"],
            outside=truth["without"],
            title=truth.get("title") or "",
            authors=author if isinstance(author, list) else [author],
            date=truth.get("date") or "",
        )


def _fundus(folder: Path) -> Iterator[Page]:
    for country in sorted((folder / "tests" / "resources" / "parser" / "test_data").glob("*/meta.info")):
        pages: dict[str, Any] = _json(country)
        for publisher in sorted(country.parent.glob("*.json")):
            versions = _json(publisher)
            names = sorted(name for name in pages if name.split("_20")[0].split(".")[0] == publisher.stem)
            # a few lists name older pages without a correct result
            for name, version in zip(names[-len(versions) :], sorted(versions), strict=True):
                if (country.parent / name).exists():
                    yield _fundus_page(country.parent / name, pages[name]["url"], versions[version])


def _fundus_page(path: Path, url: str, truth: dict[str, Any]) -> Page:
    body = truth.get("body") or {"summary": [], "sections": []}
    lines = [*body["summary"]]
    for section in body["sections"]:
        lines += [*section["headline"], *section["paragraphs"]]
    covers = [image for image in truth.get("images", []) if image.get("is_cover")]
    return Page(
        "fundus",
        path.name,
        path,
        url,
        text="\n".join(lines),
        title=truth.get("title") or "",
        authors=truth.get("authors") or [],
        date=(truth.get("publishing_date") or "")[:10],
        images=[version["url"] for image in covers for version in image["versions"]],
    )


def _readability(folder: Path) -> Iterator[Page]:
    for path in sorted((folder / "test" / "test-pages").glob("*/source.html.gz")):
        truth = _json(path.with_name("expected-metadata.json"))
        expected = LexborHTMLParser(gzip.decompress(path.with_name("expected.html.gz").read_bytes()).decode())
        yield Page(
            "readability",
            path.parent.name,
            path,
            "http://fakehost/test/page.html",
            text=expected.body.text(separator=" ") if expected.body else "",
            title=truth.get("title") or "",
            authors=[truth["byline"]] if truth.get("byline") else [],
            date=(truth.get("publishedTime") or "")[:10],
        )


def _newspaper(folder: Path) -> Iterator[Page]:
    data = folder / "tests" / "data"
    for path in sorted((data / "html").glob("*.html.gz")):
        name = path.name.removesuffix(".html.gz")
        about, text = data / "metadata" / f"{name}.json", data / "txt" / f"{name}.txt"
        truth = _json(about) if about.exists() else {}
        yield Page(
            "newspaper",
            name,
            path,
            truth.get("url") or "http://fakehost/test/page.html",
            text=text.read_text(encoding="utf-8") if text.exists() else "",
            title=truth.get("title") or "",
            authors=truth.get("authors") or [],
            date=(truth.get("publish_date") or "")[:10],
            images=[truth["top_image"]] if truth.get("top_image") else [],
        )


def _wcxb(folder: Path) -> Iterator[Page]:
    for path in sorted((folder / "ground-truth").glob("*.json")):
        about = _json(path)
        truth = about["ground_truth"]
        if text := truth.get("main_content"):  # a few pages have no known text
            url = about.get("url") or truth.get("url") or "http://fakehost/test/page.html"
            kind = about["_internal"]["page_type"]["primary"]
            yield Page("wcxb", path.stem, folder / "html" / f"{path.stem}.html.gz", url, text=text, kind=kind)


def _json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


CORPUS_READERS: dict[str, Callable[[Path], Iterator[Page]]] = {
    "trafilatura-eval": _trafilatura,
    "fundus-test-html": _fundus,
    "readability-test-pages": _readability,
    "newspaper4k-test-data": _newspaper,
    "wcxb-dev": _wcxb,
}
