"""Watched pages are fetched again by their policies, or by those of their sources (spec 2.2, 11.2)."""

import asyncio
from datetime import timedelta

import pytest

from headwater.core.reasons import Reason
from headwater.frontier.watches import Watch, queue_due_pages, replan_pages
from tests.database_state import backdate, count
from tests.harness import AppHarness
from tests.refusals import refused
from tests.server import Answer, Site, page, rss

HTML = {"Content-Type": "text/html; charset=utf-8"}
VALIDATORS = {"ETag": '"v1"', "Last-Modified": "Thu, 12 Mar 2026 11:00:00 GMT"}
PAGE, OTHER = "http://news.test/a", "http://news.test/b"
FEED = "http://news.test/feed"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


async def queue_due(harness: AppHarness) -> int:
    """Queue the pages that are due by the time of this moment."""
    context = harness.runtime.context
    return await queue_due_pages(context.database, context.clock.now())


async def look(harness: AppHarness) -> None:
    """Fetch all watched pages again that are not stopped, as if their times had come."""
    await backdate(harness, "watches.next_at", 800 * DAY)
    await queue_due(harness)
    await harness.work()


async def watch_of(harness: AppHarness, url: str = PAGE) -> Watch:
    watch = (await harness.operations.why(url)).watch
    assert watch
    return watch


def wait_of(watch: Watch) -> timedelta:
    """How long the page waits after its last fetch."""
    assert watch.next_at
    assert watch.last_fetched_at
    return watch.next_at - watch.last_fetched_at


async def revisions_of(harness: AppHarness) -> list[int | None]:
    """Return the revisions of the documents that the change feed names, in its order."""
    listed = (await harness.operations.changes.list_changes(None, 100)).changes
    return [change.document and change.document.revision for change in listed]


async def test_an_unknown_page_is_submitted_fetched_and_fetched_again(site: Site, harness: AppHarness) -> None:
    site.answers[PAGE] = Answer(page("floods"), headers=HTML)
    watch = await harness.operations.watches.watch(PAGE, "every 6h")
    assert (watch.source, watch.policy, watch.is_own, watch.status, watch.next_at) == (
        *("manual", "every 6h", True, "pending"),
        None,
    )
    await harness.work()
    assert wait_of(await watch_of(harness)) == 6 * HOUR
    assert await queue_due(harness) == 0
    await look(harness)
    assert site.visits(PAGE) == 2
    assert wait_of(await watch_of(harness)) == 6 * HOUR


async def test_a_page_can_be_watched_for_a_source_of_its_own(site: Site, harness: AppHarness) -> None:
    site.answers[FEED] = rss(OTHER)
    await harness.operations.sources.add(FEED, "news")
    assert (await harness.operations.watches.watch(PAGE, "adaptive", "news")).source == "news"
    with refused(Reason.UNKNOWN_SOURCE):
        await harness.operations.watches.watch("http://news.test/c", "adaptive", "none")


async def test_a_change_makes_a_revision_and_an_entry_of_the_change_feed(site: Site, harness: AppHarness) -> None:
    site.answers[PAGE] = [Answer(page("before"), headers=HTML), Answer(page("after"), headers=HTML)]
    await harness.operations.watches.watch(PAGE, "every 6h")
    await harness.work()
    await look(harness)
    document = await harness.document()
    assert (document.revision, document.title) == (2, "after")
    assert await revisions_of(harness) == [1, 2]


@pytest.mark.parametrize(
    "answers",
    [
        [Answer(page("calm"), headers={**HTML, **VALIDATORS}), Answer(status=304)],
        [Answer(page("calm"), headers=HTML), Answer(page("calm", extra="<!-- new bytes -->"), headers=HTML)],
    ],
    ids=["304", "without validators"],
)
async def test_an_unchanged_page_makes_no_revision_and_no_change(
    answers: list[Answer], site: Site, harness: AppHarness
) -> None:
    """A page without validators is compared by the hash of its text."""
    site.answers[PAGE] = answers
    await harness.operations.watches.watch(PAGE, "adaptive")
    await harness.work()
    for _ in range(2):
        await look(harness)
    assert site.visits(PAGE) == 3
    assert (await harness.document()).revision == 1
    assert await revisions_of(harness) == [1]
    assert await harness.outcomes() == {PAGE: "unchanged"}


async def test_a_re_fetch_is_conditional_and_comes_after_all_new_pages(site: Site, harness: AppHarness) -> None:
    site.answers[PAGE] = Answer(page("calm"), headers={**HTML, **VALIDATORS})
    await harness.operations.watches.watch(PAGE, "every 6h")
    await harness.work()
    await backdate(harness, "watches.next_at", DAY)
    await queue_due(harness)
    assert {url: place.priority for url, place in (await harness.queued()).items()} == {PAGE: 1}
    await harness.work()
    sent = site.seen[-1].headers
    assert (sent.get("If-None-Match"), sent.get("If-Modified-Since")) == tuple(VALIDATORS.values())


