"""A list of subscriptions, as feed readers exchange it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpmlFeed:
    """A feed in such a list, its address as written; `category` is the path of its folders, "a/b", or empty."""

    url: str
    title: str = ""
    site_url: str | None = None
    category: str = ""
