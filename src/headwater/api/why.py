"""`GET /why`: all that is known of a URL, as facts and in plain words."""

from datetime import datetime
from typing import Annotated

from fastapi import FastAPI, Query
from pydantic import BaseModel, Field

from headwater.app.operations import Operations
from headwater.explain.messages import to_json


class Line(BaseModel):
    """A sentence or two, and what they are about."""

    label: str
    text: str


class Sighting(BaseModel):
    """A source that has seen the URL: under this address and title where it lists it as an item."""

    source: str
    url: str
    title: str | None
    first_seen_at: datetime
    last_seen_at: datetime


class Priority(BaseModel):
    """How important a URL is, 1 to 10, and the sum of that."""

    now: int | None = Field(description="None: it is not queued.")
    source: int | None
    origin: int
    depth: int
    sum: int | None


class Robots(BaseModel):
    """What the host's robots.txt says about the address, and the line that says so."""

    read_at: datetime | None
    exists: bool
    fresh: bool
    allowed: bool | None = Field(description="None: not known.")
    line: int | None
    rule: str | None
    agent: str | None
    crawl_delay_seconds: float | None
    trouble: str | None


class Host(BaseModel):
    """How the host is treated, and what keeps it from being asked."""

    name: str
    shares_turn: str | None = Field(description="The politeness key it has in common with others.")
    pause_ms: int
    pause_from: str
    backoff_ms: int
    backoff_since: datetime | None
    free_at: datetime | None = Field(description="None: now.")
    in_use_by: str | None
    blocked: str | None = Field(description="A code from the closed list of reasons.")
    closed: bool
    closed_until: datetime | None = Field(description="None, where it is closed: until it is released.")


class Queued(BaseModel):
    """Where a URL that waits or is being fetched stands."""

    priority: int
    due_at: datetime
    attempts: int
    lease_holder: str | None
    lease_until: datetime | None
    ahead: int = Field(description="How many go first of its host, counted to 1,001 at most.")


class Fetch(BaseModel):
    """An attempt to fetch it."""

    attempt: int
    holder: str
    sent_at: datetime | None
    finished_at: datetime
    http_status: int | None
    body_bytes: int | None
    elapsed_ms: int | None
    reason: str
    detail: str | None


class KeptDocument(BaseModel):
    """What is stored of the page."""

    id: int
    title: str
    revision: int
    fetched_at: datetime
    canonical_url: str | None = Field(description="The address that the page names as the one it should be known by.")
    shared_with: int = Field(description="How many others have the same text, counted to 1,001 at most.")


class HandedOff(BaseModel):
    """A payload of an item that lists it, on its way to a job."""

    handoff_id: int
    source: str
    scrape_run_id: int | None
    status: str
    reason: str
    attempts: int
    job_id: int | None
    updated_at: datetime


class WaitingJob(BaseModel):
    """Work that waits for the page, or did."""

    job_id: int
    source: str
    status: str
    reason: str | None
    created_at: datetime
    settled_at: datetime | None


class Why(BaseModel):
    """All that is known of a URL at a moment."""

    asked: str
    asked_at: datetime
    url: str = Field(description="The one spelling of it.")
    status: str = Field(description="pending, fetching, fetched or dead.")
    reason: str | None
    last_fetched_at: datetime | None
    fetch_count: int
    discovered_at: datetime
    source: str
    origin: str
    came_from: str | None
    by_redirect: bool
    same_as: str | None = Field(description="The address of the same page that is fetched instead.")
    moved_to: str | None
    other_addresses: list[str]
    sightings: list[Sighting]
    sightings_total: int
    priority: Priority
    robots: Robots
    host: Host
    queued: Queued | None
    max_attempts: int
    fetches: list[Fetch] = Field(description="The latest, oldest of them first.")
    fetches_total: int
    document: KeptDocument | None
    handoffs: list[HandedOff] = Field(description="The latest first; none where migration 003_handoffs is not applied.")
    jobs: list[WaitingJob] = Field(description="The latest first.")
    next_at: datetime | None = Field(description="When it may be asked for at the earliest; None: now, or not at all.")
    lines: list[Line] = Field(description="All of it in plain words; what happens next comes last.")


def add_why(app: FastAPI, operations: Operations) -> None:
    """Add the route."""

    @app.get("/why", tags=["reading"])
    async def why(url: Annotated[str, Query(description="The address of a page.")]) -> Why:
        """Tell all that is known of a URL: who saw it, what became of it and why, and what happens next."""
        return Why(**to_json(await operations.why(url)))
