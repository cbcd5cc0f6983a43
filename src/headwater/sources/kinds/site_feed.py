"""The main pass of a site: its feed, asked for conditionally; every entry with an address becomes an item."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from headwater.core.errors import InvalidURL, Unreadable
from headwater.core.poll_plan import asked_wait
from headwater.core.reasons import Reason
from headwater.core.redirect_history import RedirectHistory, update_redirect_history
from headwater.core.source import Item
from headwater.core.urls import normalize_url
from headwater.feeds.results import Feed, FeedEntry
from headwater.sources.kinds.site_discovery import FEED_PATHS, find_feeds
from headwater.sources.kinds.site_state import body_hash, note, remember_answer, validators
from headwater.sources.run import Page, Run


async def read_feed(run: Run, feed_url: str | None, site_url: str | None) -> AsyncIterator[Item]:
    """Yield the entries of the feed, or nothing when it has not changed and nobody asks for the whole of it.

    Without an address it is looked for on the site; where the site is not known, the feed tells which it is.
    """
    url = feed_url or await _find(run, site_url or "")
    page = await run.http.get(url, headers={} if run.whole else validators(run.state))
    if not page.not_modified:
        digest = body_hash(page.response)
        if run.whole or digest != run.state.get("body_hash"):
            feed = await page.feed()
            _note_feed(run.state, feed)
            if site_url is None and feed.link:
                with contextlib.suppress(InvalidURL):
                    run.learned["site_url"] = normalize_url(feed.link, keep_trailing_slash=True)
            for entry in feed.entries:
                if entry.url:
                    yield _item(entry, entry.url)
        remember_answer(run.state, page.response, digest)
    run.asked = asked_wait(page.response.headers, run.state.get("ttl"), run.now)
    _note_move(run, url, page)


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


def _note_move(run: Run, url: str, page: Page) -> None:
    """Watch where the feed redirects to, and learn the address once that is sure to stay."""
    move = update_redirect_history(
        RedirectHistory.from_json(run.state.get("moved")), url=url, hops=page.hops, is_feed=True, now=run.now
    )
    if move and move.is_confirmed(run.now):
        run.learned["feed_url"] = normalize_url(move.target, keep_trailing_slash=True)
        move = None
    note(run.state, "moved", move and move.to_json())


def _note_feed(state: dict[str, Any], feed: Feed) -> None:
    state["title"] = feed.title
    note(state, "ttl", feed.ttl_seconds)
    note(state, "hub", feed.hub)
    note(state, "without_address", sum(not entry.url for entry in feed.entries))


def _item(entry: FeedEntry, url: str) -> Item:
    raw = {"guid": entry.guid, "summary": entry.summary, "author": entry.author, "image": entry.image}
    return Item(
        url=url,
        title=entry.title,
        published_at=entry.published_at,
        updated_at=entry.updated_at,
        tags={"topic": sorted(set(entry.tags))} if entry.tags else {},
        raw={name: value for name, value in raw.items() if value},
    )
