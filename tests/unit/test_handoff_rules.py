"""Rules of the hand-off: the hash of a payload, and the decision on it (spec 7.2, 7.3)."""

import copy
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.backoff import doubled
from headwater.core.reasons import Reason
from headwater.core.source import Item, Undated
from headwater.db.jobs import JobStatus, PageStatus, PastJob
from headwater.handoff.handoffs import VOLATILE, decide, payload_hash

WORDS = st.text("abcÄ-1 ", max_size=5)
NAMES = st.text("abcdefg", min_size=1, max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))
ITEMS = st.builds(
    Item,
    url=st.sampled_from(["http://a.test/", "http://a.test/b"]),
    title=WORDS,
    published_at=st.none() | MOMENTS,
    updated_at=st.none() | MOMENTS,
    tags=st.dictionaries(NAMES, VALUES, max_size=3),
    raw=st.dictionaries(NAMES, VALUES, max_size=3),
)
PAYLOADS = "abc"
JOBS = st.dictionaries(
    st.sampled_from(PAYLOADS),
    st.builds(PastJob, st.integers(1, 9), st.sampled_from([JobStatus.QUEUED, JobStatus.READY, JobStatus.FAILED])),
)


@given(ITEMS)
def test_a_payload_hash_has_64_hex_digits_and_is_stable(item: Item) -> None:
    assert re.fullmatch("[0-9a-f]{64}", payload_hash(item))
    assert payload_hash(copy.deepcopy(item)) == payload_hash(item)


def _reverse(value: Any) -> Any:
    """Reverse the order of every mapping."""
    if isinstance(value, dict):
        return {name: _reverse(value[name]) for name in reversed(value)}
    return [_reverse(inner) for inner in value] if isinstance(value, list) else value


@given(ITEMS, st.integers(-12, 12))
def test_the_notation_of_a_payload_does_not_change_its_hash(item: Item, hours: int) -> None:
    """Notation: the order of keys, the time zone of dates, and a missing or null field."""
    zone = timezone(timedelta(hours=hours))
    moved = replace(
        item,
        published_at=item.published_at and item.published_at.astimezone(zone),
        updated_at=item.updated_at and item.updated_at.astimezone(zone),
        tags=_reverse(item.tags),
        raw=_reverse(item.raw) | {"empty": None},
    )
    assert payload_hash(moved) == payload_hash(item)


VOLATILE_NAMES = st.sampled_from([*sorted(VOLATILE), "_id", "_score"])


@given(ITEMS, VOLATILE_NAMES, VALUES)
def test_volatile_fields_do_not_change_the_hash(item: Item, name: str, value: Any) -> None:
    """Names at the top of the record or of its search field; inferred dates and their rule."""
    assert payload_hash(replace(item, raw={**item.raw, name: value})) == payload_hash(item)
    searched = replace(item, raw={**item.raw, "search": {"g": 1}})
    assert payload_hash(replace(item, raw={**item.raw, "search": {"g": 1, name: value}})) == payload_hash(searched)
    inferred = replace(item, is_certain=False)
    assert payload_hash(replace(inferred, published_at=None)) == payload_hash(inferred)
    assert payload_hash(replace(item, rule="another", undated=Undated.UNKNOWN)) == payload_hash(item)


@given(ITEMS, VOLATILE_NAMES, WORDS, WORDS)
def test_a_volatile_name_further_down_or_among_the_tags_changes_the_hash(
    item: Item, name: str, value: str, other: str
) -> None:
    def hashes(value: str) -> list[str]:
        deep = ({"report": {name: value}}, {"g": [{name: value}]}, {"search": {"report": {name: value}}})
        items = [replace(item, raw=raw) for raw in deep]
        items += [replace(item, tags={name: [value]}), replace(item, tags={"topic": {name: value}})]
        return [payload_hash(one) for one in items]

    for one, another in zip(hashes(value), hashes(other), strict=True):
        assert (one == another) == (value == other)


