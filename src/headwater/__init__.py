"""Headwater turns public sources into a clean, dated, deduplicated, searchable corpus.

This module lists the public Python API. It is typed, does no I/O and needs no configuration.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headwater.core.errors import HeadwaterError, InvalidURL, Unreadable
from headwater.core.reasons import Reason
from headwater.core.source import Item, Lookup, Undated
from headwater.core.urls import normalize_url
from headwater.extraction.article import Article, Artifact, BodyStatus, PdfDocument
from headwater.feeds.results import Feed, FeedEntry, SitemapEntry, SitemapRef

if TYPE_CHECKING:
    from headwater.extraction.html.html_v1 import extract_html
    from headwater.extraction.pdf.pdf_v1 import extract_pdf
    from headwater.feeds.parser import parse_feed
    from headwater.feeds.sitemaps import parse_sitemap
    from headwater.politeness.robots import Robots
    from headwater.sources.kind import Kind
    from headwater.sources.run import Run

__version__: str  # read on first use: the import for it takes a tenth of the time of a short command

# Readers import their parsers, and the kind API imports most packages, so these load on first use.
_LATE = {
    "Kind": "headwater.sources.kind",
    "Robots": "headwater.politeness.robots",
    "Run": "headwater.sources.run",
    "extract_html": "headwater.extraction.html.html_v1",
    "parse_feed": "headwater.feeds.parser",
    "parse_sitemap": "headwater.feeds.sitemaps",
    "extract_pdf": "headwater.extraction.pdf.pdf_v1",
}

__all__ = [
    "Article",
    "Artifact",
    "BodyStatus",
    "Feed",
    "FeedEntry",
    "HeadwaterError",
    "InvalidURL",
    "Item",
    "Kind",
    "Lookup",
    "PdfDocument",
    "Reason",
    "Robots",
    "Run",
    "SitemapEntry",
    "SitemapRef",
    "Undated",
    "Unreadable",
    "__version__",
    "extract_html",
    "extract_pdf",
    "normalize_url",
    "parse_feed",
    "parse_sitemap",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("headwater")
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
