"""The page Why: everything that is known about a URL, as a picture of its way and in sentences."""

from itertools import groupby
from typing import Annotated

from fastapi import FastAPI, Form, Query, Request, Response

from headwater.api.errors import find_status
from headwater.core.errors import HeadwaterError
from headwater.core.frontier import Origin
from headwater.core.reasons import Reason, ReasonClass
from headwater.explain.operations import Why
from headwater.explain.report import FETCHING
from headwater.web.texts import query_string, size
from headwater.web.timeline import TimelineEvent
from headwater.web.view import View

_LONGEST_URL = 4000
_NEXT = "Next"  # the label of the last sentences
_MOST_SIGHTINGS = 3
_MOST_FETCHES = 6
_MOST_HANDOFFS = 3
_ORIGINS = {
    Origin.FEED: "Found in the feed of {}",
    Origin.SITEMAP: "Found in the sitemap of {}",
    Origin.SPIDER: "Found by the spider of {}",
    Origin.MANUAL: "Submitted for {}",
    Origin.CATEGORY: "Submitted with a category for {}",
}
_KINDS = {ReasonClass.DONE: "good", ReasonClass.TRANSIENT: "warn", ReasonClass.OURS: "warn"}
Url = Annotated[str, Query(max_length=_LONGEST_URL)]


def add_pages(app: FastAPI, view: View) -> None:
    """Add the page."""

    @app.get("/why")
    async def show(request: Request, url: Url = "") -> Response:
        asked = url.strip()
        if not asked:
            return view.page(request, "why.html", asked="", why=None, refusal=None)
        try:
            why = await view.operations.why(asked)
        except HeadwaterError as error:
            is_unknown = error.reason is Reason.UNKNOWN_URL
            values = {"refusal": str(error), "is_unknown": is_unknown}
            return view.page(request, "why.html", find_status(error.reason), asked=asked, why=None, **values)
        chapters = [
            (label, [line.text for line in lines]) for label, lines in groupby(why.lines, lambda one: one.label)
        ]
        return view.page(
            request,
            "why.html",
            asked=asked,
            why=why,
            refusal=None,
            events=list_events(why),
            chapters=[chapter for chapter in chapters if chapter[0] != _NEXT],
            next=[text for label, texts in chapters if label == _NEXT for text in texts],
        )

    @app.post("/why/retry")
    async def retry(request: Request, url: Annotated[str, Form(max_length=_LONGEST_URL)]) -> Response:
        retried = await view.operations.frontier.retry([url])
        notice = "A worker fetches the page now." if retried.fetching else "The page is queued to be fetched again."
        return view.redirect(request, "/why" + query_string(url=url), notice)


def list_events(why: Why) -> list[TimelineEvent]:
    """Return the events of a URL in their order, and last the next step."""
    found = TimelineEvent(
        why.discovered_at, _ORIGINS[why.origin].format(why.source), f"from {why.came_from}" if why.came_from else ""
    )
    events = [
        TimelineEvent(sighting.first_seen_at, f"Seen by {sighting.source}", sighting.title or "")
        for sighting in why.sightings
        if sighting.first_seen_at > why.discovered_at
    ][:_MOST_SIGHTINGS]
    events += [
        TimelineEvent(
            fetch.finished_at,
            f"Attempt {fetch.attempt}: {fetch.reason.replace('_', ' ')}",
            _describe_answer(fetch.http_status, fetch.body_bytes, fetch.elapsed_ms) or fetch.reason.sentence,
            _KINDS.get(fetch.reason.kind, "bad"),
        )
        for fetch in why.fetches[-_MOST_FETCHES:]
    ]
    if why.document:
        events.append(TimelineEvent(why.document.fetched_at, f"Document {why.document.id}", why.document.title, "good"))
    events += [
        TimelineEvent(
            handoff.updated_at,
            f"Hand-off {handoff.status}",
            handoff.reason.sentence,
            _STATES.get(handoff.status, "plain"),
        )
        for handoff in why.handoffs[:_MOST_HANDOFFS]
    ]
    events += [
        TimelineEvent(
            job.settled_at,
            f"Job {job.status}",
            job.reason.sentence if job.reason else "",
            _STATES.get(job.status, "plain"),
        )
        for job in why.jobs[:_MOST_HANDOFFS]
        if job.settled_at
    ]
    events.sort(key=lambda event: event.at or why.asked_at)
    return [found, *events, _describe_next(why)]


_STATES = {"completed": "good", "ready": "good", "failed": "bad"}


def _describe_answer(status: int | None, body_bytes: int | None, elapsed_ms: int | None) -> str:
    if status is None:
        return ""
    return f"answer {status}, {size(body_bytes or 0)} in {elapsed_ms or 0} ms"


def _describe_next(why: Why) -> TimelineEvent:
    if why.status == FETCHING:
        return TimelineEvent(why.asked_at, "A worker fetches the page now", "", "next")
    if why.next_at:
        return TimelineEvent(why.next_at, "Next fetch, at the earliest", "", "next")
    if why.queued:
        return TimelineEvent(None, "Waits for its turn", why.lines[-1].text if why.lines else "", "next")
    return TimelineEvent(None, "Nothing more happens by itself", why.reason.sentence if why.reason else "", "next")
