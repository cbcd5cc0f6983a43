"""Killed at many moments of the demo, the next run completes it: nothing lost, nothing twice (issue 2, spec 9.3)."""

import json
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.nursery import Order, Program, nursery
from tests.program import environment, headwater, wait_until

KILLS = 3  # of each of two
FILES = 75  # raw ones that a demo has nearly at its end


def complete(folder: Path) -> dict[str, Any]:
    """Run the demo to its end; it checks each URL, document, raw file and day by itself."""
    answer = headwater("demo", "--json", "--data", str(folder), cwd=folder.parent, timeout=120)
    outcome: dict[str, Any] = json.loads(answer.stdout)
    assert outcome["as_expected"], [check for check in outcome["checks"] if not check["holds"]]
    assert not list(folder.glob("postgres/**/postmaster.pid")), "a server was left behind"
    return outcome


def raw_files(folder: Path) -> int:
    return sum(path.is_file() for path in folder.glob("corpus/*/bodies/raw/**/*"))


def kill_often(folder: Path, chance: random.Random) -> int:
    """Kill it ever later in its work, by how much is done and not by the clock, and count the kills that met it."""
    order = Order(("-", "-", "demo", "--json", "--data", str(folder)), str(folder.parent), environment())
    kills = 0
    for kill in range(KILLS):
        enough = int(FILES * (kill + chance.random()) / KILLS)
        program = nursery().start(order)
        wait_until(partial(_has_come_to, program, folder, enough), 60)
        if program.returncode is None:
            program.send_signal(signal.SIGKILL)
            assert program.wait_here(20) is not None
            kills += 1
    return kills


def _has_come_to(program: Program, folder: Path, enough: int) -> bool:
    is_begun = (folder / "postgres").exists()
    return (is_begun and raw_files(folder) >= enough) or program.returncode is not None


@pytest.mark.timeout(240)
def test_a_demo_killed_at_many_moments_is_completed_by_the_next_run(tmp_path: Path) -> None:
    nursery()  # before two ask at once for the first time

    def kill_and_complete(name: str) -> dict[str, Any]:
        assert kill_often(tmp_path / name, random.Random(name)) >= KILLS - 1
        return complete(tmp_path / name)

    with ThreadPoolExecutor() as side_by_side:
        first, second = side_by_side.map(kill_and_complete, ("first", "second"))
    assert sum(first["documents"].values()) == sum(second["documents"].values())
    assert sum(first["fates"].values()) == sum(second["fates"].values())
