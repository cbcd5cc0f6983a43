"""The browser's life (spec 1.7): started by the first need, restarted when it dies, gone with its process."""

import asyncio
import gc
import os
import subprocess
import sys
from asyncio.base_subprocess import BaseSubprocessTransport
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import async_playwright

from headwater.browser import chromium as module
from headwater.browser.chromium import start_chromium, start_driver
from headwater.browser.processes import make_folder
from headwater.core.errors import ExchangeFailed, NotNow, OperatorError
from headwater.core.http import Limits
from headwater.core.reasons import Reason
from tests.browser.conftest import HTML, Browsing, open_browsing
from tests.browser.processes import (
    find_browser_processes,
    find_drivers,
    find_process,
    is_running,
    kill_renderers,
    read_environment,
)
from tests.program import environment, wait_until
from tests.server import Answer
from tests.waiting import until

PAGE = "http://a.test/page"
HANGS = "http://a.test/hangs"
# A program that opens a page and reports it. A line on its input decides how it ends.
PROGRAM = """
import asyncio, sys
from tests.browser.conftest import HTML, open_browsing
from tests.server import Answer

async def main():
    async with open_browsing() as browsing:
        browsing.site.answers["http://a.test/page"] = Answer("<p>here", headers=HTML)
        await browsing.get("http://a.test/page")
        print("open", flush=True)
        how = (await asyncio.to_thread(sys.stdin.readline)).strip()
        if how == "fail":
            raise ValueError

asyncio.run(main())
"""


async def test_the_browser_starts_once_with_the_first_page_and_ends_with_its_client(folder: Path) -> None:
    async with open_browsing() as browsing:
        browsing.site.answers[PAGE] = Answer("<p>here", headers=HTML)
        assert find_browser_processes(folder) == []
        await asyncio.gather(*(browsing.get(PAGE, source) for source in ("one", "two", "three")))
        first = find_process("browser", folder)
        await browsing.get(PAGE)
        assert find_process("browser", folder) == first
        started = find_browser_processes(folder)
        assert_all_features_of_playwrights_list_are_off(first.cmdline())
    await until(lambda: not any(map(is_running, started)))
    assert os.listdir(folder) == []


def assert_all_features_of_playwrights_list_are_off(command: list[str]) -> None:
    """Chromium obeys the last of two lists, which is ours."""
    flag = "--disable-features="
    theirs, ours = ({*word.removeprefix(flag).split(",")} for word in command if word.startswith(flag))
    assert theirs < ours


@pytest.mark.parametrize("victim", ["chromium", "driver", "network"])
async def test_a_browser_killed_during_a_page_is_replaced_for_the_next_page(victim: str, folder: Path) -> None:
    """The page is not stored, and the log has no error of it."""
    unheard: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    async with open_browsing() as browsing:
        begun = Answer(f"<p>half</p><script>fetch('{HANGS}')</script>", headers=HTML)
        browsing.site.answers[PAGE] = [begun, Answer("<p>here", headers=HTML)]
        browsing.site.hanging.add(HANGS)
        waiting = asyncio.create_task(browsing.get(PAGE))
        await until(lambda: HANGS in browsing.site.waiting or waiting.done())
        started = find_browser_processes(folder)
        find_process(victim, folder).kill()
        with pytest.raises(ExchangeFailed) as caught:
            await waiting
        assert caught.value.reason is Reason.BROWSER_CRASHED
        assert b"here" in (await browsing.get(PAGE)).body
        await until(lambda: not any(map(is_running, started)))
    gc.collect()
    assert [context for context in unheard if "never retrieved" in context["message"]] == []


async def test_pages_open_during_a_crash_use_no_retry_and_are_tried_again_alone(folder: Path) -> None:
    pages = {source: f"http://{source}.test/page" for source in ("one", "two")}
    async with open_browsing() as browsing:
        begun = Answer(f"<script>fetch('{HANGS}')</script>", headers=HTML)
        for url in pages.values():
            browsing.site.answers[url] = [begun, Answer("<p>here", headers=HTML)]
        browsing.site.hanging.add(HANGS)
        await browsing.get("http://a.test/nothing")
        waiting = [asyncio.create_task(browsing.try_once(url, source)) for source, url in pages.items()]
        await until(lambda: all(map(browsing.site.visits, pages.values())))
        find_process("browser", folder).kill()
        for page in waiting:
            with pytest.raises(NotNow) as caught:
                await page
            assert caught.value.reason is Reason.BROWSER_BUSY
        assert b"here" in (await browsing.get(pages["one"], "one")).body
        await until(lambda: not find_browser_processes(folder))  # the browser that it had to itself is gone with it


