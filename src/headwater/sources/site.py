"""Sites: what they publish is learned from their feed."""

import hashlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from headwater.errors import InvalidURL
from headwater.model.feed import FeedEntry
from headwater.model.http import Response
from headwater.model.source import Item
from headwater.policy.urls import normalize_url
from headwater.sources.kind import Kind
from headwater.sources.run import Run


class SiteKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A site with a feed: every entry becomes an item. Asks conditionally, and passes over a body it knows already."""

    feed_url: str

    def check(self) -> None:
        """Refuse a feed URL that cannot be asked for."""
        super().check()
        try:
            normalize_url(self.feed_url)
        except InvalidURL as error:
            raise ValueError(f"feed_url: {error}") from None

    async def discover(self, run: Run) -> AsyncIterator[Item]:
        """Yield the feed's entries, or nothing when it has not changed."""
        page = await run.http.get(self.feed_url, headers=_validators(run.state))
        if page.not_modified:
            return
        body_hash = hashlib.sha256(page.response.body).hexdigest()
        if body_hash != run.state.get("body_hash"):
            feed = await page.feed()
            for entry in feed.entries:
                if entry.url:
                    yield _item(entry, entry.url)
            run.state["title"] = feed.title
        run.state.update(_remembered(page.response), body_hash=body_hash)


def _validators(state: Mapping[str, Any]) -> dict[str, str]:
    names = {"etag": "If-None-Match", "last_modified": "If-Modified-Since"}
    return {header: state[name] for name, header in names.items() if state.get(name)}


def _remembered(response: Response) -> dict[str, str | None]:
    return {"etag": response.headers.get("etag"), "last_modified": response.headers.get("last-modified")}


def _item(entry: FeedEntry, url: str) -> Item:
    raw = {"guid": entry.guid, "summary": entry.summary, "author": entry.author}
    return Item(
        url=url,
        title=entry.title,
        published_at=entry.published_at,
        updated_at=entry.updated_at,
        tags={"topic": sorted(set(entry.tags))} if entry.tags else {},
        raw={name: value for name, value in raw.items() if value},
    )
