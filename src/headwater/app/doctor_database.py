"""The checks of the database, on one visit: reachable, schema, clock, leases, hosts, and what hangs on its rows."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from urllib.parse import urlsplit

import msgspec

from headwater.app.doctor_finding import (
    Finding,
    State,
    failed,
    failure,
    isolated,
    not_checked,
    not_configured,
    ok,
    warning,
)
from headwater.changes.outbox import FAILURES_BEFORE_A_PAUSE
from headwater.core.errors import HandoffsMissing, OperatorError
from headwater.core.settings import Settings, split_connect_to
from headwater.db import budgets, changes, documents, handoffs, hosts, leases, migrate, sources
from headwater.db.clock import Reading, read_server_time
from headwater.db.embedded.cluster import has_cluster, last_words
from headwater.db.embedded.server import open_server
from headwater.db.pool import Connection, open_connection, shown
from headwater.handoff.operations import COUNTED
from headwater.http.client import fixed_address

NAMES = ("database", "schema", "clock", "leases", "hosts", "hand-offs", "index", "webhooks", "api key")
_OF_ROWS = NAMES[3:]

_START_SECONDS = 4.0  # for the embedded server: long for a start, short for a recovery
_STEP_SECONDS = 3.0
_VISIT_SECONDS = 6.0
_LEAVE_SECONDS = 1.5
_WARNED_SKEW = timedelta(seconds=2)
_FAILED_SKEW = timedelta(seconds=60)
_LOG_LINES = 5
_FIRST_START = "The first start makes it."
_MAKE_IT = "`headwater up` or `headwater migrate up` makes it."
_MAKE_THEM = "`headwater up` or `headwater migrate up` makes them."


class Visit:
    """One visit; `findings` fills as it goes on, so that what hangs spoils only what would have come after it."""

    def __init__(self, settings: Settings) -> None:
        self.findings: dict[str, Finding] = {}
        self.feed_host: str | None = None
        self.browsing: list[str] = []  # the sources that need a browser
        self._settings = settings

    async def make(self) -> None:
        """Visit the database and find out what there is to find."""
        try:
            async with asyncio.timeout(_VISIT_SECONDS):
                await self._go()
        except Exception as error:  # noqa: BLE001 (the other checks go on)
            self._note("database", failure(error, _STEP_SECONDS))
        for name in NAMES:
            self._note(name, not_checked("the database could not be asked", "the database"))

    def _note(self, name: str, finding: Finding) -> None:
        self.findings.setdefault(name, finding)

    async def _go(self) -> None:
        settings = self._settings
        if settings.database_url:
            async with open_connection(settings.database_url, seconds=_STEP_SECONDS) as connection:
                await self._ask(connection, f"at {shown(settings.database_url)}")
        elif await asyncio.to_thread(has_cluster, settings.data_dir):
            await self._visit_embedded()
        else:
            self._note("database", not_configured("not there yet", _FIRST_START))
            self._note("clock", Finding(State.NOT_CHECKED, "there is no database yet", _FIRST_START))
            self._note_that_nothing_is_stored()
            for name in NAMES:
                self._note(name, not_configured("there is no database yet", _FIRST_START))

    def _note_that_nothing_is_stored(self) -> None:
        """Say of what no start makes the same as where the tables are empty."""
        self._note("webhooks", _of_webhooks([]))
        self._note("api key", _of_key([], self._settings))

    async def _visit_embedded(self) -> None:
        try:
            async with _embedded(self._settings) as dsn, open_connection(dsn, seconds=_STEP_SECONDS) as connection:
                await self._ask(connection, "(embedded)")
        except _NotStarted as error:
            lines = await asyncio.to_thread(last_words, self._settings.data_dir, _LOG_LINES)
            self._note("database", Finding(State.FAILED, error.finding.found, error.finding.mend, tuple(lines)))

    async def _ask(self, connection: Connection, place: str) -> None:
        reading = await read_server_time(connection)
        version = connection.get_server_version()
        answer = f"PostgreSQL {version.major}.{version.micro} {place} answers in {reading.seconds * 1000:.1f} ms"
        self._note("database", ok(answer))
        self._note("clock", _clock(reading))
        self._note("schema", await isolated(_schema(connection), _STEP_SECONDS))
        state = self.findings["schema"].state
        if state is State.OK or (state is State.WARNING and await _lacks_only_what_is_optional(connection)):
            with contextlib.suppress(Exception):
                self.feed_host = await _host_to_look_up(connection, self._settings)
                self.browsing = await sources.get_browser_sources(connection)
            self._note("leases", await isolated(_leases(connection, reading), _STEP_SECONDS))
            self._note("hosts", await isolated(_hosts(connection, reading), _STEP_SECONDS))
            self._note("hand-offs", await isolated(_handoffs(connection, reading, self._settings), _STEP_SECONDS))
            self._note("index", await isolated(_index(connection), _STEP_SECONDS))
            self._note("webhooks", await isolated(_webhooks(connection), _STEP_SECONDS))
            self._note("api key", await isolated(_key(connection, self._settings), _STEP_SECONDS))
        if state is State.NOT_CONFIGURED:
            self._note_that_nothing_is_stored()
        for name in _OF_ROWS:
            empty = not_configured("there are no tables yet", _MAKE_THEM)
            self._note(name, empty if state is State.NOT_CONFIGURED else not_checked("see schema", "the schema"))


class _NotStarted(Exception):
    """The embedded server did not start; `finding` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.found)
        self.finding = finding


