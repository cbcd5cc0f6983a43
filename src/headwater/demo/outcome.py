"""What the demo brought, held against what must come."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from headwater.app.operations import Operations
from headwater.canonical.operations import CanonicalTotals
from headwater.core.handoff import JobFilter
from headwater.core.reasons import Reason, ReasonClass
from headwater.core.urls import host_of
from headwater.demo.expected import Expected
from headwater.demo.federal_run import BILLS, REGISTER, has_federal, shares
from headwater.demo.federal_sites import API_HOST, SHARES, SOURCES
from headwater.demo.plan import NO_BROWSER
from headwater.demo.progress import counted
from headwater.demo.visits import TOLERANCE_SECONDS, DemoRequest
from headwater.demo.web import DemoWeb
from headwater.documents.operations import DayFilter, Document

_WITH_DOCUMENT = (Reason.STORED, Reason.LINKED)
_NEVER_TRIED = "pending"
DATED_SOURCE = "govuk"
_JOBS = {"fetched": ("ready",), "dead": ("failed",)}  # how a job stands whose page has ended so
_MOST = 1000


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must hold at the end, what was found, and all that is wrong with it."""

    name: str
    found: str
    wrong: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of some URLs: the reason, how many they are, whether they still wait, and one of them.

    Of those that were given up after the last retry also how they failed.
    """

    reason: str
    count: int
    waits: bool
    example: str
    kept_failing: str | None = None

    @property
    def has_document(self) -> bool:
        """Whether it ended with a document."""
        return self.reason in _WITH_DOCUMENT

    @property
    def sentence(self) -> str:
        """The reason in words."""
        if self.reason == _NEVER_TRIED:
            return "It was not its turn yet."
        reasons = filter(None, (self.reason, self.kept_failing))
        return " ".join(Reason.of(reason).sentence for reason in reasons)


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """What the demo brought, and whether it is what it must be."""

    day: date
    documents: dict[str, int]  # by host
    outcomes: list[Fate]
    items: list[dict[str, Any]]
    articles: CanonicalTotals
    seconds: dict[str, float]  # by stage
    checks: list[Check]

    @property
    def as_expected(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        """Return the outcome for a script."""
        ended: Counter[str] = Counter()
        for fate in self.outcomes:
            ended[fate.reason] += 0 if fate.waits else fate.count
        return {
            "as_expected": self.as_expected,
            "day": self.day,
            "documents": self.documents,
            "fates": dict(+ended),
            "waiting": {fate.reason: fate.count for fate in self.outcomes if fate.waits},
            "kept_failing": {fate.kept_failing: fate.count for fate in self.outcomes if fate.kept_failing},
            "examples": {fate.reason: fate.example for fate in self.outcomes},
            "daily": self.items,
            "articles": {
                "new": self.articles.new,
                "kept": self.articles.stored + self.articles.skipped,
                "failed": self.articles.failed,
                "deferred": self.articles.deferred,
            },
            "seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()},
            "checks": [
                {"name": check.name, "holds": check.holds, "found": check.found, "wrong": check.wrong}
                for check in self.checks
            ],
        }


async def look(
    operations: Operations, web: DemoWeb, expected: Expected, articles: CanonicalTotals, delay_seconds: float
) -> DemoOutcome:
    """Look at all that the demo brought."""
    fates = await operations.frontier.urls()
    sources = await operations.sources.listed()
    items = (await operations.days.day(web.today)).items
    documents = [
        await operations.documents.get(line.id) for line in (await operations.documents.list_page(limit=500)).documents
    ]
    checks = [
        _check_ends(expected, fates),
        _check_feeds(expected, sources, items),
        _check_other_sources(expected, sources, items),
        await _check_day(operations, expected),
        await _check_shared_key(operations, web, sources),
        await _check_limit_of_key(operations, web),
        await _check_handoffs(operations, expected, fates),
        _check_counts(expected, *await operations.documents.count()),
        _check_titles(expected, documents),
        _check_variants(expected, documents),
        await _check_raw_files(operations, documents),
        _check_walls(expected, fates),
        _check_politeness(web, delay_seconds),
    ]
    by_host = Counter(host_of(document.url) for document in documents)
    return DemoOutcome(web.today, dict(sorted(by_host.items())), _fates(fates), items, articles, {}, checks)


def _fates(outcomes: list[dict[str, Any]]) -> list[Fate]:
    examples: dict[tuple[str, bool, str | None], list[str]] = {}
    for outcome in outcomes:
        fate = _reason(outcome), outcome["reason"] is None, outcome["kept_failing"]
        examples.setdefault(fate, []).append(outcome["url"])
    fates = [
        Fate(reason, len(urls), waits, urls[0], kept_failing)
        for (reason, waits, kept_failing), urls in examples.items()
    ]
    return sorted(fates, key=lambda fate: (fate.waits, -fate.count))


def _reason(outcome: dict[str, Any]) -> str:
    return str(outcome["reason"] or outcome["waiting_reason"] or _NEVER_TRIED)


def _check_ends(expected: Expected, fates: list[dict[str, Any]]) -> Check:
    found = {outcome["url"]: outcome for outcome in fates}
    wrong = [
        f"{url}: {_told(found.get(url))}, expected {' or '.join(sorted(reasons))}"
        for url, reasons in expected.outcomes.items()
        if url not in found or not _ends_so(found[url], reasons)
    ]
    wrong += [f"{url}: not expected at all" for url in found.keys() - expected.outcomes.keys()]
    return Check("every URL ends as it must, or waits as it must", counted(len(found), "URL"), tuple(wrong))


def _ends_so(outcome: dict[str, Any], reasons: frozenset[Reason]) -> bool:
    """Tell whether the reason is a right one; a URL may wait only where that reason is one that passes."""
    reason = _reason(outcome)
    waits = outcome["reason"] is None
    passes = Reason.of(reason).kind in (ReasonClass.TRANSIENT, ReasonClass.CONFIG)
    return reason in reasons and waits == passes


def _told(outcome: dict[str, Any] | None) -> str:
    if outcome is None:
        return "never seen"
    return f"waits ({_reason(outcome)})" if outcome["reason"] is None else _reason(outcome)


def _check_feeds(expected: Expected, sources: list[dict[str, Any]], daily: list[dict[str, Any]]) -> Check:
    dated = [item for item in daily if not item["published_is_sighting"]]
    buckets = Counter((item["source"], item["bucket"]) for item in dated)
    by_url = {source["settings"].get("feed_url"): source for source in sources}
    wrong = []
    for feed in expected.feeds.values():
        source = by_url.get(feed.url, {"name": "", "items": 0})
        items, new, latest = source["items"], buckets[source["name"], "NEW"], buckets[source["name"], "LATEST"]
        if (items, new, latest) != (feed.items, feed.new, feed.latest):
            found = f"{counted(items, 'item')}, {new} NEW, {latest} LATEST"
            wrong.append(f"{feed.url}: {found}; expected {feed.items}, {feed.new} and {feed.latest}")
    return Check("every feed gives its items, NEW and LATEST", counted(len(expected.feeds), "feed"), tuple(wrong))


def _check_other_sources(expected: Expected, sources: list[dict[str, Any]], daily: list[dict[str, Any]]) -> Check:
    feeds = {feed.url for feed in expected.feeds.values()}
    with_feed = {source["name"] for source in sources if source["settings"].get("feed_url") in feeds}
    dated = [item for item in daily if not item["published_is_sighting"]]
    found = {item["url"]: item["bucket"] for item in dated if item["source"] not in with_feed}
    wrong = _wrong_links(expected.today_links, found)
    return Check("every other source gives its NEW and LATEST", counted(len(found), "page"), tuple(wrong))


def _wrong_links(expected: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    wrong = [f"{url}: {found.get(url)}, expected {label}" for url, label in expected.items() if found.get(url) != label]
    return wrong + [f"{url}: not expected at all" for url in found.keys() - expected.keys()]


async def _check_day(operations: Operations, expected: Expected) -> Check:
    name = "the GOV.UK day is complete, NEW and LATEST as they must"
    if not expected.day_links:
        return Check(name, "no such source")
    view = await operations.days.day(expected.day, DayFilter(source=DATED_SOURCE))
    found = {item["url"]: item["bucket"] for item in view.items}
    wrong = _wrong_links(expected.day_links, found)
    wrong += [f"{source.source}: {source.state}" for source in view.sources if source.read_at is None]
    return Check(name, f"{counted(len(found), 'page')} of {expected.day}", tuple(wrong))


async def _check_shared_key(operations: Operations, web: DemoWeb, sources: list[dict[str, Any]]) -> Check:
    name = f"{BILLS} backfill, daily {REGISTER}: one key, none starves"
    if not has_federal(web):
        return Check(name, "no such sources")
    read = {source["name"] for source in sources if source["last_success_at"]}
    wrong = [f"{source}: not read" for source in SOURCES if source not in read]
    if not any(map(_is_counted, web.requests)):
        return Check(name, "from an earlier run", tuple(wrong))
    spent = {child["source"]: child["spent"] for child in await shares(operations)}
    if spent.get(BILLS) != SHARES[BILLS]:
        wrong.append(f"{BILLS}: {spent.get(BILLS)} requests with the key, and not all of its share of {SHARES[BILLS]}")
    if not spent.get(REGISTER):
        wrong.append(f"{REGISTER}: nothing was asked with the key at {API_HOST}, which {BILLS} ask too")
    found = [f"{source} {count}" for source, count in spent.items() if count]
    return Check(name, ", ".join(found), tuple(wrong))


def _is_counted(request: DemoRequest) -> bool:
    return request.host == API_HOST and request.path.startswith("/api/")


async def _check_limit_of_key(operations: Operations, web: DemoWeb) -> Check:
    """Hold what was asked against what was counted, and that against what each source may have of the key."""
    budgets = await operations.budgets() or []
    wrong = [
        f"{part['source']}: {part['spent']} of {part['share']} at {budget['host']}"
        for budget in budgets
        for part in budget["sources"]
        if part["spent"] > part["share"]
    ]
    asked = sum(map(_is_counted, web.requests))
    paid = sum(child["spent"] for child in await shares(operations))
    if asked > paid:
        wrong.append(f"{API_HOST}: {asked} requests, of which only {paid} were counted")
    if any(paid > budget["hourly_limit"] for budget in budgets if budget["host"] == API_HOST):
        wrong.append(f"{API_HOST}: {paid} requests are more than its limit")
    if refused := sum(request.status == 429 for request in web.requests if _is_counted(request)):
        wrong.append(f"{API_HOST}: it refused {refused} as too many")
    found = f"{paid} of {max((budget['hourly_limit'] for budget in budgets), default=0):,} in this hour"
    return Check("the limit of that key is kept, and every share of it", found, tuple(wrong))


async def unfinished_handoffs(operations: Operations) -> int:
    """Count the hand-offs that have not ended: those of a program that died are taken up after their lease."""
    counts = [(await operations.handoffs.listed(status=status, limit=1))[1] for status in ("queued", "running")]
    return sum(counts)


async def _check_handoffs(operations: Operations, expected: Expected, fates: list[dict[str, Any]]) -> Check:
    handed, total = (
        await operations.handoffs.listed(source=DATED_SOURCE, limit=_MOST) if expected.day_links else ([], 0)
    )
    ends = {outcome["url"]: _JOBS.get(outcome["status"], ("queued", "running")) for outcome in fates}
    jobs, _ = (
        await operations.handoffs.jobs(JobFilter(source=DATED_SOURCE), limit=_MOST) if expected.day_links else ([], 0)
    )
    wrong = [f"{url}: not handed off" for url in expected.day_links.keys() - {row["url"] for row in handed}]
    wrong += [f"{row['url']}: {row['status']} ({row['reason_code']})" for row in handed if row["status"] != "completed"]
    wrong += [
        f"job {job['job_id']}: {job['status']}, {job['url']}" for job in jobs if job["status"] not in ends[job["url"]]
    ]
    counts = Counter(job["status"] for job in jobs)
    found = ", ".join([counted(total, "item"), *(f"{count} {status}" for status, count in sorted(counts.items()))])
    return Check("the GOV.UK day is handed off to jobs", found, tuple(wrong))


def _check_counts(expected: Expected, documents: int, texts: int) -> Check:
    found = f"{counted(documents, 'document')}, {counted(texts, 'text')}"
    right = (documents, texts) == (expected.documents, expected.texts)
    wrong = () if right else (f"{found}, expected {expected.documents} and {expected.texts}",)
    return Check("one document per page, one text per content", found, wrong)


def _check_titles(expected: Expected, documents: list[Document]) -> Check:
    wrong = [
        f"{document.url}: {document.title!r}, expected {expected.titles[document.url]!r}"
        for document in documents
        if document.url in expected.titles  # what should be no document at all is told of above
        and _words(document.title) != _words(expected.titles[document.url])
    ]
    found = counted(len(documents), "title")
    return Check("every title is as it was written, in every charset", found, tuple(wrong))


def _check_variants(expected: Expected, documents: list[Document]) -> Check:
    found = {document.url: document.canonical_url for document in documents}
    wrong = [
        f"{url}: {found.get(url)}, expected {canonical}"
        for url, canonical in expected.canonicals.items()
        if found.get(url) != canonical
    ]
    variants = counted(len(expected.canonicals), "variant")
    return Check("what is made for AMP or print points at its page", variants, tuple(wrong))


def _words(text: str) -> list[str]:
    """Return what a person reads of a text, without the signs that no title needs."""
    return re.findall(r"\w+", text)


async def _check_raw_files(operations: Operations, documents: list[Document]) -> Check:
    wrong = [document.url for document in documents if not await operations.documents.raw_file_matches(document)]
    return Check("every raw file matches its row", counted(len(documents), "file"), tuple(wrong))


def _check_walls(expected: Expected, fates: list[dict[str, Any]]) -> Check:
    """Say whether there was a browser for the pages that only a browser gets to see; how each ends is checked above."""
    walled = {url for pages in expected.walled.values() for url in pages}
    waiting = [outcome["url"] for outcome in fates if outcome["url"] in walled and outcome["reason"] is None]
    lets_in = f"{', '.join(expected.walled) or 'nobody'} lets the browser in"
    if waiting and all(expected.outcomes[url] == NO_BROWSER for url in waiting):
        return Check(f"{lets_in}, once there is one", f"{counted(len(waiting), 'page')} wait")
    return Check(f"the bot wall of {lets_in}", counted(len(walled), "page"), tuple(waiting))


def _check_politeness(web: DemoWeb, delay_seconds: float) -> Check:
    if not web.requests:
        return Check("nothing was asked: all of this is from an earlier run", "0 requests")
    broken = web.politeness(delay_seconds, tolerance_seconds=TOLERANCE_SECONDS)
    hosts = {request.host for request in web.requests}
    found = f"{counted(len(web.requests), 'request')} to {counted(len(hosts), 'host')}"
    return Check("politeness is kept: no host was asked too soon", found, tuple(map(str, broken)))
