"""How federal sources reach back, whatever happens meanwhile (spec 1.4, 9.3; issue 10)."""

import asyncio
import contextlib
import re
import signal
import subprocess
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from headwater.config import Settings
from headwater.demo.federal_sites import API, GOVINFO, KEY, REGISTER
from headwater.demo.web import DemoWeb
from headwater.errors import OperatorError, RunUnderWay
from headwater.service.source_trial import Stage
from tests.house import House, open_house
from tests.integration.test_federal import TODAY, MakeSettings, add, items, open_federal, serving
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


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("federal_register", "--set since=2026-01-02`, and then"),
        ("public_laws", r"--set 'congresses=\[117, 118\]'`, and"),
    ],
)
async def test_a_source_that_reaches_back_by_a_setting_says_so_when_it_is_to_be_backfilled(
    name: str, words: str, house: House
) -> None:
    """Spec 8.2."""
    await add(house, name)
    with pytest.raises(OperatorError, match=f"`headwater source edit {name} {words}"):
        await house.desk.sources.backfill(name, date(2026, 1, 2))


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("federal_register", {"since": (TODAY + timedelta(days=1)).isoformat()}, "since: .* is yet to come"),
        ("bills", {"congresses": [1119]}, r"congresses: Congress 1119 is yet to come; now it is \d+\."),
        ("public_laws", {"congresses": [119, 999]}, r"congresses: Congress 999 is yet to come; now it is \d+\."),
    ],
)
async def test_a_source_that_would_wait_for_years_says_so_instead_of_reading_nothing(
    name: str, settings: dict[str, object], words: str, make_settings: MakeSettings
) -> None:
    """Spec 1.1."""
    async with open_federal(make_settings(api_data_gov_key=KEY), REGISTER, GOVINFO, API) as house:
        await add(house, name, **settings)
        polled = await house.desk.sources.sync(name)
        assert polled.reason == "bad_source"
        assert re.search(words, str(polled.error))


async def test_a_source_is_tried_without_waiting_for_a_budget_that_is_spent(make_settings: MakeSettings) -> None:
    """Spec 1.4, 8.2: a run waits, who looks on is told."""
    api = API.api(TODAY, 0)
    settings = make_settings(api_data_gov_key=KEY, host_delay_ms=1, rate_limits={"bills": 1})
    async with open_federal(settings, GOVINFO, serving(API, api)) as house:
        await add(house, "bills")
        stages: list[Stage] = []
        assert not await house.desk.sources.test("bills", stages.append)
        assert "used up; it waits until there is room again. `headwater source budgets` tells when" in str(
            stages[-1].error
        )
        assert len(api.keys) == 1


async def test_a_page_beside_an_api_that_takes_the_key_is_read_without_it(make_settings: MakeSettings) -> None:
    """Spec 1.4: the key goes to the API alone; what stands beside it on the same host is a page like any other."""
    async with open_federal(make_settings(api_data_gov_key=KEY), REGISTER) as house:
        await add(house, "federal_register", budget="api.data.gov")
        stages: list[Stage] = []
        assert await house.desk.sources.test("federal_register", stages.append), stages
        assert [stage.name for stage in stages] == ["settings", "list", "newest page", "article"]
