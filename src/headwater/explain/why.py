"""`headwater why URL`: all that is known of a URL. The facts are gathered here; `why_words` puts them into words."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from headwater.core.errors import HeadwaterError, OperatorError
from headwater.core.frontier import Origin
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.core.urls import identify, url_hash
from headwater.db import hosts
from headwater.db.context import DatabaseContext
from headwater.db.why import Fetch, HandedOff, KeptDocument, Known, Queued, Sighting, WaitingJob, read_all
from headwater.frontier.operations import FOREVER
from headwater.frontier.priority import ORIGIN_BONUS, priority
from headwater.politeness.gate import ROBOTS_AGENT
from headwater.politeness.host_lease import capped_crawl_delay_ms, robots_are_fresh
from headwater.politeness.robots import RobotsVerdict, check_robots
from headwater.sandbox.pool import Sandbox
from headwater.sources.registry import get_kind

FETCHING = "fetching"


class DelayFrom(StrEnum):
    """Who says how long a host is left alone between two requests."""

    ROBOTS = "robots.txt"
    SHARED = "robots.txt of another host that shares its turn"
    SOURCE = "source"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Priority:
    """How important a URL is, 1 to 10: in the queue now, and by the sum of its source, origin and depth."""

    now: int | None  # None: it is not queued
    source: int | None  # None: its source cannot be read
    origin: int
    depth: int
    sum: int | None


@dataclass(frozen=True, slots=True)
class Robots:
    """What the host's robots.txt says about the address, and the line that says so."""

    read_at: datetime | None  # None: not read yet
    exists: bool
    fresh: bool
    allowed: bool | None = None  # None: it cannot be told
    line: int | None = None
    rule: str | None = None
    agent: str | None = None
    crawl_delay_seconds: float | None = None  # as it is written there
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """How the host is treated, and what keeps it from being asked."""

    name: str
    shares_turn: str | None  # the politeness key it has in common with others
    pause_ms: int
    pause_from: DelayFrom
    backoff_ms: int
    backoff_since: datetime | None
    free_at: datetime | None  # None: now
    in_use_by: str | None
    blocked: Reason | None
    closed: bool
    closed_until: datetime | None  # None: until it is released


@dataclass(frozen=True, slots=True)
class Why:
    """All that is known of a URL at a moment."""

    asked: str
    asked_at: datetime
    url: str
    status: str  # pending, fetching, fetched, dead
    reason: Reason | None
    last_fetched_at: datetime | None
    fetch_count: int
    discovered_at: datetime
    source: str
    origin: Origin
    came_from: str | None
    by_redirect: bool
    same_as: str | None
    moved_to: str | None
    other_addresses: tuple[str, ...]
    sightings: tuple[Sighting, ...]
    sightings_total: int
    priority: Priority
    robots: Robots
    host: Host
    queued: Queued | None
    max_attempts: int
    fetches: tuple[Fetch, ...]
    fetches_total: int
    document: KeptDocument | None
    handoffs: tuple[HandedOff, ...]
    jobs: tuple[WaitingJob, ...]


async def explain(context: DatabaseContext, url: str, sandbox: AbstractAsyncContextManager[Sandbox]) -> Why:
    """Gather all that is known of a URL; raise for one that cannot be one or has never been seen."""
    now = context.clock.now()
    async with context.database.connection() as connection:
        identity, _ = identify(url, keeps_slash=await hosts.slash_hosts(connection))
        known = await read_all(connection, url_hash(identity), now)
    if known is None:
        raise OperatorError(
            f"{identity} has never been seen here: no source lists it and nobody has handed it in.",
            reason=Reason.UNKNOWN_URL,
            url=identity,
        )
    robots = await _robots(known, now, sandbox)
    return gather(known, robots, context.settings, asked=url, now=now)


