"""Upgrade the embedded PostgreSQL: copy all rows of a cluster of an older major version into a new cluster.

<data_dir>/postgres/16/       the home of the old cluster, locked during the upgrade; no program changes it
                   18.new/    the home of the new cluster; the next upgrade removes what a kill left here
                   18/        18.new after its rename: programs use it from this instant on
                   16.old/    the old home after that, kept until `drop_old`

The rename is the last step. Before it, the new server starts once more, and each table has the same rows as the old
one. We copy rows and do not run pg_upgrade: that refuses another locale or page checksum, and can be interrupted at
points from which neither cluster starts. The schema keeps its version; the next start migrates it.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from headwater.core.errors import BadRequest, DatabaseUnreachable, FolderUnusable, OperatorError, SchemaMismatch
from headwater.core.reasons import Reason
from headwater.core.waiting import in_thread, in_threads
from headwater.db import dump, migrate
from headwater.db.embedded.cluster import (
    MAJOR,
    Cluster,
    find_other_majors,
    open_folder,
    place_cluster,
    report_folder_errors,
)
from headwater.db.embedded.server import lock_out_others, run_alone, stop_leftover
from headwater.db.pool import AWAY, Connection, find_full_disk, open_database_at

OnStep = Callable[[str, int, int, str], None]
"""A callback for progress: the step, how many tables are done, how many there are, and the table."""
_NEW, _OLD, _DROPPED = ".new", ".old", ".dropped"
_WAITING_CHUNKS = 16
_LARGEST_LOG = 1 << 30  # the new server's write-ahead log, by PostgreSQL's default


class Upgraded(NamedTuple):
    """A finished upgrade: the old major version, the copied tables, and the folder of the old cluster."""

    old_major: str
    tables: list[dump.Table]
    kept: Path


class Contents(NamedTuple):
    """The contents of a database: the number of its schema, its tables, and its sequences."""

    schema: int
    tables: list[dump.Table]
    sequences: dict[str, int]


async def upgrade(data_dir: Path, on_step: OnStep = lambda *_: None) -> Upgraded | None:
    """Move a data folder's cluster to this program's major version. Returns None if it has that version already.

    If the upgrade fails or is interrupted, the old cluster is as it was, and the command can run again.
    """
    versions = _versions(data_dir)
    with report_folder_errors(data_dir):
        old = await in_thread(_find_old_cluster, versions)
        if old is None:
            await in_thread(_retire_old_homes, versions)
            return None
        new = Cluster(versions / f"{MAJOR}{_NEW}", old.account)
        async with in_threads(lock_out_others(old)) as old_lock:
            await in_thread(_require_space, old)
            async with in_threads(_new_home(new)):
                with _report_outages(data_dir):
                    tables = await _copy_cluster(old, old_lock, new, on_step)
                await in_thread(_switch, new)
            await in_thread(_retire_old_homes, versions)
    return Upgraded(old.major, tables, versions / f"{old.major}{_OLD}")


def find_copies(data_dir: Path) -> list[Path]:
    """Return the folders of the old clusters that upgrades kept, and of those that are only partly deleted."""
    versions = _versions(data_dir)
    if not versions.is_dir():
        return []
    return sorted(path for path in versions.iterdir() if path.suffix in (_OLD, _DROPPED) and path.stem.isdigit())


def drop_copies(data_dir: Path) -> None:
    """Delete the copies of old clusters. An interrupted call can be repeated."""
    with report_folder_errors(data_dir):
        for copy in find_copies(data_dir):
            dropped = copy.with_suffix(_DROPPED)  # a copy that lacks files must not look like a whole one
            copy.rename(dropped)
            shutil.rmtree(dropped)


def measure(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def _versions(data_dir: Path) -> Path:
    return data_dir.absolute() / "postgres"


def _find_old_cluster(versions: Path) -> Cluster | None:
    others = find_other_majors(versions)
    if not others:
        return None
    home, major = others[-1]
    if not major.isdigit() or int(major) > int(MAJOR) or home.name != major:
        raise FolderUnusable(
            f"{home / 'cluster'} was made by PostgreSQL {major} and this program runs PostgreSQL {MAJOR}. "
            "Use the Headwater that made it."
        )
    if (kept := home.with_suffix(_OLD)).exists():
        raise BadRequest(
            f"{kept} is the copy that an earlier upgrade kept. Move it out of {versions}, or delete it, and try again."
        )
    return place_cluster(home, major)


def _require_space(old: Cluster) -> None:
    size = measure(old.data)
    needed, free = size + min(size, _LARGEST_LOG), shutil.disk_usage(old.home).free
    if free < needed:
        raise FolderUnusable(
            f"The upgrade needs {needed / 1e6:,.0f} MB on the disk of {old.home}, and {free / 1e6:,.0f} MB are free. "
            "Free some space and try again. Nothing was changed."
        )


@contextlib.contextmanager
def _new_home(new: Cluster) -> Iterator[None]:
    """Make an empty home. A failure removes it again, and a success has renamed it."""
    _discard(new)
    new.home.mkdir(mode=0o700)
    try:
        yield
    except BaseException:
        _discard(new)
        raise


def _discard(new: Cluster) -> None:
    if new.home.exists():
        with lock_out_others(new):  # waits for programs that a killed upgrade started
            stop_leftover(new)
            shutil.rmtree(new.home)


async def _copy_cluster(old: Cluster, old_lock: int, new: Cluster, on_step: OnStep) -> list[dump.Table]:
    """Fill the new cluster, start it once more, and compare it with the old one. Both are stopped afterwards."""
    async with in_threads(lock_out_others(new)) as new_lock:
        async with in_threads(run_alone(old, old_lock)) as old_dsn, in_threads(run_alone(new, new_lock)) as new_dsn:
            contents = await _copy_rows(old_dsn, new_dsn, on_step)
        async with in_threads(run_alone(new, new_lock)) as new_dsn:
            await _prove(new_dsn, contents, on_step)
    return contents.tables


async def _copy_rows(old_dsn: str, new_dsn: str, on_step: OnStep) -> Contents:
    """Copy all tables in one transaction."""
    async with (
        open_database_at(old_dsn) as old,
        dump.open_snapshot(old) as source,
        open_database_at(new_dsn) as new,
        dump.loading(new, "the new cluster") as target,
    ):
        applied = await migrate.get_applied(source)
        migrate.refuse_newer(applied)
        names, sequences = await dump.list_tables(source), await dump.read_sequences(source)
        schema = max(applied, default=0)
        tables = []
        if names:
            with dump.report_misfits("The old cluster"):
                indexes = await dump.make_empty_tables(target, schema)
                for number, name in enumerate(names):
                    on_step("copy", number, len(names), name)
                    tables.append(await _copy_table(source, target, name))
                on_step("copy", len(names), len(names), "")
                await dump.finish_tables(target, indexes, sequences)
                await dump.analyze(target)
        return Contents(schema, tables, sequences)


async def _copy_table(source: Connection, target: Connection, name: str) -> dump.Table:
    chunks: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING_CHUNKS)
    columns = await dump.read_columns(source, name)
    if columns != await dump.read_columns(target, name):
        raise SchemaMismatch(
            f"The table {name} of the old cluster has other columns than this program makes: another build made it. "
            "The old cluster is unchanged. Use that build."
        )

    async def read() -> dump.Table:
        table = await dump.read_table(source, name, chunks.put)
        await chunks.put(None)
        return table

    async def stream() -> AsyncIterator[bytes]:
        while (chunk := await chunks.get()) is not None:
            yield chunk

    try:
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(read())
            tasks.create_task(dump.fill_table(target, name, columns, stream()))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return reading.result()


async def _prove(dsn: str, expected: Contents, on_step: OnStep) -> None:
    """Compare the schema, each table and each sequence of the new cluster with the old one's."""

    async def ignore(_: bytes) -> None:
        return

    async with open_database_at(dsn) as new, dump.open_snapshot(new) as connection:
        if max(await migrate.get_applied(connection), default=0) != expected.schema:
            raise _differs("the schema")
        for number, table in enumerate(expected.tables):
            on_step("compare", number, len(expected.tables), table.name)
            if await dump.read_table(connection, table.name, ignore) != table:
                raise _differs(f"the table {table.name}")
        on_step("compare", len(expected.tables), len(expected.tables), "")
        if await dump.read_sequences(connection) != expected.sequences:
            raise _differs("the sequences")


