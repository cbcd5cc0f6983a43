"""Operations that look after the corpus: sweep drafts, verify documents, back up and restore."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headwater.core.errors import BadRequest, FolderUnusable, OperatorError, StorageFailed
from headwater.core.reasons import Reason
from headwater.core.record import extend, record
from headwater.core.settings import Settings
from headwater.core.text import make_storable
from headwater.db import deletions, sources
from headwater.db.context import DatabaseContext
from headwater.db.deletions import SourceSize
from headwater.db.pool import AWAY, Connection
from headwater.db.purge import PurgedSource, begin_purge, count_purge
from headwater.db.verify import documents_to_verify, extent_to_verify
from headwater.documents.purge import Purge
from headwater.documents.verify import DocumentFault, Fault, Journal, Verifier
from headwater.sandbox.pool import make_sandbox
from headwater.storage import backup, restore
from headwater.storage.backup import Manifest, OnStep
from headwater.storage.folder import Corpus

PAGE = 50
OnProgress = Callable[[int, int], None]
"""A callback for progress: how many documents are done, and how many there are."""


@record
class SourceSweep:
    """The drafts of one source that were removed, or why they could not be removed."""

    name: str
    drafts: int
    bytes: int
    error: str | None = None


@record
class SweepReport:
    """The drafts that were removed, or would be."""

    dry_run: bool
    drafts: int
    bytes: int
    sources: list[SourceSweep]
    without_source: list[str]
    """The folders of no source. They were left alone."""


@record
class VerifyReport:
    """The result of a verify."""

    begun_at: datetime
    resumed_after: int | None
    """The document after which an interrupted verify was resumed."""
    checked: int
    right: int
    wrong: int
    faults: Mapping[Fault, int]
    """The number of each fault, the most frequent first. A document may have several."""
    findings: list[DocumentFault]
    unlisted: int
    """How many findings are counted only."""


@record
class BackupReport:
    """The contents of a backup."""

    folder: str
    taken_at: datetime
    headwater: str
    schema: int
    postgres: int
    documents: int
    files: int
    bytes: int
    database_bytes: int
    missing: int
    """How many documents have no raw file."""
    differing: int
    """How many documents have another raw file than their row names."""


@record
class RestoreReport(BackupReport):
    """The contents of a restored backup."""

    schema_before: int
    """The schema of the backup. `schema` is the one of this program."""
    differing_files: list[str]


@record
class PurgeBegun:
    """The extent of a purge that has begun."""

    name: str
    items: int
    urls: int


@record
class PurgeReport:
    """The result of a purge."""

    name: str
    items: int
    urls: int
    documents: int
    handed_over: int
    """Documents that went to other sources, which list their pages too."""
    has_ended: bool
    """False: workers fetch some pages now, or raw files stay for a backup or after an error.

    A running Headwater deletes the rest.
    """


@record
class DiskUse:
    """The disk use of sources, the largest first."""

    sources: list[SourceSize]
    database_bytes: int
    """The size of the whole database, with its indexes, queues and logs."""


class UpkeepOperations:
    """Sweep the drafts of killed writers, verify the documents, and report sizes."""

    def __init__(self, context: DatabaseContext) -> None:
        self._context = context
        self._corpus = Corpus(context.settings.data_dir / "corpus")

    async def sweep(self, source: str | None, *, older_than: timedelta, dry_run: bool = False) -> SweepReport:
        """Remove the old drafts of a source, or of all sources, or only count them."""
        lease = self._context.settings.lease_seconds
        if older_than.total_seconds() < lease:
            raise BadRequest(
                f"A worker may use a draft until its lease ends. Sweep no draft that is younger than {lease:g} s."
            )
        if source is not None:
            await self._find_source(source)
        names = [known.name for known in await self._context.database.run(sources.get_all_sources)]
        before = datetime.now(UTC) - older_than  # the times of files are those of this machine, not of the database
        sweeps = []
        for name in names if source is None else [source]:
            try:
                sweeps.append(SourceSweep(name, *await asyncio.to_thread(self._corpus.sweep, name, before, dry_run)))
            except StorageFailed as error:
                if source is not None:
                    raise
                sweeps.append(SourceSweep(name, 0, 0, str(error)))
        folders = [] if source is not None else await asyncio.to_thread(self._corpus.folders)
        return SweepReport(
            dry_run=dry_run,
            drafts=sum(sweep.drafts for sweep in sweeps),
            bytes=sum(sweep.bytes for sweep in sweeps),
            sources=sweeps,
            without_source=[folder for folder in folders if folder not in names],
        )

    async def begin_purge(self, name: str) -> PurgeBegun:
        """Remove a source, and mark it so that a running Headwater deletes all that belongs to it."""
        _, begun = await self._begin_purge(name)
        return begun

    async def _begin_purge(self, name: str) -> tuple[PurgedSource, PurgeBegun]:
        async def work(connection: Connection) -> tuple[PurgedSource, PurgeBegun]:
            source, _ = await sources.lock_source(connection, name)
            await begin_purge(connection, source.id, self._context.clock.now())
            return PurgedSource(source.id, name), PurgeBegun(name, *await count_purge(connection, source.id))

        return await self._context.database.transact(work)

    async def measure_purge(self, name: str) -> PurgeBegun:
        """Return the extent of a purge without beginning it."""

        async def work(connection: Connection) -> PurgeBegun:
            source, _ = await sources.lock_source(connection, name)
            return PurgeBegun(name, *await count_purge(connection, source.id))

        return await self._context.database.transact(work)

    async def purge(self, name: str, on_progress: OnProgress = lambda *_: None) -> PurgeReport:
        """Delete a source with its items, URLs, documents and raw files. An interrupted purge continues here.

        A URL that another source lists goes to that source, with its document.
        """
        source, extent = await self._begin_purge(name)
        running = Purge(self._context, source)
        async for _ in running.steps():
            done = running.items + running.urls + running.handed_over
            on_progress(done, max(done, extent.items + extent.urls))
        return extend(running, PurgeReport, name=name)

    async def measure_disk(self, source: str | None = None) -> DiskUse:
        """Return the disk use of all sources, or of one. Counters have the numbers."""
        source = make_storable(source) if source is not None else None
        async with self._context.database.connection() as connection:
            sizes = await deletions.list_sizes(connection, source)
            if not sizes and source is not None:
                raise sources.unknown_source(source)
            return DiskUse(sizes, await deletions.read_database_size(connection))

    @contextlib.asynccontextmanager
    async def verify(
        self,
        *,
        source: str | None = None,
        since_id: int = 0,
        restart: bool = False,
        on_progress: OnProgress = lambda *_: None,
    ) -> AsyncIterator[VerifyReport]:
        """Compare all documents, or those of a source, with their raw files.

        An interrupted verify resumes where it was, also if only its report was not shown: leave the context after that.
        """
        source_id = await self._find_source(source) if source is not None else None
        path = self._context.settings.data_dir / "verify" / f"{source or '_all'}.{since_id}.jsonl"
        journal = await asyncio.to_thread(Journal, path, now=self._context.clock.now(), restart=restart)
        with contextlib.closing(journal):
            progress = journal.progress
            resumed_after = progress.after or None
            progress.after = max(progress.after, since_id)
            try:
                await self._verify(journal, source_id, on_progress)
            except AWAY as error:
                raise OperatorError(
                    f"The connection to the database was lost: {error}. Verify again: it resumes where it was.",
                    reason=Reason.DATABASE_LOST,
                ) from error
            yield extend(
                progress,
                VerifyReport,
                resumed_after=resumed_after,
                right=progress.checked - progress.wrong,
                faults=dict(progress.faults.most_common()),
                unlisted=progress.faults.total() - len(progress.findings),
            )
            journal.remove()

    async def _verify(self, journal: Journal, source_id: int | None, on_progress: OnProgress) -> None:
        progress, settings = journal.progress, self._context.settings
        left, last = await self._context.database.run(extent_to_verify, after=progress.after, source_id=source_id)
        if not left:
            return
        if not self._corpus.folders():
            raise FolderUnusable(
                f"There are documents, but no raw files below {settings.data_dir / 'corpus'}: is its disk mounted?"
            )

        done, total = progress.checked, progress.checked + left
        on_progress(done, total)

        def count_one() -> None:
            nonlocal done
            done += 1
            on_progress(done, max(done, total))

        async with make_sandbox(settings) as sandbox:
            verifier = Verifier(self._context, sandbox)
            while page := await self._context.database.transact(
                documents_to_verify, after=progress.after, last=last, source_id=source_id, limit=PAGE
            ):
                findings = await verifier.verify(page, count_one)
                journal.add(page[-1].id, len(page), findings)

    async def _find_source(self, name: str) -> int:
        return (await self._context.database.run(sources.require_source, name)).id


async def back_up(settings: Settings, folder: Path, on_step: OnStep) -> BackupReport:
    """Back up the database and the raw files to a new or empty folder."""
    return _report_backup(await backup.back_up(settings, folder, on_step), folder)


async def restore_backup(settings: Settings, folder: Path, on_step: OnStep) -> RestoreReport:
    """Restore a backup into an empty data folder and an empty database."""
    restored = await restore.restore(settings, folder, on_step)
    return extend(
        _report_backup(restored.manifest, folder),
        RestoreReport,
        schema=restored.schema,
        missing=restored.missing,
        differing=len(restored.differing),
        schema_before=restored.manifest.schema,
        differing_files=restored.differing,
    )


def _report_backup(manifest: Manifest, folder: Path) -> BackupReport:
    return extend(
        manifest,
        BackupReport,
        folder=str(folder),
        documents=manifest.documents,
        files=manifest.raw.files,
        bytes=manifest.raw.size,
        database_bytes=sum(table.size for table in manifest.tables),
    )