@contextlib.asynccontextmanager
async def _embedded(settings: Settings) -> AsyncIterator[str]:
    """Start the embedded server, or share the one that runs, and leave it as it was."""
    began = time.monotonic()
    opening = asyncio.ensure_future(asyncio.to_thread(open_server, settings.data_dir, patience=_START_SECONDS))
    opening.add_done_callback(lambda done: done.cancelled() or done.exception())  # told below, if in time
    try:
        # A little longer than the start's own patience, after which it leaves nothing behind.
        async with asyncio.timeout(_START_SECONDS + 1):
            server = await asyncio.shield(opening)
    except asyncio.CancelledError:
        with contextlib.suppress(OperatorError):
            (await opening).close()
        raise
    except (OperatorError, TimeoutError) as error:
        if time.monotonic() - began < _START_SECONDS:
            raise _NotStarted(failure(error, _START_SECONDS)) from None
        found = f"the embedded PostgreSQL was not ready within {_START_SECONDS:g} seconds"
        mend = "Try again in a minute: after a crash it has to replay its log."
        raise _NotStarted(failed(found, mend)) from None
    try:
        yield server.dsn
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_SECONDS):
                await asyncio.to_thread(server.close)


async def _host_to_look_up(connection: Connection, settings: Settings) -> str | None:
    """Return the host of the oldest source's feed that is not at an address which the settings give."""
    fixed = dict(split_connect_to(part) for part in settings.connect_to)
    for source in sorted(await sources.get_all_sources(connection), key=lambda source: source.id):
        # A connection for one visit gives JSON as its text.
        feed_url = msgspec.json.decode(str(source.settings)).get("feed_url")
        host = urlsplit(feed_url or "").hostname
        if host and not fixed_address(host, fixed):
            return host
    return None


async def _schema(connection: Connection) -> Finding:
    numbers = await migrate.applied(connection)
    missing = migrate.missing_of(numbers)
    at, newest = max(numbers, default=0), migrate.known()[-1].number
    if at > newest:
        return failed(
            f"at version {at}, newer than this program knows ({newest})",
            "Use the version of Headwater that made it, or a newer one.",
        )
    if not missing:
        return ok(f"at version {at}, as this program needs")
    if not migrate.missing_of(numbers, asked=False):
        left_out = ", ".join(f"{step.number:03}_{step.name}" for step in missing)
        return warning(f"without {left_out}, which was taken back", "`headwater migrate up` applies it again.")
    if not await migrate.may_migrate(connection):
        return failed(
            f"at version {at}, and this role may not make what is missing up to {newest}",
            "Make the role the owner of its database, or GRANT CREATE ON SCHEMA public to it.",
        )
    if not numbers:
        return not_configured("not there yet", _MAKE_IT)
    return warning(
        f"at version {at}, this program needs {newest}",
        "`headwater up` or `headwater migrate up` brings it up to date.",
    )


