"""Runs one extractor over a folder of pages, in an environment that has it: extract_with.py EXTRACTOR FOLDER.

The folder has a file for each page and `urls.json`, their addresses by name. Prints JSON: for each page, by name, the
seconds of CPU it took and what was found.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

Fields = dict[str, str]
Extract = Callable[[bytes, str], Fields]


def ours() -> Extract:

    from headwater import extract_html

    def extract(body: bytes, url: str) -> Fields:
        article = extract_html(body, url=url)
        date = article.published_at.date().isoformat() if article.published_at else ""
        return {
            "text": article.text,
            "title": article.title or "",
            "author": article.byline or "",
            "date": date,
            "image": article.image or "",
        }

    return extract


def trafilatura(*, fast: bool) -> Extract:
    from trafilatura import bare_extraction

    def extract(body: bytes, url: str) -> Fields:
        found = bare_extraction(body, url=url, fast=fast, include_comments=False, with_metadata=True)
        return {name: getattr(found, name, None) or "" for name in ("text", "title", "author", "date", "image")}

    return extract


def trafilatura_text() -> Extract:
    from trafilatura import extract as extract_text

    return lambda body, _: {"text": extract_text(body, fast=True, include_comments=False) or ""}


def resiliparse() -> Extract:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.encoding import detect_encoding
    from resiliparse.parse.html import HTMLTree

    def extract(body: bytes, _: str) -> Fields:
        tree = HTMLTree.parse_from_bytes(body, detect_encoding(body))
        return {"text": extract_plain_text(tree, main_content=True), "title": tree.title or ""}

    return extract


def rs_trafilatura() -> Extract:
    from rs_trafilatura import extract_bytes

    return lambda body, url: {"text": extract_bytes(body, url=url).main_content or ""}


def beautifulsoup() -> Extract:
    from bs4 import BeautifulSoup

    def extract(body: bytes, _: str) -> Fields:
        soup = BeautifulSoup(body, "lxml")
        for tag in soup(["script", "style", "noscript"]):
            tag.decompose()
        return {"text": soup.get_text(" "), "title": soup.title.get_text() if soup.title else ""}

    return extract


EXTRACTORS: dict[str, Callable[[], Extract]] = {
    "ours": ours,
    "trafilatura-fast": lambda: trafilatura(fast=True),
    "trafilatura-fast-text": trafilatura_text,
    "trafilatura": lambda: trafilatura(fast=False),
    "rs-trafilatura": rs_trafilatura,
    "resiliparse": resiliparse,
    "beautifulsoup": beautifulsoup,
}


def main(extractor: str, folder: str) -> dict[str, tuple[float, Fields]]:
    """Read one page to warm up, and then each page once."""
    extract = EXTRACTORS[extractor]()
    urls = json.loads((Path(folder) / "urls.json").read_text(encoding="utf-8"))
    bodies = {name: (Path(folder) / name).read_bytes() for name in urls}
    first = next(iter(bodies))
    timed(extract, bodies[first], urls[first])
    return {name: timed(extract, body, urls[name]) for name, body in bodies.items()}


def timed(extract: Extract, body: bytes, url: str) -> tuple[float, Fields]:
    """Return the CPU seconds and the result, which is empty after an error."""
    started = time.process_time()
    try:
        found = extract(body, url)
    except Exception:  # noqa: BLE001 (each extractor has errors of its own)
        found = {}
    return time.process_time() - started, found


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
