"""The result of the demo, and the checks that compare it with the expected one."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date

from headwater.app.operations import Operations
from headwater.canonical.operations import CanonicalTotals
from headwater.core.json_values import JsonObject
from headwater.core.reasons import Reason, ReasonClass
from headwater.core.urls import host_of
from headwater.db.frontier import UrlLine
from headwater.db.handoffs import HandoffFilter, HandoffStatus
from headwater.db.jobs import JobFilter
from headwater.demo.expected import Expected, ExpectedFeed
from headwater.demo.federal_run import BILLS, REGISTER, has_federal, key_shares
from headwater.demo.federal_sites import API_HOST, SHARES, SOURCES
from headwater.demo.plan import Ends
from headwater.demo.progress import counted
from headwater.demo.visits import TOLERANCE_SECONDS, DemoRequest
from headwater.demo.web import DemoWeb
from headwater.documents.days import DayItem
from headwater.documents.operations import DayFilter, Document
from headwater.sources.health import SourceSummary

_WITH_DOCUMENT = (Reason.STORED, Reason.LINKED)
_NEVER_TRIED = "pending"
DATED_SOURCE = "govuk"
_JOBS = {"fetched": ("ready",), "dead": ("failed",)}  # the status of a job by that of its page
_MOST = 1000
_OTHER_SCRIPTS = ("ar", "ja", "zh")


@dataclass(frozen=True, slots=True)
class Check:
    """A rule that must hold at the end, a summary of what was found, and all violations."""

    name: str
    found: str
    wrong: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether there is no violation."""
        return not self.wrong


@dataclass(frozen=True, slots=True)
class OutcomeGroup:
    """The URLs with the same outcome: their number and one of them.

    For URLs that were given up after the last retry, `kept_failing` is the reason of each attempt.
    """

    reason: str
    count: int
    waits: bool
    example: str
    kept_failing: str | None = None

    @property
    def has_document(self) -> bool:
        """Whether the URLs have a document."""
        return self.reason in _WITH_DOCUMENT

    @property
    def sentence(self) -> str:
        """The reason as a sentence."""
        if self.reason == _NEVER_TRIED:
            return "The URL waits for its first attempt."
        reasons = filter(None, (self.reason, self.kept_failing))
        return " ".join(Reason.of(reason).sentence for reason in reasons)


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """The result of the demo."""

    day: date
    documents: dict[str, int]  # by host
    outcomes: list[OutcomeGroup]
    items: list[DayItem]
    articles: CanonicalTotals
    seconds: dict[str, float]  # by stage
    checks: list[Check]

    @property
    def as_expected(self) -> bool:
        """Whether all checks hold."""
        return all(check.holds for check in self.checks)

    def as_json(self) -> JsonObject:
        """Return the outcome for a script."""
        ended: Counter[str] = Counter()
        for group in self.outcomes:
            ended[group.reason] += 0 if group.waits else group.count
        return {
            "as_expected": self.as_expected,
            "day": self.day,
            "documents": self.documents,
            "outcomes": dict(+ended),
            "waiting": {group.reason: group.count for group in self.outcomes if group.waits},
            "kept_failing": {group.kept_failing: group.count for group in self.outcomes if group.kept_failing},
            "examples": {group.reason: group.example for group in self.outcomes},
            "daily": self.items,
            "articles": {
                "new": self.articles.new,
                "kept": self.articles.stored + self.articles.skipped,
                "failed": self.articles.failed,
                "deferred": self.articles.deferred,
            },
            "seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()},
            "checks": [{**asdict(check), "holds": check.holds} for check in self.checks],
        }


async def check_outcome(
    operations: Operations, web: DemoWeb, expected: Expected, articles: CanonicalTotals, delay_seconds: float
) -> DemoOutcome:
    """Read the result of the demo and check all of it."""
    urls = (await operations.frontier.list_urls()).urls
    sources = await operations.sources.list_sources()
    items = (await operations.days.day(web.today)).items
    documents = [
        await operations.documents.get(line.id) for line in (await operations.documents.list_page(limit=500)).documents
    ]
    dated = [item for item in items if not item.published_is_sighting]
    checks = [_check_ends(expected, urls), *_check_sources(expected, sources, dated)]
    if expected.day_links:
        checks += [await _check_day(operations, expected), await _check_handoffs(operations, expected, urls)]
    if has_federal(web):
        checks += [await _check_shared_key(operations, web, sources), await _check_key_limit(operations, web)]
    checks += [
        _check_counts(expected, *await operations.documents.count()),
        _check_titles(expected, documents),
        await _check_search(operations, documents),
        _check_variants(expected, documents),
        await _check_raw_files(operations, documents),
        _check_walls(expected, urls),
        _check_politeness(web, delay_seconds),
    ]
    by_host = Counter(host_of(document.url) for document in documents)
    return DemoOutcome(web.today, dict(sorted(by_host.items())), _group(urls), items, articles, {}, checks)


