"""What a door may ask of sources that reaches out: add what is at an address, read now, look what is there."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any, get_args
from urllib.parse import urlsplit

from headwater.app.maintenance import rescue_expired
from headwater.app.metrics import Metrics
from headwater.app.runtime import Runtime
from headwater.core.dates import bounds, day_before, day_of
from headwater.core.errors import HeadwaterError, InvalidURL, LeaseLost, OperatorError
from headwater.core.poll import PollResult
from headwater.core.reasons import Reason
from headwater.core.run import Trigger
from headwater.core.source import Method, Source
from headwater.core.text import make_storable
from headwater.core.urls import normalize_url
from headwater.db import sources
from headwater.db.pool import Connection
from headwater.db.sources import PollClaim
from headwater.discovery.operations import in_the_way
from headwater.discovery.trial import Stage, Trial, passing_http
from headwater.feeds.results import FeedLink
from headwater.sandbox.pool import Sandbox
from headwater.sources.import_export import free_name
from headwater.sources.kinds.site import SITEMAP_HOURS, IngestionMode
from headwater.sources.kinds.site_discovery import FEED_PATHS, SITEMAP_PATHS, find_feeds, find_sitemaps, is_sitemap
from headwater.sources.operations import SourceOperations
from headwater.sources.registry import get_kind, prepare_settings
from headwater.sources.run import Page
from headwater.sources.settings import unknown

OnUrls = Callable[[int], None]
Mode = IngestionMode
_EARLIEST = date(1970, 1, 1)
# Settings by which kinds reach back that have no sitemaps, as they may be given.
_REACHES_BACK = {"since": "since={since}", "congresses": "'congresses=[117, 118]'"}


@dataclass(frozen=True, slots=True)
class Added:
    """A source that was added, what its first reading brought, and what could be read beside it."""

    polled: PollResult
    others: list[FeedLink]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What there is to read at an address."""

    url: str
    feeds: list[FeedLink]
    sitemaps: list[str]


