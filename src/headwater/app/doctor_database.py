"""The doctor's checks of the database, with one connection: the server, the schema, and what the tables hold."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from urllib.parse import urlsplit

import msgspec

from headwater.app.doctor_finding import (
    Finding,
    State,
    explain_error,
    failed,
    not_checked,
    not_configured,
    ok,
    run_check,
    warning,
)
from headwater.changes.outbox import FAILURES_BEFORE_A_PAUSE
from headwater.core.errors import HandoffsMissing, OperatorError
from headwater.core.search_words import FUNCTION_VERSION
from headwater.core.settings import Settings, split_connect_to
from headwater.db import budgets, changes, handoffs, hosts, migrate, search, search_index, sources
from headwater.db.clock import Reading, read_server_time
from headwater.db.embedded.cluster import has_cluster, last_log_lines
from headwater.db.embedded.server import open_server
from headwater.db.pool import Connection, open_connection, without_password
from headwater.handoff.operations import COUNT_TO
from headwater.http.resolver import fixed_address
from headwater.sources import registry

_START_SECONDS = 4.0  # for the embedded server: long for a start, short for a recovery
_STEP_SECONDS = 3.0
_ALL_SECONDS = 6.0
_LEAVE_SECONDS = 1.5
_WARNED_SKEW = timedelta(seconds=2)
_FAILED_SKEW = timedelta(seconds=60)
_LOG_LINES = 5
_REFUSED_SHOWN = 5


@dataclass(slots=True, eq=False)
class DatabaseDoctor:
    """Checks one database. `findings` fills step by step, so that a step that hangs affects only later ones."""

    settings: Settings
    findings: dict[str, Finding] = field(default_factory=dict)
    feed_host: str | None = None
    browser_sources: list[str] = field(default_factory=list)  # the names of the sources that need a browser

    async def check(self) -> None:
        """Run all checks of the database."""
        try:
            async with asyncio.timeout(_ALL_SECONDS):
                await self._check_where_it_is()
        except Exception as error:  # noqa: BLE001 (the other checks continue)
            self._add(explain_error(error, _STEP_SECONDS), "database")
        self._add(not_checked("the database could not be asked", "the database"))

    def _add(self, finding: Finding, *names: str) -> None:
        """Add a finding to these checks, or to all checks that have none yet."""
        for name in names or DATABASE_CHECKS:
            self.findings.setdefault(name, finding)

    async def _check_where_it_is(self) -> None:
        url = self.settings.database_url
        if url:
            async with open_connection(url, seconds=_STEP_SECONDS) as connection:
                await self._check_server(connection, f"at {without_password(url)}")
        elif await asyncio.to_thread(has_cluster, self.settings.data_dir):
            await self._check_embedded()
        else:
            self._add(not_configured("not there yet"), "database")
            self._add(Finding(State.NOT_CHECKED, "there is no database yet", "The first start makes it."), "clock")
            self._add_empty()
            self._add(not_configured("there is no database yet"))

    async def _check_embedded(self) -> None:
        """Start the embedded server, or share the one that runs, and leave it as it was."""
        began = time.monotonic()
        opening = asyncio.ensure_future(asyncio.to_thread(open_server, self.settings.data_dir, patience=_START_SECONDS))
        opening.add_done_callback(lambda done: done.cancelled() or done.exception())  # the error is raised below
        try:
            # The start gives up after its own patience and then leaves nothing behind.
            async with asyncio.timeout(_START_SECONDS + 1):
                server = await asyncio.shield(opening)
        except asyncio.CancelledError:
            with contextlib.suppress(OperatorError):
                (await opening).close()
            raise
        except (OperatorError, TimeoutError) as error:
            finding = explain_error(error, _START_SECONDS)
            if time.monotonic() - began >= _START_SECONDS:
                found = f"the embedded PostgreSQL was not ready within {_START_SECONDS:g} seconds"
                finding = failed(found, "Try again in a minute: after a crash it has to replay its log.")
            lines = await asyncio.to_thread(last_log_lines, self.settings.data_dir, _LOG_LINES)
            self._add(replace(finding, lines=tuple(lines)), "database")
            return
        try:
            async with open_connection(server.dsn, seconds=_STEP_SECONDS) as connection:
                await self._check_server(connection, "(embedded)")
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_SECONDS):
                    await asyncio.to_thread(server.close)

    async def _check_server(self, connection: Connection, place: str) -> None:
        reading = await read_server_time(connection)
        version = connection.get_server_version()
        answer = f"PostgreSQL {version.major}.{version.micro} {place} answers in {reading.seconds * 1000:.1f} ms"
        self._add(ok(answer), "database")
        self._add(_check_clock(reading), "clock")
        self._add(await run_check(_check_schema(connection), _STEP_SECONDS), "schema")
        state = self.findings["schema"].state
        if state is State.NOT_CONFIGURED:
            self._add_empty()
            fix = "`headwater up` or `headwater migrate up` makes them."
            self._add(not_configured("there are no tables yet", fix))
        elif state is State.OK or (state is State.WARNING and not await _is_behind(connection)):
            with contextlib.suppress(Exception):
                self.feed_host = await _find_feed_host(connection, self.settings)
                self.browser_sources = await sources.get_browser_sources(connection)
            for name, check in _TABLE_CHECKS.items():
                self._add(await run_check(check(connection, reading, self.settings), _STEP_SECONDS), name)
        self._add(not_checked("see schema", "the schema"))

    def _add_empty(self) -> None:
        """Add the findings about empty tables, because no start fills these tables."""
        self._add(_describe_webhooks([]), "webhooks")
        self._add(_describe_key([], self.settings), "api key")


async def _find_feed_host(connection: Connection, settings: Settings) -> str | None:
    """Return the host of the oldest source's feed, except hosts whose address is set by connect_to."""
    fixed = dict(split_connect_to(part) for part in settings.connect_to)
    for source in sorted(await sources.get_all_sources(connection), key=lambda source: source.id):
        # This connection has no JSON codec, so it returns JSON as text.
        feed_url = msgspec.json.decode(str(source.settings)).get("feed_url")
        host = urlsplit(feed_url or "").hostname
        if host and not fixed_address(host, fixed):
            return host
    return None