async def _robots(known: Known, now: datetime, sandbox: AbstractAsyncContextManager[Sandbox]) -> Robots:
    """Hold the address against the host's robots.txt; it came from outside, so that is done in a child process."""
    host = known.host
    read = Robots(
        read_at=host.robots_fetched_at,
        exists=host.robots_txt is not None,
        fresh=robots_are_fresh(host.robots_fetched_at, now),
    )
    if host.robots_txt is None:
        return replace(read, allowed=True) if read.read_at else read
    try:
        async with sandbox as opened:
            verdict = await opened.run(check_robots, host.robots_txt, ROBOTS_AGENT, known.url, returns=RobotsVerdict)
    except HeadwaterError as error:
        return replace(read, trouble=str(error))
    read = replace(read, allowed=verdict.allowed, crawl_delay_seconds=verdict.crawl_delay)
    rule = verdict.rule
    return replace(read, line=rule.line, rule=rule.text, agent=rule.agent) if rule else read


def gather(known: Known, robots: Robots, settings: Settings, *, asked: str, now: datetime) -> Why:
    """Make the answer from what is stored, what robots.txt says and the settings in force."""
    return Why(
        asked=asked,
        asked_at=now,
        url=known.url,
        status=FETCHING if known.queued and known.queued.lease_holder else known.status,
        reason=known.reason,
        last_fetched_at=known.last_fetched_at,
        fetch_count=known.fetch_count,
        discovered_at=known.discovered_at,
        source=known.source.name,
        origin=known.origin,
        came_from=known.came_from,
        by_redirect=known.hops > 0,
        same_as=known.same_as,
        moved_to=_moved_to(known),
        other_addresses=known.other_addresses,
        sightings=known.sightings,
        sightings_total=known.sightings_total,
        priority=_priority(known),
        robots=robots,
        host=_host(known, robots, settings, now),
        queued=known.queued,
        max_attempts=settings.max_retries + 1,
        fetches=known.fetches,
        fetches_total=known.fetches_total,
        document=known.document,
        handoffs=known.handoffs,
        jobs=known.jobs,
    )


def _moved_to(known: Known) -> str | None:
    """Name where a page has moved to: the log does, even if that was known before, but the log is not kept for ever."""
    if known.reason is not Reason.REDIRECT:
        return None
    last = known.fetches[-1] if known.fetches else None
    return last.detail if last and last.reason is Reason.REDIRECT else known.moved_to


def _priority(known: Known) -> Priority:
    now = known.queued.priority if known.queued else None
    try:
        base = get_kind(known.source).priority
    except OperatorError:  # its kind is no longer installed, or takes other settings
        base = None
    total = None if base is None else priority(base, known.origin, known.depth)
    return Priority(now, base, ORIGIN_BONUS[known.origin], known.depth, total)


def _host(known: Known, robots: Robots, settings: Settings, now: datetime) -> Host:
    host = known.host
    pause_ms, pause_from = _pause(known, robots, settings)
    closed = host.closed_until is not None and host.closed_until > now
    return Host(
        name=host.host,
        shares_turn=host.politeness_key if host.politeness_key != host.host else None,
        pause_ms=pause_ms,
        pause_from=pause_from,
        backoff_ms=host.backoff_ms,
        backoff_since=host.last_throttled_at if host.backoff_ms else None,
        free_at=host.not_before if host.not_before > now else None,
        in_use_by=host.lease_holder,
        blocked=host.blocked_reason if host.not_before > now else None,
        closed=closed,
        closed_until=host.closed_until if closed and host.closed_until != FOREVER else None,
    )


def _pause(known: Known, robots: Robots, settings: Settings) -> tuple[int, DelayFrom]:
    host = known.host
    if host.crawl_delay_ms is not None:
        own = capped_crawl_delay_ms(robots.crawl_delay_seconds, settings.crawl_delay_cap_seconds)
        is_anothers = host.politeness_key != host.host and own != host.crawl_delay_ms
        return host.crawl_delay_ms, DelayFrom.SHARED if is_anothers else DelayFrom.ROBOTS
    if known.page_delay_ms is not None:
        return known.page_delay_ms, DelayFrom.SOURCE
    return settings.host_delay_ms, DelayFrom.DEFAULT
