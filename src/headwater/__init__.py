"""Headwater turns public sources into a clean, dated, deduplicated, searchable corpus.

What is listed here is for everybody: pure, typed, without configuration.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from headwater.errors import HeadwaterError, InvalidURL, Unreadable
from headwater.model.article import Article
from headwater.model.feed import Feed, FeedEntry
from headwater.model.pdf import Artifact, BodyStatus, PdfDocument
from headwater.model.reasons import Reason
from headwater.model.sitemap import SitemapEntry, SitemapRef
from headwater.model.source import Item, Undated
from headwater.policy.urls import normalize_url

if TYPE_CHECKING:
    from headwater.formats.feeds import parse_feed
    from headwater.formats.robots import Robots
    from headwater.formats.sitemaps import parse_sitemap
    from headwater.normalize.html_v1 import extract_html
    from headwater.normalize.pdf_v1 import extract_pdf
    from headwater.sources.kind import Kind
    from headwater.sources.run import Run

__version__ = version("headwater")

# Readers bring their parsers with them and the kind API the whole house, so they are fetched only when asked for.
_LATE = {
    "Kind": "headwater.sources.kind",
    "Robots": "headwater.formats.robots",
    "Run": "headwater.sources.run",
    "extract_html": "headwater.normalize.html_v1",
    "parse_feed": "headwater.formats.feeds",
    "parse_sitemap": "headwater.formats.sitemaps",
    "extract_pdf": "headwater.normalize.pdf_v1",
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
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
