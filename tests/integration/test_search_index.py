"""The index `raw_content` in a real OpenSearch node (spec 4.4, 11.10; issue 23)."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.search.feeder import IndexFeeder, IndexRole
from headwater.search.index_client import BulkLine, IndexClient, IndexLost
from headwater.search.index_format import make_template
from tests.harness import AppHarness, open_harness
from tests.integration.test_search import PAGES, SEARCHES, find, paths, write_page
from tests.opensearch import OpenSearchNode, run_opensearch, why_missing
from tests.program import headwater, program_settings
from tests.server import Site

pytestmark = pytest.mark.skipif(why_missing() is not None, reason=why_missing() or "")
STRICT = "strict"


@pytest.fixture(scope="module")
def opensearch() -> Iterator[OpenSearchNode]:
    with run_opensearch() as node:
        yield node


@pytest.fixture
def node(opensearch: OpenSearchNode) -> Iterator[OpenSearchNode]:
    """A node without indexes."""
    opensearch.start()
    yield opensearch
    if opensearch.call("GET", "/_cat/indices/raw_content-*?format=json"):
        opensearch.call("DELETE", "/raw_content-1,raw_content-2,raw_content-3?ignore_unavailable=true")


@pytest.fixture
async def indexed(
    node: OpenSearchNode, site: Site, make_settings: Callable[..., Settings]
) -> AsyncIterator[AppHarness]:
    """Headwater with an index."""
    site.answers.update(PAGES)
    settings = make_settings(connect_to=site.connect_to, search_url=node.url)
    async with open_harness(settings) as harness:
        yield harness


async def feed(harness: AppHarness) -> None:
    """Feed the index until nothing waits."""
    feeder = harness.runtime.index_feeder
    assert feeder
    for _ in range(200):
        sent = await feeder.step()
        status = await harness.operations.search.get_index()
        assert status.state
        if not sent and not status.waiting and status.state.building is None:
            return
        await asyncio.sleep(0 if sent else 0.05)
    raise AssertionError(status)


async def stored(harness: AppHarness) -> dict[str, tuple[str, str]]:
    """Return the titles and texts of all documents by id."""
    return {str(one.id): (one.title, one.text) for one in (await harness.documents()).values()}


def held(node: OpenSearchNode) -> dict[str, tuple[str, str]]:
    """Return the titles and texts in the index by id."""
    return {number: (one["title"], one["text"]) for number, one in node.documents().items()}


async def test_searches_find_the_same_in_the_index_as_in_postgresql(indexed: AppHarness, node: OpenSearchNode) -> None:
    """Spec 4.4: the same search over both."""
    await indexed.fetch(*PAGES)
    await feed(indexed)
    assert held(node) == await stored(indexed)
    found = {words: await find(indexed, words) for words, _ in SEARCHES}
    assert found == dict(SEARCHES)
    hits = await indexed.operations.search.find("river", limit=1)
    assert (hits.total, hits.has_more, len(hits.hits)) == (2, False, 1)
    more = await indexed.operations.search.find("river", limit=1, cursor=hits.next)
    assert paths(hits) | paths(more) == {"en.test/river", "en.test/budget"}
    assert more.next is None
    newest = await indexed.operations.search.find("lang:zh lang:fr", limit=1, newest_first=True)
    older = await indexed.operations.search.find("lang:zh lang:fr", limit=1, newest_first=True, cursor=newest.next)
    assert [paths(newest), paths(older)] == [{"fr.test/ete"}, {"zh.test/1"}]
    (hit,) = (await indexed.operations.search.find("uberflutet")).hits
    assert [part.text for part in hit.snippet if part.is_match] == ["überflutet"]


async def test_changes_and_deletions_follow_in_order(indexed: AppHarness, node: OpenSearchNode, site: Site) -> None:
    """Spec 4.4: the order per document."""
    url = "http://en.test/river"
    await indexed.fetch(*PAGES)
    await feed(indexed)
    site.answers[url] = write_page("en", "Rivers fall", "The water is low.")
    await indexed.operations.frontier.retry([url])
    await indexed.work()
    document = (await indexed.documents())["http://en.test/budget"]
    await indexed.operations.documents.delete(document.id)
    assert (await indexed.operations.search.get_index()).waiting == 2
    await feed(indexed)
    assert held(node) == await stored(indexed)
    assert len(held(node)) == len(PAGES) - 1
    client = indexed.runtime.index_feeder.client  # type: ignore[union-attr]
    late = BulkLine(document.id, 1, {"id": document.id, "title": "late", "text": "late"})
    assert (await client.bulk("raw_content-1", [late]))[0].refusal is None
    assert str(document.id) not in held(node)


async def test_a_node_that_dies_in_an_ingest_loses_nothing_and_doubles_nothing(
    indexed: AppHarness, node: OpenSearchNode, site: Site
) -> None:
    """Issue 23: stop the node in mid-ingest and start it again."""
    pages = {f"http://a.test/{number}": write_page("en", f"Ferry {number}", f"ferry {number}") for number in range(40)}
    site.answers.update(pages)
    role = IndexRole(indexed.runtime.index_feeder, look_seconds=0.02)  # type: ignore[arg-type]
    stop = asyncio.Event()
    running = asyncio.create_task(role.run(stop, 1.0))
    await indexed.fetch(*list(pages)[:20])
    node.kill()
    await indexed.fetch(*list(pages)[20:])
    status = await indexed.operations.search.get_index()
    assert status.state
    assert len(await find(indexed, "ferry", limit=100)) == 40  # PostgreSQL answers meanwhile
    node.start()  # in this thread: the node ends with the thread that started it
    await indexed.execute("UPDATE search_index SET not_before = NULL")
    stop.set()
    await running
    await feed(indexed)
    assert held(node) == await stored(indexed)
    assert len(held(node)) == 40
    status = await indexed.operations.search.get_index()
    assert status.state
    assert (status.waiting, status.parked, status.state.failures) == (0, 0, 0)


async def test_a_refused_document_is_parked_and_blocks_no_other(
    indexed: AppHarness, node: OpenSearchNode, site: Site
) -> None:
    """Issue 23: the mapping rejects a document, which is named with the reason."""
    template: dict[str, Any] = make_template()
    template["template"]["mappings"]["properties"]["language"] = {"type": "long"}
    template["priority"] = 300
    node.call("PUT", f"/_index_template/{STRICT}", template)
    plain = write_page("en", "Plain", "No language.")
    site.answers["http://x.test/1"] = replace(plain, body=str(plain.body).replace('lang="en"', ""))
    await indexed.fetch("http://x.test/1", "http://de.test/x", "http://www.de.test/fluss")
    await feed(indexed)
    status = await indexed.operations.search.get_index()
    assert [one.url for one in status.refused] == ["http://www.de.test/fluss"]
    assert "language" in str(status.refused[0].detail)
    assert [one["title"] for one in node.documents().values()] == ["Plain"]
    assert await indexed.rows("SELECT reason FROM index_changes") == [(Reason.INDEX_REFUSED.value,)]
    node.call("DELETE", f"/_index_template/{STRICT}")
    done = await indexed.operations.search.reindex()
    assert done.index
    assert done.index.state
    assert (done.index.state.current, done.index.state.retired) == ("raw_content-2", "raw_content-1")
    await feed(indexed)
    assert held(node) == await stored(indexed)
    assert (await indexed.operations.search.get_index()).parked == 0


async def test_a_rebuild_misses_no_change_that_comes_meanwhile_and_removes_the_old_index(
    indexed: AppHarness, node: OpenSearchNode, site: Site
) -> None:
    """Issue 23: alias swap."""
    await indexed.fetch(*PAGES)
    await feed(indexed)
    feeder = indexed.runtime.index_feeder
    assert feeder
    await feeder.begin()
    state = await feeder.get_state()
    assert state
    assert await feeder.build_page(state) == len(PAGES)
    site.answers["http://en.test/river"] = write_page("en", "Rivers fall", "The water is low.")
    await indexed.operations.frontier.retry(["http://en.test/river"])
    await indexed.work()
    await indexed.operations.documents.delete((await indexed.documents())["http://en.test/budget"].id)
    await feed(indexed)
    assert held(node) == await stored(indexed)
    assert set(node.call("GET", "/_alias/raw_content")) == {"raw_content-2"}
    await indexed.execute("UPDATE search_index SET retired_at = retired_at - $1::interval", timedelta(minutes=5))
    await feed(indexed)
    assert [row["index"] for row in node.call("GET", "/_cat/indices/raw_content*?format=json")] == ["raw_content-2"]


async def test_a_server_that_is_no_index_is_named(indexed: AppHarness, site: Site) -> None:
    """Spec 8.2: the error names the server."""
    feeder = indexed.runtime.index_feeder
    assert feeder
    client = IndexClient(feeder.client._client, "http://user:secret@127.0.0.1:9/", "test")
    assert client.place == "127.0.0.1:9"
    with pytest.raises(IndexLost) as caught:
        await client.get_version()
    assert (caught.value.reason, "secret" in str(caught.value)) == (Reason.INDEX_LOST, False)
    await indexed.fetch("http://en.test/river")
    assert await IndexFeeder(indexed.runtime.context, client).step() == 0
    state = await feeder.get_state()
    assert state
    assert (state.failures, state.current) == (1, None)
    assert await find(indexed, "river") == {"en.test/river"}


async def test_the_doctor_metrics_and_the_command_line_show_the_index(
    indexed: AppHarness, node: OpenSearchNode, tmp_path: Path
) -> None:
    """Issue 23."""
    settings = program_settings(indexed.runtime.context.settings) | {"search_url": node.url}

    async def run(*words: str) -> Any:
        shown = await asyncio.to_thread(headwater, *words, "--json", cwd=tmp_path, **settings)
        return json.loads(shown.stdout)

    await indexed.fetch("http://en.test/river")
    await feed(indexed)
    checks = {check["name"]: check for check in (await run("doctor"))["checks"]}
    assert [checks[name]["state"] for name in ("search url", "raw content")] == ["ok", "ok"]
    await indexed.execute("INSERT INTO index_changes (document_id, version, reason) VALUES (77, 1, 'index_refused')")
    assert (await run("search", "index"))["parked"] == 1
    assert {one["name"]: one for one in (await run("doctor"))["checks"]}["raw content"]["state"] == "warning"
    metrics = (await indexed.operations.measure()).decode()
    assert 'headwater_index_changes{status="parked"} 1.0' in metrics
    done = await run("search", "reindex")
    assert (done["documents"], done["index"]["state"]["current"]) == (1, "raw_content-2")
    assert len(node.documents()) == 1
