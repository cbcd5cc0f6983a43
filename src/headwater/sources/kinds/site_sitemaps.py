"""The sitemap method of a site: the new pages of its sitemaps, the newest sitemaps first (spec 3.3).

`run.state` holds `sitemaps` (the validators of each, since when its pages were taken, and the number of older pages),
`read_at` (the time of the last complete run; the next run reads back to it), `backfill` (an unfinished backfill),
`backfilled` (the start of the longest complete backfill), `older` (what is too old to be taken), `none_at` (the time of
a search that found no sitemap) and `problems` (the errors that the last run continued after).
"""

import heapq
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from itertools import count
from typing import Any, NamedTuple

from headwater.core.errors import HeadwaterError, NotNow, Unreadable
from headwater.core.reasons import Reason
from headwater.core.source import DiscoveredUrl, Item
from headwater.core.urls import host_of, join_url
from headwater.feeds.results import SitemapEntry, SitemapRef
from headwater.feeds.sitemap_selection import SitemapReading, is_older
from headwater.sources.kinds.site_discovery import SITEMAP_PATHS, guessed_sitemaps, named_sitemaps
from headwater.sources.run import MAX_FAILURES, Page, Problems, Run, make_validators, save_validators, set_or_remove

_WINDOW = timedelta(hours=48)
_LONGEST_WINDOW = timedelta(days=30)  # after a pause; a sitemap that always fails must not extend it further
_MAX_REQUESTS = 500  # for sitemaps in one run
_MAX_KNOWN = 10_000
_MAX_DEPTH = 3  # indexes of indexes of indexes
_MAX_SAVED = 1_000
_MAX_ITEMS = 5_000  # they stay in memory until the end of the run; other URLs do not
_LONGEST_BACKFILL = timedelta(days=30)  # a site may have more sitemaps than the state can hold
_moment = datetime.fromisoformat
_SHARE_OF_DEADLINE = 0.8  # after which a run ends by itself, so that its state is saved
_SEARCH_PAUSE = timedelta(hours=23)  # after a search that found no sitemap


class _Place(NamedTuple):
    url: str
    above: tuple[str, ...] = ()  # the indexes that led to it
    is_guess: bool = False


