"""From feed to document, through real parts: each answer of a server has its result (spec 3.2, 4.1, 4.2, 4.4)."""

import asyncio
import hashlib
import itertools
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from headwater.core.errors import OperatorError
from headwater.core.poll import PollResult
from headwater.core.reasons import Reason
from tests.database_state import count
from tests.harness import AppHarness
from tests.refusals import refused
from tests.server import Answer, Site, page, rss

FEED = "http://news.test/feed"
HTML = {"Content-Type": "text/html; charset=utf-8"}


async def poll(harness: AppHarness, name: str) -> PollResult:
    """Poll a source as if it were due."""
    return await harness.poll(name)


def listing(site: Site, *paths: str) -> None:
    site.answers[FEED] = rss(*(path if "://" in path else f"http://news.test{path}" for path in paths))


@pytest.mark.both_servers
async def test_a_feed_becomes_items_documents_a_day_and_a_search(
    site: Site, harness: AppHarness, tmp_path: Path
) -> None:
    """Spec 3.2, 4.2, 4.4, 6.2."""
    listing(site, "/a", "/b")
    site.answers["http://news.test/a"] = Answer(page("flood defences"), headers=HTML)
    site.answers["http://news.test/b"] = Answer(page("library hours"), headers=HTML)
    polled = await harness.operations.sources.add(FEED)
    assert (polled.items, polled.new_urls, polled.name, polled.title) == (2, 2, "news.test", "A feed")
    await harness.work()
    assert await harness.outcomes() == {"http://news.test/a": "stored", "http://news.test/b": "stored"}
    (hit,) = (await harness.operations.search.find("defence flooding")).hits
    assert hit.url == "http://news.test/a"
    assert "flood" in [part.text for part in hit.snippet if part.is_match]
    items = (await harness.operations.days.day(date(2026, 3, 12))).items
    assert [(item.bucket, item.title) for item in items] == [("NEW", "Entry 1"), ("NEW", "Entry 0")]
    document = await harness.operations.documents.get(items[0].document_id or 0)
    raw = (tmp_path / "data/corpus" / document.raw_path).read_bytes()
    assert raw == page("library hours").encode()
    assert document.raw_hash == hashlib.sha256(raw).hexdigest()
    assert document.content_hash == hashlib.sha256(document.text.encode()).hexdigest()
    assert document.provenance["title"]


async def test_a_failing_disk_consumes_no_retry_of_a_page(site: Site, harness: AppHarness, tmp_path: Path) -> None:
    """A fault of ours is not charged to anybody: the page is there when the disk is."""
    listing(site, "/a")
    site.answers["http://news.test/a"] = Answer(page("patient"), headers=HTML)
    await harness.operations.sources.add(FEED)
    corpus = tmp_path / "data/corpus"
    corpus.parent.mkdir(exist_ok=True)
    corpus.write_text("a file where the folder should be")
    working = asyncio.create_task(harness.work())
    while await count(harness, "fetch_log", "reason = 'storage'") < 8:
        await asyncio.sleep(0.02)
    corpus.unlink()
    await working
    assert await harness.outcomes() == {"http://news.test/a": "stored"}
    assert {attempt for _, attempt, _ in await harness.attempts()} == {1}


@pytest.mark.parametrize(
    "robots",
    [
        Answer(b"\x00", headers={"Content-Encoding": "br"}),
        Answer(status=302),
        Answer(status=302, headers={"Location": "http://10.0.0.1/robots.txt"}),
        Answer(status=503),
    ],
)
async def test_an_unreadable_robots_file_blocks_the_host_and_ends_no_url(
    robots: Answer, site: Site, harness: AppHarness
) -> None:
    """Spec 4.1."""
    listing(site, "http://odd.test/a")
    site.answers["http://odd.test/robots.txt"] = robots
    await harness.operations.sources.add(FEED)
    await harness.work(until_attempts=1)
    assert await harness.outcomes() == {"http://odd.test/a": None}
    assert (await harness.operations.frontier.get_host("odd.test")).blocked_reason == "robots_unreachable"


