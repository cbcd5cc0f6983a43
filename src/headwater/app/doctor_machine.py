"""The doctor's checks of this machine: folder, disk, time zones, DNS, ports, token, sandbox, browser, and of Redis."""

import asyncio
import errno
import os
import pwd
import re
import shlex
import stat
import tempfile
import time
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from rich.filesize import decimal

from headwater.app.doctor_finding import Finding, failed, not_configured, ok, warning
from headwater.app.runtime import user_agent
from headwater.app.token import FILE_NAME
from headwater.browser.chromium import find_program, start_chromium
from headwater.canonical.redis import open_redis
from headwater.core.errors import HeadwaterError, SandboxFailed
from headwater.core.settings import Settings
from headwater.db.pool import without_password
from headwater.feeds.parser import parse_feed
from headwater.feeds.results import Feed
from headwater.http.network_checks import ask_this_machine, resolve, try_to_listen
from headwater.sandbox.pool import make_sandbox
from headwater.sources import registry

_MIB = 1024 * 1024
_FAILED_BYTES = 200 * _MIB
_WARNED_BYTES = 2048 * _MIB
_FAILED_INODES = 1000
_WARNED_SHARE = 0.05
_DNS_SECONDS = 3.0
_HEALTH_SECONDS = 3.0
_VERSION = re.compile(r"[\w.+-]{1,40}")
_FEED = b"<rss version='2.0'><channel><title>t</title><item><link>http://example.org/1</link></item></channel></rss>"
_MIN_REDIS_VERSION = 4
_KEEP_ALL = "noeviction"
_FIRST_START = "The first start makes it."


async def check_data_folder(settings: Settings) -> Finding:
    """Check that the data folder can be written to."""
    return await asyncio.to_thread(_check_data_folder, settings.data_dir)


def _check_data_folder(folder: Path) -> Finding:
    existing = _find_existing(folder)
    choose = "choose another with HEADWATER_DATA_DIR."
    if not existing.is_dir():
        return failed(f"{existing} is not a folder", f"Move it away, or {choose}")
    for part in (existing, folder / "corpus"):
        try:
            if part.exists():
                tempfile.TemporaryFile(dir=part).close()
        except OSError as error:
            fix = f"Give {_get_user_name(os.geteuid())} the right to write there"
            if error.errno == errno.EROFS:
                mount = next(path for path in (part, *part.parents) if path.is_mount())
                fix = f"Make it writable again: mount -o remount,rw {shlex.quote(str(mount))}"
            return failed(f"{part} cannot be written to: {error.strerror}", f"{fix}; or {choose}")
    if existing != folder:
        return not_configured(f"{folder} is not there yet", _FIRST_START)
    owner, own = folder.stat().st_uid, os.geteuid()
    if owner != own:
        # The fix is not "chown -R": the embedded database in the folder has its own owner.
        owner_name = _get_user_name(owner)
        return warning(f"{folder} belongs to {owner_name}, and this is {_get_user_name(own)}", f"Run as {owner_name}.")
    return ok(f"{folder}, writable, belongs to {_get_user_name(owner)}")


async def check_disk(settings: Settings) -> Finding:
    """Check that the disk has space and inodes left."""
    folder = settings.data_dir
    disk = await asyncio.to_thread(lambda: os.statvfs(_find_existing(folder)))
    free, total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    inodes = f" and {disk.f_favail:,} inodes" if disk.f_files else ""  # some file systems do not count them
    found = f"{decimal(free)} of {decimal(total)}{inodes} free"
    fix = f"Free some space below {folder}, or give it a larger disk."
    if free < _FAILED_BYTES or (disk.f_files and disk.f_favail < _FAILED_INODES):
        return failed(found, fix)
    if free < max(_WARNED_BYTES, total * _WARNED_SHARE) or disk.f_favail < disk.f_files * _WARNED_SHARE:
        return warning(found, fix)
    return ok(found)


async def check_time_zone(settings: Settings) -> Finding:
    """Check that this machine knows the time zone of the settings."""
    try:
        ZoneInfo(settings.timezone)
    except (ValueError, OSError, KeyError):
        return failed(
            f"this machine does not know the time zone {settings.timezone}",
            "Install the time zone data: apt-get install tzdata, or pip install tzdata.",
        )
    return ok(settings.timezone)


async def check_dns(host: str) -> Finding:
    """Check that a host name can be resolved."""
    try:
        async with asyncio.timeout(_DNS_SECONDS):
            addresses = await asyncio.to_thread(resolve, host)
    except TimeoutError:
        why = f"no answer within {_DNS_SECONDS:g} seconds"
    except OSError as error:
        why = error.strerror or str(error)
    else:
        return ok(f"{host} is {addresses[0]}")
    return warning(
        f"{host} cannot be resolved ({why}): without DNS no host can be reached",
        f"Check the network and /etc/resolv.conf until `getent hosts {host}` answers.",
    )


