"""`headwater history` and `/ops/history` as users have them (issue 22)."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path

from headwater.app.roles import RoleName
from headwater.history.recorder import mark_start, record_history
from tests.api import open_api
from tests.database_state import backdate
from tests.harness import AppHarness
from tests.program import headwater, program_settings
from tests.server import Answer, Site, page

PAGE = "http://news.test/a"


async def test_the_api_and_the_command_return_the_same_history(site: Site, harness: AppHarness, tmp_path: Path) -> None:
    site.answers[PAGE] = Answer(page("floods"), headers={"Content-Type": "text/html"})
    await harness.fetch(PAGE, "http://news.test/gone")
    await harness.execute("TRUNCATE history")
    await backdate(harness, "fetch_log.finished_at", timedelta(minutes=5))
    context = harness.runtime.context
    await mark_start(context, [RoleName.API])
    await record_history(context.database, context.clock.now())

    async with open_api(context.settings) as api:
        status, answered = await api.get("/ops/history?window=hour")
    printed = await asyncio.to_thread(
        headwater, "history", "--json", cwd=tmp_path, **program_settings(context.settings)
    )
    for found in (answered, json.loads(printed.stdout)):
        sums = {metric: sum(filter(None, values)) for metric, values in found["values"].items()}
        assert (sums["fetched"], sums["failed_permanent"], sums["documents"], sums["pages"]) == (1, 1, 1, 1)
        assert {mark["kind"] for mark in found["marks"]} == {"restart"}
    assert status == 200
    text = await asyncio.to_thread(headwater, "history", cwd=tmp_path, **program_settings(context.settings))
    assert "restart: Headwater" in text.stdout
