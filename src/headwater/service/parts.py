"""Everything a process works with, opened in order and closed in reverse."""

import contextlib
import ipaddress
import os
import resource
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING
from uuid import uuid4

from headwater import __version__
from headwater.canonical.run import CanonicalRunner
from headwater.config import Settings, split_connect_to
from headwater.corpus import Corpus
from headwater.discover.poll import Poller
from headwater.discover.runs import Runner
from headwater.fetch.visit import Visitor
from headwater.gate.budget import Budgets
from headwater.gate.gate import Gate
from headwater.handoff.handing_over import Handoffs
from headwater.model.http import Limits
from headwater.net.guard import AddressGuard
from headwater.policy import agents, politeness
from headwater.publish.canonical import Projection
from headwater.publish.outbox import Outbox
from headwater.publish.redis import open_redis
from headwater.publish.webhooks import Courier
from headwater.sandbox import Sandbox
from headwater.store import migrate
from headwater.store.clock import DatabaseClock
from headwater.store.pool import Database, open_database

if TYPE_CHECKING:
    from headwater.net.client import HttpClient

DELIVERIES_AT_ONCE = 64
_OPEN_FILES = 65_536  # connections that are kept for the next request among them

# Imported once in the fork server, so that a new child starts with them in place.
_PRELOAD = (
    "headwater.formats.feeds",
    "headwater.formats.robots",
    "headwater.formats.sitemap_reading",
    "headwater.formats.site_links",
    "headwater.normalize.pdf_v1",
    "headwater.normalize.registry",
    "headwater.normalize.walls",
    "trafilatura",
)


class Migrating(Enum):
    """When opening the database may change its schema: others may be running on it."""

    NEVER = auto()
    AN_EMPTY_DATABASE = auto()
    ALWAYS = auto()


@dataclass(frozen=True, slots=True)
class Records:
    """The database and its time: all that a door which only reads needs."""

    settings: Settings
    database: Database
    clock: DatabaseClock
    holder: str

    @property
    def handoffs(self) -> Handoffs:
        """What hands off the items that runs have touched."""
        settings = self.settings
        return Handoffs(
            self.database,
            self.clock,
            holder=self.holder,
            lease=timedelta(seconds=settings.lease_seconds),
            attempts=settings.handoff_attempts,
            base_seconds=settings.handoff_base_seconds,
        )


@dataclass(frozen=True, slots=True)
class Parts:
    """What the flow needs besides: a way out, a place to read what comes, a place to keep it."""

    records: Records
    gate: Gate
    sandbox: Sandbox
    poller: Poller
    visitor: Visitor
    courier: Courier
    projection: Projection | None = None  # None: no Redis is configured

    @property
    def runner(self) -> Runner:
        """What begins runs and carries them out."""
        records = self.records
        lease = timedelta(seconds=records.settings.lease_seconds)
        return Runner(
            records.database, self.poller, records.handoffs, records.clock, holder=records.holder, lease=lease
        )

    @property
    def outbox(self) -> Outbox:
        """What brings changes to webhooks."""
        records = self.records
        return Outbox(
            records.database,
            records.clock,
            self.courier,
            holder=records.holder,
            lease=timedelta(seconds=records.settings.lease_seconds),
            base_seconds=records.settings.retry_base_seconds,
        )

    @property
    def canonical_runner(self) -> CanonicalRunner:
        """What makes canonical articles of the links of all categories."""
        records = self.records
        return CanonicalRunner(
            records.database,
            records.clock,
            self.projection,
            holder=records.holder,
            lease=timedelta(seconds=records.settings.lease_seconds),
            key_of=politeness.KEYS[records.settings.politeness_by],
        )


@contextlib.asynccontextmanager
async def open_records(
    settings: Settings, *, migrating: Migrating = Migrating.AN_EMPTY_DATABASE
) -> AsyncIterator[Records]:
    """Open the database at the schema of this program, which may have to be brought there first."""
    async with open_database(settings) as database:
        if migrating is Migrating.ALWAYS or (
            migrating is Migrating.AN_EMPTY_DATABASE and await migrate.is_empty(database)
        ):
            await migrate.up(database, asked=False)
        else:
            await migrate.require_current(database)
        clock = DatabaseClock()
        await clock.sync(database)
        holder = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        yield Records(settings, database, clock, holder)


