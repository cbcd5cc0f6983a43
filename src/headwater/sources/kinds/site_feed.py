"""The feed method of a site: every entry with a URL is an item. Requests are conditional."""

import contextlib
from collections.abc import AsyncIterator

from headwater.core.backoff import read_requested_delay
from headwater.core.errors import InvalidURL, Unreadable
from headwater.core.reasons import Reason
from headwater.core.redirect_history import RedirectHistory, update_redirect_history
from headwater.core.source import Item
from headwater.core.urls import normalize_url
from headwater.feeds.results import FeedEntry
from headwater.sources.kinds.site_discovery import FEED_PATHS, find_feeds
from headwater.sources.run import Page, Run, make_validators, save_validators, set_or_remove


async def read_feed(run: Run, feed_url: str | None, site_url: str | None) -> AsyncIterator[Item]:
    """Yield the entries of the feed. Yield nothing if the feed has not changed, unless the run is full.

    Without `feed_url`, find the feed of the site. Without `site_url`, learn it from the feed.
    """
    url, state = feed_url or await _find_feed(run, site_url or ""), run.state
    page = await run.http.get(url, headers={} if run.is_full else make_validators(state))
    if not page.not_modified:
        body_hash = page.body_hash
        if run.is_full or body_hash != state.get("body_hash"):
            feed = await page.feed()
            state["title"] = feed.title
            without_address = sum(not entry.url for entry in feed.entries)
            for name, value in (("ttl", feed.ttl_seconds), ("hub", feed.hub), ("without_address", without_address)):
                set_or_remove(state, name, value)
            if site_url is None and feed.link:
                with contextlib.suppress(InvalidURL):
                    run.learned["site_url"] = normalize_url(feed.link, keep_trailing_slash=True)
            for entry in feed.entries:
                if entry.url:
                    yield _make_item(entry, entry.url)
        save_validators(state, page.response, body_hash)
    run.requested_delay = read_requested_delay(page.response.headers, state.get("ttl"), run.now)
    if page.hops or "moved" in state:
        _update_redirect(run, url, page)


async def _find_feed(run: Run, home: str) -> str:
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


def _update_redirect(run: Run, url: str, page: Page) -> None:
    """Update the history of the feed's redirect, and learn its target once that is confirmed."""
    past = RedirectHistory.from_json(run.state.get("moved"))
    history = update_redirect_history(past, url=url, hops=page.hops, is_feed=True, now=run.now)
    if history and history.is_confirmed(run.now):
        run.learned["feed_url"] = normalize_url(history.target, keep_trailing_slash=True)
        history = None
    set_or_remove(run.state, "moved", history and history.to_json())


def _make_item(entry: FeedEntry, url: str) -> Item:
    raw = {"guid": entry.guid, "summary": entry.summary, "author": entry.author, "image": entry.image}
    return Item(
        url=url,
        title=entry.title,
        published_at=entry.published_at,
        updated_at=entry.updated_at,
        tags={"topic": sorted(set(entry.tags))} if entry.tags else {},
        raw={name: value for name, value in raw.items() if value},
    )
