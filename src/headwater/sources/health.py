"""The health of a source and of each of its methods, and the sentence that explains it (spec 3.2)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from headwater.core import cron
from headwater.core.errors import HeadwaterError
from headwater.core.poll import OlderPages, describe_older
from headwater.core.reasons import Reason, ReasonClass
from headwater.core.record import extend, record
from headwater.core.redirect_history import RedirectHistory
from headwater.core.source import Method
from headwater.core.text import format_duration
from headwater.db.sources import MethodRow, MethodState, SourceItem, SourceRow
from headwater.feeds.flaws import FeedFlaw, read_flaws
from headwater.sources.kind import Kind
from headwater.sources.registry import configure

_LATE_AFTER = timedelta(minutes=5)
SILENT_AFTER = timedelta(days=7)
_SILENT_GAPS = 10
_SILENT_WITHOUT_GAP = timedelta(days=30)
_OUR_FAILURES = timedelta(days=1)
_ENDLESS = timedelta(days=365 * 100)
_PREFIXES = {Method.FEED: "", Method.SITEMAP: "Sitemaps: ", Method.SPIDER: "Spider: "}
_SUBJECTS = {Method.FEED: "Its list is", Method.SITEMAP: "Its sitemaps are", Method.SPIDER: "Its pages are"}


class SourceHealth(StrEnum):
    """The health of a source, the worst first."""

    FAILING = "failing"
    LATE = "late"
    FLAWED = "flawed"
    SILENT = "silent"
    NEW = "new"
    ON_TIME = "on_time"
    DISABLED = "disabled"

    @property
    def rank(self) -> int:
        """The place in a list that has the worst first."""
        return _RANKS[self]


_RANKS = {health: rank for rank, health in enumerate(SourceHealth)}


@record
class ReadProblem:
    """An address that the last good poll could not read, or could read with a flaw."""

    url: str
    problem: str
    """The problem, for a person."""
    flaw: FeedFlaw | None = None
    """The flaw of a feed that was read. Null if the address could not be read."""


@record
class SourceMethod(MethodState):
    """One method of a source and its health."""

    health: SourceHealth
    why: str
    problems: list[ReadProblem]
    """The addresses that the last good poll could not read, and the flaws of its feed."""
    flaws: list[FeedFlaw]
    """The flaws of its feed."""
    older: OlderPages | None
    """The pages of its sitemaps that are too old to be taken; null if there are none."""


@record
class SourceSummary(SourceRow):
    """A source and its health, which is the worst of its methods. `last_...` are those of its first method."""

    category: str
    health: SourceHealth
    why: str
    """Why it has this health, for a person."""
    methods: list[SourceMethod]


@record
class SourceDetails(SourceSummary):
    """Everything that is known about a source."""

    defaults: Mapping[str, Any]
    """The values of the settings that it does not override."""
    urls: Mapping[str, int]
    """The number of its URLs, by status."""
    last_items: list[SourceItem]


class HealthReport(NamedTuple):
    """A health and why."""

    health: SourceHealth
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PollHistory:
    """The polls of one method. `next_poll_at` is None if it follows a schedule or is polled only on request."""

    added_at: datetime
    enabled: bool = True
    scheduled: bool = False
    polling: bool = False  # a poll runs now
    next_poll_at: datetime | None = None
    last_polled_at: datetime | None = None
    last_success_at: datetime | None = None
    consecutive_errors: int = 0
    failing_since: datetime | None = None
    last_error: str | None = None  # None: the last poll succeeded
    last_reason: str | None = None
    last_new_at: datetime | None = None
    usual_gap: timedelta | None = None  # between two new items
    flaws: Sequence[FeedFlaw] = ()  # of the feed as it was read last


def assess_health(history: PollHistory, now: datetime, check_interval: timedelta) -> HealthReport:
    """Assess one method. `check_interval` is the time between two checks for due polls."""
    if not history.enabled:
        return HealthReport(SourceHealth.DISABLED, "It is disabled. It is not polled until it is enabled again.")
    if history.consecutive_errors:
        is_first = history.consecutive_errors == 1
        times = "once," if is_first else f"{history.consecutive_errors} times in a row"
        since = (
            f" {'at' if is_first else 'since'} {history.failing_since:%Y-%m-%d %H:%M} UTC"
            if history.failing_since
            else ""
        )
        failed = f"Failed {times}{since}; {_format_last_success(history, now)}."
        parts = (failed, history.last_error, _format_next(history, now))
        return HealthReport(SourceHealth.FAILING, " ".join(filter(None, parts)))
    if history.last_error is not None and now - (history.last_success_at or history.added_at) > _OUR_FAILURES:
        why = f"{_format_last_success(history, now).capitalize()}. {_explain_uncharged(history)}"
        return HealthReport(SourceHealth.FAILING, why)
    overdue = now - history.next_poll_at if history.next_poll_at and not history.polling else timedelta(0)
    if overdue > _LATE_AFTER + 2 * check_interval:
        why = f"It has been due for {format_duration(overdue)}. Headwater was stopped, or has too much to do."
        return HealthReport(SourceHealth.LATE, why)
    if history.last_polled_at is None:
        return HealthReport(SourceHealth.NEW, f"It was never polled. {_format_next(history, now)}")
    if history.flaws:
        polled = f"Polled {_format_ago(history.last_polled_at, now)}. {_format_next(history, now)}"
        why = " ".join((*(flaw.sentence for flaw in history.flaws), polled))
        return HealthReport(SourceHealth.FLAWED, why)
    # After the last good poll, no one can know whether there was something new.
    silence = (history.last_success_at or history.added_at) - (history.last_new_at or history.added_at)
    gap = history.usual_gap
    if silence > (_SILENT_WITHOUT_GAP if gap is None else max(SILENT_AFTER, gap * _SILENT_GAPS)):
        usual = f" Usually it has an item every {format_duration(gap)}." if gap else ""
        why = f"It has had no new item for {format_duration(silence)}.{usual} Its polls succeed."
        return HealthReport(SourceHealth.SILENT, why)
    why = f"Polled {_format_ago(history.last_polled_at, now)}. {_format_next(history, now)}"
    return HealthReport(SourceHealth.ON_TIME, f"{why} {_explain_uncharged(history)}" if history.last_error else why)


def _explain_uncharged(history: PollHistory) -> str:
    """Explain a failure that is not charged: it was our own, or the method was read only on request."""
    is_ours = history.last_reason is not None and Reason.of(history.last_reason).kind is ReasonClass.OURS
    return f"The last poll failed{' on our side' if is_ours else ''}: {history.last_error}"


def _format_last_success(history: PollHistory, now: datetime) -> str:
    return f"last read {_format_ago(history.last_success_at, now)}" if history.last_success_at else "never read yet"


def _format_next(history: PollHistory, now: datetime) -> str:
    if history.polling:
        return "It is polled now."
    if history.next_poll_at is None:
        return "It follows its schedule." if history.scheduled else "It is polled only on request."
    if history.next_poll_at - now > _ENDLESS:
        return "It waits until its host is released."
    is_due = history.next_poll_at <= now
    return "It is due." if is_due else f"Next in {format_duration(history.next_poll_at - now)}."


def _format_ago(moment: datetime, now: datetime) -> str:
    return f"{format_duration(max(now - moment, timedelta(0)))} ago"


def summarize_source(
    row: SourceRow, rows: Iterable[MethodRow], now: datetime, check_interval: timedelta, timezone: str
) -> SourceSummary:
    """Return a source with its methods and its health, which is the worst of its methods."""
    kind = configure_or_explain(row)
    methods = [_describe_method(one, row, kind, now, check_interval, timezone) for one in rows]
    worst = min(
        (one for one in methods if one is methods[0] or _affects_health(one)),
        key=lambda one: one.health.rank,
        default=None,
    )
    if isinstance(kind, str):
        report = HealthReport(SourceHealth.FAILING, kind)
    elif worst:
        report = HealthReport(worst.health, _PREFIXES[worst.method] + worst.why + _explain_sooner(methods, worst, now))
    else:
        report = HealthReport(SourceHealth.ON_TIME, "It is not polled: its pages are submitted.")
    return extend(
        row,
        SourceSummary,
        category=row.settings.get("category") or "",
        health=report.health,
        why=report.why,
        next_poll_at=min((one.next_poll_at for one in methods if one.next_poll_at), default=None),
        methods=methods,
    )


def configure_or_explain(row: SourceRow) -> Kind | str:
    """Return the kind of a source, or why its settings cannot work."""
    return configure_json(row.name, row.kind, msgspec.json.encode(row.settings))


@lru_cache(maxsize=16_384)  # each list of sources configures all sources
def configure_json(name: str, kind: str, settings: bytes | str) -> Kind | str:
    """Return the kind of a source whose settings are JSON, or why its settings cannot work."""
    try:
        return configure(name, kind, msgspec.json.decode(settings))
    except HeadwaterError as error:
        return str(error)


def _describe_method(
    method: MethodRow, row: SourceRow, kind: Kind | str, now: datetime, check_interval: timedelta, timezone: str
) -> SourceMethod:
    is_main = method.method is Method.FEED
    schedule = kind.schedule if isinstance(kind, Kind) and is_main else None
    next_poll_at, next_poll_why = method.next_poll_at, method.next_poll_why
    zone = (kind.timezone if isinstance(kind, Kind) else None) or timezone
    if not row.enabled:
        next_poll_at = next_poll_why = None
    elif schedule and isinstance(kind, Kind):
        next_poll_at = cron.next_slot(schedule, zone, now)
        next_poll_why = f"At its schedule, {schedule} ({zone})."
    gap = row.usual_gap_seconds if is_main else None
    flaws = read_flaws(method.flaws)
    history = extend(
        method,
        PollHistory,
        added_at=row.created_at,
        enabled=row.enabled,
        scheduled=schedule is not None,
        next_poll_at=next_poll_at,
        usual_gap=None if gap is None else timedelta(seconds=gap),
        flaws=flaws,
    )
    report = assess_health(history, now, check_interval)
    unread = _read_problems(method.problems)
    address = row.settings.get("feed_url") or row.settings.get("site_url") or row.name
    redirect = RedirectHistory.from_json(method.redirect)
    why = report.why
    if unread and method.last_error is None:
        what = "address" if len(unread) == 1 else "addresses"
        why = f"{why} The last poll could not read {len(unread)} {what}."
    return extend(
        method,
        SourceMethod,
        next_poll_at=next_poll_at,
        next_poll_why=next_poll_why,
        health=report.health,
        why=f"{why} {redirect.explain(now)}" if redirect else why,
        problems=[*unread, *(ReadProblem(address, flaw.sentence, flaw) for flaw in flaws)],
        flaws=flaws,
        older=describe_older(method.older, row.name, zone),
    )


def _read_problems(stored: Any) -> list[ReadProblem]:
    try:
        return msgspec.convert(stored or [], list[ReadProblem])
    except msgspec.ValidationError:  # a kind may keep something else under that name
        return []


def _affects_health(method: SourceMethod) -> bool:
    """Return whether a second method affects the health. A method without a poll, or that is never due, does not."""
    is_polled = method.next_poll_at is not None and method.health is not SourceHealth.NEW
    return is_polled or method.consecutive_errors > 0


def _explain_sooner(methods: list[SourceMethod], shown: SourceMethod, now: datetime) -> str:
    """Return a sentence about the method that is polled before the shown one, or an empty text."""
    due = [(one.next_poll_at, one) for one in methods if one.next_poll_at]
    at, first = min(due, key=lambda pair: pair[0], default=(None, None))
    if at is None or first is None or (shown.next_poll_at and shown.next_poll_at <= at):
        return ""
    if first.polling:
        return f" {_SUBJECTS[first.method]} polled now."
    if at <= now:
        return f" {_SUBJECTS[first.method]} due."
    return f" {_SUBJECTS[first.method]} read first, in {format_duration(at - now)}."
