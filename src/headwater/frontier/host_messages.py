"""How a host is told of: its state, why it is so, and when its next turn is."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headwater.core.reasons import Reason


def tell_host(row: Mapping[str, Any], now: datetime, default_delay_ms: int, forever: datetime) -> dict[str, Any]:
    """Tell of a host as it is listed; times that are not known, or not to be known, are None."""
    crawl_delay_ms = default_delay_ms if row["crawl_delay_ms"] is None else row["crawl_delay_ms"]
    closed_until = row["closed_until"] if row["state"] == "closed" and row["closed_until"] != forever else None
    turns = {"closed": closed_until, "blocked": row["not_before"], "waiting": row["ready_at"]}
    return {
        "host": row["host"],
        "state": row["state"],
        "why": _why(row, closed_until, now),
        "next_turn_at": turns.get(row["state"]),
        "delay_ms": max(crawl_delay_ms, row["backoff_ms"]),
        "crawl_delay_ms": row["crawl_delay_ms"],
        "backoff_ms": row["backoff_ms"],
        "queued": row["queued"],
        "shares_turn_of": row["shares_turn_of"],
        "keeps_slash": row["keeps_slash"],
        "robots_fetched_at": row["robots_fetched_at"],
        "in_use_by": row["lease_holder"],
    }


def _why(row: Mapping[str, Any], closed_until: datetime | None, now: datetime) -> str:
    shared = f"It shares the turn of {row['shares_turn_of']}. " if row["shares_turn_of"] else ""
    match row["state"]:
        case "closed":
            until = f"Until {closed_until:%Y-%m-%d %H:%M} UTC." if closed_until else "Until it is released."
            why = f"{Reason.HOST_CLOSED.sentence} {until}"
        case "in_use":
            why = "It is being asked just now."
        case "blocked":
            why = Reason.of(row["blocked_reason"]).sentence
        case "waiting" if row["ready_at"] <= now:
            why = "Its turn has come."
        case "waiting" if row["backoff_ms"]:
            why = "It asked for fewer requests, so its pause is longer for a while."
        case "waiting":
            why = "It waits for its next turn."
        case _:
            why = "Nothing is queued for it."
    return shared + why
