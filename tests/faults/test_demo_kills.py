"""Killed at many moments of the demo, the next run completes it: nothing lost, nothing twice (issue 2, spec 9.3)."""

import json
import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

from tests.program import headwater, start, wait_until

KILLS = 12


@pytest.mark.timeout(240)
def test_a_demo_killed_at_many_moments_is_completed_by_the_next_run(tmp_path: Path) -> None:
    chance = random.Random(2)
    whole = json.loads(headwater("demo", "--json", "--data", str(tmp_path / "whole"), cwd=tmp_path).stdout)
    assert whole["as_expected"], whole["checks"]
    working = sum(whole["seconds"].values())
    killed = 0
    for _ in range(KILLS):
        process = start("demo", "--json", "--data", str(tmp_path / "d"), cwd=tmp_path)
        try:
            process.communicate(timeout=0.4 + chance.random() * working)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            killed += 1
    assert killed >= KILLS // 2
    answer = headwater("demo", "--json", "--data", str(tmp_path / "d"), cwd=tmp_path, timeout=120)
    outcome = json.loads(answer.stdout)
    assert outcome["as_expected"], [check for check in outcome["checks"] if not check["holds"]]
    assert outcome["documents"] == whole["documents"]
    assert sum(outcome["fates"].values()) == sum(whole["fates"].values())
    wait_until(lambda: not list((tmp_path / "d").glob("postgres/**/postmaster.pid")))
