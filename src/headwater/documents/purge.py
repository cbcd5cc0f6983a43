"""The purge of a source: it deletes its items, URLs, documents and raw files in bounded steps.

A mark in the row of the source keeps its name until the purge has ended. A kill on the way leaves that mark: the same
command continues, and so does maintenance. A URL that another source lists goes to that source, with its document.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

import structlog

from headwater.core.errors import StorageFailed
from headwater.core.reasons import Reason
from headwater.core.urls import page_subpath
from headwater.db import deletions, purge
from headwater.db.context import DatabaseContext
from headwater.db.pool import Connection
from headwater.db.purge import PurgedSource, PurgedUrl
from headwater.documents.deletion import remove_unused_files
from headwater.storage.folder import Corpus, raw_path

log = structlog.get_logger()
BATCH = 200
_STEPS = 20  # of one turn of maintenance
_DeleteRows = Callable[[Connection, int, int], Awaitable[int]]
_ROWS: tuple[_DeleteRows, ...] = (purge.purge_handoffs, purge.purge_jobs, purge.purge_items, purge.purge_sightings)


@dataclass(slots=True, eq=False)
class Purge:
    """The purge of one source. `steps` runs it; it may be stopped after any step and begun again."""

    context: DatabaseContext
    source: PurgedSource
    items: int = field(default=0, init=False)
    urls: int = field(default=0, init=False)
    documents: int = field(default=0, init=False)
    handed_over: int = field(default=0, init=False)
    has_ended: bool = field(default=False, init=False)
    _after: int = field(default=0, init=False)

    async def steps(self) -> AsyncGenerator[None, None]:
        """Delete everything step by step, and the source last.

        The source stays if a worker fetches one of its pages, or if a backup needs its raw files.
        """
        for delete in _ROWS:
            while count := await self.context.database.transact(delete, self.source.id, BATCH):
                self.items += count if delete is purge.purge_items else 0
                yield
        while page := await self.context.database.transact(self._delete_documents):
            await remove_unused_files(self.context, page)
            self._after = page[-1]
            self.urls += await self.context.database.transact(purge.purge_urls, page, self.source.id)
            yield
        self.has_ended = await self.context.database.transact(self._delete_source)

    @property
    def _corpus(self) -> Corpus:
        return Corpus(self.context.settings.data_dir / "corpus")

    async def _delete_documents(self, connection: Connection) -> list[int]:
        """Hand over or delete the documents of the next URLs. Return the ids of the URLs."""
        page = await purge.list_url_ids(connection, self.source.id, self._after, BATCH)
        locked = await deletions.lock_idle_urls(connection, page)
        urls = await purge.read_urls(connection, self.source.id, locked)
        kept = [url for url in urls if url.owner_id]
        others = [url.id for url in urls if not url.owner_id]
        if kept:
            await purge.hand_over(connection, kept, await asyncio.to_thread(self._move_files, kept))
        deleted = await deletions.delete_documents(connection, others, Reason.DELETED, self.context.clock.now())
        self.documents += deleted
        self.handed_over += sum(url.raw_path is not None for url in kept)
        return page

    def _move_files(self, kept: list[PurgedUrl]) -> list[str | None]:
        """Give each raw file its new path too. Return the new paths."""
        paths: list[str | None] = []
        for url in kept:
            new = str(raw_path(url.owner_name or "", page_subpath(url.host, url.url))) if url.raw_path else None
            if url.raw_path and new:
                self._corpus.copy(url.raw_path, new)
            paths.append(new)
        return paths

    async def _delete_source(self, connection: Connection) -> bool:
        if not await purge.purge_source(connection, self.source.id):
            return not await purge.has_source(connection, self.source.id)  # another process has ended the purge
        await asyncio.to_thread(self._corpus.remove_source, self.source.name)
        return True


async def continue_purges(context: DatabaseContext) -> list[str]:
    """Run some steps of each purge that has not ended. Return the names of the sources whose purge has ended now."""
    after, ended = 0, []
    while source := await context.database.run(purge.find_purge, after):
        after, running = source.id, Purge(context, source)
        try:
            async with aclosing(running.steps()) as steps:
                for _ in range(_STEPS):
                    if await anext(steps, StopAsyncIteration) is StopAsyncIteration:
                        break
        except StorageFailed as error:
            log.warning("purge.failed", source=source.name, error=str(error))
        if running.has_ended:
            ended.append(source.name)
    return ended
