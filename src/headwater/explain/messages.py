"""What is known of a URL, in plain words: pure functions of the facts that `why` has gathered."""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from headwater.core.errors import InvalidURL
from headwater.core.frontier import Origin
from headwater.core.handoff import JobStatus
from headwater.core.reasons import Reason, ReasonClass
from headwater.core.urls import normalize_url
from headwater.db.why import COUNTED, Fetch, Queued, WaitingJob
from headwater.explain.why import FETCHING, DelayFrom, Host, Priority, Robots, Why
from headwater.frontier.priority import HIGHEST

_LONGEST_TITLE = 120
_FOUND = {
    Origin.FEED: "in the feed of source {}",
    Origin.SITEMAP: "in the sitemap of source {}",
    Origin.SPIDER: "by the spider of source {}",
    Origin.MANUAL: "handed in by a person for source {}",
    Origin.CATEGORY: "handed in with a category for source {}",
}
_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
_RUNNING = "`headwater up` or `headwater worker` must be running"


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence or two, and what they are about."""

    label: str
    text: str


def tell(why: Why) -> list[Line]:
    """Put all of it into words; what happens next comes last."""
    chapters: dict[str, Callable[[Why], Iterator[str]]] = {
        "Address": _address,
        "Status": _status,
        "Seen": _seen,
        "Priority": _priority,
        "Robots": _robots,
        "Host": _host,
        "Fetches": _fetches,
        "Document": _document,
        "Hand-off": _handoffs,
    }
    lines = [Line(label, text) for label, words in chapters.items() for text in words(why)]
    return [*lines, Line("Next", next_step(why))]


def to_json(why: Why) -> dict[str, Any]:
    """Return the facts and the words for a script."""
    return asdict(why) | {"next_at": next_at(why), "lines": [asdict(line) for line in tell(why)]}


def next_at(why: Why) -> datetime | None:
    """Tell when the URL may be asked for at the earliest; None: now, or not at all without somebody's doing."""
    queued, host = why.queued, why.host
    if queued is None or queued.lease_holder or (host.closed and host.closed_until is None):
        return None
    free_at = None if host.in_use_by else host.free_at
    times = [when for when in (queued.due_at, free_at, host.closed_until) if when and when > why.asked_at]
    return max(times, default=None)


def next_step(why: Why) -> str:
    """Say what happens next, and when."""
    if why.same_as:
        return f"Nothing more: the page is kept under {why.same_as} ({_command('why', why.same_as)} tells about it)."
    if why.queued is None:
        return _after_the_end(why)
    if why.status == FETCHING:
        return _while_fetched(why, why.queued)
    return _while_waiting(why, why.queued)


def _after_the_end(why: Why) -> str:
    again = f"only when asked ({_command('frontier', 'retry', why.url)})"
    if why.reason is Reason.REDIRECT and why.moved_to:
        return f"Nothing more: the page has its own fate where it moved to ({_command('why', why.moved_to)} tells it)."
    if why.reason and why.reason.kind is ReasonClass.DONE:
        return f"Nothing more: it is stored, and fetched again {again}."
    if why.reason is Reason.ROBOTS_BLOCKED and why.robots.allowed:
        return f"Nothing by itself: robots.txt allows it by now, but it is tried again {again}."
    if why.reason is Reason.SOURCE_REMOVED:
        return f"Nothing, unless a source lists it again; else it is tried {again}."
    return f"Nothing more: it was given up, and is tried again {again}."


def _while_fetched(why: Why, queued: Queued) -> str:
    assert queued.lease_until is not None
    if queued.lease_until > why.asked_at:
        return f"It is being fetched; how that ends is known by {_moment(queued.lease_until, why)} at the latest."
    late = (
        f"Its worker should have ended at {_moment(queued.lease_until, why)}. A running Headwater takes it back within "
        "seconds"
    )
    if queued.attempts >= why.max_attempts:
        return f"{late} and gives it up: this was the last of {why.max_attempts} attempts."
    return f"{late} and tries it again, as attempt {queued.attempts + 1} of {why.max_attempts}."


