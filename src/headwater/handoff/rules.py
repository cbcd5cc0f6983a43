"""Rules of the hand-off: what makes a payload another one, and what becomes of one (spec 7.2, 7.3)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from headwater.core.handoff import JobStatus, PageStatus, PastJob
from headwater.core.reasons import Reason
from headwater.core.source import Item

_canonical = msgspec.json.Encoder(order="sorted").encode
# What search engines and counters say of a record changes by itself, as does whatever they keep for themselves (`_id`).
VOLATILE = frozenset(
    {"elasticsearch_type", "es_score", "index", "indexed_at", "popularity", "rank", "score", "view_count", "views"}
)


class Verdict(NamedTuple):
    """What becomes of a payload, and why; only the first reason makes a job."""

    reason: Reason
    fetches_again: bool = False
    is_successor: bool = False  # of a job whose fetch is under way: it waits for the one after

    @property
    def makes_job(self) -> bool:
        """Whether there is to be a job."""
        return self.reason is Reason.INGESTION_JOB_QUEUED


def payload_hash(item: Item) -> str:
    """Return the SHA-256 of what a source says of an item, in hex, however it is written.

    Left out is what changes by itself: scores and counters at the top of the raw record, or of what a search answered
    (`search` in it), and dates that were inferred, with the rule they were inferred by. Further down the same names
    are the source's own, and may be what it is about.
    """
    raw = _lasting(item.raw)
    if "search" in raw:
        raw["search"] = _lasting(raw["search"])
    said = {
        "url": item.url,
        "title": item.title,
        "published_at": _moment(item.published_at) if item.is_certain else None,
        "updated_at": _moment(item.updated_at),
        "tags": item.tags,
        "raw": raw,
    }
    return sha256(_canonical(_told(said))).hexdigest()


def decide(payload: str, page: PageStatus, past: Mapping[str, PastJob]) -> Verdict:
    """Say what becomes of a payload, given the newest job of each payload that its item ever had."""
    same = past.get(payload)
    if same and same.status is JobStatus.QUEUED:
        return Verdict(Reason.INGESTION_JOB_ALREADY_ACTIVE)
    if same and same.status is JobStatus.READY:
        return Verdict(Reason.INGESTION_JOB_ALREADY_READY)
    if page is PageStatus.NONE:
        return Verdict(Reason.PAGE_NOT_FETCHED)
    newest = max(past.values(), key=lambda job: job.id, default=None)
    if same and same is newest and page is PageStatus.DEAD:
        return Verdict(Reason.INGESTION_JOB_ALREADY_FAILED)
    has_changed = newest is not None and newest is not same
    return Verdict(
        Reason.INGESTION_JOB_QUEUED,
        fetches_again=has_changed and page in (PageStatus.FETCHED, PageStatus.DEAD),
        is_successor=has_changed and page is PageStatus.FETCHING,
    )


def _moment(when: datetime | None) -> str | None:
    return when.astimezone(UTC).isoformat() if when else None


def _lasting(record: Any) -> Any:
    if not isinstance(record, Mapping):
        return record
    return {name: value for name, value in record.items() if name not in VOLATILE and not str(name).startswith("_")}


def _told(value: Any) -> Any:
    """Return a value without what says nothing, at any depth."""
    if isinstance(value, Mapping):
        return {str(name): _told(inner) for name, inner in value.items() if inner is not None}
    return [_told(inner) for inner in value] if isinstance(value, list | tuple) else value
