"""The shapes of what the API takes and answers about the frontier."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field, model_validator

LARGEST_BATCH = 10_000

Status = Literal["pending", "fetching", "fetched", "dead"]
HostState = Literal["closed", "in_use", "blocked", "waiting", "idle"]


class NewUrls(BaseModel, extra="forbid"):
    """URLs to put into the frontier."""

    urls: list[str] = Field(
        min_length=1, max_length=LARGEST_BATCH, description=f"Up to {LARGEST_BATCH:,} a request, in 8 MiB."
    )
    source: str | None = Field(default=None, description="The source they are counted for; by default `manual`.")


class NamedUrl(BaseModel):
    """A URL as it was given, and what it is called here."""

    given: str
    url: str


class RefusedUrl(BaseModel):
    """A URL that cannot be used; what is shown of it has no password and is cut where it is long."""

    given: str
    why: str


class SubmittedUrls(BaseModel):
    """What became of each URL, in their order. One that is given twice is new once and known afterwards."""

    new: list[NamedUrl]
    known: list[NamedUrl]
    refused: list[RefusedUrl]


class UrlLine(BaseModel):
    """A URL in a list: how it ended, or why it still waits and until when."""

    id: int
    url: str
    status: Status
    reason: str | None = Field(description="How it ended; None while it has not.")
    host: str
    source: str
    origin: str
    priority: int | None = Field(description="1 (last) to 10 (first); None when it is not queued.")
    discovered_at: datetime
    last_fetched_at: datetime | None
    due_at: datetime | None = Field(
        description="When it may be fetched at the earliest; None when it has ended, is being fetched, or waits until "
        "its host is released."
    )
    waiting_reason: str | None = Field(description="Why it waits, where it is not only for its turn.")
    kept_failing: str | None = Field(description="How it failed, where it was given up after the last retry.")


class UrlPage(BaseModel):
    """URLs, oldest first; `next` is the `after` of the page after, None on the last."""

    urls: list[UrlLine]
    next: int | None


class HostCounts(BaseModel):
    """How many hosts there are of some sorts; one may be of several."""

    with_work: int
    in_use: int
    blocked: int
    closed: int


class FrontierStats(BaseModel):
    """How many URLs and hosts there are, from counters that are kept up to date."""

    urls: dict[Status, int]
    reasons: dict[str, dict[str, int]] = Field(description="Of those fetched and those dead, by reason.")
    hosts: HostCounts


class HostLine(BaseModel):
    """A host, or a turn that several share (`group:`, `domain:`)."""

    host: str
    state: HostState
    why: str = Field(description="A sentence for a person.")
    next_turn_at: datetime | None = Field(description="None when it is in use, idle, or closed until it is released.")
    delay_ms: int = Field(description="The pause between two requests, where no source asks for another.")
    crawl_delay_ms: int | None = Field(description="What its robots.txt asks for, capped.")
    backoff_ms: int = Field(description="The least pause after it asked for fewer requests; 0: it did not.")
    queued: int | None = Field(description="Counted to 1,001 at most; None where another turn is waited for.")
    shares_turn_of: str | None
    keeps_slash: bool = Field(description="Whether /a/ and /a are two pages.")
    robots_fetched_at: datetime | None
    in_use_by: str | None


class HostPage(BaseModel):
    """Hosts by name; `next` is the `after` of the page after, None on the last."""

    hosts: list[HostLine]
    next: str | None


class RetryFilter(BaseModel, extra="forbid"):
    """What to fetch again; at least one of these."""

    status: Literal["fetched", "dead"] | None = None
    reason: str | None = None
    host: str | None = None
    source: str | None = None


class RetryRequest(BaseModel, extra="forbid"):
    """Either URLs, all of them known, or a filter."""

    urls: list[str] | None = Field(default=None, min_length=1, max_length=LARGEST_BATCH)
    filter: RetryFilter | None = None
    after: int = Field(default=0, ge=0, lt=2**63, description="With a filter: the `next` of the answer before.")
    priority: int = Field(default=5, ge=1, le=10)

    @model_validator(mode="after")
    def _one_of_two(self) -> "RetryRequest":
        if (self.urls is None) == (self.filter is None):
            raise ValueError("give either urls or filter")
        return self


class Retrying(BaseModel):
    """How many are queued now, and how many were being fetched and stay as they are."""

    queued: int
    fetching: int
    next: int | None = Field(
        description=f"With a filter, about {LARGEST_BATCH:,} a request are queued; this is the `after` of the next "
        "request, None when all are."
    )


class Closing(BaseModel, extra="forbid"):
    """For how long nothing is asked of a host."""

    for_seconds: int | None = Field(default=None, ge=1, le=10 * 365 * 86_400, description="None: until it is released.")
