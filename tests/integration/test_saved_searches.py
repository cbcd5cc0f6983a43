"""Saved searches: receivers get the documents that match, once each, and no search reads the corpus (spec 11.11)."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from headwater.app.roles import run_roles
from headwater.changes.operations import NewWebhook
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db import search
from headwater.notify import matching
from headwater.notify.matching import MatcherRole
from headwater.notify.operations import SearchTerms
from tests.api import TOKEN, Api
from tests.harness import AppHarness, open_harness
from tests.integration.test_search import PAGES, write_page
from tests.integration.test_webhooks import delivering, until_settled
from tests.receiver import ReceiverServer
from tests.refusals import refused
from tests.server import Site


@pytest.fixture
async def harness(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    site.answers.update(PAGES)
    settings = make_settings(connect_to=site.connect_to, allow_networks=("127.0.0.0/8",))
    async with open_harness(settings) as opened:
        yield opened


@pytest.fixture
def api_settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings(api_token=TOKEN)


async def watch(harness: AppHarness, url: str, words: str = "flooded", since: str | None = "c0") -> None:
    await harness.operations.saved_searches.add("floods", SearchTerms(words))
    await harness.operations.webhooks.add(NewWebhook("hook", url, since=since, search="floods"))


async def deliver_all(harness: AppHarness) -> None:
    await harness.operations.webhooks.list_webhooks()  # numbers the changes
    await harness.runtime.matcher.match_all()
    async with delivering(harness):
        await until_settled(harness)


async def test_a_webhook_with_a_search_gets_the_documents_that_match(harness: AppHarness) -> None:
    async with ReceiverServer() as receiver:
        await watch(harness, receiver.url("hook"))
        await harness.fetch(*PAGES)
        await deliver_all(harness)
        assert [one.payload["url"] for one in receiver.received("hook")] == ["http://en.test/river"]
        assert await harness.runtime.matcher.match_all() == 0


async def test_it_gets_later_changes_of_documents_that_it_has_got(harness: AppHarness, site: Site) -> None:
    """Also a change after which the document no longer matches, and its deletion: the receiver can follow."""
    async with ReceiverServer() as receiver:
        await watch(harness, receiver.url("hook"))
        await harness.fetch(*PAGES)
        await deliver_all(harness)
        site.answers["http://en.test/river"] = write_page("en", "Rivers are low", "The meadows are dry again.")
        await harness.operations.frontier.retry(["http://en.test/river"])
        await harness.work()
        await deliver_all(harness)
        (document,) = [one for url, one in (await harness.documents()).items() if url == "http://en.test/river"]
        await harness.operations.documents.delete(document.id)
        await deliver_all(harness)
        events = [(one.payload["event"], one.payload["what"]) for one in receiver.received("hook")]
        assert events == [
            ("document.ready", "new"),
            ("document.ready", "changed"),
            ("document.deleted", "deleted"),
        ]
        assert await harness.rows("SELECT FROM reported_documents") == []


async def test_a_webhook_with_a_search_gets_only_events_of_documents(harness: AppHarness) -> None:
    await harness.operations.saved_searches.add("floods", SearchTerms("flooded"))
    for events in (["alarm"], ["job.failed"], ["document.ready", "alarm"]):
        with refused(Reason.BAD_REQUEST, "events"):
            await harness.operations.webhooks.add(NewWebhook("hook", "http://a.test/", events, search="floods"))
    added = await harness.operations.webhooks.add(NewWebhook("hook", "http://a.test/", search="floods"))
    assert added.events == ["document.ready", "document.deleted"]


async def test_a_search_is_evaluated_for_changed_documents_only(
    harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change is read once for each receiver, in batches, and documents are read by their ids."""
    asked: list[list[int]] = []
    match = search.match_documents

    async def spy(connection, request, ids):  # type: ignore[no-untyped-def]
        asked.append(sorted(ids))
        return await match(connection, request, ids)

    monkeypatch.setattr(search, "match_documents", spy)
    monkeypatch.setattr(matching, "CHANGES_AT_ONCE", 4)
    await harness.fetch(*PAGES)
    await watch(harness, "http://127.0.0.1:9/hook")
    await harness.operations.webhooks.list_webhooks()
    assert await harness.runtime.matcher.match_all() == 1
    ids = [one.id for one in (await harness.documents()).values()]
    assert sorted(one for batch in asked for one in batch) == sorted(ids)
    assert max(map(len, asked)) == 4


