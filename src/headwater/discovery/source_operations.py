"""Operations on sources that send requests: add the source at an address, poll now, backfill, discover, test."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, get_args

from headwater.core.dates import bounds, day_before, day_of
from headwater.core.errors import BadRequest, HeadwaterError, InvalidURL, LeaseLost, OperatorError
from headwater.core.poll import EARLIEST_DAY, OlderPages, PollResult
from headwater.core.reasons import Reason
from headwater.core.record import extend, record
from headwater.core.run import Trigger
from headwater.core.source import Method, Source
from headwater.core.urls import normalize_url
from headwater.db import sources
from headwater.db.context import DatabaseContext
from headwater.db.pool import Connection
from headwater.db.runs import StartedRun
from headwater.db.sources import PollClaim
from headwater.db.sources import SourceItem as SourceItem
from headwater.discovery.operations import explain_busy
from headwater.discovery.poller import Poller
from headwater.discovery.runs import Runner
from headwater.discovery.site_search import FoundSite, OnStep, count_links, make_list, search_site, start_visit
from headwater.discovery.trial import OnStage, Trial, TrialResult, make_visit_http
from headwater.feeds.flaws import FeedFlaw
from headwater.feeds.results import FeedLink
from headwater.politeness.gate import Gate
from headwater.sandbox.pool import Sandbox
from headwater.sources.health import SourceDetails
from headwater.sources.import_export import choose_name
from headwater.sources.kind import Kind
from headwater.sources.kinds.site import IngestionMode
from headwater.sources.kinds.site_discovery import find_feeds, find_sitemaps, is_sitemap
from headwater.sources.operations import SourceOperations
from headwater.sources.registry import get_kind, prepare_settings
from headwater.sources.run import Page
from headwater.sources.visit import SiteVisit, VisitHttp

OnUrls = Callable[[int], None]
_NEWEST_SHOWN = 5
# Kinds without sitemaps reach older pages by one of these settings.
_BACKFILL_SETTINGS = {"since": "since={since}", "congresses": "'congresses=[117, 118]'"}


@record
class PolledSource:
    """The result of a poll of a source."""

    name: str
    method: Method
    title: str
    items: int
    new_items: int
    urls: int
    """The number of pages that sitemaps or other pages list."""
    new_urls: int
    left: int
    """The number of pages left for the next poll, which follows at once."""
    older: OlderPages | None
    """The pages of its sitemaps that are too old to be taken; null if there are none."""
    refused: Mapping[str, str]
    """The addresses that cannot be used, each with the reason."""
    flaws: tuple[FeedFlaw, ...]
    """The flaws of its feed."""


@record
class AddedSource(PolledSource):
    """A source that was added, what its first poll found, and the other feeds of the page."""

    settings: Mapping[str, Any]
    others: list[FeedLink]
    """Feeds that the page names too. They were not read."""
    deferred: bool
    """The first poll was left to the running poller."""
    is_certain: bool = True
    """False: the visit was over before the search for a feed was. The running poller continues the search."""
    is_unfinished: bool = False
    """The first poll stopped before its end, and the next poll follows at once."""
    newest: list[SourceItem] = field(default_factory=list)
    """The newest items that the first poll found."""
    links: int | None = None
    """The number of links of the start page; null unless a spider reads the site."""
    requests: int = 0
    """The number of requests that were sent, with those for robots.txt and for redirects."""
    seconds: float = 0.0


@record
class SyncedSource(PolledSource):
    """The result of a run and of the hand-off of its items. The counts are null if hand-offs are rolled back."""

    scrape_run_id: int | None
    handoff_queued_count: int | None
    """Items that the running program hands off later."""
    handoff_completed_count: int | None
    """Items that became a job."""
    handoff_failed_count: int | None
    """Items that could not be handed off."""
    handoff_skipped_count: int | None
    """Items whose payload has a job already."""


@record
class DiscoveredSources:
    """The feeds and sitemaps of a site."""

    url: str
    feeds: list[FeedLink]
    sitemaps: list[str]


def describe_poll(polled: PollResult) -> PolledSource:
    """Return what a poll found. Raises OperatorError if the poll failed."""
    _check_polled(polled)
    return extend(polled, PolledSource, name=polled.source.name)


def describe_sync(polled: PollResult) -> SyncedSource:
    """Return what a run found and handed off. Raises OperatorError if the poll failed."""
    _check_polled(polled)
    names = ("queued", "completed", "failed", "skipped")
    counts = {f"handoff_{name}_count": getattr(polled.handoffs, name, None) for name in names}
    return extend(polled, SyncedSource, name=polled.source.name, scrape_run_id=polled.run_id, **counts)


def describe_added(polled: PollResult, others: Sequence[FeedLink] = (), **more: Any) -> AddedSource:
    """Return a source that was added, and what its first poll found."""
    source = polled.source
    return extend(polled, AddedSource, name=source.name, settings=source.settings, others=list(others), **more)


def _check_polled(polled: PollResult) -> None:
    if polled.error:
        raise OperatorError(f"{polled.source.name} was not read: {polled.error}", reason=polled.reason)


@dataclass(eq=False)
class LiveSourceOperations(SourceOperations):
    """The operations on sources in a process that sends requests.

    `rescue` releases expired leases, and `on_polled` counts polls.
    """

    gate: Gate
    sandbox: Sandbox
    poller: Poller
    runner: Runner
    rescue: Callable[[DatabaseContext], Awaitable[object]]
    on_polled: Callable[[PollResult], None]

    def _open_http(self, visit: SiteVisit | None = None, kind: Kind | None = None) -> VisitHttp:
        return make_visit_http(self.gate, self.sandbox, visit or SiteVisit(), kind)

    async def add(
        self,
        url: str,
        name: str | None = None,
        overrides: Mapping[str, Any] | None = None,
        *,
        mode: str = "feed",
        on_step: OnStep = lambda _: None,
    ) -> AddedSource:
        """Add the source at a URL and poll it: a feed, a sitemap, or the feed or sitemap that its page leads to.

        A page without both that lists other pages is read as that list. The mode `list` reads it so in any case.

        Each address is read once. The operation sends at most 12 requests and takes at most a minute. If it then knows
        the page and not yet the feed, it adds the source, and the polls continue. If the site has nothing
        of that, the operation saves nothing. `on_step` gets a sentence before each step.
        """
        if mode not in get_args(IngestionMode):
            raise BadRequest(f"There is no mode {mode!r}: choose {', '.join(get_args(IngestionMode))}.")
        address = _parse_address(url)
        settings = dict(overrides or {}) | ({"ingestion_mode": mode} if mode != "feed" else {})
        # Wrong settings are refused before the first request.
        chosen = name or await self._choose_name(address)
        kind, _ = prepare_settings(chosen, "site", {**settings, "site_url": address})
        visit = start_visit()
        http = self._open_http(visit, kind)
        try:
            if mode == "spider":
                links = await count_links(http, address, settings.get("article_patterns") or (), on_step)
            elif mode == "list":
                found = make_list(address)
            else:
                found = await search_site(http, address, on_step)
        except HeadwaterError as error:
            raise _not_added(address, str(error), error.reason) from error
        if mode == "spider":  # the running poller starts the spider
            source = await self.create(chosen, "site", {**settings, "site_url": address})
            polled = PollResult(source, Reason.POLLED, method=Method.SPIDER, deferred=True)
            return await self._describe_visit(polled, visit, links=links)
        polled = await self._try(name, found, settings, visit)
        if polled.error and not _is_kept(polled, visit):
            raise _not_added(address, polled.error, polled.reason)
        return await self._describe_visit(polled, visit, others=found.others, is_certain=found.is_certain)

    async def _describe_visit(self, polled: PollResult, visit: SiteVisit, **more: Any) -> AddedSource:
        newest = await self.context.database.run(sources.list_last_items, polled.source.id, _NEWEST_SHOWN)
        seconds = round(visit.elapsed_seconds, 1)
        is_unfinished = visit.is_over and not polled.deferred
        return describe_added(
            polled, newest=newest, requests=visit.requests, seconds=seconds, is_unfinished=is_unfinished, **more
        )

    async def _try(
        self, name: str | None, found: FoundSite, overrides: Mapping[str, Any], visit: SiteVisit
    ) -> PollResult:
        """Add a site and poll it at once. If the poll fails, the site is removed again.

        A site whose search or whose poll the end of the visit cuts short stays, and its next poll follows at once.
        """
        chosen = name or await self._choose_name(found.address, found.title)
        kind, settings = prepare_settings(chosen, "site", found.make_settings(overrides))

        async def insert(connection: Connection) -> tuple[PollClaim, bool]:
            # The claim is in the same transaction, so that no running poller is faster.
            _, was_removed = await self._insert(connection, chosen, "site", kind, settings)
            return await self._claim(connection, chosen, found.method), was_removed

        claim, was_removed = await self.context.database.transact(insert)
        succeeded = False
        try:
            if found.is_certain:
                polled = await self._wait(claim.source, self.poller.poll(claim, visit=visit))
            else:
                polled = await self._leave_to_poller(claim)
            succeeded = _is_kept(polled, visit)
        finally:
            if not succeeded:
                await asyncio.shield(self._undo_add(claim))
        if succeeded and was_removed:
            await self._requeue_urls(chosen)
        if visit.is_over:
            await self.context.database.run(
                sources.make_method_due,
                claim.source.id,
                claim.method,
                now=self.context.clock.now(),
                rest=timedelta(0),
                why="The first visit was over before everything was read.",
            )
        return polled

    async def _leave_to_poller(self, claim: PollClaim) -> PollResult:
        """Release the first poll of a source, so that the running poller takes it."""
        await self.poller.release(claim)
        return PollResult(claim.source, Reason.POLLED, method=claim.method, deferred=True)

    async def _choose_name(self, url: str, title: str = "") -> str:
        return choose_name(url, title, {source.name for source in await self._get_all()})

    async def _undo_add(self, claim: PollClaim) -> None:
        """Remove a source whose first poll failed, unless another process polled it successfully."""
        source_id = claim.source.id

        async def work(connection: Connection) -> bool:
            await sources.lock_source(connection, claim.source.name)
            if await sources.delete_unused_source(connection, source_id):
                return False
            if any(method.last_success_at for method in await sources.list_methods(connection, [source_id])):
                return False
            await sources.mark_source_removed(connection, source_id, self.context.clock.now())
            return True

        with contextlib.suppress(OperatorError):  # another process has removed it
            if await self.context.database.transact(work):
                await self._end_urls(source_id)

    async def sync(self, name: str, method: str | None = None, on_urls: OnUrls = lambda _: None) -> PollResult:
        """Poll a source now by one method, by default its first, and hand off the items."""
        started = await self.start_sync(name, method)
        return await self._wait(started.claim.source, self.runner.execute(started, on_urls=on_urls))

    async def start_sync(self, name: str, method: str | None = None) -> StartedRun:
        """Start the run of a sync. The caller executes it."""
        async with self.context.database.connection() as connection:
            source = await sources.require_source(connection, name)
            methods = [row.method for row in await sources.list_methods(connection, [source.id])]
            chosen = _choose_method(source, methods, method)
        await self.rescue(self.context)  # no other process may do it
        day = self._get_last_day(source) if chosen is Method.FEED else None
        begun = await self.runner.begin(source, Trigger.SYNC, day=day, method=chosen)
        if begun is None:
            raise await explain_busy(self.context, source)
        return begun

    async def backfill(self, name: str, since: date, on_urls: OnUrls = lambda _: None) -> PollResult:
        """Poll the sitemaps of a source now, back to a day. If this is interrupted, the running poller continues."""
        claim = await self._request_backfill(name, since, claims=True)
        assert claim is not None
        return await self._wait(claim.source, self.poller.poll(claim, on_urls=on_urls))

    async def request_backfill(self, name: str, since: date) -> SourceDetails:
        """Make the running poller read the sitemaps of a source back to a day."""
        await self._request_backfill(name, since, claims=False)
        return await self.show(name)

    async def _request_backfill(self, name: str, since: date, *, claims: bool) -> PollClaim | None:
        async def work(connection: Connection) -> PollClaim | None:
            source = await sources.require_source(connection, name)
            timezone = get_kind(source).timezone or self.context.settings.timezone
            if since > day_of(self.context.clock.now(), timezone):
                raise BadRequest(f"since: {since} is in the future.")
            moment, _ = bounds(max(since, EARLIEST_DAY), timezone)
            if not await sources.request_backfill(connection, source.id, moment, self.context.clock.now()):
                methods = await sources.list_methods(connection, [source.id])
                if any(row.method is Method.SITEMAP for row in methods):
                    raise await explain_busy(self.context, source)
                raise BadRequest(_explain_no_backfill(source, since))
            return await self._claim(connection, source.name, Method.SITEMAP) if claims else None

        await self.rescue(self.context)  # no other process may do it
        return await self.context.database.transact(work)

    async def discover(self, url: str) -> DiscoveredSources:
        """Return the feeds and sitemaps of a site. It saves nothing."""
        address = _parse_address(url)
        http = self._open_http()
        page = await http.get(address)
        if await is_sitemap(page) and not await _is_feed(page):
            return DiscoveredSources(address, [], [address])
        return DiscoveredSources(address, await find_feeds(http, address), await find_sitemaps(http, address))

    async def test(self, target: str, on_stage: OnStage = lambda _: None) -> TrialResult:
        """Test each stage from a source or a URL to an extracted article. It saves nothing."""
        source = await self.context.database.run(sources.get_source, target)
        trial = Trial(self.context, self.gate, self.sandbox, self._open_http(), on_stage)
        if source:
            return await trial.test_source(source)
        try:
            address = _parse_address(target)
        except InvalidURL as error:
            if ":" in target:
                raise
            raise sources.unknown_source(target) from error
        return await trial.test_url(address)

    async def _claim(self, connection: Connection, name: str, method: Method) -> PollClaim:
        now = self.context.clock.now()
        until = now + timedelta(seconds=self.context.settings.lease_seconds)
        claims = await sources.claim_polls(
            connection, now=now, until=until, holder=self.context.holder, limit=1, methods=(method,), name=name
        )
        return claims[0]

    def _get_last_day(self, source: Source) -> date | None:
        try:
            kind = get_kind(source)
        except OperatorError:
            return None  # the run reports the error
        timezone = kind.timezone or self.context.settings.timezone
        return day_before(self.context.clock.now(), timezone) if kind.dated else None

    async def _wait(self, source: Source, poll: Awaitable[PollResult]) -> PollResult:
        try:
            polled = await poll
        except LeaseLost as error:
            why = f"{source.name} was changed, removed or claimed by another process during the poll; try again."
            raise OperatorError(why, reason=error.reason) from error
        self.on_polled(polled)
        return polled


def _parse_address(text: str) -> str:
    """Return the URL that a person means. The scheme may be missing."""
    is_host = "://" not in text and "." in text.partition("/")[0]
    return normalize_url(f"https://{text}" if is_host else text, keep_trailing_slash=True)


async def _is_feed(page: Page) -> bool:
    """Return whether a page is a feed. Some feeds can be read as a sitemap too."""
    try:
        await page.feed()
    except HeadwaterError:
        return False
    return True


def _choose_method(source: Source, methods: list[Method], method: str | None) -> Method:
    if not methods:
        raise BadRequest(f"Source {source.name} is not read: `headwater frontier submit` submits its pages.")
    if method is None:
        return methods[0]
    if method not in methods:
        raise BadRequest(f"Source {source.name}: method: is one of {', '.join(methods)}, not {str(method)!r}.")
    return Method(method)


def _is_kept(polled: PollResult, visit: SiteVisit) -> bool:
    """Return whether a new source stays after its first poll. The end of the visit is no failure of the source."""
    return polled.error is None or (polled.deferred and visit.is_over)


def _not_added(url: str, why: str, reason: Reason) -> OperatorError:
    return OperatorError(f"{url} was not added: {why}", reason=reason, url=url)


def _explain_no_backfill(source: Source, since: date) -> str:
    kind = get_kind(source)
    setting = next((setting for name, setting in _BACKFILL_SETTINGS.items() if hasattr(kind, name)), None)
    if setting is None:
        return (
            f"Source {source.name} has no sitemaps, and only sitemaps reach back; "
            "a source of kind site or bills has, unless only a spider reads it."
        )
    return (
        f"Source {source.name} reaches back by a setting, such as "
        f"`headwater source edit {source.name} --set {setting.format(since=since)}`, "
        f"and then `headwater source sync {source.name}`."
    )
