"""`why URL` states every end of a page, through the real doors (spec 8.3)."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from headwater.app.maintenance import rescue_expired
from headwater.app.roles import make_fetch_pool, run_roles
from headwater.core.frontier import Claim
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.explain.operations import Why
from headwater.explain.report import DelayOrigin
from headwater.frontier.claim import claim
from tests.harness import AppHarness, open_harness
from tests.server import Answer, Site, page, rss

FEED = "http://news.test/feed"
A = "http://news.test/a"
HTML = {"Content-Type": "text/html; charset=utf-8"}
OPEN = Answer(page("flood defences"), headers=HTML)

MakeHarness = Callable[..., contextlib.AbstractAsyncContextManager[AppHarness]]


@pytest.fixture
def opened(site: Site, make_settings: Callable[..., Settings]) -> MakeHarness:
    """Opens a harness with its own settings."""
    return lambda **settings: open_harness(make_settings(connect_to=site.connect_to, **settings))


async def explain(harness: AppHarness, url: str) -> Why:
    """The report on a URL. Its last line, and no other, states what happens next."""
    why = await harness.operations.why(url)
    assert [line.label for line in why.lines].index("Next") == len(why.lines) - 1
    return why


def text_of(why: Why, label: str) -> str:
    return " ".join(line.text for line in why.lines if line.label == label)


def wait_of(why: Why) -> timedelta:
    """How long the URL has to wait."""
    assert why.next_at
    return why.next_at - why.asked_at


async def listed(site: Site, harness: AppHarness, *urls: str, **answers: Answer | list[Answer]) -> None:
    """Serve a feed that lists URLs, and what `http://news.test/` has under names, and add the feed."""
    site.answers[FEED] = rss(*urls)
    site.answers |= {f"http://news.test/{name}": answer for name, answer in answers.items()}
    await harness.operations.sources.add(FEED)


async def work_until(harness: AppHarness, happened: Callable[[], Awaitable[object]]) -> None:
    """Let fetchers work until something has happened."""
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(run_roles([make_fetch_pool(harness.runtime, harness.operations.metrics)], stop))
        async with asyncio.timeout(20):
            while not await happened():
                await asyncio.sleep(0.02)
        stop.set()


async def try_once(harness: AppHarness, url: str) -> None:
    """Let fetchers work until a URL has been tried."""

    async def tried() -> bool:
        return bool((await harness.operations.why(url)).fetches_total)

    await work_until(harness, tried)


async def claimed(harness: AppHarness, lease: timedelta) -> Claim:
    """Claim a URL as a worker that then dies."""
    context = harness.runtime.context
    (taken,) = await claim(
        context.database, now=context.clock.now(), lease=lease, holder="a-worker", limit=10, default_delay_ms=0
    )
    return taken


def retry_command(url: str) -> str:
    return f"`headwater frontier retry {url}`"


@pytest.mark.both_servers
async def test_a_stored_page(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 2.2."""
    await listed(site, harness, A, a=OPEN)
    await harness.work()
    why = await explain(harness, A)
    assert (why.status, why.reason, why.source, why.origin) == ("fetched", Reason.STORED, "news.test", "feed")
    assert [(seen.source, seen.title) for seen in why.sightings] == [("news.test", "Entry 0")]
    assert (why.priority.now, why.priority.source, why.priority.origin, why.priority.sum) == (None, 5, 2, 7)
    assert (why.robots.exists, why.robots.fresh, why.robots.allowed) == (False, True, True)
    assert (why.host.name, why.host.pause_ms, why.host.pause_from) == ("news.test", 0, DelayOrigin.DEFAULT)
    assert [(fetch.attempt, fetch.http_status, fetch.reason) for fetch in why.fetches] == [(1, 200, Reason.STORED)]
    assert why.document
    assert (why.document.id, why.document.title, why.document.revision) == (1, "flood defences", 1)
    assert (why.queued, why.next_at) == (None, None)
    assert retry_command(A) in text_of(why, "Next")


