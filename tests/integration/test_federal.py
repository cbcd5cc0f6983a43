"""The federal kinds through the doors: the items that they find, save and refuse (spec 1.1, 1.4, 1.5; issue 10)."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headwater.core.dates import day_of
from headwater.core.errors import OperatorError
from headwater.core.settings import Settings
from headwater.demo.answers import Answer as DemoAnswer
from headwater.demo.answers import Body, Maker, always, status
from headwater.demo.federal_api import CongressServer, RegisterApi
from headwater.demo.federal_run import key_shares
from headwater.demo.federal_sites import (
    API,
    API_HOST,
    GOVINFO,
    KEY,
    REGISTER,
    SOURCES,
    register_document,
)
from headwater.demo.plan import Site as DemoSite
from headwater.demo.web import DemoWeb
from headwater.sources.kinds.federal import register_search
from headwater.sources.kinds.records import US_CAPITAL
from tests.api_faults import altered, error_under_200, text_under_200
from tests.database_state import backdate, count, items
from tests.harness import AppHarness, open_harness
from tests.program import headwater
from tests.server import Answer, Site

MakeSettings = Callable[..., Settings]
MAP = "http://gov.test/119hr/sitemap.xml"
TODAY = day_of(datetime.now(UTC), US_CAPITAL)
RETRY = {"attempts": 4, "base_seconds": 0, "on_rate_limit": True}


def serving(site: DemoSite, api: DemoAnswer) -> DemoSite:
    """The host with an API that stays in the hands of the test."""
    return replace(site, api=lambda _today, _seed: api)


@contextlib.asynccontextmanager
async def open_federal(settings: Settings, *sites: DemoSite) -> AsyncIterator[AppHarness]:
    async with DemoWeb(today=TODAY, sites=sites) as web:
        reached = replace(settings, connect_to=(f"*.demo.test={web.ip}:{web.port}",))
        async with open_harness(reached) as harness:
            yield harness


async def add(harness: AppHarness, name: str, **overrides: Any) -> None:
    reader = SOURCES[name]
    own = {"budget": None} if name == "federal_register" else {}  # the kind's default, not the demo's
    given = {**reader.settings, **own, "rate_per_second": 1000, "retry": RETRY, **overrides}
    await harness.operations.sources.create(name, reader.kind, given)


def documents(count: int, day: date = TODAY, start: int = 0) -> list[dict[str, Any]]:
    return [register_document(f"2026-{number:05}", f"Notice {number}", day) for number in range(start, start + count)]


def fewer(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"count": body["count"] - 1, "results": body["results"][: body["count"] - 1]}


def at_cap(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"count": 10_000}


FAULTS: dict[str, tuple[Maker, str]] = {
    "an early empty page": (altered(lambda body: body | {"results": []}), "incomplete"),
    "a short page": (altered(lambda body: body | {"results": body.get("results", [])[:-1]}), "incomplete"),
    "a total that says more": (altered(lambda body: body | {"count": body["count"] + 1}), "incomplete"),
    "exactly 10,000": (altered(at_cap), "incomplete"),
    "an error under 200": (always(error_under_200), "incomplete"),
    "words under 200": (always(text_under_200), "incomplete"),
    "429": (always(status(429)), "rate_limited"),
    "500": (always(status(500)), "http_5xx"),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_register_that_cannot_be_read_whole_saves_nothing_and_is_read_again(
    make_settings: MakeSettings, name: str
) -> None:
    """The run ends with its reason, what was known stays, and the next run begins where this one did."""
    fault, reason = FAULTS[name]
    api = RegisterApi(documents(3))
    async with open_federal(make_settings(), serving(REGISTER, api)) as harness:
        await add(harness, "federal_register", fetch_items=False)
        assert (await harness.operations.sources.sync("federal_register")).error is None
        before = await items(harness)
        assert len(before) == 3
        api.documents += documents(4, start=10)
        api.faults.plan(fault, times=None)
        failed = await harness.operations.sources.sync("federal_register")
        assert (failed.reason, bool(failed.error)) == (reason, True)
        assert await items(harness) == before
        api.faults.clear()
        assert (await harness.operations.sources.sync("federal_register")).error is None
        assert len(await items(harness)) == 7


async def test_a_total_that_shrank_for_a_moment_is_counted_again(make_settings: MakeSettings) -> None:
    api = RegisterApi(documents(5))
    api.faults.plan(altered(fewer))
    async with open_federal(make_settings(), serving(REGISTER, api)) as harness:
        await add(harness, "federal_register", fetch_items=False)
        assert (await harness.operations.sources.sync("federal_register")).items == 5


async def test_a_window_that_reaches_the_cap_is_split_and_read_whole(
    make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is 20 instead of 10,000, over a time that takes two runs."""
    monkeypatch.setattr(register_search, "MAX_COUNT", 20)
    day = timedelta(days=1)
    api = RegisterApi([one for ago in range(50) for one in documents(3, TODAY - ago * day, ago * 3)], cap_at=20)
    async with open_federal(make_settings(), serving(REGISTER, api)) as harness:
        since = (TODAY - 49 * day).isoformat()
        await add(harness, "federal_register", fetch_items=False, since=since, days_per_run=30)
        first = await harness.operations.sources.sync("federal_register")
        assert (first.error, first.items) == (None, 90)
        second = await harness.operations.sources.sync("federal_register")
        assert (second.error, second.new_items) == (None, 60)
        assert len(await items(harness)) == 150
        api.requests.clear()
        again = await harness.operations.sources.sync("federal_register")
        assert (again.error, again.new_items) == (None, 0)
        asked = {asked.first("conditions[publication_date][gte]") for asked in api.requests}
        assert min(filter(None, asked)) == (TODAY - 7 * day).isoformat()


