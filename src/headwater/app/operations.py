"""The desk: everything a door may ask for, in one place. Doors shape the answers, they decide nothing."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from typing import Any

from headwater.app.metrics import Metrics
from headwater.app.runtime import Runtime
from headwater.changes.change_operations import ChangeOperations
from headwater.changes.operations import LiveWebhookOperations, WebhookOperations
from headwater.core.api_budget import Split, fingerprint
from headwater.core.text import make_storable
from headwater.db import budgets, documents, frontier
from headwater.db.context import DatabaseContext
from headwater.db.pool import AWAY, is_down
from headwater.discovery.operations import LiveRunOperations, RunOperations
from headwater.discovery.source_operations import LiveSourceOperations
from headwater.documents.days import DayOperations
from headwater.documents.derive import Deriving
from headwater.documents.revisions import RevisionOperations
from headwater.documents.upkeep import UpkeepOperations
from headwater.explain.why import Why, explain
from headwater.frontier.operations import FrontierOperations
from headwater.handoff.operations import HandoffOperations
from headwater.sandbox.pool import Sandbox, make_sandbox
from headwater.sources.operations import SourceOperations
from headwater.storage.folder import Corpus

DATABASE_AWAY = AWAY  # what an answer fails with while the database is away


class Reader:
    """What can be asked without reaching out."""

    def __init__(self, context: DatabaseContext) -> None:
        self._context = context
        self.frontier = FrontierOperations(context)
        self.sources: SourceOperations = SourceOperations(context)
        self.upkeep = UpkeepOperations(context)
        self.days = DayOperations(context)
        self.runs: RunOperations = RunOperations(context)
        self.diffs = RevisionOperations(context)
        self.deriving = Deriving(context)
        self.handoffs = HandoffOperations(context)
        self.changes = ChangeOperations(context)
        self.webhooks: WebhookOperations = WebhookOperations(context)

    async def search(self, words: str, *, limit: int = 10, offset: int = 0) -> list[dict[str, Any]]:
        """Search documents, best first."""
        async with self._context.database.connection() as connection:
            return await documents.search_documents(connection, make_storable(words), limit, offset)

    async def documents(
        self, *, limit: int = 50, before: tuple[datetime, int] | None = None, source: str | None = None
    ) -> list[dict[str, Any]]:
        """List documents, newest first."""
        return await self._context.database.transact(
            lambda connection: documents.list_documents(
                connection, limit=limit, before=before, source=make_storable(source) if source else None
            )
        )

    async def document(self, document_id: int) -> dict[str, Any] | None:
        """Return one document with its text, provenance and earlier revisions."""
        async with self._context.database.connection() as connection:
            document = await documents.get_document(connection, document_id)
            return document and document | {"revisions": await documents.revisions(connection, document_id)}

    async def markdown(self, document_id: int) -> str:
        """Return a document as Markdown."""
        return await self.deriving.markdown(self._sandbox(), document_id)

    async def raw_matches(self, document: Mapping[str, Any]) -> bool:
        """Tell whether a document's raw file is the one its row was made from."""
        body = await asyncio.to_thread(Corpus(self._context.settings.data_dir / "corpus").read, document["raw_path"])
        return bool(hashlib.sha256(body).digest() == document["raw_hash"])

    async def why(self, url: str) -> Why:
        """Tell all that is known of a URL; raise for one that has never been seen."""
        return await explain(self._context, url, self._sandbox())

    def _sandbox(self) -> AbstractAsyncContextManager[Sandbox]:
        """Lend a place to read what came from outside."""
        return make_sandbox(self._context.settings)

    async def budgets(self) -> list[dict[str, Any]] | None:
        """List the hosts that the api.data.gov key was used at, with the budget of each source; None: no key is set."""
        settings = self._context.settings
        if not settings.api_data_gov_key:
            return None
        mark, split = fingerprint(settings.api_data_gov_key), Split(settings.rate_limits)
        async with self._context.database.connection() as connection:
            return await budgets.list_budgets(connection, mark, split, self._context.clock.now())

    async def unfinished(self) -> tuple[int, int, datetime | None]:
        """Count queued and leased URLs, and tell when the next is due."""
        async with self._context.database.connection() as connection:
            return await frontier.unfinished_urls(connection)

    async def counts(self) -> tuple[int, int]:
        """Count documents and distinct texts."""
        async with self._context.database.connection() as connection:
            return await documents.document_counts(connection)

    async def check_database(self) -> None:
        """Raise when the database does not answer."""
        await self._context.database.ping()


class Operations(Reader):
    """What can be asked of a process that reaches out."""

    _LOOK_SECONDS = 2.0  # whoever reads metrics has little patience

    def __init__(self, runtime: Runtime, metrics: Metrics, *, ready: Callable[[], bool] = lambda: True) -> None:
        super().__init__(runtime.context)
        self.sources: LiveSourceOperations = LiveSourceOperations(runtime, metrics)
        self.runs: LiveRunOperations = LiveRunOperations(runtime, metrics)
        self.webhooks: LiveWebhookOperations = LiveWebhookOperations(runtime)
        self.runtime = runtime
        self.metrics = metrics
        self.is_ready = ready
        self.settings = runtime.context.settings

    def _sandbox(self) -> AbstractAsyncContextManager[Sandbox]:
        return nullcontext(self.runtime.sandbox)

    async def measure(self) -> bytes:
        """Write the metrics; without what only the database knows while it is away."""
        try:
            async with asyncio.timeout(self._LOOK_SECONDS):
                self.metrics.holds((await self.frontier.stats())["urls"])
                self.metrics.owes(await self.webhooks.listed(), self.runtime.context.clock.now())
                self.metrics.awaits(await self.handoffs.backlog(), self.runtime.context.clock.now())
        except Exception as error:
            if not is_down(error):
                raise
            self.metrics.holds({})
            self.metrics.owes([], self.runtime.context.clock.now())
            self.metrics.awaits(None, self.runtime.context.clock.now())
        return self.metrics.text()
