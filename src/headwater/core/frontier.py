"""The types of the frontier: submissions, claims, outcomes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from headwater.core.lease import Lease
from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.core.source import FetchProfile


class Origin(StrEnum):
    """How we found a URL."""

    FEED = "feed"
    SITEMAP = "sitemap"
    SPIDER = "spider"
    MANUAL = "manual"
    CATEGORY = "category"


class UrlStatus(StrEnum):
    """The status of a URL. A worker fetches a pending URL while it is leased."""

    PENDING = "pending"
    FETCHED = "fetched"
    DEAD = "dead"


class FrontierStatus(StrEnum):
    """The status of a URL in lists. A worker fetches a URL with the status `fetching` now."""

    PENDING = "pending"
    FETCHING = "fetching"
    FETCHED = "fetched"
    DEAD = "dead"


@record
class UrlFilter:
    """The URLs that match all given values."""

    status: str | None = None
    """One of `pending`, `fetching`, `fetched`, `dead`."""
    reason: str | None = None
    host: str | None = None
    source: str | None = None


class HostState(StrEnum):
    """The state of a host in lists."""

    CLOSED = "closed"
    IN_USE = "in_use"
    BLOCKED = "blocked"
    WAITING = "waiting"
    IDLE = "idle"


class Candidate(NamedTuple):
    """A URL as it was found, before it is normalized."""

    url: str
    source_id: int
    origin: Origin
    priority: int
    depth: int = 0
    hops: int = 0
    parent_id: int | None = None
    subpath: str | None = None
    found_on: str | None = None  # the page that links to it


class Submission(NamedTuple):  # one for every discovered URL: a frozen dataclass takes three times as long
    """A normalized URL on its way into the frontier."""

    url: str
    url_hash: bytes
    host: str
    new_key: str  # the politeness key of its host if the host is new
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class HostRecord:
    """The facts about a host that its lease comes with."""

    host: str
    politeness_key: str
    crawl_delay_ms: int | None = None
    backoff_ms: int = 0
    last_throttled_at: datetime | None = None
    robots_txt: str | None = None
    robots_fetched_at: datetime | None = None
    silent_since: datetime | None = None  # the first request without an answer since the last answer
    failures: int = 0  # of its robots.txt, in a row
    failure: Reason | None = None  # of the last request; None: it was answered
    failed_at: datetime | None = None
    retry_at: datetime | None = None  # its robots.txt is not requested earlier


@dataclass(frozen=True, slots=True)
class Claim:
    """A URL that is ours to fetch until the lease ends. The lease of its host has the same token."""

    url_id: int
    url: str
    lease: Lease
    host: HostRecord
    source_id: int
    fetch_profile: FetchProfile
    delay_ms: int  # between two requests to the host: the source's setting, else the default
    origin: Origin
    priority: int
    subpath: str | None  # the place of its raw file in the source's folder; None: by host and URL hash
    depth: int
    hops: int
    etag: str | None
    last_modified: str | None
    selectors: Mapping[str, str] = field(default_factory=dict)  # CSS selectors of its source, by field


class HostRelease(NamedTuple):
    """The end of a host's lease: when the host may be asked again, its back-off, and why it is blocked."""

    politeness_key: str
    token: UUID  # of the lease; a lease with another token stays
    not_before: datetime
    backoff_ms: int = 0
    last_throttled_at: datetime | None = None
    blocked_reason: Reason | None = None


class RequestRecord(NamedTuple):
    """The fetch log's facts about a request."""

    sent_at: datetime
    http_status: int
    body_bytes: int
    elapsed_ms: int


@dataclass(frozen=True, slots=True)
class FetchOutcome:
    """The outcome of a claim: a final status, or pending again from `due_at` on."""

    reason: Reason
    status: UrlStatus
    detail: str | None = None
    due_at: datetime | None = None
    is_counted: bool = True  # whether the attempt consumes a retry
    etag: str | None = None
    last_modified: str | None = None
