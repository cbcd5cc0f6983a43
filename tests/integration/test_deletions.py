"""Deleting documents: on request and by the retention of a source (spec 1.5, 8.5, 9.3)."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from headwater.app.maintenance import MaintenanceRole, rescue_expired
from headwater.changes.operations import NewWebhook
from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db.jobs import JobFilter
from headwater.documents import deletion
from headwater.frontier.claim import claim
from headwater.storage.corpus_copy import CorpusCopy
from headwater.storage.folder import Corpus
from tests import catalog
from tests.api import TOKEN, open_api
from tests.catalog import HTML, address, listing, serving, sync
from tests.database_state import backdate, until_blocked
from tests.harness import AppHarness, open_harness
from tests.program import headwater
from tests.server import Answer, Site, page
from tests.waiting import until

pytestmark = pytest.mark.both_servers
URL = "http://news.test/a"
NOTE = "<p>Correction: an earlier version of this report named the wrong council, for which we apologise.</p>"


@pytest.fixture(autouse=True)
def _catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog.install(monkeypatch)


def raw_files(harness: AppHarness) -> list[str]:
    corpus = harness.runtime.context.settings.data_dir / "corpus"
    return sorted(path.name for path in corpus.glob("*/bodies/raw/*/*/*"))


async def upkeep(harness: AppHarness) -> None:
    """Run the duties of maintenance once."""
    await MaintenanceRole(harness.runtime.context)._run_duties()


async def changes(harness: AppHarness, since: str | None = None) -> list[tuple[str, str]]:
    found = await harness.operations.changes.list_changes(since, 100)
    return [(change.what, change.url) for change in found.changes]


async def test_a_deleted_document_leaves_a_change_and_nothing_else(site: Site, harness: AppHarness) -> None:
    """Spec 8.5: the change feed reports it; text, revisions and raw file are gone, and another page keeps its own."""
    bodies = [page("flood defences"), page("flood defences", extra=NOTE)]
    site.answers[URL] = [Answer(body, headers=HTML) for body in bodies]
    site.answers["http://news.test/b"] = Answer(page("flood defences"), headers=HTML)
    await harness.fetch(URL, "http://news.test/b")
    await harness.operations.frontier.retry([URL])
    await harness.work()
    documents = await harness.documents()
    end = (await harness.operations.changes.list_changes(None, 100)).next
    deleted = await harness.operations.documents.delete(documents[URL].id)
    assert deleted.id == documents[URL].id
    assert set(await harness.documents()) == {"http://news.test/b"}
    assert len(raw_files(harness)) == 1
    assert (await harness.operations.documents.count()).texts == 1
    (change,) = (await harness.operations.changes.list_changes(end, 100)).changes
    assert (change.event, change.what, change.url, change.document) == ("document.deleted", "deleted", URL, None)
    assert change.deleted is not None
    assert (change.deleted.id, change.deleted.reason) == (deleted.id, Reason.DELETED)
    assert {what for what, url in await changes(harness) if url == URL} == {"deleted"}
    with pytest.raises(HeadwaterError) as refused:
        await harness.operations.documents.delete(deleted.id)
    assert refused.value.reason is Reason.UNKNOWN_DOCUMENT


async def test_a_deleted_page_is_fetched_again_only_by_a_retry(site: Site, harness: AppHarness) -> None:
    """Spec 2.2: neither a listing nor a changed payload fetches it; a retry does, without conditions."""
    listing(site, a="A")
    site.answers[address("a")] = Answer(page("a story"), headers={**HTML, "ETag": '"1"'})
    await sync(harness)
    await harness.work()
    await harness.operations.documents.delete((await harness.document()).id)
    assert await harness.outcomes() == {address("a"): "deleted"}
    why = await harness.operations.why(address("a"))
    assert (why.status, why.reason, why.queued, why.document) == ("dead", Reason.DELETED, None, None)
    for title in ("A", "Another title"):
        listing(site, a=title)
        await sync(harness)
        await harness.work()
    await harness.operations.frontier.submit([address("a")])
    await harness.work()
    assert site.visits(address("a")) == 1
    (*_, job) = (await harness.operations.handoffs.list_jobs(JobFilter(reason=Reason.DELETED))).jobs
    assert job.document_id is None
    await harness.operations.frontier.retry([address("a")])
    await harness.work()
    assert await harness.outcomes() == {address("a"): "stored"}
    assert "If-None-Match" not in site.seen[-1].headers
    assert len(raw_files(harness)) == 1
    assert (await harness.operations.handoffs.list_jobs(JobFilter())).jobs[0].status == "ready"


async def test_a_page_that_is_being_fetched_keeps_its_document(site: Site, harness: AppHarness) -> None:
    """Spec 2.5: the fetch owns the page; the deletion is refused for now."""
    site.answers[URL] = Answer(page("a story"), headers=HTML)
    await harness.fetch(URL)
    await harness.operations.frontier.retry([URL])
    context = harness.runtime.context
    await claim(
        context.database,
        now=context.clock.now() + timedelta(seconds=5),
        lease=timedelta(seconds=10),
        holder="me",
        limit=1,
        default_delay_ms=0,
    )
    document = await harness.document()
    with pytest.raises(HeadwaterError) as refused:
        await harness.operations.documents.delete(document.id)
    assert refused.value.reason is Reason.BUSY
    assert await harness.operations.documents.raw_file_matches(document)


async def test_the_raw_file_stays_while_a_backup_or_a_fetch_may_need_it(site: Site, harness: AppHarness) -> None:
    """Spec 1.5, 9.1: maintenance removes it later; a page that was fetched again keeps its new file."""
    site.answers[URL] = Answer(page("a story"), headers=HTML)
    await harness.fetch(URL)
    corpus = Corpus(harness.runtime.context.settings.data_dir / "corpus")
    with CorpusCopy(corpus, corpus.folder.parent / "backup").locked():
        await harness.operations.documents.delete((await harness.document()).id)
        assert len(raw_files(harness)) == 1
        await harness.operations.frontier.retry([URL])
    await upkeep(harness)
    assert len(raw_files(harness)) == 1, "the page waits for a fetch"
    await harness.work()
    await upkeep(harness)
    assert await harness.operations.documents.raw_file_matches(await harness.document())
    await harness.operations.documents.delete((await harness.document()).id)
    assert raw_files(harness) == []


async def test_a_raw_file_that_cannot_be_removed_stops_no_other_deletion(site: Site, harness: AppHarness) -> None:
    """Spec 1.5: its row stays, and maintenance removes the file when that is possible."""
    for name in ("a", "b"):
        site.answers[address(name)] = Answer(page(f"all about {name}"), headers=HTML)
    await harness.fetch(address("a"), address("b"))
    documents = await harness.documents()
    file = harness.runtime.context.settings.data_dir / "corpus" / documents[address("a")].raw_path
    file.unlink()
    file.mkdir()
    (file / "blocker").touch()
    await harness.operations.documents.delete(documents[address("a")].id)
    await harness.operations.documents.delete(documents[address("b")].id)
    await upkeep(harness)
    assert raw_files(harness) == [file.name]
    assert await harness.rows("SELECT path FROM unused_raw_files") == [(documents[address("a")].raw_path,)]
    (file / "blocker").unlink()
    file.rmdir()
    await upkeep(harness)
    assert await harness.rows("SELECT path FROM unused_raw_files") == []


async def test_a_duty_that_fails_stops_neither_the_later_duties_nor_the_role(site: Site, harness: AppHarness) -> None:
    """Spec 9.3: an unexpected error of a duty is logged."""
    site.answers[URL] = Answer(page("a story"), headers=HTML)
    await harness.fetch(URL)
    corpus = Corpus(harness.runtime.context.settings.data_dir / "corpus")
    with CorpusCopy(corpus, corpus.folder.parent / "backup").locked():
        await harness.operations.documents.delete((await harness.document()).id)
    await harness.execute("ALTER TABLE watches RENAME TO broken")
    stop = asyncio.Event()
    running = asyncio.create_task(MaintenanceRole(harness.runtime.context).run(stop, 0))
    await until(lambda: running.done() or not raw_files(harness))
    stop.set()
    await running


async def test_a_removal_of_raw_files_reads_no_more_of_them_than_it_can_remove(
    site: Site, harness: AppHarness, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 2.5: during a backup it ends at the first page; after a deletion it reads the files of that page only."""
    monkeypatch.setattr(deletion, "BATCH", 1)
    for name in ("a", "b", "c"):
        site.answers[address(name)] = Answer(page(f"all about {name}"), headers=HTML)
        await harness.fetch(address(name))
    documents, delete = await harness.documents(), harness.operations.documents.delete
    corpus = Corpus(harness.runtime.context.settings.data_dir / "corpus")
    locker = await asyncpg.connect(database_url)
    try:
        with CorpusCopy(corpus, corpus.folder.parent / "backup").locked():
            await delete(documents[address("a")].id)
            await delete(documents[address("b")].id)
            async with locker.transaction(), asyncio.timeout(20):
                await locker.execute("SELECT FROM url_frontier WHERE url = $1 FOR UPDATE", address("b"))
                await deletion.remove_unused_files(harness.runtime.context)
        async with locker.transaction(), asyncio.timeout(20):
            await locker.execute("SELECT FROM url_frontier WHERE url <> $1 FOR UPDATE", address("c"))
            await delete(documents[address("c")].id)
            assert len(raw_files(harness)) == 2
    finally:
        await locker.close()


