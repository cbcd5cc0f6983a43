"""`headwater doctor`: check everything that Headwater needs, change nothing, and say how to fix it (spec 8.2)."""

import asyncio
import errno
import os
import pwd
import re
import shlex
import stat
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from rich.filesize import decimal

from headwater.access.token_file import FILE_NAME
from headwater.app.doctor_database import DATABASE_CHECKS, DatabaseDoctor
from headwater.app.doctor_finding import Finding, State, failed, not_checked, not_configured, ok, run_check, warning
from headwater.app.runtime import user_agent
from headwater.browser.chromium import find_program, start_chromium
from headwater.canonical.redis import open_redis
from headwater.core.access import check_token
from headwater.core.errors import HeadwaterError, SandboxFailed
from headwater.core.settings import WHERE_LISTED, Configuration, Problem, Settings, survey
from headwater.db.pool import without_password
from headwater.feeds.parser import parse_feed
from headwater.feeds.results import Feed
from headwater.http.network_checks import ask_this_machine, resolve, try_to_listen
from headwater.notify.alarms import LOWEST_FREE_BYTES, LOWEST_FREE_SHARE
from headwater.sandbox.confinement import Rule, list_missing_rules
from headwater.sandbox.pool import make_sandbox
from headwater.search.index_client import IndexLost, open_index
from headwater.sources import registry

T = TypeVar("T")

_CHECK_SECONDS = 6.0
_HOST_SECONDS = 3.0  # to wait for the database to name a host before the DNS check uses another one
_DEFAULT_HOST = "example.org"
_BAD_SETTING = not_checked("a setting that it needs cannot be used", "the settings")
_BAD_FOLDER = not_checked("the data folder cannot be used", "the data folder")
_MIB = 1024 * 1024
_FAILED_BYTES = 200 * _MIB
_FAILED_INODES = 1000
_DNS_SECONDS = 3.0
_HEALTH_SECONDS = 3.0
_VERSION = re.compile(r"[\w.+-]{1,40}")
_FEED = b"<rss version='2.0'><channel><title>t</title><item><link>http://example.org/1</link></item></channel></rss>"
_MIN_REDIS_VERSION = 4
_KEEP_ALL = "noeviction"


