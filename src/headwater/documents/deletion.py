"""Deletes documents: rows in one transaction, and their raw files after its commit.

A row names each raw file that is to be removed. A kill leaves that row, and maintenance removes the file later.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headwater.core.reasons import Reason
from headwater.db import deletions
from headwater.db.context import DatabaseContext
from headwater.db.deletions import UnusedFile
from headwater.db.pool import Connection
from headwater.storage.folder import Corpus

BATCH = 200
_PAGES = 10  # of documents that one step of the retention reads
_FIRST = UnusedFile(0, "")


async def delete_documents(connection: Connection, url_ids: Collection[int], reason: Reason, now: datetime) -> int:
    """Delete the documents of URLs that no worker fetches now, and end these URLs. Return the number of documents."""
    idle = await deletions.lock_idle_urls(connection, url_ids)
    return await deletions.delete_documents(connection, idle, reason, now) if idle else 0


async def remove_unused_files(context: DatabaseContext, url_ids: Collection[int] | None = None) -> None:
    """Remove the raw files without a document, of some URLs or of all. Files of pages that wait for a fetch stay.

    During a backup all files stay. A file that cannot be removed stays until a later call.
    """
    corpus = Corpus(context.settings.data_dir / "corpus")
    after = _FIRST

    async def work(connection: Connection) -> UnusedFile | None:
        page = await deletions.list_unused_files(connection, after, BATCH, url_ids)
        if not page:
            return None
        removable, used = await deletions.find_removable_files(connection, page)
        removed = await asyncio.to_thread(corpus.remove, [file.path for file in removable])
        await deletions.forget_files(connection, [*used, *(file for file in removable if file.path in (removed or ()))])
        return page[-1] if removed is not None else None

    while last := await context.database.transact(work):
        after = last


@dataclass(slots=True)
class Retention:
    """Deletes the documents that their sources keep no longer. Each step reads a limited number of documents."""

    context: DatabaseContext
    _source: int = field(default=0, init=False)  # the walk goes through all sources by id, and their documents by id
    _document: int = field(default=0, init=False)

    async def step(self) -> int:
        """Check the next documents. Return how many were deleted."""
        deleted = 0
        for _ in range(_PAGES):
            found = await self.context.database.transact(self._check_page)
            if found is None:
                break
            deleted += found
        return deleted

    async def _check_page(self, connection: Connection) -> int | None:
        """Check a page of documents. Return how many were deleted; None at the end of the last source."""
        source = await deletions.find_kept_source(connection, self._source)
        if source is None:
            self._source = self._document = 0
            return None
        now = self.context.clock.now()
        before = now - timedelta(days=source.keep_days)
        page = await deletions.read_ages(connection, source.id, before, self._document, BATCH)
        old = [document.url_id for document in page if document.is_expired]
        if len(page) < BATCH:
            self._source, self._document = source.id, 0
        else:
            self._document = page[-1].id
        if not old:
            return 0
        idle = await deletions.lock_idle_urls(connection, old)
        expired = await deletions.find_expired_urls(connection, source.id, before, idle)
        return await deletions.delete_documents(connection, expired, Reason.EXPIRED, now) if expired else 0
