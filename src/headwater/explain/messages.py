"""The report on a URL in sentences: pure functions of the facts."""

import shlex
from collections.abc import Callable, Iterator
from datetime import datetime

from headwater.core.errors import InvalidURL
from headwater.core.frontier import Origin
from headwater.core.host_wait import HostWait
from headwater.core.reasons import Reason, ReasonClass
from headwater.core.text import format_distance
from headwater.core.urls import normalize_url
from headwater.db.jobs import JobStatus
from headwater.db.why import MAX_COUNT, FetchAttempt, JobFacts, QueueEntry
from headwater.explain.report import FETCHING, DelayOrigin, PriorityReport, RobotsReport, Why, WhyLine
from headwater.frontier.submit import HIGHEST

_MAX_TITLE = 120
_ORIGINS = {
    Origin.FEED: "in the feed of source {}",
    Origin.SITEMAP: "in the sitemap of source {}",
    Origin.SPIDER: "by the spider of source {}",
    Origin.MANUAL: "submitted for source {}",
    Origin.CATEGORY: "submitted with a category for source {}",
}
_RUNNING = "`headwater up` or `headwater worker` must be running"


def describe_url(why: Why) -> tuple[WhyLine, ...]:
    """Describe all facts. The last line states what happens next."""
    chapters: dict[str, Callable[[Why], Iterator[str]]] = {
        "Address": _describe_address,
        "Status": _describe_status,
        "Seen": _describe_sightings,
        "Priority": _describe_priority,
        "Robots": _describe_robots,
        "Host": _describe_host,
        "Fetches": _describe_fetches,
        "Document": _describe_document,
        "Watch": _describe_watch,
        "Hand-off": _describe_handoffs,
    }
    lines = [WhyLine(label, text) for label, describe in chapters.items() for text in describe(why)]
    return (*lines, WhyLine("Next", _describe_next_step(why)))


def find_next_time(why: Why) -> datetime | None:
    """Return when the URL can be fetched at the earliest. Returns None if that is now, or only on request."""
    queued, host = why.queued, why.host
    if queued is None:
        return why.watch.next_at if why.watch and not why.same_as else None
    if queued.lease_holder or (host.closed and host.closed_until is None):
        return None
    free_at = None if host.in_use_by else host.free_at
    times = [when for when in (queued.due_at, free_at, host.closed_until) if when and when > why.asked_at]
    return max(times, default=None)


def _describe_next_step(why: Why) -> str:
    if why.same_as:
        return f"Nothing more: the page is stored under {why.same_as}. See {_command('why', why.same_as)}."
    if why.queued is None:
        return _describe_end(why)
    if why.status == FETCHING:
        return _describe_running_fetch(why, why.queued)
    return _describe_wait(why, why.queued)


def _describe_end(why: Why) -> str:
    again = _command("frontier", "retry", why.url)
    if why.watch and why.watch.next_at:
        return f"Headwater fetches the page again at {_moment(why.watch.next_at, why)} at the earliest ({_RUNNING})."
    if why.reason is Reason.REDIRECT and why.moved_to:
        return f"Nothing more: the page moved. See {_command('why', why.moved_to)}."
    if why.reason and why.reason.kind is ReasonClass.DONE:
        return f"Nothing more: the page is stored. {again} fetches it again."
    if why.reason is Reason.ROBOTS_BLOCKED and why.robots.allowed:
        return f"Nothing more, although robots.txt allows the page now. {again} tries it again."
    if why.reason is Reason.SOURCE_REMOVED:
        return f"Nothing more, unless a source lists the page again. {again} tries it again."
    if why.reason is Reason.HOST_GONE:
        return f"Nothing more, unless you ask for it. {again} tries it again and gives its host a new chance."
    if why.reason in (Reason.DELETED, Reason.EXPIRED):
        return f"Nothing more: its document was deleted. {again} fetches it again."
    return f"Nothing more: Headwater gave the page up. {again} tries it again."


def _describe_running_fetch(why: Why, queued: QueueEntry) -> str:
    assert queued.lease_until is not None
    until = _moment(queued.lease_until, why)
    if queued.lease_until > why.asked_at:
        return f"A worker fetches the page now. The fetch ends by {until} at the latest."
    rescue = f"The lease of its worker ended at {until}. A running Headwater takes the page back within seconds"
    if queued.attempts >= why.max_attempts:
        return f"{rescue} and gives it up: this was the last of {why.max_attempts} attempts."
    return f"{rescue} and tries it again, as attempt {queued.attempts + 1} of {why.max_attempts}."


