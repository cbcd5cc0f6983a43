"""The outcome of each answer of a server, row by row of spec 4.2. Redirects have a file of their own."""

import asyncio
import contextlib
import itertools
import struct
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET

import pytest

from headwater.core.settings import Settings
from tests.database_state import count
from tests.harness import AppHarness, open_harness
from tests.server import Answer, Site, page

HTML = {"Content-Type": "text/html; charset=utf-8"}
PAGE = "http://news.test/a"


@pytest.mark.both_servers
async def test_200_is_stored_raw_and_read(site: Site, harness: AppHarness, tmp_path: Path) -> None:
    site.answers[PAGE] = Answer(page("flood defences"), headers=HTML)
    assert await harness.fetch(PAGE) == {PAGE: "stored"}
    assert await harness.attempts() == [("stored", 1, 200)]
    document = await harness.document()
    assert (tmp_path / "data/corpus" / document.raw_path).read_bytes() == page("flood defences").encode()
    assert "Paragraph 3 of flood defences." in document.text
    assert "Home" not in document.text


@pytest.mark.both_servers
async def test_200_with_a_text_that_is_known_is_linked_and_the_text_kept_once(site: Site, harness: AppHarness) -> None:
    """Spec 4.4."""
    site.answers[PAGE] = Answer(page("the same"), headers=HTML)
    site.answers["http://copy.test/a"] = Answer(page("the same", extra="<!-- other bytes -->"), headers=HTML)
    outcomes = await harness.fetch(PAGE, "http://copy.test/a")
    assert sorted(map(str, outcomes.values())) == ["linked", "stored"]
    assert await harness.operations.documents.count() == (2, 1)


@pytest.mark.both_servers
async def test_200_with_another_text_than_before_keeps_the_old_one_as_a_revision(
    site: Site, harness: AppHarness, tmp_path: Path
) -> None:
    """Spec 4.4."""
    site.answers[PAGE] = [Answer(page("first words"), headers=HTML), Answer(page("second thoughts"), headers=HTML)]
    await harness.fetch(PAGE)
    await again(harness, PAGE)
    assert await harness.attempts() == [("stored", 1, 200), ("stored", 1, 200)]
    document = await harness.document()
    assert document.revision == 2
    assert "second thoughts" in document.text
    assert (tmp_path / "data/corpus" / document.raw_path).read_bytes() == page("second thoughts").encode()
    assert [(old.revision, old.title) for old in document.revisions] == [(1, "first words")]
    changed = (await harness.operations.documents.diff(document.id, 1, 2)).changes
    assert any("first words" in str(change) for change in changed)


async def test_200_with_the_same_text_as_before_is_unchanged(site: Site, harness: AppHarness) -> None:
    site.answers[PAGE] = [Answer(page("steady")), Answer(page("steady", extra="<!-- made anew -->"))]
    await harness.fetch(PAGE)
    await again(harness, PAGE)
    assert await harness.outcomes() == {PAGE: "unchanged"}
    document = await harness.document()
    assert (document.revision, document.revisions) == (1, [])
    assert await count(harness, "document_revisions") == 0


@pytest.mark.both_servers
async def test_304_touches_the_url_and_nothing_else(site: Site, harness: AppHarness) -> None:
    """Each later request carries what the server gave with the page, though a 304 need not repeat it."""
    validators = {"ETag": '"v1"', "Last-Modified": "Thu, 12 Mar 2026 11:00:00 GMT"}
    site.answers[PAGE] = [Answer(page("steady"), headers={**HTML, **validators}), Answer(status=304)]
    await harness.fetch(PAGE)
    before = await harness.document()
    for visits in (2, 3):
        await again(harness, PAGE)
        assert await harness.outcomes() == {PAGE: "unchanged"}
        assert (await harness.operations.why(PAGE)).fetch_count == visits
    assert await harness.document() == before
    sent = [seen.headers for seen in site.seen if seen.url == PAGE]
    assert [headers.get("If-None-Match") for headers in sent] == [None, '"v1"', '"v1"']
    assert [headers.get("If-Modified-Since") for headers in sent] == [None, *[validators["Last-Modified"]] * 2]


