"""Restore a backup into an empty data folder and an empty database.

The raw files are copied to a folder next to their place. Then one transaction loads the rows; just before its commit
the files are moved into place. A kill on the way leaves an empty database, and the restore can start again. A kill
between the move and the commit leaves the files in place too: the next restore asks the user to move them away.
"""

import contextlib
import hashlib
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from headwater.core.errors import BadRequest, FolderUnusable, OperatorError, SchemaMismatch
from headwater.core.settings import Settings
from headwater.core.waiting import in_thread, in_threads
from headwater.db import dump, migrate
from headwater.db.pool import Connection, describe_place, open_database
from headwater.storage import backup
from headwater.storage.backup import CORPUS, DATABASE, MANIFEST, Manifest, OnStep, outages_as_operator_errors, pages
from headwater.storage.corpus_copy import copy_files, copy_known_files, is_missing, list_raw_files, measure
from headwater.storage.folder import LOCK, RawFile, make_folders

_RESTORING = ".restoring"
_MAX_NAMED = 3


class Restored(NamedTuple):
    """A restored backup. `missing` documents had no raw file in it, and `differing` names files unlike their rows."""

    manifest: Manifest
    schema: int
    missing: int
    differing: list[str]


async def restore(settings: Settings, folder: Path, on_step: OnStep = lambda *_: None) -> Restored:
    """Restore a backup. If there are files or rows already, they stay, and nothing is restored."""
    manifest = await in_thread(_read_manifest, folder)
    _refuse_newer(manifest)
    data, place = settings.data_dir, describe_place(settings)
    with outages_as_operator_errors(f"The restore into {data}"):
        await in_thread(_refuse_occupied, data)
        missing = await _refuse_damaged(folder, manifest, on_step)
        async with open_database(settings) as database:
            await database.run(dump.refuse_occupied, place)
            async with in_threads(_temporary_corpus(data)) as temporary:
                differing = await _copy_raw_files(folder, manifest, temporary, on_step)
                async with dump.loading(database, place) as connection:
                    await _load(connection, manifest, folder / DATABASE, on_step)
                    await in_thread(_put_in_place, data, temporary)
    return Restored(manifest, migrate.newest_version(), missing, differing)


class _Head(msgspec.Struct):
    format: int


def _read_manifest(folder: Path) -> Manifest:
    if (folder / backup.UNFINISHED).exists():
        raise _refused(f"The backup in {folder} was interrupted or is still running: it is not whole.")
    try:
        text = (folder / MANIFEST).read_bytes()
        if msgspec.json.decode(text, type=_Head).format > backup.FORMAT:
            raise _refused(f"The backup in {folder} was made by a newer Headwater: use that one, or a newer one.")
        return msgspec.json.decode(text, type=Manifest)
    except (FileNotFoundError, NotADirectoryError):
        raise _refused(f"There is no backup in {folder}: it has no {MANIFEST}.") from None
    except msgspec.MsgspecError as error:
        raise _damaged(folder, f"{MANIFEST} cannot be read ({error}).") from None


def _refuse_damaged_table(folder: Path, table: dump.Table) -> None:
    """Refuse a table's file that is not the one that was written."""
    path = folder / DATABASE / table.file_name
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        digest = ""
    if digest != table.sha256:
        fault = "is not the file that was written" if digest else "is missing"
        raise _damaged(folder, f"{DATABASE}/{table.file_name} {fault}.")


def _refuse_newer(manifest: Manifest) -> None:
    known = migrate.newest_version()
    if manifest.schema > known:
        raise SchemaMismatch(
            f"The backup was made by Headwater {manifest.headwater}, with schema version {manifest.schema}; this "
            f"program knows them up to {known}. Use that Headwater, or a newer one. Nothing was restored."
        )


def _refuse_occupied(data: Path) -> None:
    present = {path.name for path in (data / "corpus").iterdir()} if (data / "corpus").exists() else set()
    if present - {_RESTORING, LOCK, "lost+found"}:
        raise FolderUnusable(
            f"There are raw files below {data / 'corpus'} already. Nothing was changed. Restore into a new data folder "
            "(HEADWATER_DATA_DIR); or stop every Headwater that uses this one and move it away: "
            f"`mv {shlex.quote(str(data))} {shlex.quote(f'{data}.old')}`. Keep it until `headwater verify` finds that "
            "the restored documents are right. Move the rest of an interrupted restore away in the same way."
        )


async def _refuse_damaged(folder: Path, manifest: Manifest, on_step: OnStep) -> int:
    """Refuse a backup that changed after it was written. Returns how many documents had no raw file then."""
    for number, table in enumerate(manifest.tables):
        on_step("checks", number, len(manifest.tables))
        await in_thread(_refuse_damaged_table, folder, table)
    missing = await in_thread(
        lambda: [raw.path for raw in _read_rows(folder, manifest) if is_missing(folder / CORPUS, raw)]
    )
    if len(missing) > manifest.missing:
        raise _damaged(folder, _describe_missing(missing, manifest.missing))
    extent = await in_thread(measure, folder / CORPUS)
    if extent != manifest.raw:
        raise _damaged(
            folder,
            f"it has {extent.files:,} raw files of {extent.size:,} bytes and should have {manifest.raw.files:,} of "
            f"{manifest.raw.size:,}.",
        )
    return len(missing)


def _read_rows(folder: Path, manifest: Manifest) -> Iterator[RawFile]:
    return (RawFile(*row) for row in dump.read_raw_files_in(folder / DATABASE, manifest.tables))


def _describe_missing(missing: Sequence[str], before: int) -> str:
    if len(missing) == 1:
        return f"1 of its raw files is missing: {missing[0]}."
    text = f"{len(missing):,} of its raw files are missing, such as {', '.join(missing[:_MAX_NAMED])}."
    return text + (f" {before:,} of them were missing when it was made." if before else "")


def _damaged(folder: Path, why: str) -> OperatorError:
    return _refused(f"The backup in {folder} is damaged: {why}")


def _refused(why: str) -> OperatorError:
    return BadRequest(f"{why} Nothing was restored.")


@contextlib.contextmanager
def _temporary_corpus(data: Path) -> Iterator[Path]:
    """Make a folder for raw files on the disk of the corpus. The rest of an interrupted restore is removed."""
    folder = data / "corpus" / _RESTORING
    if folder.exists():
        shutil.rmtree(folder)
    make_folders(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _copy_raw_files(folder: Path, manifest: Manifest, target: Path, on_step: OnStep) -> list[str]:
    """Copy all raw files, the ones that rows name first. Returns the paths of files that differ from their rows."""
    source, total, done = folder / CORPUS, manifest.raw.files, 0
    differing: list[str] = []
    on_step("raw files", 0, total)
    async for raws in pages(_read_rows(folder, manifest)):
        differing += await in_thread(copy_known_files, source, target, raws)
        done += len(raws)
        on_step("raw files", min(done, total), total)
    async for paths in pages(list_raw_files(source)):
        await in_thread(copy_files, source, target, paths)
    on_step("raw files", total, total)
    await in_thread(os.sync)
    return differing


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


def _put_in_place(data: Path, temporary: Path) -> None:
    for source in temporary.iterdir():
        source.rename(data / "corpus" / source.name)
    os.sync()
    shutil.rmtree(data / "verify", ignore_errors=True)  # the progress of a verify of other rows