async def check_api_address(settings: Settings) -> Finding:
    """Check that the API can listen on its address, or that a Headwater already does."""
    host, port = settings.listen_host, settings.listen_port
    try:
        await asyncio.to_thread(try_to_listen, host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            return failed(
                f"{host}:{port} cannot be listened on: {error.strerror}",
                "Choose another with HEADWATER_LISTEN_HOST and HEADWATER_LISTEN_PORT.",
            )
    else:
        return ok(f"{host}:{port} is free" if port else f"any free port of {host}")
    health = await ask_this_machine(host, port, "/health", user_agent=user_agent(settings), seconds=_HEALTH_SECONDS)
    version = str(health.get("version"))
    if health.get("status") == "ok" and _VERSION.fullmatch(version):
        return ok(f"Headwater {version} answers on {host}:{port}")
    return failed(
        f"another program listens on {host}:{port}",
        "Stop it, or choose another with HEADWATER_LISTEN_PORT (0 takes any free one).",
    )


async def check_write_token(settings: Settings) -> Finding:
    """Check that the token for write requests is secret."""
    if settings.api_token:
        return ok("given by the settings")
    path = settings.data_dir / FILE_NAME
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        token = path.read_bytes().strip()
    except (FileNotFoundError, NotADirectoryError):
        return not_configured("not made yet", _FIRST_START)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        return failed(f"{path} is open to others (mode {mode:04o})", f"chmod 600 {shlex.quote(str(path))}")
    if not token or not token.isascii():
        return failed(f"{path} holds no token", "Remove it: the next start makes a new one.")
    return ok(f"{path}, for its owner only")


async def check_sandbox(settings: Settings) -> Finding:
    """Check that a child process starts and parses a feed within its limits."""
    began = time.monotonic()
    try:
        async with make_sandbox(settings) as sandbox:
            url = "http://example.org/feed"
            await sandbox.run(parse_feed, _FEED, url, None, returns=Feed, seconds=settings.sandbox_timeout_seconds)
    except SandboxFailed as error:
        cause = error.__cause__
        why = f" ({cause.strerror})" if isinstance(cause, OSError) else ""
        return failed(
            f"nothing can be parsed: {error}{why}",
            "Look for free memory and processes (free -m, ulimit -u), or raise HEADWATER_SANDBOX_MEMORY_MB.",
        )
    seconds = time.monotonic() - began
    return ok(f"a child of {settings.sandbox_memory_mb} MB started and parsed a feed in {seconds:.1f} s")


async def check_kinds(_: Settings) -> Finding:
    """Check that the installed kinds of source can be loaded."""
    broken = await asyncio.to_thread(registry.get_broken_kinds)
    installed = f"installed: {', '.join(sorted(registry.get_kinds()))}"
    if not broken:
        return ok(installed)
    return failed(
        f"{len(broken)} cannot be loaded: {', '.join(sorted(broken))}; {installed}",
        "Fix the package that it comes from and install it again, or uninstall it; then restart Headwater.",
        tuple(f"{name}: {why}" for name, why in sorted(broken.items())),
    )


async def check_chromium(settings: Settings) -> Finding:
    """Check that the browser starts, if there is one."""
    program = await asyncio.to_thread(find_program, settings.chromium_path)
    if program is None and not settings.chromium_path:
        fix = "On Debian: apt-get install chromium; or name one with HEADWATER_CHROMIUM_PATH."
        return not_configured("not found: sources that need a browser wait for one", fix)
    started = await start_chromium(settings.chromium_path)
    version = started.browser.version
    await started.end()
    return ok(f"{program} starts, version {version}")


async def check_redis(settings: Settings) -> Finding:
    """Check that Redis answers, is new enough, accepts writes and keeps all keys."""
    if not settings.redis_url:
        return not_configured(
            "no Redis is set: links and articles are in PostgreSQL alone",
            "Nothing to do; HEADWATER_REDIS_URL names one for other programs to read and write.",
        )
    place = without_password(settings.redis_url)
    facts: dict[str, Any] = {}
    async with open_redis(settings.redis_url) as redis:
        try:
            await redis.execute("PING")
            for answer in await redis.execute_all(
                [("INFO", section) for section in ("server", "memory", "replication", "cluster")]
            ):
                facts |= answer if isinstance(answer, dict) else {}  # this user may have no right to ask
        except HeadwaterError as error:
            return failed(
                f"{place}: {error}".rstrip("."),
                "Start it, or correct HEADWATER_REDIS_URL (user, password, port); until then PostgreSQL keeps it all.",
            )
    return _check_redis_facts(place, facts)


def _check_redis_facts(place: str, facts: dict[str, Any]) -> Finding:
    version = str(facts.get("redis_version", "of an unknown version"))
    server = f"Redis {version} at {place}"
    major = re.match(r"\d+", version)
    if major and int(major[0]) < _MIN_REDIS_VERSION:
        return failed(f"{server} is too old", f"Use Redis {_MIN_REDIS_VERSION} or newer.")
    if facts.get("role") == "slave":
        return failed(f"{server} is a replica, which cannot be written to", "Name its master in HEADWATER_REDIS_URL.")
    if facts.get("cluster_enabled") in (1, "1"):
        return failed(f"{server} is part of a cluster", "Use a single server: the keys of an article belong together.")
    policy = str(facts.get("maxmemory_policy", _KEEP_ALL))
    if policy != _KEEP_ALL:
        return warning(
            f"{server} deletes keys when its memory is full (maxmemory-policy {policy})",
            "redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf.",
        )
    return ok(f"{server}, keeps all keys")


def _find_existing(path: Path) -> Path:
    """Return the path or its nearest parent that exists."""
    return next(existing for existing in (path, *path.parents) if existing.exists())


def _get_user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
