"""Data folders whose cluster was made by the older PostgreSQL of the wheel, with a few documents."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import asyncpg
import pytest

from headwater.core.settings import Settings
from headwater.db.embedded import cluster as files
from headwater.db.embedded.cluster import place_cluster
from headwater.db.embedded.server import lock_out_others, open_server, run_alone
from tests.harness import open_harness
from tests.server import Answer, Site, page

MAJOR = "16"
TO = files.MAJOR
HTML = {"Content-Type": "text/html; charset=utf-8"}
HARD_TEXT = "a newer matter, \\N \t \\. and Straße"
DOCUMENTS = 6
_SINCE_17 = ("--locale-provider=builtin", "--builtin-locale")

Rows = dict[str, list[str]]
"""The rows of each table, as text."""


@contextlib.contextmanager
def run_old_server(data: Path) -> Iterator[str]:
    """Run the server of the older PostgreSQL. Its cluster is made if needed. Yields its address."""
    home = data / "postgres" / MAJOR
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    cluster, steps = place_cluster(home, MAJOR), files._steps

    def old_steps(password_file: int) -> Iterator[tuple[str, Sequence[str], str]]:
        for program, words, text in steps(password_file):
            yield program, [word for word in words if not word.startswith(_SINCE_17)], text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_steps", old_steps)
        with lock_out_others(cluster) as lock, run_alone(cluster, lock) as dsn:
            yield dsn


async def fill(data: Path, dsn: str) -> None:
    """Store a source with pages, one of them in two revisions, and a page that cannot be read."""
    async with Site() as site:
        site.answers |= {
            f"http://news.test/{number}": Answer(page(f"matter {number}"), headers=HTML) for number in range(DOCUMENTS)
        }
        site.answers["http://news.test/unreadable"] = Answer(b"GIF89a" + b"x" * 500, headers=HTML)
        settings = Settings(
            data_dir=data,
            database_url=dsn,
            connect_to=site.connect_to,
            allow_networks=("127.0.0.0/8",),
            host_delay_ms=0,
            retry_base_seconds=0.01,
        )
        async with open_harness(settings) as harness:
            await harness.operations.sources.create("news", "site", {"feed_url": "http://news.test/feed"})
            await harness.operations.frontier.submit(list(site.answers), source="news")
            await harness.work()
            site.answers["http://news.test/1"] = Answer(page(HARD_TEXT), headers=HTML)
            await harness.operations.frontier.retry(["http://news.test/1"])
            await harness.work()


async def read_rows(dsn: str) -> Rows:
    """Read all tables, without the program's code."""
    connection = await asyncpg.connect(dsn, server_settings={"timezone": "UTC"})
    try:
        tables = await connection.fetch(
            "SELECT relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace "
            "WHERE nspname = 'public' AND relkind = 'r'"
        )
        return {
            name: [row[0] for row in await connection.fetch(f'SELECT t::text FROM "{name}" t ORDER BY 1')]
            for (name,) in tables
        }
    finally:
        await connection.close()


async def read_new_rows(data: Path) -> Rows:
    """Read all tables of the cluster that programs use."""
    with open_server(data) as server:
        return await read_rows(server.dsn)


async def make_old_data(data: Path) -> Rows:
    """Make a data folder with a filled old cluster, and return its rows."""
    with run_old_server(data) as dsn:
        await fill(data, dsn)
        return await read_rows(dsn)
