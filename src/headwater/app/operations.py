"""The operations of Headwater, by noun. The API, the command line and the demo call these and nothing behind them."""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime
from functools import partial

from headwater.access.operations import TokenCheck, TokenOperations
from headwater.app.maintenance import rescue_expired
from headwater.app.metrics import Metrics
from headwater.app.runtime import Runtime
from headwater.app.system import SystemOperations
from headwater.changes.operations import ChangeOperations, LiveWebhookOperations, WebhookOperations
from headwater.core.api_budget import Split, fingerprint
from headwater.db import budgets, frontier
from headwater.db.budgets import HostBudget
from headwater.db.context import DatabaseContext
from headwater.db.pool import AWAY
from headwater.db.pool import find_full_disk as find_full_disk
from headwater.discovery.operations import LiveRunOperations, RunOperations, RunRecord
from headwater.discovery.source_operations import LiveSourceOperations
from headwater.documents.days import DayOperations
from headwater.documents.operations import DocumentOperations, OpenSandbox
from headwater.documents.page_items import save_page_items
from headwater.documents.upkeep import UpkeepOperations
from headwater.explain.operations import Why, explain
from headwater.frontier.operations import FrontierOperations
from headwater.frontier.watch_operations import WatchOperations
from headwater.handoff.operations import HandoffOperations
from headwater.history.operations import HistoryOperations
from headwater.notify.alarms import AlarmOperations
from headwater.notify.channels import ChannelOperations
from headwater.notify.feeds import FeedOperations
from headwater.notify.operations import FeedAddressOperations, SavedSearchOperations
from headwater.sandbox.pool import make_sandbox
from headwater.search.operations import SearchOperations
from headwater.sources.operations import SourceOperations
from headwater.sources.registry import get_kind
from headwater.stories.operations import StoryOperations

_METRICS_TIMEOUT_SECONDS = 2.0
DATABASE_AWAY = AWAY  # the errors of an operation while the database is away


class LocalOperations:
    """The operations that need the database and the raw files, but no network."""

    def __init__(self, context: DatabaseContext, open_sandbox: OpenSandbox | None = None) -> None:
        self._context = context
        self._open_sandbox = open_sandbox or partial(make_sandbox, context.settings)
        self.documents = DocumentOperations(context, self._open_sandbox)
        self.search = SearchOperations(context)
        self.stories = StoryOperations(context)
        self.frontier = FrontierOperations(context, lambda source: get_kind(source).priority, save_page_items)
        self.history = HistoryOperations(context)
        self.watches = WatchOperations(context, self.frontier)
        self.sources: SourceOperations = SourceOperations(context, self._open_sandbox)
        self.upkeep = UpkeepOperations(context)
        self.days = DayOperations(context)
        self.runs: RunOperations = RunOperations(context)
        self.handoffs = HandoffOperations(context)
        self.changes = ChangeOperations(context)
        self.webhooks: WebhookOperations = WebhookOperations(context)
        self.tokens: TokenOperations = TokenOperations(context)
        self.saved_searches = SavedSearchOperations(context)
        self.feeds = FeedOperations(context, self.search, self.days)
        self.alarms = AlarmOperations(context)
        self.channels = ChannelOperations(context, self.webhooks)
        self.feed_addresses = FeedAddressOperations(context, self.feeds)

    def now(self) -> datetime:
        """Return the time of the database, by which all doors show and compare times."""
        return self._context.clock.now()

    async def why(self, url: str) -> Why:
        """Return everything that is known about a URL: its sources, its end and the reason, and what happens next."""
        return await explain(self._context, url, self._open_sandbox())

    async def budgets(self) -> list[HostBudget] | None:
        """List the hosts that the api.data.gov key was used at, with the budget of each source; None: no key is set."""
        settings = self._context.settings
        if not settings.api_data_gov_key:
            return None
        mark, split = fingerprint(settings.api_data_gov_key), Split(settings.rate_limits)
        return await self._context.database.run(budgets.list_budgets, mark, split, self._context.clock.now())

    async def unfinished(self) -> tuple[int, int, datetime | None]:
        """Return the number of queued and of leased URLs, and when the next one is due."""
        return await self._context.database.run(frontier.count_unfinished_urls)

    async def check_database(self) -> None:
        """Raise an error if the database does not answer."""
        await self._context.database.ping()


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
        urls, webhooks, backlog, index = {}, [], None, None
        with contextlib.suppress(*AWAY):
            async with asyncio.timeout(_METRICS_TIMEOUT_SECONDS):
                stats, waiting = await self.frontier.get_stats(), await self.webhooks.list_webhooks()
                urls, webhooks, backlog = stats.urls, waiting, await self.handoffs.count_backlog()
                index = await self.search.get_index() if self.settings.search_url else None
        self.metrics.set_index_gauges(index)
        self.metrics.set_gauges(urls, webhooks, backlog, self.runtime.context.clock.now())
        return self.metrics.render()
