"""How federal sources reach back, whatever happens meanwhile (spec 1.4, 9.3; issue 10)."""

import asyncio
import contextlib
import re
import signal
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from headwater.core.errors import OperatorError, RunUnderWay
from headwater.core.settings import Settings
from headwater.demo.answers import Answer, Body, whole
from headwater.demo.federal_sites import API, GOVINFO, KEY, REGISTER
from headwater.demo.web import DemoWeb
from tests.harness import AppHarness, open_harness
from tests.integration.test_federal import TODAY, MakeSettings, add, items, open_federal, serving
from tests.program import Forked, forked


async def test_a_backfill_that_is_killed_while_it_waits_has_lost_no_look_up(
    make_settings: MakeSettings, tmp_path: Path
) -> None:
    """Spec 1.4, 9.3: lookups are saved before the wait, are not repeated, and none is left out."""
    api = API.api(TODAY, 0)
    settings = make_settings(api_data_gov_key=KEY, host_delay_ms=1, lease_seconds=5.0, page_timeout_seconds=1.0)
    async with DemoWeb(today=TODAY, sites=(GOVINFO, serving(API, api))) as web:
        reached = replace(settings, connect_to=(f"*.demo.test={web.ip}:{web.port}",))
        async with open_harness(reached) as harness:
            await add(harness, "bills", fetch_items=False)
            program = _started_backfill(reached, tmp_path, rate_limit_bills_per_hour=10)
            try:
                async with asyncio.timeout(60):
                    while len(await items(harness)) < 10:  # its share; then it waits
                        await asyncio.sleep(0.02)
                async with asyncio.timeout(10):
                    while "It waits for its budget; the next" not in str(
                        await harness.operations.sources.show("bills")
                    ):
                        await asyncio.sleep(0.02)
                with pytest.raises(RunUnderWay):
                    await harness.operations.sources.backfill("bills", date(2023, 6, 1))
            finally:
                program.send_signal(signal.SIGKILL)
                said = await asyncio.to_thread(program.communicate)
            assert program.returncode == -signal.SIGKILL, said
            counts = []
            async with asyncio.timeout(60):
                while len(await items(harness)) < 27:
                    with contextlib.suppress(RunUnderWay):  # until the lease of the one that was killed has ended
                        counts.append((await harness.operations.sources.backfill("bills", date(2023, 6, 1))).items)
                    await asyncio.sleep(0.02)
            assert counts == [17]
            asked = [request.path for request in api.requests]
            assert len(asked) == len(set(asked)) == 27
            assert [path.split("/")[4] for path in asked[:4]] == ["119", "119", "119", "118"]  # the one that sits first


async def test_a_backfill_is_done_when_nothing_is_left_and_says_how_much_until_then(
    make_settings: MakeSettings,
) -> None:
    """Spec 3.3: the next run follows at once and reads the rest."""
    async with open_federal(make_settings(api_data_gov_key=KEY, host_delay_ms=1), GOVINFO, API) as harness:
        await add(harness, "bills", lookups_per_run=10, fetch_items=False)
        first = await harness.operations.sources.backfill("bills", date(2023, 6, 1))
        assert (first.error, first.items, first.left) == (None, 10, 17)
        (waiting,) = (await harness.operations.sources.show("bills")).methods
        assert waiting.backfill_since is not None
        assert waiting.next_poll_why.startswith("17 ")
        assert waiting.next_poll_at <= datetime.now(UTC) + timedelta(minutes=1)
        assert [(await harness.operations.sources.sync("bills")).left for _ in range(2)] == [7, 0]
        (done,) = (await harness.operations.sources.show("bills")).methods
        assert done.backfill_since is None
        assert done.next_poll_at > datetime.now(UTC) + timedelta(hours=3)


async def test_a_key_that_is_refused_half_way_keeps_what_came_before_and_fails_at_once(
    make_settings: MakeSettings,
) -> None:
    """Spec 1.4: one lookup is spent on it, and the run names the cause, though other lookups succeed."""
    api = API.api(TODAY, 0)
    api.faults.plan(_refuse_key, when=lambda asked: asked.path.endswith("/2"), times=None)
    async with open_federal(
        make_settings(api_data_gov_key=KEY, host_delay_ms=1), GOVINFO, serving(API, api)
    ) as harness:
        await add(harness, "bills", fetch_items=False)
        refused = await harness.operations.sources.sync("bills")
        assert (refused.reason, refused.items, len(api.keys)) == ("bad_setting", 1, 2)
        assert "BILLSTATUS" not in str(refused.error)
        assert (await harness.operations.sources.show("bills")).last_reason == "bad_setting"
        api.faults.clear()
        assert (await harness.operations.sources.sync("bills")).items == 2


def _refuse_key(body: Body) -> Answer:
    refusal = replace(body, content=b'{"error": {"code": "API_KEY_INVALID"}}')
    return whole(refusal, status=403)


def _started_backfill(settings: Settings, folder: Path, **more: object) -> Forked:
    return forked(
        *("source", "backfill", "bills", "--since", "2023-06-01"),
        cwd=folder,
        data_dir=settings.data_dir,
        database_url=settings.database_url,
        connect_to=settings.connect_to[0],
        allow_networks=settings.allow_networks[0],
        api_data_gov_key=KEY,
        host_delay_ms=1,
        lease_seconds=settings.lease_seconds,
        page_timeout_seconds=settings.page_timeout_seconds,
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
    name: str, words: str, harness: AppHarness
) -> None:
    """Spec 8.2."""
    await add(harness, name)
    with pytest.raises(OperatorError, match=f"`headwater source edit {name} {words}"):
        await harness.operations.sources.backfill(name, date(2026, 1, 2))


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
    async with open_federal(make_settings(api_data_gov_key=KEY), REGISTER, GOVINFO, API) as harness:
        await add(harness, name, **settings)
        polled = await harness.operations.sources.sync(name)
        assert polled.reason == "bad_source"
        assert re.search(words, str(polled.error))


async def test_a_source_is_tried_without_waiting_for_a_budget_that_is_spent(make_settings: MakeSettings) -> None:
    """Spec 1.4, 8.2: a run waits, and users see why."""
    api = API.api(TODAY, 0)
    settings = make_settings(api_data_gov_key=KEY, host_delay_ms=1, rate_limits={"bills": 1})
    async with open_federal(settings, GOVINFO, serving(API, api)) as harness:
        await add(harness, "bills")
        result = await harness.operations.sources.test("bills")
        assert not result.works
        assert "`headwater source budgets`" in str(result.stages[-1].error)
        assert len(api.keys) == 1


async def test_a_page_of_an_api_host_is_read_without_the_key(make_settings: MakeSettings) -> None:
    """Spec 1.4: the key goes to the API alone; another page of the same host is a page like any other."""
    async with open_federal(make_settings(api_data_gov_key=KEY), REGISTER) as harness:
        await add(harness, "federal_register", budget="api.data.gov")
        result = await harness.operations.sources.test("federal_register")
        assert result.works, result
        assert [stage.name for stage in result.stages] == ["settings", "list", "newest page", "article"]
