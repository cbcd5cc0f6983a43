"""`why URL`: every fate in words that need no explanation, made through the real doors (spec 8.3)."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from headwater.app.maintenance import rescue_expired
from headwater.app.roles import make_fetch_pool, run_roles
from headwater.core.frontier import Claim
from headwater.core.settings import Settings
from headwater.explain.messages import next_at, tell
from headwater.frontier.claim import claim
from tests.harness import AppHarness, open_harness
from tests.server import Answer, Site, page, rss

FEED = "http://news.test/feed"
A = "http://news.test/a"
HTML = {"Content-Type": "text/html; charset=utf-8"}
OPEN = Answer(page("flood defences"), headers=HTML)
WHEN = re.compile(r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d UTC \(([^)]*)\)")
ONLY_WHEN_ASKED = "again only when asked (`headwater frontier retry http://news.test/a`)."
AT_NO_COST = "Next: It will be tried again at TIME at the earliest (attempt 1 of 6; the last one does not count):"

MakeHarness = Callable[..., contextlib.AbstractAsyncContextManager[AppHarness]]


@pytest.fixture
def opened(site: Site, make_settings: Callable[..., Settings]) -> MakeHarness:
    """Opens a house with settings of its own."""
    return lambda **settings: open_harness(make_settings(connect_to=site.connect_to, **settings))


async def told(harness: AppHarness, url: str) -> str:
    """All that is said of a URL, a line each, with TIME for every time."""
    lines = tell(await harness.operations.why(url))
    assert [line.label for line in lines].count("Next") == 1
    return "\n".join(WHEN.sub("TIME", f"{line.label}: {line.text}") for line in lines)


async def wait_of(harness: AppHarness, url: str) -> timedelta | None:
    """How long a URL has to wait."""
    why = await harness.operations.why(url)
    earliest = next_at(why)
    return earliest - why.asked_at if earliest else None


def assert_says(text: str, *sentences: str) -> None:
    for sentence in sentences:
        assert sentence in text, text


async def listed(site: Site, harness: AppHarness, *urls: str, **answers: Answer | list[Answer]) -> None:
    """Serve a feed that lists URLs, and what `http://news.test/` has under names, and add the feed."""
    site.answers[FEED] = rss(*urls)
    site.answers |= {f"http://news.test/{name}": answer for name, answer in answers.items()}
    await harness.operations.sources.add(FEED)


async def work_until(harness: AppHarness, happened: Callable[[], Awaitable[object]]) -> None:
    """Let a crew work until something has happened."""
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(run_roles([make_fetch_pool(harness.runtime, harness.operations.metrics)], stop))
        async with asyncio.timeout(20):
            while not await happened():
                await asyncio.sleep(0.02)
        stop.set()


async def try_once(harness: AppHarness, url: str) -> None:
    """Let a crew work until a URL has been tried."""

    async def tried() -> bool:
        return bool((await harness.operations.why(url)).fetches_total)

    await work_until(harness, tried)


async def claimed(harness: AppHarness, lease: timedelta) -> Claim:
    """Claim as a worker does that is not heard of again."""
    context = harness.runtime.context
    (taken,) = await claim(
        context.database, now=context.clock.now(), lease=lease, holder="a-worker", limit=10, default_delay_ms=0
    )
    return taken


@pytest.mark.both_servers
async def test_a_stored_page(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 2.2."""
    await listed(site, harness, A, a=OPEN)
    await harness.work()
    assert_says(
        await told(harness, A),
        "Status: Fetched at TIME. The page was fetched and its text is stored.",
        "Seen: First seen at TIME, in the feed of source news.test.",
        'Seen: Source news.test lists it as "Entry 0".',
        "Priority: None, as it is not waiting. By itself it would be 7 of 10: 5 for its source + 2 for coming from",
        "Robots: Allowed: the host has no robots.txt. That was looked up at TIME.",
        "Host: news.test, 0 s between two requests: the default (setting host_delay_ms).",
        "Fetches: TIME, attempt 1: answered 200, ",
        "ms. The page was fetched and its text is stored.",
        'Document: Number 1, "flood defences", read at TIME. Its text has never changed.',
        f"Next: Nothing more: it is stored, and fetched {ONLY_WHEN_ASKED}",
    )


