"""A killed upgrade leaves the old or the new cluster usable, and can be repeated (spec 9.1, 9.3)."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.faults.victim import UPGRADE_POINTS
from tests.fork_server import Order, fork_server
from tests.old_clusters import DOCUMENTS, MAJOR, TO, Rows, make_old_data, read_new_rows, read_rows, run_old_server
from tests.program import environment, headwater

AFTER_THE_SWITCH = ("the new cluster is in place", "the old cluster has its other name")


async def kill_at(point: str, data: Path, *words: str) -> None:
    """Run a command that kills itself at a point."""
    order = Order((point, "-", *words), str(data.parent), environment(data_dir=data))
    program = await asyncio.to_thread(fork_server().start, order)
    assert await asyncio.wait_for(program.wait(), 60) == -signal.SIGKILL, point


async def run(data: Path, *words: str) -> tuple[int, str]:
    """Run a command to its end."""
    done = await asyncio.to_thread(headwater, *words, cwd=data.parent, data_dir=data)
    return done.returncode, done.stdout or done.stderr


def homes(data: Path) -> set[str]:
    """Return the names of the homes of clusters, without the one that an interrupted upgrade left."""
    return {path.name for path in (data / "postgres").iterdir()} - {f"{TO}.new"}


async def finish(data: Path, rows: Rows) -> None:
    """Upgrade again, and check that all is as after an upgrade that nothing interrupted."""
    assert (await run(data, "upgrade"))[0] == 0
    assert {path.name for path in (data / "postgres").iterdir()} == {TO, f"{MAJOR}.old"}
    assert await read_new_rows(data) == rows
    code, report = await run(data, "verify", "--json")
    assert (code, json.loads(report)["checked"]) == (0, DOCUMENTS)


@pytest.mark.timeout(300)
async def test_a_kill_at_every_named_point_of_an_upgrade_loses_no_cluster(tmp_path: Path) -> None:
    data = tmp_path / "data"
    rows = await make_old_data(data)
    before = [point for point in UPGRADE_POINTS if point not in AFTER_THE_SWITCH]
    for point in (*before, "a server runs:3", "a server runs:2", "a table is filled:9"):
        await kill_at(point, data, "upgrade")
        assert homes(data) == {MAJOR}, point
        code, refusal = await run(data, "today")
        assert (code, "`headwater upgrade`" in refusal) == (2, True), point
    with run_old_server(data) as dsn:
        assert await read_rows(dsn) == rows
    for point in AFTER_THE_SWITCH:
        await kill_at(point, data, "upgrade")
        assert TO in homes(data), point
        assert await read_new_rows(data) == rows
    await finish(data, rows)


@pytest.mark.timeout(120)
async def test_a_killed_deletion_of_the_copy_is_repeated(tmp_path: Path) -> None:
    data = tmp_path / "data"
    rows = await make_old_data(data)
    await finish(data, rows)
    await kill_at("a copy is being deleted", data, "upgrade", "--drop-old", "--yes")
    assert homes(data) == {TO, f"{MAJOR}.dropped"}
    assert (await run(data, "upgrade", "--drop-old", "--yes"))[0] == 0
    assert homes(data) == {TO}
    assert await read_new_rows(data) == rows