class _DaemonThreads(ThreadPoolExecutor):
    """An executor of daemon threads: one that hangs in the operating system does not keep the program alive."""

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        future: Future[T] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*args, **kwargs))
                except BaseException as error:  # noqa: BLE001 (raised where the result is awaited)
                    future.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do not wait for the threads."""


def use_daemon_threads() -> None:
    """Let this program end though a check hangs in the operating system. Only a program that does nothing else may."""
    asyncio.get_running_loop().set_default_executor(_DaemonThreads())


async def run_checks(
    environment: Mapping[str, str], folder: Path, running: Settings | None = None
) -> dict[str, Finding]:
    """Run all checks at once. They take less than ten seconds, also if some of them hang.

    A program that runs checks its own settings, `running`, which need not be those of its environment.
    """
    configuration, problems = survey(environment, folder)
    settings = running or configuration.settings
    bad_settings = {name for problem in problems for name in problem.affected} if running is None else set()
    findings = {"settings": _check_settings(configuration, problems, settings)}
    database = DatabaseDoctor(settings)

    async def check_machine(name: str) -> None:
        check, needed = _MACHINE_CHECKS[name]
        is_sure = bad_settings.isdisjoint(needed)
        findings[name] = await run_check(check(settings), _CHECK_SECONDS) if is_sure else _BAD_SETTING

    async def check_database() -> None:
        if bad_settings.isdisjoint({"database_url"} if settings.database_url else {"database_url", "data_dir"}):
            await database.check()
        else:
            database.findings.update(dict.fromkeys(DATABASE_CHECKS, _BAD_SETTING))

    async def check_dns() -> None:
        await asyncio.wait([checking_database], timeout=_HOST_SECONDS)
        host = database.feed_host or _DEFAULT_HOST
        findings["dns"] = await run_check(_check_dns(host), _CHECK_SECONDS)

    async with asyncio.TaskGroup() as group:
        checking_database = group.create_task(check_database())
        group.create_task(check_dns())
        for name in _MACHINE_CHECKS:
            group.create_task(check_machine(name))
    findings |= database.findings
    if (sources := database.browser_sources) and findings["chromium"].state is State.NOT_CONFIGURED:
        names = ", ".join(sources[:3]) + " and others" * (len(sources) > 3)
        findings["chromium"] = warning(
            f"not found, and the pages of {names} wait for one", findings["chromium"].fix or ""
        )
    if findings["data folder"].state is State.FAILED:
        if not settings.database_url and findings["database"].state is not State.OK:
            findings |= dict.fromkeys(DATABASE_CHECKS, _BAD_FOLDER)
        if findings["api token"].state is State.NOT_CONFIGURED:
            findings["api token"] = _BAD_FOLDER
    return {name: findings[name] for name in dict.fromkeys((*_ORDER, *_MACHINE_CHECKS))}


def _check_settings(configuration: Configuration, problems: list[Problem], used: Settings) -> Finding:
    messages = tuple(str(problem.error).removesuffix(f" {WHERE_LISTED}") for problem in problems)
    fix = f"Correct or remove what is named; {WHERE_LISTED}"
    if len(messages) == 1:
        return failed(messages[0], fix)
    if messages:
        return failed(f"{len(messages)} cannot be used", fix, messages)
    origins = [origin for origin in configuration.origins.values() if origin != "default"]
    places = " and ".join(dict.fromkeys(origins))
    other = [
        one.name for one in fields(Settings) if getattr(used, one.name) != getattr(configuration.settings, one.name)
    ]
    if other:
        return ok(f"{len(other)} differ from the environment and the settings file: {', '.join(other)}")
    return ok(f"{len(origins)} set in {places}" if origins else "none set: all have their defaults")


def _try_data_folder(folder: Path) -> Finding:
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
        return not_configured(f"{folder} is not there yet")
    owner, own = folder.stat().st_uid, os.geteuid()
    if owner != own:
        # The fix is not "chown -R": the embedded database in the folder has its own owner.
        owner_name = _get_user_name(owner)
        return warning(f"{folder} belongs to {owner_name}, and this is {_get_user_name(own)}", f"Run as {owner_name}.")
    if foreign := _find_foreign(folder / "corpus", own):
        found = f"{foreign[0]} belongs to {_get_user_name(foreign[0].stat().st_uid)}, and this is {_get_user_name(own)}"
        return failed(found, f"chown -R {own} {shlex.join(map(str, foreign))}")
    return ok(f"{folder}, writable, belongs to {_get_user_name(owner)}")


def _find_foreign(corpus: Path, own: int) -> list[Path]:
    """Return the folders of raw files that belong to another user, such as those of a run as root."""
    folders = (corpus, *corpus.iterdir()) if corpus.is_dir() else ()
    return [path for path in folders if path.stat().st_uid != own]


async def _check_disk(settings: Settings) -> Finding:
    folder = settings.data_dir
    disk = await asyncio.to_thread(lambda: os.statvfs(_find_existing(folder)))
    free, total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    inodes = f" and {disk.f_favail:,} inodes" if disk.f_files else ""  # some file systems do not count them
    found = f"{decimal(free)} of {decimal(total)}{inodes} free"
    fix = f"Free some space below {folder}, or give it a larger disk."
    if free < _FAILED_BYTES or (disk.f_files and disk.f_favail < _FAILED_INODES):
        return failed(found, fix)
    if free < max(LOWEST_FREE_BYTES, total * LOWEST_FREE_SHARE) or disk.f_favail < disk.f_files * LOWEST_FREE_SHARE:
        return warning(found, fix)
    return ok(found)


async def _check_time_zone(settings: Settings) -> Finding:
    try:
        ZoneInfo(settings.timezone)
    except (ValueError, OSError, KeyError):
        return failed(
            f"this machine does not know the time zone {settings.timezone}",
            "Install the time zone data: apt-get install tzdata, or pip install tzdata.",
        )
    return ok(settings.timezone)


async def _check_dns(host: str) -> Finding:
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


async def _check_api_address(settings: Settings) -> Finding:
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


async def _check_first_token(settings: Settings) -> Finding:
    if settings.api_token:
        return ok("given by the settings")
    path = settings.data_dir / FILE_NAME
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        token = path.read_text(encoding="ascii", errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return not_configured("not made yet")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        return failed(f"{path} is open to others (mode {mode:04o})", f"chmod 600 {shlex.quote(str(path))}")
    try:
        check_token(token)
    except ValueError as error:
        return failed(f"the token in {path} {error}", "Remove the file: the next start makes a new one.")
    return ok(f"{path}, for its owner only")


async def _check_sandbox(settings: Settings) -> Finding:
    began = time.monotonic()
    try:
        async with make_sandbox(settings) as sandbox:
            url = "http://example.org/feed"
            await sandbox.run(parse_feed, _FEED, url, None, returns=Feed, seconds=settings.sandbox_timeout_seconds)
            missing = await sandbox.run(list_missing_rules, returns=dict[Rule, str])
    except SandboxFailed as error:
        cause = error.__cause__
        why = f" ({cause.strerror})" if isinstance(cause, OSError) else ""
        return failed(
            f"nothing can be parsed: {error}{why}",
            "Look for free memory and processes (free -m, ulimit -u), or raise HEADWATER_SANDBOX_MEMORY_MB.",
        )
    seconds = time.monotonic() - began
    found = f"a child of {settings.sandbox_memory_mb} MB started and parsed a feed in {seconds:.1f} s"
    if not missing:
        return ok(found)
    return warning(
        f"{found}, but this kernel or container does not enforce {len(missing)} of {len(Rule)} rules",
        "SECURITY.md names what each rule needs.",
        tuple(f"{rule}: {why}" for rule, why in missing.items()),
    )


async def _check_contact(settings: Settings) -> Finding:
    contact = settings.contact_url
    fix = "Set HEADWATER_CONTACT_URL to a page that names you and your crawler, such as https://example.org/crawler."
    if not contact:
        return warning("none: the sites that Headwater reads cannot learn who reads them", fix)
    if not re.match(r"https?://[^\s/]+", contact):
        return warning(f"{contact} is not the address of a page", fix)
    return ok(contact)


async def _check_kinds(_: Settings) -> Finding:
    broken = await asyncio.to_thread(registry.get_broken_kinds)
    installed = f"installed: {', '.join(sorted(registry.get_kinds()))}"
    if not broken:
        return ok(installed)
    return failed(
        f"{len(broken)} cannot be loaded: {', '.join(sorted(broken))}; {installed}",
        "Fix the package that it comes from and install it again, or uninstall it; then restart Headwater.",
        tuple(f"{name}: {why}" for name, why in sorted(broken.items())),
    )


async def _check_chromium(settings: Settings) -> Finding:
    program = await asyncio.to_thread(find_program, settings.chromium_path)
    if program is None and not settings.chromium_path:
        fix = "On Debian: apt-get install chromium; or name one with HEADWATER_CHROMIUM_PATH."
        return not_configured("not found: sources that need a browser wait for one", fix)
    started = await start_chromium(settings.chromium_path)
    version = started.browser.version
    await started.end()
    return ok(f"{program} starts, version {version}")


async def _check_redis(settings: Settings) -> Finding:
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


async def _check_search_server(settings: Settings) -> Finding:
    if not settings.search_url:
        return not_configured(
            "no Elasticsearch or OpenSearch is set: documents are searched in PostgreSQL",
            "Nothing to do; HEADWATER_SEARCH_URL names one.",
        )
    async with open_index(settings, lambda: datetime.now(UTC)) as client:
        try:
            return ok(f"{client.place} answers as {await client.get_version()}")
        except IndexLost as error:
            return failed(
                str(error).rstrip("."),
                "Start it, or correct HEADWATER_SEARCH_URL. PostgreSQL answers searches meanwhile, and changes wait.",
            )


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
    return next(existing for existing in (path, *path.parents) if existing.exists())


def _get_user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


# Each check of the machine, and the settings it needs.
_MACHINE_CHECKS: dict[str, tuple[Callable[[Settings], Awaitable[Finding]], tuple[str, ...]]] = {
    "data folder": (lambda settings: asyncio.to_thread(_try_data_folder, settings.data_dir), ("data_dir",)),
    "disk": (_check_disk, ("data_dir",)),
    "time zone": (_check_time_zone, ("timezone",)),
    "api address": (_check_api_address, ("listen_host", "listen_port")),
    "api token": (_check_first_token, ("data_dir", "api_token")),
    "sandbox": (_check_sandbox, ("sandbox_memory_mb", "sandbox_timeout_seconds")),
    "contact url": (_check_contact, ("contact_url",)),
    "kinds": (_check_kinds, ()),
    "chromium": (_check_chromium, ("chromium_path",)),
    "redis": (_check_redis, ("redis_url",)),
    "search url": (_check_search_server, ("search_url",)),
}
_ORDER = ("settings", "data folder", "disk", *DATABASE_CHECKS, "time zone", "dns", "api address", "api token")