async def test_two_pages_that_share_a_text_can_be_deleted_at_once(site: Site, harness: AppHarness) -> None:
    """Spec 1.4: a text stays as long as a document has it, and no longer."""
    urls = [f"http://news.test/{number}" for number in range(4)]
    for url in urls:
        site.answers[url] = Answer(page("one story"), headers=HTML)
    await harness.fetch(*urls)
    ids = [document.id for document in (await harness.documents()).values()]
    await asyncio.gather(*map(harness.operations.documents.delete, ids))
    counts = await harness.operations.documents.count()
    assert (counts.documents, counts.texts) == (0, 0)


async def test_the_jobs_of_a_deleted_document_fail(site: Site, harness: AppHarness) -> None:
    """Spec 7.3: no ready job names a document that is gone, and the retry makes it ready again."""
    listing(site, a="A")
    serving(site, "a")
    await sync(harness)
    await harness.work()
    await harness.operations.documents.delete((await harness.document()).id)
    (job,) = (await harness.operations.handoffs.list_jobs(JobFilter())).jobs
    assert (job.status, job.reason, job.document_id) == ("failed", Reason.DELETED, None)


async def test_retention_deletes_documents_that_were_fetched_too_long_ago(site: Site, harness: AppHarness) -> None:
    """Spec 1.5: a source keeps all by default; `keep_days` deletes older documents, which no listing fetches again."""
    listing(site, a="A", b="B")
    serving(site, "a", "b")
    await sync(harness)
    await harness.work()
    await harness.execute(
        "UPDATE documents SET fetched_at = fetched_at - interval '40 days' WHERE url_id IN "
        "(SELECT id FROM url_frontier WHERE url = $1)",
        address("a"),
    )
    await harness.execute(
        "UPDATE url_frontier SET last_fetched_at = last_fetched_at - interval '40 days' WHERE url = $1", address("a")
    )
    await upkeep(harness)
    assert len(await harness.documents()) == 2
    (source,) = {document.source for document in (await harness.documents()).values()}
    await harness.operations.sources.edit(source, {"keep_days": 30})
    await upkeep(harness)
    assert await harness.outcomes() == {address("a"): "expired", address("b"): "stored"}
    assert len(raw_files(harness)) == 1
    await sync(harness)
    await harness.work()
    assert site.visits(address("a")) == 1
    assert [what for what, url in await changes(harness) if url == address("a")] == ["deleted", "deleted", "failed"]


