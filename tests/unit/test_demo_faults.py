"""The demo web's faults, and its check of politeness (spec 2.3, 4.2, 4.3, 9.2)."""

import asyncio
import socket
import time
from collections.abc import Awaitable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import accumulate, pairwise
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.demo import answers
from headwater.demo.answers import Answer, bomb, busy, drip, oversized, reset, status, truncated
from headwater.demo.run import DELAY_MS
from headwater.demo.sites import GAZETTE
from headwater.demo.visits import DemoRequest, arrival, departure, find_violations
from headwater.demo.web import DemoWeb
from headwater.politeness.host_lease import longer_backoff
from tests.demo_client import TODAY, get, open_client

HOST = "wire.demo.test"
HOME = f"http://{HOST}/"


async def refused(answer: Awaitable[object]) -> bool:
    """Return whether the connection broke before the whole answer arrived."""
    try:
        await answer
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError):
        return True
    return False


async def seen(web: DemoWeb, requests: int) -> DemoRequest:
    """Wait for a number of requests, and return the newest."""
    give_up = time.monotonic() + 10
    while len(web.requests) < requests:
        assert time.monotonic() < give_up
        await asyncio.sleep(0.001)
    return web.requests[-1]


@pytest.mark.parametrize("fault", [reset, truncated])
async def test_a_broken_connection_has_an_end_time(web: DemoWeb, client: aiohttp.ClientSession, fault: Answer) -> None:
    web.break_host(HOST, fault)
    assert await refused(get(client, HOME))
    request = await seen(web, len(web.requests) or 1)
    assert request.status == 0
    assert request.arrived <= request.ended <= time.monotonic()


async def test_a_client_leaves_a_host_that_hangs(web: DemoWeb, client: aiohttp.ClientSession) -> None:
    with pytest.raises(TimeoutError):
        await client.get("http://quarry.demo.test/robots.txt", timeout=aiohttp.ClientTimeout(sock_read=0.05))
    request = await seen(web, 1)
    assert request.status == 0
    assert 0.04 < request.ended - request.arrived < 5


async def test_a_restarted_web_keeps_its_port(web: DemoWeb, client: aiohttp.ClientSession) -> None:
    await get(client, HOME)
    await web.stop()
    assert await refused(get(client, HOME))
    await web.start()
    assert (await get(client, HOME))[0].status == 200
    assert len(web.requests) == 2