GIVEN_UP = [
    (Answer("no", status=404), "The server says there is no such page (404).", "answered 404, 2 bytes in "),
    (Answer(status=410), "The server says the page is gone for good (410).", "answered 410, 0 bytes in "),
    (Answer("!", status=403), "The server refused the request (4xx).", "answered 403, 1 byte in "),
    (
        Answer(status=502),
        "It kept failing, so it was given up after the last retry.",
        "attempt 6: answered 502, 0 bytes in ",
    ),
    (
        Answer(b"GIF89a" + b"x" * 500),
        "The body is of a type that cannot be read yet.",
        "answered 200, 506 bytes in ",
    ),
    (
        Answer(f"<html><body>{'<div></div>' * 100}</body></html>", headers=HTML),
        "The page holds no text to keep.",
        "answered 200, 1,126 bytes in ",
    ),
    (Answer(b"x" * 1_100_000), "The body is larger than the cap.", "The body is larger than the cap. (news.test: "),
    (
        Answer(status=302, headers={"Location": "given_up_7"}),
        "The page redirects too often.",
        "answered 302, 0 bytes in ",
    ),
    (
        Answer(status=302, headers={"Location": "javascript:alert(1)"}),
        "The redirect names no usable address.",
        "redirects to an unusable URL: The address must start with http or https, not 'javascript'.)",
    ),
]


async def test_pages_that_were_given_up(site: Site, opened: MakeHarness) -> None:
    """Spec 8.3, 4.2, 4.3."""
    answers = {f"given_up_{number}": answer for number, (answer, _, _) in enumerate(GIVEN_UP)}
    async with opened(max_body_mb=1) as harness:
        await listed(site, harness, *(f"http://news.test/{name}" for name in answers), **answers)
        await harness.work()
        for name, (_, status, fetch) in zip(answers, GIVEN_UP, strict=True):
            again = f"only when asked (`headwater frontier retry http://news.test/{name}`)."
            assert_says(
                await told(harness, f"http://news.test/{name}"),
                f"Status: Given up at TIME. {status}",
                fetch,
                "Document: None.",
                f"Next: Nothing more: it was given up, and is tried again {again}",
            )


