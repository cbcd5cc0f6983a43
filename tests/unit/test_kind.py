"""The settings of a kind that a source may override (spec 1.1)."""

import math
from typing import Any, ClassVar

import msgspec
import pytest
from msgspec.structs import fields

from headwater import Kind
from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.politeness.gate import asks_api
from headwater.sources.registry import configure
from tests import kinds
from tests.refusals import refused

OTHERS: dict[str, Any] = {
    "schedule": "0 2 * * 1-5",
    "timezone": "Europe/London",
    "poll_interval_minutes": 60,
    "priority": 9,
    "timeout": {"connect": 5.0, "read": 30.0, "total": 30.0},
    "rate_per_second": 0.5,
    "concurrency": 1,
    "retry": {"attempts": 5, "base_seconds": 2.0, "on_rate_limit": True, "longest_seconds": 600.0},
    "user_agent": "browser",
    "needs_browser": True,
    "stealth": "light",
    "budget": "api.data.gov",
    "fetch_items": False,
    "deadline": 60.0,
    "selectors": {"title": "h1"},
    "refetch": "every 6h",
    "keep_days": 30,
}


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds.install(monkeypatch, "plain", kinds.PlainKind)


def test_a_source_may_override_every_setting() -> None:
    assert {*OTHERS} == {field.name for field in fields(Kind)}
    made = msgspec.to_builtins(configure("s", "plain", OTHERS))
    defaults = msgspec.to_builtins(configure("s", "plain", {}))
    assert made == defaults | OTHERS
    assert all(made[name] != defaults[name] for name in OTHERS)


def test_a_browser_profile_without_a_browser_is_refused() -> None:
    """Without the refusal, the source would read empty pages."""
    with refused(Reason.BAD_SOURCE, "Source s: stealth: ", "needs_browser=true", "stealth=null"):
        configure("s", "plain", {"stealth": "full"})


def test_the_fetch_profile_follows_the_settings() -> None:
    """Spec 1.7: the default browser profile is full. A browser never calls an API."""
    profile = configure("s", "plain", {"needs_browser": True}).fetch_profile("s")
    assert (profile.needs_browser, profile.stealth) == (True, "full")
    assert not asks_api(profile, "http://news.test/page")
    assert asks_api(profile, "http://api.test/list")
    assert not configure("s", "plain", {}).fetch_profile("s").needs_browser


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schedule", "0 0 30 2 *"),
        ("schedule", "* * * * * *"),
        ("timezone", "Nowhere/Land"),
        ("timezone", "../../etc/passwd"),
        ("poll_interval_minutes", 0),
        ("priority", 11),
        ("timeout", {"read": 0}),
        ("rate_per_second", -1),
        ("rate_per_second", 0),
        ("rate_per_second", math.nan),
        ("rate_per_second", math.inf),
        ("concurrency", 0),
        ("retry", {"attempts": 0}),
        ("user_agent", "Mozilla"),
        ("budget", "somebody else's"),
        ("deadline", 0),
        ("shedule", "0 2 * * *"),
    ],
)
def test_a_bad_setting_is_refused_with_the_source_and_the_field(field: str, value: Any) -> None:
    """Issue 5, bad input."""
    with refused(Reason.BAD_SOURCE, "Source news: ", field):
        configure("news", "plain", {field: value})


def test_a_budget_needs_api_hosts() -> None:
    """Spec 1.4."""
    with refused(Reason.BAD_SOURCE, "Source by-hand: budget: ", "ManualKind", "api_hosts"):
        configure("by-hand", "manual", {"budget": "api.data.gov"})


@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("API.example.org", "api.example.org"),
        ("https://api.example.org", "api.example.org"),
        ("api.example.org/v1", "api.example.org/v1/"),
        ("api.example.org:443", "api.example.org"),
        ("api.example.org.:8443", "api.example.org:8443"),
        ("api example", None),
        ("", None),
    ],
)
def test_an_api_host_that_no_request_can_match_is_refused(
    written: str, right: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 1.4: its requests would carry no key and use no budget, without any error."""

    class OddKind(kinds.PlainKind, frozen=True, kw_only=True, forbid_unknown_fields=True):
        api_hosts: ClassVar[frozenset[str]] = frozenset({written})

    kinds.install(monkeypatch, "odd", OddKind)
    with pytest.raises(OperatorError) as caught:
        configure("s", "odd", {})
    advice = f"; write {right!r}" if right else ""
    assert str(caught.value) == (
        f"Source s: api_hosts: OddKind declares {written!r}, which is no host as in 'api.example.org' or "
        f"'api.example.org:8443', nor a part of one as in 'www.example.org/api/'{advice}."
    )


@pytest.mark.parametrize(
    "host", ["api.example.org", "api.example.org:8443", "api.example.org:80", "[::1]:8443", "www.example.org/api/"]
)
def test_an_api_host_may_have_a_port_or_a_path(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class FineKind(kinds.PlainKind, frozen=True, kw_only=True, forbid_unknown_fields=True):
        api_hosts: ClassVar[frozenset[str]] = frozenset({host})

    kinds.install(monkeypatch, "fine", FineKind)
    configure("s", "fine", {"budget": "api.data.gov"})
