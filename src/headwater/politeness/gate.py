"""The gate sends every request to a site. It waits for the host's turn and obeys robots.txt (spec 2.3, 4.1)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING
from uuid import uuid4

from headwater import __version__
from headwater.core import politeness, urls
from headwater.core.api_budget import refuses_key
from headwater.core.errors import ExchangeFailed, NotNow, OperatorError
from headwater.core.frontier import HostRecord
from headwater.core.http import Limits, Response
from headwater.core.lease import Lease
from headwater.core.reasons import Reason
from headwater.core.source import FetchProfile
from headwater.db import hosts
from headwater.db.context import DatabaseContext
from headwater.db.pool import Coalescer
from headwater.http import user_agents
from headwater.http.responses import suggest_fixes
from headwater.politeness.api_budget import Budgets
from headwater.politeness.host_failures import is_silent, record_silence, refuse
from headwater.politeness.host_lease import HostLease
from headwater.politeness.request_options import RequestOptions as RequestOptions
from headwater.politeness.robots_gate import RobotsGate
from headwater.politeness.subresource_gate import SubresourceGate
from headwater.politeness.worker_slots import WorkerSlot, wait_until
from headwater.sandbox.pool import Sandbox

if TYPE_CHECKING:
    from headwater.browser.client import BrowserClient
    from headwater.http.client import HttpClient, OnSent

PATIENCE = timedelta(seconds=30)
_LEAST_TIME = timedelta(seconds=1)  # a lease with less time left is too short for a request
_BROWSER_MARGIN = timedelta(seconds=2.5)  # the last part of a lease, in which the browser closes a page
# A request that waits for a busy host tries again after _RETRY. For _RESERVATION, no claim takes that host.
_RETRY = timedelta(seconds=0.05)
_RESERVATION = timedelta(seconds=2)
host_of = lru_cache(maxsize=4096)(urls.host_of)  # polls ask for the same URLs again

LeaseAnswer = tuple[HostRecord, HostLease | None]


def asks_api(profile: FetchProfile, url: str) -> bool:
    """Return whether a request for a normalized URL goes to a declared API of its source."""
    address = url.partition("://")[2]
    return any(address.startswith(part if "/" in part else f"{part}/") for part in profile.api_hosts)


_NO_OPTIONS = RequestOptions()


@dataclass(eq=False)
class Gate:
    """Sends requests to leased hosts: one at a time for each host, each in the host's turn."""

    context: DatabaseContext
    client: "HttpClient"
    browser: "BrowserClient"
    budgets: Budgets
    sandbox: Sandbox

    def __post_init__(self) -> None:
        settings = self.context.settings
        self.clock = self.context.clock
        self._user_agents = {
            style: user_agents.user_agent(style, __version__, settings.contact_url) for style in user_agents.STYLES
        }
        self.limits = Limits(body_bytes=settings.max_body_mb * 1024 * 1024)
        self._key_of = politeness.KEYS[settings.politeness_scope]
        self._leases = Coalescer(self._lease_hosts)
        self._releases = Coalescer(self._release_hosts)
        self.robots = RobotsGate(self)

    async def get(
        self,
        url: str,
        options: RequestOptions = _NO_OPTIONS,
        *,
        on_sent: "OnSent | None" = None,
        slot: WorkerSlot | None = None,
    ) -> Response:
        """Request a URL under a lease of its host. The gate returns a redirect and does not follow it.

        For a declared API the caller limits the rate: there is no lease and no robots.txt, and `on_sent` runs when the
        request has left. For any other host the gate limits the rate, and `on_sent` runs before it waits.
        """
        if asks_api(options.profile, url):
            if options.before_send:
                options.before_send()
            return await self._send_now(url, options, on_sent)
        if on_sent:
            on_sent()
        async with self.lease_host(host_of(url), slot=slot) as lease:
            lease.before_send = options.before_send
            return await self.send(lease, url, options)

    @contextlib.asynccontextmanager
    async def lease_host(
        self, host: str, patience: timedelta = PATIENCE, slot: WorkerSlot | None = None
    ) -> AsyncIterator[HostLease]:
        """Lease a host for the block. Wait for its turn, but raise NotNow if the wait would exceed the patience."""
        lease = await self._acquire(host, patience, slot)
        try:
            yield lease
        finally:
            async with slot.yielded(briefly=True) if slot else contextlib.nullcontext():
                await self._releases.submit(lease)

    async def _acquire(self, host: str, patience: timedelta, slot: WorkerSlot | None) -> HostLease:
        give_up = self.clock.now() + patience
        while True:
            if not self.clock.is_settled:
                raise NotNow(
                    "The database's clock has stepped. Requests wait until all older leases end.", until=give_up
                )
            answer = self._leases.submit(host)
            try:
                async with slot.yielded(briefly=True) if slot else contextlib.nullcontext():
                    known, lease = await asyncio.shield(answer)
            except asyncio.CancelledError:
                await asyncio.shield(self._undo_lease(answer))
                raise
            if lease:
                lease.slot = slot
                return lease
            now = self.clock.now()
            not_before, is_in_use, reason = await self.context.database.run(
                hosts.reserve_host, known.politeness_key, now, _RESERVATION
            )
            # The holder usually releases the host long before its lease ends.
            again = now + _RETRY if is_in_use else not_before
            if again > give_up:
                until = min(not_before, now + PATIENCE) if is_in_use else not_before
                raise refuse(known, until, reason, now)
            await wait_until(again, self.clock, slot)

    async def _undo_lease(self, answer: asyncio.Future[LeaseAnswer]) -> None:
        _, lease = await answer
        if lease:
            await self._releases.submit(lease)

    async def _lease_hosts(self, wanted: Sequence[str]) -> list[LeaseAnswer]:
        """Lease the hosts that may be asked now. Return the record of each host, and its lease if there is one."""
        delay_ms, now = self.context.settings.host_delay_ms, self.clock.now()
        until = now + timedelta(seconds=self.context.settings.lease_seconds)
        leases = [(host, Lease(self.context.holder, uuid4(), until, 1)) for host in wanted]
        answers = await self.context.database.run(hosts.lease_hosts, leases, now, delay_ms)
        new = {host: self._key_of(host) for host, (known, _) in zip(wanted, answers, strict=True) if known is None}
        if new:
            await self.context.database.run(hosts.add_hosts, new)
            added = iter(await self._lease_hosts([host for host in wanted if host in new]))
        return [
            (known, HostLease(known, lease.token, until, delay_ms) if is_leased else None) if known else next(added)
            for (_, lease), (known, is_leased) in zip(leases, answers, strict=True)
        ]

    async def _release_hosts(self, leases: Sequence[HostLease]) -> list[None]:
        now = self.clock.now()
        releases = [lease.release(now) for lease in leases]
        # A host's request to wait is safe on disk before the host is released.
        is_lazy = not any(lease.is_throttled or lease.blocked_until for lease in leases)
        await self.context.database.run(hosts.release_polled_hosts, releases, is_lazy=is_lazy)
        return [None] * len(leases)

    async def send(self, lease: HostLease, url: str, options: RequestOptions = _NO_OPTIONS) -> Response:
        """Request a URL of a leased host in the host's turn, if robots.txt allows it. An API has no robots.txt."""
        if not asks_api(options.profile, url):
            await self.robots.obey(lease, url)
            if options.profile.needs_browser:
                return await self._send_to_site(lease, self._browse(lease, url, options))
            return await self._send_to_site(lease, self.send_in_turn(lease, url, options))
        return await self.send_in_turn(lease, url, options)

    async def _send_to_site(self, lease: HostLease, exchange: Awaitable[Response]) -> Response:
        """Wait for an exchange. If it had no answer, the next request to the host is for its robots.txt."""
        try:
            return await exchange
        except ExchangeFailed as error:
            now = self.clock.now()
            if is_silent(error.reason) and now < lease.until:
                await self.save_failure(lease, record_silence(lease.host, error.reason, now))
            raise

    async def _browse(self, lease: HostLease, url: str, options: RequestOptions) -> Response:
        """Load a page in the browser. The SubresourceGate admits each of the page's requests in its host's turn."""
        from headwater.browser.chromium import BrowserProfile  # most processes never need it
        from headwater.browser.page import PageRequest

        profile = options.profile
        user_agent = None if profile.user_agent == user_agents.BROWSER else self._user_agents[profile.user_agent]
        browser_profile = BrowserProfile(profile.source, user_agent, profile.stealth)
        start = self.clock.now() + _BROWSER_MARGIN
        if start + _LEAST_TIME > lease.until:
            raise _too_short(lease, start)
        limits = replace(options.limits or self.limits, total_seconds=(lease.until - start).total_seconds())
        admit = SubresourceGate(self, lease).admit
        return await self.browser.get(PageRequest(url, browser_profile, limits, admit))

    async def send_in_turn(self, lease: HostLease, url: str, options: RequestOptions) -> Response:
        """Send in the host's turn. The exchange ends with the lease at the latest, so no two exchanges overlap."""
        await self.await_turn(lease)
        if lease.before_send:
            lease.before_send()
        try:
            limits = replace(options.limits or self.limits, ends_at=lease.until)
            response = await self._send_now(url, replace(options, limits=limits))
        except BaseException as error:
            # Assume that the request left, except to a refused address. A request without budget also uses its turn:
            # otherwise all pages that wait for the budget would come one right after the other.
            if not (isinstance(error, ExchangeFailed) and error.reason is Reason.ADDRESS_REFUSED):
                lease.last_sent_at = self.clock.now()
            raise
        lease.last_sent_at = response.sent_at
        lease.read_answer(response.status, response.headers, self.clock.now())
        return response

    async def await_turn(self, lease: HostLease) -> None:
        """Wait until the host may be asked again; raise NotNow if the rest of the lease is too short for that."""
        while True:
            now = self.clock.now()
            if lease.blocked_until and lease.blocked_until > now:
                raise refuse(lease.host, lease.blocked_until, lease.blocked_reason, now)
            turn = max(now, lease.last_sent_at + lease.delay) if lease.last_sent_at else now
            if turn + _LEAST_TIME > lease.until:
                raise _too_short(lease, turn)
            if turn == now:
                return
            await wait_until(turn, self.clock, lease.slot)

    async def _send_now(self, url: str, options: RequestOptions, on_sent: "OnSent | None" = None) -> Response:
        """Send a request. A paid request carries the key and counts against its source's budget."""
        profile, headers, permit = options.profile, options.headers, None
        is_paid = self.is_paid(url, profile)
        if is_paid:
            headers = {**headers, "X-Api-Key": self.budgets.key}
            permit = partial(self.budgets.spend, profile.source, host_of(url))
        response = await self.client.request(
            "GET",
            url,
            user_agent=self._user_agents[profile.user_agent],
            headers=headers,
            limits=options.limits or self.limits,
            permit=permit,
            on_sent=on_sent,
        )
        if is_paid:
            await self.budgets.read_answer(host_of(url), response)
        return response

    def is_paid(self, url: str, profile: FetchProfile) -> bool:
        """Return whether a request carries the key and counts against a budget."""
        return profile.budget is not None and asks_api(profile, url) and self.client.is_confidential(url)

    def check_key(self, response: Response, profile: FetchProfile) -> None:
        """Raise OperatorError if an API refused our key."""
        if self.is_paid(response.url, profile) and refuses_key(response.status, response.body):
            raise OperatorError(
                f"{host_of(response.url)} refused the key of api.data.gov in HEADWATER_API_DATA_GOV_KEY "
                f"with status {response.status}. Set a valid key."
            )

    def suggest_fixes(self, response: Response, profile: FetchProfile) -> str:
        """Return a sentence that names what may help against a refusal, or an empty text."""
        return suggest_fixes(response.status, profile, has_contact=bool(self.context.settings.contact_url))

    async def save_failure(self, lease: HostLease, host: HostRecord) -> None:
        """Save the failures of a leased host."""
        lease.host = host
        await self.context.database.run(hosts.save_failure, host)

    async def get_or_create_host(self, host: str) -> HostRecord:
        """Return the record of a host; create it if the host is new."""
        return await self.context.database.run(hosts.get_or_create_host, host, self._key_of(host))

    async def refresh_robots(self, url: str) -> HostRecord:
        """Read the robots.txt for a URL if ours is old, and return the record of the host.

        Raises NotAllowed if it forbids the URL, NotNow if it cannot be read now.
        """
        async with self.lease_host(host_of(url)) as lease:
            await self.robots.obey(lease, url)
            return lease.host


def _too_short(lease: HostLease, start: datetime) -> NotNow:
    return NotNow(f"{lease.host.host} needs a longer delay than the rest of its lease.", until=start)