async def test_a_page_whose_text_is_known_from_another(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 4.4."""
    twin = "http://news.test/b"
    await listed(site, harness, A, twin, a=OPEN, b=OPEN)
    await harness.work()
    outcomes = await harness.outcomes()
    (linked,) = [url for url, reason in outcomes.items() if reason == "linked"]
    assert_says(
        await told(harness, linked),
        "The page was fetched; its text was known from another page and is kept once.",
        "Document: Its text is also that of 1 other page, and kept once.",
        "Next: Nothing more: it is stored",
    )


async def test_a_page_that_had_not_changed_when_somebody_asked_again(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 4.2: 304."""
    await listed(site, harness, A, a=[Answer(OPEN.body, headers={**HTML, "ETag": '"1"'}), Answer(status=304)])
    await harness.work()
    await harness.operations.frontier.retry([A])
    assert_says(
        await told(harness, A),
        "Status: Waiting: it had ended at TIME, and somebody has asked for it again.",
        "Priority: 5 of 10, as another sighting, a redirect or an operator has set it. By itself it would be 7 of 10:",
        "Document: Number 1,",
        "Next: It will be tried again as soon as a worker is free (`headwater up` or `headwater worker` must be",
    )
    await harness.work()
    text = await told(harness, A)
    assert_says(
        text,
        "Status: Fetched at TIME. Nothing has changed since the last visit.",
        "answered 304, 0 bytes in ",
        "Its text has never changed.",
    )
    assert text.count("Fetches: TIME, attempt 1: ") == 2


async def test_a_page_whose_text_has_changed(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 4.4."""
    await listed(site, harness, A, a=[OPEN, Answer(page("new flood defences"), headers=HTML)])
    await harness.work()
    await harness.operations.frontier.retry([A])
    await harness.work()
    assert_says(
        await told(harness, A),
        'Document: Number 1, "new flood defences", read at TIME. Its text has changed 1 time; what',
    )


async def test_two_addresses_of_one_page(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 4.2: a redirect within the host."""
    moved = "http://news.test/moved"
    await listed(site, harness, A, a=Answer(status=301, headers={"Location": "/moved"}), moved=OPEN)
    await harness.work()
    assert_says(
        await told(harness, A),
        f"Address: {moved} leads to the same page and is not fetched for itself.",
        "The page was fetched and its text is stored.",
    )
    site.answers[FEED] = rss(A, moved)
    await harness.operations.sources.sync("news.test")
    assert_says(
        await told(harness, moved),
        f"Address: It is another address of {A}, which is the one that is fetched.",
        "Status: Fetched at TIME. Another address of the same host leads here; the page is kept under that one.",
        f"Seen: First seen at TIME, when {A} redirected to it, which was found in the feed of source news.test.",
        'Seen: Source news.test lists it as "Entry 1", since TIME.',
        "Fetches: None under this address.",
        'Document: Number 1, "flood defences"',
        f"Next: Nothing more: the page is kept under {A} (`headwater why {A}` tells about it).",
    )
    assert_says(await told(harness, A), f'Source news.test lists {moved} as "Entry 1", since TIME.')


async def test_a_page_that_moved_to_another_host(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 4.2."""
    target = "http://other.test/x"
    await listed(site, harness, A, a=Answer(status=302, headers={"Location": target}))
    site.answers[target] = OPEN
    await harness.work()
    assert_says(
        await told(harness, A),
        f"Address: It redirects to {target}.",
        "Status: Ended at TIME. The page moved to another address, which is fetched in its own right.",
        'Seen: Source news.test lists it as "Entry 0".',
        f"Next: Nothing more: the page has its own fate where it moved to (`headwater why {target}` tells it).",
    )
    assert_says(
        await told(harness, target),
        f"Seen: First seen at TIME, when {A} redirected to it, which was found in the feed of source news.test.",
        f'Seen: Source news.test lists {A} as "Entry 0", since TIME.',
        "Next: Nothing more: it is stored",
    )
    await harness.rows("DELETE FROM fetch_log")
    assert_says(
        await told(harness, A),
        f"Address: It redirects to {target}.",
        "Fetches: None is remembered any more.",
    )


async def test_a_page_that_moved_to_one_that_was_known_before(site: Site, harness: AppHarness) -> None:
    """Spec 8.3."""
    await listed(site, harness, "http://news.test/b", b=OPEN)
    await harness.work()
    site.answers[FEED] = rss(A)
    site.answers[A] = Answer(status=301, headers={"Location": "/b"})
    await harness.operations.sources.sync("news.test")
    await harness.work()
    assert_says(
        await told(harness, A), "Address: It redirects to http://news.test/b.", "`headwater why http://news.test/b`"
    )


async def test_a_page_that_robots_txt_forbids_and_later_allows(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 4.1: the line that decides."""
    site.answers["http://news.test/robots.txt"] = Answer("User-agent: *\nDisallow: /closed/\nAllow: /closed/not\n")
    closed, allowed = "http://news.test/closed/x", "http://news.test/closed/not"
    await listed(site, harness, closed, allowed)
    assert_says(
        await told(harness, closed),
        "Next: It will be given up unasked, as robots.txt forbids it, as soon as a worker is free (",
    )
    await harness.work()
    text, other = await told(harness, closed), await told(harness, allowed)
    assert_says(
        text,
        "Status: Given up at TIME. The host's robots.txt forbids this address.",
        'Robots: Forbidden by line 2 of robots.txt, "Disallow: /closed/", which is for everybody. That was',
        "Fetches: TIME, attempt 1: The host's robots.txt forbids this address.",
        "Next: Nothing more: it was given up, and is tried again only when asked",
    )
    assert_says(other, 'Robots: Allowed by line 3 of robots.txt, "Allow: /closed/not", which is for everybody. That')
    await harness.rows("UPDATE host_state SET robots_txt = 'Allow: /', robots_fetched_at = now() - interval '25 hours'")
    assert_says(
        await told(harness, closed),
        "That was looked up at TIME; as it is over a day ago, it is looked up again before the next request.",
        "Next: Nothing by itself: robots.txt allows it by now, but it is tried again only when asked",
    )


async def test_a_host_whose_robots_txt_cannot_be_read(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 4.1."""
    site.answers["http://down.test/robots.txt"] = Answer(status=500)
    await listed(site, harness, "http://down.test/a")
    await try_once(harness, "http://down.test/a")
    sentence = "The host's robots.txt cannot be read, so nothing is asked of that host for a while."
    assert_says(
        await told(harness, "http://down.test/a"),
        "Status: Waiting to be tried again, after 1 attempt.",
        "Robots: The host's robots.txt could not be read; until it can, nothing is asked of the host.",
        f"Host: It is left alone until TIME. {sentence}",
        f"Fetches: TIME, attempt 1: {sentence} (robots.txt of down.test cannot be read (status 500).)",
        f"{AT_NO_COST} {sentence}",
    )
    wait = await wait_of(harness, "http://down.test/a")
    assert wait
    assert timedelta(minutes=9) < wait <= timedelta(minutes=10)


async def test_a_host_that_asks_to_come_back_later(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 4.2: 429 with Retry-After, which costs no retry."""
    await listed(site, harness, "http://busy.test/a")
    site.answers["http://busy.test/a"] = Answer(status=429, headers={"Retry-After": "600"})
    await try_once(harness, "http://busy.test/a")
    assert_says(
        await told(harness, "http://busy.test/a"),
        "Host: For now the pause is 1 s, as it asked for fewer requests at TIME; each good answer makes",
        "Host: It is left alone until TIME. The server asked us to come back later.",
        "Fetches: TIME, attempt 1: answered 429, 0 bytes in ",
        f"{AT_NO_COST} The server asked us to come back later.",
    )
    wait = await wait_of(harness, "http://busy.test/a")
    assert wait
    assert timedelta(minutes=9) < wait <= timedelta(minutes=10)


@pytest.mark.parametrize(
    ("fault", "sentence", "fetch"),
    [
        ("fails", "The server failed to answer the request (5xx, 408 or 425).", "answered 500, 0 bytes in "),
        ("is away", "The connection failed or broke off before the whole answer had come.", "(news.test: "),
        (
            "hangs",
            "The server, or the page in the browser, took longer than the time allowed.",
            "(news.test: no whole response within the time limit)",
        ),
    ],
)
async def test_a_page_that_failed_for_now(
    fault: str, sentence: str, fetch: str, site: Site, opened: MakeHarness
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
        assert_says(
            await told(harness, A),
            "Status: Waiting to be tried again, after 1 attempt.",
            "Priority: 7 of 10: 5 for its source + 2 for coming from a feed.",
            fetch,
            f"Next: It will be tried again at TIME at the earliest (attempt 2 of 6): {sentence}",
        )
        wait = await wait_of(harness, A)
        assert wait
        assert timedelta(minutes=9) < wait <= timedelta(minutes=12.5)


async def test_a_page_that_waits_for_a_worker(site: Site, harness: AppHarness) -> None:
    """Spec 8.3."""
    await listed(site, harness, "http://other.test/a")
    assert_says(
        await told(harness, "http://other.test/a"),
        "Status: Waiting: it has not been tried yet.",
        "Robots: The host's robots.txt has not been read yet; it will be, before the first page is asked for.",
        "Fetches: None so far.",
        "Next: It will be fetched as soon as a worker is free (`headwater up` or `headwater worker` must be running).",
    )


async def test_a_page_that_waits_its_turn(site: Site, opened: MakeHarness) -> None:
    """Spec 8.3, 2.3: robots.txt was asked for, and the host wants a long pause."""
    urls = {"http://slow.test/a", "http://slow.test/b"}
    async with opened() as harness:
        await listed(site, harness, *urls)
    async with opened(host_delay_ms=600_000) as harness:
        await work_until(harness, lambda: harness.rows("SELECT FROM fetch_log"))
        tried = {url for url in urls if (await harness.operations.why(url)).fetches}
        pause = "its host is left alone for 600 s after a request."
        assert_says(
            await told(harness, *tried),
            "Fetches: TIME, attempt 1: The host may not be asked again yet.",
            f"{AT_NO_COST} {pause}",
        )
        assert_says(
            await told(harness, *(urls - tried)),
            "Host: slow.test, 600 s between two requests: the default (setting host_delay_ms).",
            f"Next: It will be fetched at TIME at the earliest: {pause}",
        )


async def test_a_page_that_is_not_the_best_of_its_host(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 2.2, 3.6."""
    await harness.operations.frontier.submit([A])
    await listed(site, harness, "http://news.test/b", "http://news.test/c")
    assert_says(
        await told(harness, A),
        "Seen: First seen at TIME, handed in by a person for source manual.",
        "Priority: 5 of 10: 5 for its source.",
        "Next: It will be fetched as soon as a worker is free, after 2 pages of its host that are ahead of it (",
    )


async def test_a_page_that_is_being_fetched(site: Site, opened: MakeHarness) -> None:
    """Spec 8.3, 2.4: the lease."""
    b = "http://news.test/b"
    async with opened(page_timeout_seconds=1.0, max_retries=0) as harness:
        await listed(site, harness, A, b, a=OPEN, b=OPEN)
        site.hanging = {A, b}
        said: dict[str, str] = {}

        async def asked_for() -> bool:
            for url in site.waiting:
                said[url] = await told(harness, url)
            return bool(said)

        await work_until(harness, asked_for)
        (url, text), other = said.popitem(), ({A, b} - site.waiting).pop()
        assert_says(
            text,
            f"Status: Being fetched, attempt 1 of 1, by {harness.runtime.context.holder}, whose lease ends at TIME.",
            "Next: It is being fetched; how that ends is known by TIME at the latest.",
        )
        assert url != other


async def test_a_page_whose_host_is_asked_for_another(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 2.3."""
    await listed(site, harness, A, "http://news.test/b")
    held = await claimed(harness, timedelta(seconds=60))
    (other,) = {A, "http://news.test/b"} - {held.url}
    assert_says(
        await told(harness, other),
        "Next: It will be fetched when its turn comes: its host is being asked for something else just now.",
    )


async def test_a_page_whose_worker_was_lost(site: Site, opened: MakeHarness) -> None:
    """Spec 8.3, 2.4."""
    async with opened(max_retries=1) as harness:
        await listed(site, harness, A)
        context = harness.runtime.context
        for attempt, then in ((1, "and tries it again, as attempt 2 of 2."), (2, "and gives it up: this was the last")):
            held = await claimed(harness, timedelta(milliseconds=1))
            while context.clock.now() <= held.lease.until:
                await asyncio.sleep(0.001)
            assert_says(
                await told(harness, A),
                f"Status: Being fetched, attempt {attempt} of 2, by a-worker, whose lease ended at TIME.",
                f"Its worker should have ended at TIME. A running Headwater takes it back within seconds {then}",
            )
            assert await rescue_expired(context)
        text = await told(harness, A)
        assert_says(
            text,
            "Status: Given up at TIME. The process that held it died or lost its lease.",
            f"Next: Nothing more: it was given up, and is tried {ONLY_WHEN_ASKED}",
        )
        assert text.count("The process that held it died or lost its lease.") == 3


async def test_a_host_that_an_operator_has_closed(site: Site, harness: AppHarness) -> None:
    """Spec 8.3."""
    await listed(site, harness, A, a=OPEN)
    await harness.operations.frontier.close_host("news.test")
    assert_says(
        await told(harness, A),
        "Host: An operator has closed it until it is released: nothing is asked of it.",
        "Next: It waits until an operator releases the host (`headwater frontier release news.test`).",
    )
    assert await wait_of(harness, A) is None
    await harness.operations.frontier.close_host("news.test", timedelta(hours=5))
    assert_says(
        await told(harness, A),
        "Host: An operator has closed it until TIME: nothing is asked of it.",
        "Next: It will be fetched at TIME at the earliest: an operator has closed the host until then.",
    )
    await harness.operations.frontier.open_host("news.test")
    await harness.work()
    assert_says(await told(harness, A), "The page was fetched and its text is stored.")


async def test_a_page_that_two_sources_list(site: Site, harness: AppHarness) -> None:
    """Spec 8.3: who saw it."""
    await listed(site, harness, "http://news.test/b", A)
    site.answers["http://other.test/feed"] = rss(A)
    await harness.operations.sources.add("http://other.test/feed", overrides={"priority": 9})
    site.answers["http://other.test/feed"] = rss(A, title="once more")
    await harness.operations.sources.sync("other.test")
    assert_says(
        await told(harness, A),
        "Seen: First seen at TIME, in the feed of source news.test.",
        'Seen: Source news.test lists it as "Entry 1".',
        'Seen: Source other.test lists it as "Entry 0", since TIME, last seen at TIME.',
        "Priority: 10 of 10, as another sighting, a redirect or an operator has set it. By itself it would be 7 of 10",
    )


async def test_a_delay_and_where_it_comes_from(site: Site, opened: MakeHarness) -> None:
    """Spec 8.3, 4.1, 2.3: Crawl-delay, its cap, a source's rate, a shared turn."""
    async with opened(crawl_delay_cap_seconds=2) as harness:
        site.answers["http://slow.test/robots.txt"] = Answer("User-agent: *\nCrawl-delay: 120\n")
        site.answers["http://calm.test/robots.txt"] = Answer("User-agent: *\nCrawl-delay: 0.5\n")
        site.answers[FEED] = rss("http://slow.test/a", "http://calm.test/a", "http://none.test/a")
        await harness.operations.sources.add(FEED, overrides={"rate_per_second": 4, "priority": 10})
        await harness.work()
        assert_says(
            await told(harness, "http://slow.test/a"),
            "slow.test, 2 s between two requests: its robots.txt asks for 120 s, cut to the longest obeyed "
            "(setting crawl_delay_cap_seconds).",
            "By itself it would be 10 of 10: 10 for its source + 2 for coming from a feed = 12, brought to 10.",
        )
        assert_says(
            await told(harness, "http://calm.test/a"),
            "calm.test, 0.5 s between two requests: its robots.txt asks for that (Crawl-delay).",
        )
        assert_says(
            await told(harness, "http://none.test/a"),
            "none.test, 0.25 s between two requests: source news.test sets that (rate_per_second).",
        )
        await harness.operations.frontier.group_hosts("ministry", ["slow.test", "calm.test"])
        assert_says(
            await told(harness, "http://calm.test/a"),
            "2 s between two requests: the slowest of those that share its turn asks for that (Crawl-delay).",
            "It shares its turn with all hosts of the group ministry: one request at a time to all of them.",
        )


async def test_many_fetches_are_told_from_the_last(site: Site, opened: MakeHarness) -> None:
    """Spec 8.3."""
    async with opened(max_retries=24, retry_base_seconds=0.0) as harness:
        await listed(site, harness, A, a=Answer(status=500))
        await harness.work()
        text = await told(harness, A)
        assert_says(text, "Fetches: The last 20 of 25:\nFetches: TIME, attempt 6: ", "attempt 25: ")
        assert "attempt 5:" not in text


async def test_an_address_is_known_however_it_is_written(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 2.1."""
    await listed(site, harness, A)
    given = "HTTP://News.test:80/./a/?utm_source=mail#top"
    assert_says(await told(harness, given), f"Address: You asked for {given}; here it is written {A}.")
    assert "Address" not in await told(harness, A)


async def test_a_source_whose_kind_is_gone_does_not_hide_the_rest(site: Site, harness: AppHarness) -> None:
    """Spec 8.3, 1.1: third-party kinds come and go."""
    await listed(site, harness, A)
    await harness.rows("UPDATE sources SET kind = 'removed'")
    assert_says(await told(harness, A), "Priority: 7 of 10: its source's settings cannot be read.")


async def test_another_source_that_has_seen_the_address_is_named(site: Site, harness: AppHarness) -> None:
    """Issue 6: a second sighting is kept, with or without an item of its own."""
    await listed(site, harness, A)
    other = await harness.operations.sources.create("map", "manual", {})
    await harness.rows(
        "INSERT INTO sightings SELECT id, $1, 'sitemap', clock_timestamp() FROM url_frontier WHERE url = $2",
        other.id,
        A,
    )
    assert_says(await told(harness, A), "Source news.test lists it as", "Source map has seen it too, since TIME.")
