"""A trial: each stage from an address or a source to an extracted article. A trial saves nothing."""

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from headwater.core.dates import day_before
from headwater.core.errors import HeadwaterError, NotNow, Unreadable
from headwater.core.json_values import JsonObject, check_state
from headwater.core.poll import describe_older
from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.core.source import DiscoveredUrl, Item, Method, Source
from headwater.core.text import format_duration, one_line
from headwater.db.context import DatabaseContext
from headwater.db.pool import is_down
from headwater.extraction.registry import NormalizedPage, normalize
from headwater.feeds.results import Feed
from headwater.politeness.gate import Gate
from headwater.politeness.request_rate import RequestRate
from headwater.sandbox.pool import Sandbox
from headwater.sources.kind import Kind, check_item, refuse_shared_paths
from headwater.sources.kinds.site_discovery import LEAST_LISTED, find_feeds, find_sitemaps, is_sitemap
from headwater.sources.registry import get_kind
from headwater.sources.run import Http, Page, Run
from headwater.sources.visit import SiteVisit, VisitHttp

_MAX_YIELDED = 20
_WORDS_SHOWN = 30
_SHOWN = 5


@record
class TrialStage:
    """One stage of a trial. `found` and `error` are for a person."""

    name: str
    found: list[str]
    error: str | None = None
    seconds: float = 0.0


@record
class TrialResult:
    """A trial. The last stage may have failed."""

    works: bool
    stages: list[TrialStage]


OnStage = Callable[[TrialStage], None]


class _StageFailed(Exception):
    """A stage has failed. The stage holds the error."""


class _UnlimitedRate(RequestRate):
    """For a few requests of no source: only the pauses of hosts apply."""

    def __init__(self) -> None:
        pass

    async def wait(self) -> None:
        """Return at once."""

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[Callable[[], None]]:
        """Yield at once."""
        yield lambda: None


def make_visit_http(gate: Gate, sandbox: Sandbox, visit: SiteVisit, kind: Kind | None = None) -> VisitHttp:
    """Return a client for the requests of a visit. They are made as a source of the kind makes them."""
    kind = kind or Kind()
    return VisitHttp(gate, sandbox, kind, _UnlimitedRate(), kind.fetch_profile(""), visit=visit)


@dataclass(eq=False)
class Trial:
    """Sends the requests that a source would send, and saves nothing. Calls `on_stage` after each stage."""

    context: DatabaseContext
    gate: Gate
    sandbox: Sandbox
    http: Http
    on_stage: OnStage
    stages: list[TrialStage] = field(default_factory=list)

    async def test_url(self, url: str) -> TrialResult:
        """Test each stage from an address to its newest article."""
        with contextlib.suppress(_StageFailed):
            await self._test_address(url)
        return TrialResult(self.stages[-1].error is None, self.stages)

    async def test_source(self, source: Source) -> TrialResult:
        """Test each stage from the settings of a source to its newest article."""
        with contextlib.suppress(_StageFailed):
            with self._stage("settings") as found:
                kind = get_kind(source)
                methods = list(kind.methods(timedelta(minutes=self.context.settings.poll_interval_minutes)))
                if not methods:
                    raise HeadwaterError("It is not polled: its pages are submitted.")
                found.append(f"a source of kind {source.kind}, read by {', '.join(methods)}")
            rate = RequestRate(self.context.database, self.context.clock, source.id, kind.gap)
            profile = kind.fetch_profile(source.name)
            feed_url = source.settings.get("feed_url")
            if source.kind == "site" and isinstance(feed_url, str) and methods[0] is Method.FEED:
                self.http = VisitHttp(self.gate, self.sandbox, kind, rate, profile)
                await self._test_address(feed_url)
                if Method.SITEMAP in methods:
                    with self._stage("sitemaps") as found:
                        await self._list(source, kind, Method.SITEMAP, found)
            else:
                self.http = Http(self.gate, self.sandbox, kind, rate, profile, _refuse_to_wait)
                await self._test_kind(source, kind, methods[0])
        return TrialResult(self.stages[-1].error is None, self.stages)

    @contextlib.contextmanager
    def _stage(self, name: str) -> Iterator[list[str]]:
        """Run a stage. Yields the list of what it found."""
        found: list[str] = []
        message: str | None = None
        begun = time.monotonic()
        try:
            yield found
        except HeadwaterError as error:
            message = str(error)
            raise _StageFailed from error
        finally:
            self.stages.append(TrialStage(name, found, message, round(time.monotonic() - begun, 3)))
            self.on_stage(self.stages[-1])

    async def _test_address(self, url: str) -> None:
        await self._test_robots(url)
        with self._stage("address") as found:
            page = await self.http.get(url)
            found += _describe_answer(url, page)
            feed = await _read_feed(page)
            found.append("it is a feed" if feed else "it is a page, not a feed")
        if feed is None:
            page = await self._get_best_feed(url)
            feed = await page.feed()
        with self._stage("feed") as found:
            found += _describe_feed(feed)
            newest = _find_newest(feed)
        if newest:
            await self._test_page(newest)

    async def _test_robots(self, url: str) -> None:
        with self._stage("robots.txt") as found:
            host = await self.gate.refresh_robots(url)
            is_there = host.robots_txt is not None
            found.append(f"{host.host} allows it" if is_there else f"{host.host} has none: all is allowed")
            if host.crawl_delay_ms:
                found.append(f"asks for {host.crawl_delay_ms / 1000:g} seconds between requests")

    async def _get_best_feed(self, url: str) -> Page:
        with self._stage("feeds") as found:
            feeds = await find_feeds(self.http, url)
            found += [f"{feed.url} {feed.title}".strip() for feed in feeds]
            if not feeds:
                sitemaps = await find_sitemaps(self.http, url)
                found += [f"sitemap {sitemap}" for sitemap in sitemaps[:_SHOWN]]
                listed = [] if sitemaps else (await (await self.http.get(url)).entries()).entries
                found += [f"entry {entry.url} {entry.title}" for entry in listed[:_SHOWN]]
                if sitemaps or len(listed) >= LEAST_LISTED:
                    raise Unreadable("It has no feed; `headwater add` adds what it has.", url=url)
                raise Unreadable("It has no feed; `headwater add --mode spider` adds its pages.", url=url)
            return await self.http.get(feeds[0].url)

    async def _test_kind(self, source: Source, kind: Kind, method: Method) -> None:
        with self._stage("list") as found:
            first = await self._list(source, kind, method, found)
            if not first and method is Method.FEED:
                raise Unreadable("It lists nothing.")
        if first and kind.fetch_items:
            await self._test_page(first[0].url)

    async def _list(self, source: Source, kind: Kind, method: Method, found: list[str]) -> list[Item | DiscoveredUrl]:
        """Return what a method lists first, and describe it in `found`."""
        first, state = await self._discover_first(source, kind, method)
        found.append(f"{len(first)}{' or more' if len(first) == _MAX_YIELDED else ''} found")
        found += [f"{one.url} {getattr(one, 'title', '')}".strip() for one in first[:_SHOWN]]
        if older := describe_older(state.get("older"), source.name, kind.timezone or self.context.settings.timezone):
            found += [older.describe(), older.command]
        if method is not Method.FEED:
            found += [one["problem"] for one in state.get("problems", [])[:_SHOWN]]
        return first

    async def _discover_first(
        self, source: Source, kind: Kind, method: Method
    ) -> tuple[list[Item | DiscoveredUrl], JsonObject]:
        first: list[Item | DiscoveredUrl] = []
        paths: list[tuple[Item, str | None]] = []
        now = self.context.clock.now()
        timezone = kind.timezone or self.context.settings.timezone
        run = Run(self.http, {}, now, method, day=day_before(now, timezone) if kind.dated else None)
        try:
            async for one in kind.discover(run):
                first.append(one)
                if isinstance(one, Item):
                    paths.append((one, check_item(source.name, kind, one)))
                if len(first) == _MAX_YIELDED:
                    break
        except HeadwaterError:
            raise
        except Exception as error:
            if is_down(error):
                raise
            raise HeadwaterError(f"{type(error).__name__}: {error}") from error
        refuse_shared_paths(source.name, paths)
        check_state(source.name, run.state)
        return first, run.state

    async def _test_page(self, url: str) -> None:
        with self._stage("newest page") as found:
            response = (await self.http.get(url)).response
            found.append(f"{response.url} answered {response.status}, {len(response.body):,} bytes")
        with self._stage("article") as found:
            page = await self.sandbox.run(
                normalize,
                response.body,
                response.url,
                response.headers.get("content-type"),
                returns=NormalizedPage,
                seconds=self.context.settings.sandbox_timeout_seconds,
            )
            found += _describe_article(page)


