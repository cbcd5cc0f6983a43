"""Killed at many moments of the demo, the next run completes it: nothing lost, nothing twice (issue 2, spec 9.3)."""

import json
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.nursery import Order, nursery
from tests.program import environment, headwater

KILLS = 4  # of each of two
SECONDS = 8.0  # that a demo takes which nobody kills, more or less


def complete(folder: Path) -> dict[str, Any]:
    """Run the demo to its end; it checks each URL, document, raw file and day by itself."""
    answer = headwater("demo", "--json", "--data", str(folder), cwd=folder.parent, timeout=120)
    outcome: dict[str, Any] = json.loads(answer.stdout)
    assert outcome["as_expected"], [check for check in outcome["checks"] if not check["holds"]]
    assert not list(folder.glob("postgres/**/postmaster.pid")), "a server was left behind"
    return outcome


def kill_often(folder: Path, chance: random.Random) -> None:
    order = Order(("-", "-", "demo", "--json", "--data", str(folder)), str(folder.parent), environment())
    for kill in range(KILLS):
        program = nursery().start(order)
        # Ever later, so that each kill meets another stage and the work is not done before the last.
        if program.wait_here(SECONDS * (kill + chance.random()) / (KILLS + 1)) is None:
            program.send_signal(signal.SIGKILL)
            assert program.wait_here(20) is not None
        else:
            assert kill, "the first kill must come before the end"


@pytest.mark.timeout(240)
def test_a_demo_killed_at_many_moments_is_completed_by_the_next_run(tmp_path: Path) -> None:
    nursery()  # before two ask at once for the first time

    def kill_and_complete(name: str) -> dict[str, Any]:
        kill_often(tmp_path / name, random.Random(name))
        return complete(tmp_path / name)

    with ThreadPoolExecutor() as side_by_side:
        first, second = side_by_side.map(kill_and_complete, ("first", "second"))
    assert sum(first["documents"].values()) == sum(second["documents"].values())
    assert sum(first["fates"].values()) == sum(second["fates"].values())
