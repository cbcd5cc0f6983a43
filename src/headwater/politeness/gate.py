"""The gate: host slots and robots, then net/."""

import asyncio
import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

from headwater.core import backoff, politeness
from headwater.core.api_budget import refuses_key
from headwater.core.clock import Clock
from headwater.core.errors import ExchangeFailed, NotAllowed, NotNow, OperatorError, SandboxFailed
from headwater.core.frontier import Claim, HostRecord
from headwater.core.http import Limits, Response
from headwater.core.lease import Lease
from headwater.core.reasons import Reason
from headwater.core.source import FetchProfile
from headwater.core.urls import host_of as read_host
from headwater.db import hosts
from headwater.db.coalescer import Coalescer
from headwater.db.pool import Connection, Database
from headwater.http.responses import MAX_HOPS, redirect_target
from headwater.politeness.api_budget import Budgets
from headwater.politeness.host_lease import HostLease
from headwater.politeness.robots import MAX_BYTES, RobotsVerdict, check_robots, within_limit
from headwater.politeness.subresource_gate import SubresourceGate
from headwater.politeness.worker_slots import yield_slot
from headwater.sandbox.pool import Sandbox

if TYPE_CHECKING:
    from headwater.browser.client import BrowserClient
    from headwater.http.client import HttpClient, OnSent

ROBOTS_AGENT = "headwater"  # whatever user agent is sent, robots.txt is matched as this
PATIENCE = timedelta(seconds=30)
LEAST_ROOM = timedelta(seconds=1)  # less than this left of a hold is not worth a request
BROWSER_MARGIN = timedelta(seconds=2.5)  # of a hold, in which a page is closed and what it brought is kept
# How often a poll that waits for a host in use looks again, and how long claims let it go first.
_LOOK_SECONDS = 0.05
_RESERVATION = timedelta(seconds=2)
_VERDICTS = 20_000  # remembered, the oldest forgotten first
_NOBODY = FetchProfile()
host_of = lru_cache(maxsize=4096)(read_host)  # a request asks for it at every step