class LiveSourceOperations(SourceOperations):
    """The same in a process that reaches out."""

    def __init__(self, runtime: Runtime, metrics: Metrics) -> None:
        super().__init__(runtime.context)
        self._runtime = runtime
        self._metrics = metrics

    def _sandbox(self) -> AbstractAsyncContextManager[Sandbox]:
        return nullcontext(self._runtime.sandbox)

    async def add(
        self, url: str, name: str | None = None, overrides: Mapping[str, Any] | None = None, *, mode: str = "feed"
    ) -> Added:
        """Add what is at a URL as a source and read it at once: a feed, or what the page there names or its site has.

        What is not found to be a source is not saved.
        """
        if mode not in get_args(Mode):
            modes = ", ".join(get_args(Mode))
            raise OperatorError(f"There is no mode {mode!r}: choose {modes}.", reason=Reason.BAD_REQUEST)
        address = _address(url)
        settings = {**(overrides or {}), **({"ingestion_mode": mode} if mode != "feed" else {})}
        if mode == "spider":
            return Added(await self._add_spider(address, name, settings), [])
        polled = await self._try(name, {**settings, "feed_url": address})
        if polled.error is None:
            return Added(polled, [])
        if polled.reason is not Reason.NOT_A_FEED:
            raise _not_added(address, polled.error, polled.reason)
        return await self._add_found(address, name, settings, polled.error)

    async def _add_found(self, address: str, name: str | None, settings: dict[str, Any], why_not: str) -> Added:
        """Add the sitemap that an address is, or the feed that its page leads to, or else the site's sitemap.

        `why_not` says why it is no feed itself.
        """
        try:
            found = await self._look(address)
        except HeadwaterError as error:
            raise _not_added(address, str(error), error.reason) from error
        sitemaps = [FeedLink(sitemap, "sitemap") for sitemap in found.sitemaps]
        if found.feeds:
            best, *others = found.feeds
            polled = await self._try(name, _feed_of_page(best, address, settings), title=best.title)
        elif sitemaps:
            best, *others = sitemaps
            polled = await self._try(name, {**settings, "sitemap_url": best.url}, method=Method.SITEMAP)
        else:
            tried = (
                f"{why_not} It names none; none is at {', '.join(FEED_PATHS)}, and there is no sitemap in "
                f"robots.txt or at {', '.join(SITEMAP_PATHS)}. To walk through its pages instead: --mode spider."
            )
            raise _not_added(address, tried, Reason.NOT_A_FEED)
        if polled.error:
            raise _not_added(address, polled.error, polled.reason)
        return Added(polled, others)

    async def _look(self, address: str) -> Surroundings:
        """Tell what an address leads to: sitemaps only where it is one, or where there is no feed."""
        http = passing_http(self._runtime)
        page = await http.get(address)
        if await is_sitemap(page) and not await _is_feed(page):
            return Surroundings(address, [], [address])
        feeds = await find_feeds(http, address)
        return Surroundings(address, feeds, [] if feeds else await find_sitemaps(http, address))

    async def _add_spider(self, address: str, name: str | None, settings: dict[str, Any]) -> PollResult:
        """Add a site whose pages are walked through, once it has answered; that takes long and is left for later."""
        chosen = name or await self._free_name(address)
        prepare_settings(chosen, "site", {**settings, "site_url": address})
        try:
            await passing_http(self._runtime).get(address)
        except HeadwaterError as error:
            raise _not_added(address, str(error), error.reason) from error
        source = await self.create(chosen, "site", {**settings, "site_url": address})
        return PollResult(source, Reason.POLLED, method=Method.SPIDER, deferred=True)

    async def _try(
        self, name: str | None, given: Mapping[str, Any], *, title: str = "", method: Method = Method.FEED
    ) -> PollResult:
        """Add a site and read it at once; one that cannot be read is taken back."""
        address = str(given.get("feed_url") or given.get("sitemap_url"))
        chosen = name or await self._free_name(address, title)
        kind, settings = prepare_settings(chosen, "site", given)

        async def insert(connection: Connection) -> tuple[PollClaim, bool]:
            """Add the row and claim its first reading at once, so that no running poller is faster."""
            _, was_there = await self._insert(connection, chosen, "site", kind, settings)
            return (await self._claim(connection, chosen, method))[0], was_there

        claim, was_there = await self._context.database.transact(insert)
        read = False
        try:
            polled = await self._read(claim.source, self._runtime.poller.poll(claim))
            read = polled.error is None
        finally:
            if not read:
                await asyncio.shield(self._take_back(claim))
        if read and was_there:
            await self._queue_again(chosen)
        return polled

    async def _free_name(self, url: str, title: str = "") -> str:
        return free_name(url, title, {source.name for source in await self._all()})

    async def _take_back(self, claim: PollClaim) -> None:
        """Remove a source that was not found to be one; one that somebody has read meanwhile stays."""

        async def work(connection: Connection) -> bool:
            await sources.lock_source(connection, claim.source.name)
            if await sources.delete_unused_source(connection, claim.source.id):
                return False
            methods = await sources.list_methods(connection, claim.source.id)
            if any(one["last_success_at"] for one in methods):
                return False
            await sources.mark_source_removed(connection, claim.source.id, self._context.clock.now())
            return True

        if await self._context.database.transact(work):
            await self._end_urls(claim.source.id)

    async def sync(self, name: str, method: str | None = None, on_urls: OnUrls = lambda _: None) -> PollResult:
        """Read one source now, whether due or not: in the way that is named, or in its first. Hand off what came."""
        async with self._context.database.connection() as connection:
            source = await self._get(connection, name)
            methods = [Method(one["method"]) for one in await sources.list_methods(connection, source.id)]
            chosen = _choose_method(source, methods, method)
        await rescue_expired(self._context)  # there may be nobody else who does
        day = self._last_day(source) if chosen is Method.FEED else None
        begun = await self._runtime.runner.begin(source, Trigger.SYNC, day=day, method=chosen)
        if begun is None:
            raise await in_the_way(self._context, source)
        return await self._read(source, self._runtime.runner.execute(begun, on_urls=on_urls))

    async def backfill(self, name: str, since: date, on_urls: OnUrls = lambda _: None) -> PollResult:
        """Read a source's sitemaps now, back to a day. Stopped half way, it is left for the running program."""
        claim = await self._ask_backfill(name, since, claims=True)
        assert claim is not None
        return await self._read(claim.source, self._runtime.poller.poll(claim, on_urls=on_urls))

    async def request_backfill(self, name: str, since: date) -> dict[str, Any]:
        """Let the running program read a source's sitemaps back to a day; return all that is known of the source."""
        await self._ask_backfill(name, since, claims=False)
        return await self.show(name)

    async def _ask_backfill(self, name: str, since: date, *, claims: bool) -> PollClaim | None:
        async def work(connection: Connection) -> PollClaim | None:
            source = await self._get(connection, name)
            moment = self._beginning(source, since)
            if not await sources.request_backfill(connection, source.id, moment, self._context.clock.now()):
                methods = await sources.list_methods(connection, source.id)
                if any(one["method"] == Method.SITEMAP for one in methods):
                    raise await in_the_way(self._context, source)
                raise OperatorError(_why_no_backfill(source, since), reason=Reason.BAD_REQUEST)
            return (await self._claim(connection, source.name, Method.SITEMAP))[0] if claims else None

        await rescue_expired(self._context)  # there may be nobody else who does
        return await self._context.database.transact(work)

    def _beginning(self, source: Source, day: date) -> datetime:
        timezone = get_kind(source).timezone or self._context.settings.timezone
        if day > day_of(self._context.clock.now(), timezone):
            raise OperatorError(f"since: {day} is yet to come.", reason=Reason.BAD_REQUEST)
        return bounds(max(day, _EARLIEST), timezone)[0]

    async def look_around(self, url: str) -> Surroundings:
        """Tell which feeds and sitemaps there are at an address; nothing is saved."""
        address = _address(url)
        found = await self._look(address)
        if found.feeds:
            return replace(found, sitemaps=await find_sitemaps(passing_http(self._runtime), address))
        return found

    async def test(self, target: str, tell: Callable[[Stage], None]) -> bool:
        """Walk each stage with a source or a URL and tell what was found; nothing is saved. False: one failed."""
        async with self._context.database.connection() as connection:
            source = await sources.get_source(connection, make_storable(target))
        trial = Trial(self._runtime, tell)
        if source:
            return await trial.of_source(source)
        try:
            return await trial.of_url(_address(target))
        except InvalidURL as error:
            if ":" in target:
                raise
            raise unknown(target) from error

    async def _get(self, connection: Connection, name: str) -> Source:
        source = await sources.get_source(connection, make_storable(name))
        if source is None:
            raise unknown(name)
        return source

    async def _claim(self, connection: Connection, name: str, method: Method) -> list[PollClaim]:
        now = self._context.clock.now()
        until = now + timedelta(seconds=self._context.settings.lease_seconds)
        return await sources.claim_polls(
            connection, now=now, until=until, holder=self._context.holder, limit=1, methods=(method,), name=name
        )

    def _last_day(self, source: Source) -> date | None:
        """Return the last day that is over, for a source of dated days."""
        try:
            kind = get_kind(source)
        except OperatorError:
            return None  # the run will say so
        timezone = kind.timezone or self._context.settings.timezone
        return day_before(self._context.clock.now(), timezone) if kind.dated else None

    async def _read(self, source: Source, reading: Awaitable[PollResult]) -> PollResult:
        try:
            polled = await reading
        except LeaseLost as error:
            why = f"{source.name} was changed, removed or taken up by another while it was read; try again."
            raise OperatorError(why, reason=error.reason) from error
        self._metrics.polled(polled)
        return polled


