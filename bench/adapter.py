"""The calls of the bench to Headwater. If a signature changes, only this file changes."""

import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import psutil

from bench.search_corpus import Document
from headwater.core.frontier import Candidate, Claim, FetchOutcome, HostRelease, Origin, RequestRecord, UrlStatus
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db import migrate, sources
from headwater.db.context import DatabaseContext, open_database_context
from headwater.db.embedded.server import EmbeddedServer, open_server
from headwater.db.frontier import lock_claims
from headwater.db.pool import Connection, Database, open_database
from headwater.db.search import Words, index_documents
from headwater.frontier.claim import Finish, claim, finish
from headwater.frontier.submit import submit
from headwater.search.operations import SearchOperations
from headwater.stories.builder import place_documents

__all__ = ["CLAIM_BATCH", "Claim", "EmbeddedServer", "Queue", "open_queue", "open_server"]

CLAIM_BATCH = Settings().fetch_workers  # a fetch pool claims one URL for each free slot
_STORED = FetchOutcome(Reason.STORED, UrlStatus.FETCHED)
_LEASE = timedelta(minutes=2)


class Queue:
    """The frontier of one database. The caller sets `now` and the delay of the hosts."""

    def __init__(self, database: Database, source_id: int, delay_ms: int) -> None:
        self.database = database
        self.source_id = source_id
        self._delay = timedelta(milliseconds=delay_ms)
        self._delay_ms = delay_ms

    async def put(self, urls: Sequence[str], now: datetime) -> int:
        """Submit a batch in one transaction. Returns the number of new URLs."""
        batch = [Candidate(url, self.source_id, Origin.SITEMAP, 6) for url in urls]
        submitted = await self.database.transact(lambda connection: submit(connection, batch, now))
        return submitted.new

    async def claim(self, limit: int, now: datetime) -> list[Claim]:
        """Claim up to `limit` URLs."""
        return await claim(
            self.database, now=now, lease=_LEASE, holder="bench", limit=limit, default_delay_ms=self._delay_ms
        )

    async def finish(self, claims: Sequence[Claim], now: datetime) -> int:
        """End claims as fetched in one transaction, as a fetch pool does. Returns how many were still ours."""
        request = RequestRecord(sent_at=now, http_status=200, body_bytes=50_000, elapsed_ms=120)
        not_before = now + self._delay

        async def work(connection: Connection) -> int:
            held = await lock_claims(connection, claims)
            ours = [claimed for claimed in claims if claimed.url_id in held]
            finishes = [
                Finish(
                    claimed,
                    _STORED,
                    HostRelease(claimed.host.politeness_key, claimed.lease.token, not_before),
                    request,
                )
                for claimed in ours
            ]
            await finish(connection, finishes, now)
            return len(ours)

        return await self.database.transact(work)


@contextlib.asynccontextmanager
async def open_queue(dsn: str, folder: Path, now: datetime, *, delay_ms: int) -> AsyncIterator[Queue]:
    """Open an empty database as a frontier with one source."""
    async with open_database(Settings(database_url=dsn, data_dir=folder)) as database:
        await migrate.up(database)
        async with database.connection() as connection:
            source = await sources.add_source(connection, "bench", "feed", {}, now=now, due={})
        assert source
        yield Queue(database, source.id, delay_ms)


class StoryBench:
    """Stories in one database."""

    def __init__(self, context: DatabaseContext, source_id: int) -> None:
        self.source_id = source_id
        self._database = context.database

    async def place(self, ids: Sequence[int]) -> None:
        """Put documents into stories, as the role does for one batch of changes."""
        await self._database.transact(place_documents, ids)

    async def cpu_seconds(self) -> float:
        """Return the CPU time of this process and of the server for it. Other programs do not change it."""
        async with self._database.connection() as connection:
            server = psutil.Process(connection.get_server_pid()).cpu_times()
        return time.process_time() + float(server.user + server.system)


@contextlib.asynccontextmanager
async def open_stories(dsn: str, now: datetime) -> AsyncIterator[StoryBench]:
    """Open an empty database with one source."""
    async with _open_with_source(dsn, now) as (context, source_id):
        yield StoryBench(context, source_id)


class SearchBench:
    """Search in one database."""

    def __init__(self, context: DatabaseContext, source_id: int) -> None:
        self.source_id = source_id
        self._operations = SearchOperations(context)

    async def find(self, words: str, limit: int) -> list[int]:
        """Return the ids of the documents that a search finds."""
        return [hit.id for hit in (await self._operations.find(words, limit=limit)).hits]

    async def index(self, connection: Connection, documents: Sequence[tuple[int, Document]]) -> None:
        """Make what search reads of documents."""
        await index_documents(
            connection, [Words(number, one.title, None, one.language, one.text) for number, one in documents]
        )


@contextlib.asynccontextmanager
async def open_search(dsn: str, now: datetime) -> AsyncIterator[SearchBench]:
    """Open an empty database with one source."""
    async with _open_with_source(dsn, now) as (context, source_id):
        yield SearchBench(context, source_id)


@contextlib.asynccontextmanager
async def _open_with_source(dsn: str, now: datetime) -> AsyncIterator[tuple[DatabaseContext, int]]:
    async with open_database_context(Settings(database_url=dsn, database_connections=1)) as context:
        async with context.database.connection() as connection:
            source = await sources.add_source(connection, "bench", "feed", {}, now=now, due={})
        assert source
        yield context, source.id