async def test_a_day_of_the_register_begins_in_washington(make_settings: MakeSettings) -> None:
    api = RegisterApi([register_document("2026-00001", "Notice", date(2026, 7, 1))])
    async with open_federal(make_settings(), serving(REGISTER, api)) as harness:
        await add(harness, "federal_register", fetch_items=False, since="2026-07-01")
        await harness.operations.sources.sync("federal_register")
        assert [(item.published_at, item.published_is_sighting) for item in await items(harness)] == [
            (datetime(2026, 7, 1, 4, tzinfo=UTC), False)
        ]


async def test_a_document_without_a_url_is_reported_and_does_not_stop_the_others(make_settings: MakeSettings) -> None:
    nowhere = register_document("2026-00009", "Notice", TODAY) | {"html_url": None, "full_text_xml_url": None}
    api = RegisterApi([*documents(2), nowhere])
    async with open_federal(make_settings(), serving(REGISTER, api)) as harness:
        await add(harness, "federal_register", fetch_items=False)
        polled = await harness.operations.sources.sync("federal_register")
        assert (polled.error, polled.items, len(polled.refused)) == (None, 2, 1)


def empty_later_page(body: Body) -> DemoAnswer:
    return altered(lambda answer: answer | {"bills": [], "CRSReports": []})(body)


LIST_FAULTS: dict[str, tuple[Maker, int]] = {
    "an early empty page": (empty_later_page, 2),
    "a count that moves": (altered(lambda body: body | {"pagination": {"count": 9}}), 2),
    "a count that shrinks": (altered(lambda body: body | {"pagination": {"count": 4}}), 2),
    "an error under 200": (always(error_under_200), 1),
    "words under 200": (always(text_under_200), 2),
}
LAWS = [
    {"congress": 119, "number": str(number), "type": "S", "laws": [{"number": f"119-{number}", "type": "Public Law"}]}
    for number in range(1, 6)
]
REPORTS = [{"id": f"R4717{number}", "title": f"Report {number}"} for number in range(1, 6)]


@pytest.mark.parametrize("fault", LIST_FAULTS)
@pytest.mark.parametrize("name", ["public_laws", "crs"])
async def test_a_list_of_congress_that_does_not_add_up_saves_nothing(
    make_settings: MakeSettings, name: str, fault: str
) -> None:
    make, nth = LIST_FAULTS[fault]
    api = CongressServer(laws=LAWS, reports=REPORTS, per_page=2)
    async with open_federal(make_settings(api_data_gov_key=KEY), serving(API, api)) as harness:
        await add(harness, name, fetch_items=False)
        is_that_page = 2 * (nth - 1)
        api.faults.plan(make, when=lambda asked: asked.first("offset") == str(is_that_page), times=None)
        failed = await harness.operations.sources.sync(name)
        assert failed.reason == "incomplete"
        assert await items(harness) == []
        api.faults.clear()
        assert (await harness.operations.sources.sync(name)).items == 5
        assert {item.published_is_sighting for item in await items(harness)} == {True}  # their day is unknown


