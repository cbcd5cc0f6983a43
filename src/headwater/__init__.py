"""Headwater turns public sources into a clean, dated, deduplicated, searchable corpus.

What is listed here is for everybody: pure, typed, without configuration.
"""

from importlib.metadata import version

from headwater.errors import HeadwaterError, InvalidURL, Unreadable
from headwater.formats.feeds import parse_feed
from headwater.formats.robots import Robots
from headwater.model.article import Article
from headwater.model.feed import Feed, FeedEntry
from headwater.model.reasons import Reason
from headwater.model.source import Item
from headwater.normalize.html_v1 import extract_html
from headwater.policy.urls import normalize_url

__version__ = version("headwater")

__all__ = [
    "Article",
    "Feed",
    "FeedEntry",
    "HeadwaterError",
    "InvalidURL",
    "Item",
    "Reason",
    "Robots",
    "Unreadable",
    "__version__",
    "extract_html",
    "normalize_url",
    "parse_feed",
]
