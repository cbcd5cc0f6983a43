"""Answers of GOV.UK with the right shape and wrong values: reported or accepted, but never ignored (spec 6.5)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.core.source import Method
from headwater.db import sources
from headwater.demo.answers import Answer, Body, Maker, always, status, whole
from headwater.demo.api import ApiRequest
from tests.database_state import items
from tests.govuk import DAY, NIGHT, NOON, open_day_harness, page

MakeSettings = Callable[..., Settings]
DEEP: Any = "end"
for _ in range(400):
    DEEP = {"inner": DEEP}
OLD = NOON - timedelta(days=400)


def pages() -> list[Any]:
    return [page("/new"), page("/old", OLD, public_timestamp=NOON)]


def with_field(name: str, value: Any) -> Maker:
    """Answer with every result's field set so."""

    def make(body: Body) -> Answer:
        decoded = msgspec.json.decode(body.content)
        for result in decoded["results"]:
            result[name] = value
        return whole(Body(msgspec.json.encode(decoded), body.content_type, body.modified))

    return make


def with_taxon(taxon: Any) -> Maker:
    """Answer a look-up with one taxon."""

    def make(body: Body) -> Answer:
        decoded = msgspec.json.decode(body.content) | {"links": {"taxons": [taxon]}}
        return whole(Body(msgspec.json.encode(decoded), body.content_type, body.modified))

    return make


async def test_a_page_with_a_time_outside_its_window_fails_the_day(make_settings: MakeSettings) -> None:
    """Spec 6.5: without it the day would have nothing updated, and be called complete."""
    async with open_day_harness(make_settings(), pages()) as harness:
        updated = lambda asked: bool(asked.first("filter_public_timestamp")) and asked.first("count") != "0"  # noqa: E731
        for moment in (None, 1783900800, "13 July 2026", "2026-07-15T09:00:00Z", ["2026-07-13"]):
            harness.api.faults.clear()
            harness.api.faults.plan(with_field("public_timestamp", moment), when=updated, times=None)
            run = await harness.ingest()
            assert (run.status, run.reason) == ("failed", "incomplete"), moment
            assert await harness.buckets() == {}, moment


@pytest.mark.parametrize("title", ["a\0b", "\ud800 half", "x" * 300_000, None, 7, ["a"], DEEP])
async def test_no_value_of_a_field_keeps_a_day_from_ending(make_settings: MakeSettings, title: Any) -> None:
    """Issue 7, bad input: unstorable values are cleaned or left out, and the run ends."""
    async with open_day_harness(make_settings(), pages(), content_lookups="never") as harness:
        for name in ("title", "content_store_document_type", "organisations", "taxons", "content_id"):
            harness.api.faults.clear()
            fault = with_field(name, title) if title != "\ud800 half" else with_field(name, "half")
            harness.api.faults.plan(fault, when=ApiRequest.is_search, times=None)
            run = await harness.ingest()
            assert (run.status, run.items) == ("succeeded", 2), name
            assert await harness.buckets() == {"/new": "NEW", "/old": "LATEST"}, name


@pytest.mark.parametrize(
    "taxon",
    [{"content_id": {}, "title": "a"}, {"content_id": "a", "title": []}, {"content_id": 7, "title": "a"}, "a", None],
)
async def test_no_taxon_keeps_a_day_from_ending(make_settings: MakeSettings, taxon: Any) -> None:
    """Issue 7, bad input."""
    async with open_day_harness(make_settings(), pages()) as harness:
        harness.api.faults.plan(with_taxon(taxon), when=ApiRequest.is_content, times=None)
        assert (await harness.ingest()).status == "succeeded"
        assert await harness.buckets() == {"/new": "NEW", "/old": "LATEST"}


async def test_a_link_that_cannot_be_saved_is_reported_with_the_day(make_settings: MakeSettings) -> None:
    """Spec 6.5: a day is not complete without saying what is missing."""
    async with open_day_harness(make_settings(), [page("/new"), page("mailto:desk@example.org")]) as harness:
        run = await harness.ingest()
        assert (run.status, run.items, run.fetched) == ("succeeded", 1, 4)
        assert run.error.startswith("1 could not be kept, such as mailto:desk@example.org")
        (stands,) = (await harness.view()).sources
        assert stands.error == run.error


