"""One consistent copy of database and corpus, made while everything runs.

    FOLDER/database/<table>.copy    every row, of one snapshot
    FOLDER/corpus/...               the raw files that those rows speak of, under the names they have in the corpus
    FOLDER/manifest.json            what is in it; written last
    FOLDER/UNFINISHED               there until all is safe on the disk

The corpus is held before the snapshot is taken: from then on no version of a raw file gets lost (corpus_copy.py).
Visits that had put their file in place before that, and not yet committed its row, are waited for.
"""

import asyncio
import contextlib
import fcntl
import itertools
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TypeVar

from headwater import __version__
from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.core.waiting import in_thread, in_threads
from headwater.db import dump, migrate
from headwater.db.context import DatabaseContext, Migrating, open_database_context
from headwater.db.pool import Connection, is_down
from headwater.storage.backup_manifest import CORPUS, DATABASE, MANIFEST, UNFINISHED, Manifest, write_manifest
from headwater.storage.corpus_copy import CorpusCopy, measure, raw_files
from headwater.storage.folder import Corpus, RawFile

OnStep = Callable[[str, int, int], None]  # what is being done, how many are, and of how many
T = TypeVar("T")
PAGE = 500
_LOOK_SECONDS = 0.1
_LATEST_SECONDS = 10.0  # past the end of a lease


async def back_up(settings: Settings, folder: Path, on_step: OnStep = lambda *_: None) -> Manifest:
    """Make a backup in a folder that is not there yet, or empty; nothing is left of one that fails."""
    await in_thread(_refuse_unfit, settings, folder)
    async with open_database_context(settings, migrating=Migrating.NEVER) as context:
        copy = CorpusCopy(Corpus(settings.data_dir / "corpus"), folder / CORPUS)
        with told_to_operator(f"The backup in {folder}"):
            async with in_threads(contextlib.ExitStack()) as holding:
                await in_thread(holding.enter_context, copy.holding())
                async with in_threads(_unfinished(folder)):
                    manifest = await _fill(folder, context, copy, holding, on_step)
                    await _refuse_new_schema(context, manifest.schema)
                    await in_thread(_finish, folder, manifest)
    return manifest


async def _fill(
    folder: Path, context: DatabaseContext, copy: CorpusCopy, holding: contextlib.ExitStack, on_step: OnStep
) -> Manifest:
    """Write rows and raw files; the corpus is let go of as soon as these are all there."""
    async with _snapshot(context, copy) as connection:
        taken_at = context.clock.now()
        missing, unlike = await _copy_raw_files(connection, copy, on_step)
        await in_thread(holding.close)
        return Manifest(
            headwater=__version__,
            schema=max(await migrate.get_applied(connection)),
            postgres=connection.get_server_version().major,
            taken_at=taken_at,
            missing=missing,
            unlike=unlike,
            raw=await in_thread(measure, folder / CORPUS),
            tables=await _dump(connection, folder / DATABASE, on_step),
            sequences=await dump.sequences(connection),
        )


@contextlib.asynccontextmanager
async def _snapshot(context: DatabaseContext, copy: CorpusCopy) -> AsyncIterator[Connection]:
    """Open a snapshot in which every row's raw file is still to be had.

    Not to be had is one that was replaced before the corpus was held, as long as its new row is not committed: that is
    a moment or, if its visit has died, until the lease ends. What is amiss then was so before, and `verify` finds it.
    """
    give_up = time.monotonic() + context.settings.lease_seconds + _LATEST_SECONDS
    while True:
        async with dump.open_snapshot(context.database) as connection:
            raws = [RawFile(*row) for row in await dump.raw_files_being_replaced(connection)]
            if time.monotonic() > give_up or await in_thread(copy.has_all, raws):
                yield connection
                return
        await asyncio.sleep(_LOOK_SECONDS)


async def _copy_raw_files(connection: Connection, copy: CorpusCopy, on_step: OnStep) -> tuple[int, int]:
    """Copy what rows speak of; count the files that are not there, and those of which no version is the row's."""
    done, total, missing = 0, await dump.count_documents(connection), 0
    if total and not await in_thread(copy.corpus.folders):
        raise OperatorError(
            f"There are documents, but no raw files below {copy.corpus.folder}: is its disk mounted?",
            reason=Reason.FOLDER_UNUSABLE,
        )
    on_step("raw files", 0, total)
    async for page in dump.raw_files(connection, PAGE):
        missing += await in_thread(copy.take_known, [RawFile(*row) for row in page])
        done += len(page)
        on_step("raw files", done, total)
    # Pages that could not be read have no row, and their files are kept all the same.
    async for paths in pages(raw_files(copy.corpus.folder)):
        await in_thread(copy.take, paths)
    replaced = await in_thread(copy.replaced)
    raws = [RawFile(*row) for row in await dump.raw_files_at(connection, list(replaced))]
    return missing, await in_thread(copy.settle, raws, replaced)


async def pages(found: Iterator[T]) -> AsyncIterator[list[T]]:
    """Look in a thread for as many at a time as may be worked on before anybody looks whether to stop."""
    while page := await in_thread(lambda: list(itertools.islice(found, PAGE))):
        yield page


async def _dump(connection: Connection, folder: Path, on_step: OnStep) -> list[dump.Table]:
    tables = []
    names = await dump.tables_there(connection)
    for number, name in enumerate(names):
        on_step("tables", number, len(names))
        tables.append(await dump.dump_table(connection, name, folder))
    on_step("tables", len(tables), len(tables))
    return tables


async def _refuse_new_schema(context: DatabaseContext, schema: int) -> None:
    """Refuse rows of which some may have been read by an older schema and some by a newer one."""
    async with context.database.connection() as connection:
        if max(await migrate.get_applied(connection)) != schema:
            raise OperatorError(
                "The schema was changed while the backup was made. Back up again.", reason=Reason.SCHEMA_MISMATCH
            )


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
    return OperatorError(f"{why}. Name a folder that is not there yet, or empty.", reason=Reason.FOLDER_UNUSABLE)


@contextlib.contextmanager
def _unfinished(folder: Path) -> Iterator[None]:
    """Make the folder, over what an interrupted backup left there; what fails leaves nothing."""
    is_new = not folder.exists()
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / UNFINISHED).open("a+") as sign:
        try:
            fcntl.flock(sign, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _unfit(f"Another backup is being made in {folder}") from None
        sign.truncate(0)
        sign.write("This backup is being made, or was interrupted. It is not whole.\n")
        sign.flush()
        with _made_anew(folder, is_new=is_new):
            yield


@contextlib.contextmanager
def _made_anew(folder: Path, *, is_new: bool) -> Iterator[None]:
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
    os.sync()  # once for all files: flushing each of a million takes hours
    (folder / UNFINISHED).unlink()
    os.sync()


@contextlib.contextmanager
def told_to_operator(what: str) -> Iterator[None]:
    """Tell in one line why a disk or a database has put an end to something."""
    try:
        yield
    except OSError as error:
        culprit = f" ({error.filename})" if error.filename else ""
        raise OperatorError(
            f"{what} was given up: {error.strerror or error}{culprit}.", reason=Reason.FOLDER_UNUSABLE
        ) from error
    except Exception as error:
        if not is_down(error):
            raise
        raise OperatorError(
            f"{what} was given up: the database went away ({error}).", reason=Reason.DATABASE_LOST
        ) from error