async def test_a_driver_that_hangs_is_killed_with_its_browser_and_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver gets only the variables that it needs."""
    monkeypatch.setenv("HEADWATER_API_TOKEN", "not to be told")
    async with open_browsing() as browsing:
        await browsing.get(PAGE)
        started = [*find_browser_processes(folder), *find_drivers(folder)]
        assert not any("HEADWATER_API_TOKEN" in environ for environ in map(read_environment, started))
        find_drivers(folder)[0].suspend()
        monkeypatch.setattr("headwater.browser.chromium._CLOSE_SECONDS", 0.01)
    assert open_transports() == []
    await until(lambda: not any(map(is_running, started)))
    assert os.listdir(folder) == []


def open_transports() -> list[BaseSubprocessTransport]:
    """Return the pipes to processes that were not awaited."""
    return [one for one in gc.get_objects() if isinstance(one, BaseSubprocessTransport) and not one._closed]


async def test_a_browser_that_dies_between_two_pages_affects_neither(folder: Path) -> None:
    async with open_browsing() as browsing:
        browsing.site.answers[PAGE] = Answer("<p>here", headers=HTML)
        await browsing.get(PAGE)
        started = find_browser_processes(folder)
        find_drivers(folder)[0].kill()
        await until(lambda: not any(map(is_running, started)))
        assert (await browsing.get(PAGE)).status == 200


async def test_a_browser_that_hangs_is_replaced_in_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_browsing() as browsing:
        browsing.site.answers[PAGE] = Answer("<p>here", headers=HTML)
        await browsing.get(PAGE)
        started = find_browser_processes(folder)
        for process in started:
            process.suspend()
        with monkeypatch.context() as patched:
            for margin in ("_MARGIN_SECONDS", "_RESPONSE_SECONDS"):
                patched.setattr(f"headwater.browser.client.{margin}", 0.2)
            async with asyncio.timeout(10):
                with pytest.raises(ExchangeFailed) as caught:
                    await browsing.get(PAGE, "another", limits=Limits(total_seconds=1.5))
        assert caught.value.reason is Reason.BROWSER_CRASHED
        assert (await browsing.get(PAGE)).status == 200
        await until(lambda: not any(map(is_running, started)))


async def test_a_context_of_a_dead_browser_is_not_used_with_the_next_browser(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One source's context is being opened when the browser dies and another source's page starts the next."""
    apply_stealth, opening, continues = module.apply_stealth, asyncio.Event(), asyncio.Event()

    async def apply_stealth_late(context: Any, profile: str) -> None:
        await apply_stealth(context, profile)
        opening.set()
        await continues.wait()

    async with open_browsing() as browsing:
        browsing.site.answers[PAGE] = Answer("<p>here", headers=HTML)
        await browsing.get(PAGE, "one")
        with monkeypatch.context() as patched:
            patched.setattr(module, "apply_stealth", apply_stealth_late)
            late = asyncio.create_task(browsing.get(PAGE, "two"))
            await opening.wait()
        find_process("browser", folder).kill()
        await until(lambda: not find_browser_processes(folder))
        assert (await browsing.get(PAGE, "one")).status == 200
        continues.set()
        with pytest.raises(ExchangeFailed):
            await late
        assert (await browsing.get(PAGE, "two")).status == 200


async def test_a_page_that_crashes_its_renderer_has_its_own_reason(folder: Path) -> None:
    async with open_browsing() as browsing:
        browsing.site.answers[PAGE] = [Answer(f"<script>fetch('{HANGS}')</script>", headers=HTML), Answer("", 204)]
        browsing.site.hanging.add(HANGS)
        waiting = asyncio.create_task(browsing.get(PAGE))
        await until(lambda: HANGS in browsing.site.waiting)
        kill_renderers(folder)
        with pytest.raises(ExchangeFailed) as caught:
            await waiting
        assert caught.value.reason is Reason.BROWSER_CRASHED
        assert (await browsing.get(PAGE)).status == 204


