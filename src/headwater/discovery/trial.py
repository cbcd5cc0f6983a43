"""A trial: each stage from an address to a read article, told as it ends, with nothing saved."""

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NoReturn

from headwater.app.runtime import Runtime
from headwater.core.dates import day_before
from headwater.core.errors import HeadwaterError, NotNow, Unreadable
from headwater.core.json_values import check_state
from headwater.core.reasons import Reason
from headwater.core.source import DiscoveredUrl, FetchProfile, Item, Method, Source
from headwater.core.text import format_duration, one_line
from headwater.db.pool import is_down
from headwater.extraction.registry import NormalizedPage, normalize
from headwater.feeds.results import Feed
from headwater.politeness.request_rate import Pace
from headwater.sources.kind import Kind
from headwater.sources.kinds.site_discovery import find_feeds, find_sitemaps, is_sitemap
from headwater.sources.registry import get_kind
from headwater.sources.run import Http, Page, Run
from headwater.sources.validation import check_item, refuse_shared_paths

_LOOKED_AT = 20  # of what a kind yields
_WORDS_SHOWN = 30
_SHOWN = 5


@dataclass(slots=True)
class Stage:
    """One step: what was found, in lines for people, and why it went no further where it failed."""

    name: str
    found: list[str] = field(default_factory=list)
    error: str | None = None
    seconds: float = 0.0


class _Stopped(Exception):
    """A stage has failed; its error was told."""


class NoPace(Pace):
    """For who asks a few times and for no source: the turns of hosts are pace enough."""

    def __init__(self) -> None:
        pass

    async def wait(self) -> None:
        """Wait for nothing."""

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[Callable[[], None]]:
        """Let everybody pass."""
        yield lambda: None


def passing_http(runtime: Runtime) -> Http:
    """Return a way to ask for no source in particular; through the gate, as everything."""
    return Http(runtime.gate, runtime.sandbox, Kind(), NoPace(), FetchProfile())


class Trial:
    """Asks as a source would, through the gate, and keeps nothing. Each stage is told as it ends."""

    def __init__(self, runtime: Runtime, tell: Callable[[Stage], None]) -> None:
        self._runtime = runtime
        self._tell = tell
        self._http = passing_http(runtime)

    async def of_url(self, url: str) -> bool:
        """Walk from an address to the newest article behind it; tell whether all went well."""
        with contextlib.suppress(_Stopped):
            await self._from_url(url)
            return True
        return False

    async def of_source(self, source: Source) -> bool:
        """Walk from a source's settings to its newest article; tell whether all went well."""
        with contextlib.suppress(_Stopped):
            with self._stage("settings") as stage:
                kind = get_kind(source)
                methods = list(kind.methods(timedelta(minutes=self._runtime.context.settings.poll_interval_minutes)))
                if not methods:
                    raise HeadwaterError("Nothing is read: its pages are handed in.")
                stage.found.append(f"a source of kind {source.kind}, read by {', '.join(methods)}")
            self._http = self._http_of(source, kind)
            feed_url = source.settings.get("feed_url")
            if source.kind == "site" and isinstance(feed_url, str) and methods[0] is Method.FEED:
                await self._from_url(feed_url)
            else:
                await self._from_kind(source, kind, methods[0])
            return True
        return False

    def _http_of(self, source: Source, kind: Kind) -> Http:
        context = self._runtime.context
        pace = Pace(context.database, context.clock, source.id, kind.gap)
        return self._unwaiting(kind, pace, kind.fetch_profile(source.name))

    def _unwaiting(self, kind: Kind, pace: Pace, profile: FetchProfile) -> Http:
        """Return a way to ask that tells of a budget which is used up, where a run would wait for an hour."""
        return Http(self._runtime.gate, self._runtime.sandbox, kind, pace, profile, while_waiting=self._refuse_to_wait)

    def _refuse_to_wait(self, until: datetime) -> NoReturn:
        words = f"{Reason.BUDGET_SPENT.sentence} `headwater source budgets` tells when that is."
        raise NotNow(words, until=until, reason=Reason.BUDGET_SPENT)

    @contextlib.contextmanager
    def _stage(self, name: str) -> Iterator[Stage]:
        stage, begun = Stage(name), time.monotonic()
        try:
            yield stage
        except HeadwaterError as error:
            stage.error = str(error)
            raise _Stopped from error
        finally:
            stage.seconds = round(time.monotonic() - begun, 3)
            self._tell(stage)

    async def _from_url(self, url: str) -> None:
        await self._look_at_robots(url)
        with self._stage("address") as stage:
            page = await self._http.get(url)
            stage.found += _answer_lines(url, page)
            feed = await _feed_or_none(page)
            stage.found.append("it is a feed" if feed else "it is a page, not a feed")
        if feed is None:
            page = await self._find_feed(url)
            feed = await page.feed()
        with self._stage("feed") as stage:
            stage.found += _feed_lines(feed)
            newest = _newest(feed)
        if newest:
            await self._read_page(newest)

    async def _look_at_robots(self, url: str) -> None:
        with self._stage("robots.txt") as stage:
            host = await self._runtime.gate.refresh_robots(url)
            is_there = host.robots_txt is not None
            stage.found.append(f"{host.host} allows it" if is_there else f"{host.host} has none: all is allowed")
            if host.crawl_delay_ms:
                stage.found.append(f"asks for {host.crawl_delay_ms / 1000:g} seconds between requests")

    async def _find_feed(self, url: str) -> Page:
        """Return the best of the feeds that an address leads to."""
        with self._stage("feeds") as stage:
            feeds = await find_feeds(self._http, url)
            stage.found += [f"{feed.url} {feed.title}".strip() for feed in feeds]
            if not feeds:
                sitemaps = await find_sitemaps(self._http, url)
                stage.found += [f"sitemap {sitemap}" for sitemap in sitemaps[:_SHOWN]]
                advice = (
                    "`headwater add` reads its sitemap"
                    if sitemaps
                    else "`headwater add --mode spider` walks through it"
                )
                raise Unreadable(f"It has no feed; {advice}.", url=url)
            return await self._http.get(feeds[0].url)

    async def _from_kind(self, source: Source, kind: Kind, method: Method) -> None:
        with self._stage("list") as stage:
            found = await self._first_found(source, kind, method)
            stage.found.append(f"{len(found)}{' or more' if len(found) == _LOOKED_AT else ''} found")
            stage.found += [f"{one.url} {getattr(one, 'title', '')}".strip() for one in found[:_SHOWN]]
            if not found and method is Method.FEED:
                raise Unreadable("It lists nothing.")
        if found and kind.fetch_items:
            await self._read_page(found[0].url)

    def _as(self, source: Source, kind: Kind) -> Http:
        """Return a way to ask on the terms of a source, and at its pace."""
        context = self._runtime.context
        pace = Pace(context.database, context.clock, source.id, kind.gap)
        return self._unwaiting(kind, pace, kind.fetch_profile(source.name))

    async def _first_found(self, source: Source, kind: Kind, method: Method) -> list[Item | DiscoveredUrl]:
        found: list[Item | DiscoveredUrl] = []
        places: list[tuple[Item, str | None]] = []
        now = self._runtime.context.clock.now()
        timezone = kind.timezone or self._runtime.context.settings.timezone
        run = Run(self._as(source, kind), {}, now, method, day=day_before(now, timezone) if kind.dated else None)
        try:
            async for one in kind.discover(run):
                found.append(one)
                if isinstance(one, Item):
                    places.append((one, check_item(source.name, kind, one)))
                if len(found) == _LOOKED_AT:
                    break
        except HeadwaterError:
            raise
        except Exception as error:
            if is_down(error):
                raise
            raise HeadwaterError(f"{type(error).__name__}: {error}") from error
        refuse_shared_paths(source.name, places)
        check_state(source.name, run.state)
        return found

    async def _read_page(self, url: str) -> None:
        with self._stage("newest page") as stage:
            page = await self._http.get(url)
            response = page.response
            stage.found.append(f"{response.url} answered {response.status}, {len(response.body):,} bytes")
        with self._stage("article") as stage:
            content_type = response.headers.get("content-type")
            read = await self._runtime.sandbox.run(
                normalize,
                response.body,
                response.url,
                content_type,
                returns=NormalizedPage,
                seconds=self._runtime.context.settings.sandbox_timeout_seconds,
            )
            stage.found += _article_lines(read)


