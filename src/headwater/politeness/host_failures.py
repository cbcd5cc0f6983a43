"""The failures of a host: how long it is left alone after each, and when it is given up (spec 4.1, 11.3)."""

from dataclasses import replace
from datetime import datetime, timedelta

from headwater.core.errors import NotNow
from headwater.core.frontier import HostRecord
from headwater.core.host_wait import HostWait
from headwater.core.reasons import Reason
from headwater.db.hosts import FOREVER

# A host whose robots.txt cannot be read waits twice as long after each failure.
_FIRST_WAIT = timedelta(minutes=10)
_LONGEST_WAIT = timedelta(hours=24)
_GONE_AFTER = timedelta(days=7)
_GONE_FAILURES = 8  # Headwater may have been stopped for most of these days
_NO_ANSWER = frozenset({Reason.DNS, Reason.CERTIFICATE, Reason.NETWORK, Reason.TIMEOUT})
_LONG_WAIT = timedelta(minutes=1)


def is_silent(failure: Reason) -> bool:
    """Return whether a request that failed for this reason had no answer."""
    return failure in _NO_ANSWER


def record_silence(host: HostRecord, failure: Reason, now: datetime) -> HostRecord:
    """Return the host after a request without an answer. Its robots.txt then shows whether the host can be reached."""
    return replace(host, silent_since=host.silent_since or now, failure=failure, failed_at=now)


def record_failure(host: HostRecord, failure: Reason, now: datetime, least: timedelta = timedelta(0)) -> HostRecord:
    """Return the host after its robots.txt could not be read.

    The wait grows from 10 minutes to 24 hours. Without any answer so far, the host is asked once more after 7 days.
    """
    wait = max(least, min(_FIRST_WAIT * 2 ** min(host.failures, 10), _LONGEST_WAIT))
    silent_since = (host.silent_since or now) if is_silent(failure) else None
    retry_at = now + wait
    if silent_since and now < silent_since + _GONE_AFTER < retry_at:
        retry_at = silent_since + _GONE_AFTER
    return replace(
        host,
        silent_since=silent_since,
        failures=host.failures + 1,
        failure=failure,
        failed_at=now,
        retry_at=retry_at,
    )


def is_gone(host: HostRecord) -> bool:
    """Return whether a host has not answered for 7 days, so that its pages are given up (spec 11.3)."""
    if host.silent_since is None or host.failed_at is None or host.failures < _GONE_FAILURES:
        return False
    return host.failed_at - host.silent_since >= _GONE_AFTER


def refuse(host: HostRecord, until: datetime, reason: Reason | None, now: datetime) -> NotNow:
    """Return the error for a host that may not be asked yet. A short wait between two requests has no reason."""
    if reason is Reason.ROBOTS_UNREACHABLE and host.failure:
        return refuse_failing(host, until, now)
    if reason is None and until - now < _LONG_WAIT:
        return NotNow(f"{host.host} may not be asked before {until:%H:%M:%S} UTC.", until=until)
    reason = reason or Reason.HOST_BUSY
    since = host.last_throttled_at if reason is Reason.RATE_LIMITED else None
    wait = HostWait(host.host, None if until == FOREVER else until, reason, since)
    return NotNow(wait.explain(now), until=until, reason=reason, wait=wait)


def refuse_failing(host: HostRecord, until: datetime, now: datetime) -> NotNow:
    """Return the error for a host that gets no request because its robots.txt cannot be read."""
    wait = HostWait(host.host, until, host.failure or Reason.ROBOTS_UNREACHABLE, host.failed_at, is_gone=is_gone(host))
    reason = Reason.HOST_GONE if wait.is_gone else Reason.ROBOTS_UNREACHABLE
    return NotNow(wait.explain(now), until=until, reason=reason, wait=wait)
