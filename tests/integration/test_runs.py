"""Runs: who may begin one, how it ends, what becomes of days that were missed (spec 1.2, 6.3, 6.5, 6.7)."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from structlog.testing import capture_logs

from headwater.api import make_app
from headwater.config import Settings
from headwater.demo.answers import always, hang, status
from headwater.demo.govuk import GovukApi
from headwater.demo.govuk_faults import ApiRequest
from headwater.demo.govuk_site import serving
from headwater.demo.web import DemoWeb
from headwater.errors import OperatorError
from headwater.model.run import Trigger
from headwater.model.source import Source
from headwater.service import schema
from headwater.service.maintenance import rescue_expired
from headwater.service.running import RoleName, serve
from headwater.service.scheduling import SchedulerRole
from headwater.store import sources
from tests import kinds
from tests.govuk import DAY, NIGHT, NOON, QUICK, DayHouse, open_day_house, page
from tests.program import headwater
from tests.stepping import make_clock, step_clock

MakeSettings = Callable[..., Settings]
Ask = Callable[..., Awaitable[tuple[int, Any]]]
TOKEN = "a-token-for-tests"
ONE_DAY = timedelta(days=1)
LEASE = timedelta(seconds=10)  # of the settings of tests


class Scheduler:
    """A scheduler that looks when it is told to."""

    def __init__(self, house: DayHouse) -> None:
        self.role = SchedulerRole(house.parts)
        self.keeper = AsyncIOScheduler(timezone=UTC)

    async def look(self) -> None:
        """Take up what is due, and wait until that is done."""
        await self.role._look(self.keeper)
        await asyncio.gather(*self.role._runs)


async def runs(house: DayHouse, *columns: str) -> list[tuple[Any, ...]]:
    """The runs, oldest first."""
    return [tuple(row[name] for name in columns) for row in reversed(await house.desk.runs.listed())]


async def test_the_slot_at_two_in_london_reads_the_day_before(make_settings: MakeSettings) -> None:
    """Spec 6.3."""
    async with open_day_house(make_settings(), [page("/a")], at=NOON) as house:
        scheduler = Scheduler(house)
        house.clock.set(NIGHT - timedelta(minutes=1))
        await scheduler.look()
        assert await runs(house, "id") == []
        house.clock.set(NIGHT)
        await scheduler.look()
        await scheduler.look()
        expected = [("schedule", NIGHT, DAY, "succeeded", 1, 0)]
        assert await runs(house, "trigger", "slot", "day", "status", "new", "latest") == expected
        assert await house.buckets() == {"/a": "NEW"}


@pytest.mark.parametrize(
    ("before", "slot", "day"),
    [
        (datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 3, 29, 1, tzinfo=UTC), date(2026, 3, 28)),
        (datetime(2026, 3, 29, 12, tzinfo=UTC), datetime(2026, 3, 30, 1, tzinfo=UTC), date(2026, 3, 29)),
        (datetime(2026, 10, 25, 12, tzinfo=UTC), datetime(2026, 10, 26, 2, tzinfo=UTC), date(2026, 10, 25)),
    ],
)
async def test_the_slots_around_a_change_of_clocks_read_their_days(
    make_settings: MakeSettings, before: datetime, slot: datetime, day: date
) -> None:
    """Spec 1.2, 6.3."""
    async with open_day_house(make_settings(), [], at=before) as house:
        house.clock.set(slot + timedelta(hours=1))
        await Scheduler(house).look()
        assert await runs(house, "slot", "day", "status") == [(slot, day, "succeeded")]


async def test_days_that_were_missed_are_caught_up_with_oldest_first_and_each_once(
    make_settings: MakeSettings,
) -> None:
    """Spec 1.2; issue 7: also under two schedulers; a day that fails does not keep the others from theirs."""
    async with open_day_house(make_settings(), [page("/a")], at=NOON) as house:
        house.clock.set(NIGHT + 4 * ONE_DAY + timedelta(hours=3))
        second_day = DAY + ONE_DAY
        house.api.faults.plan(
            always(status(404)),
            when=lambda asked: (asked.first("filter_public_timestamp") or "").startswith(f"from:{DAY}T23"),
            times=None,
        )
        both = Scheduler(house), Scheduler(house)
        for _ in range(6):
            await asyncio.gather(*(one.look() for one in both))
        days = [DAY + number * ONE_DAY for number in range(5)]
        assert await runs(house, "day", "slot") == [(day, NIGHT + (day - DAY)) for day in days]
        told = dict(await runs(house, "day", "status"))
        assert told == dict.fromkeys(days, "succeeded") | {second_day: "failed"}
        started = [at for (at,) in await runs(house, "started_at")]
        finished = [at for (at,) in await runs(house, "finished_at")]
        assert all(ended <= begun for ended, begun in zip(finished, started[1:], strict=False))
        assert [await house.state(day) for day in days] == [
            "reconstructed",
            "failed",
            *["reconstructed"] * 2,
            "complete",
        ]


async def test_missed_slots_of_other_sources_become_one(
    make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 1.2."""
    kinds.install(monkeypatch, "plain", kinds.PlainKind)
    async with open_day_house(make_settings(), [], at=NOON) as house:
        await house.desk.sources.switch("govuk", enabled=False)
        await house.desk.sources.create("plain", "plain", {"schedule": "0 2 * * *", "timezone": "Europe/London"})
        house.clock.set(NIGHT + 4 * ONE_DAY)
        scheduler = Scheduler(house)
        await scheduler.look()
        await scheduler.look()
        assert await runs(house, "source", "slot", "day") == [("plain", NIGHT + 4 * ONE_DAY, None)]