async def test_the_input_of_the_normalizer_is_stored(site: Site, harness: AppHarness) -> None:
    """Spec 1.5: so that the text can be derived from the raw file again. Only HTTP says in which charset."""
    listing(site, "/old", "/plain")
    cyrillic = {"Content-Type": "text/html; charset=windows-1251"}
    site.answers["http://news.test/old"] = Answer(status=301, headers={"Location": "/new"})
    site.answers["http://news.test/new"] = Answer(page("Вода").encode("cp1251"), headers=cyrillic)
    site.answers["http://news.test/plain"] = Answer(page("water"), headers={"Content-Type": ""})
    await harness.operations.sources.add(FEED)
    await harness.work()
    kept = await harness.rows("SELECT fetched_url, content_type, title FROM documents ORDER BY fetched_url")
    assert kept == [  # no operation shows the content type
        ("http://news.test/new", "text/html; charset=windows-1251", "Вода"),
        ("http://news.test/plain", "", "water"),
    ]


async def test_robots_txt_is_fetched_once_and_obeyed(site: Site, harness: AppHarness) -> None:
    """Spec 4.1."""
    listing(site, "/open", "/closed/x")
    site.answers["http://news.test/robots.txt"] = Answer(
        "User-agent: headwater\nDisallow: /closed/\nUser-agent: *\nDisallow: /\n"
    )
    site.answers["http://news.test/open"] = Answer(page("open"), headers=HTML)
    await harness.operations.sources.add(FEED)
    await harness.work()
    assert await harness.outcomes() == {
        "http://news.test/open": "stored",
        "http://news.test/closed/x": "robots_blocked",
    }
    assert site.visits("http://news.test/closed/x") == 0
    assert site.visits("http://news.test/robots.txt") == 1


@pytest.mark.both_servers
async def test_a_host_with_unreadable_robots_txt_waits_and_keeps_its_urls(site: Site, harness: AppHarness) -> None:
    """Spec 4.1: 5xx blocks the host, its URLs wait and never die."""
    listing(site, "http://down.test/a", "http://down.test/b")
    site.answers["http://down.test/robots.txt"] = Answer(status=500)
    await harness.operations.sources.add(FEED)
    await harness.work(until_attempts=1)
    assert await harness.outcomes() == {"http://down.test/a": None, "http://down.test/b": None}
    assert site.visits("http://down.test/a") == 0
    host = await harness.operations.frontier.get_host("down.test")
    assert host.blocked_reason == "robots_unreachable"
    assert host.next_turn_at is not None
    assert timedelta(minutes=9) < host.next_turn_at - datetime.now(UTC) <= timedelta(minutes=10)
    assert {one.attempts for one in (await harness.queued()).values()} == {0}


async def test_a_crawl_delay_is_obeyed(site: Site, harness: AppHarness) -> None:
    """Spec 4.1, 2.3."""
    listing(site, "/a", "/b", "/c")
    site.answers["http://news.test/robots.txt"] = Answer("User-agent: *\nCrawl-delay: 0.3\n")
    for name in "abc":
        site.answers[f"http://news.test/{name}"] = Answer(page(name * 3), headers=HTML)
    await harness.operations.sources.add(FEED)
    await harness.work()
    arrivals = [seen.arrived for seen in site.seen]
    assert len(arrivals) == 5
    gaps = [later - earlier for earlier, later in itertools.pairwise(arrivals)]
    assert min(gaps) >= 0.29


async def test_an_unchanged_feed_is_not_parsed_again(site: Site, harness: AppHarness) -> None:
    """Spec 3.2: conditional GET plus body hash."""
    answer = rss("http://news.test/a")
    site.answers[FEED] = [
        Answer(answer.body, headers={**answer.headers, "ETag": '"v1"'}),
        Answer(status=304),
        Answer(answer.body, headers=answer.headers),
    ]
    await harness.operations.sources.add(FEED)
    unchanged = await poll(harness, "news.test")
    same_body = await poll(harness, "news.test")
    assert [(poll.reason, poll.items) for poll in (unchanged, same_body)] == [(Reason.POLLED, 0)] * 2
    feeds = [seen for seen in site.seen if seen.url == FEED]
    assert [seen.headers.get("If-None-Match") for seen in feeds] == [None, '"v1"', '"v1"']
    assert (await harness.method()).last_item_count == 1


