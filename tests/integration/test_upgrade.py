"""Spec 9.1: a command upgrades the embedded PostgreSQL between majors. Kills on the way: tests/faults."""

import fcntl
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from headwater.app import schema
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db.embedded import upgrade as upgrades
from headwater.db.embedded.server import open_server
from headwater.db.embedded.upgrade import upgrade
from tests.faults.disk import small_disk
from tests.old_clusters import DOCUMENTS, HARD_TEXT, MAJOR, TO, Rows, make_old_data, read_new_rows, run_old_server
from tests.program import headwater
from tests.refusals import refused

Command = Callable[..., "subprocess.CompletedProcess[str]"]
SCHEMA = """
SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT tgname || tgenabled::text FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT conname FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n' ORDER BY 1
"""
LAST = "SELECT last_value FROM pg_sequences WHERE sequencename = 'documents_id_seq'"


@pytest.fixture(scope="module")
def folders() -> Iterator[dict[str, Any]]:
    """The filled data folder of the first test that asks for one, and its rows."""
    kept: dict[str, Any] = {}
    yield kept
    if kept:
        shutil.rmtree(kept["data"])


@pytest.fixture
async def first(folders: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Fill the first data folder."""
    if not folders:
        data = tmp_path_factory.mktemp("old") / "data"
        folders |= {"rows": await make_old_data(data), "data": data}
    return folders


@pytest.fixture
def old(first: dict[str, Any], data: Path) -> Rows:
    """Make the data folder of this test, with an old cluster. Returns its rows."""
    copy_folder(first["data"], data)
    rows: Rows = first["rows"]
    assert len(rows["documents"]) == DOCUMENTS
    assert any(HARD_TEXT.split(",")[0] in row for row in rows["texts"])
    return rows


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data folder of this test."""
    return tmp_path / "data"


@pytest.fixture
def command(tmp_path: Path, data: Path) -> Command:
    """Runs the program on the data folder."""

    def run(*words: str, **settings: Any) -> "subprocess.CompletedProcess[str]":
        return headwater(*words, cwd=tmp_path, **({"data_dir": data} | settings))

    return run


def copy_folder(folder: Path, to: Path) -> None:
    """Copy a data folder with the owners of its files."""
    subprocess.run(["cp", "-a", folder, to], check=True)


def homes(data: Path) -> set[str]:
    """Return the names of the homes of all clusters."""
    return {path.name for path in (data / "postgres").iterdir()}


async def ask(dsn: str, statement: str) -> list[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        return [row[0] for row in await connection.fetch(statement)]
    finally:
        await connection.close()


async def ask_new(data: Path, statement: str) -> list[Any]:
    """Ask the cluster that programs use."""
    with open_server(data) as server:
        return await ask(server.dsn, statement)


async def test_an_upgrade_moves_every_row_and_keeps_the_old_cluster(old: Rows, data: Path, command: Command) -> None:
    refusal = command("today")
    assert refusal.returncode == 2
    assert "`headwater upgrade`" in refusal.stderr
    assert homes(data) == {MAJOR}
    answer = command("upgrade", "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    report = json.loads(answer.stdout)
    assert (report["from_version"], report["to_version"]) == (MAJOR, TO)
    assert (report["tables"], report["rows"]) == (len(old), sum(map(len, old.values())))
    assert report["copies"] == [str(data / f"postgres/{MAJOR}.old")]
    assert report["copies_bytes"] > 1e6
    assert homes(data) == {TO, f"{MAJOR}.old"}
    assert await read_new_rows(data) == old
    verified = json.loads(command("verify", "--json").stdout)
    assert (verified["checked"], verified["wrong"]) == (DOCUMENTS, 0)
    assert len(json.loads(command("search", "matter", "--json").stdout)["hits"]) == DOCUMENTS
    again = json.loads(command("upgrade", "--json").stdout)
    assert (again["from_version"], again["copies"]) == (None, report["copies"])


async def test_an_upgraded_cluster_has_the_schema_of_a_new_one(old: Rows, data: Path, command: Command) -> None:
    """Indexes, triggers and constraints are there, and sequences continue."""
    with run_old_server(data) as dsn:
        last = await ask(dsn, LAST)
    assert command("upgrade").returncode == 0
    upgraded = await ask_new(data, SCHEMA)
    assert await ask_new(data, LAST) == last
    (data / f"postgres/{TO}").rename(data / "aside")
    shutil.rmtree(data / f"postgres/{MAJOR}.old")
    assert command("migrate", "up").returncode == 0
    fresh = await ask_new(data, SCHEMA)
    assert upgraded == fresh


async def test_the_old_cluster_still_works_after_an_upgrade(old: Rows, data: Path, command: Command) -> None:
    assert command("upgrade").returncode == 0
    shutil.rmtree(data / f"postgres/{TO}")
    (data / f"postgres/{MAJOR}.old").rename(data / f"postgres/{MAJOR}")
    assert command("upgrade").returncode == 0
    assert await read_new_rows(data) == old


async def test_drop_old_deletes_the_copy_only_if_the_new_cluster_works(old: Rows, data: Path, command: Command) -> None:
    copy = data / f"postgres/{MAJOR}.old"
    assert command("upgrade", "--drop-old", "--yes").returncode == 2
    assert homes(data) == {MAJOR}
    assert command("upgrade").returncode == 0
    assert command("upgrade", "--drop-old").returncode == 2
    assert copy.exists()
    settings = data / f"postgres/{TO}/cluster/postgresql.auto.conf"
    settings.write_text(settings.read_text() + "wal_level = nonsense\n")
    assert command("upgrade", "--drop-old", "--yes").returncode == 2
    assert copy.exists()
    settings.write_text("")
    dropped = json.loads(command("upgrade", "--drop-old", "--yes", "--json").stdout)
    assert (dropped["dropped"], dropped["copies"]) == ([str(copy)], [])
    assert dropped["dropped_bytes"] > 1e6
    assert homes(data) == {TO}
    assert await read_new_rows(data) == old


async def test_an_upgrade_refuses_a_database_in_use(
    old: Rows, data: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (data / f"postgres/{MAJOR}/users.lock").open() as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        with refused(Reason.DATABASE_UNREACHABLE, data):
            await upgrade(data)
    assert homes(data) == {MAJOR}
    assert command("upgrade").returncode == 0


async def test_an_upgrade_without_enough_space_changes_nothing(
    old: Rows, data: Path, tmp_path: Path, command: Command
) -> None:
    with small_disk(tmp_path / "small", f"{int(upgrades.measure(data) / 1e6 * 1.5)}m") as disk:
        small = disk.folder / "data"
        copy_folder(data, small)
        answer = command("upgrade", data_dir=small)
        assert answer.returncode == 2
        assert f"MB on the disk of {small}/postgres/{MAJOR}" in answer.stderr
        assert homes(small) == {MAJOR}
        disk.make_room("1g")
        assert command("upgrade", data_dir=small).returncode == 0


async def test_a_disk_that_fills_during_an_upgrade_leaves_the_old_cluster(
    old: Rows, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrades, "_require_space", lambda _: None)
    with small_disk(tmp_path / "small", f"{int(upgrades.measure(data) / 1e6) + 12}m") as disk:
        small = disk.folder / "data"
        copy_folder(data, small)
        with refused(Reason.FOLDER_UNUSABLE, "No space left"):
            await upgrade(small)
        assert homes(small) == {MAJOR}
        disk.make_room("1g")
        assert await upgrade(small)
        assert await read_new_rows(small) == old


async def test_a_difference_between_the_clusters_is_found(
    old: Rows, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prove = upgrades._prove

    async def spoil_and_prove(dsn: str, *arguments: Any) -> None:
        connection = await asyncpg.connect(dsn)
        await connection.execute("UPDATE documents SET title = title || '.' WHERE id = 1")
        await connection.close()
        await prove(dsn, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(upgrades, "_prove", spoil_and_prove)
        with refused(Reason.DATABASE_UNREACHABLE, "documents"):
            await upgrade(data)
    assert homes(data) == {MAJOR}
    assert await upgrade(data)
    assert await read_new_rows(data) == old


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("INSERT INTO schema_migrations (number, name) VALUES (99, 'later')", 99),
        ("ALTER TABLE items ADD COLUMN note text", "items"),
    ],
)
async def test_a_schema_of_another_program_is_refused(old: Rows, data: Path, change: str, named: object) -> None:
    with run_old_server(data) as dsn:
        connection = await asyncpg.connect(dsn)
        await connection.execute(change)
        await connection.close()
    with refused(Reason.SCHEMA_MISMATCH, named):
        await upgrade(data)
    assert homes(data) == {MAJOR}


async def test_an_empty_old_cluster_is_upgraded(data: Path) -> None:
    with run_old_server(data):
        pass
    upgraded = await upgrade(data)
    assert upgraded
    assert upgraded.tables == []
    assert await read_new_rows(data) == {}


async def test_only_an_embedded_older_database_is_upgraded(data: Path, make_settings: Callable[..., Settings]) -> None:
    with refused(Reason.BAD_REQUEST, "HEADWATER_DATABASE_URL"):
        await schema.upgrade(make_settings(), lambda *_: None)
    with refused(Reason.NO_DATABASE, data):
        await schema.upgrade(Settings(data_dir=data), lambda *_: None)
    assert not list(data.parent.iterdir())
    (data / "postgres/99/cluster").mkdir(parents=True)
    (data / "postgres/99/cluster/PG_VERSION").write_text("99\n")
    with refused(Reason.FOLDER_UNUSABLE, 99):
        await schema.upgrade(Settings(data_dir=data), lambda *_: None)


async def test_a_version_that_the_package_lacks_is_named(data: Path) -> None:
    with run_old_server(data):
        pass
    (data / f"postgres/{MAJOR}").rename(data / "postgres/15")
    (data / "postgres/15/cluster/PG_VERSION").write_text("15\n")
    with refused(Reason.DATABASE_UNREACHABLE, "PostgreSQL 15"):
        await upgrade(data)
    assert homes(data) == {"15"}
