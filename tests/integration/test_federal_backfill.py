"""How federal sources reach back, whatever happens meanwhile (spec 1.4, 9.3; issue 10)."""

import asyncio
import contextlib
import signal
import subprocess
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from headwater.config import Settings
from headwater.demo.federal_sites import API, GOVINFO, KEY
from headwater.demo.web import DemoWeb
from headwater.errors import OperatorError, RunUnderWay
from tests.house import House, open_house
from tests.integration.test_federal import TODAY, MakeSettings, add, items, serving
from tests.program import start


async def test_a_backfill_that_is_killed_goes_on_where_it_was(make_settings: MakeSettings, tmp_path: Path) -> None:
    """Spec 9.3: what earlier runs have saved is not looked up again, what it had not saved is, and none is left out."""
    api = API.api(TODAY, 0)
    settings = make_settings(api_data_gov_key=KEY, host_delay_ms=1, lease_seconds=5.0, page_seconds=1.0)
    async with DemoWeb(today=TODAY, sites=(GOVINFO, serving(API, api))) as web:
        reached = replace(settings, connect_to=(f"*.demo.test={web.ip}:{web.port}",))
        async with open_house(reached) as house:
            await add(house, "bills", lookups_per_run=7, fetch_items=False)
            assert (await house.desk.sources.backfill("bills", date(2023, 6, 1))).items == 7
            saved = {request.path for request in api.requests}
            program = _started_backfill(reached, tmp_path, rate_limit_bills_per_hour=10)
            try:
                async with asyncio.timeout(60):
                    while len(api.requests) < 10:  # the three that are left of its share; then it waits
                        await asyncio.sleep(0.02)
            finally:
                program.kill()
                said = await asyncio.to_thread(program.communicate)
            assert program.returncode == -signal.SIGKILL, said
            assert len(await items(house)) == 7
            api.requests.clear()
            counts = []
            while len(await items(house)) < 19:
                with contextlib.suppress(RunUnderWay):  # until the lease of the one that was killed has ended
                    counts.append((await house.desk.sources.sync("bills")).items)
                await asyncio.sleep(0.02)
            assert counts == [7, 5]
            asked = [request.path for request in api.requests]
            assert len(asked) == len(set(asked)) == 12
            assert not saved & set(asked)


def _started_backfill(settings: Settings, folder: Path, **more: object) -> "subprocess.Popen[str]":
    return start(
        *("source", "backfill", "bills", "--since", "2023-06-01"),
        cwd=folder,
        data_dir=settings.data_dir,
        database_url=settings.database_url,
        connect_to=settings.connect_to[0],
        allow_networks=settings.allow_networks[0],
        api_data_gov_key=KEY,
        host_delay_ms=1,
        lease_seconds=settings.lease_seconds,
        page_seconds=settings.page_seconds,
        **more,
    )


async def test_a_source_that_reaches_back_by_a_setting_says_so_when_it_is_to_be_backfilled(house: House) -> None:
    await add(house, "federal_register")
    with pytest.raises(OperatorError, match="`headwater source edit federal_register --set since=2026-01-02`, then"):
        await house.desk.sources.backfill("federal_register", date(2026, 1, 2))
