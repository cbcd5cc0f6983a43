"""Live parts of pages: a stream of server-sent events reports that a topic has changed, and the script loads the parts.

One task reads a topic for all open pages, and only while there are some. Without JavaScript, a page shows the state of
its load.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import structlog
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from headwater.app.operations import DATABASE_AWAY, Operations
from headwater.app.server import get_most_connections
from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason
from headwater.discovery.operations import RunFilter
from headwater.web.view import View

log = structlog.get_logger()
_MAX_STREAMS = 100
_READ_SECONDS = 2.0
_STATE_SECONDS = 5.0  # of topics that may change all the time
_NEWEST_RUNS = 50
_ALIVE_SECONDS = 15.0  # a comment shows the connection that it is in use
_RETRY_MILLISECONDS = 5000

ReadState = Callable[[Operations], Awaitable[object]]


async def _read_changes(operations: Operations) -> object:
    return await operations.changes.find_last_cursor()


async def _read_frontier(operations: Operations) -> object:
    return await operations.frontier.get_stats(), await operations.history.get_last_minute()


async def _read_runs(operations: Operations) -> object:
    return await operations.runs.list_runs(RunFilter(), _NEWEST_RUNS), await operations.history.get_last_minute()


async def _read_system(operations: Operations) -> object:
    return await operations.system.report(), await operations.history.get_last_minute()


# The state of each topic. A page names its topic; when the state differs, its live parts are loaded again.
TOPICS: dict[str, ReadState] = {
    "documents": _read_changes,
    "frontier": _read_frontier,
    "hosts": _read_frontier,
    "runs": _read_runs,
    "system": _read_system,
}


_SOURCE = "source:"


def find_reader(name: str) -> ReadState | None:
    """Return the function that reads a topic. Each source has one."""
    if name.startswith(_SOURCE):
        source = name.removeprefix(_SOURCE)
        return lambda operations: operations.history.sources.get_state(source)
    return TOPICS.get(name)


@dataclass(slots=True)
class _Topic:
    state: str = ""
    readers: int = 0
    task: asyncio.Task[None] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Hub:
    """Reads the topics that open pages show."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._topics: dict[str, _Topic] = {}  # that open pages show
        # The other half of the connections serves pages and the API.
        self._most_streams = min(_MAX_STREAMS, max(1, get_most_connections() // 2))

    def is_full(self) -> bool:
        """Return whether as many streams are open as may be."""
        return sum(topic.readers for topic in self._topics.values()) >= self._most_streams

    async def follow(self, name: str) -> AsyncIterator[str]:
        """Yield the events of a topic: its state now, and each later one."""
        if self.is_full():
            return  # other streams began between the check of the request and this one
        topic = self._topics.setdefault(name, _Topic())
        topic.readers += 1
        if topic.task is None:
            topic.state = ""
            topic.task = asyncio.create_task(self._watch(name, topic))
        try:
            yield f"retry: {_RETRY_MILLISECONDS}\n\n"
            sent = ""
            while self._operations.is_ready():
                changed = topic.changed
                if topic.state != sent:
                    sent = topic.state
                    yield f"data: {sent}\n\n"
                    continue
                try:
                    async with asyncio.timeout(_ALIVE_SECONDS):
                        await changed.wait()
                except TimeoutError:
                    yield ":\n\n"
        finally:
            topic.readers -= 1
            if not topic.readers and topic.task:
                topic.task.cancel()
                del self._topics[name]

    async def _watch(self, name: str, topic: _Topic) -> None:
        read = find_reader(name)
        assert read is not None, name
        while True:
            try:
                state = repr(await read(self._operations))
            except (*DATABASE_AWAY, HeadwaterError) as error:
                log.debug("web.topic_unread", topic=name, error=f"{type(error).__name__}: {error}")
            except Exception:
                log.exception("web.topic_failed", topic=name)
            else:
                self._set_state(topic, hashlib.sha256(state.encode()).hexdigest()[:16])
            if not self._operations.is_ready():
                self._wake(topic)
                return
            await asyncio.sleep(_READ_SECONDS if name == "documents" else _STATE_SECONDS)

    def _set_state(self, topic: _Topic, state: str) -> None:
        if state != topic.state:
            topic.state = state
            self._wake(topic)

    @staticmethod
    def _wake(topic: _Topic) -> None:
        topic.changed.set()
        topic.changed = asyncio.Event()


def add_pages(app: FastAPI, view: View) -> None:
    """Add the stream."""
    hub = Hub(view.operations)

    @app.get("/live/{topic}")
    async def live(request: Request, topic: str) -> StreamingResponse:
        if find_reader(topic) is None:
            raise HeadwaterError("There is no such topic.", reason=Reason.UNKNOWN_PATH)
        if hub.is_full():
            raise HeadwaterError("Too many pages are open. They show the state of their load.", reason=Reason.BUSY)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(hub.follow(topic), media_type="text/event-stream", headers=headers)