def _while_waiting(why: Why, queued: Queued) -> str:
    host = why.host
    if host.closed and host.closed_until is None:
        return f"It waits until an operator releases the host ({_command('frontier', 'release', host.name)})."
    will_be = f"It will be {_prospect(why)}"
    earliest = next_at(why)
    if earliest:
        attempt = _next_attempt(why, queued)
        return f"{will_be} at {_moment(earliest, why)} at the earliest{attempt}: {_what_for(why, earliest)}"
    if host.in_use_by:
        return f"{will_be} when its turn comes: its host is being asked for something else just now."
    after = f", after {_capped_count(queued.ahead, 'page')} of its host that are ahead of it" if queued.ahead else ""
    return f"{will_be} as soon as a worker is free{after} ({_RUNNING})."


def _prospect(why: Why) -> str:
    if why.robots.fresh and why.robots.allowed is False:
        return "given up unasked, as robots.txt forbids it,"
    return "tried again" if why.fetches_total else "fetched"


def _next_attempt(why: Why, queued: Queued) -> str:
    if not why.fetches:
        return ""
    uncounted = not why.fetch_count and why.fetches[-1].attempt > queued.attempts
    last = "; the last one does not count" if uncounted else ""
    return f" (attempt {queued.attempts + 1} of {why.max_attempts}{last})"


def _what_for(why: Why, earliest: datetime) -> str:
    """Say what the URL waits for until then."""
    host = why.host
    if host.closed_until == earliest:
        return "an operator has closed the host until then."
    if host.free_at == earliest:
        return host.blocked.sentence if host.blocked else f"its host is left alone for {_pause(host)} after a request."
    return why.fetches[-1].reason.sentence if why.fetches else "it is not due sooner."


def _address(why: Why) -> Iterator[str]:
    if why.asked != why.url:
        yield f"You asked for {why.asked}; here it is written {why.url}."
    if why.same_as:
        yield f"It is another address of {why.same_as}, which is the one that is fetched."
    if why.moved_to:
        yield f"It redirects to {why.moved_to}."
    for address in why.other_addresses:
        yield f"{address} leads to the same page and is not fetched for itself."


def _status(why: Why) -> Iterator[str]:
    if why.queued is None:
        assert why.reason is not None, "an end has a reason"
        ended = f" at {_moment(why.last_fetched_at, why)}" if why.last_fetched_at else ""
        how = "Fetched" if why.status == "fetched" else "Ended" if why.moved_to else "Given up"
        yield f"{how}{ended}. {why.reason.sentence}"
    elif why.status == FETCHING:
        yield f"{_being_fetched(why, why.queued)}."
    elif why.fetch_count and why.last_fetched_at and not why.queued.attempts:
        yield f"Waiting: it had ended at {_moment(why.last_fetched_at, why)}, and somebody has asked for it again."
    elif why.fetches:
        yield f"Waiting to be tried again, after {_count(why.fetches_total, 'attempt')}."
    else:
        yield "Waiting: it has not been tried yet."


def _being_fetched(why: Why, queued: Queued) -> str:
    assert queued.lease_until is not None
    ends = "ends" if queued.lease_until > why.asked_at else "ended"
    attempt = f"attempt {queued.attempts} of {why.max_attempts}"
    return (
        f"Being fetched, {attempt}, by {queued.lease_holder}, whose lease {ends} at {_moment(queued.lease_until, why)}"
    )


def _seen(why: Why) -> Iterator[str]:
    first = f"First seen at {_moment(why.discovered_at, why)}"
    found = _FOUND[why.origin].format(why.source)
    if why.came_from is None:
        yield f"{first}, {found}."
    elif why.by_redirect or why.came_from == why.same_as:
        yield f"{first}, when {why.came_from} redirected to it, which was found {found}."
    else:
        yield f"{first}, on {why.came_from}, {found}."
    for sighting in why.sightings:
        under = "it" if sighting.url == why.url else sighting.url
        seen = "" if sighting.first_seen_at == why.discovered_at else f", since {_moment(sighting.first_seen_at, why)}"
        if sighting.last_seen_at > sighting.first_seen_at:
            seen += f", last seen at {_moment(sighting.last_seen_at, why)}"
        known_as = "has seen it too" if sighting.title is None else f"lists {under} as {_title(sighting.title)}"
        yield f"Source {sighting.source} {known_as}{seen}."
    if why.sightings_total > len(why.sightings):
        yield f"So do {why.sightings_total - len(why.sightings)} more."