def _group(urls: list[UrlLine]) -> list[OutcomeGroup]:
    examples: dict[tuple[str, bool, str | None], list[str]] = {}
    for url in urls:
        key = url.reason or url.waiting_reason or _NEVER_TRIED, url.reason is None, url.kept_failing
        examples.setdefault(key, []).append(url.url)
    groups = [OutcomeGroup(reason, len(same), waits, same[0], why) for (reason, waits, why), same in examples.items()]
    return sorted(groups, key=lambda group: (group.waits, -group.count))


def _compare(expected: Mapping[str, object], found: Mapping[str, object]) -> tuple[str, ...]:
    wrong = [f"{url}: {found.get(url)}, expected {value}" for url, value in expected.items() if found.get(url) != value]
    return *wrong, *(f"{url}: not expected" for url in found.keys() - expected.keys())


def _check_ends(expected: Expected, urls: list[UrlLine]) -> Check:
    """Check the reason of each URL. A URL may wait only if its reason is one that passes."""
    found, right = {url.url: _describe_end(url.reason, url.waiting_reason) for url in urls}, {}
    for address, reasons in expected.outcomes.items():
        allowed = sorted(_describe_expected(reason) for reason in reasons)
        right[address] = found[address] if found.get(address) in allowed else " or ".join(allowed)
    return Check("every URL ends or waits with an expected reason", counted(len(found), "URL"), _compare(right, found))


def _describe_expected(reason: Reason) -> str:
    passes = Reason.of(reason).kind in (ReasonClass.TRANSIENT, ReasonClass.CONFIG)
    return _describe_end(None, reason) if passes else _describe_end(reason, None)


def _describe_end(reason: str | None, waiting_reason: str | None) -> str:
    return f"waits ({waiting_reason or _NEVER_TRIED})" if reason is None else str(reason)


def _check_sources(expected: Expected, sources: list[SourceSummary], dated: list[DayItem]) -> Iterator[Check]:
    buckets = Counter((item.source, item.bucket) for item in dated)
    right = {feed.url: feed for feed in expected.feeds.values()}
    found = {url: ExpectedFeed(url, 0, 0, 0) for url in right}
    with_feed = {source.name: url for source in sources if (url := source.settings.get("feed_url")) in right}
    for source in sources:
        if url := with_feed.get(source.name):
            found[url] = ExpectedFeed(url, source.items, buckets[source.name, "NEW"], buckets[source.name, "LATEST"])
    yield Check("every feed has its items, NEW and LATEST", counted(len(right), "feed"), _compare(right, found))
    pages = {item.url: item.bucket for item in dated if item.source not in with_feed}
    wrong = _compare(expected.today_links, pages)
    yield Check("every other source has its NEW and LATEST", counted(len(pages), "page"), wrong)


async def _check_day(operations: Operations, expected: Expected) -> Check:
    view = await operations.days.day(expected.day, DayFilter(source=DATED_SOURCE))
    found = {item.url: item.bucket for item in view.items}
    unread = (f"{source.source}: {source.state}" for source in view.sources if source.read_at is None)
    return Check(
        "the GOV.UK day is complete, with its NEW and LATEST",
        f"{counted(len(found), 'page')} of {expected.day}",
        (*_compare(expected.day_links, found), *unread),
    )


async def _check_shared_key(operations: Operations, web: DemoWeb, sources: list[SourceSummary]) -> Check:
    name = f"{BILLS} backfill, daily {REGISTER}: one key, none starves"
    read = {source.name for source in sources if source.last_success_at}
    wrong = [f"{source}: not read" for source in SOURCES if source not in read]
    if not any(map(_uses_key, web.requests)):
        return Check(name, "from an earlier run", tuple(wrong))
    spent = {child.source: child.spent for child in await key_shares(operations)}
    if spent.get(BILLS) != SHARES[BILLS]:
        wrong.append(f"{BILLS}: {spent.get(BILLS)} requests with the key, expected all {SHARES[BILLS]} of its share")
    if not spent.get(REGISTER):
        wrong.append(f"{REGISTER}: no request with the key at {API_HOST}, which {BILLS} use too")
    found = [f"{source} {count}" for source, count in spent.items() if count]
    return Check(name, ", ".join(found), tuple(wrong))


def _uses_key(request: DemoRequest) -> bool:
    return request.host == API_HOST and request.path.startswith("/api/")


async def _check_key_limit(operations: Operations, web: DemoWeb) -> Check:
    """Compare the requests with those that were counted, and the counted ones with the share of each source."""
    budgets = await operations.budgets() or []
    wrong = [
        f"{part.source}: {part.spent} of {part.share} at {budget.host}"
        for budget in budgets
        for part in budget.sources
        if part.spent > part.share
    ]
    sent = sum(map(_uses_key, web.requests))
    paid = sum(child.spent for child in await key_shares(operations))
    if sent > paid:
        wrong.append(f"{API_HOST}: {sent} requests, of which only {paid} were counted")
    if any(paid > budget.hourly_limit for budget in budgets if budget.host == API_HOST):
        wrong.append(f"{API_HOST}: {paid} requests exceed its limit")
    if refused := sum(request.status == 429 for request in web.requests if _uses_key(request)):
        wrong.append(f"{API_HOST}: it refused {counted(refused, 'request')} with 429")
    found = f"{paid} of {max((budget.hourly_limit for budget in budgets), default=0):,} in this hour"
    return Check("the limit of that key is kept, and every share of it", found, tuple(wrong))