async def source_of(house: DayHouse) -> Source:
    async with house.parts.records.database.connection() as connection:
        source = await sources.get_source(connection, "govuk")
    assert source
    return source


async def test_a_run_whose_holder_died_has_failed_and_its_slot_is_run_again(make_settings: MakeSettings) -> None:
    """Spec 6.5: FAILED(worker_lost)."""
    async with open_day_house(make_settings(), [page("/a")], at=NOON) as house:
        house.clock.set(NIGHT)
        assert await house.parts.runner.begin(await source_of(house), Trigger.SCHEDULE, slot=NIGHT, day=DAY)
        await Scheduler(house).look()  # while the lease lasts, nobody else may
        assert await runs(house, "status") == [("running",)]
        house.clock.set(NIGHT + LEASE)
        assert await rescue_expired(house.parts.records) == 2
        assert await runs(house, "status", "reason", "attempts") == [("failed", "worker_lost", 1)]
        assert await house.state() == "failed"
        await Scheduler(house).look()
        assert (await runs(house, "slot", "day", "status", "attempts"))[1:] == [(NIGHT, DAY, "succeeded", 2)]
        assert await house.buckets() == {"/a": "NEW"}


async def test_a_slot_that_loses_its_holder_three_times_is_given_up(make_settings: MakeSettings) -> None:
    """Spec 1.2: a day that ends every process that reads it does not keep the others from theirs."""
    async with open_day_house(make_settings(), [page("/a")], at=NOON) as house:
        source = await source_of(house)
        house.clock.set(NIGHT + ONE_DAY)
        for _ in range(3):
            assert await house.parts.runner.begin(source, Trigger.SCHEDULE, slot=NIGHT, day=DAY)
            house.clock.set(house.clock.now() + LEASE)
            await rescue_expired(house.parts.records)
        await Scheduler(house).look()
        ended = await runs(house, "day", "status")
        assert ended == [*[(DAY, "failed")] * 3, (DAY + ONE_DAY, "succeeded")]


async def test_a_stop_in_the_middle_fails_the_run_and_its_slot_is_run_again(make_settings: MakeSettings) -> None:
    """Spec 6.5, 9.3: FAILED(shutdown)."""
    async with open_day_house(make_settings(), [page("/a")], at=NOON) as house:
        house.clock.set(NIGHT)
        house.api.faults.plan(always(hang), times=None)
        stop = asyncio.Event()
        running = asyncio.create_task(SchedulerRole(house.parts).run(stop, 0))
        await until(lambda: house.api.requests)
        stop.set()
        await running
        assert await runs(house, "status", "reason") == [("failed", "shutdown")]
        house.api.faults.clear()
        await Scheduler(house).look()
        assert (await runs(house, "slot", "status"))[1:] == [(NIGHT, "succeeded")]


