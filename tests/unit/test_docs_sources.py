"""docs/sources.md tells a contributor of every attribute that a kind inherits (spec 1.1)."""

import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import FieldInfo, fields

from headwater import Kind
from headwater.policy.budget import DEFAULT_SPLIT

TEXT = (Path(__file__).parents[2] / "docs/sources.md").read_text()
TABLE = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", TEXT, re.M))


@pytest.mark.parametrize("field", fields(Kind), ids=lambda field: field.name)
def test_every_attribute_is_listed_with_its_default(field: FieldInfo) -> None:
    assert msgspec.json.decode(TABLE[field.name]) == msgspec.to_builtins(field.default)


def test_nothing_is_listed_that_is_no_attribute() -> None:
    assert list(TABLE) == [field.name for field in fields(Kind)]


@pytest.mark.parametrize("name", ["origin", "api_hosts"])
def test_what_belongs_to_the_class_is_told_too(name: str) -> None:
    assert f"`{name}`" in TEXT
    assert name in Kind.__annotations__


def test_the_shares_are_those_in_force() -> None:
    """Spec 1.4."""
    told = re.search(r"The shares of\s+1,000: (.*?)\. `HEADWATER", TEXT, re.S)
    assert told
    for source, share in DEFAULT_SPLIT.items():
        assert f"{source} {share}" in told[1] or (source == "reserve" and f"{share} for all others" in told[1])
