"""The table of settings.

Each field of `Settings` is one setting: its name, type and default, a parser that refuses bad values, a help sentence,
and whether it is a secret. Its value comes from the environment (`HEADWATER_<NAME>`), else from `headwater.toml`, else
from its default. `headwater config` prints all settings. `make docs` generates docs/settings.md from this table.
"""

import difflib
import grp
import ipaddress
import os
import re
import stat
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from headwater.core import setting_values as parse
from headwater.core.api_budget import LARGEST_LIMIT, child_name
from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason

PREFIX = "HEADWATER_"
FILE_VARIABLE = "HEADWATER_CONFIG"
SETTINGS_FILE = "headwater.toml"
WHERE_LISTED = "docs/settings.md lists them all."
# Variables of tests and benches; the program ignores them.
_OF_TESTS = ("ACCEPT_GOLDEN", "CORPORA", "TEST_EXAMPLES", "TEST_KILLS", "TEST_RATE", "TEST_URLS")
OTHER_VARIABLES = frozenset({FILE_VARIABLE, *(PREFIX + name for name in _OF_TESTS)})

# Each of these variables is one entry of the setting rate_limits.
_RATE_LIMIT = re.compile(r"rate_limit_(\w+)_per_hour")

_TYPE_NAMES = {
    "int": "whole number",
    "float": "number",
    "bool": "yes/no",
    "Path": "folder",
    "str": "text",
    "Mapping": "table",
}


def _connect_to(raw: object) -> tuple[str, ...]:
    for part in parse.parts(raw):
        split_connect_to(part)
    return tuple(parse.parts(raw))


def split_connect_to(part: str) -> tuple[str, tuple[str, int]]:
    """Parse `pattern=address:port`, such as `*.staging.example=10.0.0.5:8080`."""
    pattern, _, target = part.partition("=")
    address, _, port = target.rpartition(":")
    try:
        ipaddress.ip_address(address.strip("[]"))
        number = int(port) if pattern else 0
    except ValueError:
        number = 0
    if not 0 < number < 65536:
        raise ValueError(f"{part!r} must look like *.staging.example=10.0.0.5:8080")
    return pattern.strip().lower(), (address.strip("[]"), number)


def _rate_limits(raw: object) -> dict[str, int]:
    if not isinstance(raw, Mapping):
        raise ValueError(
            f"must be a table in the settings file; in the environment, set {PREFIX}RATE_LIMIT_<SOURCE>_PER_HOUR"
        )
    limits: dict[str, int] = {}
    for source, rate in raw.items():
        try:
            limits[child_name(source)] = parse.whole(1, LARGEST_LIMIT)(rate)
        except ValueError as error:
            raise ValueError(f"has a rate for {source} that {error}") from None
    return limits


def _default_data_dir() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/headwater")
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "headwater"