async def test_an_adaptive_interval_follows_the_page(site: Site, harness: AppHarness) -> None:
    calm, busy = Answer(page("calm"), headers=HTML), [Answer(page(f"{n}"), headers=HTML) for n in range(9)]
    site.answers |= {PAGE: calm, OTHER: busy}  # type: ignore[dict-item]
    for url in (PAGE, OTHER):
        await harness.operations.watches.watch(url, "adaptive 2h to 7d")
    await harness.work()
    waits: dict[str, list[timedelta]] = {PAGE: [], OTHER: []}
    for _ in range(7):
        for url, seen in waits.items():
            seen.append(wait_of(await watch_of(harness, url)))
        await look(harness)
    assert waits[PAGE] == sorted(waits[PAGE])
    assert waits[OTHER] == sorted(waits[OTHER], reverse=True)
    assert (waits[PAGE][0], waits[PAGE][-1], waits[OTHER][0], waits[OTHER][-1]) == (DAY, 7 * DAY, DAY, 2 * HOUR)


async def test_the_policy_of_a_source_holds_for_stored_and_later_pages(site: Site, harness: AppHarness) -> None:
    site.answers |= {
        FEED: [rss(PAGE), rss(PAGE, OTHER)],
        PAGE: Answer(page("a"), headers=HTML),
        OTHER: Answer(page("b"), headers=HTML),
    }
    operations, context = harness.operations, harness.runtime.context
    await operations.sources.add(FEED, "news")
    await harness.work()
    assert (await operations.why(PAGE)).watch is None
    await operations.sources.edit("news", {"refetch": "every 12h"})
    assert await replan_pages(context.database, context.clock.now()) == 1
    assert await replan_pages(context.database, context.clock.now()) == 0
    await operations.sources.sync("news")
    await harness.work()
    watches = [await watch_of(harness, url) for url in (PAGE, OTHER)]
    assert [(watch.policy, watch.is_own, wait_of(watch)) for watch in watches] == [("every 12h", False, DAY / 2)] * 2
    await operations.sources.edit("news", {}, ["refetch"])
    assert await replan_pages(context.database, context.clock.now()) == 2
    assert [(await operations.why(url)).watch for url in (PAGE, OTHER)] == [None, None]
    assert await count(harness, "watches") == 0


async def test_a_policy_of_a_page_overrides_that_of_its_source(site: Site, harness: AppHarness) -> None:
    site.answers |= {FEED: rss(PAGE, OTHER), **{url: Answer(page(url[-1]), headers=HTML) for url in (PAGE, OTHER)}}
    operations, context = harness.operations, harness.runtime.context
    await operations.sources.add(FEED, "news")
    await operations.sources.edit("news", {"refetch": "every 12h"})
    await operations.watches.watch(PAGE, "never")
    await harness.work()
    while await replan_pages(context.database, context.clock.now()):
        pass
    assert [(await watch_of(harness, url)).next_at is None for url in (PAGE, OTHER)] == [True, False]
    await look(harness)
    assert [site.visits(url) for url in (PAGE, OTHER)] == [1, 2]
    back = await operations.watches.unwatch(PAGE)
    assert (back.policy, back.is_own, wait_of(back)) == ("every 12h", False, DAY / 2)


async def test_a_page_that_is_missing_keeps_its_document_and_is_asked_less_and_less(
    site: Site, harness: AppHarness
) -> None:
    site.answers[PAGE] = [Answer(page("here"), headers=HTML), *[Answer(status=404)] * 7, Answer(page("again"))]
    await harness.operations.watches.watch(PAGE, "every 6h")
    await harness.work()
    waits = []
    for _ in range(7):
        await look(harness)
        waits.append(wait_of(await watch_of(harness)) / HOUR)
    assert waits == [12, 24, 48, 96, 168, 168, 168]
    why = await harness.operations.why(PAGE)
    assert (why.status, why.reason, why.document and why.document.title) == ("dead", Reason.NOT_FOUND, "here")
    assert (await harness.document()).title == "here"
    await look(harness)
    assert (await harness.document()).title == "again"
    assert wait_of(await watch_of(harness)) == 6 * HOUR


async def test_a_page_that_is_gone_is_not_asked_again_and_keeps_its_document(site: Site, harness: AppHarness) -> None:
    site.answers[PAGE] = [Answer(page("here"), headers=HTML), Answer(status=410)]
    await harness.operations.watches.watch(PAGE, "every 6h")
    await harness.work()
    for _ in range(3):
        await look(harness)
    assert site.visits(PAGE) == 2
    why = await harness.operations.why(PAGE)
    assert why.watch
    assert (why.reason, why.watch.next_at, why.next_at) == (Reason.GONE, None, None)
    assert (await harness.document()).title == "here"


