"""Sources, the settings of their requests, and the items they yield."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import msgspec

SOURCE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")  # also the name of a folder; the database checks it too
MAX_CATEGORY_LENGTH = 200


class Method(StrEnum):
    """A way to read a source. Each method has its own interval, state and lease."""

    FEED = "main"  # the source's list of new items: a feed or an API
    SITEMAP = "sitemap"
    SPIDER = "spider"


Intervals = Mapping[Method, timedelta | None]  # None: only at its schedule, or on request
DueTimes = Mapping[Method, datetime | None]


@dataclass(frozen=True, slots=True)
class Source:
    """A source: its name, the kind that reads it, and the settings that override the kind's defaults."""

    id: int
    name: str
    kind: str
    settings: Mapping[str, Any]
    enabled: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class FetchProfile:
    """How requests for a source are made. Pages of items are fetched with the profile of their source."""

    source: str = ""
    user_agent: str = "honest"
    # Declared APIs: hosts, or parts of hosts. Requests to them keep the source's rate and ignore robots.txt.
    api_hosts: frozenset[str] = frozenset()
    budget: str | None = None  # requests to `api_hosts` carry this key and count against its hourly budget
    needs_browser: bool = False  # a browser makes all other requests
    stealth: str = "full"  # the browser's profile


class Timeout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long one request may take, in seconds. `total` limits the whole request."""

    connect: float = 10.0
    read: float = 60.0
    total: float = 120.0


class Retry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How often a request is repeated after a temporary failure. The first wait is `base_seconds`; it then doubles."""

    attempts: int = 3
    base_seconds: float = 1.0
    on_rate_limit: bool = False  # repeat after a 429 too, when its Retry-After has passed
    longest_seconds: float = 60.0  # a server that asks for a longer wait gets it, and the run ends


class Selectors(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """CSS selectors for the fields of a source's pages. A selector that matches wins over all other evidence."""

    body: str | None = None
    title: str | None = None
    byline: str | None = None
    published: str | None = None
    image: str | None = None

    def given(self) -> dict[str, str]:
        """Return the selectors that are set, by field."""
        return {field: selector for field, selector in msgspec.structs.asdict(self).items() if selector is not None}


class RequestSettings(Protocol):
    """The attributes of a kind that its requests obey."""

    @property
    def timeout(self) -> Timeout: ...  # noqa: D102
    @property
    def rate_per_second(self) -> float: ...  # noqa: D102
    @property
    def concurrency(self) -> int: ...  # noqa: D102
    @property
    def retry(self) -> Retry: ...  # noqa: D102


class Undated(StrEnum):
    """The meaning of a missing date of publication."""

    SIGHTING = "sighting"  # the item is as old as our first sight of it
    EARLIER = "earlier"  # the item is older than the day of its update; its real date is unknown
    UNKNOWN = "unknown"  # the item belongs to no day until more is known
    PAGE = "page"  # the stored page gives the title and the dates of the item


@dataclass(frozen=True, slots=True)
class Lookup:
    """The results of further requests about an item. They complete the item, and are no part of its payload."""

    published_at: datetime | None = None
    rule: str | None = None  # the rule that found the date
    tags: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Item:
    """An entry that a source lists: an address, a title, dates, tags, and the raw record they come from.

    `published_at` is None if the source gives no date; `undated` says what that means. `rule` names the rule that found
    the dates, if the source has several. A date that the source states wins over one that we infer.
    """

    url: str
    title: str
    published_at: datetime | None = None
    updated_at: datetime | None = None
    tags: Mapping[str, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)
    undated: Undated = Undated.SIGHTING
    rule: str | None = None
    is_certain: bool = True  # False: we inferred the dates
    lookup: Lookup = Lookup()


class DiscoveredUrl(NamedTuple):  # a sitemap yields one for every address
    """A URL to fetch. Its source says nothing else about it.

    `changed_at` is the time of the page's last change, if the source states it. A page that was fetched before that
    time is fetched again.
    """

    url: str
    changed_at: datetime | None = None
    depth: int = 0  # number of links between the start page and this URL
    found_on: str | None = None  # the page that links to it
