"""Sources, and the items they yield."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple


class Method(StrEnum):
    """A way to read a source. Each has its own rhythm, memory and lease."""

    FEED = "main"  # its list: a feed, an API
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
class FetchProfile:
    """For whom a request is made: what it calls itself, and the hosts that are declared APIs to it.

    Kept with the source, so that the pages of its items are asked for likewise.
    """

    source: str = ""
    user_agent: str = "honest"
    api_hosts: frozenset[str] = frozenset()  # or parts of hosts: asked at the source's rate, without robots.txt
    budget: str | None = None  # whose key goes to those hosts, and whose hourly budget each request is taken from
    needs_browser: bool = False  # whether all else is asked for by a browser
    stealth: str = "full"  # the browser's profile

    def asks_api(self, host: str, url: str) -> bool:
        """Whether a request to a host, for a URL in its one spelling, is one to a declared API."""
        if host in self.api_hosts:
            return True
        address = url.partition("://")[2]
        return any("/" in part and address.startswith(part) for part in self.api_hosts)

    def browses(self, host: str, url: str) -> bool:
        """Whether a request is made by a browser; programs ask APIs."""
        return self.needs_browser and not self.asks_api(host, url)

    def pays(self, host: str, url: str) -> bool:
        """Whether a request carries the key and is taken from the budget."""
        return self.budget is not None and self.asks_api(host, url)


class Undated(StrEnum):
    """What to make of an item without a date of publication."""

    SIGHTING = "sighting"  # it is as old as our first sight of it
    EARLIER = "earlier"  # it is older than the day of its update; nobody says how old
    UNKNOWN = "unknown"  # it belongs to no day before more is known of it


@dataclass(frozen=True, slots=True)
class Item:
    """What a source lists: an address with a title, dates and tags, and the raw record they were read from.

    `published_at` is None where the source gives no date; `undated` tells what that means. `rule` names what decided
    the dates, where a source has several ways to know them; those that it was told go before those it has inferred.
    """

    url: str
    title: str
    published_at: datetime | None = None
    updated_at: datetime | None = None
    tags: Mapping[str, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)
    undated: Undated = Undated.SIGHTING
    rule: str | None = None
    is_certain: bool = True  # False: its dates were inferred


class DiscoveredUrl(NamedTuple):  # made for every address of a sitemap
    """An address worth fetching, of which its source says nothing more.

    `changed_at` is when its page last changed, where that is known: it is fetched again if it was fetched before then.
    """

    url: str
    changed_at: datetime | None = None
    depth: int = 0  # how many links away it was found