async def test_retention_keeps_a_page_that_is_fetched_again_meanwhile(
    site: Site, harness: AppHarness, database_url: str
) -> None:
    """Spec 1.5: the age counts that the document has when its URL is locked."""
    listing(site, a="A")
    serving(site, "a")
    await sync(harness)
    await harness.work()
    await harness.operations.sources.edit("shop", {"keep_days": 30})
    await backdate(harness, "documents.fetched_at", timedelta(days=40))
    await backdate(harness, "url_frontier.last_fetched_at", timedelta(days=40))
    fetching = await asyncpg.connect(database_url)
    try:
        async with fetching.transaction():
            await fetching.execute("UPDATE url_frontier SET last_fetched_at = now()")
            expiring = asyncio.create_task(deletion.Retention(harness.runtime.context).step())
            await until_blocked(harness)
        assert await expiring == 0
    finally:
        await fetching.close()
    assert await harness.outcomes() == {address("a"): "stored"}


async def test_sizes_of_sources_follow_each_change_of_a_document(site: Site, harness: AppHarness) -> None:
    """Spec 2.5: counters know the disk use of a source without a scan of its documents."""
    site.answers[URL] = [Answer(page("flood"), headers=HTML), Answer(page("flood", extra=NOTE), headers=HTML)]
    await harness.fetch(URL)
    for step in ("stored", "changed", "deleted"):
        documents = (await harness.documents()).values()
        (size,) = (await harness.operations.upkeep.measure_disk("manual")).sources
        assert size.documents == len(documents), step
        assert size.raw_bytes == sum(document.raw_bytes for document in documents), step
        assert size.text_bytes == sum(len(document.text.encode()) for document in documents), step
        await upkeep(harness)
        if step == "stored":
            await harness.operations.frontier.retry([URL])
            await harness.work()
        elif step == "changed":
            await harness.operations.documents.delete((await harness.document()).id)
    report = await harness.operations.upkeep.measure_disk()
    assert report.database_bytes > 1_000_000


