"""A drill: two simulated days of many sources, some of which fail. `today`, health and the log name each (issue 20)."""

import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, time, timedelta
from email.utils import format_datetime

import pytest
from structlog.testing import capture_logs

from headwater.core.settings import Settings
from headwater.feeds.flaws import FeedFlaw
from tests.harness import AppHarness, open_harness
from tests.replaying import urlset
from tests.server import Answer, Site, page
from tests.simulation import Simulation

HOUR = timedelta(hours=1)
HTML = {"Content-Type": "text/html; charset=utf-8"}
FEED_TYPE = {"Content-Type": "application/rss+xml"}
FEEDS = [f"feed{number:02}.test" for number in range(30)]
MAPPED, GUESSED, SPIDERED = "mapped.test", "guessed.test", "spidered.test"  # sites without feeds
REFUSING, NAMELESS = "refusing.test", "nowhere.invalid"  # dead hosts
TRUNCATED = "truncated.test"
WATCHED = "http://notice.test/rates"


@pytest.fixture
async def harness(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    """An application in which refusing.test refuses connections, and every other `.test` name leads to `site`."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        to = (f"{REFUSING}=127.0.0.1:{closed.getsockname()[1]}", *site.connect_to)
        settings = make_settings(
            connect_to=to, poll_check_seconds=0.05, poll_interval_minutes=240, timezone="UTC", poll_concurrency=40
        )
        async with open_harness(settings) as opened:
            yield opened


class Web:
    """The sites of the drill. Each site with news has one story more on each day."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._stories: dict[str, list[tuple[str, datetime]]] = {}

    def publish(self, now: datetime) -> None:
        """Publish a story on each site, and change the watched page."""
        for host in (*FEEDS, TRUNCATED, MAPPED, GUESSED, SPIDERED):
            stories = self._stories.setdefault(host, [])
            stories.append((f"http://{host}/{now:%Y/%m/%d}/the-council-repairs-bridge-{len(stories)}", now))
            for url, published in stories:
                self._put(url, page(f"the bridge of {url}"), published)
        for host in FEEDS:
            self._put_feed(host, "</channel></rss>")
        self._put_feed(TRUNCATED, "<item><title>The rest is mis")
        for host in (MAPPED, GUESSED):
            self._site.answers[f"http://{host}/"] = Answer(page("home"), headers=HTML)
            name = "map" if host == MAPPED else "sitemap"
            self._site.answers[f"http://{host}/{name}.xml"] = Answer(
                urlset(*((url, at) for url, at in self._stories[host]))
            )
        self._site.answers[f"http://{MAPPED}/robots.txt"] = Answer(f"Sitemap: http://{MAPPED}/map.xml")
        links = "".join(f'<a href="{url}">story</a>' for url, _ in self._stories[SPIDERED])
        self._site.answers[f"http://{SPIDERED}/"] = Answer(f"<html><body>{links}</body></html>", headers=HTML)
        self._site.answers[WATCHED] = Answer(page(f"the rates of {now:%d %B}"), headers=HTML)

    def _put(self, url: str, text: str, published: datetime) -> None:
        meta = f'<meta property="article:published_time" content="{published.isoformat()}">'
        self._site.answers[url] = Answer(text.replace("<head>", f"<head>{meta}"), headers=HTML)

    def _put_feed(self, host: str, end: str) -> None:
        items = "".join(
            f"<item><title>Story</title><link>{url}</link><pubDate>{format_datetime(published)}</pubDate></item>"
            for url, published in self._stories[host]
        )
        body = f'<?xml version="1.0"?><rss version="2.0"><channel><title>{host}</title>{items}{end}'
        self._site.answers[f"http://{host}/feed"] = Answer(body, headers=FEED_TYPE)


async def add_all(harness: AppHarness) -> None:
    """Add all sources as a user would, except those whose first poll fails: a user has these from better days."""
    sources = harness.operations.sources
    for host in FEEDS:
        await sources.add(f"http://{host}/feed", host)
    for host in (MAPPED, GUESSED):
        await sources.add(f"http://{host}/", host)
    await sources.add(f"http://{SPIDERED}/", SPIDERED, mode="spider")
    for host in (REFUSING, NAMELESS, TRUNCATED):
        await sources.create(host, "site", {"feed_url": f"http://{host}/feed"})
    await harness.operations.watches.watch(WATCHED, "every 6h")


async def test_after_two_days_each_source_is_named_correctly(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 20: 30 feeds, 3 sites without feeds, 2 dead hosts, 1 truncated feed, 1 watched page."""
    simulation, web = Simulation(harness, monkeypatch), Web(site)
    midnight = datetime.combine(simulation.now.date() + timedelta(days=1), time(0, 1), UTC)
    simulation.step(midnight - simulation.now)
    web.publish(simulation.now)
    with capture_logs() as logs:
        await add_all(harness)
        await simulation.run(24 * HOUR, HOUR)
        web.publish(simulation.now)
        await simulation.run(24 * HOUR - timedelta(minutes=5), HOUR)

    today = await harness.operations.days.today()
    assert today.day == simulation.now.date()
    buckets = Counter((item.source, item.bucket) for item in today.items)
    news = (*FEEDS, TRUNCATED, MAPPED, GUESSED, SPIDERED)
    assert buckets == {**{(host, "NEW"): 1 for host in news}, ("manual", "LATEST"): 1}

    sources = {source.name: source for source in await harness.operations.sources.list_sources()}
    healthy = (*FEEDS, MAPPED, GUESSED, SPIDERED, "manual")
    assert {name: source.health.value for name, source in sources.items()} == {
        **dict.fromkeys(healthy, "on_time"),
        **dict.fromkeys((REFUSING, NAMELESS), "failing"),
        TRUNCATED: "flawed",
    }
    for name, cause in ((REFUSING, "the connection failed"), (NAMELESS, "its name was not found")):
        source = sources[name]
        assert cause in source.why
        assert f"`headwater frontier release {name}`" in source.why
        assert source.failing_since is not None
        assert source.failing_since - midnight < HOUR
        assert source.next_poll_at is not None
        assert source.next_poll_at > simulation.now
    assert sources[TRUNCATED].methods[0].flaws == [FeedFlaw.TRUNCATED]

    warned = [one for one in logs if one["log_level"] in ("warning", "error")]
    named = {(one["event"], one.get("source") or one.get("host")) for one in warned}
    assert named == {
        *(("poll.done", host) for host in (REFUSING, NAMELESS)),
        *(("host.failed", host) for host in (REFUSING, NAMELESS)),
        ("feed.flawed", TRUNCATED),
    }
    changes = (await harness.operations.changes.list_changes(None, 1000)).changes
    revisions = [change.document.revision for change in changes if change.document and change.url == WATCHED]
    assert revisions == [1, 2]
