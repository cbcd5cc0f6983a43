"""The records of hosts, and the sentence that explains the state of a host."""

from dataclasses import asdict
from datetime import datetime
from enum import StrEnum

from headwater.core.frontier import HostState
from headwater.core.host_wait import HostWait
from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.db.hosts import HostRow


class HostDelayOrigin(StrEnum):
    """The origin of the delay between two requests to a host."""

    SETTING = "setting"
    ROBOTS = "robots"  # the Crawl-delay of its robots.txt
    BACKOFF = "backoff"  # the host asked for fewer requests


@record
class HostLine(HostRow):
    """A host, or a turn that several hosts share (`group:`, `domain:`)."""

    why: str
    """The reason of its state, for a person."""
    delay_origin: HostDelayOrigin
    """The origin of its delay."""


@record
class HostDetails(HostLine):
    """A host with its robots.txt."""

    robots_txt: str | None
    """Null if it had none when it was read, or if it was not read yet."""


def describe_host(row: HostRow, now: datetime) -> HostLine:
    """Return a host with the reason of its state."""
    return HostLine(**asdict(row), why=_explain(row, now), delay_origin=_find_delay_origin(row))


def _find_delay_origin(host: HostRow) -> HostDelayOrigin:
    if host.backoff_ms >= host.delay_ms > 0:
        return HostDelayOrigin.BACKOFF
    return HostDelayOrigin.SETTING if host.crawl_delay_ms is None else HostDelayOrigin.ROBOTS


def _explain(host: HostRow, now: datetime) -> str:
    shared = f"It shares the turn of {host.shares_turn_of}. " if host.shares_turn_of else ""
    turn = host.next_turn_at
    match host.state:
        case HostState.CLOSED:
            until = f"Until {turn:%Y-%m-%d %H:%M} UTC." if turn else "Until it is released."
            why = f"{Reason.HOST_CLOSED.sentence} {until}"
        case HostState.IN_USE:
            why = "A request to it is under way."
        case HostState.BLOCKED:
            reason = Reason.of(host.failure or host.blocked_reason or "")
            silent = f" It has not answered since {host.silent_since:%Y-%m-%d %H:%M} UTC." if host.silent_since else ""
            why = HostWait(host.host, turn, reason, host.failed_at).explain(now) + silent
        case HostState.WAITING if turn and turn <= now:
            why = "Its turn has come."
        case HostState.WAITING if host.backoff_ms:
            why = "It asked for fewer requests, so its delay is longer for a while."
        case HostState.WAITING:
            why = "It waits for its next turn."
        case _:
            why = "No URL is queued for it."
    return shared + why
