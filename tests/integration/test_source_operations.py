"""The operations on sources (spec 3.1, 3.3; issue 6)."""

import asyncio
import gzip
import random
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.discovery.trial import TrialStage
from headwater.sources.health import SourceMethod
from tests import kinds
from tests.database_state import count, poll_memory
from tests.harness import AppHarness, open_harness
from tests.refusals import refused
from tests.server import Answer, Site, page, rss

FEED = "http://news.test/feed"
HOME = "http://news.test/"
SITEMAP = "http://news.test/sitemap.xml"
HTML = {"Content-Type": "text/html"}
XML = {"Content-Type": "application/xml"}
JSON = {"Content-Type": "application/json"}
GZIP = {"Content-Type": "application/gzip"}
BOMB = "<!DOCTYPE rss [<!ENTITY a 'ha'><!ENTITY b '&a;&a;'>]><rss><channel><title>&b;</title></channel></rss>"


def home(*feeds: str) -> Answer:
    links = "".join(f'<link rel=alternate type="application/rss+xml" href="{feed}">' for feed in feeds)
    return Answer(page("home").replace("</head>", f"{links}</head>"), headers=HTML)


def sitemap(*urls: str, lastmod: datetime | None = None) -> Answer:
    when = f"<lastmod>{lastmod:%Y-%m-%dT%H:%M:%SZ}</lastmod>" if lastmod else ""
    entries = "".join(f"<url><loc>{url}</loc>{when}</url>" for url in urls)
    return Answer(f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>', headers=XML)


async def methods(harness: AppHarness, name: str = "news.test") -> dict[str, SourceMethod]:
    return {one.method: one for one in (await harness.operations.sources.show(name)).methods}


async def names(harness: AppHarness) -> list[str]:
    return [row.name for row in await harness.operations.sources.list_sources()]


async def settings_of(harness: AppHarness, name: str) -> dict[str, Any]:
    return dict((await harness.operations.sources.show(name)).settings)


async def test_add_finds_the_feed_of_a_page_and_the_sitemaps_of_a_root(site: Site, harness: AppHarness) -> None:
    """Spec 3.1."""
    site.answers[HOME] = home("/feed", "/other")
    site.answers[FEED] = rss("http://news.test/a")
    site.answers["http://news.test/other"] = rss("http://news.test/b", title="Other")
    added = await harness.operations.sources.add(HOME)
    assert (added.items, [feed.url for feed in added.others]) == (1, ["http://news.test/other"])
    assert await settings_of(harness, "news.test") == {"site_url": HOME, "feed_url": FEED}
    again = await harness.operations.sources.add("http://news.test/other")
    assert again.name == "news.test-other"
    with refused(Reason.SOURCE_EXISTS, "news.test"):
        await harness.operations.sources.add(HOME)
    assert sorted(await names(harness)) == ["news.test", "news.test-other"]


async def test_a_page_below_the_root_gets_only_its_feed(site: Site, harness: AppHarness) -> None:
    site.answers["http://news.test/world"] = home("/world/feed")
    site.answers["http://news.test/world/feed"] = rss("http://news.test/a")
    await harness.operations.sources.add("http://news.test/world")
    assert set(await settings_of(harness, "news.test")) == {"site_url", "feed_url"}


async def test_a_site_without_a_feed_is_added_by_its_sitemap(site: Site, harness: AppHarness) -> None:
    """Spec 3.1, 3.3: the address may also be the sitemap itself."""
    site.answers[HOME] = home()
    site.answers[SITEMAP] = sitemap("http://news.test/a", "http://news.test/b")
    site.answers["http://else.test/map.xml"] = sitemap("http://else.test/a")
    added = await harness.operations.sources.add(HOME)
    assert (added.method, added.new_urls) == ("sitemap", 2)
    assert await settings_of(harness, "news.test") == {"sitemap_url": SITEMAP}
    assert list(await methods(harness)) == ["sitemap"]
    await harness.operations.sources.add("http://else.test/map.xml")
    assert await settings_of(harness, "else.test") == {"sitemap_url": "http://else.test/map.xml"}


@pytest.mark.parametrize(
    ("given", "found"), [(HOME, SITEMAP), ("http://news.test/map.xml", "http://news.test/map.xml")]
)
async def test_a_truncated_sitemap_is_recognized_at_any_address(
    given: str, found: str, site: Site, harness: AppHarness
) -> None:
    """Spec 3.1: at a common path and as the given address."""
    site.answers[HOME] = home()
    whole = sitemap("http://news.test/a", "http://news.test/b").body
    site.answers[found] = Answer(whole[:-30], headers=XML)
    assert (await harness.operations.sources.discover(given)).sitemaps == [found]
    assert (await harness.operations.sources.add(given)).method == "sitemap"


async def test_a_site_with_neither_is_refused_and_not_saved(site: Site, harness: AppHarness) -> None:
    """Spec 3.1."""
    site.answers[HOME] = home()
    with refused(Reason.NOT_A_FEED, "/feed, ", "robots.txt", "/sitemap.xml", "--mode spider", "HTML"):
        await harness.operations.sources.add(HOME)
    assert await names(harness) == []
    await harness.operations.sources.add(HOME, mode="spider")
    assert list(await methods(harness)) == ["spider"]
    with refused(Reason.NOT_FOUND, "http://else.test/", 404):
        await harness.operations.sources.add("http://else.test/", mode="spider")
    assert await names(harness) == ["news.test"]


async def test_an_edit_is_checked_and_updates_the_methods(site: Site, harness: AppHarness) -> None:
    """Spec 3.1: a refusal names the source and the field, and changes nothing."""
    site.answers[FEED] = rss("http://news.test/a")
    await harness.operations.sources.add(FEED)
    before = await settings_of(harness, "news.test")
    bad_source, bad_request = Reason.BAD_SOURCE, Reason.BAD_REQUEST
    for changes, unset, reason, named in (
        ({"priority": 11}, [], bad_source, "priority"),
        ({"colour": "blue"}, [], bad_source, "colour"),
        ({}, ["feed_url"], bad_source, "feed_url"),
        ({}, ["priority"], bad_request, "feed_url"),
        ({"priority": 3}, ["priority"], bad_request, "priority"),
        ({}, [], bad_request, ""),
        ({"category": "a\0b"}, [], bad_source, "category"),
        ({"feed_url": "ftp://news.test/"}, [], bad_source, "feed_url"),
    ):
        with refused(reason, "news.test", named):
            await harness.operations.sources.edit("news.test", changes, unset)
    assert await settings_of(harness, "news.test") == before
    await harness.operations.sources.edit("news.test", {"ingestion_mode": "both", "category": "News"})
    edited = await harness.operations.sources.show("news.test")
    assert (edited.category, [one.method for one in edited.methods]) == ("News", ["main", "sitemap", "spider"])
    now = datetime.now(UTC)
    assert edited.methods[2].next_poll_at <= now + timedelta(seconds=5)
    await harness.operations.sources.edit("news.test", {}, ["ingestion_mode"])
    back = await harness.operations.sources.show("news.test")
    assert [one.method for one in back.methods] == ["main", "sitemap"]


async def test_a_changed_interval_or_schedule_takes_effect_at_once(site: Site, harness: AppHarness) -> None:
    site.answers[FEED] = rss("http://news.test/a")
    await harness.operations.sources.add(FEED, None, {"poll_interval_minutes": 600})
    await harness.operations.sources.edit("news.test", {"poll_interval_minutes": 30})
    main = (await methods(harness))["main"]
    assert timedelta(minutes=28) < main.next_poll_at - datetime.now(UTC) < timedelta(minutes=31)
    assert main.next_poll_why == "Its settings were changed."
    await harness.operations.sources.edit("news.test", {"schedule": "0 6 * * *"})
    assert (await methods(harness))["main"].next_poll_why == "At its schedule, 0 6 * * * (America/New_York)."
    assert await count(harness, "poll_state", "method = 'main' AND next_poll_at IS NULL") == 1
    await harness.operations.sources.edit("news.test", {}, ["schedule"])
    assert (await methods(harness))["main"].next_poll_at <= datetime.now(UTC) + timedelta(seconds=5)


async def test_a_change_of_other_settings_keeps_the_next_poll(site: Site, harness: AppHarness) -> None:
    """The next poll may be a wait that the publisher requested, or a backfill."""
    site.answers[FEED] = rss("http://news.test/a")
    await harness.operations.sources.add(FEED)
    await harness.execute(
        "UPDATE poll_state SET next_poll_at = now() + '3 days', next_poll_why = 'asked' WHERE method = 'main'"
    )
    await harness.operations.sources.request_backfill("news.test", date(2024, 1, 1))
    before = (await methods(harness)).values()
    await harness.operations.sources.edit("news.test", {"category": "News"})
    after = (await methods(harness)).values()
    plans = [[(one.next_poll_at, one.next_poll_why, one.backfill_since) for one in each] for each in (before, after)]
    assert plans[0] == plans[1]
    assert None not in plans[1][1]


async def test_a_source_with_another_feed_forgets_its_state(site: Site, harness: AppHarness) -> None:
    """With the state of the old feed, the new feed would look unchanged."""
    site.answers[FEED] = Answer(rss("http://news.test/a").body, headers={"ETag": '"1"'})
    site.answers["http://news.test/new"] = Answer(rss("http://news.test/b").body, headers={"ETag": '"1"'})
    await harness.operations.sources.add(FEED)
    await harness.operations.sources.edit("news.test", {"priority": 7, "sitemap_hours": 12})
    assert (await poll_memory(harness))["etag"] == '"1"'
    await harness.operations.sources.edit("news.test", {"feed_url": "http://news.test/new"})
    assert await poll_memory(harness) == {}
    assert (await harness.operations.sources.sync("news.test")).new_items == 1
    assert "If-None-Match" not in site.seen[-1].headers


async def test_a_poll_with_the_old_settings_saves_nothing(site: Site, harness: AppHarness) -> None:
    site.answers[FEED] = rss("http://news.test/a")
    await harness.operations.sources.add(FEED)
    site.hanging.add(FEED)
    reading = asyncio.create_task(harness.operations.sources.sync("news.test"))
    async with asyncio.timeout(10):
        while FEED not in site.waiting:
            await asyncio.sleep(0.01)
    await harness.operations.sources.edit("news.test", {"feed_url": "http://news.test/new"})
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert (await harness.operations.sources.show("news.test")).settings["feed_url"] == "http://news.test/new"
    assert (await methods(harness))["main"].polling is False


async def test_two_sources_never_read_one_feed(site: Site, harness: AppHarness) -> None:
    site.answers[FEED] = rss("http://news.test/a")
    await harness.operations.sources.add(FEED)
    with refused(Reason.SOURCE_EXISTS, "news.test"):
        await harness.operations.sources.create("other", "site", {"feed_url": "HTTP://NEWS.test/feed"})
    await harness.operations.sources.create("other", "site", {"feed_url": "http://news.test/other"})
    with refused(Reason.SOURCE_EXISTS, "news.test"):
        await harness.operations.sources.edit("other", {"feed_url": FEED})


async def test_sources_are_listed_by_health_the_worst_first(site: Site, harness: AppHarness) -> None:
    """Issue 6: each source has its health, the reason and the next poll."""
    for name in ("good", "bad", "off"):
        site.answers[f"http://{name}.test/feed"] = rss(f"http://{name}.test/a")
        await harness.operations.sources.add(f"http://{name}.test/feed", name, {"category": f"News/{name}"})
    site.answers["http://bad.test/feed"] = Answer(status=404)
    await harness.operations.sources.sync("bad")
    await harness.operations.sources.set_enabled("off", enabled=False)
    await harness.operations.frontier.submit(["http://by.test/hand"])
    rows = await harness.operations.sources.list_sources()
    assert [(row.name, row.health) for row in rows] == [
        ("bad", "failing"),
        ("good", "on_time"),
        ("manual", "on_time"),
        ("off", "disabled"),
    ]
    assert "Failed once" in rows[0].why
    assert "404" in rows[0].why
    assert [row.name for row in await harness.operations.sources.list_sources(health="failing")] == ["bad"]
    assert [row.name for row in await harness.operations.sources.list_sources(category="News")] == [
        "bad",
        "good",
        "off",
    ]
    assert [row.name for row in await harness.operations.sources.list_sources(category="News/off")] == ["off"]
    assert await harness.operations.sources.list_sources(category="New") == []
    with refused(Reason.BAD_REQUEST, "failing, late"):
        await harness.operations.sources.list_sources(health="poorly")
    await harness.execute("""UPDATE sources SET settings = '{"priority": 99}' WHERE name = 'good'""")
    broken = (await harness.operations.sources.list_sources())[1]
    assert (broken.name, broken.health) == ("good", "failing")
    assert "priority" in broken.why


async def test_the_reason_names_the_method_that_is_polled_first(site: Site, harness: AppHarness) -> None:
    """Spec 3.2: the next time agrees with the sentence."""
    site.answers[HOME] = home("/feed")
    site.answers[FEED] = rss("http://news.test/a")
    await harness.operations.sources.add(HOME)
    (listed,) = await harness.operations.sources.list_sources()
    assert listed.next_poll_at == (await methods(harness))["sitemap"].next_poll_at
    assert re.search(r"\b1\d\S* minutes\b.*\bsitemaps\b", listed.why)
    await harness.execute("UPDATE poll_state SET next_poll_at = now() + '5 minutes' WHERE method = 'sitemap'")
    (listed,) = await harness.operations.sources.list_sources()
    assert re.search(r"\bsitemaps\b.*\b(5|4\.9) minutes\b", listed.why)
    await harness.execute("UPDATE poll_state SET next_poll_at = now() + '1 day' WHERE method = 'sitemap'")
    (listed,) = await harness.operations.sources.list_sources()
    assert "sitemaps" not in listed.why
    assert listed.next_poll_at == (await methods(harness))["main"].next_poll_at


async def test_a_disabled_source_is_not_due_and_an_enabled_one_is(site: Site, harness: AppHarness) -> None:
    site.answers[FEED] = rss("http://news.test/a")
    await harness.operations.sources.add(FEED)
    shown = await harness.operations.sources.set_enabled("news.test", enabled=False)
    assert (shown.health, shown.enabled) == ("disabled", False)
    assert {shown.next_poll_at, *(one.next_poll_at for one in shown.methods)} == {None}
    assert (await harness.operations.sources.set_enabled("news.test", enabled=True)).health == "on_time"
    with refused(Reason.UNKNOWN_SOURCE, "nobody"):
        await harness.operations.sources.set_enabled("nobody", enabled=False)


async def test_a_source_without_items_is_deleted(harness: AppHarness) -> None:
    await harness.operations.sources.create("news", "site", {"feed_url": FEED})
    removed = await harness.operations.sources.remove("news")
    assert (removed.kept, removed.ended_urls) == (False, 0)
    assert await names(harness) == []
    with refused(Reason.UNKNOWN_SOURCE, "news"):
        await harness.operations.sources.remove("news")


@pytest.mark.both_servers
async def test_a_removed_source_keeps_its_items_and_ends_its_queued_urls(site: Site, harness: AppHarness) -> None:
    """Spec 3.1: a source of the same name continues with its items."""
    site.answers[FEED] = rss(*(f"http://news.test/{number}" for number in range(5)))
    site.answers["http://news.test/0"] = Answer(page("zero"), headers=HTML)
    site.answers["http://other.test/feed"] = rss("http://news.test/1", "http://other.test/x")
    await harness.operations.sources.add(FEED)
    await harness.operations.sources.add("http://other.test/feed")
    await harness.execute("UPDATE frontier_queue SET due_at = now() + '1 hour' WHERE url_id > 1")
    await harness.work(until_attempts=1)
    removed = await harness.operations.sources.remove("news.test")
    assert (removed.kept, removed.ended_urls) == (True, 3)  # one was fetched, and another source has one too
    assert await names(harness) == ["other.test"]
    stats = await harness.operations.frontier.get_stats()
    assert stats.reasons["dead"] == {"source_removed": 3}
    assert (await harness.operations.why("http://news.test/4")).reason is Reason.SOURCE_REMOVED
    assert stats.urls["pending"] == 2
    assert await count(harness, "items", "source_id = 1") == 5
    assert await count(harness, "frontier_queue") == 2
    for ask in (harness.operations.sources.show, harness.operations.sources.sync, harness.operations.sources.remove):
        with refused(Reason.UNKNOWN_SOURCE, "news.test"):
            await ask("news.test")

    site.answers["http://news.test/gone"] = Answer(status=404)
    with refused(Reason.NOT_FOUND, 404):
        await harness.operations.sources.add("http://news.test/gone", "news.test")
    assert await names(harness) == ["other.test"]
    added = await harness.operations.sources.add(FEED, overrides={"priority": 9})
    assert ((await harness.operations.sources.show("news.test")).id, added.new_items) == (1, 0)
    assert (await settings_of(harness, "news.test"))["priority"] == 9
    urls = (await harness.operations.frontier.get_stats()).urls
    assert (urls["pending"], urls["dead"]) == (5, 0)


async def test_a_url_of_a_removed_source_is_queued_for_the_next_source_that_lists_it(
    site: Site, harness: AppHarness
) -> None:
    """If one feed of a site replaces another, no page is lost."""
    site.answers[FEED] = rss("http://news.test/a", "http://news.test/b")
    site.answers["http://news.test/new"] = rss("http://news.test/b", "http://news.test/c")
    for name in "abc":
        site.answers[f"http://news.test/{name}"] = Answer(page(name), headers=HTML)
    await harness.operations.sources.add(FEED, "old")
    await harness.operations.sources.remove("old")
    added = await harness.operations.sources.add("http://news.test/new", "new")
    assert added.new_urls == 1
    await harness.work()
    assert await harness.outcomes() == {
        "http://news.test/a": "source_removed",
        "http://news.test/b": "stored",
        "http://news.test/c": "stored",
    }
    assert {line.source for line in (await harness.operations.documents.list_page()).documents} == {"new"}


async def test_a_second_removal_finishes_an_interrupted_one(site: Site, harness: AppHarness) -> None:
    site.answers[FEED] = rss("http://news.test/a")
    await harness.operations.sources.add(FEED)
    await harness.execute("UPDATE sources SET removed_at = now(), enabled = false")
    await harness.execute("DELETE FROM poll_state")
    assert (await harness.operations.sources.remove("news.test")).ended_urls == 1
    with refused(Reason.UNKNOWN_SOURCE, "news.test"):
        await harness.operations.sources.remove("news.test")


async def test_a_url_in_fetch_survives_the_removal_until_the_next_one(site: Site, harness: AppHarness) -> None:
    """Spec 3.1."""
    site.answers[FEED] = rss("http://news.test/a", "http://news.test/b", "http://news.test/c")
    site.answers["http://news.test/a"] = Answer(page("a"), headers=HTML)
    await harness.operations.sources.add(FEED)
    fetching = "lease_holder = 'me', lease_token = gen_random_uuid(), lease_until = now() + '1 hour'"
    await harness.execute(f"UPDATE frontier_queue SET {fetching} WHERE url_id < 3")
    assert (await harness.operations.sources.remove("news.test")).ended_urls == 1
    failed = (
        "lease_holder = NULL, lease_token = NULL, lease_until = NULL, due_at = now() + (url_id - 1) * interval '1 hour'"
    )
    await harness.execute(f"UPDATE frontier_queue SET {failed}")
    await harness.work(until_attempts=1)
    assert (await harness.outcomes())["http://news.test/a"] == "stored"
    assert (await harness.operations.sources.remove("news.test")).ended_urls == 1
    assert (await harness.operations.frontier.get_stats()).urls["pending"] == 0


async def test_concurrent_operations_lose_no_url(site: Site, harness: AppHarness) -> None:
    """A removed source has no queued URL, and each queued URL is pending."""
    for number in range(3):
        urls = [f"http://h{number}.test/{page}" for page in range(20)]
        site.answers[f"http://h{number}.test/feed"] = rss(*urls)
    mine = harness.operations.sources

    async def meddle(seed: int) -> int:
        chance, refused = random.Random(seed), 0
        for _ in range(15):
            name = f"h{chance.randrange(3)}.test"
            deeds: list[Callable[[], Awaitable[object]]] = [
                lambda: mine.add(f"http://{name}/feed"),  # noqa: B023 (each is called at once)
                lambda: mine.sync(name),  # noqa: B023
                lambda: mine.remove(name),  # noqa: B023
                lambda: mine.edit(name, {"priority": chance.randint(1, 10)}),  # noqa: B023
                lambda: mine.request_backfill(name, date(2024, 1, 1)),  # noqa: B023
                lambda: harness.operations.frontier.submit([f"http://{name}/x{chance.random()}"], name),  # noqa: B023
            ]
            try:
                await chance.choice(deeds)()
            except OperatorError:
                refused += 1
        return refused

    refused = await asyncio.gather(*(meddle(seed) for seed in range(6)))
    assert 0 < sum(refused) < 90
    queued = "url_frontier u LEFT JOIN frontier_queue q ON q.url_id = u.id"
    assert await count(harness, queued, "(u.status = 'pending') <> (q.url_id IS NOT NULL)") == 0
    owned = "url_frontier u LEFT JOIN sources s ON s.id = u.source_id"
    removed = "s.id IS NULL OR (s.removed_at IS NOT NULL AND u.status = 'pending')"
    assert await count(harness, owned, removed) == 0


async def test_a_submitted_url_restores_the_manual_source(harness: AppHarness) -> None:
    await harness.operations.frontier.submit(["http://by.test/hand"])
    await harness.operations.sources.remove("manual")
    with refused(Reason.UNKNOWN_SOURCE, "manual"):
        await harness.operations.sources.show("manual")
    await harness.operations.frontier.submit(["http://by.test/other"])
    assert await names(harness) == ["manual"]


async def test_sync_polls_by_the_named_method(site: Site, harness: AppHarness) -> None:
    site.answers[FEED] = rss("http://news.test/a")
    site.answers[SITEMAP] = sitemap("http://news.test/b")
    await harness.operations.sources.add(FEED)
    read = await harness.operations.sources.sync("news.test", "sitemap")
    assert (read.error, read.method, read.new_urls) == (None, "sitemap", 1)
    with refused(Reason.BAD_REQUEST, "news.test: method: ", "main, sitemap", "spider"):
        await harness.operations.sources.sync("news.test", "spider")
    await harness.operations.sources.create("hands", "manual", {})
    with refused(Reason.BAD_REQUEST, "hands", "headwater frontier submit"):
        await harness.operations.sources.sync("hands")


async def test_an_interrupted_backfill_is_left_for_the_running_program(
    site: Site, harness: AppHarness, make_settings: Callable[..., Settings]
) -> None:
    """Spec 3.3."""
    site.answers[FEED] = rss("http://news.test/a")
    site.answers[SITEMAP] = sitemap("http://news.test/old", lastmod=datetime(2024, 5, 5, tzinfo=UTC))
    await harness.operations.sources.add(FEED)
    assert (await harness.operations.sources.sync("news.test", "sitemap")).new_urls == 0
    site.hanging.add(SITEMAP)
    cut = asyncio.create_task(harness.operations.sources.backfill("news.test", date(2024, 1, 1)))
    async with asyncio.timeout(10):
        while SITEMAP not in site.waiting:
            await asyncio.sleep(0.01)
    cut.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cut
    left = (await methods(harness))["sitemap"]
    assert left.backfill_since == datetime(2024, 1, 1, 5, tzinfo=UTC)  # midnight in New York
    assert left.next_poll_at <= datetime.now(UTC)
    site.hanging.clear()
    counts: list[int] = []
    async with open_harness(make_settings(connect_to=site.connect_to)) as other:
        read = await other.operations.sources.backfill("news.test", date(2024, 2, 1), counts.append)
    assert (read.error, read.new_urls) == (None, 1)
    assert (await methods(harness))["sitemap"].backfill_since is None


async def test_an_impossible_backfill_is_refused(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds.install(monkeypatch, "plain", kinds.PlainKind)
    await harness.operations.sources.create("plain", "plain", {})
    with refused(Reason.BAD_REQUEST, "plain"):
        await harness.operations.sources.backfill("plain", date(2024, 1, 1))
    await harness.operations.sources.create("news", "site", {"feed_url": FEED})
    with refused(Reason.BAD_REQUEST, "since: 2999-01-01"):
        await harness.operations.sources.backfill("news", date(2999, 1, 1))
    shown = await harness.operations.sources.request_backfill("news", date(1, 1, 1))
    assert shown.methods[1].backfill_since.year in (1969, 1970)
    assert site.seen == []


async def test_discover_and_test_save_nothing(site: Site, harness: AppHarness) -> None:
    """Issue 6."""
    site.answers[HOME] = home("/feed")
    site.answers[FEED] = rss("http://news.test/a", "http://news.test/b", title="The feed")
    site.answers[SITEMAP] = sitemap("http://news.test/c")
    site.answers["http://news.test/b"] = Answer(page("the river"), headers=HTML)
    around = await harness.operations.sources.discover(HOME)
    assert ([feed.url for feed in around.feeds], around.sitemaps) == ([FEED], [SITEMAP])
    assert await harness.operations.sources.discover(FEED) == replace(around, url=FEED)
    seen: list[TrialStage] = []
    result = await harness.operations.sources.test(HOME, seen.append)
    assert (result.works, result.stages) == (True, seen)
    assert [stage.name for stage in seen] == ["robots.txt", "address", "feeds", "feed", "newest page", "article"]
    found = " | ".join(line for stage in seen for line in stage.found)
    for words in ("all is allowed", "not a feed", FEED, "The feed", "2 entries, 2 of them dated", "title: the river"):
        assert words in found
    for table in ("sources", "items", "url_frontier", "documents"):
        assert await count(harness, table) == 0


@pytest.mark.parametrize(
    ("answers", "last", "why"),
    [
        ({"http://news.test/robots.txt": Answer("User-agent: *\nDisallow: /")}, "robots.txt", "forbids"),
        ({}, "address", "404"),
        ({HOME: home()}, "feeds", "no feed; .*--mode spider"),
        ({HOME: Answer(BOMB, headers=XML)}, "address", "declares entities made of entities"),
        ({HOME: Answer("", headers=HTML)}, "address", "the answer is empty"),
        ({HOME: Answer('{"news": []}', headers=JSON)}, "address", "it is JSON, but not a JSON Feed"),
        ({HOME: Answer(gzip.compress(b"news"), headers=GZIP)}, "address", r"it is compressed \(gzip\)"),
        ({HOME: sitemap("http://news.test/a")}, "address", "a sitemap, not a feed"),
        ({HOME: home("/feed"), FEED: rss("http://news.test/a")}, "newest page", "404"),
        (
            {HOME: home("/feed"), FEED: rss("http://news.test/a"), "http://news.test/a": Answer("x" * 300)},
            "article",
            "mark",
        ),
    ],
)
async def test_a_trial_ends_at_the_first_stage_that_fails(
    answers: dict[str, Answer], last: str, why: str, site: Site, harness: AppHarness
) -> None:
    """Issue 6: only a page can lead to feeds. For any other body, the error is that of its reader."""
    site.answers.update(answers)
    result = await harness.operations.sources.test(HOME)
    assert (result.works, result.stages[-1].name) == (False, last)
    assert re.search(why, result.stages[-1].error or "")


async def test_a_trial_uses_the_settings_of_the_source(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds.install(monkeypatch, "plain", kinds.PlainKind)
    records = "http://api.test/records.json"
    site.answers[records] = Answer('[{"url": "http://news.test/a", "number": "1", "date": "2026-03-01"}]')
    site.answers["http://news.test/a"] = Answer(page("the river"), headers=HTML)
    await harness.operations.sources.create("records", "plain", {"urls": [records]})
    await harness.operations.sources.create("hands", "manual", {})
    result = await harness.operations.sources.test("records")
    assert (result.works, [stage.name for stage in result.stages]) == (
        True,
        ["settings", "list", "newest page", "article"],
    )
    assert not (await harness.operations.sources.test("hands")).works
    with refused(Reason.UNKNOWN_SOURCE, "nobody"):
        await harness.operations.sources.test("nobody")
