"""More processes that fetch, while one has more work than it can do (the setting fetch_processes).

One Python process uses one core. `headwater up` fetches alone as long as that is enough. While its workers have been
busy for a moment and more hosts are ready, it runs further processes with the command `headwater worker`. They claim
from the same queue, so the pace of each host holds. Each stops when its standard input ends, so none outlives `up`.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable

import structlog

log = structlog.get_logger()
_COMMAND = (sys.executable, "-c", "from headwater.cli import main; main()", "worker", "--until-input-ends")
_CHECK_SECONDS = 0.5
_BUSY_SECONDS = 2.0  # a shorter wave of work is over before another process could help
_QUIET_SECONDS = 60.0
_MOST = 4
_LONGEST_WAIT_SECONDS = 60.0


def count_processes(setting: int) -> int:
    """Return how many processes fetch. By default each core has one, but there are at most four."""
    return setting or min(
        _MOST, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )


class FetchProcesses:
    """Starts processes that fetch while this one is busy, and stops them when it is not."""

    def __init__(self, most: int, busy_since: Callable[[], float | None]) -> None:
        self._most = most
        self._busy_since = busy_since
        self._running: list[asyncio.subprocess.Process] = []
        self._last_busy = 0.0
        self._failures = 0  # processes that ended by themselves, or did not start, since one had to stop
        self._not_before = 0.0

    async def run(self, stop: asyncio.Event, grace_seconds: float) -> None:
        """Start and stop processes until `stop`. Then stop all."""
        try:
            while not stop.is_set():
                await self._adapt()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_CHECK_SECONDS):
                        await stop.wait()
        finally:
            await self._stop(2 * grace_seconds + 1)

    async def _adapt(self) -> None:
        now, since = asyncio.get_running_loop().time(), self._busy_since()
        for process in [process for process in self._running if process.returncode is not None]:
            log.warning("fetch_process.ended", process=process.pid, code=process.returncode)
            self._running.remove(process)
            self._wait(now)
        if since is not None and now - since >= _BUSY_SECONDS:
            self._last_busy = now
            if len(self._running) < self._most and now >= self._not_before:
                try:
                    self._running.append(await _start())
                except OSError as error:
                    log.warning("fetch_process.start_failed", error=str(error))
                    self._wait(now)
        elif self._running and now - self._last_busy >= _QUIET_SECONDS:
            await self._stop(_QUIET_SECONDS)

    def _wait(self, now: float) -> None:
        """Start no process for a while, which grows with each failure. This process continues to fetch."""
        self._failures += 1
        self._not_before = now + min(2.0**self._failures, _LONGEST_WAIT_SECONDS)

    async def _stop(self, seconds: float) -> None:
        """Ask all processes to stop. Kill those that have not ended after the time: their leases expire."""
        for process in self._running:
            assert process.stdin is not None
            process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for process in self._running:
                    await process.wait()
        for process in self._running:
            if process.returncode is None:
                process.kill()
                await process.wait()
        self._running = []
        self._failures = 0


async def _start() -> asyncio.subprocess.Process:
    # In a session of its own, so that Ctrl-C in the terminal does not reach it before its parent.
    process = await asyncio.create_subprocess_exec(
        *_COMMAND, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, start_new_session=True
    )
    log.info("fetch_process.started", process=process.pid)
    return process


def watch_input(stop: asyncio.Event) -> None:
    """Set `stop` when standard input ends."""

    def read() -> None:
        if not os.read(0, 4096):
            asyncio.get_running_loop().remove_reader(0)
            stop.set()

    asyncio.get_running_loop().add_reader(0, read)
