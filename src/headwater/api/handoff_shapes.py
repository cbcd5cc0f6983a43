"""The shapes of hand-offs and jobs."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from headwater.api.source_shapes import SyncedSource

HandoffStatus = Literal["queued", "running", "completed", "failed"]
JobStatus = Literal["queued", "running", "ready", "failed"]
_COUNT = "None: migration 003_handoffs is not applied."


class Synced(SyncedSource):
    """What a run brought, and what became of the items that it touched: each is in one of the four counts."""

    scrape_run_id: int
    handoff_queued_count: int | None = Field(description=f"Yet to be handed off, by a running program. {_COUNT}")
    handoff_completed_count: int | None = Field(description=f"A job was made. {_COUNT}")
    handoff_failed_count: int | None = Field(description=f"It could not be handed off. {_COUNT}")
    handoff_skipped_count: int | None = Field(description=f"There was a job for that payload already. {_COUNT}")


class Handoff(BaseModel):
    """A payload of an item on its way to a job."""

    handoff_id: int
    reference_id: str = Field(description="The item's id.")
    payload_hash: str
    source: str
    title: str
    url: str
    scrape_run_id: int | None = Field(description="The last run that brought this payload.")
    status: HandoffStatus
    reason_code: str = Field(description="A code from the closed list of reasons.")
    error: str | None
    attempts: int
    job_id: int | None
    job_status: JobStatus | None
    job_reason: str | None
    created_at: datetime
    updated_at: datetime


class Handoffs(BaseModel):
    """A page of hand-offs, newest first."""

    handoffs: list[Handoff]
    total: int = Field(description="How many there are in all.")
    limit: int
    offset: int


class Job(BaseModel):
    """Work that waits for a page."""

    job_id: int
    reference_id: str = Field(description="The item's id.")
    payload_hash: str
    source: str
    title: str
    url: str = Field(description="Where its page is now.")
    scrape_run_id: int | None
    status: JobStatus
    reason: str | None = Field(description="Why it failed: a code from the closed list of reasons.")
    document_id: int | None = Field(description="What it is ready with.")
    created_at: datetime
    updated_at: datetime
    settled_at: datetime | None


class Jobs(BaseModel):
    """A page of jobs, newest first."""

    jobs: list[Job]
    total: int = Field(description="How many there are in all.")
    limit: int
    offset: int


class JobChoice(BaseModel, extra="forbid"):
    """Which failed jobs to retry; at least one is given."""

    source: str | None = None
    reason: str | None = None
    scrape_run_id: int | None = Field(default=None, ge=1, lt=2**63)


class RetriedJobs(BaseModel):
    """How many jobs wait for their pages again."""

    retried: int