async def _check_schema(connection: Connection) -> Finding:
    numbers = await migrate.get_applied(connection)
    missing = migrate.find_missing(numbers)
    at, newest = max(numbers, default=0), migrate.newest_version()
    if at > newest:
        return failed(
            f"at version {at}, newer than this program knows ({newest})",
            "Use the version of Headwater that made it, or a newer one.",
        )
    if not missing:
        return ok(f"at version {at}, the version this program needs")
    if not await _is_behind(connection):
        left_out = ", ".join(f"{step.number:03}_{step.name}" for step in missing)
        return warning(f"without {left_out}, which was rolled back", "`headwater migrate up` applies it again.")
    if not await migrate.can_migrate(connection):
        return failed(
            f"at version {at}, and this role may not make what is missing up to {newest}",
            "Make the role the owner of its database, or GRANT CREATE ON SCHEMA public to it.",
        )
    if not numbers:
        return not_configured("not there yet", "`headwater up` or `headwater migrate up` makes it.")
    return warning(
        f"at version {at}, this program needs {newest}",
        "`headwater up` or `headwater migrate up` brings it up to date.",
    )


async def _is_behind(connection: Connection) -> bool:
    """Return whether more is missing than optional migrations that were rolled back alone."""
    return bool(migrate.find_missing(await migrate.get_applied(connection), restore_optional=False))


def _check_clock(reading: Reading) -> Finding:
    apart = abs(reading.ahead)
    side = "behind" if reading.ahead > timedelta() else "ahead of"
    found = f"this machine is {apart.total_seconds():.1f} s {side} the database"
    fix = "Set the clocks of both machines by NTP (timedatectl set-ntp true)."
    if apart > _FAILED_SKEW:
        return failed(found, fix)
    if apart > _WARNED_SKEW:
        return warning(found, fix)
    return ok(f"{apart.total_seconds() * 1000:.0f} ms between this machine and the database")


async def _check_leases(connection: Connection, reading: Reading, _: Settings) -> Finding:
    overdue = await handoffs.count_overdue_leases(connection, reading.server)
    return ok(f"{overdue} past their end" + (", released as soon as Headwater runs" if overdue else ""))


async def _check_hosts(connection: Connection, reading: Reading, _: Settings) -> Finding:
    count = await hosts.count_hosts(connection, reading.server)
    return ok(f"{count.with_work} have work, {count.blocked} blocked for now, {count.closed} closed")


async def _check_handoffs(connection: Connection, reading: Reading, settings: Settings) -> Finding:
    """Warn if hand-offs wait longer than a running program needs to claim them."""
    try:
        count, oldest = await handoffs.count_waiting_handoffs(connection, COUNT_TO)
    except HandoffsMissing:
        return not_configured("rolled back", "`headwater migrate up` applies them again.")
    if oldest is None or reading.server - oldest <= timedelta(seconds=settings.lease_seconds):
        return ok(f"{count} wait to be handed off")
    return warning(
        f"{count} wait to be handed off, the oldest since {oldest:%Y-%m-%d %H:%M:%S} UTC",
        "Start `headwater up`: it claims them within seconds.",
    )


