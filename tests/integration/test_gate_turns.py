"""Turns that hosts share, robots.txt on the way to them, and redirects that end elsewhere (spec 2.3, 4.1, 4.2)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from headwater.core.errors import ExchangeFailed
from headwater.core.frontier import Candidate, Origin
from headwater.core.http import Limits, Response
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.core.urls import url_hash
from headwater.db import frontier, sources
from headwater.db.pool import Connection, Database
from headwater.frontier.submit import submit
from headwater.http.client import HttpClient
from tests.harness import AppHarness, open_harness
from tests.server import Answer, Site, page

NOW = datetime(2026, 3, 12, 12, 0, tzinfo=UTC)
HTML = {"Content-Type": "text/html"}


async def test_a_robots_file_may_lead_to_a_host_that_shares_the_turn(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    """Spec 2.3, 4.1: a wait for the other's turn would be a wait for our own."""
    site.answers["http://club.test/robots.txt"] = Answer(
        status=301, headers={"Location": "http://www.club.test/robots.txt"}
    )
    site.answers["http://www.club.test/robots.txt"] = Answer("User-agent: *\nDisallow: /no", headers={})
    site.answers["http://club.test/yes"] = Answer(page("yes"), headers=HTML)
    async with open_harness(make_settings(connect_to=site.connect_to, host_delay_ms=0)) as harness:
        await harness.operations.frontier.group_hosts("club", ["club.test", "www.club.test"])
        outcomes = await harness.fetch("http://club.test/yes", "http://club.test/no")
    assert outcomes == {"http://club.test/yes": "stored", "http://club.test/no": "robots_blocked"}


async def test_a_group_is_as_slow_as_the_slowest_of_its_hosts(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    """Spec 2.3: a host without delay speaks only for itself."""
    site.answers["http://quick.test/robots.txt"] = Answer("User-agent: *\nCrawl-delay: 0", headers={})
    for host in ("quick", "other"):
        site.answers[f"http://{host}.test/a"] = Answer(page(host), headers=HTML)
    async with open_harness(make_settings(connect_to=site.connect_to, host_delay_ms=300)) as harness:
        await harness.operations.frontier.group_hosts("both", ["quick.test", "other.test"])
        await harness.fetch("http://quick.test/a", "http://other.test/a")
    arrivals = sorted(seen.arrived for seen in site.seen)
    assert len(arrivals) == 4
    assert min(after - before for before, after in pairwise(arrivals)) >= 0.29


async def test_a_robots_file_is_read_up_to_its_limit(site: Site, harness: AppHarness) -> None:
    """Spec 4.1: the first 500 KiB count; the rest is not downloaded."""
    rules = "User-agent: *\nDisallow: /no\n" + "# filler\n" * 3_000_000
    site.answers["http://long.test/robots.txt"] = Answer(rules, headers={})
    site.answers["http://long.test/yes"] = Answer(page("yes"), headers=HTML)
    outcomes = await harness.fetch("http://long.test/yes", "http://long.test/no")
    assert outcomes == {"http://long.test/yes": "stored", "http://long.test/no": "robots_blocked"}


async def test_a_redirect_to_a_page_that_was_given_up_is_followed(site: Site, harness: AppHarness) -> None:
    """Spec 4.2: a dead URL is never fetched as a page of its own."""
    site.answers["http://news.test/new"] = [Answer(status=404), Answer(page("back again"), headers=HTML)]
    await harness.fetch("http://news.test/new")
    site.answers["http://news.test/old"] = Answer(status=301, headers={"Location": "/new"})
    outcomes = await harness.fetch("http://news.test/old")
    assert outcomes == {"http://news.test/new": "not_found", "http://news.test/old": "stored"}


async def test_an_alias_that_is_queued_at_the_same_moment_leaves_the_queue(database: Database) -> None:
    """Spec 2.1, 4.2: a page is not downloaded twice, whenever a source lists its other URL."""
    async with database.connection() as connection:
        source = await sources.add_source(connection, "s", "manual", {}, now=NOW, due={})
    assert source

    async def put(connection: Connection, url: str) -> int:
        candidate = Candidate(url, source.id, Origin.MANUAL, 5)
        return (await submit(connection, [candidate], NOW)).known[url].id

    page_id = await database.transact(lambda connection: put(connection, "http://a.test/old"))
    digest = url_hash("http://a.test/new")
    alias = (page_id, "http://a.test/new", digest)
    async with database.connection() as listing, database.connection() as naming:
        slow_poll = listing.transaction()
        await slow_poll.start()
        alias_id = await put(listing, "http://a.test/new")
        async with naming.transaction():
            named = asyncio.ensure_future(frontier.save_aliases(naming, [alias], NOW))
            while not await _waits(database):
                await asyncio.sleep(0.01)
            await slow_poll.commit()
            assert await named == {alias_id: page_id}
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM frontier_queue WHERE url_id = $1", alias_id) == 0


async def _waits(database: Database) -> bool:
    async with database.connection() as connection:
        return bool(await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))


async def test_a_request_that_is_delayed_past_the_end_of_its_lease_is_not_sent(
    site: Site, make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 2.3: another worker may have the host by then. Here the way to the client takes that long."""
    real, lease_seconds = HttpClient.request, 30.0
    site.answers["http://a.test/page"] = Answer(page("late"), headers=HTML)

    async def delayed(self: HttpClient, method: str, url: str, *, limits: Limits, **options: Any) -> Response:
        if url.endswith("/page"):
            assert limits.ends_at is not None
            limits = replace(limits, ends_at=limits.ends_at - timedelta(seconds=lease_seconds))
        return await real(self, method, url, limits=limits, **options)

    monkeypatch.setattr(HttpClient, "request", delayed)
    settings = make_settings(connect_to=site.connect_to, lease_seconds=lease_seconds)
    async with open_harness(settings) as harness, harness.runtime.gate.lease_host("a.test") as lease:
        with pytest.raises(ExchangeFailed) as caught:
            await harness.runtime.gate.send(lease, "http://a.test/page")
    assert caught.value.reason is Reason.TIMEOUT
    assert site.visits("http://a.test/page") == 0
