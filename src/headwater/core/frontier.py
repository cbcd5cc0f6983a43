"""URLs on their way: submitted, claimed, finished."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from headwater.core.lease import Lease
from headwater.core.reasons import Reason
from headwater.core.source import FetchProfile


class Origin(StrEnum):
    """How a URL came to us."""

    FEED = "feed"
    SITEMAP = "sitemap"
    SPIDER = "spider"
    MANUAL = "manual"
    CATEGORY = "category"


class UrlStatus(StrEnum):
    """Where a URL stands. A pending one that is leased is being fetched."""

    PENDING = "pending"
    FETCHED = "fetched"
    DEAD = "dead"


class Submission(NamedTuple):  # made for every URL that is seen: a frozen dataclass takes thrice as long
    """A normalized URL on its way into the frontier."""

    url: str
    url_hash: bytes
    host: str
    new_key: str  # the politeness key of its host, if the host is new
    source_id: int
    origin: Origin
    priority: int
    subpath: str | None
    depth: int = 0
    hops: int = 0
    parent_id: int | None = None


@dataclass(frozen=True, slots=True)
class HostRecord:
    """What is known of a host when it is claimed or held."""

    host: str
    politeness_key: str
    crawl_delay_ms: int | None = None
    backoff_ms: int = 0
    last_throttled_at: datetime | None = None
    robots_txt: str | None = None
    robots_fetched_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A URL that is ours to fetch until the lease ends; its host is held by the same token."""

    url_id: int
    url: str
    lease: Lease
    host: HostRecord
    source_id: int
    fetch_profile: FetchProfile
    delay_ms: int  # between two requests to the host: the source's setting, else the default
    origin: Origin
    priority: int
    subpath: str | None  # where its raw bytes go below its source's folder; None: by host and URL hash
    depth: int
    hops: int
    etag: str | None
    last_modified: str | None
    selectors: Mapping[str, str] = field(default_factory=dict)  # where its source says that the fields of its pages are


class HostRelease(NamedTuple):
    """The end of a host's lease: when the host may be asked again, its back-off, and why it is blocked."""

    politeness_key: str
    token: UUID  # of the lease; a lease with another token stays
    not_before: datetime
    backoff_ms: int = 0
    last_throttled_at: datetime | None = None
    blocked_reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """What the fetch log keeps of a request that was sent."""

    sent_at: datetime
    http_status: int
    body_bytes: int
    elapsed_ms: int


@dataclass(frozen=True, slots=True)
class FetchOutcome:
    """How a claim ends: with a final status, or pending again from `due_at` on, the attempt counted or not."""

    reason: Reason
    status: UrlStatus
    detail: str | None = None
    due_at: datetime | None = None
    counts: bool = True
    etag: str | None = None
    last_modified: str | None = None
