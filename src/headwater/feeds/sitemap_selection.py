"""A sitemap for one who wants what is new in it: only that leaves the sandbox, and in a form that takes little room."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta

import msgspec

from headwater.core.errors import Unreadable
from headwater.core.politeness import domain_key
from headwater.feeds.sitemap_entry import SitemapEntry, SitemapRef
from headwater.feeds.sitemaps import parse_sitemap

MOST_SITEMAPS = 5_000  # of one index: the newest
_SLICE = 1_000
_Row = tuple[str, datetime | None, str, datetime | None]
_DAY = timedelta(days=1)
_rows = msgspec.msgpack.Decoder(list[_Row])


@dataclass(frozen=True, slots=True)
class SitemapReading:
    """What a sitemap lists: further sitemaps, and pages, packed; `problem` tells why it could not be read to its end.

    A list of all pages as objects would take many times the room of the file they came in.
    """

    sitemaps: list[SitemapRef]
    packed: list[bytes]
    here: int = 0  # pages of the site, wanted or not
    elsewhere: int = 0
    problem: str | None = None

    def slices(self) -> Iterator[list[SitemapEntry]]:
        """Yield the pages that are wanted, some at a time; they can be had once."""
        self.packed.reverse()
        while self.packed:
            yield [SitemapEntry(*row) for row in _rows.decode(self.packed.pop())]


def read_sitemap(body: bytes, url: str, since: datetime, hosts: Collection[str], path: str = "/") -> SitemapReading:
    """Read the sitemap at `url`: of its pages those that are not older than `since`, below `path`, on the same site.

    That is any host with the registrable domain of one of `hosts`. Raises Unreadable where nothing at all can be read.
    """
    wanted = _Wanted(since, frozenset(map(domain_key, hosts)), path)
    sitemaps: list[SitemapRef] = []
    packed: list[bytes] = []
    rows: list[_Row] = []
    listed, problem = False, None
    try:
        for found in parse_sitemap(body, url=url):
            listed = True
            if isinstance(found, SitemapRef):
                sitemaps.append(found)
            elif wanted.holds(found):
                rows.append((found.url, found.lastmod, found.title, found.published_at))
                if len(rows) == _SLICE:
                    packed.append(msgspec.msgpack.encode(rows))
                    rows.clear()
    except Unreadable as error:
        if not listed:
            raise
        problem = str(error)
    if rows:
        packed.append(msgspec.msgpack.encode(rows))
    return SitemapReading(newest_first(sitemaps, since)[:MOST_SITEMAPS], packed, wanted.here, wanted.elsewhere, problem)


def newest_first(sitemaps: list[SitemapRef], since: datetime) -> list[SitemapRef]:
    """Return sitemaps in the order of their last change; one that does not tell may have changed at any time."""
    return sorted(sitemaps, key=lambda sitemap: sitemap.lastmod or since, reverse=True)


def is_older(changed: datetime | None, since: datetime) -> bool:
    """Tell whether something changed before then for sure; a time of midnight is what is left of a date alone."""
    if changed is None or changed >= since:
        return False
    return changed.time() != time() or changed + _DAY <= since


class _Wanted:
    def __init__(self, since: datetime, sites: frozenset[str], path: str) -> None:
        self._since = since
        self._sites = sites
        self._path = path
        self.here = self.elsewhere = 0

    def holds(self, entry: SitemapEntry) -> bool:
        host, _, path = entry.url.partition("://")[2].partition("/")
        if domain_key(host) not in self._sites:
            self.elsewhere += 1
            return False
        self.here += 1
        return f"/{path}".startswith(self._path) and not is_older(entry.lastmod or entry.published_at, self._since)
