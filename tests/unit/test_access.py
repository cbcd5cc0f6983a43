"""The rules of access, without a server (spec 11.8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core import setting_values
from headwater.core.access import FailureLimit, Scope, check_token


def test_each_scope_includes_the_one_before() -> None:
    permitted = {scope: [needed for needed in Scope if scope.permits(needed)] for scope in Scope}
    assert permitted == {
        Scope.READ: [Scope.READ],
        Scope.WRITE: [Scope.READ, Scope.WRITE],
        Scope.ADMIN: [Scope.READ, Scope.WRITE, Scope.ADMIN],
    }


@pytest.mark.parametrize(
    "token", ["", "x" * 31, "a" * 64, "0123456" * 8, "0123456789abcdef 0123456789abcdef", "é" * 40]
)
def test_a_token_that_is_short_or_not_random_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="32"):
        check_token(token)


@given(st.binary(min_size=16, max_size=16).filter(lambda given: len(set(given.hex())) >= 8))
def test_32_hexadecimal_digits_are_accepted(given: bytes) -> None:
    assert check_token(given.hex()) == given.hex()


def test_a_peer_that_fails_too_often_is_limited_until_time_has_passed() -> None:
    limit = FailureLimit(of_peer=3, of_all=100, per_seconds=60)
    assert [limit.count("a", 0.0) for _ in range(5)] == [False, False, False, True, True]
    assert limit.count("b", 0.0) is False
    assert limit.count("a", 41.0) is False


def test_all_peers_together_are_limited() -> None:
    limit = FailureLimit(of_peer=3, of_all=10, per_seconds=60)
    assert [limit.count(f"peer {number}", 0.0) for number in range(12)] == [False] * 10 + [True] * 2
    assert limit.count("another", 120.0) is False


def test_a_million_peers_take_no_more_memory_than_a_thousand() -> None:
    limit = FailureLimit(peers=1000)
    for number in range(5000):
        limit.count(f"peer {number}", float(number))
    assert len(limit._peers) == 1000


def test_allowed_hosts_are_names_and_addresses_without_ports() -> None:
    assert setting_values.hosts("Headwater.example.org., [2001:db8::1],192.0.2.7") == (
        "headwater.example.org",
        "2001:db8::1",
        "192.0.2.7",
    )
    for bad in ("a b", "*", "*.example.org", "example.org:443", "http://example.org", "a..b", "[::1]:80"):
        with pytest.raises(ValueError, match="host name"):
            setting_values.hosts(bad)
