"""The state of a kind: JSON values, which come back unchanged (spec 1.1)."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import HeadwaterError
from headwater.core.http import Response
from headwater.core.json_values import check_state
from headwater.core.reasons import Reason
from headwater.sources.run import make_validators, save_validators

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(SCALARS | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20)


@given(st.dictionaries(TEXT, VALUES))
def test_json_values_come_back_unchanged(state: dict[str, Any]) -> None:
    check_state("news", state)
    assert msgspec.json.decode(msgspec.json.encode(state)) == state


def cyclic() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        ({"seen_at": datetime(2026, 1, 1, tzinfo=UTC)}, "run.state['seen_at'] is a datetime"),
        ({"day": date(2026, 1, 1)}, "run.state['day'] is a date"),
        ({"seen": {"a", "b"}}, "run.state['seen'] is a set"),
        ({"a": [1, {"b": b"x"}]}, "run.state['a'][1]['b'] is a bytes"),
        ({"n": Decimal(1)}, "run.state['n'] is a Decimal"),
        ({"n": math.nan}, "run.state['n'] is nan"),
        ({"n": [math.inf]}, "run.state['n'][0] is inf"),
        ({"n": 2**64}, "run.state['n'] is a number of more than 64 bits"),
        ({"pages": {1: "x"}}, "run.state['pages'] has the key 1, which is no text"),
        ({1: "x"}, "run.state has the key 1, which is no text"),
        ({"t": "a\0b"}, "run.state['t'] has a character that cannot be stored"),
        ({"t": "\ud800"}, "run.state['t'] has a character that cannot be stored"),
        ({"t": {"\0": 1}}, "run.state['t'] has a key with a character that cannot be stored"),
        ({"self": cyclic()}, "run.state['self'] is nested too deeply"),
    ],
)
def test_other_values_are_refused_with_the_source_and_the_key(state: dict[Any, Any], fault: str) -> None:
    with pytest.raises(HeadwaterError) as refused:
        check_state("news", state)
    assert refused.value.reason is Reason.BAD_SOURCE
    assert str(refused.value) == (
        f"Source news: {fault}. A source remembers JSON values only: text, numbers, true, false, null, lists, and "
        "dictionaries with text as keys. Nothing was saved."
    )


def test_more_than_a_megabyte_is_refused_with_its_largest_key() -> None:
    check_state("news", {"a": "x" * 1_000_000})
    with pytest.raises(
        HeadwaterError, match=r"takes 1,\d{3},\d{3} bytes as JSON, most of them run.state\['b'\]"
    ) as refused:
        check_state("news", {"a": "x" * 500_000, "b": ["y" * 1000] * 1000})
    assert refused.value.reason is Reason.BAD_SOURCE


@pytest.mark.parametrize(("length", "is_kept"), [(1000, True), (1001, False)])
def test_a_validator_that_is_too_long_is_not_kept(length: int, is_kept: bool) -> None:
    """Spec 4.3: a kind keeps one for each of a thousand sitemaps."""
    state: dict[str, Any] = {"etag": "before", "last_modified": "before"}
    headers = {"etag": "e" * length, "last-modified": "m" * length}
    save_validators(state, Response("http://a.test/", 200, headers, b"", datetime(2026, 1, 1, tzinfo=UTC), 0.1), "")
    sent = {"If-None-Match": headers["etag"], "If-Modified-Since": headers["last-modified"]}
    assert make_validators(state) == (sent if is_kept else {})
