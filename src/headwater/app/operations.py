"""The operations of Headwater, by noun. The API, the command line and the demo call these and nothing behind them."""

import asyncio
import contextlib
from collections.abc import Callable

from headwater.access.operations import TokenCheck
from headwater.app.local_operations import LocalOperations as LocalOperations
from headwater.app.maintenance import rescue_expired
from headwater.app.metrics import Metrics
from headwater.app.runtime import Runtime
from headwater.app.system import SystemOperations
from headwater.changes.operations import LiveWebhookOperations
from headwater.db.pool import AWAY
from headwater.db.pool import find_full_disk as find_full_disk
from headwater.discovery.operations import LiveRunOperations, RunRecord
from headwater.discovery.source_operations import LiveSourceOperations

_METRICS_TIMEOUT_SECONDS = 2.0
DATABASE_AWAY = AWAY  # the errors of an operation while the database is away


class Operations(LocalOperations):
    """All operations, also those that use the network."""

    def __init__(self, runtime: Runtime, metrics: Metrics, *, ready: Callable[[], bool] = lambda: True) -> None:
        super().__init__(runtime.context, lambda: contextlib.nullcontext(runtime.sandbox))
        self.sources: LiveSourceOperations = LiveSourceOperations(
            runtime.context,
            self._open_sandbox,
            gate=runtime.gate,
            sandbox=runtime.sandbox,
            poller=runtime.poller,
            runner=runtime.runner,
            rescue=rescue_expired,
            on_polled=metrics.count_poll,
        )
        self.runs: LiveRunOperations = LiveRunOperations(runtime, metrics)
        self.webhooks: LiveWebhookOperations = LiveWebhookOperations(runtime.context, runtime.sender)
        self.tokens: TokenCheck = TokenCheck(runtime.context)
        self.runtime = runtime
        self.metrics = metrics
        self.system = SystemOperations(runtime.context)
        self.is_ready = ready
        self.settings = runtime.context.settings

    async def begin_sync(self, name: str, method: str | None = None) -> RunRecord:
        """Start to poll a source now in the background, by default by its first method. Return the run."""
        return await self.runs.execute_later(await self.sources.start_sync(name, method))

    async def measure(self) -> bytes:
        """Return the metrics. Gauges of the database are left out while it is away."""
        urls, webhooks, backlog, index, story_changes, alarms = {}, [], None, None, None, None
        with contextlib.suppress(*AWAY):
            async with asyncio.timeout(_METRICS_TIMEOUT_SECONDS):
                stats, waiting = await self.frontier.get_stats(), await self.webhooks.list_webhooks()
                urls, webhooks, backlog = stats.urls, waiting, await self.handoffs.count_backlog()
                index = await self.search.get_index() if self.settings.search_url else None
                story_changes = await self.stories.count_waiting()
                alarms = (await self.alarms.list_alarms(only_open=True, limit=500)).alarms
        self.metrics.set_index_gauges(index)
        self.metrics.set_story_gauge(story_changes)
        self.metrics.set_alarm_gauges(alarms)
        self.metrics.set_gauges(urls, webhooks, backlog, self.runtime.context.clock.now())
        return self.metrics.render()