async def test_the_matcher_gives_each_receiver_its_turn(harness: AppHarness) -> None:
    await harness.fetch(*PAGES)
    for name, words in (("rivers", "river"), ("nothing", "zebra"), ("german", "lang:de")):
        await harness.operations.saved_searches.add(name, SearchTerms(words))
        hook = NewWebhook(name, "http://127.0.0.1:9/", since="c0", search=name)
        await harness.operations.webhooks.add(hook)
    await harness.operations.webhooks.list_webhooks()
    assert await harness.runtime.matcher.match_all() == 3
    waiting = {one.name: one.waiting for one in await harness.operations.webhooks.list_webhooks()}
    assert waiting == {"rivers": 2, "nothing": 0, "german": 1}


async def test_filters_of_a_removed_source_match_nothing(harness: AppHarness) -> None:
    await harness.fetch("http://en.test/river")
    await watch(harness, "http://127.0.0.1:9/", "flooded")
    await harness.execute("UPDATE saved_searches SET source = 'gone'")
    assert await harness.runtime.matcher.match_all() == 0


async def test_the_role_matches_until_it_is_stopped(harness: AppHarness) -> None:
    await harness.fetch(*PAGES)
    await watch(harness, "http://127.0.0.1:9/")
    await harness.operations.webhooks.list_webhooks()
    stop = asyncio.Event()
    working = asyncio.create_task(
        run_roles([MatcherRole(harness.runtime.matcher, harness.runtime.digest_maker, look_seconds=0.02)], stop)
    )
    while not (await harness.rows("SELECT count(*) FROM deliveries"))[0][0]:
        await asyncio.sleep(0.01)
    stop.set()
    await working


async def test_a_search_that_cannot_find_anything_is_refused(harness: AppHarness) -> None:
    saved = harness.operations.saved_searches
    for words in ("", "  ", "before:never", "-"):
        with refused(Reason.BAD_REQUEST, "words"):
            await saved.add("one", SearchTerms(words))
    with refused(Reason.BAD_REQUEST, "name"):
        await saved.add("../One", SearchTerms("river"))
    with refused(Reason.UNKNOWN_SOURCE):
        await saved.add("one", SearchTerms("river", source="none"))
    with refused(Reason.UNKNOWN_SAVED_SEARCH):
        await harness.operations.webhooks.add(NewWebhook("hook", "http://a.test/", search="none"))


async def test_a_saved_search_is_added_changed_and_removed(api: Api) -> None:
    status, added = await api.post("/saved-searches/floods", {"words": "flood", "language": "en"})
    assert (status, added["name"], added["words"], added["receivers"]) == (201, "floods", "flood", 0)
    status, again = await api.post("/saved-searches/floods", {"words": "storm"})
    assert (status, again["error"]["reason"]) == (409, "saved_search_exists")
    status, changed = await api.request("PUT", "/saved-searches/floods", {"words": "storm"})
    assert (changed["words"], changed["language"]) == ("storm", None)
    await api.post("/webhooks", {"name": "hook", "url": "http://a.test/", "search": "floods"})
    _, listed = await api.get("/saved-searches")
    assert [one["receivers"] for one in listed["saved_searches"]] == [1]
    assert await api.request("DELETE", "/saved-searches/floods") == (200, {"name": "floods"})
    assert (await api.get("/webhooks"))[1] == {"webhooks": []}
    for method, body in (("GET", None), ("PUT", {"words": "x"}), ("DELETE", None)):
        status, answer = await api.request(method, "/saved-searches/floods", body)
        assert (status, answer["error"]["reason"]) == (404, "unknown_saved_search")