async def again(harness: AppHarness, url: str) -> None:
    """Fetch once more what has ended, because an operator asks for it."""
    await harness.operations.frontier.retry([url])
    await harness.work()


REFUSALS = {404: "not_found", 410: "gone", **dict.fromkeys((400, 401, 403, 405, 418, 451), "http_4xx"), 300: "http_odd"}


async def test_a_refusal_ends_the_url_at_once_with_its_reason(site: Site, harness: AppHarness) -> None:
    for status in REFUSALS:
        site.answers[f"{PAGE}{status}"] = Answer("no", status=status)
    assert await harness.fetch(*site.answers) == {f"{PAGE}{status}": reason for status, reason in REFUSALS.items()}
    assert all(site.visits(url) == 1 for url in site.answers)
    assert await harness.operations.documents.count() == (0, 0)


@pytest.mark.parametrize(
    ("retry_after", "least", "most"),
    [
        (lambda: "30", 29, 32),
        (lambda: format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True), 40, 61),
        (lambda: "999999", 24 * 3600, 24 * 3600 + 2),
    ],
    ids=["seconds", "date", "longer than a day"],
)
async def test_429_leaves_the_host_alone_for_as_long_as_it_asks_and_costs_no_retry(
    retry_after: Callable[[], str], least: float, most: float, site: Site, harness: AppHarness
) -> None:
    site.answers[PAGE] = Answer(status=429, headers={"Retry-After": retry_after()})
    await harness.operations.frontier.submit([PAGE])
    await harness.work(until_attempts=1)
    assert await harness.attempts() == [("rate_limited", 1, 429)]
    place = (await harness.queued())[PAGE]
    host = await harness.operations.frontier.get_host("news.test")
    assert host.next_turn_at is not None
    assert (place.attempts, place.due_at <= host.next_turn_at, host.blocked_reason) == (0, True, "rate_limited")
    assert least <= await wait_after_request(harness) <= most