async def _lacks_only_what_is_optional(connection: Connection) -> bool:
    return not migrate.missing_of(await migrate.applied(connection), asked=False)


def _clock(reading: Reading) -> Finding:
    ahead = reading.ahead
    apart = abs(ahead)
    found = (
        f"this machine is {apart.total_seconds():.1f} s {'behind' if ahead > timedelta() else 'ahead of'} the database"
    )
    mend = "Set the clocks of both machines by NTP (timedatectl set-ntp true)."
    if apart > _FAILED_SKEW:
        return failed(found, mend)
    if apart > _WARNED_SKEW:
        return warning(found, mend)
    return ok(f"{apart.total_seconds() * 1000:.0f} ms between this machine and the database")


async def _leases(connection: Connection, reading: Reading) -> Finding:
    overdue = await leases.overdue_leases(connection, reading.server)
    return ok(f"{overdue} past their end" + (", taken back as soon as Headwater runs" if overdue else ""))


async def _hosts(connection: Connection, reading: Reading) -> Finding:
    count = await hosts.count_hosts(connection, reading.server)
    return ok(f"{count['with_work']} have work, {count['blocked']} blocked for now, {count['closed']} closed")


async def _handoffs(connection: Connection, reading: Reading, settings: Settings) -> Finding:
    """Look whether hand-offs wait for longer than it takes until a running program has taken them up."""
    try:
        count, oldest = await handoffs.waiting_handoffs(connection, COUNTED)
    except HandoffsMissing:
        return not_configured("taken back", "`headwater migrate up` applies them again.")
    if oldest is None or reading.server - oldest <= timedelta(seconds=settings.lease_seconds):
        return ok(f"{count} wait to be handed off")
    return warning(
        f"{count} wait to be handed off, the oldest since {oldest:%Y-%m-%d %H:%M:%S} UTC",
        "Start `headwater up`: it takes them up within seconds.",
    )


async def _index(connection: Connection) -> Finding:
    """Look at the index that documents are searched by: without it every search reads all of them."""
    is_whole = await documents.search_index_is_whole(connection)
    if is_whole:
        return ok("documents are searched in PostgreSQL, and their index is whole")
    wrong = "not there" if is_whole is None else "broken"
    return failed(
        f"the index that documents are searched by is {wrong}",
        "`headwater migrate up` makes it anew; Headwater may be running.",
    )


async def _webhooks(connection: Connection) -> Finding:
    """Look whether receivers take what they are told."""
    return _of_webhooks(await changes.list_webhooks(connection, count_to=1))


def _of_webhooks(found: Sequence[changes.Webhook]) -> Finding:
    if not found:
        return not_configured("none", "`headwater webhook add NAME URL` has another program told of what is new.")
    troubles = [
        f"{webhook.name}: {webhook.parked} parked" + (f", failing: {webhook.error}" if webhook.failures else "")
        for webhook in found
        if webhook.enabled and (webhook.parked or webhook.failures >= FAILURES_BEFORE_A_PAUSE)
    ]
    if not troubles:
        return ok(f"{len(found)}, and all take what they are told")
    mend = "`headwater webhook deliveries NAME` tells of every attempt; nothing is lost meanwhile."
    return Finding(State.WARNING, f"{len(troubles)} of {len(found)} do not take all", mend, tuple(troubles))


async def _key(connection: Connection, settings: Settings) -> Finding:
    """Look whether there is a key for the sources that ask with one."""
    return _of_key(await budgets.sources_that_need_key(connection), settings)


def _of_key(needing: Sequence[str], settings: Settings) -> Finding:
    if settings.api_data_gov_key:
        return ok(f"of api.data.gov, for {len(needing)} sources")
    signup = "https://api.data.gov/signup/ gives one; set HEADWATER_API_DATA_GOV_KEY to it."
    if not needing:
        return not_configured("none, and no source needs one", signup)
    return Finding(State.WARNING, f"none, and {len(needing)} sources cannot be read without", signup, tuple(needing))