@contextlib.asynccontextmanager
async def open_parts(records: Records) -> AsyncIterator[Parts]:
    """Open what reaches out and what reads."""
    from headwater.net.browser import BrowserClient  # as with the client

    _allow_open_files()
    settings = records.settings
    key_of = politeness.KEYS[settings.politeness_by]
    client = _make_client(records, settings.fetch_workers + settings.poll_concurrency)
    # Receivers that hang must not take the places of pages.
    courier_client = _make_client(records, DELIVERIES_AT_ONCE + 1)  # and `webhook test`
    browser = BrowserClient(
        client,
        records.clock.now,
        program=settings.chromium_path,
        most_pages=settings.browser_pages,
        page_seconds=settings.browser_seconds,
        body_bytes=settings.max_body_mb * 1024 * 1024,
        memory_bytes=settings.browser_memory_mb * 1024 * 1024,
    )
    async with (
        make_sandbox(settings) as sandbox,
        client,
        courier_client,
        browser,
        _open_projection(records) as projection,
    ):
        gate = Gate(
            database=records.database,
            client=client,
            browser=browser,
            budgets=Budgets(
                database=records.database,
                clock=records.clock,
                key=settings.api_data_gov_key,
                rate_limits=settings.rate_limits,
            ),
            sandbox=sandbox,
            clock=records.clock,
            holder=records.holder,
            user_agents={style: agents.user_agent(style, __version__, settings.contact_url) for style in agents.STYLES},
            default_delay_ms=settings.host_delay_ms,
            crawl_delay_cap_seconds=settings.crawl_delay_cap_seconds,
            lease_seconds=settings.lease_seconds,
            limits=Limits(body_bytes=settings.max_body_mb * 1024 * 1024),
            key_of=key_of,
        )
        poller = Poller(
            database=records.database,
            gate=gate,
            sandbox=sandbox,
            clock=records.clock,
            timezone=settings.timezone,
            interval_minutes=settings.poll_interval_minutes,
            key_of=key_of,
            show_links=projection.show_links if projection else None,
        )
        visitor = Visitor(
            database=records.database,
            gate=gate,
            corpus=Corpus(settings.data_dir / "corpus"),
            sandbox=sandbox,
            clock=records.clock,
            limits=_page_limits(settings),
            sandbox_seconds=settings.sandbox_seconds,
            max_retries=settings.max_retries,
            retry_base_seconds=settings.retry_base_seconds,
        )
        courier = Courier(
            courier_client,
            records.clock,
            user_agent=user_agent(settings),
            lease_seconds=settings.lease_seconds,
        )
        yield Parts(records, gate, sandbox, poller, visitor, courier, projection)


def _allow_open_files() -> None:
    """Take as many open files as we may have: by default there are too few for connections to a thousand hosts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _make_client(records: Records, max_connections: int) -> "HttpClient":
    from headwater.net.client import HttpClient  # most commands reach nowhere, and it takes long to import

    settings = records.settings
    return HttpClient(
        guard=AddressGuard(ipaddress.ip_network(network) for network in settings.allow_networks),
        clock=records.clock.now,
        connect_to=dict(split_connect_to(part) for part in settings.connect_to),
        max_connections=max_connections,
    )


@contextlib.asynccontextmanager
async def _open_projection(records: Records) -> AsyncIterator[Projection | None]:
    if not records.settings.redis_url:
        yield None
        return
    async with open_redis(records.settings.redis_url) as redis:
        yield Projection(records.database, records.clock, redis)


def make_sandbox(settings: Settings) -> Sandbox:
    """Make the sandbox of this process; its children start when first needed."""
    return Sandbox(workers=settings.sandbox_workers, memory_mb=settings.sandbox_memory_mb, preload=_PRELOAD)


def user_agent(settings: Settings) -> str:
    """Say who is visiting, and where a site owner can read more."""
    return agents.user_agent(agents.HONEST, __version__, settings.contact_url)


def _page_limits(settings: Settings) -> Limits:
    return Limits(
        read_seconds=settings.page_seconds,
        total_seconds=settings.page_seconds,
        body_bytes=settings.max_body_mb * 1024 * 1024,
    )