@pytest.mark.parametrize("code", [401, 403, 422])
async def test_a_content_api_that_refuses_is_not_taken_for_one_that_does_not_know(
    make_settings: MakeSettings, code: int
) -> None:
    """Spec 6.5."""
    async with open_day_harness(make_settings(), pages()) as harness:
        harness.api.faults.plan(always(status(code)), when=ApiRequest.is_content, times=None)
        run = await harness.ingest()
        assert (run.status, run.reason) == ("failed", "http_4xx")


async def test_an_empty_day_is_believed_only_when_it_stays_empty(make_settings: MakeSettings) -> None:
    """Spec 6.5: an index that is made anew has nothing in it, and says so."""
    async with open_day_harness(make_settings(), pages()) as harness:
        fault = empty_for(times_asked := [])
        harness.api.faults.plan(fault, when=ApiRequest.is_search, times=2)
        assert (await harness.ingest()).status == "succeeded"
        assert len(times_asked) == 2
        assert await harness.buckets() == {"/new": "NEW", "/old": "LATEST"}


def empty_for(asked: list[Body]) -> Maker:
    """Say that there is nothing, and keep who asked."""

    def make(body: Body) -> Answer:
        asked.append(body)
        decoded = msgspec.json.decode(body.content) | {"results": [], "total": 0}
        return whole(Body(msgspec.json.encode(decoded), body.content_type, body.modified))

    return make


async def test_a_date_that_is_stated_later_wins_over_an_inferred_one(make_settings: MakeSettings) -> None:
    """Spec 6.4: in any order of the runs, the Content API decides the pages that it was asked for."""
    both = page("/moved", NOON, content_first_published_at=OLD)
    async with open_day_harness(make_settings(), [both], content_lookups="auto") as harness:
        await harness.ingest()
        assert await harness.index() == {"/moved": ("NEW", "published_window")}
        await harness.settings(content_lookups="always")
        await harness.ingest()
        assert await harness.index() == {"/moved": ("LATEST", "content_api")}
        await harness.settings(content_lookups="auto")
        await harness.ingest()
        assert await harness.index() == {"/moved": ("LATEST", "content_api")}


async def test_tags_are_united_also_when_pages_begin_to_be_fetched(make_settings: MakeSettings) -> None:
    """Spec 6.4."""
    async with open_day_harness(make_settings(), pages(), content_lookups="never") as harness:
        for fetched, organisation in ((False, "One"), (True, "Two")):
            await harness.settings(fetch_items=fetched)
            fault = with_field("organisations", [{"title": organisation}])
            harness.api.faults.clear()
            harness.api.faults.plan(fault, when=ApiRequest.is_search, times=None)
            await harness.ingest()
        assert [item.tags["organisations"] for item in await items(harness)] == [["One", "Two"]] * 2


async def test_the_last_good_day_of_a_source_that_is_off_is_shown_only_when_asked_for(
    make_settings: MakeSettings,
) -> None:
    """Spec 6.5: an old day must not look like the newest."""
    async with open_day_harness(make_settings(), pages()) as harness:
        await harness.ingest()
        async with harness.runtime.context.database.connection() as connection:
            await sources.add_source(connection, "other", "manual", {}, now=NIGHT, due={Method.FEED: None})
        await harness.operations.sources.set_enabled("govuk", enabled=False)
        assert (await harness.view(None, source="govuk")).day == DAY
        assert (await harness.view(None)).day == DAY  # the last that has anything in it
        assert (await harness.view(None)).behind == []


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
async def test_days_at_the_ends_of_time_are_refused(make_settings: MakeSettings, day: str) -> None:
    """Issue 7, bad input."""
    async with open_day_harness(make_settings(), []) as harness:
        with pytest.raises(OperatorError) as refused:
            await harness.view(type(DAY).fromisoformat(day))
        assert refused.value.reason is Reason.BAD_REQUEST