def _refuse_to_wait(until: datetime) -> NoReturn:
    """Refuse to wait for the budget. A run would wait, for up to an hour."""
    message = f"{Reason.BUDGET_SPENT.sentence} `headwater source budgets` shows when that is."
    raise NotNow(message, until=until, reason=Reason.BUDGET_SPENT)


async def _read_feed(page: Page) -> Feed | None:
    """Return a page as a feed, or None if it is an HTML page. Raises Unreadable for anything else."""
    try:
        return await page.feed()
    except Unreadable as error:
        if error.reason is not Reason.NOT_A_FEED:
            raise
        if await page.looks_like_page():
            return None
        if await is_sitemap(page):
            raise Unreadable("It is a sitemap, not a feed; `headwater add` adds it.", url=page.response.url) from error
        raise


def _describe_answer(url: str, page: Page) -> list[str]:
    response = page.response
    content_type = response.headers.get("content-type") or "of no stated type"
    lines = [f"answered {response.status}, {len(response.body):,} bytes, {one_line(content_type)}"]
    if response.url != url:
        lines.append(f"redirects to {response.url}")
    return lines


def _describe_feed(feed: Feed) -> list[str]:
    dates = sorted(entry.published_at for entry in feed.entries if entry.published_at)
    lines = [one_line(feed.title) or "it has no title", f"{len(feed.entries)} entries, {len(dates)} of them dated"]
    if dates:
        lines.append(f"from {dates[0]:%Y-%m-%d %H:%M} to {dates[-1]:%Y-%m-%d %H:%M} UTC")
    if feed.ttl_seconds:
        lines.append(f"asks to be polled at most every {format_duration(timedelta(seconds=feed.ttl_seconds))}")
    return lines


def _find_newest(feed: Feed) -> str | None:
    """Return the address of the newest entry, or of the first entry if none has a date."""
    entries = [entry for entry in feed.entries if entry.url]
    earliest = datetime.min.replace(tzinfo=UTC)
    newest = max(entries, key=lambda entry: entry.published_at or earliest, default=None)
    return newest.url if newest else None


def _describe_article(page: NormalizedPage) -> list[str]:
    article = page.article
    words = article.text.split()
    published = f"{article.published_at:%Y-%m-%d %H:%M} UTC" if article.published_at else "not found"
    return [
        f"title: {one_line(article.title or '') or 'not found'}",
        f"published: {published}",
        f"{len(words):,} words, read by {page.normalizer}: {' '.join(words[:_WORDS_SHOWN])}",
    ]
