"""Errors in settings name the field, the given value and the expected type (issue 5)."""

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
    ("kind", "settings", "words"),
    [
        ("plain", {"priority": "9"}, "priority: must be a whole number, not text"),
        ("plain", {"priority": 9.5}, "priority: must be a whole number, not a number with decimals"),
        ("plain", {"priority": None}, "priority: must be a whole number, not null"),
        ("plain", {"fetch_items": "no"}, "fetch_items: must be true or false, not text"),
        ("plain", {"schedule": 3}, "schedule: must be text or null, not a whole number"),
        ("plain", {"timeout": 3}, "timeout: must be an object, not a whole number"),
        ("plain", {"timeout": {"read": "x"}}, "timeout.read: must be a number, not text"),
        ("plain", {"retry": {"attempts": True}}, "retry.attempts: must be a whole number, not true or false"),
        ("plain", {"urls": "abc"}, "urls: must be a list, not text"),
        ("plain", {"urls": ["a", 3]}, "urls[1]: must be text, not a whole number"),
        ("plain", {"budget": "x"}, "budget: must be 'api.data.gov' or null, not 'x'"),
        ("plain", {"user_agent": "Mozilla"}, "user_agent: must be 'browser' or 'honest', not 'Mozilla'"),
        ("plain", {"user_agent": 3}, "user_agent: must be text, not a whole number"),
        ("site", {}, "feed_url: missing; a site needs this, or site_url, or sitemap_url"),
        ("ledger", {}, "lists: must be given"),
        ("plain", [1], "the settings must be an object, not a list"),
        ("odd", {"places": {"a": "b"}}, "places[...]: must be a whole number, not text"),
        ("odd", {"pairs": [["a", None]]}, "pairs[0][1]: must be a whole number, not null"),
        ("odd", {"mode": [1]}, "mode: must be a whole number or text or null, not a list"),
    ],
)
def test_a_wrong_type_is_refused_with_the_expected_type(kind: str, settings: Any, words: str) -> None:
    assert said(settings, kind) == f"Source news: {words}."


def test_an_unknown_field_is_refused_with_the_closest_name_and_all_fields() -> None:
    message = said({"shedule": "0 2 * * *"})
    assert message.startswith(
        "Source news: shedule: there is no such field; did you mean schedule? There are: schedule, timezone, "
    )
    assert message.endswith(", fetch_items, selectors, deadline, urls.")


def test_an_unknown_inner_field_is_refused_with_its_path() -> None:
    assert said({"timeout": {"raed": 3}}) == (
        "Source news: timeout.raed: there is no such field; did you mean timeout.read? There are: timeout.connect, "
        "timeout.read, timeout.total."
    )


def test_an_unknown_field_without_a_similar_one_is_refused_without_a_guess() -> None:
    assert said({"x\ny": 1}).startswith(r"Source news: 'x\ny': there is no such field. There are: schedule, ")
