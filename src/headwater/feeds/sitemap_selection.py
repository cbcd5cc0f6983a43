"""Select the pages of a sitemap that changed since a moment. Only these leave the sandbox, in packed form."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta

import msgspec

from headwater.core.errors import Unreadable
from headwater.core.politeness import domain_key
from headwater.feeds.results import SitemapEntry, SitemapRef
from headwater.feeds.sitemaps import parse_sitemap

MAX_SITEMAPS = 5_000  # of one index
_BATCH_SIZE = 1_000
_Row = tuple[str, datetime | None, str, datetime | None]
_DAY = timedelta(days=1)
_rows = msgspec.msgpack.Decoder(list[_Row])


@dataclass(frozen=True, slots=True)
class SitemapReading:
    """The selected content of a sitemap: further sitemaps, the newest first, and packed batches of pages.

    A list of all pages as objects would take many times the memory of the file. `problem` says why the sitemap could
    not be read to its end.
    """

    sitemaps: list[SitemapRef]
    packed: list[bytes]
    here: int = 0  # all pages of the site, selected or not
    elsewhere: int = 0  # pages of other sites
    older: int = 0  # pages that no reading has selected, because they are too old
    oldest: datetime | None = None  # the earliest change of these
    problem: str | None = None

    def batches(self) -> Iterator[list[SitemapEntry]]:
        """Yield the selected pages in batches. The pages can be read only once."""
        self.packed.reverse()
        while self.packed:
            yield [SitemapEntry(*row) for row in _rows.decode(self.packed.pop())]


def read_sitemap(
    body: bytes, url: str, since: datetime, hosts: Collection[str], path: str = "/", covered: datetime | None = None
) -> SitemapReading:
    """Read the sitemap at `url`. Select the pages below `path` that changed after `since` and belong to the site.

    The site is every host with the registrable domain of one of `hosts`. Earlier readings have selected the pages that
    changed after `covered`; older pages are counted. Raises Unreadable if nothing can be read.
    """
    sites = frozenset(map(domain_key, hosts))
    sitemaps: list[SitemapRef] = []
    packed: list[bytes] = []
    rows: list[_Row] = []
    here = elsewhere = older = 0
    oldest: datetime | None = None
    covered = min(covered or since, since)
    problem = None
    try:
        for found in parse_sitemap(body, url=url):
            if isinstance(found, SitemapRef):
                sitemaps.append(found)
                continue
            host, _, page_path = found.url.partition("://")[2].partition("/")
            if domain_key(host) not in sites:
                elsewhere += 1
                continue
            here += 1
            if not f"/{page_path}".startswith(path):
                continue
            changed = found.lastmod or found.published_at
            if not is_older(changed, since):
                rows.append((found.url, found.lastmod, found.title, found.published_at))
                if len(rows) == _BATCH_SIZE:
                    packed.append(msgspec.msgpack.encode(rows))
                    rows.clear()
            elif changed and is_older(changed, covered):
                older += 1
                oldest = min(oldest or changed, changed)
    except Unreadable as error:
        if not (sitemaps or here or elsewhere):
            raise
        problem = str(error)
    if rows:
        packed.append(msgspec.msgpack.encode(rows))
    # A sitemap without a date may have changed at any time.
    sitemaps.sort(key=lambda sitemap: sitemap.lastmod or since, reverse=True)
    return SitemapReading(sitemaps[:MAX_SITEMAPS], packed, here, elsewhere, older, oldest, problem)


def is_older(changed: datetime | None, since: datetime) -> bool:
    """Return whether a change was certainly before `since`. A time of midnight stands for the whole day."""
    if changed is None or changed >= since:
        return False
    return changed.time() != time() or changed + _DAY <= since
