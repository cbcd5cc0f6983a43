"""Reports of the Government Accountability Office: its feed, and the PDF of each."""

import re
from collections.abc import AsyncIterator
from urllib.parse import urljoin, urlsplit

from headwater.core.source import Item, Retry
from headwater.feeds.results import FeedEntry
from headwater.sources.kind import Kind
from headwater.sources.kinds.records import US_CAPITAL, check_url
from headwater.sources.run import Run, make_validators, save_validators

_PRODUCT = re.compile(r"/products/(gao-(\d\d)-\w{1,20})/?", re.IGNORECASE)


class GaoReportsKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reports of the feed. The site counts refused requests, so requests are rare and are never repeated."""

    timezone: str | None = US_CAPITAL
    poll_interval_minutes: int | None = 240
    rate_per_second: float = 0.1
    concurrency: int = 1
    retry: Retry = Retry(attempts=1)
    feed_url: str = "https://www.gao.gov/rss/reports.xml"

    def check(self) -> None:
        """Refuse settings that cannot work, with a ValueError that names the field."""
        check_url("feed_url", self.feed_url)
        super().check()

    async def discover(self, run: Run) -> AsyncIterator[Item]:
        """Yield the entries of the feed, or nothing when it has not changed."""
        page = await run.http.get(self.feed_url, headers=make_validators(run.state))
        if page.not_modified:
            return
        for entry in (await page.feed()).entries:
            if entry.url:
                yield _item(entry, entry.url)
        save_validators(run.state, page.response, page.body_hash)

    def partition(self, item: Item) -> str | None:
        """Return `{year}/{number}.pdf`, or None for other products, such as decisions."""
        number = item.tags["native_ids"].get("report")
        return f"{number.split('-')[1]}/{number}.pdf" if number else None


def _item(entry: FeedEntry, page: str) -> Item:
    """Return the item of an entry. A report has the URL of its PDF, and any other product that of its page."""
    product = _PRODUCT.fullmatch(urlsplit(page).path)
    number = product[1].lower() if product else None
    return Item(
        url=urljoin(page, f"/assets/{number}.pdf") if number else page,
        title=entry.title or number or page,
        published_at=entry.published_at,
        tags={"topic": sorted(entry.tags), "native_ids": {"report": number} if number else {}},
        raw={"url": page, "guid": entry.guid, "summary": entry.summary},
    )
