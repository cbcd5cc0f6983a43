"""The addresses that no request may reach without a setting (spec 4.3), for the tests of each way out."""

from ipaddress import ip_address

REFUSED = {
    "unspecified": ["0.0.0.0", "::"],
    "this network": ["0.0.0.1", "0.255.255.255"],
    "usual": ["10.10.10.10", "172.17.0.1", "192.168.1.1", "127.0.0.53", "127.0.1.1", "10.96.0.1"],
    "private": ["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255"],
    "the host of a virtual machine": ["168.63.129.16", "::ffff:168.63.129.16", "64:ff9b::168.63.129.16"],
    "carrier-grade NAT": ["100.64.0.0", "100.127.255.255"],
    "loopback": ["127.0.0.1", "127.255.255.255", "::1"],
    "metadata of clouds": [
        "100.100.100.200",
        "169.254.170.2",
        "169.254.169.253",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
    ],
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
}
NOT_ADDRESSES = [
    "",
    "localhost",
    "127.1",
    "0x7f.0.0.1",
    "2130706433",
    "0177.0.0.1",
    "127.0.0.1:80",
    "[::1]",
    " ::1",
]
# Other spellings of the loopback address in a URL.
_SPELLINGS = ("localhost", "127.1", "0x7f.0.0.1", "2130706433", "0177.0.0.1", "127.0.0.1.", "\uff11\uff12\uff17.0.0.1")


def closed_hosts() -> list[str]:
    """Return the hosts of URLs that lead to the refused addresses, each once."""
    addresses = [ip_address(address) for group in REFUSED.values() for address in group if "%" not in address]
    hosts = [f"[{address}]" if address.version == 6 else str(address) for address in addresses]
    return [*dict.fromkeys(hosts), *_SPELLINGS]


def closed_names() -> dict[str, str]:
    """Return names, each with the refused address that its name server gives (the setting connect_to)."""
    addresses = dict.fromkeys(str(ip_address(a)) for group in REFUSED.values() for a in group if "%" not in a)
    return {f"inside{number}.test": address for number, address in enumerate(addresses)}
