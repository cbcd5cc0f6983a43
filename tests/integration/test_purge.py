"""The purge of a source deletes all that belongs to it, and can be continued at any step (spec 1.5, 9.3)."""

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import asyncpg
import pytest

from headwater.app.maintenance import MaintenanceRole
from headwater.core.errors import OperatorError
from headwater.core.frontier import Origin
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db.frontier import record_sightings
from headwater.db.purge import PurgedSource, purge_urls
from headwater.documents import deletion, purge
from headwater.documents.purge import Purge
from tests import catalog
from tests.api import TOKEN, open_api
from tests.catalog import address, listing, serving, sync
from tests.database_state import count, find_wrong_counters, until_blocked
from tests.harness import AppHarness, open_harness
from tests.program import headwater
from tests.server import Site

pytestmark = pytest.mark.both_servers
TABLES = "items item_observations daily_index ingestion_jobs ingestion_handoffs runs poll_state source_sizes sightings"


@pytest.fixture(autouse=True)
def _catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog.install(monkeypatch)


async def fill(site: Site, harness: AppHarness) -> None:
    """Let `shop` list a, b and a missing page, and `stall` list b and c. Fetch all."""
    serving(site, "a", "b", "c")
    listing(site, a="A", b="B", missing="M")
    await sync(harness)
    await harness.work()
    listing(site, b="B", c="C")
    await sync(harness, "stall")
    await harness.work()


def raw_folders(harness: AppHarness) -> list[str]:
    corpus = harness.runtime.context.settings.data_dir / "corpus"
    return sorted(path.relative_to(corpus).parts[0] for path in corpus.glob("*/bodies/raw/*/*/*"))


async def assert_purged(harness: AppHarness) -> None:
    """Only the pages of `stall` are left, each with its raw file."""
    documents = await harness.documents()
    assert {url: document.source for url, document in documents.items()} == {
        address("b"): "stall",
        address("c"): "stall",
    }
    for document in documents.values():
        assert await harness.operations.documents.raw_file_matches(document)
    assert raw_folders(harness) == ["stall", "stall"]
    assert set(await harness.urls()) == {address("b"), address("c")}
    found = (await harness.operations.changes.list_changes(None, 100)).changes
    gone = {(change.what, change.url) for change in found if change.url in (address("a"), address("missing"))}
    assert gone == {("deleted", address("a")), ("failed", address("missing"))}
    assert [(change.what, change.url) for change in found if change.what == "new"] == [
        ("new", address("b")),
        ("new", address("c")),
    ]
    assert [row.name for row in await harness.operations.sources.list_sources()] == ["stall"]
    (size,) = (await harness.operations.upkeep.measure_disk()).sources
    assert (size.name, size.documents) == ("stall", 2)
    for table in TABLES.split():
        column = "item_id" if table == "item_observations" else "source_id"
        known = "items WHERE true" if table == "item_observations" else "sources WHERE name = 'stall'"
        strangers = await harness.rows(f"SELECT 1 FROM {table} WHERE {column} NOT IN (SELECT id FROM {known})")
        assert strangers == [], table
    assert await find_wrong_counters(harness) == []


async def test_a_purge_deletes_a_source_and_hands_shared_pages_over(site: Site, harness: AppHarness) -> None:
    """Spec 1.5: the source is gone; a page that another source lists stays, with its raw file."""
    await fill(site, harness)
    progress: list[tuple[int, int]] = []
    report = await harness.operations.upkeep.purge("shop", lambda *done: progress.append(done))
    assert (report.items, report.urls, report.documents, report.handed_over) == (3, 2, 1, 1)
    assert report.has_ended
    assert progress[-1][0] == progress[-1][1]
    await assert_purged(harness)
    with pytest.raises(OperatorError) as refused:
        await harness.operations.upkeep.purge("shop")
    assert refused.value.reason is Reason.UNKNOWN_SOURCE
    await harness.operations.frontier.retry([address("b")])
    await harness.work()
    assert raw_folders(harness) == ["stall", "stall"]
    listing(site, a="A")
    await sync(harness)
    await harness.work()
    assert (await harness.outcomes())[address("a")] == "stored", "a purged page may be fetched for a new source"