def _priority(why: Why) -> Iterator[str]:
    rank = why.priority
    its_sum = _sum(rank, why.origin) if rank.source is not None else "its source's settings cannot be read."
    if rank.now is None:
        yield f"None, as it is not waiting. By itself it would be {rank.sum or '?'} of {HIGHEST}: {its_sum}"
    elif rank.sum in (rank.now, None):
        yield f"{rank.now} of {HIGHEST}: {its_sum}"
    else:
        yield (
            f"{rank.now} of {HIGHEST}, as another sighting, a redirect or an operator has set it. "
            f"By itself it would be {rank.sum} of {HIGHEST}: {its_sum}"
        )


def _sum(rank: Priority, origin: Origin) -> str:
    assert rank.source is not None
    words = f"{rank.source} for its source"
    if rank.origin:
        words += f" + {rank.origin} for coming from a {origin}"
    if rank.depth:
        words += f" - {rank.depth} for its depth"
    whole = rank.source + rank.origin - rank.depth
    return f"{words}." if whole == rank.sum else f"{words} = {whole}, brought to {rank.sum}."


def _robots(why: Why) -> Iterator[str]:
    robots = why.robots
    if robots.read_at is None:
        yield (
            "The host's robots.txt could not be read; until it can, nothing is asked of the host."
            if why.host.blocked is Reason.ROBOTS_UNREACHABLE
            else "The host's robots.txt has not been read yet; it will be, before the first page is asked for."
        )
        return
    looked = f"That was looked up at {_moment(robots.read_at, why)}"
    again = "" if robots.fresh else "; as it is over a day ago, it is looked up again before the next request"
    yield f"{_verdict(robots)} {looked}{again}."


def _verdict(robots: Robots) -> str:
    if robots.trouble:
        return f"What robots.txt says about it could not be found out: {robots.trouble}."
    if not robots.exists:
        return "Allowed: the host has no robots.txt."
    if robots.line is not None:
        decided = "Allowed" if robots.allowed else "Forbidden"
        whom = "everybody" if robots.agent == "*" else robots.agent
        return f'{decided} by line {robots.line} of robots.txt, "{robots.rule}", which is for {whom}.'
    return "Allowed: no line of robots.txt forbids it." if robots.allowed else "Forbidden by robots.txt."


def _host(why: Why) -> Iterator[str]:
    host = why.host
    yield f"{host.name}, {_seconds(host.pause_ms)} between two requests: {_pause_from(why)}."
    if host.backoff_ms > host.pause_ms:
        since = f" at {_moment(host.backoff_since, why)}" if host.backoff_since else ""
        yield (
            f"For now the pause is {_seconds(host.backoff_ms)}, as it asked for fewer requests{since}; "
            "each good answer makes it shorter again."
        )
    if host.shares_turn:
        kind, _, name = host.shares_turn.partition(":")
        yield f"It shares its turn with all hosts of the {kind} {name}: one request at a time to all of them."
    if host.closed:
        until = _moment(host.closed_until, why) if host.closed_until else "it is released"
        yield f"An operator has closed it until {until}: nothing is asked of it."
    if host.blocked and host.free_at:
        yield f"It is left alone until {_moment(host.free_at, why)}. {host.blocked.sentence}"


def _pause_from(why: Why) -> str:
    host, asked = why.host, why.robots.crawl_delay_seconds
    if host.pause_from is DelayFrom.ROBOTS and asked is not None and asked * 1000 > host.pause_ms + 1:
        return f"its robots.txt asks for {asked:g} s, cut to the longest obeyed (setting crawl_delay_cap_seconds)"
    return {
        DelayFrom.ROBOTS: "its robots.txt asks for that (Crawl-delay)",
        DelayFrom.SHARED: "the slowest of those that share its turn asks for that (Crawl-delay)",
        DelayFrom.SOURCE: f"source {why.source} sets that (rate_per_second)",
        DelayFrom.DEFAULT: "the default (setting host_delay_ms)",
    }[host.pause_from]