def _describe_wait(why: Why, queued: QueueEntry) -> str:
    host = why.host
    if host.closed and host.closed_until is None:
        return f"The page waits until an operator releases the host: {_command('frontier', 'release', host.name)}."
    step = f"Headwater {_describe_action(why)}"
    earliest = find_next_time(why)
    if earliest:
        attempt = _describe_next_attempt(why, queued)
        return f"{step} at {_moment(earliest, why)} at the earliest{attempt}: {_describe_reason_to_wait(why, earliest)}"
    if host.in_use_by:
        return f"{step} when the current request to its host ends."
    after = f", after {_capped_count(queued.ahead, 'page')} of its host with a better place" if queued.ahead else ""
    return f"{step} as soon as a worker is free{after} ({_RUNNING})."


def _describe_action(why: Why) -> str:
    if why.robots.fresh and why.robots.allowed is False:
        return "gives the page up, because robots.txt forbids it,"
    return "tries the page again" if why.fetches_total else "fetches the page"


def _describe_next_attempt(why: Why, queued: QueueEntry) -> str:
    if not why.fetches:
        return ""
    is_uncounted = not why.fetch_count and why.fetches[-1].attempt > queued.attempts
    last = "; the last one does not count" if is_uncounted else ""
    return f" (attempt {queued.attempts + 1} of {why.max_attempts}{last})"


def _describe_reason_to_wait(why: Why, earliest: datetime) -> str:
    host = why.host
    if host.closed_until == earliest:
        return "an operator closed the host until then."
    if host.free_at == earliest:
        pause = _seconds(max(host.pause_ms, host.backoff_ms))
        return host.blocked.sentence if host.blocked else f"the host has a pause of {pause} after each request."
    return why.fetches[-1].reason.sentence if why.fetches else "it is not due before."


def _describe_address(why: Why) -> Iterator[str]:
    if why.asked != why.url:
        yield f"You asked for {why.asked}. Its normalized address is {why.url}."
    if why.same_as:
        yield f"It is another address of {why.same_as}. Headwater fetches only that one."
    if why.moved_to:
        yield f"It redirects to {why.moved_to}."
    for address in why.other_addresses:
        yield f"{address} leads to the same page. Headwater does not fetch it."


def _describe_status(why: Why) -> Iterator[str]:
    if why.queued is None:
        assert why.reason is not None, "an end has a reason"
        ended = f" at {_moment(why.last_fetched_at, why)}" if why.last_fetched_at else ""
        how = "Fetched" if why.status == "fetched" else "Ended" if why.moved_to else "Given up"
        yield f"{how}{ended}. {why.reason.sentence}"
    elif why.status == FETCHING:
        yield _describe_lease(why, why.queued)
    elif why.fetch_count and why.last_fetched_at and not why.queued.attempts:
        by = "its re-fetch policy or someone" if why.watch else "someone"
        yield f"Waiting: it ended at {_moment(why.last_fetched_at, why)}, and {by} asked for it again."
    elif why.fetches:
        yield f"Waiting for another try, after {_count(why.fetches_total, 'attempt')}."
    else:
        yield "Waiting: there was no attempt yet."


def _describe_lease(why: Why, queued: QueueEntry) -> str:
    assert queued.lease_until is not None
    ends = "ends" if queued.lease_until > why.asked_at else "ended"
    return (
        f"Being fetched, attempt {queued.attempts} of {why.max_attempts}, by {queued.lease_holder}, whose lease {ends} "
        f"at {_moment(queued.lease_until, why)}."
    )


def _describe_sightings(why: Why) -> Iterator[str]:
    first = f"First seen at {_moment(why.discovered_at, why)}"
    found = _ORIGINS[why.origin].format(why.source)
    if why.came_from is None:
        yield f"{first}, {found}."
    elif why.by_redirect or why.came_from == why.same_as:
        yield f"{first}, when {why.came_from} redirected to it, which was found {found}."
    else:
        yield f"{first}, on {why.came_from}, {found}."
    for sighting in why.sightings:
        address = "it" if sighting.url == why.url else sighting.url
        times = "" if sighting.first_seen_at == why.discovered_at else f", since {_moment(sighting.first_seen_at, why)}"
        if sighting.last_seen_at > sighting.first_seen_at:
            times += f", last seen at {_moment(sighting.last_seen_at, why)}"
        seen = "has seen it too" if sighting.title is None else f"lists {address} as {_title(sighting.title)}"
        yield f"Source {sighting.source} {seen}{times}."
    if why.sightings_total > len(why.sightings):
        yield f"{_count(why.sightings_total - len(why.sightings), 'more sighting')} are not shown."


