"""`up` fetches in several processes while there is much to fetch (the setting fetch_processes, issue 25)."""

import asyncio
import time

import psutil
import pytest
import structlog

from headwater.app import fetch_processes
from headwater.app.fetch_processes import count_processes
from tests.faults.conftest import Crawl
from tests.faults.harness import Harness
from tests.faults.invariants import violations
from tests.waiting import until

HOLDERS = "SELECT count(DISTINCT holder) FROM fetch_log"


@pytest.mark.timeout(300)
async def test_processes_that_fetch_stop_with_their_parent_and_lose_nothing(crawl: Crawl) -> None:
    """Spec 9.3 and 4.2: also if the parent is killed. All invariants hold, politeness among them."""
    async with crawl(hosts=300, pages=10, feeds=10, plain=True, fetch_processes=3, fetch_workers=1) as harness:
        parent = await harness.start("up")
        await harness.until_under_way(0.01)
        children = await until(lambda: find_children(harness, 2), 60)

        async def all_fetch() -> bool:
            return await harness.rows(HOLDERS) >= [(3,)]

        await until(all_fetch, 60)
        words = await harness.kill(parent)
        await until(lambda: not any(child.is_running() for child in children), 30)
        await harness.start(*words)
        await until(lambda: find_children(harness, 2), 60)
        await harness.until_done(200)
        children = find_children(harness, 2)
        await harness.stop()
        assert not any(child.is_running() for child in children)
        assert await violations(harness) == {}


@pytest.mark.parametrize("command", [("/nothing/at/all",), ("false",)])
async def test_a_process_that_does_not_start_or_ends_at_once_is_tried_again_more_and_more_rarely(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program itself continues to fetch meanwhile."""
    monkeypatch.setattr(fetch_processes, "_COMMAND", command)
    monkeypatch.setattr(fetch_processes, "_CHECK_SECONDS", 0.01)
    monkeypatch.setattr(fetch_processes, "_BUSY_SECONDS", 0.0)
    stop = asyncio.Event()
    with structlog.testing.capture_logs() as logs:
        began = time.monotonic()
        running = asyncio.create_task(fetch_processes.FetchProcesses(1, lambda: 0.0).run(stop, 1.0))
        await until(lambda: len([line for line in logs if line["log_level"] == "warning"]) >= 2, 20)
        assert time.monotonic() - began > 1.0
        stop.set()
        await running


def find_children(harness: Harness, count: int) -> list[psutil.Process]:
    """Return the processes that fetch for the programs of a harness, or none if there are not so many."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        if "--until-input-ends" in (process.info["cmdline"] or ()) and process.info["cwd"] == str(harness.folder):
            found.append(process)
    return found if len(found) == count else []


def test_each_core_has_a_process_but_at_most_four() -> None:
    cores = len(psutil.Process().cpu_affinity())
    assert count_processes(0) == min(cores, 4)
    assert count_processes(7) == 7
