"""A backup: one consistent copy of database and corpus, made while Headwater runs.

    FOLDER/database/<table>.copy    every row of one snapshot
    FOLDER/corpus/...               the raw files that those rows name, with the same paths as in the corpus
    FOLDER/manifest.json            the contents; written last
    FOLDER/UNFINISHED               exists until everything is on the disk

The backup locks the corpus before it takes the snapshot, so that no version of a raw file gets lost (corpus_copy.py).
It waits for fetches that replaced a file before the lock and have not committed the row yet.
"""

import asyncio
import contextlib
import fcntl
import itertools
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from headwater import __version__
from headwater.core.errors import FolderUnusable, OperatorError, SchemaMismatch
from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.core.settings import Settings
from headwater.core.waiting import in_thread, in_threads
from headwater.db import dump, migrate
from headwater.db.context import DatabaseContext, MigrateWhen, open_database_context
from headwater.db.pool import AWAY, Connection
from headwater.storage.corpus_copy import CorpusCopy, Extent, list_raw_files, measure
from headwater.storage.folder import Corpus, RawFile

OnStep = Callable[[str, int, int], None]
"""A callback for progress: the step, how many parts are done, and how many there are."""
T = TypeVar("T")
MANIFEST, UNFINISHED, DATABASE, CORPUS = "manifest.json", "UNFINISHED", "database", "corpus"
FORMAT = 1
PAGE = 500
_RETRY_SECONDS = 0.1
_EXTRA_SECONDS = 10.0  # a commit may take this much longer than its lease


@record
class Manifest:
    """The contents of a backup. `missing` documents had no raw file, and `differing` ones another than their row's."""

    headwater: str
    schema: int
    postgres: int
    taken_at: datetime
    missing: int
    differing: int
    raw: Extent
    tables: list[dump.Table]
    sequences: dict[str, int]
    format: int = FORMAT

    @property
    def documents(self) -> int:
        """The number of documents."""
        return next(table.rows for table in self.tables if table.name == "documents")


async def back_up(settings: Settings, folder: Path, on_step: OnStep = lambda *_: None) -> Manifest:
    """Make a backup in a new or empty folder. A backup that fails leaves nothing."""
    await in_thread(_refuse_unfit, settings, folder)
    async with open_database_context(settings, migrate_when=MigrateWhen.NEVER) as context:
        copy = CorpusCopy(Corpus(settings.data_dir / "corpus"), folder / CORPUS)
        with outages_as_operator_errors(f"The backup in {folder}"):
            async with in_threads(contextlib.ExitStack()) as lock:
                await in_thread(lock.enter_context, copy.locked())
                async with in_threads(_new_backup_folder(folder)):
                    manifest = await _fill(folder, context, copy, lock, on_step)
                    if max(await context.database.run(migrate.get_applied)) != manifest.schema:
                        raise SchemaMismatch("The schema changed while the backup was made. Back up again.")
                    await in_thread(_finish, folder, manifest)
    return manifest


async def _fill(
    folder: Path, context: DatabaseContext, copy: CorpusCopy, lock: contextlib.ExitStack, on_step: OnStep
) -> Manifest:
    """Write raw files and rows. The corpus is unlocked as soon as the raw files are copied."""
    async with _open_snapshot(context, copy) as connection:
        taken_at = context.clock.now()
        missing, differing = await _copy_raw_files(connection, copy, on_step)
        await in_thread(lock.close)
        return Manifest(
            headwater=__version__,
            schema=max(await migrate.get_applied(connection)),
            postgres=connection.get_server_version().major,
            taken_at=taken_at,
            missing=missing,
            differing=differing,
            raw=await in_thread(measure, folder / CORPUS),
            tables=await _dump(connection, folder / DATABASE, on_step),
            sequences=await dump.read_sequences(connection),
        )


@contextlib.asynccontextmanager
async def _open_snapshot(context: DatabaseContext, copy: CorpusCopy) -> AsyncIterator[Connection]:
    """Open a snapshot whose rows have their raw files.

    A file that was replaced before the lock lacks its row until the fetch commits: for a moment, or until the lease of
    a dead worker ends. A fault that remains was there before, and `verify` finds it.
    """
    deadline = time.monotonic() + context.settings.lease_seconds + _EXTRA_SECONDS
    while True:
        async with dump.open_snapshot(context.database) as connection:
            raws = [RawFile(*row) for row in await dump.read_raw_files_in_fetch(connection)]
            if time.monotonic() > deadline or await in_thread(copy.has_all, raws):
                yield connection
                return
        await asyncio.sleep(_RETRY_SECONDS)


