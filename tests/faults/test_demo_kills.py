"""After kills at many moments the next demo completes the work, with no loss and no repetition (issue 2, spec 9.3).

One is killed with its browser, another on a machine that has none.
"""

import json
import random
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headwater.demo.sites import VAULT
from tests.fork_server import Order, Program, fork_server
from tests.program import Forked, environment, wait_until

KILLS = 3  # of each of two demos
FILES = 75  # the raw files of a demo that is nearly at its end
DEMO = ("demo", "--json", "--data")


def complete(folder: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Run the demo to its end. It checks each URL, document, raw file and day itself."""
    with Forked(*DEMO, str(folder), cwd=folder.parent, env=env) as program:
        said, _ = program.communicate(timeout=120)
    outcome: dict[str, Any] = json.loads(said)
    assert outcome["as_expected"], json.dumps([check for check in outcome["checks"] if not check["holds"]], indent=1)
    assert not list(folder.glob("postgres/**/postmaster.pid")), "a server was left behind"
    return outcome


def raw_files(folder: Path) -> int:
    return sum(path.is_file() for path in folder.glob("corpus/*/bodies/raw/**/*"))


def kill_often(folder: Path, env: Mapping[str, str]) -> int:
    """Kill the demo later and later, measured by the work done. Returns the number of kills that met it."""
    chance = random.Random(folder.name)
    kills = 0
    for kill in range(KILLS):
        enough = int(FILES * (kill + chance.random()) / KILLS)
        program = fork_server().start(Order(("-", "-", *DEMO, str(folder)), str(folder.parent), env))
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
def test_the_next_run_completes_a_demo_killed_at_many_moments(tmp_path: Path, without_browser: str) -> None:
    fork_server()  # before two threads start it at once

    def kill_and_complete(name: str, **further: str) -> dict[str, Any]:
        env = environment() | further
        assert kill_often(tmp_path / name, env) >= KILLS - 1
        return complete(tmp_path / name, env)

    with ThreadPoolExecutor() as side_by_side:
        first = side_by_side.submit(kill_and_complete, "first")
        second = side_by_side.submit(kill_and_complete, "second", PATH=without_browser)
    assert documents_without_browser(first.result()) == documents_without_browser(second.result())
    assert urls(first.result()) == urls(second.result())


def documents_without_browser(outcome: dict[str, Any]) -> dict[str, int]:
    return {host: count for host, count in outcome["documents"].items() if host != VAULT.host}


def urls(outcome: dict[str, Any]) -> int:
    """Return the number of URLs that ended or wait."""
    return sum(outcome["outcomes"].values()) + sum(outcome["waiting"].values())