def _address(text: str) -> str:
    """Return the address that somebody means, who may have left out how to ask for it."""
    means_host = "://" not in text and "." in text.partition("/")[0]
    return normalize_url(f"https://{text}" if means_host else text, keep_trailing_slash=True)


async def _is_feed(page: Page) -> bool:
    """Tell whether a page is a feed, which may be read as a sitemap too."""
    try:
        await page.feed()
    except HeadwaterError:
        return False
    return True


def _feed_of_page(feed: FeedLink, page: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a site by the feed that its page leads to; one given at its root has its sitemaps read."""
    found: dict[str, Any] = {"site_url": page, "feed_url": feed.url}
    if urlsplit(page).path == "/":
        found["sitemap_hours"] = SITEMAP_HOURS
    return {**found, **settings, "feed_url": feed.url}


def _choose_method(source: Source, methods: list[Method], method: str | None) -> Method:
    if not methods:
        raise OperatorError(
            f"Source {source.name} is not read: its pages are handed in by `headwater frontier submit`.",
            reason=Reason.BAD_REQUEST,
        )
    if method is None:
        return methods[0]
    if method not in methods:
        raise OperatorError(
            f"Source {source.name}: method: is one of {', '.join(methods)}, not {method!r}.", reason=Reason.BAD_REQUEST
        )
    return Method(method)


def _not_added(url: str, why: str, reason: Reason) -> OperatorError:
    return OperatorError(f"{url} was not added: {why}", reason=reason, url=url)


def _why_no_backfill(source: Source, since: date) -> str:
    kind = get_kind(source)
    given = next((given for name, given in _REACHES_BACK.items() if hasattr(kind, name)), None)
    if given is None:
        return (
            f"Source {source.name} has no sitemaps to read, and only those reach back; "
            "a source of kind site or bills has, unless it is read by spider alone."
        )
    return (
        f"Source {source.name} reaches back by a setting, such as "
        f"`headwater source edit {source.name} --set {given.format(since=since)}`, "
        f"and then `headwater source sync {source.name}`."
    )