async def test_an_api_that_says_429_empties_the_share_of_everybody_and_the_run_waits(
    make_settings: MakeSettings,
) -> None:
    """Spec 1.4: never an exception."""
    api = CongressServer(limit=1, per_page=1)
    api.laws = [{"congress": 119, "number": str(number), "type": "S"} for number in range(3)]
    async with open_federal(make_settings(api_data_gov_key=KEY), serving(API, api)) as harness:
        await add(harness, "public_laws")
        reading = asyncio.create_task(harness.operations.sources.sync("public_laws"))
        give_up = time.monotonic() + 30
        while not await _nothing_is_left(harness) and time.monotonic() < give_up:
            await asyncio.sleep(0.02)
        assert await _nothing_is_left(harness)
        assert not reading.done()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert set(api.keys) == {KEY}


async def _nothing_is_left(harness: AppHarness) -> bool:
    hosts = await harness.operations.budgets() or []
    return [host.host for host in hosts] == [API_HOST] and not any(one.left for one in hosts[0].sources)


@pytest.mark.parametrize("name", ["bills", "public_laws", "crs"])
async def test_a_refused_key_is_reported_and_used_only_a_few_times(make_settings: MakeSettings, name: str) -> None:
    """Spec 1.4: the run saves no item, and the next run with a better key reads all."""
    api = API.api(TODAY, 0)
    api.refuses_keys = True
    settings = make_settings(api_data_gov_key=KEY, host_delay_ms=1)
    async with open_federal(settings, GOVINFO, serving(API, api)) as harness:
        await add(harness, name, fetch_items=False)
        refused = await harness.operations.sources.sync(name)
        assert refused.reason == "bad_setting"
        assert "api.demo.test" in str(refused.error)
        assert KEY not in str(refused.error)
        assert await items(harness) == []
        assert len(api.keys) <= 5
        api.refuses_keys = False
        assert (await harness.operations.sources.sync(name)).error is None
        assert len(await items(harness)) == {"bills": 3, "public_laws": 2, "crs": 1}[name]


@pytest.fixture
async def bills(make_settings: MakeSettings) -> AsyncIterator[AppHarness]:
    async with open_federal(make_settings(api_data_gov_key=KEY, host_delay_ms=1), GOVINFO, API) as harness:
        yield harness


def _bill(number: int, congress: int = 119) -> str:
    return f"http://govinfo.demo.test/bulkdata/BILLSTATUS/{congress}/hr/BILLSTATUS-{congress}hr{number}.xml"


async def test_bills_of_both_schemas_become_documents_and_an_unknown_one_is_kept(bills: AppHarness) -> None:
    """Its row says why, its item and its raw file are there, and no document is made of it."""
    await add(bills, "bills")
    polled = await bills.operations.sources.sync("bills")
    assert (polled.error, polled.items) == (None, 3)
    await bills.work()
    assert await bills.outcomes() == {_bill(1): "stored", _bill(2): "stored", _bill(3): "unknown_schema"}
    known = [(one.title, one.normalizer, one.published_at) for one in (await bills.documents()).values()]
    introduced = datetime(2025, 3, 4, tzinfo=UTC)
    assert sorted(known) == [
        ("Ferry Timetables Act", "xml_v1", introduced),
        ("Weirs and Locks Act", "xml_v1", introduced),
    ]
    assert [item.title for item in await items(bills)] == [
        "Ferry Timetables Act",
        "Weirs and Locks Act",
        "Act of a Schema to Come",
    ]
    raw = bills.runtime.context.settings.data_dir / "corpus/bills/bodies/raw/billstatus/119/hr"
    assert sorted(path.name for path in raw.iterdir()) == [f"BILLSTATUS-119hr{number}.xml" for number in (1, 2, 3)]
    assert b"<version>9.0.0" in (raw / "BILLSTATUS-119hr3.xml").read_bytes()
    why = await bills.operations.why(_bill(3))
    assert "unknown_schema" in str(why)


def test_normalize_shows_bills_and_reports_an_unknown_schema(tmp_path: Path) -> None:
    """Spec 8.2."""
    padding = f"<title>Ferry Act</title><notes>{'x' * 200}</notes>"
    bill = f"<bill><number>7</number><type>HR</type><congress>119</congress>{padding}</bill>"
    for version, code, status_told in (("3.0.0", 0, "ok"), ("9.0.0", 1, "unknown_schema")):
        (tmp_path / "bill").write_text(f"<billStatus><version>{version}</version>{bill}</billStatus>")
        done = headwater("normalize", "bill", "--json", cwd=tmp_path)
        shown = json.loads(done.stdout)
        assert (done.returncode, shown["normalizer"], shown["status"]) == (code, "xml_v1", status_told)
        assert shown.get("title") == (None if code else "Ferry Act")