async def _copy_raw_files(connection: Connection, copy: CorpusCopy, on_step: OnStep) -> tuple[int, int]:
    """Copy the raw files. Returns how many rows have no file, and how many have only files that differ from them."""
    done, total, missing = 0, await dump.count_documents(connection), 0
    if total and not await in_thread(copy.corpus.folders):
        raise FolderUnusable(f"There are documents, but no raw files below {copy.corpus.folder}: is its disk mounted?")
    on_step("raw files", 0, total)
    async for page in dump.read_raw_files(connection, PAGE):
        missing += await in_thread(copy.copy_known, [RawFile(*row) for row in page])
        done += len(page)
        on_step("raw files", done, total)
    # The files of unreadable pages have no row, and are copied too.
    async for paths in pages(list_raw_files(copy.corpus.folder)):
        await in_thread(copy.copy, paths)
    replaced = await in_thread(copy.find_replaced)
    raws = [RawFile(*row) for row in await dump.read_raw_files_at(connection, list(replaced))]
    return missing, await in_thread(copy.correct, raws, replaced)


async def pages(found: Iterator[T]) -> AsyncIterator[list[T]]:
    """Read an iterator that blocks on the disk in pages, in a thread."""
    while page := await in_thread(lambda: list(itertools.islice(found, PAGE))):
        yield page


async def _dump(connection: Connection, folder: Path, on_step: OnStep) -> list[dump.Table]:
    tables = []
    names = await dump.list_tables(connection)
    for number, name in enumerate(names):
        on_step("tables", number, len(names))
        tables.append(await dump.dump_table(connection, name, folder))
    on_step("tables", len(tables), len(tables))
    return tables


def _refuse_unfit(settings: Settings, folder: Path) -> None:
    data = settings.data_dir.resolve()
    if data == folder.resolve() or data in folder.resolve().parents:
        raise _unfit(f"{folder} is inside the data folder {settings.data_dir}, and would be lost together with it")
    if not folder.parent.is_dir():
        raise _unfit(f"{folder.parent} is not a folder (is its disk mounted?)")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise _unfit(f"{folder} is not a folder")
    names = {path.name for path in folder.iterdir()}
    if names and not (UNFINISHED in names and names <= {UNFINISHED, DATABASE, CORPUS, MANIFEST}):
        raise _unfit(f"{folder} is not empty")


def _unfit(why: str) -> OperatorError:
    return FolderUnusable(f"{why}. Name a new or an empty folder.")


@contextlib.contextmanager
def _new_backup_folder(folder: Path) -> Iterator[None]:
    """Make the folder of a backup, or clear the rest of an interrupted one. A failure removes it again."""
    is_new = not folder.exists()
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / UNFINISHED).open("a+") as sign:
        try:
            fcntl.flock(sign, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _unfit(f"Another backup is being made in {folder}") from None
        sign.truncate(0)
        sign.write("This backup is running or was interrupted. It is not whole.\n")
        sign.flush()
        _clear(folder)
        try:
            (folder / DATABASE).mkdir()
            (folder / CORPUS).mkdir()
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                _clear(folder)
                (folder / UNFINISHED).unlink()
                if is_new:
                    folder.rmdir()
            raise


def _clear(folder: Path) -> None:
    (folder / MANIFEST).unlink(missing_ok=True)
    for part in (DATABASE, CORPUS):
        if (folder / part).exists():
            shutil.rmtree(folder / part)


def _finish(folder: Path, manifest: Manifest) -> None:
    write_manifest(folder, manifest)
    os.sync()  # one sync for all files: a flush of each of a million files takes hours
    (folder / UNFINISHED).unlink()
    os.sync()


@contextlib.contextmanager
def outages_as_operator_errors(task: str) -> Iterator[None]:
    """Turn an error of the disk or the database into an OperatorError that names the task."""
    try:
        yield
    except OSError as error:
        culprit = f" ({error.filename})" if error.filename else ""
        raise FolderUnusable(f"{task} failed: {error.strerror or error}{culprit}.") from error
    except AWAY as error:
        raise OperatorError(
            f"{task} failed: the connection to the database was lost ({error}).", reason=Reason.DATABASE_LOST
        ) from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a backup."""
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