async def test_a_webhook_hears_of_a_deletion_only_if_it_subscribed(site: Site, harness: AppHarness) -> None:
    """Spec 4.3, 8.5."""
    webhooks = harness.operations.webhooks
    await webhooks.add(NewWebhook("ready", "http://receiver.test/", events=["document.ready"]))
    await webhooks.add(NewWebhook("gone", "http://receiver.test/", events=["document.deleted"]))
    site.answers[URL] = Answer(page("a story"), headers=HTML)
    await harness.fetch(URL)
    await harness.operations.documents.delete((await harness.document()).id)
    waiting = {webhook.name: webhook.waiting for webhook in await webhooks.list_webhooks()}
    assert waiting == {"ready": 1, "gone": 1}


@pytest.fixture
async def stored(site: Site, make_settings: Callable[..., Settings]) -> Settings:
    """Settings of a database with one document."""
    site.answers[URL] = Answer(page("a story"), headers=HTML)
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as harness:
        await harness.fetch(URL)
        await rescue_expired(harness.runtime.context)
    return settings


async def test_the_api_deletes_a_document_with_the_token(stored: Settings) -> None:
    """Spec 8.1: a request that writes needs the token."""
    async with open_api(stored) as api:
        _, found = await api.get("/documents")
        path = f"/documents/{found['documents'][0]['id']}"
        status, answer = await api.request("DELETE", path, token=None)
        assert (status, answer["error"]["reason"]) == (401, "token_required")
        assert await api.request("DELETE", path) == (200, {"id": found["documents"][0]["id"]})
        status, answer = await api.get(path)
        assert (status, answer["error"]["reason"]) == (404, "unknown_document")
        status, sizes = await api.get("/disk")
        assert (status, sizes["sources"][0]["documents"]) == (200, 0)


async def test_the_command_asks_before_it_deletes(stored: Settings, tmp_path: Path) -> None:
    """Spec 8.2: without a terminal, --yes confirms."""
    settings = {"data_dir": stored.data_dir, "database_url": stored.database_url}
    refused = await asyncio.to_thread(headwater, "document", "delete", URL, cwd=tmp_path, **settings)
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    deleted = await asyncio.to_thread(headwater, "document", "delete", URL, "--yes", "--json", cwd=tmp_path, **settings)
    assert set(json.loads(deleted.stdout)) == {"id"}
    shown = await asyncio.to_thread(headwater, "source", "disk", "--json", cwd=tmp_path, **settings)
    assert json.loads(shown.stdout)["sources"][0]["documents"] == 0
