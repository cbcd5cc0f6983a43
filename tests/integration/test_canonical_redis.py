"""The keys in a real Redis: contents, lifetimes, adoption from other programs, and loss of the server (spec 5.4)."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.app.maintenance import MaintenanceRole
from headwater.app.polling import PollerRole
from headwater.app.roles import make_fetch_pool, run_roles
from headwater.canonical.operations import CanonicalTotals, FailedLink
from headwater.canonical.role import CanonicalRole
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.core.urls import uid_of
from tests.database_state import backdate, canonical_attempts, held_leases, make_polls_due
from tests.harness import AppHarness, open_harness
from tests.integration.test_canonical import FEED, HTML, add_feed, canonical_run, counts, pages
from tests.program import headwater
from tests.redis_server import RedisServer
from tests.server import Answer, Site, page, rss

A, B = "http://news.test/a", "http://news.test/b"
DAY = 86_400
LINKS = "rss:category_links:jobs_report"
TIMES = "headwater:times:"


@pytest.fixture
async def harness(
    site: Site, redis_server: RedisServer, make_settings: Callable[..., Settings]
) -> AsyncIterator[AppHarness]:
    """A harness with the Redis of this test."""
    quick = make_settings(connect_to=site.connect_to, redis_url=redis_server.url, page_timeout_seconds=2)
    async with open_harness(quick) as opened:
        yield opened


def lasts(redis: RedisServer, key: str, seconds: int) -> bool:
    return seconds - 60 < redis.client.ttl(key) <= seconds


def age(redis: RedisServer, key: str, seconds: float) -> None:
    """Make all members of a SET older."""
    times = f"{TIMES}{key}"
    for member, score in redis.client.zrange(times, 0, -1, withscores=True):
        redis.client.zadd(times, {member: score - seconds})


async def test_the_keys_have_their_names_types_lifetimes_and_fields(
    site: Site, harness: AppHarness, redis_server: RedisServer
) -> None:
    """Spec 5.1, 5.4."""
    pages(site, "a", "b")
    site.answers[B] = Answer(status=410)
    await add_feed(harness)
    redis = redis_server.client
    assert redis_server.members(LINKS) == {A, B}
    assert lasts(redis_server, LINKS, 2 * DAY)
    before = int(time.time())
    assert counts(await canonical_run(harness)) == (2, 1, 0, {"FAIL_HTTP": 1}, 0)
    uid, gone = uid_of(A), uid_of(B)
    article = redis_server.article(uid)
    document = await harness.operations.documents.get(1)
    assert {name: article[name] for name in ("uid", "url", "category", "status", "title", "language")} == {
        "uid": uid,
        "url": A,
        "category": "jobs_report",
        "status": "success",
        "title": "story a",
        "language": "en",
    }
    assert article["clean_text"] == document.text
    assert int(article["text_len"]) == len(document.text)
    assert int(article["raw_len"]) == document.raw_bytes
    assert before <= int(article["fetched_ts"]) <= time.time() + 1
    assert article["published_at"].startswith("2026-03-12")
    assert set(article) >= {"abstract", "image", "byline"}
    assert json.loads(article["provenance"])["published_at"] == "feed"
    assert lasts(redis_server, f"rss:article_canonical:{uid}", 7 * DAY)
    assert redis_server.members("rss:articles_by_category:jobs_report") == {uid}
    assert lasts(redis_server, "rss:articles_by_category:jobs_report", 7 * DAY)
    assert redis.zrange("rss:article_canonical_index", 0, -1, withscores=True) == [
        (uid.encode(), float(article["fetched_ts"]))
    ]
    assert redis.ttl("rss:article_canonical_index") == -1
    assert redis_server.members("rss:canonical_attempted") == {uid, gone}
    assert lasts(redis_server, "rss:canonical_attempted", 30 * DAY)
    ((failure, moment),) = redis.zrange("rss:canonical_failures", 0, -1, withscores=True)
    assert failure.decode() == f"{gone}:FAIL_HTTP"
    assert before <= moment <= time.time() + 1
    assert not redis.exists(f"rss:article_canonical:{gone}")
    types = {key.decode(): redis.type(key).decode() for key in redis.keys("rss:*")}
    assert types == {
        LINKS: "set",
        "rss:articles_by_category:jobs_report": "set",
        "rss:canonical_attempted": "set",
        "rss:canonical_failures": "zset",
        "rss:article_canonical_index": "zset",
        f"rss:article_canonical:{uid}": "hash",
    }


async def test_an_article_that_expires_leaves_no_member_in_an_index(
    site: Site, harness: AppHarness, redis_server: RedisServer
) -> None:
    """Spec 5.4: the next run prunes the indexes, although no link is new."""
    pages(site, "a", "b")
    await add_feed(harness)
    await canonical_run(harness)
    redis_server.client.pexpire(f"rss:article_canonical:{uid_of(A)}", 1)
    while redis_server.client.exists(f"rss:article_canonical:{uid_of(A)}"):
        await asyncio.sleep(0.002)
    seen = len(site.seen)
    assert (await canonical_run(harness)).new == 0
    assert len(site.seen) == seen
    assert redis_server.members("rss:articles_by_category:jobs_report") == {uid_of(B)}
    assert redis_server.client.zrange("rss:article_canonical_index", 0, -1) == [uid_of(B).encode()]
    assert redis_server.client.zrange(f"{TIMES}rss:articles_by_category:jobs_report", 0, -1) == [uid_of(B).encode()]
    assert redis_server.members("rss:canonical_attempted") == {uid_of(A), uid_of(B)}


async def test_each_member_of_a_set_expires_on_its_own_day(
    site: Site, harness: AppHarness, redis_server: RedisServer
) -> None:
    """Spec 5.4."""
    pages(site, "a")
    await add_feed(harness)
    await canonical_run(harness)
    age(redis_server, LINKS, 49 * 3600)
    age(redis_server, "rss:canonical_attempted", 31 * DAY)
    age(redis_server, "rss:articles_by_category:jobs_report", 8 * DAY)
    pages(site, "a", "b")
    site.answers[FEED] = rss(B)
    await harness.operations.sources.sync("news")
    assert counts(await canonical_run(harness)) == (1, 1, 0, {}, 0)
    assert redis_server.members(LINKS) == {B}
    assert redis_server.members("rss:canonical_attempted") == {uid_of(B)}
    assert redis_server.members("rss:articles_by_category:jobs_report") == {uid_of(B)}
    assert redis_server.client.zrange(f"{TIMES}{LINKS}", 0, -1) == [uid_of(B).encode()]


async def test_links_and_attempts_of_another_program_are_adopted(
    site: Site, harness: AppHarness, redis_server: RedisServer
) -> None:
    """Spec 5.4: each member expires on its own day after the adoption."""
    pages(site, "a", "b", "c", "d")
    redis = redis_server.client
    redis.sadd("rss:category_links:foreign news", A, B)
    redis.sadd("rss:category_links:other", A)
    redis.sadd("rss:canonical_attempted", uid_of(B), "something else")
    seen = {url.url for url in site.seen}
    assert counts(await canonical_run(harness)) == (1, 1, 0, {}, 0)
    assert {url.url for url in site.seen} - seen == {A, "http://news.test/robots.txt"}
    assert redis_server.article(uid_of(A))["category"] == "foreign news"
    for category in ("foreign news", "other"):
        assert redis_server.members(f"rss:articles_by_category:{category}") == {uid_of(A)}
        assert lasts(redis_server, f"rss:category_links:{category}", 2 * DAY)
    assert redis_server.members("rss:canonical_attempted") == {uid_of(A), uid_of(B), "something else"}
    assert redis.zcard(f"{TIMES}rss:canonical_attempted") == 3
    assert (await canonical_run(harness)).new == 0
    age(redis_server, "rss:category_links:foreign news", 49 * 3600)
    age(redis_server, "rss:canonical_attempted", 31 * DAY)
    await backdate(harness, "canonical_attempts.attempted_at", timedelta(days=31))
    await harness.execute(
        "UPDATE category_links SET seen_at = seen_at - interval '49 hours' WHERE category = 'foreign news'"
    )
    redis.sadd("rss:category_links:other", B)
    assert counts(await canonical_run(harness)) == (2, 2, 0, {}, 0), "A is tried again, B for the first time here"
    assert not redis.exists("rss:category_links:foreign news")
    assert redis_server.members("rss:canonical_attempted") == {uid_of(A), uid_of(B)}


async def test_an_article_enters_the_index_of_a_category_that_lists_it_later(
    site: Site, harness: AppHarness, redis_server: RedisServer
) -> None:
    """Spec 5.4, 5.5: the run sends no request, and the article keeps its first category and its expiry."""
    pages(site, "a")
    redis = redis_server.client
    redis.sadd("rss:category_links:first", A)
    await canonical_run(harness)
    await backdate(harness, "canonical_attempts.attempted_at", timedelta(days=3))
    (attempt,) = await canonical_attempts(harness)
    assert attempt.attempted_at is not None
    seen = len(site.seen)
    redis.sadd("rss:category_links:another", A)
    assert (await canonical_run(harness)).new == 0
    assert len(site.seen) == seen
    for category in ("first", "another"):
        index = f"rss:articles_by_category:{category}"
        assert redis_server.members(index) == {uid_of(A)}
        assert redis.zscore(f"{TIMES}{index}", uid_of(A)) == pytest.approx(attempt.attempted_at.timestamp())
    assert redis_server.article(uid_of(A))["category"] == "first"
    assert lasts(redis_server, f"rss:article_canonical:{uid_of(A)}", 4 * DAY)


async def test_articles_enter_the_index_of_a_second_source_and_survive_a_loss(
    site: Site, harness: AppHarness, redis_server: RedisServer
) -> None:
    """Spec 5.4: PostgreSQL has the categories and writes them to Redis."""
    pages(site, "a", "b")
    site.answers[B] = Answer(status=410)
    await add_feed(harness)
    await canonical_run(harness)
    site.answers["http://second.test/feed"] = rss(A, B)
    await harness.operations.sources.add("http://second.test/feed", "again", {"category": "second"})
    seen = len(site.seen)
    for _ in range(2):
        assert (await canonical_run(harness)).new == 0
        assert redis_server.members("rss:articles_by_category:second") == {uid_of(A)}
        assert redis_server.members("rss:articles_by_category:jobs_report") == {uid_of(A)}
        redis_server.client.flushall()
    assert len(site.seen) == seen


async def test_an_expired_article_enters_no_index(site: Site, harness: AppHarness, redis_server: RedisServer) -> None:
    """Spec 5.4: it expires 7 days after its attempt."""
    pages(site, "a")
    await add_feed(harness)
    await canonical_run(harness)
    redis_server.client.flushall()
    await backdate(harness, "canonical_attempts.attempted_at", timedelta(days=8))
    redis_server.client.sadd("rss:category_links:late", A)
    assert (await canonical_run(harness)).new == 0
    assert redis_server.members("rss:canonical_attempted") == {uid_of(A)}
    assert not redis_server.client.keys("rss:articles_by_category:*")


async def test_a_link_that_another_program_attempted_is_not_fetched(
    site: Site, harness: AppHarness, redis_server: RedisServer
) -> None:
    """Spec 5.5."""
    pages(site, "a", "b")
    await add_feed(harness)
    await canonical_run(harness)
    pages(site, "a", "b", "c")
    await harness.operations.sources.sync("news")
    redis_server.client.srem("rss:canonical_attempted", uid_of(A))  # the SET has as many members as times
    redis_server.client.sadd("rss:canonical_attempted", uid_of("http://news.test/c"))
    assert (await canonical_run(harness)).new == 0


BAD = {
    b"": "empty",
    b"hello world": "no scheme",
    b"javascript:alert(1)": "must start with http",
    b"http://user:secret@news.test/": "user name or password",
    b"\xff\xfe\x00garbage": "not UTF-8",
    b"http://news.test/\x00": "NUL",
    b"http://news.test/" + b"x" * (10 << 20): "10,485,777 bytes",
    b"http://[::1]/": "address_refused",
    b"http://169.254.169.254/latest/meta-data": "address_refused",
    b"http://10.0.0.1/": "address_refused",
}


async def test_bad_links_are_refused_one_by_one_and_do_not_stop_others(
    site: Site, harness: AppHarness, redis_server: RedisServer
) -> None:
    """Spec 5.4, 4.3: garbage, private addresses and 10 MB are refused with a reason each."""
    pages(site, "a")
    redis_server.client.sadd("rss:category_links:bad", A.encode(), *BAD)
    totals = await canonical_run(harness)
    assert totals.stored == 1
    assert totals.redis == "up to date"
    rows = {
        uid: (url, code, reason)
        for uid, url, _, code, reason, *_ in await canonical_attempts(harness)
        if code is not None
    }
    assert set(rows) == {uid_of(member) for member in BAD}
    for member, why in BAD.items():
        _, code, reason = rows[uid_of(member)]
        assert code == "FAIL_HTTP"
        assert reason == (why if why == "address_refused" else "invalid_url")
    assert sum(any(why in trouble for trouble in totals.troubles) for why in BAD.values()) == 3
    assert not any("secret" in trouble for trouble in totals.troubles)
    assert set(redis_server.client.zrange("rss:canonical_failures", 0, -1)) == {
        f"{uid_of(member)}:FAIL_HTTP".encode() for member in BAD
    }
    again = await canonical_run(harness)
    assert (again.new, again.troubles) == (0, [])


async def test_keys_of_a_wrong_type_are_reported_and_left_alone(
    site: Site, harness: AppHarness, redis_server: RedisServer
) -> None:
    """Spec 5.4: the other keys work."""
    pages(site, "a", "b")
    redis = redis_server.client
    redis.set("rss:category_links:text", "x")
    redis.rpush("rss:category_links:list", "x")
    redis.sadd(b"rss:category_links:\xff", "x")
    redis.set(f"rss:article_canonical:{uid_of(A)}", "x")
    redis.sadd("rss:article_canonical_index", "x")
    redis.set("rss:articles_by_category:text", "x")
    await add_feed(harness)
    totals = await canonical_run(harness)
    assert counts(totals) == (2, 2, 0, {}, 0)
    reported = " ".join(totals.troubles)
    for key in ("links:text", "links:list", "links:\\xff", uid_of(A), "canonical_index", "by_category:text"):
        assert key in reported
    assert redis.get("rss:category_links:text") == b"x"
    assert redis.get(f"rss:article_canonical:{uid_of(A)}") == b"x"
    assert redis_server.article(uid_of(B))["url"] == B
    redis.delete(f"rss:article_canonical:{uid_of(A)}", "rss:article_canonical_index")
    await canonical_run(harness)
    assert redis_server.article(uid_of(A))["url"] == A
    assert redis.zcard("rss:article_canonical_index") == 2


async def test_a_redis_that_is_down_fails_no_poll_and_no_run_and_is_written_later(
    site: Site, harness: AppHarness, redis_server: RedisServer
) -> None:
    """Spec 5.4."""
    redis_server.kill()
    pages(site, "a", "b")
    await add_feed(harness)
    totals = await canonical_run(harness)
    assert counts(totals) == (2, 2, 0, {}, 0)
    assert "Redis cannot be used" in totals.redis
    redis_server.start()
    seen = len(site.seen)
    totals = await canonical_run(harness)
    assert (totals.new, totals.redis) == (0, "up to date")
    assert len(site.seen) == seen
    assert redis_server.members(LINKS) == {A, B}
    assert redis_server.members("rss:canonical_attempted") == {uid_of(A), uid_of(B)}
    assert redis_server.article(uid_of(A))["title"] == "story a"
    assert lasts(redis_server, f"rss:article_canonical:{uid_of(A)}", 7 * DAY)


async def test_a_redis_that_is_killed_during_a_run_loses_nothing(
    site: Site, harness: AppHarness, redis_server: RedisServer
) -> None:
    """Spec 5.4, 9.3: the run ends without Redis, and the next one writes everything again."""
    pages(site, "a", "b")
    site.hanging.add(A)
    await add_feed(harness)
    running = asyncio.create_task(canonical_run(harness))
    while A not in site.waiting or not redis_server.client.exists(f"rss:article_canonical:{uid_of(B)}"):
        await asyncio.sleep(0.01)
    redis_server.kill()
    site.hanging.clear()
    async with asyncio.timeout(60):
        totals = await running
    assert counts(totals) == (2, 2, 0, {}, 0)
    redis_server.start()
    assert not redis_server.client.keys("*")
    await canonical_run(harness)
    assert redis_server.members(LINKS) == {A, B}
    assert redis_server.article(uid_of(B))["title"] == "story b"
    assert redis_server.members("rss:articles_by_category:jobs_report") == {uid_of(A), uid_of(B)}


async def test_only_the_first_poll_waits_for_a_redis_that_hangs(
    site: Site, harness: AppHarness, redis_server: RedisServer
) -> None:
    """Spec 5.4: no poll fails, and later polls are not slower."""
    pages(site, "a")
    redis_server.freeze()
    try:
        began = time.monotonic()
        await add_feed(harness)
        assert 1.5 < time.monotonic() - began < 10
        site.answers[FEED] = rss(B)
        began = time.monotonic()
        assert (await harness.operations.sources.sync("news")).new_items == 1
        assert time.monotonic() - began < 1.5
    finally:
        redis_server.thaw()
    await canonical_run(harness)
    assert redis_server.members(LINKS) == {A, B}


async def test_an_emptied_redis_is_written_again(site: Site, harness: AppHarness, redis_server: RedisServer) -> None:
    pages(site, "a")
    await add_feed(harness)
    await canonical_run(harness)
    await backdate(harness, "canonical_attempts.attempted_at", timedelta(days=2))
    redis_server.client.flushall()
    assert (await canonical_run(harness)).new == 0
    assert redis_server.members(LINKS) == {A}
    assert lasts(redis_server, f"rss:article_canonical:{uid_of(A)}", 5 * DAY)
    redis_server.client.delete("rss:canonical_attempted")
    await canonical_run(harness)
    assert redis_server.members("rss:canonical_attempted") == {uid_of(A)}


async def test_an_article_follows_its_document_and_keeps_its_expiry(
    site: Site, harness: AppHarness, redis_server: RedisServer
) -> None:
    """Spec 4.4, 5.4: Redis shows the present document."""
    pages(site, "a")
    await add_feed(harness)
    await canonical_run(harness)
    await backdate(harness, "canonical_attempts.attempted_at", timedelta(days=3))
    site.answers[A] = Answer(page("another story"), headers=HTML)
    await harness.operations.frontier.retry([A])
    await harness.work()
    assert (await canonical_run(harness)).new == 0
    assert "another story" in redis_server.article(uid_of(A))["clean_text"]
    assert lasts(redis_server, f"rss:article_canonical:{uid_of(A)}", 4 * DAY)


async def test_the_article_of_a_deleted_document_leaves_redis(
    site: Site, harness: AppHarness, redis_server: RedisServer
) -> None:
    """Spec 5.6: PostgreSQL decides, and the article of a deleted document is gone."""
    pages(site, "a")
    await add_feed(harness)
    await canonical_run(harness)
    assert redis_server.article(uid_of(A))
    await harness.operations.documents.delete((await harness.documents())[A].id)
    await canonical_run(harness)
    assert not redis_server.article(uid_of(A))


async def test_an_article_has_the_corrected_headline(
    site: Site, harness: AppHarness, redis_server: RedisServer
) -> None:
    """Issue 8: its text stays."""
    pages(site, "a")
    await add_feed(harness)
    await canonical_run(harness)
    before = redis_server.article(uid_of(A))
    corrected = page("story a").replace(">story a</title>", ">Corrected</title>")
    site.answers[A] = Answer(corrected.replace('content="story a"', 'content="Corrected"'), headers=HTML)
    await harness.operations.frontier.retry([A])
    await harness.work()
    assert (await canonical_run(harness)).new == 0
    article = redis_server.article(uid_of(A))
    assert (article["title"], article["clean_text"]) == ("Corrected", before["clean_text"])


async def test_deleted_attempts_are_written_again(site: Site, harness: AppHarness, redis_server: RedisServer) -> None:
    """Spec 5.4: PostgreSQL also has the attempts of other programs."""
    pages(site, "a")
    redis_server.client.sadd("rss:canonical_attempted", uid_of(B), "something else")
    await add_feed(harness)
    await canonical_run(harness)
    redis_server.client.delete("rss:canonical_attempted")
    for _ in range(2):
        await canonical_run(harness)
        assert redis_server.members("rss:canonical_attempted") == {uid_of(A), uid_of(B)}
        assert redis_server.client.zcard(f"{TIMES}rss:canonical_attempted") == 2
    assert lasts(redis_server, "rss:canonical_attempted", 30 * DAY)


async def test_a_full_redis_is_written_later(site: Site, harness: AppHarness, redis_server: RedisServer) -> None:
    """Spec 5.4: it refuses every write."""
    pages(site, "a")
    redis_server.client.config_set("maxmemory", 1)
    await add_feed(harness)
    totals = await canonical_run(harness)
    assert totals.stored == 1
    assert totals.redis == "Redis cannot be used: command not allowed when used memory > 'maxmemory'."
    redis_server.client.config_set("maxmemory", 0)
    await canonical_run(harness)
    assert redis_server.article(uid_of(A))["url"] == A
    assert redis_server.members(LINKS) == {A}


async def test_the_service_runs_after_polls_that_found_something_new(
    site: Site, harness: AppHarness, redis_server: RedisServer
) -> None:
    """Spec 5.5: once after each cycle of polls."""
    pages(site, "a", "b")
    await add_feed(harness)
    await backdate(harness, "category_links.seen_at", timedelta(hours=1))
    pages(site, "a", "b", "c")
    await make_polls_due(harness)
    pollers: list[PollerRole] = []
    canonical = CanonicalRole(
        harness.runtime.canonical_runner,
        harness.runtime.poller.found_new,
        lambda: sum(poller.under_way for poller in pollers),
        cycle_seconds=harness.runtime.context.settings.poll_check_seconds,
    )
    pollers.append(PollerRole(harness.runtime))
    stop = asyncio.Event()
    roles = [
        *pollers,
        canonical,
        make_fetch_pool(harness.runtime, harness.operations.metrics),
        MaintenanceRole(harness.runtime.context),
    ]
    working = asyncio.create_task(run_roles(roles, stop))
    wanted = {uid_of(f"http://news.test/{name}") for name in ("a", "b", "c")}
    async with asyncio.timeout(20):
        while redis_server.members("rss:canonical_attempted") != wanted:
            await asyncio.sleep(0.02)
    stop.set()
    await working
    assert await held_leases(harness) == {}


def test_the_command_runs_once_and_prints_json(redis_server: RedisServer, tmp_path: Path, database_url: str) -> None:
    """Spec 5.5, 8.2: without new links it prints nothing; else it lists the first failed URLs."""
    words = {"database_url": database_url, "data_dir": tmp_path / "data", "redis_url": redis_server.url}
    quiet = headwater("canonical", "run", cwd=tmp_path, **words)
    assert (quiet.returncode, quiet.stdout) == (0, ""), quiet.stderr
    redis_server.client.sadd("rss:category_links:bad", "ftp://news.test/")
    ended = headwater("canonical", "run", "--json", cwd=tmp_path, **words)
    assert ended.returncode == 0, ended.stderr
    answer = json.loads(ended.stdout)
    assert (answer["new"], answer["failed"], answer["redis"]) == (1, {"FAIL_HTTP": 1}, "up to date")
    url = "ftp://news.test/"
    assert answer["failed_urls"] == [{"uid": uid_of(url), "url": url, "code": "FAIL_HTTP", "reason": "invalid_url"}]
    assert "canonical.refused" in ended.stderr
    assert "canonical.done" in ended.stderr
    redis_server.client.sadd("rss:category_links:bad", *(f"ftp://news.test/{number}" for number in range(22)))
    many = headwater("canonical", "run", cwd=tmp_path, **words).stdout
    assert many.count("  failed: ftp://news.test/") == 20
    assert f" FAIL_HTTP {Reason.INVALID_URL.sentence}" in " ".join(many.split())
    assert " 2 more " in many
    down = headwater("canonical", "run", cwd=tmp_path, **(words | {"redis_url": "redis://:secret@127.0.0.1:1/0"}))
    assert (down.returncode, "Redis" in down.stdout) == (0, True)
    assert "secret" not in down.stdout + down.stderr


async def test_the_totals_count_links_with_a_result() -> None:
    totals = CanonicalTotals(new=4, stored=1, skipped=1, deferred=1)
    totals.add_failure(FailedLink(uid_of(A), A, "FAIL_HTTP", "not_found"))
    assert totals.done == 4