GIVEN_UP = [
    (Answer("no", status=404), Reason.NOT_FOUND, 1),
    (Answer(status=410), Reason.GONE, 1),
    (Answer("!", status=403), Reason.HTTP_4XX, 1),
    (Answer(status=502), Reason.MAX_RETRIES, 6),
    (Answer(b"GIF89a" + b"x" * 500), Reason.UNSUPPORTED_TYPE, 1),
    (Answer(f"<html><body>{'<div></div>' * 100}</body></html>", headers=HTML), Reason.EMPTY_TEXT, 1),
    (Answer(b"x" * 1_100_000), Reason.BODY_TOO_LARGE, 1),
    (Answer(status=302, headers={"Location": "given_up_7"}), Reason.REDIRECT_LIMIT, 1),
    (Answer(status=302, headers={"Location": "javascript:alert(1)"}), Reason.BAD_REDIRECT, 1),
]


async def test_pages_that_were_given_up(site: Site, opened: MakeHarness) -> None:
    """Spec 8.3, 4.2, 4.3."""
    urls = [f"http://news.test/given_up_{number}" for number in range(len(GIVEN_UP))]
    answers = {f"given_up_{number}": answer for number, (answer, _, _) in enumerate(GIVEN_UP)}
    async with opened(max_body_mb=1) as harness:
        await listed(site, harness, *urls, **answers)
        await harness.work()
        for url, (answer, reason, attempts) in zip(urls, GIVEN_UP, strict=True):
            why = await explain(harness, url)
            assert (why.status, why.reason, why.document, why.next_at) == ("dead", reason, None, None)
            assert [fetch.attempt for fetch in why.fetches] == list(range(1, attempts + 1))
            assert why.fetches[-1].http_status in (answer.status, None)
            assert reason.sentence in text_of(why, "Status")
            assert retry_command(url) in text_of(why, "Next")


