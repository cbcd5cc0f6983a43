"""Killed at many moments of the demo, the next run completes it: nothing lost, nothing twice (issue 2, spec 9.3)."""

import json
import os
import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.program import headwater, start

KILLS = 4  # of each of two


def complete(folder: Path) -> dict[str, Any]:
    """Run the demo to its end; it checks each URL, document, raw file and day by itself."""
    answer = headwater("demo", "--json", "--data", str(folder), cwd=folder.parent, timeout=120)
    outcome: dict[str, Any] = json.loads(answer.stdout)
    assert outcome["as_expected"], [check for check in outcome["checks"] if not check["holds"]]
    assert not list(folder.glob("postgres/**/postmaster.pid")), "a server was left behind"
    return outcome


def kill_often(folder: Path, seconds: float, chance: random.Random) -> None:
    for kill in range(KILLS):
        process = start("demo", "--json", "--data", str(folder), cwd=folder.parent)
        try:
            # Ever later, so that each kill meets another stage and the work is not done before the last.
            process.communicate(timeout=seconds * (kill + chance.random()) / (KILLS + 1))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
        else:
            assert kill, "the first kill must come before the end"


@pytest.mark.timeout(240)
def test_a_demo_killed_at_many_moments_is_completed_by_the_next_run(tmp_path: Path) -> None:
    begun = time.monotonic()
    whole = complete(tmp_path / "whole")
    seconds = time.monotonic() - begun

    def kill_and_complete(name: str) -> dict[str, Any]:
        kill_often(tmp_path / name, seconds, random.Random(name))
        return complete(tmp_path / name)

    with ThreadPoolExecutor() as side_by_side:
        for outcome in side_by_side.map(kill_and_complete, ("first", "second")):
            assert sum(outcome["documents"].values()) == sum(whole["documents"].values())
            assert sum(outcome["fates"].values()) == sum(whole["fates"].values())