async def count_unfinished_handoffs(operations: Operations) -> int:
    """Count the hand-offs that are queued or running. The lease of a killed program must end first."""
    unfinished = [HandoffFilter(status=status) for status in (HandoffStatus.QUEUED, HandoffStatus.RUNNING)]
    return sum([(await operations.handoffs.list_handoffs(only, limit=1)).total for only in unfinished])


async def _check_handoffs(operations: Operations, expected: Expected, urls: list[UrlLine]) -> Check:
    page = await operations.handoffs.list_handoffs(HandoffFilter(DATED_SOURCE), limit=_MOST)
    jobs = (await operations.handoffs.list_jobs(JobFilter(DATED_SOURCE), limit=_MOST)).jobs
    ends = {url.url: _JOBS.get(url.status, ("queued", "running")) for url in urls}
    wrong = [f"{url}: not handed off" for url in expected.day_links.keys() - {handoff.url for handoff in page.handoffs}]
    wrong += [
        f"{handoff.url}: {handoff.status} ({handoff.reason_code})"
        for handoff in page.handoffs
        if handoff.status is not HandoffStatus.COMPLETED
    ]
    wrong += [f"job {job.job_id}: {job.status}, {job.url}" for job in jobs if job.status not in ends[job.url]]
    counts = Counter(job.status for job in jobs)
    found = ", ".join([counted(page.total, "item"), *(f"{count} {status}" for status, count in sorted(counts.items()))])
    return Check("the GOV.UK day is handed off to jobs", found, tuple(wrong))


def _check_counts(expected: Expected, documents: int, texts: int) -> Check:
    wrong = _compare(
        {"documents": expected.documents, "texts": expected.texts}, {"documents": documents, "texts": texts}
    )
    found = f"{counted(documents, 'document')}, {counted(texts, 'text')}"
    return Check("one document per page, one text per content", found, wrong)


def _check_titles(expected: Expected, documents: list[Document]) -> Check:
    """Compare the words of the titles. An unexpected document fails the check of the URLs."""
    pairs = [(document, expected.titles.get(document.url, document.title)) for document in documents]
    wrong = tuple(
        f"{document.url}: {document.title!r}, expected {title!r}"
        for document, title in pairs
        if re.findall(r"\w+", document.title) != re.findall(r"\w+", title)
    )
    return Check("every title is as the site wrote it, in every charset", counted(len(documents), "title"), wrong)


def _check_variants(expected: Expected, documents: list[Document]) -> Check:
    found = {one.url: one.canonical_url for one in documents if one.url in expected.canonicals}
    name = "AMP and print pages point at the page they vary"
    return Check(name, counted(len(expected.canonicals), "variant"), _compare(expected.canonicals, found))


async def _check_search(operations: Operations, documents: list[Document]) -> Check:
    """Search for words from the texts in scripts without spaces or from right to left."""
    asked = [document for document in documents if document.language in _OTHER_SCRIPTS]
    wrong = []
    for document in asked:
        words = re.findall(r"\w{4,}", document.text)
        searched = f"{words[len(words) // 3][:4]} {words[-1][:4]}" if document.language != "ar" else " ".join(words[:3])
        hits = (await operations.search.find(f"{searched} lang:{document.language}", limit=100)).hits
        if document.id not in [hit.id for hit in hits]:
            wrong.append(f"{document.url}: a search for {searched!r} does not find it")
    name = "words of Arabic, Chinese and Japanese pages find them"
    return Check(name, counted(len(asked), "page"), tuple(wrong))


async def _check_raw_files(operations: Operations, documents: list[Document]) -> Check:
    wrong = [document.url for document in documents if not await operations.documents.raw_file_matches(document)]
    return Check("every raw file matches its row", counted(len(documents), "file"), tuple(wrong))


def _check_walls(expected: Expected, urls: list[UrlLine]) -> Check:
    """Check whether the browser read the pages that need one. The check of the URLs covers their outcomes."""
    walled = {url for pages in expected.walled.values() for url in pages}
    waiting = [url.url for url in urls if url.url in walled and url.reason is None]
    hosts = ", ".join(expected.walled) or "no host"
    if waiting and all(expected.outcomes[url] == Ends.NO_BROWSER for url in waiting):
        return Check(f"{hosts} waits for a browser", f"{counted(len(waiting), 'page')} wait")
    return Check(f"the browser passes the bot wall of {hosts}", counted(len(walled), "page"), tuple(waiting))


def _check_politeness(web: DemoWeb, delay_seconds: float) -> Check:
    if not web.requests:
        return Check("no request was made: all results are from an earlier run", "0 requests")
    broken = web.politeness(delay_seconds, tolerance_seconds=TOLERANCE_SECONDS)
    hosts = {request.host for request in web.requests}
    found = f"{counted(len(web.requests), 'request')} to {counted(len(hosts), 'host')}"
    return Check("politeness is kept: no request came too soon", found, tuple(map(str, broken)))
