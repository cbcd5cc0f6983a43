"""Everything a process works with, opened in order and closed in reverse."""

import contextlib
import ipaddress
import resource
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater import __version__
from headwater.canonical.projection import Projection
from headwater.canonical.redis import open_redis
from headwater.canonical.run import CanonicalRunner
from headwater.changes.operations import WebhookOperations
from headwater.changes.outbox import Outbox
from headwater.changes.webhooks import WebhookSender
from headwater.core.api_budget import Split
from headwater.core.settings import Settings, split_connect_to
from headwater.db.context import DatabaseContext
from headwater.discovery.poller import Poller
from headwater.discovery.runs import Runner
from headwater.documents.days import DayOperations
from headwater.fetching.fetcher import Fetcher
from headwater.http import user_agents
from headwater.http.guard import AddressGuard
from headwater.notify.alarms import AlarmKeeper
from headwater.notify.digests import DigestMaker
from headwater.notify.matching import SearchMatcher
from headwater.notify.senders import ReceiverSender
from headwater.politeness.api_budget import Budgets
from headwater.politeness.gate import Gate
from headwater.sandbox.pool import Sandbox, make_sandbox
from headwater.search.feeder import IndexFeeder
from headwater.search.index_client import open_index
from headwater.search.operations import SearchOperations
from headwater.sources.operations import SourceOperations
from headwater.storage.folder import Corpus

if TYPE_CHECKING:
    from headwater.http.client import HttpClient

_OPEN_FILES = 65_536  # kept connections need open files too


@dataclass(frozen=True, slots=True)
class Runtime:
    """The parts of a process that polls, fetches and delivers."""

    context: DatabaseContext
    gate: Gate
    sandbox: Sandbox
    poller: Poller
    fetcher: Fetcher
    sender: ReceiverSender
    projection: Projection | None = None  # None: no Redis is configured
    index_feeder: IndexFeeder | None = None  # None: no Elasticsearch or OpenSearch is configured

    @property
    def runner(self) -> Runner:
        """The runner that starts and executes runs."""
        return Runner(self.context, self.poller)

    @property
    def outbox(self) -> Outbox:
        """The deliveries to receivers."""
        return Outbox(self.context, self.sender)

    @property
    def matcher(self) -> SearchMatcher:
        """The matcher of new changes with saved searches."""
        return SearchMatcher(self.context, SearchOperations(self.context))

    @property
    def digest_maker(self) -> DigestMaker:
        """The maker of digests."""
        return DigestMaker(self.context, DayOperations(self.context), self._sources)

    @property
    def alarm_keeper(self) -> AlarmKeeper:
        """The keeper of alarms."""
        return AlarmKeeper(self.context, DayOperations(self.context), self._sources, WebhookOperations(self.context))

    @property
    def _sources(self) -> SourceOperations:
        return SourceOperations(self.context, lambda: contextlib.nullcontext(self.sandbox))

    @property
    def canonical_runner(self) -> CanonicalRunner:
        """The runner that makes canonical articles of the links of all categories."""
        return CanonicalRunner(self.context, self.projection)


@contextlib.asynccontextmanager
async def open_runtime(context: DatabaseContext) -> AsyncIterator[Runtime]:
    """Open the HTTP clients, the browser, the sandbox and the parts that use them."""
    from headwater.browser.client import BrowserClient  # the import takes long, and most commands need no browser

    _allow_open_files()
    settings = context.settings
    client = _make_client(context)
    # A receiver on our own network answers while we are offline. It must not count as a site that answers.
    webhook_client = _make_client(context)
    async with (
        make_sandbox(settings) as sandbox,
        client,
        webhook_client,
        BrowserClient(client, context.clock.now, settings) as browser,
        _open_projection(context) as projection,
        _open_index_feeder(context) as index_feeder,
    ):
        budgets = Budgets(context.database, context.clock, settings.api_data_gov_key, Split(settings.rate_limits))
        gate = Gate(context, client, browser, budgets, sandbox)
        show_links = projection.show_links if projection else None
        poller = Poller(context, gate=gate, sandbox=sandbox, show_links=show_links)
        corpus = Corpus(settings.data_dir / "corpus")
        fetcher = Fetcher(context, gate, corpus, sandbox)
        sender = _make_sender(context, webhook_client)
        yield Runtime(context, gate, sandbox, poller, fetcher, sender, projection, index_feeder)


def _allow_open_files() -> None:
    """Raise the limit of open files: the default is too low for connections to a thousand hosts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # some systems allow less than they report
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _make_sender(context: DatabaseContext, client: "HttpClient") -> ReceiverSender:
    from headwater.http.mail import MailClient  # the import takes long, and most commands send nothing
    from headwater.http.services import ServiceClient

    settings = context.settings
    webhooks = WebhookSender(
        client, context.clock, user_agent=user_agent(settings), lease_seconds=settings.lease_seconds
    )
    services = ServiceClient(_make_guard(settings))
    return ReceiverSender(webhooks, MailClient(settings.smtp_url), services, settings.smtp_from, context.clock)


def _make_guard(settings: Settings) -> AddressGuard:
    return AddressGuard(ipaddress.ip_network(network) for network in settings.allow_networks)


def _make_client(context: DatabaseContext) -> "HttpClient":
    from headwater.http.client import HttpClient  # the import takes long, and most commands use no network

    settings = context.settings
    return HttpClient(
        guard=_make_guard(settings),
        clock=context.clock.now,
        connect_to=dict(split_connect_to(part) for part in settings.connect_to),
    )


@contextlib.asynccontextmanager
async def _open_projection(context: DatabaseContext) -> AsyncIterator[Projection | None]:
    if not context.settings.redis_url:
        yield None
        return
    async with open_redis(context.settings.redis_url) as redis:
        yield Projection(context, redis)


@contextlib.asynccontextmanager
async def _open_index_feeder(context: DatabaseContext) -> AsyncIterator[IndexFeeder | None]:
    if not context.settings.search_url:
        yield None
        return
    async with open_index(context.settings, context.clock.now) as client:
        yield IndexFeeder(context, client)


def user_agent(settings: Settings) -> str:
    """Return the user agent, which names this program and its contact page."""
    return user_agents.user_agent(user_agents.HONEST, __version__, settings.contact_url)
