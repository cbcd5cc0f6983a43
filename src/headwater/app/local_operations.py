"""The operations of the command line and of all doors that need no network, by noun."""

# ruff: noqa: D102 (the names of the operations say it)

from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from headwater.core.api_budget import Split, fingerprint
from headwater.db import budgets, frontier
from headwater.db.budgets import HostBudget
from headwater.db.context import DatabaseContext

if TYPE_CHECKING:
    from headwater.access.operations import TokenOperations
    from headwater.changes.operations import ChangeOperations, WebhookOperations
    from headwater.discovery.operations import RunOperations
    from headwater.documents.days import DayOperations
    from headwater.documents.operations import DocumentOperations, OpenSandbox
    from headwater.documents.upkeep import UpkeepOperations
    from headwater.explain.operations import Why
    from headwater.frontier.operations import FrontierOperations
    from headwater.frontier.watch_operations import WatchOperations
    from headwater.handoff.operations import HandoffOperations
    from headwater.history.operations import HistoryOperations
    from headwater.notify.alarms import AlarmOperations
    from headwater.notify.channels import ChannelOperations
    from headwater.notify.feeds import FeedOperations
    from headwater.notify.operations import FeedAddressOperations, SavedSearchOperations
    from headwater.sandbox.pool import Sandbox
    from headwater.search.operations import SearchOperations
    from headwater.sources.operations import SourceOperations
    from headwater.stories.operations import StoryOperations


class LocalOperations:
    """The operations that need the database and the raw files, but no network.

    Each is imported when it is used: the import of all takes longer than most commands of the command line.
    """

    def __init__(self, context: DatabaseContext, open_sandbox: "OpenSandbox | None" = None) -> None:
        self._context = context
        self._given_sandbox = open_sandbox

    def _open_sandbox(self) -> "AbstractAsyncContextManager[Sandbox]":
        from headwater.sandbox.pool import make_sandbox

        return self._given_sandbox() if self._given_sandbox else make_sandbox(self._context.settings)

    @cached_property
    def documents(self) -> "DocumentOperations":
        from headwater.documents.operations import DocumentOperations

        return DocumentOperations(self._context, self._open_sandbox)

    @cached_property
    def search(self) -> "SearchOperations":
        from headwater.search.operations import SearchOperations

        return SearchOperations(self._context)

    @cached_property
    def stories(self) -> "StoryOperations":
        from headwater.stories.operations import StoryOperations

        return StoryOperations(self._context)

    @cached_property
    def frontier(self) -> "FrontierOperations":
        from headwater.documents.page_items import save_page_items
        from headwater.frontier.operations import FrontierOperations
        from headwater.sources.registry import get_kind

        return FrontierOperations(self._context, lambda source: get_kind(source).priority, save_page_items)

    @cached_property
    def history(self) -> "HistoryOperations":
        from headwater.history.operations import HistoryOperations

        return HistoryOperations(self._context)

    @cached_property
    def watches(self) -> "WatchOperations":
        from headwater.frontier.watch_operations import WatchOperations

        return WatchOperations(self._context, self.frontier)

    @cached_property
    def sources(self) -> "SourceOperations":
        from headwater.sources.operations import SourceOperations

        return SourceOperations(self._context, self._open_sandbox)

    @cached_property
    def upkeep(self) -> "UpkeepOperations":
        from headwater.documents.upkeep import UpkeepOperations

        return UpkeepOperations(self._context)

    @cached_property
    def days(self) -> "DayOperations":
        from headwater.documents.days import DayOperations

        return DayOperations(self._context)

    @cached_property
    def runs(self) -> "RunOperations":
        from headwater.discovery.operations import RunOperations

        return RunOperations(self._context)

    @cached_property
    def handoffs(self) -> "HandoffOperations":
        from headwater.handoff.operations import HandoffOperations

        return HandoffOperations(self._context)

    @cached_property
    def changes(self) -> "ChangeOperations":
        from headwater.changes.operations import ChangeOperations

        return ChangeOperations(self._context)

    @cached_property
    def webhooks(self) -> "WebhookOperations":
        from headwater.changes.operations import WebhookOperations

        return WebhookOperations(self._context)

    @cached_property
    def tokens(self) -> "TokenOperations":
        from headwater.access.operations import TokenOperations

        return TokenOperations(self._context)

    @cached_property
    def saved_searches(self) -> "SavedSearchOperations":
        from headwater.notify.operations import SavedSearchOperations

        return SavedSearchOperations(self._context)

    @cached_property
    def feeds(self) -> "FeedOperations":
        from headwater.notify.feeds import FeedOperations

        return FeedOperations(self._context, self.search, self.days)

    @cached_property
    def alarms(self) -> "AlarmOperations":
        from headwater.notify.alarms import AlarmOperations

        return AlarmOperations(self._context)

    @cached_property
    def channels(self) -> "ChannelOperations":
        from headwater.notify.channels import ChannelOperations

        return ChannelOperations(self._context, self.webhooks)

    @cached_property
    def feed_addresses(self) -> "FeedAddressOperations":
        from headwater.notify.operations import FeedAddressOperations

        return FeedAddressOperations(self._context, self.feeds)

    def now(self) -> datetime:
        """Return the time of the database, by which all doors show and compare times."""
        return self._context.clock.now()

    async def why(self, url: str) -> "Why":
        """Return everything that is known about a URL: its sources, its end and the reason, and what happens next."""
        from headwater.explain.operations import explain

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
