"""Runs and days through the doors that people have: the API and the command line (spec 6.3, 6.5, 6.7, 8.2; issue 7)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from headwater.app import schema
from headwater.core.settings import Settings
from headwater.demo.answers import always, status
from headwater.demo.api import ApiRequest
from headwater.demo.govuk_api import GovukApi
from headwater.demo.web import DemoWeb
from tests.api import TOKEN, open_api
from tests.database_clock import make_clock, step_clock
from tests.govuk import NIGHT, QUICK, page, serving
from tests.program import headwater

MakeSettings = Callable[..., Settings]
Ask = Callable[..., Awaitable[tuple[int, Any]]]


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
    async with open_api(prepared) as served:
        for name, kind, given in (("govuk", "govuk", QUICK), ("news", "site", {"feed_url": "http://news.test/feed"})):
            body = {"name": name, "kind": kind, "settings": given}
            assert (await served.request("POST", "/sources", body))[0] == 201
        yield served.request


async def ended(ask: Ask, run_id: int) -> dict[str, Any]:
    """Wait for a run's end."""
    while (run := (await ask("GET", f"/ops/runs/{run_id}"))[1])["status"] == "running":
        await asyncio.sleep(0.01)
    return dict(run)


async def test_a_day_is_read_by_the_api_and_can_be_followed_there(ask: Ask, api: GovukApi) -> None:
    """Spec 6.3, 6.5, 6.7: started at once, 409 during it, listed by filters; the day and the last good one."""
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
    assert [(one["bucket"], one["rule"]) for one in latest["items"]] == [("NEW", "content_api")]
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


async def test_a_day_that_cannot_be_read_is_refused_and_starts_no_run(ask: Ask, api: GovukApi) -> None:
    """Issue 7: 4xx; and without the token no run starts."""
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
    for ran, message in zip(
        await asyncio.gather(*(program(*words) for words in refusals)), refusals.values(), strict=True
    ):
        assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", f"headwater: {message}\n")
    assert (await ask("GET", "/ops/runs"))[1]["runs"] == []
    assert not api.requests


async def test_the_command_line_shows_and_lists_a_failed_run(
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
