"""Spec 4.3: a private, loopback or link-local address is refused, unless allowed by configuration."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.http.guard import AddressGuard, AddressRefused
from tests.closed_addresses import NOT_ADDRESSES, REFUSED

OPEN = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2606:4700::1111",
    "2a00:1450:4001::1",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
]


@pytest.mark.parametrize("address", [address for group in REFUSED.values() for address in group] + NOT_ADDRESSES)
def test_the_guard_refuses_an_address_outside_the_open_internet(address: str) -> None:
    with pytest.raises(AddressRefused):
        AddressGuard().check(address)


@pytest.mark.parametrize("address", OPEN)
def test_the_guard_allows_an_address_of_the_open_internet(address: str) -> None:
    AddressGuard().check(address)


def test_a_refusal_is_an_os_error_that_names_address_and_setting() -> None:
    with pytest.raises(OSError, match=r"10\.0\.0\.1 .* allow_networks"):
        AddressGuard().check("10.0.0.1")


def test_an_allowed_network_does_not_allow_its_neighbours() -> None:
    guard = AddressGuard([ip_network("10.1.0.0/16"), ip_network("fd00::/64")])
    guard.check("10.1.255.255")
    guard.check("fd00::1")
    for neighbour in ("10.2.0.0", "127.0.0.1", "fd00:0:0:1::1"):
        with pytest.raises(AddressRefused):
            guard.check(neighbour)


@pytest.mark.parametrize("spelling", ["127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"])
def test_an_allowed_ipv4_network_covers_its_ipv6_forms(spelling: str) -> None:
    AddressGuard([ip_network("127.0.0.0/8")]).check(spelling)


def test_the_guard_refuses_a_scoped_address_inside_an_allowed_network() -> None:
    with pytest.raises(AddressRefused):
        AddressGuard([ip_network("fe80::/10")]).check("fe80::1%eth0")


def is_allowed(address: IPv4Address | IPv6Address | str) -> bool:
    try:
        AddressGuard().check(str(address))
    except AddressRefused:
        return False
    return True


@given(st.ip_addresses(v=4))
def test_an_allowed_ipv4_address_is_unicast_and_not_special(address: IPv4Address) -> None:
    special = address.is_private or address.is_loopback or address.is_link_local or address.is_multicast
    assert not (is_allowed(address) and (special or address.is_reserved or address.is_unspecified))


@given(st.ip_addresses(v=6))
def test_an_allowed_ipv6_address_is_unicast_and_not_special(address: IPv6Address) -> None:
    if address.ipv4_mapped is None and address not in ip_network("64:ff9b::/96"):
        special = address.is_private or address.is_loopback or address.is_link_local or address.is_multicast
        assert not (is_allowed(address) and (special or address.is_reserved or address.is_site_local))


@given(st.ip_addresses(v=4))
def test_an_ipv6_form_is_allowed_only_if_its_ipv4_address_is(address: IPv4Address) -> None:
    assert is_allowed(f"::ffff:{address}") == is_allowed(f"64:ff9b::{address}") == is_allowed(address)