async def test_a_deleted_page_is_watched_no_longer(site: Site, harness: AppHarness) -> None:
    site.answers[PAGE] = Answer(page("here"), headers=HTML)
    await harness.operations.watches.watch(PAGE, "every 6h")
    await harness.work()
    await harness.operations.documents.delete((await harness.document()).id)
    await look(harness)
    assert (site.visits(PAGE), await harness.outcomes()) == (1, {PAGE: "deleted"})
    assert (await harness.operations.watches.list_watches()).watches == []


async def test_a_watched_page_that_moves_is_watched_at_its_new_address(site: Site, harness: AppHarness) -> None:
    moved = "http://new.test/a"
    site.answers |= {
        PAGE: [Answer(page("here"), headers=HTML), Answer(status=301, headers={"Location": moved})],
        moved: Answer(page("here"), headers=HTML),
    }
    await harness.operations.watches.watch(PAGE, "every 6h")
    await harness.work()
    await look(harness)
    listed = (await harness.operations.watches.list_watches()).watches
    assert [(watch.url, watch.policy) for watch in listed] == [(moved, "every 6h")]
    assert wait_of(listed[0]) == 6 * HOUR


async def test_an_address_that_leads_to_a_page_of_its_host_watches_that_page(site: Site, harness: AppHarness) -> None:
    site.answers |= {
        PAGE: Answer(status=302, headers={"Location": OTHER}),
        OTHER: Answer(page("b"), headers=HTML),
    }
    await harness.operations.watches.watch(PAGE, "every 6h")
    await harness.operations.watches.watch(OTHER, "every 12h")
    await harness.work()
    watch = await harness.operations.watches.watch(OTHER, "every 8h")
    assert wait_of(watch) == 8 * HOUR
    await look(harness)
    assert await harness.operations.documents.count() == (1, 1)


async def test_pages_of_a_disabled_or_removed_source_are_left_alone(site: Site, harness: AppHarness) -> None:
    site.answers |= {FEED: rss(PAGE), PAGE: Answer(page("a"), headers=HTML)}
    operations = harness.operations
    await operations.sources.add(FEED, "news")
    await operations.sources.edit("news", {"refetch": "every 6h"})
    await harness.work()
    await operations.sources.set_enabled("news", enabled=False)
    await look(harness)
    assert (site.visits(PAGE), (await watch_of(harness)).next_at) == (1, None)
    await operations.sources.set_enabled("news", enabled=True)
    await look(harness)
    assert site.visits(PAGE) == 2
    await operations.sources.remove("news")
    await look(harness)
    assert (site.visits(PAGE), await harness.outcomes()) == (2, {PAGE: "unchanged"})


@pytest.mark.both_servers
async def test_processes_at_work_together_queue_each_due_page_once(site: Site, harness: AppHarness) -> None:
    urls = [f"http://h{n}.test/" for n in range(60)]
    site.answers |= {url: Answer(page(url), headers=HTML) for url in urls}
    for url in urls:
        await harness.operations.watches.watch(url, "every 6h")
    await harness.work()
    await backdate(harness, "watches.next_at", DAY)
    assert sum(await asyncio.gather(*[queue_due(harness) for _ in range(6)])) == len(urls)
    await harness.work()
    assert {site.visits(url) for url in urls} == {2}


async def test_a_page_that_still_waits_keeps_its_place_and_gets_another_time(harness: AppHarness) -> None:
    """The duty never resets the attempts of a waiting page, and a fetch that never ends does not end the watch."""
    await harness.operations.frontier.close_host("news.test")
    await harness.operations.watches.watch(PAGE, "every 6h")
    before = await harness.queued()
    await backdate(harness, "watches.next_at", 3 * DAY)
    assert await queue_due(harness) == 1
    assert await harness.queued() == before
    ((ahead,),) = await harness.rows("SELECT next_at - clock_timestamp() FROM watches")
    assert HOUR < ahead <= 6 * HOUR


async def test_an_unusable_watch_is_refused(harness: AppHarness) -> None:
    watches = harness.operations.watches
    with refused(Reason.BAD_REQUEST, "every 1m"):
        await watches.watch(PAGE, "every 1m")
    with refused(Reason.INVALID_URL):
        await watches.watch("ftp://news.test/", "adaptive")
    with refused(Reason.UNKNOWN_URL, PAGE):
        await watches.unwatch(PAGE)
    with refused(Reason.BAD_SOURCE, "refetch"):
        await harness.operations.sources.create("m", "manual", {"refetch": "often"})
    assert (await watches.list_watches()).watches == []


async def test_watched_pages_are_listed_in_pages(site: Site, harness: AppHarness) -> None:
    urls = [f"http://h{n}.test/" for n in range(5)]
    for url in urls:
        await harness.operations.watches.watch(url, "adaptive")
    first = await harness.operations.watches.list_watches(limit=3)
    rest = await harness.operations.watches.list_watches(limit=3, after=first.next or 0)
    assert [watch.url for watch in (*first.watches, *rest.watches)] == urls
    assert rest.next is None
