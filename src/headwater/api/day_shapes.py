"""The shapes of days and runs."""

import datetime as dt
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from headwater.documents.days import DayState

Bucket = Literal["NEW", "LATEST"]


def _iso_day(value: Any) -> Any:
    """Refuse what a library would read as a number of seconds."""
    if not isinstance(value, dt.date) and not re.fullmatch(r"\d{4}-\d\d-\d\d", str(value)):
        raise ValueError("must be a day such as 2026-03-29")
    return value


IsoDay = Annotated[dt.date, BeforeValidator(_iso_day)]
RunStatus = Literal["running", "succeeded", "failed"]


class DayItem(BaseModel):
    """An item of a day's index, with the dates that put it there."""

    source: str
    bucket: Bucket
    rule: str | None = Field(description="What decided the dates, where the source has several ways to know them.")
    title: str
    url: str
    published_at: dt.datetime | None = Field(description="None: before the day of its update; nobody says when.")
    published_is_sighting: bool = Field(description="The source gave no date; this is when it was first seen.")
    updated_at: dt.datetime | None
    tags: dict[str, Any]
    document_id: int | None


class SourceDay(BaseModel):
    """How a source of dated days stands with a day."""

    source: str
    day: dt.date
    timezone: str = Field(description="Whose day it is.")
    state: DayState
    read_at: dt.datetime | None = Field(description="When it was read whole.")
    run_id: int | None = Field(description="Its last run for that day.")
    reason: str | None = Field(description="Why that failed: a code from the closed list of reasons.")
    error: str | None = Field(description="In words; or what could not be kept, though all was read.")


class Day(BaseModel):
    """What was NEW and what was LATEST on a day."""

    day: dt.date
    sources: list[SourceDay] = Field(description="The sources of dated days, and whether this one is complete.")
    behind: list[SourceDay] = Field(description="Those that should have a later day by now; asked of `latest` only.")
    items: list[DayItem]


class IngestRequest(BaseModel):
    """A day to read."""

    model_config = ConfigDict(extra="forbid")

    source: str
    day: IsoDay | None = Field(default=None, alias="date", description="By default the last that is over.")


class Run(BaseModel):
    """One reading of a source that somebody answers for."""

    id: int
    source: str
    trigger: Literal["schedule", "manual", "sync"]
    slot: dt.datetime | None = Field(description="The moment of its schedule that it is for.")
    day: dt.date | None = Field(description="The day it reads.")
    status: RunStatus
    reason: str | None = Field(description="A code from the closed list of reasons.")
    error: str | None
    items: int | None = Field(description="Items saved.")
    pages: int | None = Field(description="Answers of the source's search.")
    fetched: int | None = Field(description="Records in them.")
    total: int | None = Field(description="As many as there are, as the source says.")
    new: int | None
    latest: int | None
    started_at: dt.datetime
    finished_at: dt.datetime | None
    seconds: float | None
    attempts: int = Field(description="The how manieth run it is for its slot.")


class Runs(BaseModel):
    """Runs, newest first."""

    runs: list[Run]
    next: int | None