async def _feed_or_none(page: Page) -> Feed | None:
    """Return the feed that a page is, None for a page that may lead to one; raises what says why it is neither."""
    try:
        return await page.feed()
    except Unreadable as error:
        if error.reason is not Reason.NOT_A_FEED:
            raise
        if await page.looks_like_page():
            return None
        if await is_sitemap(page):
            raise Unreadable("It is a sitemap, not a feed; `headwater add` reads it.", url=page.response.url) from error
        raise


def _answer_lines(url: str, page: Page) -> list[str]:
    response = page.response
    kind = response.headers.get("content-type") or "of no stated type"
    lines = [f"answered {response.status}, {len(response.body):,} bytes, {one_line(kind)}"]
    if response.url != url:
        lines.append(f"redirects to {response.url}")
    return lines


def _feed_lines(feed: Feed) -> list[str]:
    dates = sorted(entry.published_at for entry in feed.entries if entry.published_at)
    lines = [one_line(feed.title) or "it has no title", f"{len(feed.entries)} entries, {len(dates)} of them dated"]
    if dates:
        lines.append(f"from {dates[0]:%Y-%m-%d %H:%M} to {dates[-1]:%Y-%m-%d %H:%M} UTC")
    if feed.ttl_seconds:
        lines.append(f"asks to be read every {format_duration(timedelta(seconds=feed.ttl_seconds))} at most")
    return lines


def _newest(feed: Feed) -> str | None:
    """Return the address of the newest entry; of those without a date, the first."""
    entries = [entry for entry in feed.entries if entry.url]
    dated = [(entry.published_at, entry.url) for entry in entries if entry.published_at]
    if dated:
        return max(dated, key=lambda pair: pair[0])[1]
    return entries[0].url if entries else None


def _article_lines(read: NormalizedPage) -> list[str]:
    article = read.article
    words = article.text.split()
    published = f"{article.published_at:%Y-%m-%d %H:%M} UTC" if article.published_at else "not found"
    return [
        f"title: {one_line(article.title or '') or 'not found'}",
        f"published: {published}",
        f"{len(words):,} words, read by {read.normalizer}: {' '.join(words[:_WORDS_SHOWN])}",
    ]