async def _check_sources(connection: Connection, _: Reading, __: Settings) -> Finding:
    """Fail if the kind of a source is not installed: no program reads that source."""
    found = await sources.get_all_sources(connection)
    installed = await asyncio.to_thread(registry.get_kinds)
    missing = tuple(f"{source.name}: kind {source.kind}" for source in found if source.kind not in installed)
    if not missing:
        return ok(f"{len(found)}, and the kind of each is installed")
    return failed(
        f"{len(missing)} of {len(found)} have a kind that is not installed",
        "Install the package of the kind and restart Headwater, or `headwater source remove NAME`.",
        missing,
    )


async def _check_index(connection: Connection, _: Reading, __: Settings) -> Finding:
    is_whole = await search.search_index_is_whole(connection)
    version = await search.read_search_version(connection)
    if is_whole and version != FUNCTION_VERSION:
        return warning(
            f"version {version} of the function cut the words of documents, and {FUNCTION_VERSION} those of searches",
            "`headwater search reindex` makes what search reads again; Headwater may be running.",
        )
    if is_whole:
        return ok("documents are searched in PostgreSQL, and their index is complete")
    wrong = "missing" if is_whole is None else "broken"
    return failed(
        f"the search index of documents is {wrong}",
        "`headwater migrate up` makes it again; Headwater may be running.",
    )


async def _check_raw_content(connection: Connection, _: Reading, settings: Settings) -> Finding:
    state = await search_index.get_state(connection)
    if state is None or not settings.search_url:
        return not_configured("no index of documents outside PostgreSQL", "HEADWATER_SEARCH_URL names its server.")
    backlog = await search_index.count_changes(connection, COUNT_TO)
    if backlog.parked:
        refused = tuple(
            f"document {one.document_id}: {one.detail}"
            for one in await search_index.list_parked(connection, _REFUSED_SHOWN)
        )
        fix = "Correct what they name; `headwater search reindex` sends them again."
        return warning(f"the index refused {backlog.parked} documents", fix, refused)
    if state.failures:
        return warning(
            f"the index fails, and {backlog.waiting} changes wait: {state.error}",
            "Headwater tries again by itself, and all changes wait.",
        )
    if state.building is not None:
        return ok(f"{state.building} is being built; {backlog.waiting} changes wait")
    return ok(f"{state.current} is complete; {backlog.waiting} changes wait")


async def _check_webhooks(connection: Connection, _: Reading, __: Settings) -> Finding:
    return _describe_webhooks(await changes.list_webhooks(connection, count_to=1))


def _describe_webhooks(found: Sequence[changes.Webhook]) -> Finding:
    if not found:
        return not_configured("none", "`headwater webhook add NAME URL` reports changes to another program.")
    troubles = [
        f"{hook.name}: {hook.parked} parked" + (f", failing: {hook.error}" if hook.failures else "")
        for hook in found
        if hook.enabled and (hook.parked or hook.failures >= FAILURES_BEFORE_A_PAUSE)
    ]
    if not troubles:
        return ok(f"{len(found)}, and all accept their deliveries")
    fix = "`headwater webhook deliveries NAME` lists every attempt; nothing is lost meanwhile."
    return warning(f"{len(troubles)} of {len(found)} do not accept all deliveries", fix, tuple(troubles))


async def _check_key(connection: Connection, _: Reading, settings: Settings) -> Finding:
    return _describe_key(await budgets.sources_that_need_key(connection), settings)


def _describe_key(sources_with_key: Sequence[str], settings: Settings) -> Finding:
    if settings.api_data_gov_key:
        return ok(f"of api.data.gov, for {len(sources_with_key)} sources")
    fix = "Get a key at https://api.data.gov/signup/ and set HEADWATER_API_DATA_GOV_KEY to it."
    if not sources_with_key:
        return not_configured("none, and no source needs one", fix)
    return warning(f"none, and {len(sources_with_key)} sources cannot be read without", fix, tuple(sources_with_key))


# The checks that need the tables.
_TABLE_CHECKS: dict[str, Callable[[Connection, Reading, Settings], Awaitable[Finding]]] = {
    "leases": _check_leases,
    "hosts": _check_hosts,
    "hand-offs": _check_handoffs,
    "index": _check_index,
    "raw content": _check_raw_content,
    "sources": _check_sources,
    "webhooks": _check_webhooks,
    "api key": _check_key,
}
DATABASE_CHECKS = ("database", "schema", "clock", *_TABLE_CHECKS)
