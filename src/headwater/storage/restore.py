"""A backup taken back, into an empty data folder and an empty database.

Raw files are copied beside their place first. Then the rows go in, in one transaction; the files are moved into place
just before it is committed. So what is killed on the way leaves an empty database, and is done again; between the move
and the commit it leaves the files in place too, and the next restore asks for them to be moved away first.
"""

import contextlib
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.core.waiting import in_thread, in_threads
from headwater.db import dump, migrate
from headwater.db.pool import Connection, describe_place, open_database
from headwater.storage.backup import OnStep, pages, told_to_operator
from headwater.storage.backup_manifest import CORPUS, DATABASE, Manifest, read_manifest, refuse_damaged
from headwater.storage.corpus_copy import copy_files, copy_known, measure, missing_files, raw_files
from headwater.storage.folder import LOCK, RawFile

_BESIDE = ".restoring"
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored; the schema is the program's own by now.

    `missing` documents had no raw file when the backup was made, and `unlike` names the files that are not their row's.
    """

    manifest: Manifest
    schema: int
    missing: int
    unlike: Sequence[str]


async def restore(settings: Settings, folder: Path, on_step: OnStep = lambda *_: None) -> Restored:
    """Take a backup back; whatever is there already is left alone, and nothing is restored then."""
    manifest = await in_thread(read_manifest, folder)
    _refuse_newer(manifest)
    data, where = settings.data_dir, describe_place(settings)
    with told_to_operator(f"The restore into {data}"):
        await in_thread(_refuse_occupied, data)
        missing = await _refuse_damaged(folder, manifest, on_step)
        async with open_database(settings) as database:
            async with database.connection() as connection:
                await dump.refuse_occupied(connection, where)
            async with in_threads(_beside(data)) as beside:
                unlike = await _copy_raw_files(folder, manifest, beside, on_step)
                async with dump.loading(database, where) as connection:
                    await _load(connection, manifest, folder / DATABASE, on_step)
                    await in_thread(_put_in_place, data, beside)
    return Restored(manifest, migrate.newest_version(), missing, unlike)


def _refuse_newer(manifest: Manifest) -> None:
    known = migrate.newest_version()
    if manifest.schema > known:
        raise OperatorError(
            f"The backup was made by Headwater {manifest.headwater}, with schema version {manifest.schema}; this "
            f"program knows them up to {known}. Use that Headwater, or a newer one. Nothing was restored.",
            reason=Reason.SCHEMA_MISMATCH,
        )


def _refuse_occupied(data: Path) -> None:
    there = {path.name for path in (data / "corpus").iterdir()} if (data / "corpus").exists() else set()
    if there - {_BESIDE, LOCK, "lost+found"}:
        raise OperatorError(
            f"There are raw files below {data / 'corpus'} already. Nothing was changed. Restore into a data folder "
            "that is not there yet (HEADWATER_DATA_DIR); or stop every Headwater that uses this one and move it away: "
            f"`mv {shlex.quote(str(data))} {shlex.quote(f'{data}.old')}`. Keep that until `headwater verify` has found "
            "what was restored to be right. What an interrupted restore has left is moved away likewise.",
            reason=Reason.FOLDER_UNUSABLE,
        )


async def _refuse_damaged(folder: Path, manifest: Manifest, on_step: OnStep) -> int:
    """Refuse a backup that is not what was written; return how many documents have no raw file, as had been so then."""
    for number, table in enumerate(manifest.tables):
        on_step("checks", number, len(manifest.tables))
        await in_thread(refuse_damaged, folder, table)
    missing = await in_thread(lambda: list(missing_files(folder / CORPUS, _raw_files(folder, manifest))))
    if len(missing) > manifest.missing:
        raise _damaged(folder, _tell_missing(missing, manifest.missing))
    extent = await in_thread(measure, folder / CORPUS)
    if extent != manifest.raw:
        raise _damaged(
            folder,
            f"it has {extent.files:,} raw files of {extent.size:,} bytes and should have {manifest.raw.files:,} of "
            f"{manifest.raw.size:,}.",
        )
    return len(missing)


def _raw_files(folder: Path, manifest: Manifest) -> Iterator[RawFile]:
    return (RawFile(*row) for row in dump.raw_files_in(folder / DATABASE, manifest.tables))


def _tell_missing(missing: Sequence[str], before: int) -> str:
    if len(missing) == 1:
        return f"1 of its raw files is missing: {missing[0]}."
    told = f"{len(missing):,} of its raw files are missing, such as {', '.join(missing[:_NAMED])}."
    return told + (f" {before:,} of them had been when it was made." if before else "")


def _damaged(folder: Path, why: str) -> OperatorError:
    return OperatorError(f"The backup in {folder} is damaged: {why} Nothing was restored.", reason=Reason.BAD_REQUEST)


@contextlib.contextmanager
def _beside(data: Path) -> Iterator[Path]:
    """Give a place for raw files on the corpus' disk, over what an interrupted restore left there."""
    beside = data / "corpus" / _BESIDE
    if beside.exists():
        shutil.rmtree(beside)
    beside.mkdir(parents=True)
    try:
        yield beside
    finally:
        shutil.rmtree(beside, ignore_errors=True)


async def _copy_raw_files(folder: Path, manifest: Manifest, beside: Path, on_step: OnStep) -> list[str]:
    """Copy all raw files, those that rows speak of first; name those that are not their row's."""
    source, total, done = folder / CORPUS, manifest.raw.files, 0
    unlike: list[str] = []
    on_step("raw files", 0, total)
    async for raws in pages(_raw_files(folder, manifest)):
        unlike += await in_thread(copy_known, source, beside, raws)
        done += len(raws)
        on_step("raw files", min(done, total), total)
    async for paths in pages(raw_files(source)):
        await in_thread(copy_files, source, beside, paths)
    on_step("raw files", total, total)
    await in_thread(os.sync)
    return unlike


async def _load(connection: Connection, manifest: Manifest, folder: Path, on_step: OnStep) -> None:
    total = len(manifest.tables)
    await dump.load(
        connection,
        manifest.schema,
        manifest.tables,
        manifest.sequences,
        folder,
        lambda done: on_step("tables", done, total),
    )
    on_step("tables", total, total)


def _put_in_place(data: Path, beside: Path) -> None:
    """Move the raw files to where rows will look for them in a moment."""
    for source in beside.iterdir():
        source.rename(data / "corpus" / source.name)
    os.sync()
    shutil.rmtree(data / "verify", ignore_errors=True)  # how far somebody had come with other rows
