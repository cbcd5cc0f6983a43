"""The points of victim.py name functions of the program, so a rename cannot disable a fault test."""

import importlib

import pytest

from tests.faults import victim

TABLES = [points for name, points in vars(victim).items() if name.endswith("POINTS")]


@pytest.mark.parametrize("where", sorted({where for points in TABLES for where in points.values()}))
def test_a_point_is_a_function_of_the_program(where: str) -> None:
    """Spec 9.3."""
    module, _, path = where.partition(":")
    found: object = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    assert callable(found)
