"""A backup taken under full load restores to a state that passes `verify`; a killed one is never taken for whole.

Spec 1.5, 9.1, 9.3, issue 5.
"""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from headwater.db.sql import query
from tests.faults.conftest import Crawl
from tests.faults.harness import Harness
from tests.faults.victim import BACKUP_POINTS, MAY_COMMIT, RESTORE_POINTS
from tests.program import headwater


@contextlib.asynccontextmanager
async def pages_that_change(harness: Harness) -> AsyncIterator[None]:
    """All pages change and are fetched again and again."""

    async def change() -> None:
        connection = await asyncpg.connect(harness.database_url)
        try:
            while True:
                harness.swarm.rewrite(seed=harness.swarm.seed + 1)
                ended = await connection.fetch("SELECT id FROM url_frontier WHERE status <> 'pending'")
                await connection.fetch(query("retry_urls"), [row[0] for row in ended], 5, datetime.now(UTC))
                await asyncio.sleep(0.02)
        finally:
            await connection.close()

    changing = asyncio.create_task(change())
    try:
        yield
    finally:
        changing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await changing


async def until_replaced(harness: Harness, times: int) -> None:
    """Wait until every document was saved anew so many times."""
    revisions = "SELECT id, revision FROM documents"
    before = dict(await harness.rows(revisions))
    while any(revision < before.get(number, 0) + times for number, revision in await harness.rows(revisions)):
        await asyncio.sleep(0.05)


async def restored(harness: Harness, backup: Path, into: str = "restored") -> dict[str, Any]:
    """Restore a backup, as a user would on another machine, and return what `verify` says of it."""
    settings = {"data_dir": harness.folder / into}
    answer = await asyncio.to_thread(headwater, "restore", str(backup), cwd=harness.folder, **settings)
    assert (answer.returncode, answer.stderr) == (0, "")
    answer = await asyncio.to_thread(headwater, "verify", "--json", cwd=harness.folder, **settings)
    told: dict[str, Any] = json.loads(answer.stdout)
    return told


def unlike(backup: Path) -> int:
    """Count the rows in a backup whose raw file in it is missing or another, as anybody could who reads its files."""
    manifest = json.loads((backup / "manifest.json").read_text())
    (table,) = [table for table in manifest["tables"] if table["name"] == "documents"]
    path, digest = table["columns"].index("raw_path"), table["columns"].index("raw_hash")
    rows = [line.split("\t") for line in (backup / "database/documents.copy").read_text().splitlines()]
    assert len(rows) == table["rows"] > 0
    files = [(backup / "corpus" / row[path], row[digest].removeprefix(r"\\x")) for row in rows]
    return sum(not file.exists() or hashlib.sha256(file.read_bytes()).hexdigest() != hashed for file, hashed in files)


async def held_backup(harness: Harness, folder: Path, plant: str = "-") -> int:
    """Make a backup between whose snapshot and copy every page is replaced twice."""
    await harness.start("up", plant=plant)
    await harness.start("worker", plant=plant)
    await harness.until_done()
    async with pages_that_change(harness):
        await until_replaced(harness, 1)
        backing_up = asyncio.create_task(harness.run("backup", str(folder), plant=f"held backup,{plant}"))
        await harness.until_held_back()
        await until_replaced(harness, 2)
        (harness.folder / MAY_COMMIT).touch()
        return await backing_up


async def test_a_backup_under_full_load_has_for_every_row_its_raw_file(crawl: Crawl) -> None:
    async with crawl(hosts=30, pages=2, plain=True, delay_ms=0) as harness:
        folder = harness.folder / "backup"
        assert await held_backup(harness, folder) == 0
        assert unlike(folder) == 0
        told = await restored(harness, folder)
        assert (told["checked"], told["wrong"]) == (60, 0)


