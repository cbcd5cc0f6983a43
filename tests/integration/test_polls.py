"""The results of a poll: the next poll and its reason, pages to fetch again, and sightings (spec 3.2, 2.2)."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta

import pytest

from headwater import Item, Kind, Run
from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason
from headwater.core.source import Method
from headwater.db import sources
from tests.database_state import count
from tests.harness import AppHarness
from tests.kinds import PlainKind, install
from tests.server import Answer, Site, page, rss

FEED = "http://news.test/feed"
HTML = {"Content-Type": "text/html; charset=utf-8"}


def entries(*names: str) -> Answer:
    return rss(*(f"http://news.test/{name}" for name in names))


async def wait_of(harness: AppHarness) -> tuple[timedelta, str]:
    main = await harness.method()
    assert main.next_poll_at is not None
    assert main.last_polled_at is not None
    assert main.next_poll_why is not None
    return main.next_poll_at - main.last_polled_at, main.next_poll_why


async def test_a_feed_in_which_nothing_is_new_is_asked_less_often_and_says_so(site: Site, harness: AppHarness) -> None:
    """Spec 3.2: the interval adapts, and anyone can see why a feed is polled when it is."""
    site.answers[FEED] = entries("a")
    await harness.operations.sources.add(FEED)
    wait, why = await wait_of(harness)
    assert timedelta(minutes=15) <= wait <= timedelta(minutes=16.5)
    assert why == "Every 15 minutes."
    for _ in range(10):
        await harness.poll("news.test")
    wait, why = await wait_of(harness)
    assert timedelta(minutes=60) <= wait <= timedelta(minutes=66)
    assert why == "Every 15 minutes; 60 minutes for now, since nothing was new in the last 10 polls."


async def test_the_delay_that_a_server_requests_after_a_refusal_is_kept(site: Site, harness: AppHarness) -> None:
    """Spec 3.2: Retry-After."""
    site.answers[FEED] = entries("a")
    await harness.operations.sources.add(FEED)
    site.answers[FEED] = Answer(status=503, headers={"Retry-After": "7200"})
    async with harness.runtime.context.database.connection() as connection:
        now = harness.runtime.context.clock.now()
        claim, *_ = await sources.claim_polls(
            connection, now=now, until=now + timedelta(minutes=1), holder="t", limit=1, name="news.test"
        )
    failed = await harness.runtime.poller.poll(claim)
    assert (failed.reason, failed.errors) == (Reason.HTTP_5XX, 1)
    wait, why = await wait_of(harness)
    assert timedelta(hours=2) <= wait <= timedelta(hours=2.2)
    assert why == "The publisher asks to be left alone for 2 hours (Retry-After)."


async def test_a_feed_that_is_all_new_has_its_sitemaps_read(site: Site, harness: AppHarness) -> None:
    """Issue 6: a window that overflowed is noticed, and answered by a sitemap pass, but not more than once an hour."""
    site.answers[FEED] = entries("a", "b", "c")
    await harness.operations.sources.create("news.test", "site", {"feed_url": FEED})
    first = await harness.operations.sources.sync("news.test")
    site.answers[FEED] = entries("d", "e", "f")
    second = await harness.operations.sources.sync("news.test")
    assert (first.overflowed, second.overflowed) == (False, True)
    sitemaps = await harness.method(method="sitemap")
    assert sitemaps.next_poll_at is not None
    assert sitemaps.next_poll_at <= datetime.now(UTC)
    assert "missed" in (sitemaps.next_poll_why or "")
    site.answers[FEED] = entries("e", "f", "g")
    assert not (await harness.operations.sources.sync("news.test")).overflowed
    await harness.operations.sources.sync("news.test", "sitemap")
    site.answers[FEED] = entries("x", "y", "z")
    assert (await harness.operations.sources.sync("news.test")).overflowed
    sitemaps = await harness.method(method="sitemap")
    assert sitemaps.next_poll_at is not None
    assert sitemaps.last_polled_at is not None
    assert sitemaps.next_poll_at - sitemaps.last_polled_at == timedelta(hours=1)


async def test_a_feed_whose_site_has_no_sitemap_is_none_the_worse_for_being_too_short(
    site: Site, harness: AppHarness
) -> None:
    """Spec 3.2: the errors of a method that was only tried do not count."""
    site.answers[FEED] = entries("a", "b", "c")
    await harness.operations.sources.add(FEED)
    site.answers[FEED] = entries("d", "e", "f")
    assert (await harness.operations.sources.sync("news.test")).overflowed
    tried = await harness.operations.sources.sync("news.test", "sitemap")
    assert (tried.reason, tried.urls) == (Reason.POLLED, 0)
    sitemaps = await harness.method(method="sitemap")
    assert (sitemaps.consecutive_errors, len(sitemaps.problems)) == (0, 1)
    (source,) = await harness.operations.sources.list_sources()
    assert source.health == "on_time"


@pytest.mark.parametrize("link", ["http://user:pw@news.test/", "http://news..test/", "http://news.test/" + "x" * 9000])
async def test_a_feed_that_calls_its_site_by_no_usable_address_is_read_all_the_same(
    link: str, site: Site, harness: AppHarness
) -> None:
    """Issue 6: no feed dies silently."""
    answer = entries("a")
    body = answer.body.decode() if isinstance(answer.body, bytes) else answer.body
    site.answers[FEED] = Answer(body.replace("<channel>", f"<channel><link>{link}</link>"), headers=answer.headers)
    assert (await harness.operations.sources.add(FEED)).items == 1


async def test_a_backfill_of_a_site_without_sitemaps_fails_and_ends(site: Site, harness: AppHarness) -> None:
    """Spec 3.3."""
    site.answers[FEED] = entries("a")
    await harness.operations.sources.add(FEED)
    tried = await harness.operations.sources.backfill("news.test", date(2024, 1, 1))
    assert tried.reason is Reason.NOT_FOUND
    sitemaps = await harness.method(method="sitemap")
    assert sitemaps.backfill_since is None


async def test_a_kind_that_wants_the_program_to_end_ends_its_own_run(
    harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 1.1: anybody may write one."""

    class LeavingKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
        async def discover(self, run: Run) -> AsyncIterator[Item]:
            del run
            raise SystemExit(3)
            yield  # pragma: no cover

    install(monkeypatch, "leaving", LeavingKind)
    await harness.operations.sources.create("odd", "leaving", {})
    failed = await harness.operations.sources.sync("odd")
    assert (failed.reason, failed.error) == (Reason.INTERNAL, "SystemExit: 3")


