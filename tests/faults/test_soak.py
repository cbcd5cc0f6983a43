"""The soak, which `make soak` runs for longer: random kills and faults lose and repeat nothing (spec 9.3)."""

import random
from pathlib import Path

import pytest

from tests.faults.soak import Figures, Plan, show, soak


@pytest.mark.timeout(300)
async def test_a_short_soak_loses_nothing_repeats_nothing_and_hurries_nothing(tmp_path: Path) -> None:
    """Issue 21: the servers judge the pace. Every sort of fault occurs."""
    plan = Plan(urls=400, kills=10, restarts=2, faults=4, seed=random.randrange(10**6))
    figures = await soak(plan, tmp_path)
    assert (figures.lost, figures.twice, figures.too_soon, figures.broken) == (0, 0, 0, {}), plan
    assert (figures.kills, figures.restarts, len(figures.faults)) == (10, 2, 4)
    assert figures.urls >= 400
    assert figures.interrupted > 0
    assert figures.memory_mb < 300
    assert 0 < figures.descriptors < 200
    assert 0 < figures.wal_kept_mb < 500


def test_the_table_of_a_soak_names_each_figure() -> None:
    names = [str(cell) for cell in show(Figures()).columns[0].cells]
    assert {"lost", "twice", "too soon, as the servers heard it"} <= set(names)


def test_a_longer_soak_is_a_larger_one() -> None:
    short, long = Plan.lasting(30, seed=1), Plan.lasting(600, seed=1)
    assert (short.kills, short.restarts, long.kills, long.restarts) == (15, 1, 300, 20)
    assert long.urls == 24_000
