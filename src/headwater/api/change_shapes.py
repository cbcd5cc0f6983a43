"""The shapes of what the API takes and answers about changes and webhooks."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from headwater.api.shapes import ErrorBody

Event = Literal["document.ready", "job.failed"]
DeliveryStatus = Literal["pending", "delivered", "parked", "dismissed"]


class ChangedDocument(BaseModel):
    """A document at the revision that a change made."""

    id: int = Field(description="`/documents/ID` has its text, as it is now.")
    revision: int
    title: str
    content_hash: str = Field(description="SHA-256 of the text.")
    language: str | None
    published_at: datetime | None


class FailedJob(ErrorBody):
    """A job, and why it failed."""

    id: int
    reference_id: str = Field(description="The item that it was for.")


class Change(BaseModel):
    """A document that is new, whose text has changed or whose other fields were corrected, or a job that failed."""

    event: Event
    what: Literal["new", "changed", "corrected", "failed"]
    cursor: str = Field(description="Names this change: `since` it begins the next one.")
    at: datetime
    url: str
    source: str | None
    document: ChangedDocument | None
    job: FailedJob | None


class Changes(BaseModel):
    """Changes in their order; `next` is the `since` of the page after, also while there is none yet."""

    changes: list[Change]
    next: str


class NewWebhook(BaseModel, extra="forbid"):
    """A webhook to add."""

    name: str
    url: str
    events: list[str] | None = Field(default=None, description="By default all: `document.ready`, `job.failed`.")
    since: str | None = Field(
        default=None, description="A cursor, day or time from which on it has changes; by default from now on."
    )


class Webhook(BaseModel):
    """A webhook, and how it is doing."""

    name: str
    url: str
    events: list[Event]
    enabled: bool
    waiting: int = Field(description="Changes it has not had yet, counted up to some thousands.")
    waiting_since: datetime | None = Field(description="When the oldest of them was.")
    parked: int = Field(description="Deliveries it will not have.")
    failures: int = Field(description="In a row.")
    failing_reason: str | None
    error: str | None
    not_before: datetime | None = Field(description="It is left alone until then.")
    delivered_at: datetime | None = Field(description="When it took something last.")
    created_at: datetime


class AddedWebhook(Webhook):
    """A webhook, with the secret that its deliveries are signed with: it is never shown again."""

    secret: str


class Webhooks(BaseModel):
    """All webhooks, by name."""

    webhooks: list[Webhook]


class Attempt(BaseModel):
    """An attempt to deliver."""

    attempt: int
    ended_at: datetime
    elapsed_ms: int | None
    http_status: int | None
    reason: str
    detail: str | None


class Delivery(BaseModel):
    """A delivery; its id is that of the header `Webhook-Id`."""

    id: str
    cursor: str = Field(description="Of the change that it tells of.")
    event: Event
    url: str
    status: DeliveryStatus
    reason: str | None
    attempts: int
    due_at: datetime
    ended_at: datetime | None
    log: list[Attempt]


class Deliveries(BaseModel):
    """Deliveries, the last first; `next` is the `before` of the page after, None on the last."""

    deliveries: list[Delivery]
    next: str | None


class Parked(BaseModel, extra="forbid"):
    """Parked deliveries to do something about."""

    ids: list[str] | None = Field(default=None, min_length=1, max_length=1000, description="By default all.")


class Retried(BaseModel):
    """What became of parked deliveries, and how many are still parked."""

    queued: int
    superseded: int = Field(description="A later change of the same document was delivered: they are let be.")
    parked: int


class Dismissed(BaseModel):
    """How many parked deliveries are let be, and how many are still parked."""

    dismissed: int
    parked: int


class Tested(BaseModel):
    """What a webhook answered."""

    delivered: bool
    reason: str
    http_status: int | None
    elapsed_ms: int
    detail: str | None


class RemovedWebhook(BaseModel):
    """A webhook that is no more."""

    name: str
