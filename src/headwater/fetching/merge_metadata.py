"""An article made of what its page says and of what the list said that led to it."""

from dataclasses import replace
from typing import Any

from headwater.core.text import one_line
from headwater.extraction.article import Article
from headwater.extraction.html.metadata import is_picture, person
from headwater.feeds.results import FeedEntry

# A list names the page as its publisher does, and dates it by what the page shows only in part; what it says of the
# content is often the beginning of it, cut off, and its picture a small one.
_TRUST_IN_LISTS = {
    **dict.fromkeys(("title", "byline", "published_at", "updated_at"), 0.85),
    **dict.fromkeys(("abstract", "image"), 0.75),
}
_ABSTRACT_LENGTHS = range(41, 240)


def fuse(article: Article, entry: FeedEntry) -> Article:
    """Return the article with what the entry says wherever that is to be trusted more."""
    summary = one_line(entry.summary)
    said: dict[str, Any] = {
        "title": one_line(entry.title),
        "byline": None if "@" in (entry.author or "") else person(entry.author or ""),
        "published_at": entry.published_at,
        "updated_at": entry.updated_at,
        "abstract": summary if len(summary) in _ABSTRACT_LENGTHS else None,
        "image": entry.image if is_picture(entry.image or "") else None,
    }
    better = {
        name: value
        for name, value in said.items()
        if value and article.confidence.get(name, 0.0) < _TRUST_IN_LISTS[name]
    }
    return replace(
        article,
        **better,
        provenance={**article.provenance, **dict.fromkeys(better, "feed")},
        confidence={**article.confidence, **{name: _TRUST_IN_LISTS[name] for name in better}},
    )