@pytest.mark.both_servers
async def test_a_failing_feed_backs_off_and_recovers(site: Site, harness: AppHarness) -> None:
    """Spec 3.2: errors back off and never kill a feed."""
    site.answers[FEED] = rss("http://news.test/a")
    await harness.operations.sources.add(FEED)
    site.answers[FEED] = Answer(status=404)
    for errors in (1, 2):
        failed = await poll(harness, "news.test")
        assert failed.reason is Reason.NOT_FOUND
        main = await harness.method()
        assert main.consecutive_errors == errors
        assert main.next_poll_at is not None
        wait = main.next_poll_at - datetime.now(UTC)
        assert timedelta(minutes=15 * 2**errors - 1) < wait < timedelta(minutes=15 * 2**errors * 1.1)
    site.answers[FEED] = rss("http://news.test/a", "http://news.test/b")
    assert (await poll(harness, "news.test")).new_items == 1
    main = await harness.method()
    assert (main.consecutive_errors, main.last_error) == (0, None)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer("<html><body>log in</body></html>" * 20, headers=HTML), Reason.NOT_A_FEED),
        (Answer(status=404), Reason.NOT_FOUND),
        (Answer(b""), Reason.NOT_A_FEED),
    ],
)
async def test_a_body_that_is_no_feed_is_refused_and_nothing_is_saved(
    answer: Answer, reason: Reason, site: Site, harness: AppHarness
) -> None:
    site.answers[FEED] = answer
    with refused(reason, FEED):
        await harness.operations.sources.add(FEED)
    assert await harness.operations.sources.list_sources() == []


@pytest.mark.parametrize("name", ["My Feed", "UPPER", "a/b", "..", "x" * 65, "n\0"])
async def test_an_invalid_source_name_is_refused(name: str, site: Site, harness: AppHarness) -> None:
    listing(site, "/a")
    with refused(Reason.BAD_SOURCE, repr(name)):
        await harness.operations.sources.add(FEED, name)
    assert site.seen == []


async def test_a_feed_added_twice_at_once_is_added_once(site: Site, harness: AppHarness) -> None:
    listing(site, "/a")
    results = await asyncio.gather(
        harness.operations.sources.add(FEED, "one"), harness.operations.sources.add(FEED, "two"), return_exceptions=True
    )
    assert sorted(isinstance(result, OperatorError) for result in results) == [False, True]
    assert len(await harness.operations.sources.list_sources()) == 1


async def test_a_feed_is_added_once(site: Site, harness: AppHarness) -> None:
    listing(site, "/a")
    await harness.operations.sources.add(FEED)
    for name in (None, "other"):
        with refused(Reason.SOURCE_EXISTS, FEED):
            await harness.operations.sources.add(FEED, name)


@pytest.mark.parametrize(
    "settings",
    [
        {"schedule": "0 0 30 2 *"},
        {"timezone": "Mars"},
        {"priority": 11},
        {"poll_interval_minutes": "often"},
        {"colour": "blue"},
    ],
)
async def test_bad_source_settings_are_refused_with_the_field(
    settings: dict[str, object], site: Site, harness: AppHarness
) -> None:
    listing(site, "/a")
    with refused(Reason.BAD_SOURCE, "news.test", *settings):
        await harness.operations.sources.add(FEED, None, settings)
    assert site.seen == []


@pytest.mark.both_servers
async def test_an_undated_entry_is_new_on_the_day_it_was_first_seen(site: Site, harness: AppHarness) -> None:
    """Spec 3.2."""
    body = "<rss version='2.0'><channel><title>The News</title><item><link>http://news.test/a</link></item></channel></rss>"
    site.answers[FEED] = [Answer(body), Answer(body + " ")]
    source = (await harness.operations.sources.add(FEED)).name
    first = (await harness.operations.sources.show(source)).last_items
    await harness.operations.sources.sync(source)
    assert (await harness.operations.sources.show(source)).last_items == first
    assert [item.published_is_sighting for item in first] == [True]
    items = (await harness.operations.days.today()).items
    assert [item.bucket for item in items] == ["NEW"]


async def test_a_rebuilt_day_equals_the_observations_and_writes_only_differences(
    site: Site, harness: AppHarness
) -> None:
    """Spec 6.4."""
    listing(site, "/right", "/wrong", "/unseen")
    await harness.operations.sources.add(FEED)
    day = "SELECT i.url, x.bucket, x.xmin::text FROM daily_index x JOIN items i ON i.id = x.item_id ORDER BY 1"
    (right, *_) = await harness.rows(day)
    of = "item_id = (SELECT id FROM items WHERE url = $1)"
    await harness.execute(f"UPDATE daily_index SET bucket = 'LATEST' WHERE {of}", "http://news.test/wrong")
    await harness.execute(f"DELETE FROM item_observations WHERE {of}", "http://news.test/unseen")
    listing(site, "/right", "/wrong", "/late")
    assert (await poll(harness, "news.test")).new_items == 1
    rebuilt = await harness.rows(day)
    assert [(url, bucket) for url, bucket, _ in rebuilt] == [
        (f"http://news.test/{name}", "NEW") for name in ("late", "right", "wrong")
    ]
    assert right in rebuilt
