"""If the database's disk is full, every command reports it in one line with exit code 2 (CONTRIBUTING)."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from headwater.core.errors import OperatorError
from headwater.core.settings import Settings
from headwater.db.pool import open_database
from tests.clusters import model
from tests.program import forked, headwater, with_a_mount
from tests.server import Site, rss

FULL = "DO $$ BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$"


def test_a_disk_that_is_filled_by_the_schema_is_named(tmp_path: Path) -> None:
    """There was room for a cluster, and none for its tables."""
    disk = tmp_path / "disk"
    disk.mkdir()
    wrapped_by = with_a_mount(
        f'mount -t tmpfs -o size=128m tmpfs "{disk}" && cp -a "{model()}" "{disk}/data" && '
        f'(cat /dev/zero > "{disk}/filling" 2> /dev/null; truncate -s -1M "{disk}/filling") && exec "$@"'
    )
    answer = headwater("migrate", "up", cwd=tmp_path, wrapped_by=wrapped_by, data_dir=disk / "data")
    assert answer.returncode == 2
    (line,) = answer.stderr.splitlines()
    assert f"{disk / 'data' / 'postgres'} has no space left" in line
    assert "could not extend file" in line
    assert line.endswith("Free some space and try again.")


async def test_a_full_disk_during_a_command_is_reported(database_url: str, tmp_path: Path) -> None:
    """The same in a database of one's own, where it is not we who know its folder."""
    await let_be_full(database_url, "sources")
    words = ("source", "add", "mine", "--kind", "manual")
    answer = await asyncio.to_thread(
        headwater, *words, cwd=tmp_path, database_url=database_url, data_dir=tmp_path / "data"
    )
    assert answer.returncode == 2
    (line,) = answer.stderr.splitlines()
    assert "has no space left" in line
    assert database_url.rpartition("/")[2].partition("?")[0] in line


async def test_a_full_disk_is_found_among_the_errors_of_concurrent_tasks(
    make_settings: Callable[..., Settings],
) -> None:
    """The demo works in such tasks."""

    async def work() -> None:
        async with open_database(make_settings()) as database, asyncio.TaskGroup() as group:
            group.create_task(database.run(lambda connection: connection.execute(FULL)))

    with pytest.raises(OperatorError, match="has no space left"):
        await work()


async def test_another_database_error_is_raised_unchanged(make_settings: Callable[..., Settings]) -> None:
    with pytest.raises(asyncpg.DivisionByZeroError):
        async with open_database(make_settings()) as database:
            await database.run(lambda connection: connection.execute("SELECT 1 / 0"))


@pytest.mark.parametrize("form", ["text", "json"])
async def test_a_running_program_logs_a_full_disk_without_a_traceback(
    form: str, site: Site, database_url: str, tmp_path: Path
) -> None:
    """It comes with every try until there is space, and is no error of the program's."""
    site.answers["http://news.test/feed"] = rss("http://news.test/a")
    settings = {
        "data_dir": tmp_path / "data",
        "database_url": database_url,
        "connect_to": ",".join(site.connect_to),
        "allow_networks": "127.0.0.0/8",
        "listen_port": 0,
        "log_level": "error",
        "log_format": form,
    }
    words = ("source", "add", "news", "--kind", "site", "--set", "feed_url=http://news.test/feed")
    await asyncio.to_thread(headwater, *words, cwd=tmp_path, **settings)
    await let_be_full(database_url, "items")
    with forked("up", cwd=tmp_path, **settings) as process:
        line = await asyncio.to_thread(process.stderr.readline)
        process.send_signal(signal.SIGTERM)
        rest = process.communicate()[1]
    assert "poll.failed" in line
    assert "the database's disk has no space left: could not extend file" in line
    assert rest == ""


async def let_be_full(database_url: str, table: str) -> None:
    """Let there be no space for more rows of a table."""
    connection = await asyncpg.connect(database_url)
    await connection.execute(
        f"CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN EXECUTE $e${FULL}$e$; END $f$; "
        f"CREATE TRIGGER full_disk BEFORE INSERT ON {table} EXECUTE FUNCTION full_disk()"
    )
    await connection.close()
