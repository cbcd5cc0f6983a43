"""Which network addresses may be connected to: the open internet, and what an operator allows besides."""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network

# The tables are ours because `ipaddress.is_global` differs between patch releases of Python.
_CLOSED_IPV4 = tuple(
    IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network; Linux connects 0.0.0.0 to itself
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, where clouds keep their metadata service
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)

_GLOBAL_IPV6 = IPv6Network("2000::/3")
_CLOSED_IPV6 = tuple(
    IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments: Teredo, benchmarking, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: a tunnel to any IPv4 address
        "3fff::/20",  # documentation
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")


class AddressRefused(OSError):
    """The address is not part of the open internet and nobody allowed it.

    An OSError, so that it passes through a connector like any other failure to connect.
    """


class AddressGuard:
    """Refuses every address that is not globally reachable, unless it lies in one of the `allowed` networks."""

    def __init__(self, allowed: Iterable[Network] = ()) -> None:
        self._allowed = tuple(allowed)
        self._refusal = lru_cache(maxsize=4096)(self._judge)  # what may be said of an address never changes

    def check(self, address: str) -> None:
        """Raise AddressRefused unless `address` may be connected to."""
        if refusal := self._refusal(address):
            raise AddressRefused(refusal)

    def _judge(self, address: str) -> str | None:
        """Say why an address may not be connected to; None where it may."""
        if "%" in address:
            return f"{address} means something on one local network only"
        try:
            given = ip_address(address)
        except ValueError:
            return f"{address!r} is not a network address"
        reached = _reached_ipv4(given) or given
        if self._is_allowed(given) or self._is_allowed(reached) or _is_open(reached):
            return None
        return f"{address} is a private or reserved address; the setting allow_networks names those that may be visited"

    def _is_allowed(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._allowed)


def _reached_ipv4(address: IPv4Address | IPv6Address) -> IPv4Address | None:
    """Return the IPv4 host behind an address that is only another spelling of it (IPv4-mapped, NAT64)."""
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped


def _is_open(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in block for block in _CLOSED_IPV4)
    return address in _GLOBAL_IPV6 and not any(address in block for block in _CLOSED_IPV6)
