"""Politeness keys: hosts with the same key share one turn (spec 2.3)."""

from collections.abc import Callable
from functools import cache, lru_cache

from publicsuffixlist import PublicSuffixList

from headwater.core.text import is_address

KeyOf = Callable[[str], str]


def own_key(host: str) -> str:
    """Give each host, with its port, a turn of its own."""
    return host


@lru_cache(maxsize=65_536)
def domain_key(host: str) -> str:
    """Give all hosts of one registrable domain one turn; an IP address or a public suffix has its own."""
    name = host.partition(":")[0]
    if host.startswith("[") or is_address(name):
        return host
    domain = _public_suffixes().privatesuffix(name)
    return f"domain:{domain}" if domain else host


KEYS: dict[str, KeyOf] = {"host": own_key, "domain": domain_key}


def group_key(name: str) -> str:
    """Return the politeness key of a named group."""
    return f"group:{name}"


@cache
def _public_suffixes() -> PublicSuffixList:
    return PublicSuffixList()