def _describe_priority(why: Why) -> Iterator[str]:
    rank = why.priority
    parts = _describe_parts(rank, why.origin) if rank.source is not None else "the settings of its source are unusable."
    if rank.now is None:
        yield f"None, because it does not wait. Its parts make {rank.sum or '?'} of {HIGHEST}: {parts}"
    elif rank.sum in (rank.now, None):
        yield f"{rank.now} of {HIGHEST}: {parts}"
    else:
        yield (
            f"{rank.now} of {HIGHEST}, set by another sighting, a redirect or an operator. "
            f"Its parts make {rank.sum} of {HIGHEST}: {parts}"
        )


def _describe_parts(rank: PriorityReport, origin: Origin) -> str:
    assert rank.source is not None
    parts = f"{rank.source} for its source"
    if rank.origin:
        parts += f" + {rank.origin} for coming from a {origin}"
    if rank.depth:
        parts += f" - {rank.depth} for its depth"
    whole = rank.source + rank.origin - rank.depth
    return f"{parts}." if whole == rank.sum else f"{parts} = {whole}, limited to {rank.sum}."


def _describe_robots(why: Why) -> Iterator[str]:
    robots = why.robots
    if robots.read_at is None:
        yield (
            "Headwater could not read the robots.txt of the host, and sends no other request until it can."
            if why.host.blocked is Reason.ROBOTS_UNREACHABLE
            else "Headwater has not read the robots.txt of the host yet. It reads it before the first page."
        )
        return
    again = "" if robots.fresh else ", which is over a day ago. Headwater reads it again before the next request"
    yield f"{_describe_verdict(robots)} It was read at {_moment(robots.read_at, why)}{again}."


def _describe_verdict(robots: RobotsReport) -> str:
    if robots.trouble:
        return f"Headwater could not check the address against robots.txt: {robots.trouble}"
    if not robots.exists:
        return "Allowed: the host has no robots.txt."
    if robots.line is not None:
        verdict = "Allowed" if robots.allowed else "Forbidden"
        agent = "all programs" if robots.agent == "*" else robots.agent
        return f'{verdict} by line {robots.line} of robots.txt, "{robots.rule}", which is for {agent}.'
    return "Allowed: no line of robots.txt forbids it." if robots.allowed else "Forbidden by robots.txt."


def _describe_host(why: Why) -> Iterator[str]:
    host = why.host
    yield f"{host.name}, {_seconds(host.pause_ms)} between two requests: {_describe_pause(why)}."
    if host.backoff_ms > host.pause_ms:
        since = f" at {_moment(host.backoff_since, why)}" if host.backoff_since else ""
        yield (
            f"The pause is {_seconds(host.backoff_ms)} for now, because the host asked for fewer requests{since}. "
            "Each good answer makes it shorter."
        )
    if host.shares_turn:
        kind, _, name = host.shares_turn.partition(":")
        yield f"It shares its turn with all hosts of the {kind} {name}: one request at a time to all of them."
    if host.closed:
        until = _moment(host.closed_until, why) if host.closed_until else "it is released"
        yield f"An operator closed it until {until}. Headwater sends it no request."
    if host.blocked and host.free_at:
        wait = HostWait(host.name, host.free_at, host.failure or host.blocked, host.failed_at)
        yield f"{host.blocked.sentence} {wait.explain(why.asked_at)}"
    if host.silent_since:
        yield f"It has not answered since {_moment(host.silent_since, why)}."


def _describe_pause(why: Why) -> str:
    host, asked = why.host, why.robots.crawl_delay_seconds
    if host.pause_from is DelayOrigin.ROBOTS and asked is not None and asked * 1000 > host.pause_ms + 1:
        return f"its robots.txt asks for {asked:g} s, and the setting crawl_delay_cap_seconds limits that"
    return {
        DelayOrigin.ROBOTS: "its robots.txt asks for it (Crawl-delay)",
        DelayOrigin.SHARED: "the slowest host that shares its turn asks for it (Crawl-delay)",
        DelayOrigin.SOURCE: f"source {why.source} sets it (rate_per_second)",
        DelayOrigin.DEFAULT: "the default (setting host_delay_ms)",
    }[host.pause_from]


