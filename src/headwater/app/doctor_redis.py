"""The check of Redis: reachable, new enough, writable, and keeping what is written."""

import re
from typing import Any

from headwater.app.doctor_finding import Finding, failed, not_configured, ok, warning
from headwater.canonical.redis import Redis, open_redis
from headwater.core.errors import HeadwaterError
from headwater.core.settings import Settings
from headwater.db.pool import shown

_OLDEST = 4
_KEEPS_ALL = "noeviction"


async def redis(settings: Settings) -> Finding:
    """Look where links and articles are projected to."""
    if not settings.redis_url:
        return not_configured(
            "no Redis is set: links and articles are in PostgreSQL alone",
            "Nothing to do; HEADWATER_REDIS_URL names one for other programs to read and write.",
        )
    where = shown(settings.redis_url)
    async with open_redis(settings.redis_url) as server:
        try:
            await server.ask("PING")
            return _judge(where, await _facts(server))
        except HeadwaterError as error:
            return failed(
                f"{where}: {error}".rstrip("."),
                "Start it, or correct HEADWATER_REDIS_URL (user, password, port); until then PostgreSQL keeps it all.",
            )


async def _facts(server: Redis) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for answer in await server.ask_all([("INFO", part) for part in ("server", "memory", "replication", "cluster")]):
        facts |= answer if isinstance(answer, dict) else {}  # whoever may not ask is not told
    return facts


def _judge(where: str, facts: dict[str, Any]) -> Finding:
    version = str(facts.get("redis_version", "of an unknown version"))
    what = f"Redis {version} at {where}"
    major = re.match(r"\d+", version)
    if major and int(major[0]) < _OLDEST:
        return failed(f"{what} is too old", f"Use Redis {_OLDEST} or newer.")
    if facts.get("role") == "slave":
        return failed(f"{what} is a replica, which cannot be written to", "Name its master in HEADWATER_REDIS_URL.")
    if facts.get("cluster_enabled") in (1, "1"):
        return failed(f"{what} is part of a cluster", "Use a single server: the keys of an article belong together.")
    policy = str(facts.get("maxmemory_policy", _KEEPS_ALL))
    if policy != _KEEPS_ALL:
        return warning(
            f"{what} throws keys away when its memory is full (maxmemory-policy {policy})",
            "redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf.",
        )
    return ok(f"{what}, keeps what it is given")
