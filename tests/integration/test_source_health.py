"""The health of a source reports the truth about its host, its feed and its interval (spec 3.2, 11.3, issue 20)."""

from collections.abc import Callable
from datetime import date, timedelta
from email.utils import format_datetime

import pytest
from structlog.testing import capture_logs

from headwater.app.polling import PollerRole
from headwater.app.roles import run_in_background
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.discovery.source_operations import describe_sync
from headwater.feeds.flaws import FeedFlaw
from headwater.http.client import OfflineDetector
from headwater.sources.health import SourceHealth, SourceMethod
from headwater.sources.operations import SourceFilter
from tests.database_state import backdate, items, make_polls_due
from tests.harness import AppHarness, open_harness
from tests.server import Answer, Site
from tests.waiting import until

FEED = "http://news.test/feed"
ROBOTS = "http://news.test/robots.txt"
FEED_TYPE = {"Content-Type": "application/rss+xml"}


def feed(*entries: str, end: str = "</channel></rss>") -> Answer:
    items = "".join(f"<item>{entry}</item>" for entry in entries)
    return Answer(f'<?xml version="1.0"?><rss version="2.0"><channel><title>A</title>{items}{end}', headers=FEED_TYPE)


def entry(name: str, date: str = "Thu, 12 Mar 2026 10:00:00 GMT") -> str:
    dated = f"<pubDate>{date}</pubDate>" if date else ""
    return f"<title>{name}</title><link>http://news.test/{name}</link>{dated}"


async def read(harness: AppHarness, site: Site, answer: Answer) -> SourceMethod:
    """Poll the source as if it were due, and return its feed."""
    site.answers[FEED] = answer
    polled = await harness.poll("news.test")
    assert polled.reason is Reason.POLLED
    return await harness.method()


async def add(harness: AppHarness, site: Site) -> None:
    site.answers[FEED] = feed(entry("a"), entry("b"))
    await harness.operations.sources.add(FEED)
    assert (await harness.method()).health == "on_time"


@pytest.mark.parametrize(
    ("robots", "is_closed", "reason"),
    [
        pytest.param(Answer(status=404), True, Reason.HOST_CLOSED, id="closed"),
        pytest.param(Answer("User-agent: *\nDisallow: /"), False, Reason.ROBOTS_BLOCKED, id="forbidden"),
        pytest.param(Answer(status=503), False, Reason.ROBOTS_UNREACHABLE, id="robots.txt fails"),
        pytest.param(
            Answer(status=429, headers={"Retry-After": "7200"}),
            False,
            Reason.ROBOTS_UNREACHABLE,
            id="too many requests",
        ),
    ],
)
async def test_a_source_that_may_not_be_read_is_failing(
    robots: Answer, is_closed: bool, reason: Reason, site: Site, harness: AppHarness
) -> None:
    """Spec 11.3: health names the error, since when, and the next try. The log has a warning."""
    await add(harness, site)
    site.answers[ROBOTS] = robots
    await harness.execute("UPDATE host_state SET robots_fetched_at = NULL")
    if is_closed:
        await harness.operations.frontier.close_host("news.test", timedelta(hours=2))
    await make_polls_due(harness, "main")
    began = harness.runtime.context.clock.now()
    with capture_logs() as logs:
        async with run_in_background([PollerRole(harness.runtime)]):
            await until(lambda: [one for one in logs if one["event"] == "poll.done"])
    (done,) = [one for one in logs if one["event"] == "poll.done"]
    assert (done["log_level"], done["reason"], done["errors"]) == ("warning", reason, 1)
    source = await harness.operations.sources.show("news.test")
    assert (source.health, source.last_reason, source.consecutive_errors) == ("failing", reason, 1)
    main = source.methods[0]
    assert main.failing_since is not None
    assert main.failing_since >= began
    assert main.next_poll_at is not None
    assert main.next_poll_at > main.failing_since
    assert f"{main.failing_since:%Y-%m-%d %H:%M} UTC" in source.why
    assert main.last_error is not None
    assert main.last_error in source.why
    await harness.operations.frontier.open_host("news.test")
    site.answers[ROBOTS] = Answer(status=404)
    await harness.execute("UPDATE host_state SET robots_fetched_at = NULL")
    await harness.poll("news.test")
    main = await harness.method()
    assert (main.health, main.failing_since, main.last_error) == ("on_time", None, None)


