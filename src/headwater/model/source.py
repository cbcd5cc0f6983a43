"""Sources, and the items they yield."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple


class Pass(StrEnum):
    """A way to read a source. Each has its own rhythm, memory and lease."""

    MAIN = "main"  # its list: a feed, an API
    SITEMAP = "sitemap"
    SPIDER = "spider"


@dataclass(frozen=True, slots=True)
class Source:
    """A row: a name, the kind that reads it, and the settings that override the kind's defaults."""

    id: int
    name: str
    kind: str
    settings: Mapping[str, Any]
    enabled: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Asker:
    """For whom a request is made: what it calls itself, and the hosts that are declared APIs to it.

    Kept with the source, so that the pages of its items are asked for likewise.
    """

    source: str = ""
    user_agent: str = "honest"
    api_hosts: frozenset[str] = frozenset()  # asked at the source's rate, without robots.txt
    budget: str | None = None  # whose key goes to those hosts, and whose hourly budget each request is taken from

    def pays(self, host: str) -> bool:
        """Whether a request to a host carries the key and is taken from the budget."""
        return self.budget is not None and host in self.api_hosts


@dataclass(frozen=True, slots=True)
class Item:
    """What a source lists: an address with a title, dates and tags, and the raw record they were read from.

    `published_at` is None where the source gives no date; the time of the first sighting is used then, marked so.
    """

    url: str
    title: str
    published_at: datetime | None = None
    updated_at: datetime | None = None
    tags: Mapping[str, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)


class Lead(NamedTuple):  # made for every address of a sitemap
    """An address worth fetching, of which its source says nothing more.

    `changed_at` is when its page last changed, where that is known: it is fetched again if it was fetched before then.
    """

    url: str
    changed_at: datetime | None = None
    depth: int = 0  # how many links away it was found