async def test_a_dripping_answer_ends_when_its_client_leaves(
    web: DemoWeb, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 2.3: the next request does not overlap one that was given up."""
    monkeypatch.setattr(answers, "_DRIP_SECONDS", 60)
    web.break_host(HOST, drip)
    async with client.get(HOME) as response:
        assert await response.content.readany()
    request = await seen(web, 1)  # long before the next drop
    assert (request.host, request.status) == (HOST, 0)
    web.restore_host(HOST)
    await get(client, HOME)
    assert web.politeness(0.0) == []


async def test_a_fault_lasts_for_the_planned_number_of_requests(web: DemoWeb, client: aiohttp.ClientSession) -> None:
    web.break_host(HOST, status(503), times=2)
    assert [(await get(client, HOME))[0].status for _ in range(3)] == [503, 503, 200]
    assert (await get(client, GAZETTE.home))[0].status == 200


async def test_a_broken_host_fails_at_every_address_until_it_is_restored(
    web: DemoWeb, client: aiohttp.ClientSession
) -> None:
    web.break_host(HOST, status(503))
    for path in ("", "rss", "robots.txt", "nothing"):
        assert (await get(client, HOME + path))[0].status == 503
    web.restore_host(HOST)
    web.restore_host(HOST)
    assert (await get(client, HOME))[0].status == 200


def test_an_unknown_host_cannot_be_broken() -> None:
    with pytest.raises(ValueError, match="there is no host nowhere"):
        DemoWeb(today=TODAY).break_host("nowhere", reset)


@pytest.mark.parametrize(
    ("url", "statuses"),
    [
        ("http://works.demo.test/news/bridge-street-closes-for-a-new-water-main", [503, 200, 200]),
        ("http://works.demo.test/news/night-closures-on-the-ring-road", [502, 502, 502]),
        ("http://ferries.demo.test/news/morning-crossings-double-from-monday", [429, 200, 200]),
        ("http://tickets.demo.test/news/one-ticket-for-bus-tram-and-boat", [429, 200, 200]),
    ],
)
async def test_some_faults_heal_and_some_do_not(client: aiohttp.ClientSession, url: str, statuses: list[int]) -> None:
    assert [(await get(client, url))[0].status for _ in statuses] == statuses


async def test_broken_connections_heal_too(web: DemoWeb, client: aiohttp.ClientSession) -> None:
    for headline in ("new-cable-reaches-the-upper-valley", "engineers-splice-a-broken-line"):
        web.requests.clear()
        for _ in range(3):
            await refused(get(client, f"http://cable.demo.test/news/{headline}"))
        assert [request.status for request in web.requests][:3] == [0, 200, 200]


async def test_retry_after_comes_as_seconds_and_as_a_date_and_is_remembered(
    web: DemoWeb, client: aiohttp.ClientSession
) -> None:
    """Spec 4.2."""
    web.break_host(HOST, busy(7))
    response, _ = await get(client, HOME)
    assert (response.status, response.headers["Retry-After"]) == (429, "7")
    web.break_host(HOST, busy(7, as_date=True))
    response, _ = await get(client, HOME)
    wait = parsedate_to_datetime(response.headers["Retry-After"]) - datetime.now(UTC)
    assert 5 < wait.total_seconds() <= 7
    seconds, as_date = web.requests
    assert seconds.pause == 7
    assert 5 < as_date.pause <= 7
    (violation,) = web.politeness(0.0)
    assert not violation.overlapped


@pytest.mark.parametrize(
    "url",
    [
        "http://ferries.demo.test/news/morning-crossings-double-from-monday",
        "http://tickets.demo.test/news/one-ticket-for-bus-tram-and-boat",
    ],
)
async def test_retry_after_is_longer_than_the_clients_own_backoff(
    web: DemoWeb, client: aiohttp.ClientSession, url: str
) -> None:
    """Spec 4.2: otherwise a client that ignores Retry-After would pass the check."""
    await get(client, url)
    (request,) = web.requests
    own_milliseconds = longer_backoff(timedelta(milliseconds=DELAY_MS), chance=1.0)
    assert request.status == 429
    assert request.pause > 1.2 * own_milliseconds / 1000


async def test_two_bodies_exceed_every_limit(web: DemoWeb) -> None:
    """Spec 4.3: one announces too many bytes, one inflates to them."""
    async with open_client(web, auto_decompress=False) as client:
        web.break_host(HOST, oversized)
        async with client.get(HOME) as response:
            assert response.content_length is not None
            assert response.content_length > 50 * 1024 * 1024
        web.break_host(HOST, bomb)
        response, body = await get(client, HOME)
        assert response.headers["Content-Encoding"] == "gzip"
        assert len(body) < 100_000
    assert (await seen(web, 2)).status == 200


async def test_only_get_and_head_are_answered(client: aiohttp.ClientSession) -> None:
    async with client.post(GAZETTE.home) as posted, client.head(GAZETTE.home) as asked:
        assert (posted.status, asked.status) == (405, 200)
        assert int(asked.headers["Content-Length"]) > 10_000
        assert await asked.read() == b""


async def test_every_request_is_recorded_as_it_was_sent(web: DemoWeb, client: aiohttp.ClientSession) -> None:
    await get(client, "http://wire.demo.test/rss?a=1")
    await get(client, "http://stranger.demo.test/a%20b")
    assert [(request.host, request.path, request.status) for request in web.requests] == [
        ("wire.demo.test", "/rss?a=1", 200),
        ("stranger.demo.test", "/a%20b", 421),
    ]
    assert all(request.arrived <= request.ended for request in web.requests)


async def test_the_number_of_recorded_requests_is_limited(web: DemoWeb) -> None:
    request = DemoRequest(HOST, "/", 0.0, 0.0, 200)
    web.requests.extend([request] * 100_000)
    assert len(web.requests) < 100_000


async def test_only_hasty_requests_to_one_host_are_violations(web: DemoWeb, client: aiohttp.ClientSession) -> None:
    """Spec 2.3."""
    for host in web.hosts:
        await get(client, f"http://{host}/")
    assert web.politeness(60.0) == []
    await get(client, "http://wire.demo.test/rss")
    (violation,) = web.politeness(60.0)
    assert (violation.earlier.path, violation.later.path, violation.overlapped) == ("/", "/rss", False)
    assert "wire.demo.test: /rss came" in str(violation)


async def test_a_crawl_delay_replaces_the_common_delay(web: DemoWeb, client: aiohttp.ClientSession) -> None:
    """Spec 4.1."""
    web.sites = [
        replace(site, robots="User-agent: *\nCrawl-delay: 60\n") if site.crawl_delay else site for site in web.sites
    ]
    for host in ("weather.demo.test", "wire.demo.test"):
        await get(client, f"http://{host}/")
        await get(client, f"http://{host}/")
    assert [violation.later.host for violation in web.politeness(0.0)] == ["weather.demo.test"]
    assert web.politeness(0.0, tolerance_seconds=60) == []


def visit(arrived: float, ended: float, path: str = "/", pause: float = 0.0) -> DemoRequest:
    return DemoRequest(HOST, path, arrived, ended, 200, pause)


def test_a_long_answer_can_overlap_several_later_requests() -> None:
    """Spec 2.3."""
    slow = visit(0.0, 9.0, "/slow")
    requests = [visit(4.0, 4.1), slow, visit(2.0, 2.1), visit(10.0, 10.1)]
    found = find_violations(requests, 1.0)
    assert [(violation.earlier, violation.later.arrived, violation.overlapped) for violation in found] == [
        (slow, 2.0, True),
        (slow, 4.0, True),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5), st.integers(0, 25)), min_size=1),
    st.integers(6, 20),
    st.integers(0, 3),
)
def test_each_request_that_comes_too_soon_is_one_violation(
    visits: list[tuple[int, int, int]], delay: int, tolerance: int
) -> None:
    """Spec 2.3."""
    starts = accumulate(gap for gap, _, _ in visits)
    requests = [
        visit(start, start + min(lasts, delay - tolerance), pause=pause)
        for start, (_, lasts, pause) in zip(starts, visits, strict=True)
    ]
    hasty = sum(later[0] < max(delay, earlier[2]) - tolerance for earlier, later in pairwise(visits))
    assert len(find_violations(requests, delay, tolerance_seconds=tolerance)) == hasty
    assert len(find_violations(requests, 99, crawl_delays={HOST: delay}, tolerance_seconds=tolerance)) == hasty


def test_the_arrival_time_does_not_depend_on_pauses_of_this_process() -> None:
    """Spec 2.3: here the process pauses once between reading its clock and the kernel's."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        ours, _ = server.accept()
        with ours:
            before = time.monotonic()
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            after = time.monotonic()
            assert ours.recv(100)
            delays = iter([0.1])

            def held_up(_name: str) -> socket.socket:
                time.sleep(next(delays, 0.0))
                return ours

            request: Any = SimpleNamespace(transport=SimpleNamespace(get_extra_info=held_up))
            assert before - 0.01 < arrival(request) < after + 0.05


def test_departure_is_never_later_and_arrival_never_earlier_than_at_the_client() -> None:
    """Spec 2.3: a client that sends as soon as it has its answer is polite, at any length of the kernel's tick."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        ours, _ = server.accept()
        with ours:
            request: Any = SimpleNamespace(transport=SimpleNamespace(get_extra_info=lambda _name: ours))
            ours.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            assert client.recv(100)
            asked_again = time.monotonic()
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert ours.recv(100)
            while time.monotonic() < asked_again + 0.03:  # several ticks, and all times between two of them
                assert departure(request) <= asked_again <= arrival(request)


async def test_the_port_is_known_only_while_the_web_runs() -> None:
    web = DemoWeb(today=TODAY)
    with pytest.raises(RuntimeError, match="not been started"):
        _ = web.port
    await web.start()
    assert 0 < web.port < 65_536
    await web.stop()
    with pytest.raises(RuntimeError, match="not been started"):
        _ = web.port