async def test_a_backup_without_replaced_versions_lacks_raw_files(crawl: Crawl) -> None:
    """The test above can fail."""
    async with crawl(hosts=30, pages=2, plain=True, delay_ms=0) as harness:
        folder = harness.folder / "backup"
        await held_backup(harness, folder, "nothing set aside,hasty backup")
        assert unlike(folder) == 60


async def test_each_of_several_backups_during_changes_is_whole(crawl: Crawl) -> None:
    async with crawl(hosts=40, pages=5, plain=True, delay_ms=0, programs=["up", "worker"]) as harness:
        await harness.until_under_way(0.3)
        async with pages_that_change(harness):
            for number in range(4):
                folder = harness.folder / f"backup{number}"
                assert await harness.run("backup", str(folder)) == 0
                assert unlike(folder) == 0


@pytest.mark.parametrize("plant", [None, "hasty backup"])
async def test_a_backup_waits_for_the_row_of_a_file_that_was_replaced_before(plant: str | None, crawl: Crawl) -> None:
    """The old file is gone and the new row has not come: no copy of that moment can be right."""
    async with crawl(hosts=10, pages=1, plain=True, delay_ms=0, lease_seconds=30) as harness:
        await harness.start("up")
        await harness.until_done()
        await harness.stop()
        harness.swarm.rewrite(seed=2)
        ids = [row[0] for row in await harness.rows("SELECT id FROM url_frontier")]
        await harness.rows(query("retry_urls"), ids, 5, datetime.now(UTC))
        await harness.start("up", plant="late commit")
        await harness.until_held_back()
        folder = harness.folder / "backup"
        backing_up = asyncio.create_task(harness.run("backup", str(folder), plant=plant))
        while not (folder / "corpus").exists() and not backing_up.done():
            await asyncio.sleep(0.01)
        if plant is None:
            assert not list((folder / "corpus").iterdir())
            await harness.let_commit()
        await backing_up
        assert bool(unlike(folder)) == (plant is not None)


async def test_a_killed_backup_is_refused_and_can_be_made_again(crawl: Crawl) -> None:
    async with crawl(hosts=10, pages=1, plain=True, delay_ms=0, programs=["up"]) as harness:
        await harness.until_done()
        folder = harness.folder / "backup"
        elsewhere: dict[str, object] = {"data_dir": harness.folder / "elsewhere", "database_url": ""}
        for point in BACKUP_POINTS:
            assert await harness.run("backup", str(folder), point=point) == -9
            assert await harness.run("restore", str(folder), **elsewhere) == 2
            assert not (harness.folder / "elsewhere").exists()
        answer = await asyncio.to_thread(headwater, "restore", str(folder), cwd=harness.folder, **elsewhere)
        assert "is not whole" in answer.stderr
        assert await harness.run("backup", str(folder)) == 0
        assert (await restored(harness, folder))["checked"] == 10


async def test_a_killed_restore_looks_unfinished_and_can_be_done_again(crawl: Crawl) -> None:
    async with crawl(hosts=10, pages=1, plain=True, delay_ms=0, programs=["up"]) as harness:
        await harness.until_done()
        folder = harness.folder / "backup"
        assert await harness.run("backup", str(folder)) == 0
        await harness.stop()
        elsewhere: dict[str, object] = {"data_dir": harness.folder / "restored", "database_url": ""}
        for point in RESTORE_POINTS:
            assert await harness.run("restore", str(folder), point=point, **elsewhere) == -9
        refused = await asyncio.to_thread(
            headwater, "restore", str(folder), cwd=harness.folder, data_dir=harness.folder / "restored"
        )
        assert refused.returncode == 2
        assert str(harness.folder / "restored/corpus") in refused.stderr, "the last point is past the move of the files"
        for source in (harness.folder / "restored/corpus").iterdir():
            source.rename(harness.folder / f"removed-{source.name}")
        told = await restored(harness, folder)
        assert (told["checked"], told["wrong"]) == (10, 0)