def _describe_fetches(why: Why) -> Iterator[str]:
    if not why.fetches and why.same_as:
        yield "None under this address."
    elif not why.fetches:
        yield "None: the log of earlier fetches was deleted." if why.fetch_count else "None so far."
    if why.fetches_total > len(why.fetches):
        yield f"The last {len(why.fetches)} of {why.fetches_total}:"
    for fetch in why.fetches:
        yield f"{_moment(fetch.finished_at, why)}, attempt {fetch.attempt}: {_describe_attempt(fetch)}"


def _describe_attempt(fetch: FetchAttempt) -> str:
    answer = ""
    if fetch.http_status is not None:
        answer = f"answered {fetch.http_status}, {_count(fetch.body_bytes or 0, 'byte')} in {fetch.elapsed_ms} ms. "
    known = (None, "", fetch.reason.sentence, f"The server answered {fetch.http_status}.")
    return answer + fetch.reason.sentence + ("" if fetch.detail in known else f" ({fetch.detail})")


def _describe_document(why: Why) -> Iterator[str]:
    document = why.document
    if document is None:
        yield "None."
        return
    changes = document.revision - 1
    history = f"has changed {_count(changes, 'time')}; its earlier texts are stored" if changes else "has never changed"
    read = f"fetched at {_moment(document.fetched_at, why)}"
    yield f"Number {document.id}, {_title(document.title)}, {read}. Its text {history}."
    if why.status == "dead":
        yield "It stays as it was then, although the page can no longer be fetched."
    if document.canonical_url and _is_another(document.canonical_url, why.url):
        yield f"The page names {document.canonical_url} as its canonical address: it is a variant (print, AMP, ...)."
    if document.shared_with:
        yield f"{_capped_count(document.shared_with, 'other page')} with the same text share one stored copy."


def _describe_watch(why: Why) -> Iterator[str]:
    if why.watch:
        owner = "" if why.watch.is_own else f" (the policy of source {why.source})"
        yield f"Fetched again: {why.watch.policy}{owner}. {why.watch.why}"


def _is_another(canonical: str, url: str) -> bool:
    try:
        return normalize_url(canonical) != normalize_url(url)
    except InvalidURL:
        return False


def _describe_handoffs(why: Why) -> Iterator[str]:
    for handoff in why.handoffs:
        by = f"run {handoff.scrape_run_id}" if handoff.scrape_run_id else "a deleted run"
        when = f"{_moment(handoff.updated_at, why)}, number {handoff.handoff_id}"
        yield f"Source {handoff.source}, by {by}: {handoff.status} at {when}. {handoff.reason.sentence}"
    for job in why.jobs:
        yield f"Job {job.job_id}, for source {job.source}, {_describe_job(job, why)}"


def _describe_job(job: JobFacts, why: Why) -> str:
    if job.settled_at is None:
        now = "A worker fetches it now." if job.status == JobStatus.RUNNING else "The end of the page settles the job."
        return f"waits for the page since {_moment(job.created_at, why)}. {now}"
    if job.reason is None:
        return f"has been ready since {_moment(job.settled_at, why)}."
    again = _command("handoff", "retry", "--all", "--source", job.source, "--reason", job.reason)
    return f"failed at {_moment(job.settled_at, why)}. {job.reason.sentence} {again} tries it again."


def _title(text: str) -> str:
    if not text.strip():
        return "(no title)"
    return f'"{text[:_MAX_TITLE]}…"' if len(text) > _MAX_TITLE else f'"{text}"'


def _command(*words: str) -> str:
    return f"`headwater {shlex.join(words)}`"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _capped_count(number: int, noun: str) -> str:
    return f"over {_count(MAX_COUNT, noun)}" if number > MAX_COUNT else _count(number, noun)


def _seconds(milliseconds: int) -> str:
    return f"{round(milliseconds / 1000, 3):g} s"


def _moment(when: datetime, why: Why) -> str:
    """Write a time of day. Another day than today is written too."""
    day = "" if when.date() == why.asked_at.date() else f"{when:%Y-%m-%d} "
    return f"{day}{when:%H:%M:%S} UTC ({format_distance(when, why.asked_at)})"