async def test_a_stop_ends_what_was_begun_by_hand(make_settings: MakeSettings) -> None:
    """Spec 6.3, 6.5."""
    async with open_day_house(make_settings(), [page("/a")]) as house:
        house.api.faults.plan(always(hang), times=None)
        stop = asyncio.Event()
        role = asyncio.create_task(house.desk.runs.run(stop, 0))
        run = await house.desk.runs.begin_ingest("govuk", DAY)
        assert (run["status"], run["finished_at"], run["seconds"]) == ("running", None, None)
        assert await house.state() == "running"
        await until(lambda: house.api.requests)
        stop.set()
        await role
        ended = await house.desk.runs.get(run["id"])
        assert (ended["status"], ended["reason"]) == ("failed", "shutdown")
        house.api.faults.clear()
        assert (await house.ingest())["status"] == "succeeded"


async def until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Look until something holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_run_that_takes_longer_than_its_deadline_has_failed_and_keeps_its_items(
    make_settings: MakeSettings,
) -> None:
    """Spec 6.3, 6.5: FAILED(timeout)."""
    pages = [page(f"/{number}", NOON - 90 * ONE_DAY, public_timestamp=NOON) for number in range(6)]
    async with open_day_house(make_settings(), pages, deadline=1) as house:
        house.api.faults.plan(always(hang), when=ApiRequest.is_content, nth=3, times=None)
        run = await house.ingest()
        assert (run["status"], run["reason"], run["items"]) == ("failed", "timeout", 6)
        assert run["error"] == "Reading govuk took longer than its deadline of 1 seconds."
        assert 1 <= run["seconds"] < 5
        assert await house.buckets() == {}
        house.api.faults.clear()
        assert (await house.ingest())["latest"] == 6


async def test_only_one_run_of_a_source_goes_on_at_a_time_whoever_asks(make_settings: MakeSettings) -> None:
    """Spec 6.3: scheduled, manual and sync runs are under one lease."""
    async with open_day_house(make_settings(), [page("/a")], at=NOON) as house:
        house.clock.set(NIGHT)
        house.api.faults.plan(always(hang), times=None)
        running = asyncio.create_task(house.ingest())
        await until(lambda: house.api.requests)
        for ask in (house.ingest(DAY - ONE_DAY), house.desk.runs.begin_ingest("govuk", None)):
            with pytest.raises(OperatorError, match=r"run 1 of it is under way; only one runs at a time"):
                await ask
        assert (await house.desk.sources.sync("govuk")).reason == "host_busy"
        await Scheduler(house).look()
        assert await runs(house, "trigger", "status") == [("manual", "running")]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        house.api.faults.clear()
        await Scheduler(house).look()
        assert (await runs(house, "trigger", "status"))[-1] == ("schedule", "succeeded")


async def test_a_run_logs_what_it_was_and_how_it_went(make_settings: MakeSettings) -> None:
    """Spec 6.7."""
    pages = [page("/a"), page("/b"), page("/c", NOON - 90 * ONE_DAY, public_timestamp=NOON)]
    async with open_day_house(make_settings(), pages) as house:
        with capture_logs() as logs:
            run = await house.ingest()
            house.api.faults.plan(always(status(404)))
            await house.ingest()
        good, bad = (line for line in logs if line["event"] == "run.done")
        told: dict[str, Any] = {
            "date": "2026-07-13",
            "pages": 4,
            "fetched": 5,
            "total": 5,
            "items": 3,
            "new": 2,
            "latest": 1,
        }
        told |= {"status": "succeeded", "source": "govuk", "run": run["id"], "log_level": "info"}
        assert {name: good[name] for name in told} == told
        assert good["seconds"] == pytest.approx(run["seconds"], abs=0.2)
        assert (bad["status"], bad["reason"], bad["log_level"]) == ("failed", "not_found", "warning")
        assert "answered 404" in bad["error"]


class Held:
    """An answer that comes when it may."""

    def __init__(self) -> None:
        self.may_come = asyncio.Event()

    async def __call__(self, _request: web.BaseRequest) -> web.StreamResponse:
        await self.may_come.wait()
        return web.Response(status=404)


@pytest.fixture
def api() -> GovukApi:
    """GOV.UK with one page."""
    return GovukApi([page("/a")])


@pytest.fixture
async def prepared(api: GovukApi, make_settings: MakeSettings, database_url: str) -> AsyncIterator[Settings]:
    """Settings for a program in the night after DAY, whose GOV.UK is `api`."""
    await make_clock(database_url)
    await step_clock(database_url, (NIGHT - datetime.now(UTC)).total_seconds())
    async with DemoWeb(today=NIGHT.date(), sites=(serving(api),)) as web_:
        settings = make_settings(connect_to=(f"*.demo.test={web_.ip}:{web_.port}",), api_token=TOKEN)
        await schema.up(settings)
        yield settings


