"""Where a page leads."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FeedLink:
    """A feed that a page names as its own."""

    url: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link to another page; `nofollow` where every mention of it says so, or the page as a whole."""

    url: str
    nofollow: bool = False
