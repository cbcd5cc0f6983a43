"""The main pass of a site: its feed, asked for conditionally; every entry with an address becomes an item."""

from collections.abc import AsyncIterator
from typing import Any

from headwater.errors import Unreadable
from headwater.model.feed import Feed, FeedEntry
from headwater.model.reasons import Reason
from headwater.model.source import Item
from headwater.policy.urls import normalize_url
from headwater.sources.run import Page, Run
from headwater.sources.site_finding import FEED_PATHS, find_feeds
from headwater.sources.site_memory import body_hash, note, remember_answer, validators

# As they came, for whoever decides when to ask again.
_HEADERS = {"cache_control": "cache-control", "age": "age", "retry_after": "retry-after"}


async def read_feed(run: Run, feed_url: str | None, home: str) -> AsyncIterator[Item]:
    """Yield the entries of the feed, or nothing when it has not changed; without an address it is looked for first."""
    url = feed_url or await _find(run, home)
    page = await run.http.get(url, headers=validators(run.state))
    _note_answer(run.state, page)
    if page.not_modified:
        return
    known = body_hash(page.response) == run.state.get("body_hash")
    if not known:
        feed = await page.feed()
        _note_feed(run.state, feed)
        for entry in feed.entries:
            if entry.url:
                yield _item(entry, entry.url)
    remember_answer(run.state, page.response)


async def _find(run: Run, home: str) -> str:
    found = await find_feeds(run.http, home, most=1)
    if not found:
        raise Unreadable(
            f"No feed was found: {home} is none and names none, and none is at {', '.join(FEED_PATHS)}.",
            reason=Reason.NOT_A_FEED,
            url=home,
        )
    url = normalize_url(found[0].url, keep_trailing_slash=True)
    run.learned["feed_url"] = url
    return url


def _note_answer(state: dict[str, Any], page: Page) -> None:
    for name, header in _HEADERS.items():
        note(state, name, page.response.headers.get(header))
    moved = {
        "to": page.response.url,
        "statuses": [hop.status for hop in page.hops],
        "targets": [hop.target for hop in page.hops],
    }
    note(state, "moved", moved if page.hops else None)


def _note_feed(state: dict[str, Any], feed: Feed) -> None:
    state["title"] = feed.title
    note(state, "ttl", feed.ttl_seconds)
    note(state, "hub", feed.hub)
    note(state, "without_address", sum(not entry.url for entry in feed.entries))


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