class Sitemaps:
    """One reading of a site's sitemaps. It yields pages below `path` on the hosts of `home` and of the sitemap."""

    def __init__(self, run: Run, home: str, sitemap_url: str | None, *, path: str, deadline: timedelta) -> None:
        self._run = run
        self._home = home
        self._sitemap_url = sitemap_url
        self._hosts = [host_of(home), *([host_of(sitemap_url)] if sitemap_url else [])]
        self._path = path
        self._end_at = run.now + deadline * _SHARE_OF_DEADLINE
        self._memory: dict[str, dict[str, Any]] = dict(run.state.get("sitemaps", {}))
        self._backfill = _backfill(run)
        self._since = self._backfill[0] if self._backfill else _usual_since(run)
        self._queue: list[tuple[int, str, float, int, _Place]] = []
        self._numbers = count()
        self._known: set[str] = set()
        self._resting: set[str] = set()  # hosts that cannot be asked now
        self._problems = Problems()
        self._latest = run.now  # the time of the last answer
        self._asked = self._read = self._items = 0
        self._failures = 0  # in a row
        self._is_cut = False  # a sitemap may be readable in the next run
        self._older_sitemaps = 0  # that were not read, because they are too old
        self._backfilled = _read_moment(run.state.get("backfilled"))

    async def read(self) -> AsyncIterator[Item | DiscoveredUrl]:
        """Yield the new pages. Raise the first problem if no sitemap could be read."""
        if self._has_searched():
            return
        await self._start()
        while self._queue and not self._is_over():
            *_, place = heapq.heappop(self._queue)
            reading = await self._reading_of(place)
            if reading is not None:
                for sitemap in reading.sitemaps:
                    self._follow(sitemap, place)
                self._note_older()
                for entries in reading.batches():
                    for entry in entries:
                        yield self._make_found(entry)
        self._finish()

    def _has_searched(self) -> bool:
        """Return whether a recent search found no sitemap. A backfill searches again."""
        none_at = _read_moment(self._run.state.pop("none_at", None))
        if self._run.since or none_at is None or self._run.now - none_at >= _SEARCH_PAUSE:
            return False
        self._run.state["none_at"] = none_at.isoformat()
        return True

    async def _start(self) -> None:
        if self._sitemap_url:
            places = [_Place(join_url(self._sitemap_url, self._sitemap_url))]
        else:
            named = await named_sitemaps(self._run.http, self._home)
            places = [_Place(url) for url in named] or [
                _Place(url, is_guess=True) for url in guessed_sitemaps(self._home)
            ]
        for place in places:
            self._add(place, self._run.now)

    def _follow(self, sitemap: SitemapRef, index: _Place) -> None:
        """Queue a sitemap of an index, unless it is old, known, too deep, or the index itself."""
        above = (*index.above, index.url)
        if is_older(sitemap.lastmod, self._since_of(sitemap.url)):
            self._read += 1
            is_backfilled = self._backfilled and not is_older(sitemap.lastmod, self._backfilled)
            self._older_sitemaps += sitemap.url not in self._memory and not is_backfilled
        elif sitemap.url in above:
            self._problems.add(sitemap.url, Unreadable("The sitemap index names itself.", url=sitemap.url))
        elif len(above) > _MAX_DEPTH:
            self._problems.add(sitemap.url, Unreadable("The sitemaps are nested too deep.", url=sitemap.url))
        else:
            self._add(_Place(sitemap.url, above), sitemap.lastmod)

    def _add(self, place: _Place, lastmod: datetime | None) -> None:
        """Queue a sitemap. The newest day of change is first, and sitemaps without a date are last.

        Within a day, the sitemap with the oldest reading is first: some sites report all sitemaps as just changed.
        """
        if place.url in self._known:
            return
        if len(self._known) == _MAX_KNOWN:
            self._is_cut = True
            return
        self._known.add(place.url)
        changed = lastmod or self._since
        read_at = self._memory.get(place.url, {}).get("at", "")
        order = (-changed.toordinal(), read_at, -changed.timestamp(), next(self._numbers), place)
        heapq.heappush(self._queue, order)

    def _is_over(self) -> bool:
        return self._asked == _MAX_REQUESTS or self._failures == MAX_FAILURES or self._latest >= self._end_at

    async def _reading_of(self, place: _Place) -> SitemapReading | None:
        if host_of(place.url) in self._resting:
            self._is_cut = True
            return None
        memory = self._memory.get(place.url, {})
        usable = memory if self._is_read_so_far(memory) else {}
        self._asked += 1
        try:
            page = await self._run.http.get(place.url, headers=make_validators(usable))
            self._latest = page.response.sent_at
            self._failures = 0
            if page.not_modified or page.body_hash == usable.get("body_hash"):
                self._read += 1
                self._remember(place, {**memory, "at": self._run.now.isoformat()})
                return None
            covered = self._covered_since(place.url)
            reading = await page.sitemap(self._since_of(place.url), self._hosts, self._path, covered)
        except HeadwaterError as error:
            self._note_failure(place, error)
            return None
        self._note_reading(place, page, reading, covered)
        return reading

    def _since_of(self, url: str) -> datetime:
        """Return the oldest date of change to read from a sitemap. It reaches back to the last reading at least."""
        memory = self._memory.get(url)
        if memory is None:
            return self._since
        since = _usual_since(self._run) if self._is_read_so_far(memory) else self._since
        return min(since, _moment(memory["at"]))

    def _covered_since(self, url: str) -> datetime:
        """Return the date of change from which on all pages of a sitemap have been taken, with this reading."""
        earlier = _read_moment(self._memory.get(url, {}).get("since"))
        return min(filter(None, (self._since_of(url), earlier, self._backfilled)))

    def _is_read_so_far(self, memory: dict[str, Any]) -> bool:
        """Return whether a sitemap was read as far back as necessary, so that only a change matters."""
        if not memory or self._run.since:
            return False
        return self._backfill is None or _moment(memory["at"]) >= self._backfill[1]

    def _note_reading(self, place: _Place, page: Page, reading: SitemapReading, covered: datetime) -> None:
        if reading.problem:
            self._problems.add(place.url, Unreadable(reading.problem, url=place.url))
        if reading.elsewhere and not reading.here:
            what = f"It lists {reading.elsewhere} pages of other sites, and none of {self._hosts[0]}: see site_url."
            self._problems.add(place.url, Unreadable(what, url=place.url))
        # An index is read each time: its sitemaps may change without it.
        if reading.sitemaps:
            self._memory.pop(place.url, None)
            return
        self._read += 1
        if not reading.problem:
            memory: dict[str, Any] = {"at": self._run.now.isoformat(), "since": covered.isoformat()}
            if reading.oldest:
                memory |= {"older": reading.older, "oldest": reading.oldest.isoformat()}
            save_validators(memory, page.response, page.body_hash)
            self._remember(place, memory)

    def _remember(self, place: _Place, memory: dict[str, Any]) -> None:
        self._memory.pop(place.url, None)  # the last reading goes last
        self._memory[place.url] = memory

    def _note_failure(self, place: _Place, error: HeadwaterError) -> None:
        if isinstance(error, NotNow):
            self._resting.add(host_of(place.url))
        if error.retryable:
            self._is_cut = True
            self._failures += 1
        if error.retryable or not place.is_guess:
            self._problems.add(place.url, error)

    def _make_found(self, entry: SitemapEntry) -> Item | DiscoveredUrl:
        published = entry.published_at
        if not entry.title or published is None or self._items == _MAX_ITEMS:
            return DiscoveredUrl(entry.url, entry.lastmod)
        self._items += 1
        updated = entry.lastmod if entry.lastmod and entry.lastmod > published else None
        return Item(entry.url, entry.title, published, updated)

    def _note_older(self) -> None:
        """Save how many pages are too old to be taken, as far as the sitemaps were read."""
        dates = [memory["oldest"] for memory in self._memory.values() if "oldest" in memory]
        older = {
            "pages": sum(memory.get("older", 0) for memory in self._memory.values()),
            "sitemaps": self._older_sitemaps,
            "oldest": min(dates, key=_moment, default=None),
        }
        set_or_remove(self._run.state, "older", older if dates or self._older_sitemaps else None)

    def _finish(self) -> None:
        self._note_older()
        if self._queue:
            *_, place = self._queue[0]
            left = f"{len(self._queue)} sitemaps, this and older ones, are left for the next run."
            self._problems.add(place.url, Unreadable(left, url=place.url))
        if not self._read:
            self._raise_why()
        state = self._run.state
        state["sitemaps"] = dict(list(self._memory.items())[-_MAX_SAVED:])
        self._problems.save(state)
        if not (self._is_cut or self._queue):
            state["read_at"] = self._run.now.isoformat()
        unfinished = self._unfinished_backfill()
        set_or_remove(state, "backfill", unfinished)
        if self._backfill and not unfinished:
            state["backfilled"] = min(filter(None, (self._backfill[0], self._backfilled))).isoformat()

    def _unfinished_backfill(self) -> dict[str, str] | None:
        is_left = any(not self._is_read_so_far(self._memory.get(place.url, {})) for *_, place in self._queue)
        if self._backfill is None or not (self._is_cut or is_left):
            return None
        since, begun = self._backfill
        return {"since": since.isoformat(), "begun": begun.isoformat()}

    def _raise_why(self) -> None:
        if self._problems.first:
            raise self._problems.first
        if not self._sitemap_url and self._asked:
            places = ", ".join(SITEMAP_PATHS)
            what = f"No sitemap was found: robots.txt of {self._hosts[0]} names none, and none is at {places}."
            missing = Unreadable(what, reason=Reason.NOT_FOUND, url=self._home)
            if self._run.since:
                raise missing
            # Many sites have none, so this is no error.
            self._run.state["none_at"] = self._run.now.isoformat()
            self._problems.add(self._home, missing)


def _read_moment(stored: str | None) -> datetime | None:
    return _moment(stored) if stored else None


def _usual_since(run: Run) -> datetime:
    read_at = run.state.get("read_at")
    since = run.now - _WINDOW
    return max(min(since, _moment(read_at)), run.now - _LONGEST_WINDOW) if read_at else since


def _backfill(run: Run) -> tuple[datetime, datetime] | None:
    """Return the first date of a backfill, and when the backfill started: now, or in an unfinished run."""
    if run.since:
        read_at = run.state.get("read_at")  # a backfill leaves no gap before the last reading
        return min(run.since, _moment(read_at)) if read_at else run.since, run.now
    unfinished = run.state.get("backfill")
    if not unfinished or run.now - _moment(unfinished["begun"]) > _LONGEST_BACKFILL:
        return None
    return _moment(unfinished["since"]), _moment(unfinished["begun"])