def _fetches(why: Why) -> Iterator[str]:
    if not why.fetches:
        yield _no_fetches(why)
    if why.fetches_total > len(why.fetches):
        yield f"The last {len(why.fetches)} of {why.fetches_total}:"
    for fetch in why.fetches:
        yield f"{_moment(fetch.finished_at, why)}, attempt {fetch.attempt}: {_outcome(fetch)}"


def _no_fetches(why: Why) -> str:
    if why.same_as:
        return "None under this address."
    return "None is remembered any more." if why.fetch_count else "None so far."


def _outcome(fetch: Fetch) -> str:
    answered = ""
    if fetch.http_status is not None:
        answered = f"answered {fetch.http_status}, {_count(fetch.body_bytes or 0, 'byte')} in {fetch.elapsed_ms} ms. "
    said_already = (None, "", fetch.reason.sentence, f"The server answered {fetch.http_status}.")
    return answered + fetch.reason.sentence + ("" if fetch.detail in said_already else f" ({fetch.detail})")


def _document(why: Why) -> Iterator[str]:
    document = why.document
    if document is None:
        yield "None."
        return
    changed = document.revision - 1
    history = f"has changed {_count(changed, 'time')}; what it was before is kept" if changed else "has never changed"
    read = f"read at {_moment(document.fetched_at, why)}"
    yield f"Number {document.id}, {_title(document.title)}, {read}. Its text {history}."
    if document.canonical_url and _is_another(document.canonical_url, why.url):
        yield f"It is a variant (for print, for AMP, ...) of {document.canonical_url}, by its own words."
    if document.shared_with:
        yield f"Its text is also that of {_capped_count(document.shared_with, 'other page')}, and kept once."


def _is_another(canonical: str, url: str) -> bool:
    try:
        return normalize_url(canonical) != normalize_url(url)
    except InvalidURL:
        return False


def _handoffs(why: Why) -> Iterator[str]:
    for handoff in why.handoffs:
        by = f"run {handoff.scrape_run_id}" if handoff.scrape_run_id else "a run that is gone"
        when = f"{_moment(handoff.updated_at, why)}, number {handoff.handoff_id}"
        yield f"Source {handoff.source}, by {by}: {handoff.status} at {when}. {handoff.reason.sentence}"
    for job in why.jobs:
        yield f"Job {job.job_id}, for source {job.source}, {_job(job, why)}"


def _job(job: WaitingJob, why: Why) -> str:
    if job.settled_at is None:
        now = (
            "It is being fetched now."
            if job.status == JobStatus.RUNNING
            else "It is settled by whatever ends the page."
        )
        return f"waits for the page since {_moment(job.created_at, why)}. {now}"
    if job.reason is None:
        return f"has been ready since {_moment(job.settled_at, why)}."
    again = _command("handoff", "retry", "--all", "--source", job.source, "--reason", job.reason)
    return f"failed at {_moment(job.settled_at, why)}. {job.reason.sentence} {again} tries it again."


def _title(text: str) -> str:
    if not text.strip():
        return "(no title)"
    return f'"{text[:_LONGEST_TITLE]}…"' if len(text) > _LONGEST_TITLE else f'"{text}"'


def _command(*words: str) -> str:
    return f"`headwater {shlex.join(words)}`"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _capped_count(number: int, noun: str) -> str:
    return f"over {_count(COUNTED, noun)}" if number > COUNTED else _count(number, noun)


def _pause(host: Host) -> str:
    return _seconds(max(host.pause_ms, host.backoff_ms))


def _seconds(milliseconds: int) -> str:
    return f"{round(milliseconds / 1000, 3):g} s"


def _moment(when: datetime, why: Why) -> str:
    """Write a time; the day only where it is another."""
    now = why.asked_at
    day = "" if when.date() == now.date() else f"{when:%Y-%m-%d} "
    return f"{day}{when:%H:%M:%S} UTC ({_away(when - now)})"


def _away(distance: timedelta) -> str:
    seconds = abs(distance.total_seconds())
    if seconds < 1:
        return "in a moment" if distance > timedelta(0) else "just now"
    unit, length = next((unit, length) for unit, length in _UNITS if seconds >= 2 * length or length == 1)
    span = _count(round(seconds / length), unit)
    return f"in {span}" if distance > timedelta(0) else f"{span} ago"