def _setting(parser: Callable[[object], Any], default: Any, text: str, *, secret: bool = False, shown: str = "") -> Any:
    metadata = {"parse": parser, "help": text, "secret": secret, "shown": shown}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, in the order of `headwater config` and of docs/settings.md."""

    data_dir: Path = _setting(
        parse.folder,
        _default_data_dir,
        "Folder for all stored data: raw files, the embedded database, the API token.",
        shown="`/var/lib/headwater` for root, else `~/.local/share/headwater`",
    )
    database_url: str = _setting(
        parse.database_url,
        "",
        "A PostgreSQL 15+ server, as postgresql://user:password@host/database. Empty: the embedded server.",
        secret=True,
    )
    redis_url: str = _setting(
        parse.redis_url,
        "",
        "A Redis server, as redis://user:password@host:port/0. Headwater writes links, canonical articles and attempts "
        "to it, and reads the links of other programs. Empty: no Redis; PostgreSQL stores the same.",
        secret=True,
    )
    search_url: str = _setting(
        parse.search_url,
        "",
        "An Elasticsearch 8/9 or OpenSearch 2/3 server, as https://user:password@host:port. Headwater keeps the index "
        "raw_content there and searches in it. Empty: search in PostgreSQL.",
        secret=True,
    )
    database_connections: int = _setting(parse.whole(2, 100), 8, "Most database connections of one process.")
    listen_host: str = _setting(
        parse.text,
        "127.0.0.1",
        "Address of the HTTP API. Any address but loopback opens it to your network; reading then needs a token.",
    )
    listen_port: int = _setting(parse.whole(0, 65535), 8640, "Port of the HTTP API; 0 takes any free one.")
    allowed_hosts: tuple[str, ...] = _setting(
        parse.hosts,
        (),
        "Names in addition to localhost that clients may call the API by, such as those of a reverse proxy. With one, "
        "reading needs a token too.",
    )
    api_token: str = _setting(
        parse.api_token,
        "",
        "The first API token, of at least 32 random characters, with the scope admin. Empty: the first start makes one "
        "and stores it in the data folder. `headwater token add` makes more tokens.",
        secret=True,
    )
    log_level: str = _setting(
        parse.one_of("debug", "info", "warning", "error"), "info", "The lowest level of messages to log."
    )
    log_format: str = _setting(
        parse.one_of("text", "json"), "text", "Format of log lines: text for people, json for programs."
    )
    contact_url: str = _setting(
        parse.text, "", "Page that explains the crawler to site owners; it is part of the user agent."
    )
    timezone: str = _setting(
        parse.timezone, "America/New_York", "Time zone of schedules and days, unless the source sets one."
    )
    poll_interval_minutes: int = _setting(
        parse.whole(1, 24 * 60), 15, "Minutes between two polls of a feed, unless the source sets another interval."
    )
    poll_check_seconds: float = _setting(
        parse.number(0.05, 3600), 30.0, "Seconds between two searches of the poller for due sources."
    )
    poll_concurrency: int = _setting(
        parse.whole(1, 1000),
        10,
        "Polls at once in one process, without the polls that wait for their host.",
    )
    fetch_processes: int = _setting(
        parse.whole(0, 64),
        0,
        "Most processes in which `headwater up` fetches while there is much to fetch. 0: one for each core, at most 4.",
    )
    fetch_workers: int = _setting(parse.whole(1, 1000), 10, "Fetches at once in one process.")
    host_delay_ms: int = _setting(
        parse.whole(0, 3_600_000),
        1000,
        "Pause between two requests to one host, unless robots.txt or the source sets another.",
    )
    crawl_delay_cap_seconds: float = _setting(
        parse.number(0, 3600), 60.0, "Longest Crawl-delay; a longer one in robots.txt is shortened to this."
    )
    max_retries: int = _setting(parse.whole(0, 100), 5, "Retries of a page that fails for a temporary reason.")
    retry_base_seconds: float = _setting(
        parse.number(0, 86400),
        60.0,
        "Wait before the first retry of a page or a webhook delivery; it doubles with each retry.",
    )
    page_timeout_seconds: float = _setting(parse.number(0.1, 3600), 15.0, "Longest time for one article page in total.")
    max_body_mb: int = _setting(parse.whole(1, 2048), 20, "Largest body, before and after decompression.")
    lease_seconds: float = _setting(
        parse.number(5, 86400),
        120.0,
        "How long a lease lasts; after this time other workers continue the work of a dead one.",
    )
    politeness_scope: str = _setting(
        parse.one_of("host", "domain"),
        "host",
        "Whether each host has its own pace, or all hosts of a registrable domain share one. It applies to new hosts; "
        "`headwater frontier group` moves known hosts.",
    )
    handoff_attempts: int = _setting(
        parse.whole(1, 100), 3, "Attempts to hand off an item that fails for a temporary reason."
    )
    handoff_base_seconds: float = _setting(
        parse.number(0, 3600), 0.0, "Wait before the second attempt of a hand-off; it doubles with each attempt."
    )
    fetch_log_days: int = _setting(parse.whole(1, 36500), 90, "Days that the log of fetch attempts is kept.")
    delivery_log_days: int = _setting(
        parse.whole(1, 36500), 30, "Days that ended webhook deliveries and their attempts are kept."
    )
    sandbox_workers: int = _setting(parse.whole(1, 64), 2, "Child processes that parse downloaded bodies.")
    sandbox_memory_mb: int = _setting(parse.whole(256, 65536), 500, "Memory limit of one such child.")
    sandbox_timeout_seconds: float = _setting(parse.number(0.1, 3600), 20.0, "Longest time to parse one body.")
    chromium_path: str = _setting(
        parse.text, "", "The Chromium for sources that need a browser. Empty: the system's, else Playwright's."
    )
    browser_pages: int = _setting(parse.whole(1, 64), 4, "Pages at once in the browser of one process.")
    browser_timeout_seconds: float = _setting(
        parse.number(1, 3600), 30.0, "Longest time for a page in the browser, with all that it loads."
    )
    browser_memory_mb: int = _setting(
        parse.whole(256, 65536), 1024, "Memory limit of the browser; above it, the largest of its processes is ended."
    )
    allow_networks: tuple[str, ...] = _setting(
        parse.networks, (), "Private networks that Headwater may visit, as 10.1.0.0/16,127.0.0.0/8."
    )
    connect_to: tuple[str, ...] = _setting(
        _connect_to, (), "Hosts whose connections go to a fixed address, as *.staging.example=10.0.0.5:8080."
    )
    smtp_url: str = _setting(
        parse.smtp_url,
        "",
        "The mail server for digests and alarms: smtp://user:password@host:587 (STARTTLS), smtps://host:465 (TLS) or "
        "smtp+plain://host:25 (no encryption). Empty: no mail.",
        secret=True,
    )
    smtp_from: str = _setting(parse.mail_address, "headwater@localhost", "The sender of mails.")
    api_data_gov_key: str = _setting(
        parse.api_key,
        "",
        "The key for the APIs of api.data.gov, for all sources. Get one at https://api.data.gov/signup/.",
        secret=True,
    )
    rate_limits: Mapping[str, int] = _setting(
        _rate_limits,
        dict,
        "Requests an hour of a source with that key, instead of its default share: a table `[rate_limits]` of sources, "
        f"or `{PREFIX}RATE_LIMIT_<SOURCE>_PER_HOUR` for each. `headwater source budgets` shows the current limits.",
        shown="empty",
    )


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings, and the origin of each value."""

    settings: Settings
    origins: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in the settings, and the settings whose values it makes unsure."""

    error: OperatorError
    affected: frozenset[str] = frozenset()


def load(environment: Mapping[str, str], folder: Path) -> Configuration:
    """Read settings from `environment` and from the TOML file that it names, else from headwater.toml in `folder`."""
    loaded, problems = survey(environment, folder)
    if problems:
        raise problems[0].error
    return loaded


def survey(environment: Mapping[str, str], folder: Path) -> tuple[Configuration, list[Problem]]:
    """Read settings like `load`, but skip each value that cannot be used and return it among the problems."""
    known = {setting.name: setting for setting in fields(Settings)}
    values: dict[str, Any] = {}
    origins = dict.fromkeys(known, "default")
    problems: list[Problem] = []

    def add(name: str, raw: object, origin: str, spelled: str) -> None:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            what = f"Unknown setting {spelled} in {origin}.{hint} {WHERE_LISTED}"
            problems.append(Problem(OperatorError(what)))
            return
        try:
            value = known[name].metadata["parse"](raw)
            values[name] = {**values.get(name, {}), **value} if isinstance(value, dict) else value
        except ValueError as error:
            what = f"Setting {spelled} in {origin} {error}."
            problems.append(Problem(OperatorError(what), frozenset({name})))
            return
        origins[name] = origin

    try:
        path, file_values = _read_file(environment, folder)
    except OperatorError as error:
        unsure = {name for name in known if PREFIX + name.upper() not in environment}
        problems.append(Problem(error, frozenset(unsure)))
    else:
        for name, raw in file_values.items():
            add(name, raw, str(path), name)
    for variable, raw in sorted(environment.items()):
        if variable.startswith(PREFIX) and variable not in OTHER_VARIABLES:
            name = variable.removeprefix(PREFIX).lower()
            if match := _RATE_LIMIT.fullmatch(name):
                add("rate_limits", {match[1]: raw}, "the environment", variable)
            else:
                add(name, raw, "the environment", variable)
    settings = Settings(**values)
    if settings.lease_seconds < settings.page_timeout_seconds + 2:
        what = (
            f"Setting lease_seconds ({settings.lease_seconds:g}) must be at least two more than page_timeout_seconds "
            f"({settings.page_timeout_seconds:g}): a fetch must end before its lease does."
        )
        problems.append(Problem(OperatorError(what), frozenset({"lease_seconds", "page_timeout_seconds"})))
    return Configuration(settings, origins), problems


def _read_file(environment: Mapping[str, str], folder: Path) -> tuple[Path, Mapping[str, Any]]:
    named = environment.get(FILE_VARIABLE)
    path = Path(named) if named else folder / SETTINGS_FILE
    try:
        with path.open("rb") as file:
            _refuse_file_of_others(path, os.fstat(file.fileno()))
            return path, tomllib.load(file)
    except FileNotFoundError:
        if named:
            raise OperatorError(f"{FILE_VARIABLE} names {path}, which does not exist.") from None
        return path, {}
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"The settings file {path} cannot be read: {error}.", reason=Reason.BAD_SETTING) from None
    except tomllib.TOMLDecodeError as error:
        raise OperatorError(f"The settings file {path} is not TOML: {error}.") from None


def _refuse_file_of_others(path: Path, status: os.stat_result) -> None:
    """Refuse settings that another user may have written, because they name addresses, folders and programs."""
    if status.st_uid not in (0, os.geteuid()):
        why, fix = f"belongs to another user (number {status.st_uid})", f"chown {os.geteuid()} {path}"
    elif status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _is_private_group(status)):
        why, fix = f"can be written by others (mode {stat.S_IMODE(status.st_mode):04o})", f"chmod go-w {path}"
    else:
        return
    raise OperatorError(f"The settings file {path} {why}. Check its content, then run: {fix}")


def _is_private_group(status: os.stat_result) -> bool:
    """Return whether the group of a file has only its owner, as on systems that make a group for each user."""
    try:
        return status.st_gid == status.st_uid and not grp.getgrgid(status.st_gid).gr_mem
    except KeyError:
        return False


def masked(setting: Field[Any], value: object) -> str:
    """Write a value in one line, and hide secrets."""
    if isinstance(value, tuple):
        value = ",".join(value)
    if isinstance(value, Mapping):
        value = ",".join(f"{name}={entry}" for name, entry in value.items())
    text = str(value)
    return "********" if setting.metadata["secret"] and text else text


def markdown() -> str:
    """Write docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "`make docs` generates this page from the table in `src/headwater/core/settings.py`.",
        "",
        f"A value comes from the environment (`{PREFIX}<NAME>`, upper case), else from `headwater.toml` in the working",
        f"folder (or the file that `{FILE_VARIABLE}` names), else from the default. `headwater config` shows each",
        "value and its origin.",
        "",
        "| setting | type | default | meaning |",
        "|---|---|---|---|",
    ]
    for setting in fields(Settings):
        kind = getattr(setting.type, "__name__", "")
        kind = "list" if not kind or kind == "tuple" else _TYPE_NAMES[kind]
        secret = ", secret" if setting.metadata["secret"] else ""
        lines.append(f"| `{setting.name}` | {kind}{secret} | {_format_default(setting)} | {setting.metadata['help']} |")
    return "\n".join(lines) + "\n"


def _format_default(setting: Field[Any]) -> str:
    if setting.metadata["shown"]:
        return str(setting.metadata["shown"])
    assert setting.default is not MISSING, "a computed default is described by `shown`"
    text = masked(setting, setting.default)
    return f"`{text}`" if text else "empty"