async def test_a_source_of_bills_can_be_tried_before_anything_is_saved(bills: AppHarness) -> None:
    await add(bills, "bills")
    result = await bills.operations.sources.test("bills")
    assert result.works
    assert await items(bills) == []
    assert "Ferry Timetables Act" in str(result.stages)


async def test_a_backfill_continues_at_the_end_of_the_run_before_it(bills: AppHarness) -> None:
    """Twenty-seven bills at ten look-ups a run: each is looked up once, and none is left out."""
    await add(bills, "bills", lookups_per_run=10, fetch_items=False)
    counts = [(await bills.operations.sources.backfill("bills", date(2023, 6, 1))).items]
    counts += [(await bills.operations.sources.sync("bills")).items for _ in range(3)]
    assert counts == [10, 10, 7, 0]
    assert len(await items(bills)) == 27


async def test_bills_without_look_ups_need_no_key(make_settings: MakeSettings) -> None:
    async with open_federal(make_settings(), GOVINFO, API) as harness:
        await add(harness, "bills", fetch_items=False)
        refused = await harness.operations.sources.sync("bills")
        assert "HEADWATER_API_DATA_GOV_KEY" in (refused.error or "")
        assert await items(harness) == []
        await harness.operations.sources.edit("bills", {}, ["lookups_per_run"])
        assert (await harness.operations.sources.sync("bills")).items == 3
        assert [item.title for item in await items(harness)] == [f"HR {number}, Congress 119" for number in (1, 2, 3)]
        assert await count(harness, "daily_index") == 0  # their day is unknown


async def test_files_give_bills_their_titles_and_dates_and_an_update_is_latest(
    site: Site, make_settings: MakeSettings
) -> None:
    """Issue 20: without a key. Days without a time are days in Washington, and a placeholder title is replaced."""
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    url, index = "http://gov.test/bulkdata/BILLSTATUS-119hr7.xml", "http://gov.test/index.xml"
    site.answers[index] = Answer(f"<sitemapindex><sitemap><loc>{MAP}</loc></sitemap></sitemapindex>")
    listed = "<urlset><url><loc>{}</loc><lastmod>{}</lastmod></url></urlset>"
    site.answers[MAP] = Answer(listed.format(url, hour_ago.isoformat()))
    site.answers[url] = [bill("2025-03-04"), bill("2025-03-04", "2025-06-09"), bill("2025-03-04", "2025-06-09", "more")]
    async with open_harness(make_settings(connect_to=site.connect_to)) as harness:
        given = {"sitemap_url": index, "congresses": [119], "rate_per_second": 1000}
        await harness.operations.sources.create("bills", "bills", given)

        async def days(*wanted: date) -> list[list[tuple[str, str]]]:
            views = [(await harness.operations.days.day(day)).items for day in wanted]
            return [[(item.bucket, item.title) for item in view] for view in views]

        async def read() -> list[list[tuple[str, str]]]:
            assert (await harness.operations.sources.sync("bills")).error is None
            await harness.work()
            await backdate(harness, "url_frontier.last_fetched_at", timedelta(days=2))
            return await days(date(2025, 3, 4), date(2025, 6, 9), TODAY)

        new, latest = ("NEW", "Ferry Act"), ("LATEST", "Ferry Act")
        assert await read() == [[new], [], []]
        assert await read() == [[new], [latest], []]
        assert await read() == [[new], [latest], [latest]]  # a change without a new action
        (item,) = await items(harness)
        assert item.tags["native_ids"] == {"congress": "119", "type": "hr", "number": "7"}
        assert not item.published_is_sighting
        (document,) = (await harness.documents()).values()
        assert document.title == "Ferry Act"
    raw = harness.runtime.context.settings.data_dir / "corpus/bills/bodies/raw/billstatus/119/hr/BILLSTATUS-119hr7.xml"
    assert b"more" in raw.read_bytes()


def bill(*actions: str) -> Answer:
    """Return the status of a bill that was introduced on the first day."""
    items = "".join(f"<item><actionDate>{day[:10]}</actionDate><text>Act: {day}</text></item>" for day in actions)
    return Answer(
        "<billStatus><version>3.0.0</version><bill><number>7</number><type>HR</type><congress>119</congress>"
        f"<updateDate>2026-01-15T07:00:00Z</updateDate><introducedDate>{actions[0]}</introducedDate>"
        f"<title>Ferry Act</title><actions>{items}</actions></bill></billStatus>",
        headers={"Content-Type": "application/xml"},
    )


