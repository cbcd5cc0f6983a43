"""Rules of the hand-off: when a payload is another one, and what becomes of one (spec 7.2, 7.3)."""

import copy
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.backoff import doubled
from headwater.core.handoff import JobStatus, PageStatus, PastJob
from headwater.core.reasons import Reason
from headwater.core.source import Item, Undated
from headwater.handoff.rules import VOLATILE, decide, payload_hash

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
def test_a_payload_is_known_by_64_hex_digits_that_depend_on_nothing_else(item: Item) -> None:
    assert re.fullmatch("[0-9a-f]{64}", payload_hash(item))
    assert payload_hash(copy.deepcopy(item)) == payload_hash(item)


def _turned(value: Any) -> Any:
    """The same with every mapping written the other way round."""
    if isinstance(value, dict):
        return {name: _turned(value[name]) for name in reversed(value)}
    return [_turned(inner) for inner in value] if isinstance(value, list) else value


@given(ITEMS, st.integers(-12, 12))
def test_how_a_payload_is_written_changes_nothing(item: Item, hours: int) -> None:
    """The order of keys, the time zone of dates, and whether nothing is said or null."""
    zone = timezone(timedelta(hours=hours))
    moved = replace(
        item,
        published_at=item.published_at and item.published_at.astimezone(zone),
        updated_at=item.updated_at and item.updated_at.astimezone(zone),
        tags=_turned(item.tags),
        raw=_turned(item.raw) | {"unsaid": None},
    )
    assert payload_hash(moved) == payload_hash(item)


NAMES_THAT_CHANGE = st.sampled_from([*sorted(VOLATILE), "_id", "_score"])


@given(ITEMS, NAMES_THAT_CHANGE, VALUES)
def test_what_changes_by_itself_changes_nothing(item: Item, name: str, value: Any) -> None:
    """Names at the top of the record, or of what a search answered; inferred dates, and the rule they are by."""
    assert payload_hash(replace(item, raw={**item.raw, name: value})) == payload_hash(item)
    searched = replace(item, raw={**item.raw, "search": {"g": 1}})
    assert payload_hash(replace(item, raw={**item.raw, "search": {"g": 1, name: value}})) == payload_hash(searched)
    inferred = replace(item, is_certain=False)
    assert payload_hash(replace(inferred, published_at=None)) == payload_hash(inferred)
    assert payload_hash(replace(item, rule="another", undated=Undated.UNKNOWN)) == payload_hash(item)


@given(ITEMS, NAMES_THAT_CHANGE, WORDS, WORDS)
def test_the_same_name_further_down_or_among_the_tags_is_what_a_source_says(
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
def test_whatever_a_source_says_otherwise_is_another_payload(item: Item, other: Item) -> None:
    def said(one: Item) -> Any:
        return _without_none((one.url, one.title, one.published_at, one.updated_at, one.tags, one.raw))

    assert (payload_hash(item) == payload_hash(other)) == (said(item) == said(other))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_none(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, bool):
        return str(value)  # True is 1 in Python, not in JSON
    return [_without_none(inner) for inner in value] if isinstance(value, list | tuple) else value


@given(st.sampled_from(PAYLOADS), st.sampled_from(PageStatus), JOBS)
def test_a_payload_has_at_most_one_job_that_waits_or_is_ready(
    payload: str, page: PageStatus, past: dict[str, PastJob]
) -> None:
    """Spec 7.3."""
    verdict = decide(payload, page, past)
    same = past.get(payload)
    if same and same.status is not JobStatus.FAILED:
        assert not verdict.makes_job
    if page is PageStatus.NONE:
        assert not verdict.makes_job
    if not verdict.makes_job:
        assert not verdict.fetches_again
        assert not verdict.is_successor


@given(st.sampled_from(PAYLOADS), st.sampled_from(PageStatus), JOBS)
def test_a_page_is_fetched_again_only_for_a_payload_that_has_changed(
    payload: str, page: PageStatus, past: dict[str, PastJob]
) -> None:
    """Spec 2.2, 7.3: what ended is not fetched again because it is seen again."""
    verdict = decide(payload, page, past)
    if verdict.fetches_again or verdict.is_successor:
        assert set(past) - {payload}
        assert verdict.fetches_again is (page in (PageStatus.FETCHED, PageStatus.DEAD))
        assert verdict.is_successor is (page is PageStatus.FETCHING)


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
