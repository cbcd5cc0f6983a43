"""How sources are doing, in the words that doors show."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypedDict

import msgspec

from headwater.core import cron
from headwater.core.errors import HeadwaterError
from headwater.core.redirect_history import RedirectHistory
from headwater.core.source import Method
from headwater.core.text import format_duration
from headwater.sources.health import Health, Polls, Verdict, health
from headwater.sources.kind import Kind
from headwater.sources.registry import configure

HEALTHS = tuple(str(word) for word in Health)
_NOTHING_TO_POLL = Verdict(Health.ON_TIME, "Nothing is polled: its pages are handed in.")
_SPOKEN = {Method.FEED: "", Method.SITEMAP: "Sitemaps: ", Method.SPIDER: "Spider: "}
_SUBJECTS = {Method.FEED: "Its list is", Method.SITEMAP: "Its sitemaps are", Method.SPIDER: "Its pages are"}


class Problem(TypedDict):
    """What a reading had to go on without."""

    url: str
    problem: str


def tell_source(
    row: Mapping[str, Any], methods: Iterable[Mapping[str, Any]], now: datetime, look: timedelta, timezone: str
) -> dict[str, Any]:
    """Return a source's row with its health, which is that of its worst pass, why it is so, and its methods."""
    told = [
        one | {"health": verdict.health, "why": verdict.why + _unread(one) + _moved(one.pop("moved"), now)}
        for one, verdict in _judged(row, methods, now, look, timezone)
    ]
    judged = [one for one in told if one is told[0] or _speaks(one)]
    worst = min(judged, key=lambda one: one["health"].rank, default=None)
    verdict = Verdict(worst["health"], _SPOKEN[Method(worst["method"])] + worst["why"]) if worst else _NOTHING_TO_POLL
    kind = kind_or_why(row)
    if isinstance(kind, str):
        verdict = Verdict(Health.FAILING, kind)
    elif worst:
        verdict = Verdict(verdict.health, verdict.why + _sooner(told, worst, now))
    gap = row["usual_gap"]
    upcoming = [one["next_poll_at"] for one in told if one["next_poll_at"]]
    return {
        **{name: value for name, value in row.items() if name != "usual_gap"},
        "usual_gap_seconds": None if gap is None else gap.total_seconds(),
        "category": row["settings"].get("category") or "",
        "health": verdict.health,
        "why": verdict.why,
        "next_poll_at": min(upcoming, default=None),
        "methods": told,
    }


def _sooner(methods: list[dict[str, Any]], spoken_of: Mapping[str, Any], now: datetime) -> str:
    """Say which pass is read before the one that was spoken of, if any is."""
    due = [one for one in methods if one["next_poll_at"]]
    first = min(due, key=lambda one: one["next_poll_at"], default=None)
    if first is None or (spoken_of["next_poll_at"] and spoken_of["next_poll_at"] <= first["next_poll_at"]):
        return ""
    if first["polling"]:
        return f" {_SUBJECTS[first['method']]} being read just now."
    if first["next_poll_at"] <= now:
        return f" {_SUBJECTS[first['method']]} due now."
    return f" {_SUBJECTS[first['method']]} read first, in {format_duration(first['next_poll_at'] - now)}."


def _speaks(one: Mapping[str, Any]) -> bool:
    """Tell whether a pass beside the first says something of its source: not while it was never read, nor due."""
    is_due_some_day = one["next_poll_at"] is not None and one["health"] is not Health.NEW
    return is_due_some_day or one["consecutive_errors"] > 0


def kind_or_why(row: Mapping[str, Any]) -> Kind | str:
    """Return the kind of a source's row, configured, or why it cannot be."""
    try:
        return configure(row["name"], row["kind"], row["settings"])
    except HeadwaterError as error:
        return str(error)


def _judged(
    row: Mapping[str, Any], methods: Iterable[Mapping[str, Any]], now: datetime, look: timedelta, timezone: str
) -> list[tuple[dict[str, Any], Verdict]]:
    kind = kind_or_why(row)
    schedule = None if isinstance(kind, str) else kind.schedule
    judged = []
    for one in map(dict, methods):
        if schedule and one["method"] == Method.FEED:
            zone = (not isinstance(kind, str) and kind.timezone) or timezone
            one["next_poll_at"] = cron.next_slot(schedule, zone, now)
            one["next_poll_why"] = f"At its schedule, {schedule} ({zone})."
        if not row["enabled"]:
            one["next_poll_at"] = one["next_poll_why"] = None
        one["problems"] = _problems(one)
        judged.append((one, health(_polls(row, one, scheduled=schedule is not None), now, look)))
    return judged


def _moved(watched: object, now: datetime) -> str:
    """Say where an address redirects to, while that is not sure enough to be learned."""
    move = RedirectHistory.from_json(watched)
    return f" {move.explain(now)}" if move else ""


def _problems(one: Mapping[str, Any]) -> list[Problem]:
    """Return what the last reading of a pass went on without; a kind may keep something else under that name."""
    try:
        return msgspec.convert(one["problems"] or [], list[Problem])
    except msgspec.ValidationError:
        return []


def _unread(one: Mapping[str, Any]) -> str:
    """Say how much a reading that went well had to leave out."""
    count = len(one["problems"])
    if not count or one["last_error"] is not None:
        return ""
    return f" The last reading went on without {count} {'address' if count == 1 else 'addresses'} it could not read."


def _polls(row: Mapping[str, Any], one: Mapping[str, Any], *, scheduled: bool) -> Polls:
    is_main = one["method"] == Method.FEED
    return Polls(
        added_at=row["created_at"],
        enabled=row["enabled"],
        scheduled=scheduled and is_main,
        polling=one["polling"],
        next_poll_at=one["next_poll_at"],
        last_polled_at=one["last_polled_at"],
        last_success_at=one["last_success_at"],
        consecutive_errors=one["consecutive_errors"],
        last_error=one["last_error"],
        last_new_at=one["last_new_at"],
        usual_gap=row["usual_gap"] if is_main else None,
    )