async def test_the_record_of_a_report_may_be_read_instead_of_its_page(make_settings: MakeSettings) -> None:
    """Spec 1.5: `{number}.json`. It is asked for with the key, and counted."""
    async with open_federal(make_settings(api_data_gov_key=KEY), API) as harness:
        await add(harness, "crs", form="json")
        await harness.operations.sources.sync("crs")
        await harness.work()
        known = await harness.document()
        title = "River Ferries: Background and Issues for Congress"
        assert (known.normalizer, known.raw_path, known.title, known.published_at) == (
            "json_v1",
            "crs/bodies/raw/R47175.json",
            title,
            datetime(2026, 1, 12, tzinfo=UTC),
        )
        assert {one.source: one.spent for one in await key_shares(harness.operations)}["reserve"] == 2


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("federal_register", {"site_url": "nowhere"}, "site_url: "),
        ("federal_register", {"since": "yesterday"}, "since: "),
        ("federal_register", {"since": "1066-01-01"}, "since: the first Federal Register is of 1936-03-14"),
        ("federal_register", {"days_per_run": 3}, "days_per_run: must be from 30 to 3660"),
        ("bills", {"schedule": "0 2 * * *"}, "schedule: bills are read by interval; set poll_interval_minutes"),
        ("bills", {"congresses": [93]}, "congresses: BILLSTATUS starts with the 108th Congress"),
        ("bills", {"lookups_per_run": -1}, "lookups_per_run: must be from 0 to 100000"),
        ("public_laws", {"congresses": [112]}, "congresses: laws before the 113th Congress are not published as XML"),
        ("public_laws", {"files_url": "ftp://x"}, "files_url: "),
        ("crs", {"api_url": ""}, "api_url: "),
        ("crs", {"form": "pdf"}, "form: must be 'html' or 'json', not 'pdf'"),
        ("gao", {"feed_url": "//"}, "feed_url: "),
    ],
)
async def test_settings_that_cannot_work_are_refused_with_the_field(
    harness: AppHarness, name: str, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(OperatorError, match=rf"Source {name}: {words}"):
        await harness.operations.sources.create(name, SOURCES[name].kind, settings)
    assert await harness.operations.sources.list_sources() == []


@pytest.mark.parametrize("answer", [(200, {"bill": {}}), (500, {"error": "x"}), (400, {"error": "x"})])
async def test_a_bill_that_cannot_be_looked_up_keeps_no_other(
    answer: tuple[int, object], make_settings: MakeSettings
) -> None:
    """Spec 1.1: it is tried again by the next run, and those that were paid for are not."""
    api = API.api(TODAY, 0)
    usual, asked = api.reply, []

    def reply(request: Any) -> Any:
        asked.append(request.path)
        return answer if request.path.endswith("/hr/2") else usual(request)

    api.reply = reply  # type: ignore[method-assign]
    settings = make_settings(api_data_gov_key=KEY, host_delay_ms=1)
    async with open_federal(settings, GOVINFO, serving(API, api)) as harness:
        await add(harness, "bills", fetch_items=False, retry={"attempts": 1, "base_seconds": 0})
        polled = await harness.operations.sources.sync("bills")
        assert (polled.error, polled.items) == (None, len(await items(harness)))
        assert _bill(2) not in {item.url for item in await items(harness)}
        assert polled.items > 1
        asked.clear()
        await harness.operations.sources.sync("bills")
        assert {path.rpartition("/")[2] for path in asked} == {"2"}
        api.reply = usual  # type: ignore[method-assign]
        assert (await harness.operations.sources.sync("bills")).new_items == 1


async def test_an_api_that_fails_for_every_bill_fails_the_run_after_a_few(make_settings: MakeSettings) -> None:
    """Spec 1.4: no share is spent on what cannot be had."""
    api = API.api(TODAY, 0)
    asked = []

    def reply(request: Any) -> Any:
        asked.append(request.path)
        return 500, {"error": "x"}

    api.reply = reply  # type: ignore[method-assign]
    settings = make_settings(api_data_gov_key=KEY, host_delay_ms=1)
    async with open_federal(settings, GOVINFO, serving(API, api)) as harness:
        await add(harness, "bills", fetch_items=False, congresses=[118], retry={"attempts": 1, "base_seconds": 0})
        polled = await harness.operations.sources.sync("bills")
        assert (polled.reason, polled.items) == ("http_5xx", 0)
        assert len(set(asked)) <= 5