@pytest.fixture
async def ask(prepared: Settings) -> AsyncIterator[Ask]:
    """A way to ask the API of a running program that has the source, and one that is not dated."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving_ = asyncio.create_task(serve(prepared, [RoleName.API], make_app, on_ready=address.set_result))
    base = await address
    async with aiohttp.ClientSession() as session:

        async def send(method: str, path: str, body: object = None, token: str | None = TOKEN) -> tuple[int, Any]:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with session.request(method, base + path, json=body, headers=headers) as response:
                return response.status, await response.json()

        for name, kind, given in (("govuk", "govuk", QUICK), ("news", "site", {"feed_url": "http://news.test/feed"})):
            status_, _ = await send("POST", "/sources", {"name": name, "kind": kind, "settings": given})
            assert status_ == 201
        yield send
    os.kill(os.getpid(), signal.SIGTERM)
    await serving_


async def ended(ask: Ask, run_id: int) -> dict[str, Any]:
    """Wait for a run's end."""
    while (run := (await ask("GET", f"/ops/runs/{run_id}"))[1])["status"] == "running":
        await asyncio.sleep(0.01)
    return dict(run)


async def test_a_day_is_read_by_the_api_and_can_be_followed_there(ask: Ask, api: GovukApi) -> None:
    """Spec 6.3, 6.5, 6.7: begun at once, 409 while it goes on, listed by filters; the day and the last good one."""
    assert (await ask("GET", "/daily/latest"))[0] == 404
    held = Held()
    api.faults.plan(always(held))
    code, begun = await ask("POST", "/ops/ingest", {"source": "govuk", "date": "2026-07-12"})
    assert (code, begun["status"], begun["day"], begun["trigger"]) == (202, "running", "2026-07-12", "manual")
    code, refused = await ask("POST", "/ops/ingest", {"source": "govuk"})
    assert (code, refused["error"]["reason"]) == (409, "run_under_way")
    assert f"run {begun['id']} of it is under way" in refused["error"]["message"]
    held.may_come.set()
    failed = await ended(ask, begun["id"])
    assert (failed["status"], failed["reason"]) == ("failed", "not_found")
    code, begun = await ask("POST", "/ops/ingest", {"source": "govuk"})
    good = await ended(ask, begun["id"])
    assert (code, good["status"], good["day"], good["new"]) == (202, "succeeded", "2026-07-13", 1)

    async def listed(query: str) -> list[int]:
        code, answer = await ask("GET", f"/ops/runs?{query}")
        assert code == 200, answer
        return [run["id"] for run in answer["runs"]]

    assert await listed("") == await listed("source=govuk") == [good["id"], failed["id"]]
    assert await listed("source=news") == await listed("date=2026-07-11") == await listed("status=running") == []
    assert await listed("status=failed") == await listed("date=2026-07-12") == [failed["id"]]
    assert await listed(f"before={good['id']}") == [failed["id"]]
    code, first = await ask("GET", "/ops/runs?limit=1")
    assert ([run["id"] for run in first["runs"]], first["next"]) == ([good["id"]], good["id"])
    assert await listed(f"limit=1&before={first['next']}") == [failed["id"]]

    code, latest = await ask("GET", "/daily/latest")
    assert (code, latest["day"], latest["behind"]) == (200, "2026-07-13", [])
    assert [(one["bucket"], one["rule"]) for one in latest["items"]] == [("NEW", "published_window")]
    assert (await ask("GET", "/daily/2026-07-13?bucket=LATEST"))[1]["items"] == []
    assert len((await ask("GET", "/daily/latest?bucket=NEW&type=guidance"))[1]["items"]) == 1
    only = "source=govuk&bucket=NEW&organisation=Nobody&type=guidance"
    code, day = await ask("GET", f"/daily/2026-07-12?{only}")
    assert [(one["state"], one["reason"]) for one in day["sources"]] == [("failed", "not_found")]
    for path, expected in (
        ("/ops/runs/999", 404),
        ("/ops/runs/0", 422),
        ("/ops/runs?source=nobody", 404),
        ("/ops/runs?status=odd", 422),
        ("/ops/runs?date=yesterday", 422),
        ("/ops/runs?limit=0", 422),
        ("/ops/runs?before=0", 422),
        ("/ops/runs?day=2026-07-12", 422),
        ("/daily/yesterday", 422),
        ("/daily/2026-07-13?bucket=OLD", 422),
        ("/daily/2026-07-13?colour=red", 422),
        ("/daily/2026-07-13?source=nobody", 404),
    ):
        code, answer = await ask("GET", path)
        assert (code, set(answer["error"]) >= {"reason", "message"}) == (expected, True), path


