"""The shapes of what the API takes and answers about sources."""

from datetime import date, datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from headwater.core.poll import PollResult
from headwater.discovery.source_operations import Mode

HealthWord = Literal["failing", "late", "silent", "new", "on_time", "disabled"]
MethodName = Literal["main", "sitemap", "spider"]


class MethodProblem(BaseModel):
    """An address that a reading had to go on without."""

    url: str
    problem: str = Field(description="Why, for a person.")


class SourceMethod(BaseModel):
    """A way in which a source is read, and how that stands."""

    method: MethodName = Field(description="main is its list: a feed, an API.")
    health: HealthWord
    why: str
    polling: bool = Field(description="It is being read just now.")
    next_poll_at: datetime | None
    next_poll_why: str | None
    last_polled_at: datetime | None
    last_success_at: datetime | None
    last_new_at: datetime | None = Field(description="When it last brought something new.")
    last_reason: str | None
    last_error: str | None
    last_item_count: int
    consecutive_errors: int
    backfill_since: datetime | None = Field(description="The next reading takes what is older too, back to then.")
    problems: list[MethodProblem] = Field(description="What the last good reading went on without.")


class SourceLine(BaseModel):
    """A source with how it is doing: its worst pass tells, and `last_…` are those of its first pass."""

    name: str
    kind: str
    category: str
    settings: dict[str, Any] = Field(description="What overrides the kind's defaults.")
    enabled: bool
    created_at: datetime
    health: HealthWord
    why: str = Field(description="Why it is so, for a person.")
    next_poll_at: datetime | None = Field(description="When the first of its passes is due; none while it is disabled.")
    last_polled_at: datetime | None
    last_success_at: datetime | None
    last_reason: str | None
    last_error: str | None
    consecutive_errors: int
    polling: bool
    usual_gap_seconds: float | None = Field(description="Between one of its items and the next.")
    items: int
    documents: int
    methods: list[SourceMethod]


class Sources(BaseModel):
    """Sources, the worst first."""

    sources: list[SourceLine]


class SourceItem(BaseModel):
    """One of a source's newest items."""

    title: str
    url: str
    published_at: datetime
    published_is_sighting: bool = Field(description="The source gave no date; this is when it was first seen.")


class WholeSource(SourceLine):
    """All that is known of a source."""

    defaults: dict[str, Any] = Field(description="What holds where its settings say nothing.")
    urls: dict[str, int] = Field(description="How many URLs it has brought, by status.")
    last_items: list[SourceItem]


class NewSource(BaseModel, extra="forbid"):
    """A source to add: a site by its address, any other kind by its name and settings."""

    kind: str = Field(default="site", description="One of the installed kinds.")
    url: str | None = Field(
        default=None, description="The address of a feed, or of a page of a site that has one; read at once."
    )
    name: str | None = Field(default=None, description="Where a url is given, by default made from its host.")
    mode: Mode = "feed"
    settings: dict[str, Any] = Field(default_factory=dict, description="What overrides the kind's defaults.")


class FoundFeed(BaseModel):
    """A feed that was found."""

    url: str
    title: str


class SyncedSource(BaseModel):
    """What a reading of a source brought."""

    name: str
    method: MethodName
    title: str
    items: int
    new_items: int
    leads: int = Field(description="Pages that sitemaps or other pages have named.")
    new_urls: int
    left: int = Field(description="What is left for a reading that follows at once.")
    refused: dict[str, str] = Field(description="Addresses that cannot be used, each with why.")


def told(polled: PollResult) -> dict[str, Any]:
    """Tell of a reading in that shape."""
    return {
        "name": polled.source.name,
        "method": polled.method,
        "title": polled.title,
        "items": polled.items,
        "new_items": polled.new_items,
        "leads": polled.leads,
        "new_urls": polled.new_urls,
        "left": polled.left,
        "refused": polled.refused,
    }


class AddedSource(SyncedSource):
    """A source that was added, what its first reading brought, and which other feeds were found."""

    others: list[FoundFeed]


class SourceChanges(BaseModel, extra="forbid"):
    """What to change of a source."""

    settings: dict[str, Any] = Field(default_factory=dict, description="Fields with their new values.")
    unset: list[str] = Field(default_factory=list, description="Fields that go back to their defaults.")


class RemovedSource(BaseModel):
    """What became of a source that was removed."""

    name: str
    kept: bool = Field(description="What it has brought is kept; else it had brought nothing.")
    ended_urls: int = Field(description="URLs that waited to be fetched and are not.")


class SyncRequest(BaseModel, extra="forbid"):
    """Which way to read a source; by default its first."""

    method: MethodName | None = None


class BackfillRequest(BaseModel, extra="forbid"):
    """How far to go back."""

    since: date


class SourceFile(BaseModel, extra="forbid"):
    """A list of sources, as a file has it."""

    text: str = Field(description="OPML or YAML.")
    dry_run: bool = False


class RefusedSource(BaseModel):
    """What could not be used of a file, and why."""

    where: str
    given: str
    why: str


class ImportedSources(BaseModel):
    """What became of a file's sources."""

    added: list[str]
    known: list[str]
    refused: list[RefusedSource]
    dry_run: bool


class Place(BaseModel, extra="forbid"):
    """Where to look."""

    url: str


class Target(BaseModel, extra="forbid"):
    """What to try: an address, or a source."""

    target: str = Field(description="A URL or a source's name.")


class Surroundings(BaseModel):
    """What there is to read at an address."""

    url: str
    feeds: list[FoundFeed]
    sitemaps: list[str]


class TrialStage(BaseModel):
    """One step of a trial."""

    name: str
    found: list[str]
    error: str | None
    seconds: float


class TrialAnswer(BaseModel):
    """How a trial went, stage by stage; the last may have failed."""

    works: bool
    stages: list[TrialStage]
