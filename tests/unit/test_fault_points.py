"""The points of victim.py name functions of the program, so a rename cannot disable a fault test."""

import importlib

import pytest

from tests.faults.victim import BACKUP_POINTS, DELIVERY_POINTS, POINTS, RESTORE_POINTS, SYNC_POINTS, WATCH_POINTS

PLACES = {*POINTS.values(), *DELIVERY_POINTS.values(), *BACKUP_POINTS.values(), *RESTORE_POINTS.values()}


@pytest.mark.parametrize("where", sorted({*PLACES, *SYNC_POINTS.values(), *WATCH_POINTS.values()}))
def test_a_point_is_a_function_of_the_program(where: str) -> None:
    """Spec 9.3."""
    module, _, path = where.partition(":")
    found: object = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    assert callable(found)
