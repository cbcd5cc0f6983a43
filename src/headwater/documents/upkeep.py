"""What a door may ask for the corpus' sake: sweep what killed writers left, look whether all is still right."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headwater.core.errors import OperatorError, StorageFailed
from headwater.core.reasons import Reason
from headwater.db import sources
from headwater.db.context import DatabaseContext
from headwater.db.pool import is_down
from headwater.db.verify import StoredDocument, documents_to_verify, extent_to_verify
from headwater.documents.verify import Verifier
from headwater.documents.verify_journal import Journal, Progress
from headwater.sandbox.pool import make_sandbox
from headwater.storage.folder import Corpus, Swept

PAGE = 50
OnProgress = Callable[[int, int], None]  # how many are done, and of how many


@dataclass(frozen=True, slots=True)
class Sweep:
    """What was swept of one source, or why not."""

    source: str
    swept: Swept
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verify has found; `resumed_after` is where an earlier one was interrupted that this one went on from."""

    progress: Progress
    resumed_after: int | None


class UpkeepOperations:
    """The upkeep's part of the desk."""

    def __init__(self, context: DatabaseContext) -> None:
        self._context = context
        self._corpus = Corpus(context.settings.data_dir / "corpus")

    async def sweep(self, source: str, *, older_than: timedelta, dry_run: bool = False) -> Sweep:
        """Remove the old drafts of a source, or only count them."""
        await self._source_id(source)
        return Sweep(source, await self._sweep(source, older_than, dry_run))

    async def sweep_all(self, *, older_than: timedelta, dry_run: bool = False) -> tuple[list[Sweep], list[str]]:
        """Do the same for every source; also name the folders that belong to none, which are left alone."""
        async with self._context.database.connection() as connection:
            names = [source.name for source in await sources.get_all_sources(connection)]
        sweeps = []
        for name in names:
            try:
                sweeps.append(Sweep(name, await self._sweep(name, older_than, dry_run)))
            except StorageFailed as error:
                sweeps.append(Sweep(name, Swept(), str(error)))
        folders = await asyncio.to_thread(self._corpus.folders)
        return sweeps, [folder for folder in folders if folder not in names]

    async def _sweep(self, source: str, older_than: timedelta, dry_run: bool) -> Swept:
        lease = self._context.settings.lease_seconds
        if older_than.total_seconds() < lease:
            raise OperatorError(
                f"A draft may be at work as long as a claim lasts; sweep none that is younger than {lease:g} s.",
                reason=Reason.BAD_REQUEST,
            )
        # The clock of this machine, not of the database: it is the one that files are dated by.
        before = datetime.now(UTC) - older_than
        return await asyncio.to_thread(self._corpus.sweep, source, before, dry_run=dry_run)

    @contextlib.asynccontextmanager
    async def verify(
        self,
        *,
        source: str | None = None,
        since_id: int = 0,
        restart: bool = False,
        on_progress: OnProgress = lambda done, total: None,
    ) -> AsyncIterator[Verified]:
        """Look whether the documents after an id, of all sources or of one, are still what their raw files say.

        An interrupted one goes on where it was, also when only the telling was interrupted: leave the context when the
        outcome is told.
        """
        source_id = await self._source_id(source) if source is not None else None
        path = self._context.settings.data_dir / "verify" / f"{source or '_all'}.{since_id}.jsonl"
        journal = await asyncio.to_thread(Journal, path, now=self._context.clock.now(), restart=restart)
        with contextlib.closing(journal):
            resumed_after = journal.progress.after or None
            journal.progress.after = max(journal.progress.after, since_id)
            try:
                await self._verify(journal, source_id, on_progress)
            except Exception as error:
                if not is_down(error):
                    raise
                raise OperatorError(
                    f"The database went away: {error}. Verify again: it goes on where it was.",
                    reason=Reason.DATABASE_LOST,
                ) from error
            yield Verified(journal.progress, resumed_after)
            journal.remove()

    async def _verify(self, journal: Journal, source_id: int | None, on_progress: OnProgress) -> None:
        progress, settings = journal.progress, self._context.settings
        async with self._context.database.connection() as connection:
            left, last = await extent_to_verify(connection, after=progress.after, source_id=source_id)
        if not left:
            return
        if not self._corpus.folders():
            raise OperatorError(
                f"There are documents, but no raw files below {settings.data_dir / 'corpus'}: is its disk mounted?",
                reason=Reason.FOLDER_UNUSABLE,
            )

        done, total = progress.checked, progress.checked + left
        on_progress(done, total)

        def one_more() -> None:
            nonlocal done
            done += 1
            on_progress(done, max(done, total))

        async with make_sandbox(settings) as sandbox:
            verifier = Verifier(
                database=self._context.database,
                corpus=self._corpus,
                sandbox=sandbox,
                sandbox_seconds=settings.sandbox_seconds,
                at_once=2 * settings.sandbox_workers,  # while one is read in a child another comes from the disk
            )
            while page := await self._page(progress.after, last, source_id):
                findings = await verifier.verify(page, one_more)
                journal.add(page[-1].id, len(page), findings)

    async def _page(self, after: int, last: int, source_id: int | None) -> list[StoredDocument]:
        return await self._context.database.transact(
            lambda connection: documents_to_verify(connection, after=after, last=last, source_id=source_id, limit=PAGE)
        )

    async def _source_id(self, name: str) -> int:
        async with self._context.database.connection() as connection:
            source = await sources.get_source(connection, name)
        if source is None:
            raise OperatorError(f"There is no source named {name}.", reason=Reason.UNKNOWN_SOURCE)
        return source.id
