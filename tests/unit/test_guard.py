"""Spec 4.3: a private, loopback or link-local address is refused, unless allowed by configuration."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.http.guard import AddressGuard, AddressRefused

REFUSED = {
    "unspecified": ["0.0.0.0", "::"],
    "this network": ["0.0.0.1", "0.255.255.255"],
    "private": ["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255"],
    "the host of a virtual machine": ["168.63.129.16", "::ffff:168.63.129.16", "64:ff9b::168.63.129.16"],
    "carrier-grade NAT": ["100.64.0.0", "100.127.255.255"],
    "loopback": ["127.0.0.1", "127.255.255.255", "::1"],
    "link-local": ["169.254.0.0", "169.254.169.254", "fe80::", "fe80::1", "febf:ffff::1"],
    "protocol assignments": ["192.0.0.0", "192.0.0.170", "192.0.0.255", "2001::1", "2001:1ff:ffff::1"],
    "documentation": ["192.0.2.1", "198.51.100.1", "203.0.113.255", "2001:db8::1", "3fff::1", "3fff:fff:ffff::1"],
    "6to4 relays": ["192.88.99.1"],
    "benchmarking": ["198.18.0.0", "198.19.255.255", "2001:2::1"],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"],
    "reserved": ["240.0.0.0", "255.255.255.254", "100::1", "200::1", "4000::1", "5f00::1", "e000::1"],
    "broadcast": ["255.255.255.255"],
    "unique-local": ["fc00::1", "fd12:3456:789a::1"],
    "site-local": ["fec0::1", "feff::1"],
    "scoped": ["fe80::1%eth0", "fe80::1%1", "2606:4700::1111%eth0"],
    "IPv4-mapped": ["::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1", "::ffff:0:0", "::ffff:100.64.0.1"],
    "IPv4-compatible": ["::127.0.0.1", "::8.8.8.8"],
    "IPv4-translated": ["::ffff:0:127.0.0.1"],
    "NAT64": ["64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe"],
    "local NAT64": ["64:ff9b:1::1", "64:ff9b:1::8.8.8.8", "64:ff9b:1:ffff::1"],
    "6to4": ["2002:7f00:1::1", "2002:a00:1::1", "2002:808:808::1"],
    "Teredo": ["2001:0:4136:e378:8000:63bf:3fff:fdd2"],
    "not addresses": [
        "",
        "localhost",
        "127.1",
        "0x7f.0.0.1",
        "2130706433",
        "0177.0.0.1",
        "127.0.0.1:80",
        "[::1]",
        " ::1",
    ],
}
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


@pytest.mark.parametrize("address", [address for addresses in REFUSED.values() for address in addresses])
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