async def test_a_name_that_is_not_found_is_no_source_on_time(harness: AppHarness) -> None:
    """Issue 20."""
    await harness.operations.sources.create("gone", "site", {"feed_url": "http://nowhere.invalid/feed"})
    polled = await harness.poll("gone")
    assert (polled.reason, polled.has_failed) == (Reason.ROBOTS_UNREACHABLE, True)
    source = await harness.operations.sources.show("gone")
    assert source.health == "failing"
    assert "nowhere.invalid is left alone until" in source.why
    assert "its name was not found" in source.why
    assert "`headwater frontier release nowhere.invalid`" in source.why


async def test_a_short_wait_for_a_busy_host_is_no_failure(site: Site, harness: AppHarness) -> None:
    """Spec 11.3: the host's turn comes soon, so the poll is put off, and nothing is charged."""
    await add(harness, site)
    await harness.execute("UPDATE host_state SET not_before = clock_timestamp() + interval '1 minute'")
    polled = await harness.poll("news.test")
    assert (polled.deferred, polled.has_failed, polled.errors) == (True, False, 0)
    main = await harness.method()
    assert (main.health, main.consecutive_errors) == ("on_time", 0)


async def test_an_outage_of_our_own_network_is_charged_to_no_source_and_no_host(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 3.2, 11.3."""
    await add(harness, site)

    async def is_offline(self: OfflineDetector, error: Exception, host: str) -> bool:
        return True

    monkeypatch.setattr(OfflineDetector, "is_offline", is_offline)
    await harness.execute("UPDATE host_state SET robots_fetched_at = NULL")
    await site.go_away()
    polled = await harness.poll("news.test")
    assert (polled.reason, polled.errors) == (Reason.OFFLINE, 0)
    main = await harness.method()
    assert (main.health, main.consecutive_errors, main.failing_since) == ("on_time", 0, None)
    host = await harness.operations.frontier.get_host("news.test")
    assert (host.blocked_reason, host.failure, host.silent_since) == (None, None, None)


async def test_a_failed_backfill_is_not_called_a_failure_on_our_side(site: Site, harness: AppHarness) -> None:
    """Issue 20: health reports the truth."""
    await add(harness, site)
    await harness.operations.sources.backfill("news.test", date(2024, 1, 1))
    sitemaps = await harness.method(method="sitemap")
    assert (sitemaps.last_reason, sitemaps.last_error is not None) == (Reason.NOT_FOUND, True)
    assert "on our side" not in sitemaps.why


@pytest.mark.parametrize(
    ("answer", "flaw"),
    [
        pytest.param(feed(entry("a"), "<title>b</tit", end=""), FeedFlaw.TRUNCATED, id="truncated"),
        pytest.param(feed(entry("a"), "<title>b & c</title>", entry("d")), FeedFlaw.MALFORMED, id="malformed"),
        pytest.param(feed(), FeedFlaw.EMPTIED, id="suddenly empty"),
        pytest.param(feed(entry("a", ""), entry("c", "")), FeedFlaw.UNDATED, id="without dates"),
    ],
)
async def test_a_feed_with_a_flaw_is_named(answer: Answer, flaw: FeedFlaw, site: Site, harness: AppHarness) -> None:
    """Issue 20: a plain sentence in health, a field, and a problem entry."""
    await add(harness, site)
    main = await read(harness, site, answer)
    assert (main.health, main.flaws) == ("flawed", [flaw])
    assert main.why.startswith(flaw.sentence)
    assert [(one.url, one.problem, one.flaw) for one in main.problems] == [(FEED, flaw.sentence, flaw)]
    assert (await harness.operations.sources.show("news.test")).health == "flawed"
    unchanged = await read(harness, site, answer)
    assert unchanged.flaws == [flaw]
    mended = await read(harness, site, feed(entry("a"), entry("z")))
    assert (mended.health, mended.flaws, mended.problems) == ("on_time", [], [])


async def test_a_flaw_shows_when_a_source_is_added_and_when_it_is_read(site: Site, harness: AppHarness) -> None:
    """Issue 20."""
    site.answers[FEED] = feed(entry("a"), "<title>b</tit", end="")
    assert (await harness.operations.sources.add(FEED)).flaws == (FeedFlaw.TRUNCATED,)
    assert describe_sync(await harness.operations.sources.sync("news.test")).flaws == (FeedFlaw.TRUNCATED,)
    site.answers[FEED] = feed(entry("a"))
    assert describe_sync(await harness.operations.sources.sync("news.test")).flaws == ()


async def test_a_feed_that_never_had_an_entry_or_a_date_did_not_lose_them(site: Site, harness: AppHarness) -> None:
    """Issue 20."""
    site.answers[FEED] = feed()
    await harness.operations.sources.create("news.test", "site", {"feed_url": FEED})
    await harness.poll("news.test")
    assert (await harness.method()).flaws == [FeedFlaw.EMPTY]
    undated = await read(harness, site, feed(entry("a", "")))
    assert (undated.health, undated.flaws) == ("on_time", [])


async def test_a_feed_in_another_encoding_than_it_says_is_not_malformed(site: Site, harness: AppHarness) -> None:
    """Issue 20: only a feed that may lack entries has a flaw."""
    await add(harness, site)
    body = feed(entry("caf\xe9"), entry("b")).body
    assert isinstance(body, str)
    main = await read(harness, site, Answer(body.encode("latin-1"), headers=FEED_TYPE))
    assert (main.last_item_count, main.flaws) == (2, [])


async def test_a_manual_sync_does_not_change_the_learned_interval(site: Site, harness: AppHarness) -> None:
    """Issue 20: someone who looks ten times teaches nothing about the feed."""
    await add(harness, site)
    for _ in range(3):
        await harness.poll("news.test")
    ((before,),) = await harness.rows("SELECT adaptive_interval FROM poll_state WHERE method = 'main'")
    for _ in range(5):
        await harness.operations.sources.sync("news.test")
    site.answers[FEED] = feed(entry("x"), entry("y"), entry("z"))
    await harness.operations.sources.sync("news.test")
    ((after,),) = await harness.rows("SELECT adaptive_interval FROM poll_state WHERE method = 'main'")
    assert after == before
    assert before["quiet"] == 3
    site.answers[FEED] = Answer(status=500)
    for _ in range(3):
        await harness.operations.sources.sync("news.test")
    main = await harness.method()
    assert (main.health, main.consecutive_errors) == ("failing", 1)


async def test_a_moved_feed_says_after_how_many_sightings_it_is_used(site: Site, harness: AppHarness) -> None:
    """Issue 20."""
    await add(harness, site)
    site.answers[FEED] = Answer(status=301, headers={"Location": "http://new.test/feed"})
    site.answers["http://new.test/feed"] = feed(entry("a"), entry("c"))
    await harness.poll("news.test")
    assert "The feed moved to http://new.test/feed; it is used after 4 more sightings" in (await harness.method()).why


async def test_a_date_in_the_future_is_no_date_of_publication(site: Site, harness: AppHarness) -> None:
    """Issue 20: some feeds state closing dates. The first sighting dates such an entry, also after that date."""
    await add(harness, site)
    now = harness.runtime.context.clock.now()
    closing = now + timedelta(days=1)
    entries = f"{entry('b', format_datetime(closing))}</item><item>{entry('a')}"
    await read(harness, site, feed(entries))
    dated = {item.url[-1]: item for item in await items(harness)}
    assert (dated["a"].published_is_sighting, dated["b"].published_is_sighting) == (False, False), "known before"
    await read(harness, site, feed(entry("closing", format_datetime(closing))))
    (item,) = [one for one in await items(harness) if one.title == "closing"]
    assert item.published_is_sighting
    assert item.published_at - now < timedelta(minutes=5)
    first_seen = item.published_at
    await backdate(harness, "items.first_seen_at", timedelta(days=3))
    await harness.execute("UPDATE items SET published_at = first_seen_at WHERE published_is_sighting")
    await read(harness, site, feed(entry("closing", format_datetime(now - timedelta(days=1)))))
    (item,) = [one for one in await items(harness) if one.title == "closing"]
    assert (item.published_is_sighting, first_seen - item.published_at) == (True, timedelta(days=3))


@pytest.mark.parametrize(
    ("changes", "settings", "missing"),
    [
        ({}, {}, ()),
        ({"contact_url": "http://me.test/"}, {}, ("contact_url",)),
        ({}, {"user_agent": "browser"}, ("user_agent=browser",)),
    ],
)
async def test_a_403_names_what_may_help(
    changes: dict[str, str],
    settings: dict[str, str],
    missing: tuple[str, ...],
    site: Site,
    make_settings: Callable[..., Settings],
) -> None:
    """Issue 20: for a feed and for a page, without the settings that are set already."""
    async with open_harness(make_settings(connect_to=site.connect_to, **changes)) as harness:
        site.answers[FEED] = feed(entry("a"))
        site.answers["http://news.test/a"] = Answer(status=403)
        await harness.operations.sources.add(FEED, overrides=settings)
        await harness.work()
        site.answers[FEED] = Answer(status=403)
        await harness.poll("news.test")
        error = (await harness.method()).last_error or ""
        detail = (await harness.operations.why("http://news.test/a")).fetches[-1].detail or ""
    for fix in ("contact_url", "user_agent=browser", "needs_browser=true", "operator of the site"):
        assert [fix in error, fix in detail] == [fix not in missing] * 2, fix


async def test_a_page_of_sources_has_the_health_and_the_order_of_the_whole_list(harness: AppHarness) -> None:
    """Issue 22: a page summarizes only its own sources, and those that may have a problem."""
    changes = {
        "failing": "consecutive_errors = 3, failing_since = now(), last_error = 'x'",
        "ours": "last_error = 'x', last_reason = 'offline', last_success_at = now() - interval '3 days'",
        "late": "next_poll_at = now() - interval '2 hours'",
        "due": "next_poll_at = now() - interval '1 second'",
        "polled": "next_poll_at = now() - interval '2 hours', lease_holder = 'me', lease_token = gen_random_uuid(), "
        "lease_until = now()",
        "flawed": """state = '{"flaws": ["empty"]}'""",
        "quiet": "last_new_at = now() - interval '20 days'",
        "silent": "last_new_at = now() - interval '90 days'",
        "on-request": "next_poll_at = NULL",
        "well": "method = method",
        "never": "last_polled_at = NULL",
        "off": "method = method",
        "broken": "method = method",
    }
    for name, change in changes.items():
        await harness.operations.sources.create(name, "site", {"feed_url": f"http://{name}.test/feed", "category": "a"})
        await harness.execute(
            "UPDATE poll_state SET last_polled_at = now(), last_success_at = now(), last_new_at = now(), "
            "next_poll_at = now() + interval '1 hour' FROM sources s WHERE s.id = source_id AND s.name = $1",
            name,
        )
        await harness.execute(
            f"UPDATE poll_state f SET {change} FROM sources s "
            "WHERE s.id = f.source_id AND s.name = $1 AND f.method = 'main'",
            name,
        )
    await harness.operations.sources.set_enabled("off", enabled=False)
    await harness.execute("UPDATE sources SET settings = settings || '{\"unknown\": 1}' WHERE name = 'broken'")
    whole = [(row.name, row.health) for row in await harness.operations.sources.list_sources()]
    paged, after, pages = [], None, 0
    while pages == 0 or after:
        page = await harness.operations.sources.list_page(SourceFilter(), limit=4, after=after)
        paged += [(row.name, row.health) for row in page.sources]
        after, pages = page.next, pages + 1
    assert paged == whole
    assert len({health for _, health in whole}) == len(SourceHealth) == 7
    assert page.total == len(changes)
    only = await harness.operations.sources.list_page(SourceFilter(category="a", health="failing", name="r"))
    assert [row.name for row in only.sources] == ["broken", "ours"]
    assert sum(only.health.values()) > only.total == 2
