"""The desk: everything a door may ask for, in one place. Doors shape the answers, they decide nothing."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from typing import Any

from headwater.corpus import Corpus
from headwater.policy.budget import Split, fingerprint
from headwater.sandbox import Sandbox
from headwater.service.change_desk import ChangeDesk
from headwater.service.day_desk import DayDesk
from headwater.service.deriving import Deriving
from headwater.service.diff_desk import DiffDesk
from headwater.service.frontier_desk import FrontierDesk
from headwater.service.handoff_desk import HandoffDesk
from headwater.service.metrics import Metrics
from headwater.service.parts import Parts, Records, make_sandbox
from headwater.service.run_desk import LiveRunDesk, RunDesk
from headwater.service.source_desk import SourceDesk
from headwater.service.source_reach import LiveSourceDesk
from headwater.service.source_settings import storable
from headwater.service.upkeep_desk import UpkeepDesk
from headwater.service.webhook_desk import LiveWebhookDesk, WebhookDesk
from headwater.service.why import Why, explain
from headwater.store import budgets, documents, frontier
from headwater.store.pool import AWAY, is_down

DATABASE_AWAY = AWAY  # what an answer fails with while the database is away


class Reader:
    """What can be asked without reaching out."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self.frontier = FrontierDesk(records)
        self.sources: SourceDesk = SourceDesk(records)
        self.upkeep = UpkeepDesk(records)
        self.days = DayDesk(records)
        self.runs: RunDesk = RunDesk(records)
        self.diffs = DiffDesk(records)
        self.deriving = Deriving(records)
        self.handoffs = HandoffDesk(records)
        self.changes = ChangeDesk(records)
        self.webhooks: WebhookDesk = WebhookDesk(records)

    async def search(self, words: str, *, limit: int = 10, offset: int = 0) -> list[dict[str, Any]]:
        """Search documents, best first."""
        async with self._records.database.connection() as connection:
            return await documents.search_documents(connection, storable(words), limit, offset)

    async def documents(
        self, *, limit: int = 50, before: tuple[datetime, int] | None = None, source: str | None = None
    ) -> list[dict[str, Any]]:
        """List documents, newest first."""
        return await self._records.database.transact(
            lambda connection: documents.list_documents(
                connection, limit=limit, before=before, source=storable(source) if source else None
            )
        )

    async def document(self, document_id: int) -> dict[str, Any] | None:
        """Return one document with its text, provenance and earlier revisions."""
        async with self._records.database.connection() as connection:
            document = await documents.get_document(connection, document_id)
            return document and document | {"revisions": await documents.revisions(connection, document_id)}

    async def markdown(self, document_id: int) -> str:
        """Return a document as Markdown."""
        return await self.deriving.markdown(self._sandbox(), document_id)

    async def raw_matches(self, document: Mapping[str, Any]) -> bool:
        """Tell whether a document's raw file is the one its row was made from."""
        body = await asyncio.to_thread(Corpus(self._records.settings.data_dir / "corpus").read, document["raw_path"])
        return bool(hashlib.sha256(body).digest() == document["raw_hash"])

    async def why(self, url: str) -> Why:
        """Tell all that is known of a URL; raise for one that has never been seen."""
        return await explain(self._records, url, self._sandbox())

    def _sandbox(self) -> AbstractAsyncContextManager[Sandbox]:
        """Lend a place to read what came from outside."""
        return make_sandbox(self._records.settings)

    async def budgets(self) -> list[dict[str, Any]] | None:
        """List the hosts that the api.data.gov key was used at, with the budget of each source; None: no key is set."""
        settings = self._records.settings
        if not settings.api_data_gov_key:
            return None
        mark, split = fingerprint(settings.api_data_gov_key), Split(settings.rate_limits)
        async with self._records.database.connection() as connection:
            return await budgets.list_budgets(connection, mark, split, self._records.clock.now())

    async def unfinished(self) -> tuple[int, int, datetime | None]:
        """Count queued and leased URLs, and tell when the next is due."""
        async with self._records.database.connection() as connection:
            return await frontier.unfinished_urls(connection)

    async def counts(self) -> tuple[int, int]:
        """Count documents and distinct texts."""
        async with self._records.database.connection() as connection:
            return await documents.document_counts(connection)

    async def check_database(self) -> None:
        """Raise when the database does not answer."""
        await self._records.database.ping()


class Desk(Reader):
    """What can be asked of a process that reaches out."""

    _LOOK_SECONDS = 2.0  # whoever reads metrics has little patience

    def __init__(self, parts: Parts, metrics: Metrics, *, ready: Callable[[], bool] = lambda: True) -> None:
        super().__init__(parts.records)
        self.sources: LiveSourceDesk = LiveSourceDesk(parts, metrics)
        self.runs: LiveRunDesk = LiveRunDesk(parts, metrics)
        self.webhooks: LiveWebhookDesk = LiveWebhookDesk(parts)
        self.parts = parts
        self.metrics = metrics
        self.is_ready = ready
        self.settings = parts.records.settings

    def _sandbox(self) -> AbstractAsyncContextManager[Sandbox]:
        return nullcontext(self.parts.sandbox)

    async def measure(self) -> bytes:
        """Write the metrics; without what only the database knows while it is away."""
        try:
            async with asyncio.timeout(self._LOOK_SECONDS):
                self.metrics.holds((await self.frontier.stats())["urls"])
                self.metrics.owes(await self.webhooks.listed(), self.parts.records.clock.now())
                self.metrics.awaits(await self.handoffs.backlog(), self.parts.records.clock.now())
        except Exception as error:
            if not is_down(error):
                raise
            self.metrics.holds({})
            self.metrics.owes([], self.parts.records.clock.now())
            self.metrics.awaits(None, self.parts.records.clock.now())
        return self.metrics.text()
