"""The one table of settings.

Each field of `Settings` is one setting: its name, type and default, a parser that refuses bad values, a sentence of
help, and whether it is a secret. A setting comes from the environment (`HEADWATER_<NAME>`), else from `headwater.toml`,
else from its default. `headwater config` prints them all; docs/settings.md is generated from this table.
"""

import difflib
import ipaddress
import os
import re
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
# Read by tests and benches, not by the program.
OTHER_VARIABLES = frozenset(
    {
        FILE_VARIABLE,
        "HEADWATER_ACCEPT_GOLDEN",
        "HEADWATER_CORPORA",
        "HEADWATER_TEST_EXAMPLES",
        "HEADWATER_TEST_KILLS",
        "HEADWATER_TEST_RATE",
        "HEADWATER_TEST_URLS",
    }
)

# Variables that hold one entry each of a setting that is a table.
_RATE_LIMIT = re.compile(r"rate_limit_(\w+)_per_hour")

type_names = {
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
    """Read `pattern=address:port`, e.g. `*.staging.example=10.0.0.5:8080`."""
    pattern, _, target = part.partition("=")
    address, _, port = target.rpartition(":")
    try:
        ipaddress.ip_address(address.strip("[]"))
        number = int(port)
    except ValueError:
        raise ValueError(f"{part!r} must look like *.staging.example=10.0.0.5:8080") from None
    if not pattern or not 0 < number < 65536:
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
    """Where a system service keeps its state, or an ordinary user's programs keep theirs."""
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
    """Every setting, typed. The order is the order of `headwater config` and of docs/settings.md."""

    data_dir: Path = _setting(
        parse.folder,
        _default_data_dir,
        "Folder for everything that is kept: raw files, the embedded database, the API token.",
        shown="`/var/lib/headwater` for root, else `~/.local/share/headwater`",
    )
    database_url: str = _setting(
        parse.database_url,
        "",
        "A PostgreSQL 15+ server, as postgresql://user:password@host/database. Empty: the embedded one.",
        secret=True,
    )
    redis_url: str = _setting(
        parse.redis_url,
        "",
        "A Redis server, as redis://user:password@host:port/0, that links, canonical articles and attempts are "
        "written to and other programs' links are read from. Empty: none; PostgreSQL alone does the same.",
        secret=True,
    )
    database_connections: int = _setting(parse.whole(2, 100), 8, "Database connections a process may hold at once.")
    listen_host: str = _setting(
        parse.text, "127.0.0.1", "Address the HTTP API listens on. Anything but loopback opens it to your network."
    )
    listen_port: int = _setting(parse.whole(0, 65535), 8640, "Port the HTTP API listens on; 0 takes any free one.")
    api_token: str = _setting(
        parse.text,
        "",
        "Token that requests which write must carry. Empty: made on first start, kept in the data folder.",
        secret=True,
    )
    log_level: str = _setting(
        parse.one_of("debug", "info", "warning", "error"), "info", "The least severe messages to log."
    )
    log_format: str = _setting(parse.one_of("text", "json"), "text", "How log lines look: for people or for machines.")
    contact_url: str = _setting(
        parse.text, "", "Page that tells site owners who is visiting; it is part of the user agent."
    )
    timezone: str = _setting(
        parse.timezone, "America/New_York", "Time zone of schedules and days for sources that set none."
    )
    poll_interval_minutes: int = _setting(
        parse.whole(1, 24 * 60), 15, "How often a feed is polled when its source sets nothing else."
    )
    poll_look_seconds: float = _setting(
        parse.number(0.05, 3600), 30.0, "How often the poller looks for feeds that are due."
    )
    poll_concurrency: int = _setting(
        parse.whole(1, 1000),
        10,
        "Polls at work at once in one process; those that wait for their host are not counted.",
    )
    fetch_workers: int = _setting(parse.whole(1, 1000), 10, "Pages being fetched at once in one process.")
    host_delay_ms: int = _setting(
        parse.whole(0, 3_600_000),
        1000,
        "Pause between two requests to one host when neither robots.txt nor a source says otherwise.",
    )
    crawl_delay_cap_seconds: float = _setting(
        parse.number(0, 3600), 60.0, "Longest Crawl-delay of a robots.txt that is obeyed; a longer one is cut to this."
    )
    max_retries: int = _setting(
        parse.whole(0, 100), 5, "How often a page that fails for a passing reason is tried again."
    )
    retry_base_seconds: float = _setting(
        parse.number(0, 86400),
        60.0,
        "Wait before a page, or a delivery to a webhook, is tried again; it doubles each time.",
    )
    page_timeout_seconds: float = _setting(
        parse.number(0.1, 3600), 15.0, "Longest time one article page may take in all."
    )
    max_body_mb: int = _setting(
        parse.whole(1, 2048), 20, "Largest body that is accepted, before and after decompression."
    )
    lease_seconds: float = _setting(
        parse.number(5, 86400), 120.0, "How long a claim lasts; a dead worker's work is taken over after this."
    )
    politeness_scope: str = _setting(
        parse.one_of("host", "domain"),
        "host",
        "Who shares a turn: each host has its own, or all hosts of a registrable domain have one. Holds for hosts that "
        "are new; `headwater frontier group` moves others.",
    )
    handoff_attempts: int = _setting(
        parse.whole(1, 100), 3, "How often an item is handed off that fails for a passing reason, before it has failed."
    )
    handoff_base_seconds: float = _setting(
        parse.number(0, 3600), 0.0, "Wait before the second attempt at a hand-off; it doubles with each further one."
    )
    fetch_log_days: int = _setting(parse.whole(1, 36500), 90, "How long each attempt to fetch a page is remembered.")
    delivery_log_days: int = _setting(
        parse.whole(1, 36500), 30, "How long deliveries to webhooks that have ended, and each attempt, are remembered."
    )
    sandbox_workers: int = _setting(parse.whole(1, 64), 2, "Child processes that read what the web sent.")
    sandbox_memory_mb: int = _setting(parse.whole(256, 65536), 500, "Memory one such child may use.")
    sandbox_seconds: float = _setting(parse.number(0.1, 3600), 20.0, "Time one body may take to be read.")
    chromium_path: str = _setting(
        parse.text, "", "The Chromium for sources that need a browser. Empty: the system's, or Playwright's own."
    )
    browser_pages: int = _setting(parse.whole(1, 64), 4, "Pages open at once in the browser of a process.")
    browser_seconds: float = _setting(
        parse.number(1, 3600), 30.0, "Longest time a page may take in the browser, with all that it loads."
    )
    browser_memory_mb: int = _setting(
        parse.whole(256, 65536), 1024, "Memory the browser may use; over that, the largest of its processes is ended."
    )
    allow_networks: tuple[str, ...] = _setting(
        parse.networks, (), "Private networks that may be visited all the same, as 10.1.0.0/16,127.0.0.0/8."
    )
    connect_to: tuple[str, ...] = _setting(
        _connect_to, (), "Hosts whose connections go to a fixed address instead, as *.staging.example=10.0.0.5:8080."
    )
    api_data_gov_key: str = _setting(
        parse.api_key,
        "",
        "The key for the APIs behind api.data.gov, one for all sources; https://api.data.gov/signup/ gives one.",
        secret=True,
    )
    rate_limits: Mapping[str, int] = _setting(
        _rate_limits,
        dict,
        "Requests an hour that a source may make with that key, instead of its share of what the key may: a table "
        f"`[rate_limits]` of sources, or `{PREFIX}RATE_LIMIT_<SOURCE>_PER_HOUR` for each. "
        "`headwater source budgets` shows what is in force.",
        shown="empty",
    )


def table() -> tuple[Field[Any], ...]:
    """Return the settings in order, each with its parser, help and secrecy in `metadata`."""
    return fields(Settings)


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings together with where each value came from."""

    settings: Settings
    origins: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with the settings, and whose values it leaves in doubt."""

    error: OperatorError
    affected: frozenset[str] = frozenset()


def load(environment: Mapping[str, str], folder: Path) -> Configuration:
    """Read settings from `environment` and from the TOML file it names, else from headwater.toml in `folder`."""
    loaded, problems = survey(environment, folder)
    if problems:
        raise problems[0].error
    return loaded


def survey(environment: Mapping[str, str], folder: Path) -> tuple[Configuration, list[Problem]]:
    """Read settings as `load` does; what cannot be used is passed over and named among the problems."""
    known = {setting.name: setting for setting in table()}
    values: dict[str, Any] = {}
    origins = dict.fromkeys(known, "default")
    problems: list[Problem] = []

    def take(name: str, raw: object, origin: str, spelled: str) -> None:
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
        doubtful = {name for name in known if PREFIX + name.upper() not in environment}
        problems.append(Problem(error, frozenset(doubtful)))
    else:
        for name, raw in file_values.items():
            take(name, raw, str(path), name)
    for variable, raw in sorted(environment.items()):
        if variable.startswith(PREFIX) and variable not in OTHER_VARIABLES:
            name, value = _entry(variable.removeprefix(PREFIX).lower(), raw)
            take(name, value, "the environment", variable)
    settings = Settings(**values)
    if settings.lease_seconds < settings.page_timeout_seconds + 2:
        what = (
            f"Setting lease_seconds ({settings.lease_seconds:g}) must be at least two more than page_timeout_seconds "
            f"({settings.page_timeout_seconds:g}): a page must have come before its lease ends."
        )
        problems.append(Problem(OperatorError(what), frozenset({"lease_seconds", "page_timeout_seconds"})))
    return Configuration(settings, origins), problems


def _entry(name: str, raw: str) -> tuple[str, object]:
    """Tell which setting a variable is for: its own, or the table it has one entry of."""
    match = _RATE_LIMIT.fullmatch(name)
    return ("rate_limits", {match[1]: raw}) if match else (name, raw)


def _read_file(environment: Mapping[str, str], folder: Path) -> tuple[Path, dict[str, Any]]:
    named = environment.get(FILE_VARIABLE)
    path = Path(named) if named else folder / SETTINGS_FILE
    try:
        return path, tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named:
            raise OperatorError(f"{FILE_VARIABLE} names {path}, which does not exist.") from None
        return path, {}
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"The settings file {path} cannot be read: {error}.", reason=Reason.BAD_SETTING) from None
    except tomllib.TOMLDecodeError as error:
        raise OperatorError(f"The settings file {path} is not TOML: {error}.") from None


def masked(setting: Field[Any], value: object) -> str:
    """Show a value to a person: secrets never, lists and tables in one line."""
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
        "Generated from the table in `src/headwater/config.py` by `make docs`.",
        "",
        f"Each is read from the environment (`{PREFIX}<NAME>`, upper case), else from `headwater.toml` in the working",
        f"folder (or the file that `{FILE_VARIABLE}` names), else it has its default. `headwater config` shows what is",
        "in force and where it came from.",
        "",
        "| setting | type | default | what it is |",
        "|---|---|---|---|",
    ]
    for setting in table():
        kind = getattr(setting.type, "__name__", "")
        kind = "list" if not kind or kind == "tuple" else type_names[kind]
        secret = ", secret" if setting.metadata["secret"] else ""
        lines.append(f"| `{setting.name}` | {kind}{secret} | {_shown_default(setting)} | {setting.metadata['help']} |")
    return "\n".join(lines) + "\n"


def _shown_default(setting: Field[Any]) -> str:
    if setting.metadata["shown"]:
        return str(setting.metadata["shown"])
    assert setting.default is not MISSING, "a computed default is described by `shown`"
    text = masked(setting, setting.default)
    return f"`{text}`" if text else "empty"
