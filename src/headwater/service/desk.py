"""The desk: everything a door may ask for, in one place. Doors shape the answers, they decide nothing."""

import asyncio
import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from headwater.corpus import Corpus
from headwater.errors import OperatorError
from headwater.model.poll import Polled
from headwater.model.reasons import Reason
from headwater.model.source import Source
from headwater.policy.budget import Split, fingerprint
from headwater.policy.days import day_of
from headwater.policy.urls import normalize_url
from headwater.sandbox import Sandbox
from headwater.service.frontier_desk import FrontierDesk
from headwater.service.metrics import Metrics
from headwater.service.parts import Parts, Records, make_sandbox
from headwater.service.upkeep_desk import UpkeepDesk
from headwater.service.why import Why, explain
from headwater.sources.kind import Kind
from headwater.sources.registry import configure
from headwater.store import budgets, daily, documents, frontier, sources
from headwater.store.pool import Connection, is_down
from headwater.store.sources import FeedClaim


def database_is_down(error: Exception) -> bool:
    """Tell whether an answer failed because the database is away for now."""
    return is_down(error)


class Reader:
    """What can be asked without reaching out."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self.frontier = FrontierDesk(records)
        self.upkeep = UpkeepDesk(records)

    async def today(self, day: date | None = None) -> tuple[date, list[dict[str, Any]]]:
        """Return a day, by default today, and what was NEW and LATEST on it."""
        wanted = day or day_of(self._records.clock.now(), self._records.settings.timezone)
        async with self._records.database.connection() as connection:
            return wanted, await daily.read_day(connection, wanted)

    async def search(self, words: str, *, limit: int = 10, offset: int = 0) -> list[dict[str, Any]]:
        """Search documents, best first."""
        async with self._records.database.connection() as connection:
            return await documents.search_documents(connection, _storable(words), limit, offset)

    async def documents(
        self, *, limit: int = 50, before: tuple[datetime, int] | None = None, source: str | None = None
    ) -> list[dict[str, Any]]:
        """List documents, newest first."""
        return await self._records.database.transact(
            lambda connection: documents.list_documents(
                connection, limit=limit, before=before, source=_storable(source) if source else None
            )
        )

    async def document(self, document_id: int) -> dict[str, Any] | None:
        """Return one document with its text, provenance and earlier revisions."""
        async with self._records.database.connection() as connection:
            document = await documents.get_document(connection, document_id)
            return document and document | {"revisions": await documents.revisions(connection, document_id)}

    async def raw_matches(self, document: Mapping[str, Any]) -> bool:
        """Tell whether a document's raw file is the one its row was made from."""
        body = await asyncio.to_thread(Corpus(self._records.settings.data_dir / "corpus").read, document["raw_path"])
        return bool(hashlib.sha256(body).digest() == document["raw_hash"])

    async def sources(self) -> list[dict[str, Any]]:
        """List sources with the state of their polls."""
        async with self._records.database.connection() as connection:
            return await sources.list_sources(connection)

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
        except Exception as error:
            if not is_down(error):
                raise
            self.metrics.holds({})
        return self.metrics.text()

    async def add(self, url: str, name: str | None = None, overrides: dict[str, Any] | None = None) -> Polled:
        """Add the feed at a URL as a source, poll it at once and tell what came. What is no feed is not saved."""
        feed_url = normalize_url(url, keep_trailing_slash=True)
        settings = {**(overrides or {}), "feed_url": feed_url}
        chosen = name or source_name(feed_url)
        kind = configure(chosen, "site", settings)
        records = self._records

        async def insert(connection: Connection) -> FeedClaim:
            """Add the row and claim its first poll at once, so that no running poller is faster."""
            known = await sources.source_of_feed(connection, feed_url)
            if known:
                raise OperatorError(f"{feed_url} is read by source {known} already.", reason=Reason.SOURCE_EXISTS)
            await self._insert(connection, chosen, "site", kind, settings)
            return (await self._claim(connection, chosen))[0]

        claim = await records.database.transact(insert)
        added = False
        try:
            polled = await self._poll(claim)
            added = polled.error is None
        finally:
            if not added:
                await asyncio.shield(self._take_back(claim))
        if polled.error:
            raise OperatorError(f"{feed_url} was not added: {polled.error}", reason=polled.reason, url=feed_url)
        return polled

    async def add_source(self, name: str, kind: str, settings: dict[str, Any]) -> Source:
        """Add a source of any kind. It is polled when it is due: by the running poller at once, or at its schedule."""
        configured = configure(name, kind, settings)
        async with self._records.database.connection() as connection:
            return await self._insert(connection, name, kind, configured, settings)

    async def _insert(
        self, connection: Connection, name: str, kind_name: str, kind: Kind, settings: dict[str, Any]
    ) -> Source:
        now = self._records.clock.now()
        passes = kind.passes(timedelta(minutes=self.settings.poll_interval_minutes))
        due = {which: now if interval else None for which, interval in passes.items()}
        source = await sources.add_source(connection, name, kind_name, settings, now=now, due=due)
        if source is None:
            raise OperatorError(
                f"There is a source named {name} already; choose another name.", reason=Reason.SOURCE_EXISTS
            )
        return source

    async def _take_back(self, claim: FeedClaim) -> None:
        """Remove a source that was not found to be one; one that has brought something meanwhile stays."""
        async with self._records.database.connection() as connection:
            await sources.remove_source(connection, claim.source.id)

    async def poll_now(self, name: str) -> Polled:
        """Poll one source now, whether due or not."""
        async with self._records.database.connection() as connection:
            claims = await self._claim(connection, name)
            source = await sources.get_source(connection, name)
        if source is None:
            raise OperatorError(f"There is no source named {name}.", reason=Reason.UNKNOWN_SOURCE)
        if not claims:
            return Polled(source, Reason.HOST_BUSY, "Another process is reading it just now.")
        return await self._poll(claims[0])

    async def _claim(self, connection: Connection, name: str) -> list[FeedClaim]:
        now = self._records.clock.now()
        until = now + timedelta(seconds=self.settings.lease_seconds)
        return await sources.claim_feeds(
            connection, now=now, until=until, holder=self._records.holder, limit=1, name=name
        )

    async def _poll(self, claim: FeedClaim) -> Polled:
        polled = await self.parts.poller.poll(claim)
        self.metrics.polled(polled)
        return polled


def _storable(text: str) -> str:
    """Leave out of a question what no stored text can hold."""
    return text.replace("\0", " ").encode(errors="replace").decode()


def source_name(feed_url: str) -> str:
    """Make a source's name from where its feed is."""
    host = (urlsplit(feed_url).hostname or "").removeprefix("www.")
    return re.sub(r"[^a-z0-9._-]+", "-", host.lower()).strip("._-")[:64] or "source"