def _differs(what: str) -> OperatorError:
    return DatabaseUnreachable(
        f"In the new cluster {what} differs from the old one. The old cluster is unchanged; report this as a bug."
    )


def _switch(new: Cluster) -> None:
    """Put the new home in the place where programs look for it."""
    os.sync()
    home = new.home.with_name(MAJOR)
    if home.exists():
        shutil.rmtree(home)  # it has no cluster: a start was killed before it made one
    new.home.rename(home)
    _flush(home.parent)


def _retire_old_homes(versions: Path) -> None:
    """Rename the homes of older versions, so that no older program writes to them. Later runs repeat it."""
    if not (versions / MAJOR / "cluster").exists():
        return
    for home in versions.iterdir():
        if home.name.isdigit() and int(home.name) < int(MAJOR) and (home / "cluster").exists():
            home.rename(home.with_name(f"{home.name}{_OLD}"))
    _flush(versions)


def _flush(folder: Path) -> None:
    with ExitStack() as closing:
        os.fsync(open_folder(folder, closing))


@contextlib.contextmanager
def _report_outages(data_dir: Path) -> Iterator[None]:
    unchanged = "The old cluster is unchanged. Run the command again"
    try:
        yield
    except Exception as error:
        if message := find_full_disk(error):
            raise FolderUnusable(
                f"The disk of {data_dir} has no space left: {message}. {unchanged} when there is space."
            ) from error
        is_file_error = isinstance(error, OSError) and not isinstance(error, (ConnectionError, TimeoutError))
        if isinstance(error, AWAY) and not is_file_error:
            raise OperatorError(
                f"The upgrade of the database in {data_dir} failed: {error}. {unchanged}.", reason=Reason.DATABASE_LOST
            ) from error
        raise