async def test_a_page_that_needs_too_much_memory_is_killed_and_its_browser_is_not(folder: Path) -> None:
    grow = "const held = []; setInterval(() => held.push(new Uint8Array(50e6).fill(7)), 50); fetch('/hangs')"
    async with open_browsing(browser_memory_mb=600) as browsing:
        browsing.site.answers[PAGE] = [Answer(f"<script>{grow}</script>", headers=HTML), Answer("", 204)]
        browsing.site.hanging.add(HANGS)
        with pytest.raises(ExchangeFailed, match="over 600 MB of memory") as caught:
            await browsing.get(PAGE)
        assert caught.value.reason is Reason.BODY_TOO_LARGE
        first = find_process("browser", folder)
        assert (await browsing.get(PAGE)).status == 204
        assert find_process("browser", folder) == first


@pytest.mark.parametrize("how", ["fail", "SIGKILL", "SIGKILL while the driver hangs"])
def test_no_browser_process_outlives_the_program(how: str, folder: Path) -> None:
    """Spec 9.3: the next browser that starts removes the processes and files that are left."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
        cwd=Path(__file__).parents[2],
    )
    assert process.stdin
    assert process.stdout
    try:
        assert "open\n" in iter(process.stdout.readline, "")
        started = [*find_browser_processes(folder), *find_drivers(folder)]
        assert len(started) > 3
        if how.endswith("hangs"):
            find_drivers(folder)[0].suspend()
        if how.startswith("SIGKILL"):
            process.kill()
        else:
            process.stdin.write(f"{how}\n")
            process.stdin.flush()
        process.wait(20)
        if not how.endswith("hangs"):
            wait_until(lambda: not any(map(is_running, started)))
        make_folder().remove()
        wait_until(lambda: not any(map(is_running, started)))
        assert os.listdir(folder) == []
    finally:
        process.kill()
        process.communicate()


async def test_cancelling_a_start_leaves_no_process_behind(folder: Path) -> None:
    async with open_browsing() as browsing:
        waiting = asyncio.create_task(browsing.get(PAGE))
        looks = count()
        await until(lambda: find_drivers(folder) and next(looks) == 5)  # the driver is there, but has not yet answered
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert (find_drivers(folder), open_transports()) == ([], [])


@pytest.mark.parametrize("does", ["exit 1", "exec >&-; exec sleep 60"])
async def test_a_driver_that_does_not_start_is_killed(
    does: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends, or it only falls silent."""
    driver = tmp_path / "node"
    driver.write_text(f"#!/bin/sh\n{does}\n")
    driver.chmod(0o700)
    monkeypatch.setenv("PLAYWRIGHT_NODEJS_PATH", str(driver))
    with pytest.raises(Exception, match="Connection closed"):
        await start_driver(folder)
    assert open_transports() == []
    async with open_browsing() as browsing:
        with pytest.raises(OperatorError, match=r"Playwright's driver does not start \(Connection closed"):
            await browsing.get(PAGE)
    assert os.listdir(folder) == ["node"]


async def test_a_driver_that_a_plugin_starts_keeps_the_whole_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_A_PLUGIN", "kept")
    ours = folder / "ours"
    ours.mkdir()
    driver = await start_driver(ours)
    (started,) = find_drivers(ours)
    assert "OF_A_PLUGIN" not in read_environment(started)
    await driver.stop()
    async with async_playwright():
        (theirs,) = find_drivers(folder)
        assert read_environment(theirs)["OF_A_PLUGIN"] == "kept"
        assert read_environment(theirs)["TMPDIR"] == str(folder)


async def test_a_missing_chromium_is_reported() -> None:
    async with open_browsing(chromium_path="/nowhere/chromium") as browsing:
        with pytest.raises(OperatorError, match="no Chromium at /nowhere/chromium") as caught:
            await browsing.get(PAGE)
    assert caught.value.reason is Reason.NO_BROWSER


async def test_a_program_that_is_not_a_browser_is_reported(tmp_path: Path) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(OperatorError, match=f"^{program} does not start .*HEADWATER_CHROMIUM_PATH") as caught:
        await start_chromium(str(program))
    assert caught.value.reason is Reason.NO_BROWSER


async def test_a_page_without_a_free_place_waits_without_a_retry(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.browser.client._PATIENCE_SECONDS", 0.1)
    async with open_browsing(browser_pages=1) as browsing:
        browsing.site.hanging.add(HANGS)
        with pytest.raises(NotNow) as caught:
            await _both(browsing)
    assert caught.value.reason is Reason.BROWSER_BUSY


async def _both(browsing: Browsing) -> None:
    async def ask(url: str) -> None:
        await browsing.try_once(url, "source", "none")

    first = asyncio.create_task(ask(HANGS))
    try:
        await ask(PAGE)
    finally:
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