async def test_a_failed_save_is_an_error_of_the_source(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 3.2: any failure at any step is an error of the poll, in a text that can be stored."""
    site.answers[FEED] = entries("a")
    await harness.operations.sources.add(FEED)
    site.answers[FEED] = entries("a", "b")

    async def refuse(*_: object) -> None:
        raise HeadwaterError("a\0b", reason=Reason.BAD_SOURCE)

    monkeypatch.setattr("headwater.db.items.rebuild_days", refuse)
    failed = await harness.operations.sources.sync("news.test")
    assert failed.reason is Reason.BAD_SOURCE
    main = await harness.method()
    assert (main.last_reason, main.last_error, main.polling) == ("bad_source", "ab", False)
    assert await count(harness, "items") == 1


async def test_a_pass_that_was_asked_for_waits_as_long_as_its_host_wants(site: Site, harness: AppHarness) -> None:
    """Spec 2.3, 3.3."""
    site.answers[FEED] = entries("a")
    await harness.operations.sources.add(FEED)
    await harness.operations.frontier.close_host("news.test", timedelta(hours=24))
    waiting = await harness.operations.sources.sync("news.test", "sitemap")
    assert waiting.deferred
    sitemaps = await harness.method(method="sitemap")
    assert sitemaps.next_poll_at is not None
    assert sitemaps.next_poll_at - datetime.now(UTC) > timedelta(hours=23)
    assert "news.test" in (sitemaps.next_poll_why or "")


def updated(*, at: datetime) -> Answer:
    return Answer(
        f"""<feed xmlns="http://www.w3.org/2005/Atom"><title>A</title><entry><title>One</title>
        <link href="http://news.test/a"/><published>2026-03-12T08:00:00Z</published>
        <updated>{at.isoformat()}</updated></entry></feed>"""
    )


@pytest.mark.parametrize(
    ("fetched", "changed", "again"),
    [
        pytest.param(timedelta(hours=3), timedelta(hours=2), True, id="changed since"),
        pytest.param(timedelta(hours=3), timedelta(hours=4), False, id="changed before"),
        pytest.param(timedelta(minutes=30), timedelta(minutes=10), False, id="fetched within the hour"),
        pytest.param(timedelta(hours=3), -timedelta(hours=1), False, id="a date that has not come"),
    ],
)
async def test_a_page_is_fetched_again_when_its_feed_says_that_it_changed(
    fetched: timedelta, changed: timedelta, again: bool, site: Site, harness: AppHarness
) -> None:
    """Spec 2.2: a source saw a newer version."""
    now = harness.runtime.context.clock.now()
    site.answers[FEED] = updated(at=now - timedelta(days=9))
    site.answers["http://news.test/a"] = [Answer(page(word), headers=HTML) for word in ("old", "new")]
    await harness.operations.sources.add(FEED)
    await harness.work()
    await harness.execute("UPDATE url_frontier SET last_fetched_at = $1", now - fetched)
    site.answers[FEED] = updated(at=now - changed)
    await harness.operations.sources.sync("news.test")
    await harness.work()
    assert site.visits("http://news.test/a") == 1 + again


async def test_a_second_sighting_from_another_feed_is_kept(site: Site, harness: AppHarness) -> None:
    """Issue 6."""
    other = "http://other.test/feed"
    site.answers[FEED] = site.answers[other] = entries("a", "b")
    await harness.operations.sources.add(FEED)
    polled = await harness.operations.sources.add(other)
    await harness.operations.sources.sync("news.test")
    assert (polled.items, polled.new_urls) == (2, 0)
    for name in "ab":
        sightings = (await harness.operations.why(f"http://news.test/{name}")).sightings
        assert {one.source for one in sightings} == {"news.test", "other.test"}


async def test_a_page_never_takes_the_place_of_anothers_raw_bytes(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 1.5: in another run neither; the other listed pages are saved."""
    install(monkeypatch)
    listed, api = {"Content-Type": "application/json"}, "http://api.test/list"
    site.answers[api] = [Answer(f'["http://news.test/{name}"]', headers=listed) for name in ("a", "b", "a")]
    settings = {"lists": [api], "subpath": "2026/x.html", "budget": None}
    await harness.operations.sources.create("rulings", "ledger", settings)
    first, second, third = [await harness.operations.sources.sync("rulings") for _ in range(3)]
    assert (first.items, second.items, third.items) == (1, 0, 1)
    assert list(second.refused) == ["http://news.test/b"]
    assert "http://news.test/a" in second.refused["http://news.test/b"]
    assert third.refused == {}


@pytest.mark.both_servers
@pytest.mark.parametrize(
    ("first", "second", "place"),
    [
        ("7", "7.html/8", "2026/01/7.html"),
        ("7.html/8", "7", "2026/01/7.html/8.html"),
    ],
)
async def test_a_place_is_never_a_file_for_one_page_and_a_folder_for_another(
    first: str, second: str, place: str, site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 1.5: in another run neither; else the second page could never be kept. Its neighbours go in."""
    install(monkeypatch, "plain", PlainKind)
    api, neighbours, day = "http://api.test/list", ("6", "70", "7.htm"), "2026-01-05"
    site.answers[api] = [
        Answer(json.dumps([{"url": f"http://news.test/{name}", "number": name, "date": day} for name in names]))
        for names in ([first], [second, *neighbours], [first])
    ]
    await harness.operations.sources.create("rulings", "plain", {"urls": [api]})
    runs = [await harness.operations.sources.sync("rulings") for _ in range(3)]
    assert [run.items for run in runs] == [1, len(neighbours), 1]
    assert [list(run.refused) for run in runs] == [[], [f"http://news.test/{second}"], []]
    assert place in runs[1].refused[f"http://news.test/{second}"]
    places = {f"2026/01/{name}.html" for name in (first, *neighbours)}
    assert {place for (place,) in await harness.rows("SELECT subpath FROM url_frontier")} == places


async def test_passes_are_brought_in_line_and_keep_what_they_know(site: Site, harness: AppHarness) -> None:
    """Spec 3.1."""
    site.answers[FEED] = entries("a")
    await harness.operations.sources.add(FEED)
    source = await harness.operations.sources.show("news.test")
    before = (await harness.method()).next_poll_at
    due = datetime(2026, 1, 1, tzinfo=UTC)
    async with harness.runtime.context.database.connection() as connection:
        await sources.save_methods(connection, source.id, {Method.FEED: due, Method.SPIDER: due})
        assert (await harness.method()).next_poll_at == before
        assert (await harness.method(method="spider")).next_poll_at == due
        await sources.save_methods(connection, source.id, {Method.FEED: due})
    methods = (await harness.operations.sources.show("news.test")).methods
    assert {one.method for one in methods} - {"sitemap"} == {"main"}


async def test_a_source_with_a_schedule_shows_its_next_run(site: Site, harness: AppHarness) -> None:
    """Issue 6: health with the reason and the next poll."""
    site.answers[FEED] = entries("a")
    settings = {"feed_url": FEED, "schedule": "0 2 * * *", "timezone": "Europe/London"}
    await harness.operations.sources.create("news", "site", settings)
    await harness.operations.sources.sync("news")
    (source,) = await harness.operations.sources.list_sources()
    assert source.next_poll_at > harness.runtime.context.clock.now()
    assert "Next in" in source.why
    main = next(one for one in source.methods if one.method == "main")
    assert main.next_poll_why == "At its schedule, 0 2 * * * (Europe/London)."


async def test_a_permanent_redirect_of_a_feed_is_shown_before_it_is_learned(site: Site, harness: AppHarness) -> None:
    """Spec 3.2."""
    site.answers[FEED] = entries("a")
    await harness.operations.sources.add(FEED)
    site.answers[FEED] = Answer(status=301, headers={"Location": "/moved"})
    site.answers["http://news.test/moved"] = entries("a", "b")
    await harness.operations.sources.sync("news.test")
    (source,) = await harness.operations.sources.list_sources()
    assert "http://news.test/moved" in source.why


async def test_a_trial_refuses_what_a_run_would(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 6: `source test` walks each stage; issue 5: bad input is refused with the source's name and the field."""
    install(monkeypatch)
    api = "http://api.test/list"
    site.answers[api] = Answer('["http://news.test/a"]', headers={"Content-Type": "application/json"})
    await harness.operations.sources.create("odd", "ledger", {"lists": [api], "subpath": "../../etc/x", "budget": None})
    result = await harness.operations.sources.test("odd")
    assert (result.works, (result.stages[-1].error or "")[:22]) == (False, "Source odd: partition:")