def test_names_may_be_numbers() -> None:
    item = Item(url="http://a.test/", title="A", raw={1: "x", "g": {2: "y"}}, tags={3: "z"})
    written = replace(item, raw={"1": "x", "g": {"2": "y"}}, tags={"3": "z"})
    assert payload_hash(item) == payload_hash(written)


@given(ITEMS, ITEMS)
def test_any_other_difference_changes_the_hash(item: Item, other: Item) -> None:
    def content(one: Item) -> Any:
        return _without_none((one.url, one.title, one.published_at, one.updated_at, one.tags, one.raw))

    assert (payload_hash(item) == payload_hash(other)) == (content(item) == content(other))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_none(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, bool):
        return str(value)  # True is 1 in Python, not in JSON
    return [_without_none(inner) for inner in value] if isinstance(value, list | tuple) else value


@given(st.sampled_from(PAYLOADS), st.sampled_from(PageStatus), JOBS)
def test_a_payload_has_at_most_one_queued_or_ready_job(
    payload: str, page: PageStatus, past: dict[str, PastJob]
) -> None:
    """Spec 7.3."""
    decision = decide(payload, page, past)
    same = past.get(payload)
    if same and same.status is not JobStatus.FAILED:
        assert decision.reason is not Reason.INGESTION_JOB_QUEUED
    if page is PageStatus.NONE:
        assert decision.reason is not Reason.INGESTION_JOB_QUEUED
    if decision.reason is not Reason.INGESTION_JOB_QUEUED:
        assert not decision.fetches_again
        assert not decision.is_successor


@given(st.sampled_from(PAYLOADS), st.sampled_from(PageStatus), JOBS)
def test_a_page_is_fetched_again_only_for_a_payload_that_has_changed(
    payload: str, page: PageStatus, past: dict[str, PastJob]
) -> None:
    """Spec 2.2, 7.3: a new sighting alone does not fetch an ended page again."""
    decision = decide(payload, page, past)
    if decision.fetches_again or decision.is_successor:
        assert set(past) - {payload}
        assert decision.fetches_again is (page in (PageStatus.FETCHED, PageStatus.DEAD))
        assert decision.is_successor is (page is PageStatus.FETCHING)


READY, QUEUED, FAILED = (PastJob(7, status) for status in (JobStatus.READY, JobStatus.QUEUED, JobStatus.FAILED))


@pytest.mark.parametrize(
    ("page", "past", "reason"),
    [
        (PageStatus.PENDING, {}, Reason.INGESTION_JOB_QUEUED),
        (PageStatus.FETCHED, {}, Reason.INGESTION_JOB_QUEUED),
        (PageStatus.DEAD, {}, Reason.INGESTION_JOB_QUEUED),
        (PageStatus.FETCHED, {"a": READY}, Reason.INGESTION_JOB_ALREADY_READY),
        (PageStatus.FETCHING, {"a": QUEUED}, Reason.INGESTION_JOB_ALREADY_ACTIVE),
        (PageStatus.NONE, {}, Reason.PAGE_NOT_FETCHED),
        (PageStatus.DEAD, {"a": FAILED}, Reason.INGESTION_JOB_ALREADY_FAILED),
        (PageStatus.DEAD, {"a": FAILED, "b": PastJob(8, JobStatus.READY)}, Reason.INGESTION_JOB_QUEUED),
        (PageStatus.FETCHED, {"a": FAILED}, Reason.INGESTION_JOB_QUEUED),
        (PageStatus.PENDING, {"a": FAILED}, Reason.INGESTION_JOB_QUEUED),
        (PageStatus.FETCHED, {"b": READY}, Reason.INGESTION_JOB_QUEUED),
    ],
)
def test_every_case_has_its_reason(page: PageStatus, past: dict[str, PastJob], reason: Reason) -> None:
    """Spec 7.2."""
    assert decide("a", page, past).reason is reason


def test_the_wait_doubles_with_each_attempt() -> None:
    """Spec 7.2: base * 2^(attempt - 1)."""
    assert [doubled(3.0, attempt) for attempt in (1, 2, 3, 4)] == [3.0, 6.0, 12.0, 24.0]
    assert doubled(0.0, 9) == 0.0