REFUSED = {
    "future": ({"source": "govuk", "date": "2026-07-15"}, 422, "date: 2026-07-15 is yet to come in Europe/London"),
    "no date": ({"source": "govuk", "date": "13/07/2026"}, 422, "date"),
    "no such date": ({"source": "govuk", "date": "2026-02-30"}, 422, "date"),
    "a number": ({"source": "govuk", "date": 20260713}, 422, "date"),
    "too old": ({"source": "govuk", "date": "2011-12-31"}, 422, "govuk has no days before 2012-01-01"),
    "unknown": ({"source": "nobody"}, 404, "nobody"),
    "undated": ({"source": "news"}, 422, "headwater source sync news"),
    "nothing": ({}, 422, "source"),
    "misspelt": ({"source": "govuk", "day": "2026-07-13"}, 422, "day"),
}


async def test_what_cannot_be_read_is_refused_with_the_reason_and_nothing_is_started(ask: Ask, api: GovukApi) -> None:
    """Issue 7: 4xx; and without the token nobody starts anything."""
    for name, (body, expected, words) in REFUSED.items():
        code, answer = await ask("POST", "/ops/ingest", body)
        assert (name, code) == (name, expected), answer
        assert words in answer["error"]["message"]
    for token in (None, "wrong"):
        code, answer = await ask("POST", "/ops/ingest", {"source": "govuk"}, token)
        assert (code, answer["error"]["reason"]) == (401, "token_required")
    assert (await ask("GET", "/ops/runs"))[1] == {"runs": [], "next": None}
    assert not api.requests


@pytest.mark.usefixtures("ask")
async def test_the_command_line_refuses_the_same_in_one_line(
    prepared: Settings, api: GovukApi, tmp_path: Path, ask: Ask
) -> None:
    """Issue 7, spec 8.2: exit code 2, nothing started."""

    def program(*words: str) -> Any:
        given: dict[str, Any] = {"database_url": prepared.database_url, "data_dir": prepared.data_dir}
        return asyncio.to_thread(headwater, *words, cwd=tmp_path, **given)

    refusals = {
        ("ingest", "govuk", "--date", "2026-07-15"): "date: 2026-07-15 is yet to come in Europe/London.",
        ("ingest", "govuk", "--date", "13/07/2026"): "'13/07/2026' is not a day such as 2026-03-29.",
        (
            "ingest",
            "govuk",
            "--date",
            "2011-12-31",
        ): "date: govuk has no days before 2012-01-01, so none is 2011-12-31.",
        ("ingest", "nobody"): "There is no source named nobody; `headwater source list` lists them.",
        ("ingest", "news"): "Source news is not read by days: `headwater source sync news` reads it now.",
    }
    for ran, told in zip(
        await asyncio.gather(*(program(*words) for words in refusals)), refusals.values(), strict=True
    ):
        assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", f"headwater: {told}\n")
    assert (await ask("GET", "/ops/runs"))[1]["runs"] == []
    assert not api.requests


async def test_the_command_line_tells_of_a_run_that_failed_and_lists_it(
    prepared: Settings, api: GovukApi, tmp_path: Path, ask: Ask
) -> None:
    """Issue 7, spec 8.2: exit code 1."""
    del ask  # which added the source
    api.faults.plan(always(status(404)), when=ApiRequest.is_search, nth=2)
    given: dict[str, Any] = {
        "database_url": prepared.database_url,
        "data_dir": prepared.data_dir,
        "connect_to": ",".join(prepared.connect_to),
        "allow_networks": "127.0.0.0/8",
    }
    failed = await asyncio.to_thread(headwater, "ingest", "govuk", cwd=tmp_path, **given)
    assert failed.returncode == 1
    assert failed.stdout.startswith("govuk 2026-07-13: failed (not_found): http://govuk.demo.test/api/search.json")
    assert "1 items were kept; the day's index is as it was before (" in failed.stdout
    listed = (await asyncio.to_thread(headwater, "runs", cwd=tmp_path, **given)).stdout
    assert "failed" in listed
    assert "manual    govuk 2026-07-13" in listed
    assert "not_found: http://govuk.demo.test/api/search.json" in listed
