"""The rule for network addresses: we connect to the open internet and to networks that an operator allows."""

import math
import socket
import time
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
        "168.63.129.16/32",  # the host of a virtual machine in Azure
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
_REFRESH_SECONDS = 1.0
_HOW_TO_ALLOW = "add its network to the setting allow_networks to allow it"


class AddressRefused(OSError):
    """The address is not part of the open internet, and no setting allows it.

    This is an OSError, so a connector passes it on like any other failed connection.
    """


class AddressGuard:
    """Refuses addresses of this machine and those that are not globally reachable, except in the `allowed` networks."""

    def __init__(self, allowed: Iterable[Network] = ()) -> None:
        self._allowed = tuple(allowed)
        self._classify = lru_cache(maxsize=4096)(self._classify_address)  # the answer for an address never changes
        self._own: frozenset[str] = frozenset()
        self._read_at = -math.inf

    def check(self, address: str) -> None:
        """Raise AddressRefused unless the guard allows a connection to `address`."""
        refusal, reached = self._classify(address)
        if not refusal and reached and reached in self._read_own_addresses():
            refusal = f"{address} is an address of this machine; {_HOW_TO_ALLOW}"
        if refusal:
            raise AddressRefused(refusal)

    def _classify_address(self, address: str) -> tuple[str | None, str | None]:
        """Return why an address is refused; for an open one, the address that is reached unless a setting allows it."""
        if "%" in address:
            return f"{address} is valid on one local network only", None
        try:
            parsed = ip_address(address)
        except ValueError:
            return f"{address!r} is not a network address", None
        reached = _embedded_ipv4(parsed) or parsed
        if any(parsed in network or reached in network for network in self._allowed):
            return None, None
        if _is_open(reached):
            return None, str(reached)
        return f"{address} is a private or reserved address; {_HOW_TO_ALLOW}", None

    def _read_own_addresses(self) -> frozenset[str]:
        """Return the addresses of all interfaces. They may change while the program runs."""
        import psutil  # the import takes long, and most commands use no network

        now = time.monotonic()
        if now - self._read_at >= _REFRESH_SECONDS:
            families = (socket.AF_INET, socket.AF_INET6)
            known = (entry for entries in psutil.net_if_addrs().values() for entry in entries)
            self._own = frozenset(entry.address.partition("%")[0] for entry in known if entry.family in families)
            self._read_at = now
        return self._own


def _embedded_ipv4(address: IPv4Address | IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address contains (IPv4-mapped, NAT64); None if it contains none."""
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped


def _is_open(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in block for block in _CLOSED_IPV4)
    return address in _GLOBAL_IPV6 and not any(address in block for block in _CLOSED_IPV6)
