"""Errors in settings name the field, the given value and the expected type (issue 5)."""

import re
from typing import Any

import msgspec
import pytest

from headwater import Kind
from headwater.core.errors import OperatorError
from headwater.sources.registry import configure
from tests import kinds


class OddKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind with fields of several types."""

    places: dict[str, int] = msgspec.field(default_factory=dict)
    pairs: list[tuple[str, int]] = msgspec.field(default_factory=list)
    mode: int | str | None = None


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds.install(monkeypatch, "plain", kinds.PlainKind)
    kinds.install(monkeypatch, "odd", OddKind)
    kinds.install(monkeypatch)


def said(settings: Any, kind: str = "plain") -> str:
    with pytest.raises(OperatorError) as refused:
        configure("news", kind, settings)
    return str(refused.value)


@pytest.mark.parametrize(
    ("kind", "settings", "field", "expected"),
    [
        ("plain", {"priority": "9"}, "priority", "a whole number"),
        ("plain", {"priority": 9.5}, "priority", "a whole number"),
        ("plain", {"priority": None}, "priority", "a whole number"),
        ("plain", {"fetch_items": "no"}, "fetch_items", "true or false"),
        ("plain", {"schedule": 3}, "schedule", "text or null"),
        ("plain", {"timeout": 3}, "timeout", "an object"),
        ("plain", {"timeout": {"read": "x"}}, "timeout.read", "a number"),
        ("plain", {"retry": {"attempts": True}}, "retry.attempts", "a whole number"),
        ("plain", {"urls": "abc"}, "urls", "a list"),
        ("plain", {"urls": ["a", 3]}, "urls[1]", "text"),
        ("plain", {"budget": "x"}, "budget", "'api.data.gov' or null"),
        ("plain", {"user_agent": "Mozilla"}, "user_agent", "'browser' or 'honest'"),
        ("plain", {"user_agent": 3}, "user_agent", "text"),
        ("site", {}, "feed_url", "sitemap_url"),
        ("ledger", {}, "lists", ""),
        ("plain", [1], "", "an object"),
        ("odd", {"places": {"a": "b"}}, "places[...]", "a whole number"),
        ("odd", {"pairs": [["a", None]]}, "pairs[0][1]", "a whole number"),
        ("odd", {"mode": [1]}, "mode", "a whole number or text or null"),
    ],
)
def test_a_wrong_type_is_refused_with_the_expected_type(kind: str, settings: Any, field: str, expected: str) -> None:
    message = said(settings, kind)
    assert message.startswith("Source news: ")
    assert field in message
    assert expected in message


def test_an_unknown_field_is_refused_with_the_closest_name_and_all_fields() -> None:
    message = said({"shedule": "0 2 * * *"})
    assert message.startswith("Source news: shedule: ")
    assert re.findall(r"\bschedule\b", message) == ["schedule"] * 2
    assert "fetch_items, selectors, refetch, deadline, urls" in message


def test_an_unknown_inner_field_is_refused_with_its_path() -> None:
    message = said({"timeout": {"raed": 3}})
    assert message.startswith("Source news: timeout.raed: ")
    assert re.findall(r"timeout\.[a-z]+", message) == [
        *("timeout.raed", "timeout.read", "timeout.connect", "timeout.read", "timeout.total")
    ]


def test_an_unknown_field_without_a_similar_one_is_refused_without_a_guess() -> None:
    message = said({"x\ny": 1})
    assert message.startswith(r"Source news: 'x\ny': ")
    assert message.count("schedule") == 1
