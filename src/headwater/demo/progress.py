"""The progress of the demo. It is reported at each step, and again while nothing changes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Sequence

from headwater.core.frontier import FrontierStatus
from headwater.core.urls import host_of
from headwater.core.waiting import finish_or_cancel
from headwater.db.frontier import UrlLine

Progress = Callable[[str, int, int, str], None]  # stage, steps done, steps in all, what it waits for ("" for nothing)


@contextlib.asynccontextmanager
async def repeat_progress(progress: Progress, seconds: float = 1.0) -> AsyncIterator[Progress]:
    """Pass reports on, and repeat the newest one every so often: a stage that hangs shows what it waits for."""
    newest: tuple[str, int, int, str] | None = None

    def report(stage: str, done: int, total: int, waits_for: str) -> None:
        nonlocal newest
        newest = stage, done, total, waits_for
        progress(*newest)

    async def repeat() -> None:
        while True:
            await asyncio.sleep(seconds)
            if newest:
                progress(*newest)

    repeating = asyncio.create_task(repeat())
    try:
        yield report
    finally:
        if not await finish_or_cancel([repeating], 0):
            repeating.result()


def describe_wait(
    *,
    feeds: int,
    unsettled: Sequence[UrlLine],
    unfound: Collection[str],
    sources: Sequence[str],
    handoffs: int,
) -> str:
    """Describe the first thing that the demo waits for, or return "" if it waits for nothing."""
    if feeds:
        return counted(feeds, "feed")
    if unsettled:
        return _describe_hosts(unsettled)
    if unfound:
        return f"{counted(len(unfound), 'page')} of {' and '.join(sorted(set(map(host_of, unfound))))} to be found"
    if sources:
        return f"{' and '.join(sources)} to be read"
    return f"{counted(handoffs, 'hand-off')} to be done" if handoffs else ""


def _describe_hosts(unsettled: Sequence[UrlLine]) -> str:
    """Describe the hosts whose URLs are not settled and, if it is the same for all, their next step."""
    hosts = counted(len({outcome.host for outcome in unsettled}), "host")
    if all(outcome.status != FrontierStatus.PENDING for outcome in unsettled):
        return f"{hosts} to answer"
    if all(outcome.status == FrontierStatus.PENDING and outcome.waiting_reason for outcome in unsettled):
        return f"{hosts} to be asked again"
    return hosts


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as "2 pages"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