@pytest.mark.both_servers
async def test_429_without_a_wish_doubles_the_hosts_delay_and_costs_no_retry(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    """And a little more, by chance."""
    site.answers[PAGE] = Answer(status=429)
    async with open_harness(make_settings(connect_to=site.connect_to, host_delay_ms=1100)) as harness:
        await harness.operations.frontier.submit([PAGE])
        await harness.work(until_attempts=1)
        host = await harness.operations.frontier.get_host("news.test")
        wait = await wait_after_request(harness)
        assert (await harness.queued())[PAGE].attempts == 0
    assert 2200 <= host.backoff_ms <= 2750
    assert wait == pytest.approx(host.backoff_ms / 1000, abs=0.002)


async def wait_after_request(harness: AppHarness) -> float:
    """Return the seconds between the only request and the next turn of its host."""
    (attempt,) = await harness.log()
    next_turn_at = (await harness.operations.frontier.get_host("news.test")).next_turn_at
    assert attempt.sent_at is not None
    assert next_turn_at is not None
    return (next_turn_at - attempt.sent_at).total_seconds()


async def test_429s_are_waited_out(site: Site, harness: AppHarness) -> None:
    """However many there are: none of them is a retry."""
    site.answers[PAGE] = [
        Answer(status=429, headers={"Retry-After": "1"}),
        Answer(status=429),
        Answer(page("patience"), headers=HTML),
    ]
    assert await harness.fetch(PAGE) == {PAGE: "stored"}
    assert [(reason, attempt) for reason, attempt, _ in await harness.attempts()] == [
        ("rate_limited", 1),
        ("rate_limited", 1),
        ("stored", 1),
    ]
    first, second, third = (seen.arrived for seen in site.seen if seen.url == PAGE)
    assert second - first >= 1.0
    assert third - second >= 1.99


@pytest.mark.both_servers
async def test_503_leaves_the_host_alone_as_429_does_but_is_a_retry(site: Site, harness: AppHarness) -> None:
    site.answers[PAGE] = Answer(status=503, headers={"Retry-After": "30"})
    await harness.operations.frontier.submit([PAGE, "http://news.test/b"])
    await harness.work(until_attempts=1)
    assert await harness.attempts() == [("http_5xx", 1, 503)]
    assert sorted(place.attempts for place in (await harness.queued()).values()) == [0, 1]
    assert (await harness.operations.frontier.get_host("news.test")).blocked_reason == "rate_limited"
    assert 29 < await wait_after_request(harness) <= 32
    assert site.visits("http://news.test/b") == 0


async def test_a_server_that_fails_is_asked_again_five_times_and_then_given_up(site: Site, harness: AppHarness) -> None:
    statuses = (408, 425, 500, 502, 504, 599)
    for status in statuses:
        site.answers[f"http://h{status}.test/a"] = Answer(status=status)
    assert await harness.fetch(*site.answers) == dict.fromkeys(site.answers, "max_retries")
    attempts = await harness.attempts()
    for status in statuses:
        assert [attempt for attempt in attempts if attempt[2] == status] == [
            *(("http_5xx", number, status) for number in range(1, 6)),
            ("max_retries", 6, status),
        ]
        assert site.visits(f"http://h{status}.test/a") == 6


async def test_each_retry_waits_twice_as_long_as_the_one_before_and_a_good_answer_ends_them(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    site.answers[PAGE] = [*[Answer(status=500)] * 4, Answer(page("repairs"), headers=HTML)]
    async with open_harness(make_settings(connect_to=site.connect_to, retry_base_seconds=0.1)) as harness:
        assert await harness.fetch(PAGE) == {PAGE: "stored"}
    arrivals = [seen.arrived for seen in site.seen if seen.url == PAGE]
    waits = [later - earlier for earlier, later in itertools.pairwise(arrivals)]
    assert all(wait >= least for wait, least in zip(waits, (0.1, 0.2, 0.4, 0.8), strict=True))


@contextlib.asynccontextmanager
async def hanging_up() -> AsyncIterator[int]:
    """Run a server without robots.txt that resets the connection of every other request. Yield its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if b"/robots.txt" in request:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        else:
            writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_a_connection_that_is_reset_is_tried_again_and_then_given_up(
    make_settings: Callable[..., Settings],
) -> None:
    async with (
        hanging_up() as port,
        open_harness(make_settings(connect_to=(f"news.test=127.0.0.1:{port}",))) as harness,
    ):
        assert await harness.fetch(PAGE) == {PAGE: "max_retries"}
        assert [reason for reason, _, _ in await harness.attempts()] == [*["network"] * 5, "max_retries"]


async def test_a_server_that_does_not_answer_is_tried_again_and_then_given_up(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    site.hanging.add(PAGE)
    async with open_harness(
        make_settings(connect_to=site.connect_to, page_timeout_seconds=0.2, max_retries=2)
    ) as harness:
        assert await harness.fetch(PAGE) == {PAGE: "max_retries"}
        assert [reason for reason, _, _ in await harness.attempts()] == ["timeout", "timeout", "max_retries"]


async def test_a_wall_is_not_knocked_at_in_quick_succession(site: Site, make_settings: Callable[..., Settings]) -> None:
    """Spec 4.2: temporary failures are retried, but frequent requests keep a challenge page up."""
    failing = "http://other.test/a"
    wall = f"<title>Just a moment...</title><p id=challenge>Checking your browser{'.' * 200}"
    site.answers[PAGE] = Answer(wall, headers=HTML)
    site.answers[failing] = Answer(status=500)
    async with open_harness(make_settings(connect_to=site.connect_to, retry_base_seconds=1000.0)) as harness:
        await harness.operations.frontier.submit([PAGE, failing])
        await harness.work(until_attempts=2)
        waiting = {url.waiting_reason: url.due_at for url in (await harness.operations.frontier.list_urls()).urls}
        now = harness.runtime.context.clock.now()
    assert waiting["challenge"] - now > timedelta(seconds=4900)
    assert waiting["http_5xx"] - now < timedelta(seconds=1300)


async def test_a_name_that_cannot_be_resolved_is_tried_again_and_then_blocks_the_host(harness: AppHarness) -> None:
    """Spec 11.3. The host's robots.txt is fresh here, but it is read again after a request without an answer."""
    url = "http://nowhere.invalid/a"
    await harness.operations.frontier.submit([url])
    await harness.execute("UPDATE host_state SET robots_fetched_at = clock_timestamp()")
    await harness.work(until_attempts=2)
    assert await harness.outcomes() == {url: None}
    assert [reason for reason, _, _ in await harness.attempts()] == ["dns", "robots_unreachable"]


async def test_a_name_that_cannot_be_resolved_blocks_the_host_while_its_robots_are_unknown(harness: AppHarness) -> None:
    """Spec 4.1: unreachable."""
    await harness.operations.frontier.submit(["http://nowhere.invalid/a"])
    await harness.work(until_attempts=1)
    assert await harness.outcomes() == {"http://nowhere.invalid/a": None}
    assert [(reason, attempt) for reason, attempt, _ in await harness.attempts()] == [("robots_unreachable", 1)]
    assert {one.attempts for one in (await harness.queued()).values()} == {0}


async def test_a_robots_txt_that_never_comes_blocks_the_host_and_costs_the_page_nothing(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    """Spec 4.1: unreachable, and known to be so before the lease of the page that asked is about to end."""
    site.hanging.add("http://news.test/robots.txt")
    async with open_harness(
        make_settings(connect_to=site.connect_to, page_timeout_seconds=1, lease_seconds=5)
    ) as harness:
        await harness.operations.frontier.submit([PAGE])
        await harness.work(until_attempts=1)
        assert [reason for reason, _, _ in await harness.attempts()] == ["robots_unreachable"]
        assert {one.attempts for one in (await harness.queued()).values()} == {0}


async def test_a_lost_kept_connection_is_an_attempt_and_waits_its_turn(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    """Spec 11.7: no request is sent a second time without a turn at the gate."""
    site.answers[PAGE] = Answer(page("flood defences"), headers=HTML)
    site.closing.append(PAGE)
    async with open_harness(make_settings(connect_to=site.connect_to, host_delay_ms=300)) as harness:
        assert await harness.fetch(PAGE) == {PAGE: "stored"}
        assert await harness.attempts() == [("connection_lost", 1, None), ("stored", 2, 200)]
    assert [seen.url for seen in site.seen] == ["http://news.test/robots.txt", PAGE, PAGE]
    assert site.seen[2].arrived - site.seen[1].arrived >= 0.3


async def test_a_lost_kept_connection_of_a_robots_txt_blocks_no_host(site: Site, harness: AppHarness) -> None:
    """Spec 11.7, 4.1: the host can be reached. The page waits for the next turn, which costs it no attempt."""
    other, robots = "http://news.test/b", "http://news.test/robots.txt"
    for url in (PAGE, other):
        site.answers[url] = Answer(page(url), headers=HTML)
    await harness.fetch(PAGE)
    await harness.execute("UPDATE host_state SET robots_fetched_at = NULL")
    site.closing.append(robots)
    assert await harness.fetch(other) == dict.fromkeys((PAGE, other), "stored")
    assert await harness.attempts() == [("stored", 1, 200), ("connection_lost", 1, None), ("stored", 1, 200)]
    assert site.visits(robots) == 3