class Gate:
    """Sends requests to hosts that are held, one at a time, each in its turn."""

    def __init__(
        self,
        *,
        database: Database,
        client: "HttpClient",
        browser: "BrowserClient",
        budgets: Budgets,
        sandbox: Sandbox,
        clock: Clock,
        holder: str,
        user_agents: Mapping[str, str],
        default_delay_ms: int,
        crawl_delay_cap_seconds: float,
        lease_seconds: float,
        limits: Limits,
        key_of: politeness.KeyOf,
    ) -> None:
        self._database = database
        self._client = client
        self._browser = browser
        self.budgets = budgets
        self._sandbox = sandbox
        self._clock = clock
        self._holder = holder
        self._user_agents = user_agents
        self._default_delay_ms = default_delay_ms
        self._crawl_delay_cap_seconds = crawl_delay_cap_seconds
        self._lease = timedelta(seconds=lease_seconds)
        self.limits = limits
        self._key_of = key_of
        self._holds = Coalescer(self._hold_all)
        self._releases = Coalescer(self._release_all)
        self._verdicts: OrderedDict[tuple[bytes, str], RobotsVerdict] = OrderedDict()

    def hold_of(self, claim: Claim) -> HostLease:
        """Return the hold that comes with a claimed URL; it is given back when the claim is finished."""
        delay_ms = self._default_delay_ms if claim.page_delay_ms is None else claim.page_delay_ms
        return HostLease(claim.host, claim.lease, delay_ms)

    @contextlib.asynccontextmanager
    async def hold(self, host: str, patience: timedelta = PATIENCE) -> AsyncIterator[HostLease]:
        """Hold a host for a request that no claimed URL stands behind; wait for its turn, unless that is far off."""
        hold = await self._wait_for(host, patience)
        try:
            yield hold
        finally:
            async with yield_slot(briefly=True):
                await self._releases.do(hold)

    async def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        profile: FetchProfile = _NOBODY,
        on_sent: "OnSent | None" = None,
    ) -> Response:
        """Ask for a URL, holding its host for as long as it is asked; a redirect is returned, not followed.

        The hosts of declared APIs are not held and their robots.txt is not read: the caller keeps to its source's rate,
        and is told when the request has left. For all others their hosts' turns are kept, and it is told at once.
        """
        host = host_of(url)
        if profile.asks_api(host, url):
            return await self._get(url, headers or {}, limits or self.limits, profile, on_sent)
        if on_sent:
            on_sent()
        async with self.hold(host) as hold:
            return await self.send(hold, url, headers=headers, limits=limits, profile=profile)

    async def look_at_robots(self, url: str) -> HostRecord:
        """Read the robots.txt that holds for a URL, where ours is old; return what is known of its host.

        Raises NotAllowed where it forbids the URL, NotNow where it cannot be read.
        """
        async with self.hold(host_of(url)) as hold:
            await self.obey_robots(hold, url)
            return hold.host

    async def send(
        self,
        hold: HostLease,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        profile: FetchProfile = _NOBODY,
    ) -> Response:
        """Ask a held host for a URL, if its robots.txt allows (an API has none) and when its turn has come."""
        host = host_of(url)
        if not profile.asks_api(host, url):
            await self.obey_robots(hold, url)
        if profile.browses(host, url):
            return await self._browse(hold, url, limits or self.limits, profile)
        return await self._exchange(hold, url, headers or {}, limits or self.limits, profile)

    async def start_browser(self) -> None:
        """Start the browser ahead of its first page. Raises OperatorError where there is none that starts."""
        await self._browser.start()

    async def _browse(self, hold: HostLease, url: str, limits: Limits, profile: FetchProfile) -> Response:
        """Let the browser ask; whatever its page wants besides is let out likewise, each in its host's turn."""
        from headwater.browser.contexts import Look  # most processes never need it

        look = Look(profile.source, self._user_agents[profile.user_agent], profile.stealth)
        room = _room(hold, self._clock.now() + BROWSER_MARGIN)
        limits = replace(limits, total_seconds=room.total_seconds())
        return await self._browser.get(url, look=look, limits=limits, lead=SubresourceGate(self, hold).lead)

    async def obey_robots(self, hold: HostLease, url: str) -> None:
        """Raise NotAllowed where robots.txt forbids a URL; it is read first where ours is old."""
        await self._know_robots(hold, url)
        if hold.host.robots_txt is not None and not (await self._verdict(hold.host.robots_txt, url)).allowed:
            raise NotAllowed(f"robots.txt of {hold.host.host} forbids {url}.", url=url)

    async def _exchange(
        self, hold: HostLease, url: str, headers: Mapping[str, str], limits: Limits, profile: FetchProfile = _NOBODY
    ) -> Response:
        """Send in the host's turn; the exchange ends with the hold at the latest, so no two ever overlap."""
        await self.await_turn(hold)
        limits = replace(limits, ends_at=hold.lease.until)
        try:
            response = await self._get(url, headers, limits, profile)
        except BaseException as error:
            # Unless it never left, it may have been sent; the host gets the benefit of the doubt. One that its budget
            # kept back has had its turn too, or all that wait for the same budget would come one right after the other.
            if not (isinstance(error, ExchangeFailed) and error.reason is Reason.ADDRESS_REFUSED):
                hold.last_sent_at = self._clock.now()
            raise
        hold.last_sent_at = response.sent_at
        self.heed(hold, response.status, response.headers)
        return response

    def heed(self, hold: HostLease, status: int, headers: Mapping[str, str]) -> None:
        """Note what an answer says of the pace that its host wishes."""
        if politeness.asks_for_less(status):
            hold.troubled = True
            wait = backoff.retry_after(headers.get("retry-after"), self._clock.now())
            if wait:
                hold.block(self._clock.now() + wait, Reason.RATE_LIMITED)
        elif status < 500:
            hold.answered = True

    async def _get(
        self,
        url: str,
        headers: Mapping[str, str],
        limits: Limits,
        profile: FetchProfile,
        on_sent: "OnSent | None" = None,
    ) -> Response:
        """Send; where it is to be paid for, with the key and out of the budget."""
        agent, host = self._user_agents[profile.user_agent], host_of(url)
        if not self.is_paid(url, profile):
            return await self._client.get(url, user_agent=agent, headers=headers, limits=limits, on_sent=on_sent)
        response = await self._client.get(
            url,
            user_agent=agent,
            headers={**headers, "X-Api-Key": self.budgets.key},
            limits=limits,
            permit=lambda: self.budgets.spend(profile.source, host),
            on_sent=on_sent,
        )
        await self.budgets.note(host, response)
        return response

    def is_paid(self, url: str, profile: FetchProfile) -> bool:
        """Tell whether a request carries the key and is taken from the budget."""
        return profile.pays(host_of(url), url) and self._client.is_confidential(url)

    def check_key(self, response: Response, profile: FetchProfile) -> None:
        """Raise OperatorError where an API does not take the key that it was asked with."""
        if refuses_key(response.status, response.body) and self.is_paid(response.url, profile):
            raise OperatorError(
                f"{host_of(response.url)} does not take the key of api.data.gov that HEADWATER_API_DATA_GOV_KEY holds: "
                f"it answered {response.status}."
            )

    async def await_turn(self, hold: HostLease) -> None:
        """Wait until the host may be asked again; raise NotNow where too little of the hold is left then."""
        if hold.blocked_until and hold.blocked_until > self._clock.now():
            what = f"{hold.host.host} asked to be left alone."
            raise NotNow(what, until=hold.blocked_until, reason=hold.blocked_reason)
        turn = hold.next_turn
        if turn and turn > self._clock.now():
            _room(hold, turn)
            async with yield_slot():
                while (wait := turn - self._clock.now()) > timedelta(0):
                    await asyncio.sleep(wait.total_seconds())
        _room(hold, self._clock.now())

    async def _wait_for(self, host: str, patience: timedelta) -> HostLease:
        give_up = self._clock.now() + patience
        while True:
            if not self._clock.is_settled:
                raise NotNow("The database's clock has stepped; no host is asked until that is over.", until=give_up)
            known, hold = await self._try_to_hold(host)
            if hold:
                return hold
            now = self._clock.now()
            async with self._database.connection() as connection:
                not_before, in_use, reason = await hosts.reserve_host(
                    connection, known.politeness_key, now, _RESERVATION
                )
            # A host in use comes back long before its lease ends.
            again = now + timedelta(seconds=_LOOK_SECONDS) if in_use else not_before
            if again > give_up:
                until = min(not_before, now + PATIENCE) if in_use else not_before
                raise NotNow(f"{host} may not be asked before {until:%H:%M:%S} UTC.", until=until, reason=reason)
            async with yield_slot():
                await asyncio.sleep(max(0.001, (again - now).total_seconds()))

    async def _try_to_hold(self, host: str) -> tuple[HostRecord, HostLease | None]:
        """Hold a host if it may be asked now; one that was taken for nobody is given back."""
        answer = self._holds.begin(host)
        try:
            async with yield_slot(briefly=True):
                return await asyncio.shield(answer)
        except asyncio.CancelledError:
            await asyncio.shield(self._give_back(answer))  # whoever is cancelled twice is not waited for
            raise

    async def _give_back(self, answer: asyncio.Future[tuple[HostRecord, HostLease | None]]) -> None:
        """Give a host back that was held for somebody who is gone."""
        _, hold = await answer
        if hold:
            await self._releases.do(hold)

    async def _hold_all(self, asked: Sequence[str]) -> list[tuple[HostRecord, HostLease | None]]:
        """Hold those that may be asked now, and tell what is known of each."""
        answers = await self._database.run(lambda connection: self._hold_known(connection, asked))
        new = {host: self._key_of(host) for host, (known, _) in zip(asked, answers, strict=True) if known is None}
        if new:
            await self._database.run(lambda connection: hosts.meet_new_hosts(connection, new))
            met = iter(await self._hold_all([host for host in asked if host in new]))
            return [(known, hold) if known else next(met) for known, hold in answers]
        return [(known, hold) for known, hold in answers if known]

    async def _hold_known(
        self, connection: Connection, asked: Sequence[str]
    ) -> list[tuple[HostRecord | None, HostLease | None]]:
        now = self._clock.now()
        leases = [(host, Lease(self._holder, uuid4(), now + self._lease, 1)) for host in asked]
        answers = await hosts.hold_hosts(connection, leases, now, self._default_delay_ms)
        return [
            (known, HostLease(known, lease, self._default_delay_ms) if known and is_held else None)
            for (_, lease), (known, is_held) in zip(leases, answers, strict=True)
        ]

    async def _release_all(self, holds: Sequence[HostLease]) -> list[None]:
        now = self._clock.now()
        releases = [(hold.host.politeness_key, hold.lease.token, hold.release(now)) for hold in holds]
        # That a host asked to be left alone is known for good before it is given back.
        unhurried = not any(hold.troubled or hold.blocked_until for hold in holds)
        await self._database.run(lambda connection: hosts.release_held(connection, releases, unhurried=unhurried))
        return [None] * len(holds)

    async def _know_robots(self, hold: HostLease, url: str) -> None:
        if politeness.robots_are_fresh(hold.host.robots_fetched_at, self._clock.now()):
            return
        text = await self._read_robots(hold, url)
        try:
            crawl_delay = (await self._verdict(text, url)).crawl_delay if text is not None else None
        except SandboxFailed as error:
            raise self._blocked(hold, str(error), politeness.ROBOTS_BLOCK) from error
        delay_ms = politeness.capped_crawl_delay_ms(crawl_delay, self._crawl_delay_cap_seconds)
        now = self._clock.now()
        async with self._database.connection() as connection:
            delay_ms = await hosts.save_robots(connection, hold.host, text, delay_ms, now)
        hold.host = replace(hold.host, robots_txt=text, robots_fetched_at=now, crawl_delay_ms=delay_ms)

    async def _read_robots(self, hold: HostLease, url: str) -> str | None:
        """Return the text, None where there is none; a host whose robots.txt cannot be read is blocked for a while."""
        try:
            response = await self._get_robots(hold, f"{urlsplit(url).scheme}://{hold.host.host}/robots.txt")
        except ExchangeFailed as error:
            if error.reason is Reason.ADDRESS_REFUSED and hold.last_sent_at is None:
                raise  # it is this host itself that may not be visited
            if error.reason is Reason.OFFLINE:
                raise  # it says nothing of the host
            raise self._blocked(hold, str(error), politeness.ROBOTS_BLOCK) from error
        if 200 <= response.status < 300:
            return within_limit(response.body).decode("utf-8", "replace").replace("\0", "")
        if response.status == 429 or response.status >= 500:
            wait = backoff.retry_after(response.headers.get("retry-after"), self._clock.now())
            raise self._blocked(hold, f"status {response.status}", max(politeness.ROBOTS_BLOCK, wait or timedelta(0)))
        return None

    async def _get_robots(self, hold: HostLease, url: str) -> Response:
        """Follow redirects, to other hosts too (RFC 9309 2.3.1.2); what is answered after the last hop stands."""
        # One that never comes is found out well before the lease ends: that is the host's failure, not the page's.
        seconds = min(self.limits.total_seconds, (hold.lease.until - self._clock.now()).total_seconds() / 2)
        limits = replace(self.limits, total_seconds=seconds, body_bytes=MAX_BYTES, cut=True)
        response = await self._exchange(hold, url, {}, limits)
        for _ in range(MAX_HOPS):
            target = redirect_target(response)
            if target is None:
                break
            if await self._shares_turn(hold, host_of(target)):
                response = await self._exchange(hold, target, {}, limits)
            else:
                response = await self._ask_other(hold, target, limits)
        return response

    async def _shares_turn(self, hold: HostLease, host: str) -> bool:
        """Tell whether a hold is also that of another host: waiting for it would be waiting for ourselves."""
        return host == hold.host.host or (await self.meet(host)).politeness_key == hold.host.politeness_key

    async def meet(self, host: str) -> HostRecord:
        """Return what is known of a host, or begin to know it."""
        async with self._database.connection() as connection:
            return await hosts.get_or_create_host(connection, host, self._key_of(host))

    async def _ask_other(self, hold: HostLease, url: str, limits: Limits) -> Response:
        """Ask another host if it is free: waiting would keep this one too, two that point at each other for ever."""
        try:
            async with self.hold(host_of(url), patience=timedelta(0)) as other:
                return await self._exchange(other, url, {}, limits)
        except NotNow as error:
            if error.reason is Reason.HOST_CLOSED:
                raise self._blocked(hold, str(error), politeness.ROBOTS_BLOCK) from error
            raise

    def _blocked(self, hold: HostLease, why: str, wait: timedelta) -> NotNow:
        until = self._clock.now() + wait
        hold.block(until, Reason.ROBOTS_UNREACHABLE)
        return NotNow(
            f"robots.txt of {hold.host.host} cannot be read ({why}).", until=until, reason=Reason.ROBOTS_UNREACHABLE
        )

    async def _verdict(self, text: str, url: str) -> RobotsVerdict:
        """Read a robots.txt in the sandbox, or remember what was read there: the same words say the same of a URL."""
        question = (hashlib.sha256(text.encode()).digest(), url)
        verdict = self._verdicts.get(question)
        if verdict is None:
            verdict = await self._sandbox.run(check_robots, text, ROBOTS_AGENT, url, returns=RobotsVerdict)
            self._verdicts[question] = verdict
            if len(self._verdicts) > _VERDICTS:
                self._verdicts.popitem(last=False)
        return verdict


def _room(hold: HostLease, start: datetime) -> timedelta:
    """Return how long a hold lasts from a time on; raise NotNow where that is too short for a request."""
    if start + LEAST_ROOM > hold.lease.until:
        raise NotNow(f"{hold.host.host} wants a longer pause than this lease lasts.", until=start)
    return hold.lease.until - start
