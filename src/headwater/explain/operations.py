"""The operation `why URL`: gather everything that is known about a URL, and explain it."""

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime

from headwater.core.errors import HeadwaterError, OperatorError
from headwater.core.reasons import Reason
from headwater.core.record import extend
from headwater.core.settings import Settings
from headwater.core.urls import identify, url_hash
from headwater.db import hosts
from headwater.db.context import DatabaseContext
from headwater.db.hosts import FOREVER, HostFacts
from headwater.db.why import StoredUrl, read_url
from headwater.explain.messages import describe_url, find_next_time
from headwater.explain.report import FETCHING, DelayOrigin, HostReport, PriorityReport, RobotsReport
from headwater.explain.report import Why as Why
from headwater.frontier.submit import ORIGIN_BONUS, priority
from headwater.frontier.watches import describe_watch
from headwater.politeness.host_lease import capped_crawl_delay_ms, robots_are_fresh
from headwater.politeness.robots import RobotsVerdict, check_robots
from headwater.politeness.robots_gate import ROBOTS_AGENT
from headwater.sandbox.pool import Sandbox
from headwater.sources.registry import get_kind


async def explain(context: DatabaseContext, url: str, sandbox: AbstractAsyncContextManager[Sandbox]) -> Why:
    """Return everything that is known about a URL. Raises an error for an unusable or unknown address."""
    now = context.clock.now()
    async with context.database.connection() as connection:
        identity, _ = identify(url, keeps_slash=await hosts.list_slash_hosts(connection))
        known = await read_url(connection, url_hash(identity), now)
    if known is None:
        raise OperatorError(
            f"{identity} has never been seen here: no source lists it, and no one has submitted it.",
            reason=Reason.UNKNOWN_URL,
            url=identity,
        )
    robots = await _report_robots(known, now, sandbox)
    why = _report(known, robots, context.settings, asked=url, now=now)
    return replace(why, next_at=find_next_time(why), lines=describe_url(why))


async def _report_robots(
    known: StoredUrl, now: datetime, sandbox: AbstractAsyncContextManager[Sandbox]
) -> RobotsReport:
    """Check the address against the robots.txt of its host, in the sandbox: the file comes from outside."""
    host = known.host
    report = RobotsReport(
        read_at=host.robots_fetched_at,
        exists=host.robots_txt is not None,
        fresh=robots_are_fresh(host.robots_fetched_at, now),
    )
    if host.robots_txt is None:
        return replace(report, allowed=True) if report.read_at else report
    try:
        async with sandbox as opened:
            verdict = await opened.run(
                check_robots, host.robots_txt, ROBOTS_AGENT, known.facts.url, returns=RobotsVerdict
            )
    except HeadwaterError as error:
        return replace(report, trouble=str(error))
    report = replace(report, allowed=verdict.allowed, crawl_delay_seconds=verdict.crawl_delay)
    rule = verdict.rule
    return replace(report, line=rule.line, rule=rule.text, agent=rule.agent) if rule else report


def _report(known: StoredUrl, robots: RobotsReport, settings: Settings, *, asked: str, now: datetime) -> Why:
    facts = known.facts
    is_fetching = facts.queued is not None and facts.queued.lease_holder is not None
    facts = replace(facts, status=FETCHING if is_fetching else facts.status, moved_to=_find_target(known))
    return extend(
        facts,
        Why,
        asked=asked,
        asked_at=now,
        source=known.source.name,
        by_redirect=known.hops > 0,
        priority=_report_priority(known),
        robots=robots,
        host=_report_host(known, robots, settings, now),
        max_attempts=settings.max_retries + 1,
        watch=describe_watch(known.watch) if known.watch.own_policy or known.watch.policy else None,
    )


def _find_target(known: StoredUrl) -> str | None:
    """Return the redirect target of a page. The fetch log names it best, but old rows are deleted."""
    facts = known.facts
    if facts.reason is not Reason.REDIRECT:
        return None
    last = facts.fetches[-1] if facts.fetches else None
    return last.detail if last and last.reason is Reason.REDIRECT else facts.moved_to


def _report_priority(known: StoredUrl) -> PriorityReport:
    facts = known.facts
    try:
        base = get_kind(known.source).priority
    except OperatorError:  # the kind is not installed, or refuses the settings
        base = None
    return PriorityReport(
        now=facts.queued.priority if facts.queued else None,
        source=base,
        origin=ORIGIN_BONUS[facts.origin],
        depth=known.depth,
        sum=None if base is None else priority(base, facts.origin, known.depth),
    )


def _report_host(known: StoredUrl, robots: RobotsReport, settings: Settings, now: datetime) -> HostReport:
    host = known.host
    pause_ms, pause_from = _find_pause(host, known.page_delay_ms, robots, settings)
    closed = host.closed_until is not None and host.closed_until > now
    free_at = max(host.not_before, host.retry_at or host.not_before)
    is_waiting = free_at > now
    is_failing = host.retry_at is not None and host.retry_at > now
    return HostReport(
        name=host.host,
        shares_turn=host.politeness_key if host.politeness_key != host.host else None,
        pause_ms=pause_ms,
        pause_from=pause_from,
        backoff_ms=host.backoff_ms,
        backoff_since=host.last_throttled_at if host.backoff_ms else None,
        free_at=free_at if is_waiting else None,
        in_use_by=host.lease_holder,
        blocked=Reason.ROBOTS_UNREACHABLE if is_failing else host.blocked_reason if is_waiting else None,
        silent_since=host.silent_since,
        failure=host.failure,
        failed_at=host.failed_at,
        closed=closed,
        closed_until=host.closed_until if closed and host.closed_until != FOREVER else None,
    )


def _find_pause(
    host: HostFacts, page_delay_ms: int | None, robots: RobotsReport, settings: Settings
) -> tuple[int, DelayOrigin]:
    if host.crawl_delay_ms is not None:
        own = capped_crawl_delay_ms(robots.crawl_delay_seconds, settings.crawl_delay_cap_seconds)
        is_shared = host.politeness_key != host.host and own != host.crawl_delay_ms
        return host.crawl_delay_ms, DelayOrigin.SHARED if is_shared else DelayOrigin.ROBOTS
    if page_delay_ms is not None:
        return page_delay_ms, DelayOrigin.SOURCE
    return settings.host_delay_ms, DelayOrigin.DEFAULT
