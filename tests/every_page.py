"""The addresses of every page, and a database in which each of them has something to show."""

from fastapi import FastAPI

from headwater.changes.operations import NewWebhook
from headwater.notify.channels import NewChannel
from headwater.notify.operations import FeedKind, NewFeedAddress, SearchTerms
from tests.harness import AppHarness
from tests.server import Answer, Site, page, rss

FEED = "http://news.test/feed"
CHANGED, BLOCKED, GONE = (f"http://news.test/{name}" for name in ("changed", "private/blocked", "gone"))
DAY = "2026-03-12"
HTML = {"Content-Type": "text/html"}
# An address of each route with a page, below /ui.
ADDRESSES = {
    "/today": "/today",
    "/days/{day}": f"/days/{DAY}",
    "/since": "/since",
    "/documents/{document_id}": "/documents/1",
    "/documents/{document_id}/diff": "/documents/1/diff",
    "/stories": "/stories",
    "/stories/{document_id}": "/stories/1",
    "/stories/{document_id}/diff": "/stories/1/diff",
    "/search": "/search?q=river",
    "/saved-searches": "/saved-searches",
    "/saved-searches/{name}": "/saved-searches/rivers",
    "/feed-addresses": "/feed-addresses",
    "/why": f"/why?url={BLOCKED}",
    "/sources": "/sources",
    "/sources/{name}": "/sources/news.test",
    "/sources/{name}/edit": "/sources/news.test/edit",
    "/sources/{name}/remove": "/sources/news.test/remove",
    "/add-source": "/add-source",
    "/test-source": "/test-source",
    "/import-sources": "/import-sources",
    "/frontier": "/frontier",
    "/frontier/urls": "/frontier/urls?status=dead",
    "/hosts": "/hosts",
    "/hosts/{host}": "/hosts/news.test",
    "/runs": "/runs",
    "/runs/{run_id}": "/runs/1",
    "/completeness": "/completeness",
    "/completeness/{day}": f"/completeness/{DAY}",
    "/handoffs": "/handoffs",
    "/jobs": "/jobs",
    "/webhooks": "/webhooks",
    "/webhooks/{name}": "/webhooks/desk",
    "/alarms": "/alarms",
    "/system": "/system",
    "/submit": "/submit",
    "/sign-in": "/sign-in",
}
# These routes lead elsewhere, or answer with files.
NO_PAGES = {
    *("/", "/latest", "/static/{name}", "/live/{topic}", "/documents/{document_id}/raw"),
    *("/sources.yaml", "/sources.opml"),
}


def list_routes(app: FastAPI) -> set[str]:
    """Return the paths of the pages that can be read, below /ui."""
    (pages,) = [route.app._app for route in app.routes if getattr(route, "path", "") == "/ui"]  # type: ignore[attr-defined]
    return {route.path for route in pages.router.routes if "GET" in (getattr(route, "methods", None) or ())} - NO_PAGES


async def fill_pages(harness: AppHarness, site: Site) -> None:
    """Make a document of two revisions that is in a story, a blocked and a missing page, a run, receivers, alarms."""
    site.answers["http://news.test/robots.txt"] = Answer("User-agent: *\nDisallow: /private/")
    site.answers[FEED] = rss(CHANGED, BLOCKED, GONE, "http://news.test/river")
    site.answers["http://news.test/river"] = Answer(page("river"), headers=HTML)
    operations = harness.operations
    for cost in (12, 15):
        site.answers[CHANGED] = Answer(page("river", extra=f"<p>The weir costs {cost} million.</p>"), headers=HTML)
        if cost == 12:
            await operations.sources.add(FEED)
            await operations.sources.sync("news.test")
        else:
            await operations.frontier.retry([CHANGED])
        await harness.work()
    await operations.webhooks.add(NewWebhook("desk", "http://hook.test/x"))
    await operations.saved_searches.add("rivers", SearchTerms("river"))
    await operations.channels.add(NewChannel("phone", "ntfy://ntfy.example/topic", "rivers"))
    await operations.feed_addresses.add(NewFeedAddress("reader", FeedKind.SAVED, "rivers"))
    await harness.execute(
        "INSERT INTO alarms (kind, subject, message, began_at, ended_at) VALUES "
        "('source_silent', 'news.test', 'It has no news.', now(), NULL), "
        "('disk_low', 'here:/data', 'Full.', now(), now())"
    )
    await operations.stories.rebuild()
    await harness.execute("UPDATE story_documents SET story_id = (SELECT min(document_id) FROM story_documents)")
