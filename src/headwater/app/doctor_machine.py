"""The checks of this machine: folder, disk, time zones, names, ports, token, children, browser."""

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
from zoneinfo import ZoneInfo

from headwater.app.doctor_finding import Finding, State, failed, not_configured, ok, warning
from headwater.app.runtime import user_agent
from headwater.app.token import FILE_NAME
from headwater.browser.chromium import find_program, start_chromium
from headwater.core.errors import SandboxFailed
from headwater.core.settings import Settings
from headwater.feeds.parser import parse_feed_page
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


async def data_folder(settings: Settings) -> Finding:
    """Look whether everything can be kept where it is to be kept."""
    return await asyncio.to_thread(_data_folder, settings.data_dir)


def _data_folder(folder: Path) -> Finding:
    standing = _nearest(folder)
    choose = "choose another with HEADWATER_DATA_DIR."
    if not standing.is_dir():
        return failed(f"{standing} is not a folder", f"Move it away, or {choose}")
    for part in (standing, folder / "corpus"):
        try:
            if part.exists():
                # A file without a name, where the file system knows such, and else one that is gone at once.
                tempfile.TemporaryFile(dir=part).close()
        except OSError as error:
            mend = f"Let {_name(os.geteuid())} write there"
            if error.errno == errno.EROFS:
                mend = f"Make it writable again: mount -o remount,rw {shlex.quote(str(_mount_of(part)))}"
            return failed(f"{part} cannot be written to: {error.strerror}", f"{mend}; or {choose}")
    if standing != folder:
        return not_configured(f"{folder} is not there yet", "The first start makes it.")
    owner, own = folder.stat().st_uid, os.geteuid()
    if owner != own:
        # Not "chown -R": the embedded database below has an owner of its own.
        return warning(f"{folder} belongs to {_name(owner)}, and this is {_name(own)}", f"Run as {_name(owner)}.")
    return ok(f"{folder}, writable, belongs to {_name(owner)}")


async def disk(settings: Settings) -> Finding:
    """Look whether there is room left for what is to be kept."""
    return await asyncio.to_thread(_disk, settings.data_dir)


def _disk(folder: Path) -> Finding:
    room = os.statvfs(_nearest(folder))
    free, whole = room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize
    found = f"{_size(free)} of {_size(whole)}"
    few_inodes = none_left = False
    if room.f_files:  # some file systems do not count them
        few_inodes = room.f_favail < room.f_files * _WARNED_SHARE
        none_left = room.f_favail < _FAILED_INODES
        found += f" and {room.f_favail:,} inodes"
    found += " free"
    mend = f"Free some space below {folder}, or give it a larger disk."
    if free < _FAILED_BYTES or none_left:
        return failed(found, mend)
    if free < max(_WARNED_BYTES, whole * _WARNED_SHARE) or few_inodes:
        return warning(found, mend)
    return ok(found)


async def time_zone(settings: Settings) -> Finding:
    """Look whether days and schedules can be told."""
    try:
        ZoneInfo(settings.timezone)
    except (ValueError, OSError, KeyError):
        return failed(
            f"this machine does not know the time zone {settings.timezone}",
            "Install the time zone data: apt-get install tzdata, or pip install tzdata.",
        )
    return ok(settings.timezone)


async def dns(host: str) -> Finding:
    """Look whether a name can be resolved."""
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
        f"{host} cannot be resolved ({why}): without DNS nothing outside can be reached",
        f"Check the network and /etc/resolv.conf until `getent hosts {host}` answers.",
    )


async def api_address(settings: Settings) -> Finding:
    """Look whether the API can listen where it is to listen, or does already."""
    host, port = settings.listen_host, settings.listen_port
    try:
        await asyncio.to_thread(try_to_listen, host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return await _taken(settings)
        return failed(
            f"{host}:{port} cannot be listened on: {error.strerror}",
            "Choose another with HEADWATER_LISTEN_HOST and HEADWATER_LISTEN_PORT.",
        )
    return ok(f"{host}:{port} is free" if port else f"any free port of {host}")


async def _taken(settings: Settings) -> Finding:
    host, port = settings.listen_host, settings.listen_port
    health = await ask_this_machine(host, port, "/health", user_agent=user_agent(settings), seconds=_HEALTH_SECONDS)
    version = str(health.get("version"))
    if health.get("status") == "ok" and _VERSION.fullmatch(version):
        return ok(f"Headwater {version} answers on {host}:{port}")
    return failed(
        f"{host}:{port} is taken by something that does not answer as Headwater does",
        "Stop it, or choose another with HEADWATER_LISTEN_PORT (0 takes any free one).",
    )


async def write_token(settings: Settings) -> Finding:
    """Look whether the token that writing takes is a secret."""
    if settings.api_token:
        return ok("given by the settings")
    return await asyncio.to_thread(_token_file, settings.data_dir / FILE_NAME)


def _token_file(path: Path) -> Finding:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        token = path.read_bytes().strip()
    except (FileNotFoundError, NotADirectoryError):
        return not_configured("not made yet", "The first start makes it.")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        return failed(f"{path} is open to others (mode {mode:04o})", f"chmod 600 {shlex.quote(str(path))}")
    if not token or not token.isascii():
        return failed(f"{path} holds no token", "Remove it: the next start makes a new one.")
    return ok(f"{path}, for its owner only")


async def sandbox(settings: Settings) -> Finding:
    """Look whether a child starts, and reads within its limits."""
    began = time.monotonic()
    try:
        async with make_sandbox(settings) as children:
            url = "http://example.org/feed"
            await children.run(parse_feed_page, _FEED, url, None, returns=Feed, seconds=settings.sandbox_seconds)
    except SandboxFailed as error:
        cause = error.__cause__
        why = f" ({cause.strerror})" if isinstance(cause, OSError) else ""
        return failed(
            f"nothing can be read: {error}{why}",
            "Look for free memory and processes (free -m, ulimit -u), or raise HEADWATER_SANDBOX_MEMORY_MB.",
        )
    return ok(
        f"a child of {settings.sandbox_memory_mb} MB read a feed, {time.monotonic() - began:.1f} s with its start"
    )


async def kinds(settings: Settings) -> Finding:
    """Look whether the installed kinds of source can be loaded."""
    del settings
    broken = await asyncio.to_thread(registry.get_broken_kinds)
    installed = f"installed: {', '.join(sorted(registry.get_kinds()))}"
    if not broken:
        return ok(installed)
    return Finding(
        State.FAILED,
        f"{len(broken)} cannot be loaded: {', '.join(sorted(broken))}; {installed}",
        "Mend the package that it comes from and install it again, or uninstall it; then restart Headwater.",
        tuple(f"{name}: {why}" for name, why in sorted(broken.items())),
    )


async def chromium(settings: Settings) -> Finding:
    """Look whether there is a browser, and whether it starts."""
    program = await asyncio.to_thread(find_program, settings.chromium_path)
    if program is None and not settings.chromium_path:
        mend = "On Debian: apt-get install chromium; or name one with HEADWATER_CHROMIUM_PATH."
        return not_configured("not found: sources that need a browser wait for one", mend)
    started = await start_chromium(settings.chromium_path)
    version = started.browser.version
    await started.end()
    return ok(f"{program} starts, version {version}")


def _nearest(path: Path) -> Path:
    """Return the path, or what stands of it."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _mount_of(path: Path) -> Path:
    while not path.is_mount():
        path = path.parent
    return path


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _size(count: int) -> str:
    size, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:.1f} {units[0]}"