async def test_a_page_whose_text_is_known_from_another(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 4.4."""
    await listed(site, harness, A, "http://news.test/b", a=OPEN, b=OPEN)
    await harness.work()
    (linked,) = [url for url, reason in (await harness.outcomes()).items() if reason == "linked"]
    why = await explain(harness, linked)
    assert (why.reason, why.document and why.document.shared_with) == (Reason.LINKED, 1)


async def test_a_page_that_did_not_change_when_it_was_asked_again(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 4.2: 304."""
    await listed(site, harness, A, a=[Answer(OPEN.body, headers={**HTML, "ETag": '"1"'}), Answer(status=304)])
    await harness.work()
    await harness.operations.frontier.retry([A])
    why = await explain(harness, A)
    assert why.queued
    assert (why.status, why.queued.attempts, why.fetch_count, why.next_at) == ("pending", 0, 1, None)
    assert (why.priority.now, why.priority.sum) == (5, 7)
    await harness.work()
    why = await explain(harness, A)
    assert (why.status, why.reason) == ("fetched", Reason.UNCHANGED)
    assert [(fetch.attempt, fetch.http_status) for fetch in why.fetches] == [(1, 200), (1, 304)]
    assert why.document
    assert why.document.revision == 1


async def test_a_page_whose_text_has_changed(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 4.4."""
    await listed(site, harness, A, a=[OPEN, Answer(page("new flood defences"), headers=HTML)])
    await harness.work()
    await harness.operations.frontier.retry([A])
    await harness.work()
    document = (await explain(harness, A)).document
    assert document
    assert (document.title, document.revision) == ("new flood defences", 2)


async def test_two_addresses_of_one_page(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 4.2: a redirect within the host."""
    moved = "http://news.test/moved"
    await listed(site, harness, A, a=Answer(status=301, headers={"Location": "/moved"}), moved=OPEN)
    await harness.work()
    why = await explain(harness, A)
    assert (why.reason, why.other_addresses) == (Reason.STORED, [moved])
    site.answers[FEED] = rss(A, moved)
    await harness.operations.sources.sync("news.test")
    why = await explain(harness, moved)
    assert (why.status, why.reason, why.same_as, why.came_from) == ("fetched", Reason.SAME_PAGE, A, A)
    assert [(seen.url, seen.title) for seen in why.sightings] == [(moved, "Entry 1")]
    assert why.sightings[0].first_seen_at > why.discovered_at
    assert (why.fetches, why.document and why.document.id) == ([], 1)
    assert f"`headwater why {A}`" in text_of(why, "Next")
    assert (moved, "Entry 1") in [(seen.url, seen.title) for seen in (await explain(harness, A)).sightings]


async def test_a_page_that_moved_to_another_host(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 4.2."""
    target = "http://other.test/x"
    await listed(site, harness, A, a=Answer(status=302, headers={"Location": target}))
    site.answers[target] = OPEN
    await harness.work()
    why = await explain(harness, A)
    assert (why.reason, why.moved_to) == (Reason.REDIRECT, target)
    assert f"`headwater why {target}`" in text_of(why, "Next")
    why = await explain(harness, target)
    assert (why.reason, why.came_from, why.by_redirect) == (Reason.STORED, A, True)
    assert [(seen.url, seen.title) for seen in why.sightings] == [(A, "Entry 0")]
    await harness.execute("DELETE FROM fetch_log")
    why = await explain(harness, A)
    assert (why.moved_to, why.fetches, why.fetch_count) == (target, [], 1)


async def test_a_page_that_moved_to_one_that_was_known_before(site: Site, harness: AppHarness) -> None:
    """Spec 8.3."""
    await listed(site, harness, "http://news.test/b", b=OPEN)
    await harness.work()
    site.answers[FEED] = rss(A)
    site.answers[A] = Answer(status=301, headers={"Location": "/b"})
    await harness.operations.sources.sync("news.test")
    await harness.work()
    assert (await explain(harness, A)).moved_to == "http://news.test/b"


async def test_a_page_that_robots_txt_forbids_and_later_allows(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 4.1: the line that decides."""
    site.answers["http://news.test/robots.txt"] = Answer("User-agent: *\nDisallow: /closed/\nAllow: /closed/not\n")
    closed, allowed = "http://news.test/closed/x", "http://news.test/closed/not"
    await listed(site, harness, closed, allowed)
    assert (await explain(harness, closed)).status == "pending"
    await harness.work()
    why, other = await explain(harness, closed), await explain(harness, allowed)
    assert (why.status, why.reason) == ("dead", Reason.ROBOTS_BLOCKED)
    assert (why.robots.allowed, why.robots.line, why.robots.rule, why.robots.agent) == (
        *(False, 2, "Disallow: /closed/", "*"),
    )
    assert [(fetch.attempt, fetch.reason) for fetch in why.fetches] == [(1, Reason.ROBOTS_BLOCKED)]
    assert (other.robots.allowed, other.robots.line, other.robots.rule) == (True, 3, "Allow: /closed/not")
    await harness.execute(
        "UPDATE host_state SET robots_txt = 'Allow: /', robots_fetched_at = now() - interval '25 hours'"
    )
    why = await explain(harness, closed)
    assert (why.robots.fresh, why.robots.allowed, why.status) == (False, True, "dead")
    assert retry_command(closed) in text_of(why, "Next")


async def test_a_host_whose_robots_txt_cannot_be_read(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 4.1."""
    site.answers["http://down.test/robots.txt"] = Answer(status=500)
    await listed(site, harness, "http://down.test/a")
    await try_once(harness, "http://down.test/a")
    why = await explain(harness, "http://down.test/a")
    assert (why.status, why.robots.read_at, why.host.blocked) == ("pending", None, Reason.ROBOTS_UNREACHABLE)
    assert [(fetch.attempt, fetch.reason) for fetch in why.fetches] == [(1, Reason.ROBOTS_UNREACHABLE)]
    assert why.queued
    assert why.queued.attempts == 0
    assert timedelta(minutes=9) < wait_of(why) <= timedelta(minutes=10)
    assert Reason.ROBOTS_UNREACHABLE.sentence in text_of(why, "Next")


async def test_a_host_that_asks_to_come_back_later(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 4.2: 429 with Retry-After, which costs no retry."""
    await listed(site, harness, "http://busy.test/a")
    site.answers["http://busy.test/a"] = Answer(status=429, headers={"Retry-After": "600"})
    await try_once(harness, "http://busy.test/a")
    why = await explain(harness, "http://busy.test/a")
    assert (why.host.backoff_ms, why.host.blocked) == (1000, Reason.RATE_LIMITED)
    assert why.host.backoff_since
    assert [(fetch.attempt, fetch.http_status) for fetch in why.fetches] == [(1, 429)]
    assert why.queued
    assert why.queued.attempts == 0
    assert timedelta(minutes=9) < wait_of(why) <= timedelta(minutes=10)
    assert Reason.RATE_LIMITED.sentence in text_of(why, "Next")


@pytest.mark.parametrize(
    ("fault", "reason", "status"),
    [("fails", Reason.HTTP_5XX, 500), ("is away", Reason.NETWORK, None), ("hangs", Reason.TIMEOUT, None)],
)
async def test_a_page_that_failed_for_now(
    fault: str, reason: Reason, status: int | None, site: Site, opened: MakeHarness
) -> None:
    """Spec 8.3, 4.2: 5xx, network, time-out."""
    page_timeout_seconds = 1.5 if fault == "hangs" else 5.0
    async with opened(retry_base_seconds=600.0, page_timeout_seconds=page_timeout_seconds) as harness:
        await listed(site, harness, A, a=Answer(status=500))
        if fault == "is away":
            await site.go_away()
        if fault == "hangs":
            site.hanging = {A}
        await try_once(harness, A)
        why = await explain(harness, A)
        assert (why.status, why.priority.now, why.priority.source, why.priority.origin) == ("pending", 7, 5, 2)
        assert [(fetch.reason, fetch.http_status) for fetch in why.fetches] == [(reason, status)]
        assert why.queued
        assert (why.queued.attempts, why.max_attempts) == (1, 6)
        assert timedelta(minutes=9) < wait_of(why) <= timedelta(minutes=12.5)
        assert reason.sentence in text_of(why, "Next")


async def test_a_page_that_waits_for_a_worker(site: Site, harness: AppHarness) -> None:
    """Spec 8.3."""
    await listed(site, harness, "http://other.test/a")
    why = await explain(harness, "http://other.test/a")
    assert (why.status, why.fetches, why.fetch_count, why.next_at) == ("pending", [], 0, None)
    assert (why.robots.read_at, why.robots.allowed) == (None, None)
    assert "`headwater up`" in text_of(why, "Next")


async def test_a_page_that_waits_its_turn(site: Site, opened: MakeHarness) -> None:
    """Spec 8.3, 2.3: robots.txt was fetched, and the host has a long pause."""
    urls = {"http://slow.test/a", "http://slow.test/b"}
    async with opened() as harness:
        await listed(site, harness, *urls)
    async with opened(host_delay_ms=600_000) as harness:
        await work_until(harness, harness.log)
        reports = [await explain(harness, url) for url in urls]
        tried = sorted(reports, key=lambda why: not why.fetches)
        assert [[fetch.reason for fetch in why.fetches] for why in tried] == [[Reason.HOST_BUSY], []]
        for why in reports:
            assert (why.host.pause_ms, why.host.pause_from) == (600_000, DelayOrigin.DEFAULT)
            assert why.queued
            assert (why.queued.attempts, why.next_at) == (0, why.host.free_at)
            assert "600 s" in text_of(why, "Next")


async def test_a_page_that_is_not_the_best_of_its_host(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 2.2, 3.6."""
    await harness.operations.frontier.submit([A])
    await listed(site, harness, "http://news.test/b", "http://news.test/c")
    why = await explain(harness, A)
    assert (why.source, why.origin, why.priority.now, why.priority.origin) == ("manual", "manual", 5, 0)
    assert why.queued
    assert why.queued.ahead == 2


async def test_a_page_that_is_being_fetched(site: Site, opened: MakeHarness) -> None:
    """Spec 8.3, 2.4: the lease."""
    b = "http://news.test/b"
    async with opened(page_timeout_seconds=1.0, max_retries=0) as harness:
        await listed(site, harness, A, b, a=OPEN, b=OPEN)
        site.hanging = {A, b}
        reports: list[Why] = []

        async def is_waiting() -> bool:
            reports.extend([await explain(harness, url) for url in site.waiting])
            return bool(reports)

        await work_until(harness, is_waiting)
        why = reports[-1]
        assert why.queued
        assert why.queued.lease_until
        assert (why.status, why.queued.attempts, why.max_attempts) == ("fetching", 1, 1)
        assert why.queued.lease_holder == harness.runtime.context.holder
        assert why.queued.lease_until > why.asked_at


async def test_a_page_whose_host_is_asked_for_another(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 2.3."""
    await listed(site, harness, A, "http://news.test/b")
    held = await claimed(harness, timedelta(seconds=60))
    (other,) = {A, "http://news.test/b"} - {held.url}
    why = await explain(harness, other)
    assert (why.status, why.host.in_use_by, why.next_at) == ("pending", "a-worker", None)


async def test_a_page_whose_worker_was_lost(site: Site, opened: MakeHarness) -> None:
    """Spec 8.3, 2.4."""
    async with opened(max_retries=1) as harness:
        await listed(site, harness, A)
        context = harness.runtime.context
        for attempt in (1, 2):
            held = await claimed(harness, timedelta(milliseconds=1))
            while context.clock.now() <= held.lease.until:
                await asyncio.sleep(0.001)
            why = await explain(harness, A)
            assert why.queued
            assert why.queued.lease_until
            assert (why.status, why.queued.attempts, why.queued.lease_holder) == ("fetching", attempt, "a-worker")
            assert why.queued.lease_until <= why.asked_at
            assert await rescue_expired(context)
        why = await explain(harness, A)
        assert (why.status, why.reason) == ("dead", Reason.WORKER_LOST)
        assert [fetch.reason for fetch in why.fetches] == [Reason.WORKER_LOST] * 2


async def test_a_host_that_an_operator_closed(site: Site, harness: AppHarness) -> None:
    """Spec 8.3."""
    await listed(site, harness, A, a=OPEN)
    await harness.operations.frontier.close_host("news.test")
    why = await explain(harness, A)
    assert (why.host.closed, why.host.closed_until, why.next_at) == (True, None, None)
    assert "`headwater frontier release news.test`" in text_of(why, "Next")
    await harness.operations.frontier.close_host("news.test", timedelta(hours=5))
    why = await explain(harness, A)
    assert why.host.closed_until
    assert (why.host.closed, why.next_at) == (True, why.host.closed_until)
    await harness.operations.frontier.open_host("news.test")
    await harness.work()
    assert (await explain(harness, A)).reason is Reason.STORED


async def test_a_page_that_two_sources_list(site: Site, harness: AppHarness) -> None:
    """Spec 8.3: all sources that saw it."""
    await listed(site, harness, "http://news.test/b", A)
    site.answers["http://other.test/feed"] = rss(A)
    await harness.operations.sources.add("http://other.test/feed", overrides={"priority": 9})
    site.answers["http://other.test/feed"] = rss(A, title="once more")
    await harness.operations.sources.sync("other.test")
    why = await explain(harness, A)
    assert why.source == "news.test"
    first, second = why.sightings
    assert [(seen.source, seen.title) for seen in (first, second)] == [
        ("news.test", "Entry 1"),
        ("other.test", "Entry 0"),
    ]
    assert why.discovered_at == first.first_seen_at < second.first_seen_at < second.last_seen_at
    assert (why.priority.now, why.priority.sum) == (10, 7)


async def test_a_delay_and_where_it_comes_from(site: Site, opened: MakeHarness) -> None:
    """Spec 8.3, 4.1, 2.3: Crawl-delay, its cap, a source's rate, a shared turn."""
    async with opened(crawl_delay_cap_seconds=2) as harness:
        site.answers["http://slow.test/robots.txt"] = Answer("User-agent: *\nCrawl-delay: 120\n")
        site.answers["http://calm.test/robots.txt"] = Answer("User-agent: *\nCrawl-delay: 0.5\n")
        site.answers[FEED] = rss("http://slow.test/a", "http://calm.test/a", "http://none.test/a")
        await harness.operations.sources.add(FEED, overrides={"rate_per_second": 4, "priority": 10})
        await harness.work()
        pauses = {}
        for name in ("slow", "calm", "none"):
            why = await explain(harness, f"http://{name}.test/a")
            pauses[name] = (why.host.pause_ms, why.host.pause_from)
            assert (why.priority.source, why.priority.origin, why.priority.sum) == (10, 2, 10)
        assert pauses == {
            "slow": (2000, DelayOrigin.ROBOTS),
            "calm": (500, DelayOrigin.ROBOTS),
            "none": (250, DelayOrigin.SOURCE),
        }
        slow = await explain(harness, "http://slow.test/a")
        assert slow.robots.crawl_delay_seconds == 120
        assert "crawl_delay_cap_seconds" in text_of(slow, "Host")
        await harness.operations.frontier.group_hosts("ministry", ["slow.test", "calm.test"])
        calm = await explain(harness, "http://calm.test/a")
        assert (calm.host.pause_ms, calm.host.pause_from) == (2000, DelayOrigin.SHARED)
        assert calm.host.shares_turn == "group:ministry"


async def test_the_last_of_many_fetches_are_listed(site: Site, opened: MakeHarness) -> None:
    """Spec 8.3."""
    async with opened(max_retries=24, retry_base_seconds=0.0) as harness:
        await listed(site, harness, A, a=Answer(status=500))
        await harness.work()
        why = await explain(harness, A)
        assert (why.fetches_total, [fetch.attempt for fetch in why.fetches]) == (25, list(range(6, 26)))


async def test_an_address_is_known_however_it_is_written(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 2.1."""
    await listed(site, harness, A)
    given = "HTTP://News.test:80/./a/?utm_source=mail#top"
    why = await explain(harness, given)
    assert (why.asked, why.url) == (given, A)
    assert given in text_of(why, "Address")
    assert not text_of(await explain(harness, A), "Address")


async def test_a_source_whose_kind_is_gone_does_not_hide_the_rest(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 1.1: third-party kinds come and go."""
    await listed(site, harness, A)
    await harness.execute("UPDATE sources SET kind = 'removed'")
    why = await explain(harness, A)
    assert (why.priority.now, why.priority.source, why.priority.sum) == (7, None, None)


async def test_another_source_that_has_seen_the_address_is_named(site: Site, harness: AppHarness) -> None:
    """Issue 6: a second sighting is kept, with or without an item of its own."""
    await listed(site, harness, A)
    other = await harness.operations.sources.create("map", "manual", {})
    await harness.execute(
        "INSERT INTO sightings SELECT id, $1, 'sitemap', clock_timestamp() FROM url_frontier WHERE url = $2",
        other.id,
        A,
    )
    sightings = (await explain(harness, A)).sightings
    assert [(seen.source, seen.title) for seen in sightings] == [("news.test", "Entry 0"), ("map", None)]
