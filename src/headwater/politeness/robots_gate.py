"""Obeys robots.txt on the way to sites, and puts off hosts whose robots.txt cannot be read (spec 4.1, 11.3)."""

import hashlib
from collections import OrderedDict
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog

from headwater.core import backoff
from headwater.core.errors import ExchangeFailed, NotAllowed, NotNow, SandboxFailed
from headwater.core.frontier import HostRecord
from headwater.core.http import Response
from headwater.core.reasons import Reason
from headwater.core.urls import host_of
from headwater.db import hosts
from headwater.http.responses import MAX_HOPS, reason_of_status, redirect_target
from headwater.politeness.host_failures import is_gone, record_failure, refuse_failing
from headwater.politeness.host_lease import HostLease, capped_crawl_delay_ms, robots_are_fresh
from headwater.politeness.request_options import RequestOptions
from headwater.politeness.robots import MAX_BYTES, RobotsVerdict, check_robots, within_limit

if TYPE_CHECKING:
    from headwater.politeness.gate import Gate

log = structlog.get_logger()
ROBOTS_AGENT = "headwater"  # robots.txt is matched with this name, whatever user agent a request sends
_MOST_VERDICTS = 20_000


class RobotsGate:
    """Admits requests that robots.txt allows."""

    def __init__(self, gate: "Gate") -> None:
        self._gate = gate
        self._clock = gate.clock
        self._database = gate.context.database
        self._settings = gate.context.settings
        self._verdicts: OrderedDict[tuple[bytes, str], RobotsVerdict] = OrderedDict()  # the oldest first

    async def obey(self, lease: HostLease, url: str) -> None:
        """Raise NotAllowed if robots.txt forbids a URL. Read it first if ours is old or the host did not answer."""
        now = self._clock.now()
        if lease.host.retry_at and lease.host.retry_at > now:
            raise refuse_failing(lease.host, lease.host.retry_at, now)
        if lease.host.failure or not robots_are_fresh(lease.host.robots_fetched_at, now):
            await self._renew_robots(lease, url)
        text = lease.host.robots_txt
        if text is not None and not (await self._check_robots(text, url)).allowed:
            raise NotAllowed(f"robots.txt of {lease.host.host} forbids {url}.", url=url)

    async def _check_robots(self, text: str, url: str) -> RobotsVerdict:
        """Return what a robots.txt says about a URL. The sandbox reads it; later checks use the remembered verdict."""
        key = (hashlib.sha256(text.encode()).digest(), url)
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = await self._gate.sandbox.run(check_robots, text, ROBOTS_AGENT, url, returns=RobotsVerdict)
            self._verdicts[key] = verdict
            if len(self._verdicts) > _MOST_VERDICTS:
                self._verdicts.popitem(last=False)
        return verdict

    async def _renew_robots(self, lease: HostLease, url: str) -> None:
        text = await self._read_robots(lease, url)
        try:
            crawl_delay = (await self._check_robots(text, url)).crawl_delay if text is not None else None
        except SandboxFailed as error:
            raise await self._block(lease, error.reason, str(error)) from error
        delay_ms = capped_crawl_delay_ms(crawl_delay, self._settings.crawl_delay_cap_seconds)
        now = self._clock.now()
        delay_ms = await self._database.run(hosts.save_robots, lease.host, text, delay_ms, now)
        key, backoff_ms, throttled_at = lease.host.politeness_key, lease.host.backoff_ms, lease.host.last_throttled_at
        lease.host = HostRecord(lease.host.host, key, delay_ms, backoff_ms, throttled_at, text, now)

    async def _read_robots(self, lease: HostLease, url: str) -> str | None:
        """Return the text, None if there is none. Block a host for a while if its robots.txt cannot be read."""
        try:
            response = await self._get_robots(lease, f"{urlsplit(url).scheme}://{lease.host.host}/robots.txt")
        except ExchangeFailed as error:
            if error.reason is Reason.CONNECTION_LOST:  # the host did nothing wrong, and its next turn is soon
                raise NotNow(str(error), until=self._clock.now() + lease.delay, reason=error.reason) from error
            is_own_address = error.reason is Reason.ADDRESS_REFUSED and lease.last_sent_at is None
            if is_own_address or error.reason is Reason.OFFLINE:
                raise  # a block for these reasons would blame the host's robots.txt
            raise await self._block(lease, error.reason, str(error)) from error
        if 200 <= response.status < 300:
            return within_limit(response.body).decode("utf-8", "replace").replace("\0", "")
        if response.status == 429 or response.status >= 500:
            wait = backoff.read_retry_after(response.headers.get("retry-after"), self._clock.now())
            reason = reason_of_status(response.status) or Reason.ROBOTS_UNREACHABLE
            raise await self._block(lease, reason, f"robots.txt answered {response.status}.", wait or timedelta(0))
        return None

    async def _get_robots(self, lease: HostLease, url: str) -> Response:
        """Request robots.txt and follow redirects, also to other hosts (RFC 9309 2.3.1.2)."""
        # A host that never answers fails well before the lease ends. That is the host's failure, not the page's.
        seconds = min(self._gate.limits.total_seconds, (lease.until - self._clock.now()).total_seconds() / 2)
        options = RequestOptions(replace(self._gate.limits, total_seconds=seconds, body_bytes=MAX_BYTES, cut=True))
        response = await self._gate.send_in_turn(lease, url, options)
        for _ in range(MAX_HOPS):
            target = redirect_target(response)
            if target is None:
                break
            host = host_of(target)
            if (
                host == lease.host.host
                or (await self._gate.get_or_create_host(host)).politeness_key == lease.host.politeness_key
            ):
                response = await self._gate.send_in_turn(lease, target, options)
            else:
                response = await self._ask_other_host(lease, target, options)
        return response

    async def _ask_other_host(self, lease: HostLease, url: str, options: RequestOptions) -> Response:
        """Ask another host if it is free now. Two hosts that wait for each other would both stay leased."""
        try:
            async with self._gate.lease_host(host_of(url), timedelta(0), lease.slot) as other:
                other.before_send = lease.before_send
                return await self._gate.send_in_turn(other, url, options)
        except NotNow as error:
            if error.reason is Reason.HOST_CLOSED:
                raise await self._block(lease, Reason.ROBOTS_UNREACHABLE, str(error)) from error
            raise

    async def _block(self, lease: HostLease, failure: Reason, detail: str, least: timedelta = timedelta(0)) -> NotNow:
        """Send a host no request for a while, because its robots.txt cannot be read. Return the error that says so.

        A claim finds no URL of a blocked host. It finds the URLs of a host that is gone, and ends them without a
        request. It also finds the URLs of a host that shares its turn, because the others must not wait for that host.
        """
        now = self._clock.now()
        if now >= lease.until:  # this process was late, and another one may have asked the host since
            return NotNow(f"The lease of {lease.host.host} ended before its robots.txt was read.", until=now)
        host = record_failure(lease.host, failure, now, least)
        await self._gate.save_failure(lease, host)
        assert host.retry_at is not None
        if host.politeness_key == host.host and not is_gone(host):
            lease.block(host.retry_at, Reason.ROBOTS_UNREACHABLE)
        log.warning(
            "host.failed",
            host=host.host,
            reason=str(failure),
            detail=detail,
            failures=host.failures,
            retry_at=host.retry_at.isoformat(),
            is_gone=is_gone(host),
        )
        return refuse_failing(host, host.retry_at, now)
