"""How far the demo is, told as it goes on and again while it does not."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any

from headwater.core.frontier import UrlStatus
from headwater.core.urls import host_of

Progress = Callable[[str, int, int, str], None]  # stage, done, of how many, what it waits for (nothing: "")

_AGAIN_SECONDS = 1.0


@contextlib.asynccontextmanager
async def told_again(progress: Progress, seconds: float = _AGAIN_SECONDS) -> AsyncIterator[Progress]:
    """Pass progress on, and tell the newest anew every so often: a stage that hangs is seen to hang, and on what."""
    newest: tuple[str, int, int, str] | None = None

    def tell(stage: str, done: int, total: int, waits_for: str) -> None:
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
        yield tell
    finally:
        repeating.cancel()
        await asyncio.wait([repeating])  # which does not hide that somebody stops us meanwhile
        if not repeating.cancelled():
            repeating.result()


def waited_for(
    *,
    feeds: int,
    unsettled: Sequence[Mapping[str, Any]],
    unfound: Collection[str],
    sources: Sequence[str],
    handoffs: int,
) -> str:
    """Say which of all that is left to do is waited for first; nothing where nothing is left."""
    if feeds:
        return counted(feeds, "feed")
    if unsettled:
        return _hosts(unsettled)
    if unfound:
        return f"{counted(len(unfound), 'page')} of {' and '.join(sorted(set(map(host_of, unfound))))} to be found"
    if sources:
        return f"{' and '.join(sources)} to be read"
    return f"{counted(handoffs, 'hand-off')} to be done" if handoffs else ""


def _hosts(unsettled: Sequence[Mapping[str, Any]]) -> str:
    """Say for how many hosts URLs wait and, where it is the same for all, what is to happen there."""
    hosts = counted(len({outcome["host"] for outcome in unsettled}), "host")
    if all(outcome["status"] != UrlStatus.PENDING for outcome in unsettled):
        return f"{hosts} to answer"
    if all(outcome["status"] == UrlStatus.PENDING and outcome["waiting_reason"] for outcome in unsettled):
        return f"{hosts} to be asked again"
    return hosts


def counted(count: int, noun: str) -> str:
    """Return a number of things in words."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