@pytest.mark.parametrize("steps", range(7))
async def test_an_interrupted_purge_is_not_hidden_and_maintenance_ends_it(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """Spec 9.3: a kill after any step leaves a mark, which keeps the name and lets the purge continue."""
    for module in (purge, deletion):
        monkeypatch.setattr(module, "BATCH", 1)
    await fill(site, harness)
    context = harness.runtime.context
    await harness.operations.upkeep.begin_purge("shop")
    ((source_id,),) = await harness.rows("SELECT id FROM sources WHERE name = 'shop'")
    async with aclosing(Purge(context, PurgedSource(source_id, "shop")).steps()) as running:
        for _ in range(steps):
            await anext(running)
    with pytest.raises(OperatorError) as refused:
        await harness.operations.sources.create("shop", "catalog", {})
    assert refused.value.reason is Reason.SOURCE_EXISTS
    for _ in range(3):
        await MaintenanceRole(context)._run_duties()
    await assert_purged(harness)


async def test_a_page_that_is_being_fetched_outlasts_the_purge_until_its_fetch_ends(
    site: Site, harness: AppHarness
) -> None:
    """Spec 2.5: the worker owns the page; maintenance deletes it afterwards."""
    await fill(site, harness)
    await harness.operations.frontier.retry([address("a")])
    await harness.execute(
        "UPDATE frontier_queue SET lease_holder = 'me', lease_token = gen_random_uuid(), "
        "lease_until = now() + interval '1 hour'"
    )
    report = await harness.operations.upkeep.purge("shop")
    assert not report.has_ended
    assert address("a") in await harness.documents()
    await harness.execute("UPDATE frontier_queue SET lease_holder = NULL, lease_token = NULL, lease_until = NULL")
    await MaintenanceRole(harness.runtime.context)._run_duties()
    await assert_purged(harness)


async def test_a_page_that_another_source_lists_during_the_purge_goes_to_that_source(
    site: Site, harness: AppHarness, database_url: str
) -> None:
    """Spec 1.5: the purge waits for a poll that notes a sighting, and sees it."""
    await fill(site, harness)
    polling = await asyncpg.connect(database_url)
    try:
        async with polling.transaction():
            ((stall,),) = await harness.rows("SELECT id FROM sources WHERE name = 'stall'")
            page_id = (await harness.urls())[address("a")].id
            now = harness.runtime.context.clock.now()
            known = {page_id: None}
            await record_sightings(polling, known, stall, Origin.FEED, fetched_before=now, priority=5, now=now)
            purging = asyncio.create_task(harness.operations.upkeep.purge("shop"))
            await until_blocked(harness)
        report = await purging
    finally:
        await polling.close()
    assert (report.documents, report.handed_over, report.has_ended) == (0, 2, True)
    documents = await harness.documents()
    assert documents[address("a")].source == "stall"
    assert await harness.operations.documents.raw_file_matches(documents[address("a")])


async def test_a_document_that_a_worker_stores_during_the_purge_is_handed_over(
    site: Site, harness: AppHarness, database_url: str
) -> None:
    """Spec 1.5: the purge waits for the worker, and moves the raw file of its first document."""
    await fill(site, harness)
    urls = await harness.urls()
    move = "UPDATE documents SET url_id = $2 WHERE url_id = $1"
    await harness.execute(move, urls[address("b")].id, urls[address("missing")].id)
    storing = await asyncpg.connect(database_url)
    try:
        async with storing.transaction():
            await storing.execute(move, urls[address("missing")].id, urls[address("b")].id)
            purging = asyncio.create_task(harness.operations.upkeep.purge("shop"))
            await until_blocked(harness)
        report = await purging
    finally:
        await storing.close()
    assert (report.documents, report.handed_over, report.has_ended) == (1, 1, True)
    await assert_purged(harness)


async def test_a_purge_that_maintenance_ends_first_has_ended(site: Site, harness: AppHarness) -> None:
    """Spec 1.5: and it leaves the folder of a new source with that name alone."""
    await fill(site, harness)
    context = harness.runtime.context
    await harness.operations.upkeep.begin_purge("shop")
    ((source_id,),) = await harness.rows("SELECT id FROM sources WHERE name = 'shop'")
    await MaintenanceRole(context)._run_duties()
    await assert_purged(harness)
    listing(site, a="A")
    await sync(harness)
    await harness.work()
    overtaken = Purge(context, PurgedSource(source_id, "shop"))
    async for _ in overtaken.steps():
        pass
    assert (overtaken.urls, overtaken.documents, overtaken.has_ended) == (0, 0, True)
    assert raw_folders(harness) == ["shop", "stall", "stall"]


async def test_a_deleted_page_that_another_source_lists_during_the_purge_is_kept(
    site: Site, harness: AppHarness, database_url: str
) -> None:
    """Spec 1.5: the purge waits for the poll that saves an item of the page, and sees the item."""
    serving(site, "a")
    await harness.fetch(address("a"))
    await harness.operations.documents.delete((await harness.document()).id)
    listing(site, c="C")
    await sync(harness)
    ((page_id, source_id),) = await harness.rows("SELECT id, source_id FROM url_frontier WHERE url = $1", address("a"))
    await harness.execute("DELETE FROM items WHERE url_id = $1", page_id)
    database = harness.runtime.context.database
    polling = await asyncpg.connect(database_url)
    try:
        async with polling.transaction():
            await polling.execute("UPDATE items SET url_id = $1", page_id)
            purging = asyncio.create_task(database.transact(purge_urls, [page_id], source_id))
            await until_blocked(harness)
        assert await purging == 0
    finally:
        await polling.close()
    assert address("a") in await harness.urls()


async def test_a_purge_deletes_sightings_in_bounded_steps(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 2.5: no statement deletes them all with the source."""
    await fill(site, harness)
    listing(site, a="A", b="B", missing="M")
    await sync(harness, "later")
    ((source_id,),) = await harness.rows("SELECT id FROM sources WHERE name = 'later'")
    await harness.operations.upkeep.begin_purge("later")
    monkeypatch.setattr(purge, "BATCH", 2)
    left = [3]
    async for _ in Purge(harness.runtime.context, PurgedSource(source_id, "later")).steps():
        left.append(await count(harness, "sightings", f"source_id = {source_id}"))
    assert sorted(set(left)) == [0, 1, 3]


async def test_a_raw_file_that_cannot_be_moved_stops_no_other_purge(site: Site, harness: AppHarness) -> None:
    """Spec 1.5: the purge of its source waits, and ends when the file can be moved."""
    await fill(site, harness)
    serving(site, "d")
    listing(site, d="D")
    await sync(harness, "later")
    await harness.work()
    file = harness.runtime.context.settings.data_dir / "corpus" / (await harness.documents())[address("b")].raw_path
    body = file.read_bytes()
    file.unlink()
    file.mkdir()
    for name in ("shop", "later"):
        await harness.operations.upkeep.begin_purge(name)
    await MaintenanceRole(harness.runtime.context)._run_duties()
    assert address("d") not in await harness.urls()
    assert address("b") in await harness.documents()
    file.rmdir()
    file.write_bytes(body)
    await MaintenanceRole(harness.runtime.context)._run_duties()
    await assert_purged(harness)


@pytest.fixture
async def filled(site: Site, make_settings: Callable[..., Settings]) -> Settings:
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as harness:
        await fill(site, harness)
    return settings


async def test_the_command_asks_and_purges(filled: Settings, tmp_path: Path) -> None:
    """Spec 8.2."""
    settings = {"data_dir": filled.data_dir, "database_url": filled.database_url}
    command = ("source", "remove", "shop", "--purge")
    refused = await asyncio.to_thread(headwater, *command, cwd=tmp_path, **settings)
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    purged = await asyncio.to_thread(headwater, *command, "--yes", "--json", cwd=tmp_path, **settings)
    assert json.loads(purged.stdout)["has_ended"] is True
    async with open_harness(filled) as harness:
        await assert_purged(harness)


async def test_the_api_begins_a_purge(filled: Settings) -> None:
    """Spec 8.1: the running program deletes the rest."""
    async with open_api(filled) as api:
        status, begun = await api.request("POST", "/sources/shop/purge")
        assert (status, begun) == (202, {"name": "shop", "items": 3, "urls": 3})
    async with open_harness(filled) as harness:
        await MaintenanceRole(harness.runtime.context)._run_duties()
        await assert_purged(harness)
