"""Verify compares every document with its raw file (spec 1.5)."""

import asyncio
import contextlib
import json
import os
import pty
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db.verify import documents_to_verify
from headwater.documents import upkeep
from headwater.documents.upkeep import OnProgress, VerifyReport
from headwater.documents.verify import Journal, Verifier
from tests.harness import AppHarness, open_harness
from tests.program import environment, fork, forked, headwater, wait_until
from tests.refusals import refused
from tests.server import Answer, Site, page, rss

HTML = {"Content-Type": "text/html; charset=utf-8"}
NAMES = tuple("abcdefgh")
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
async def stocked(site: Site, harness: AppHarness) -> AppHarness:
    """A house that has fetched a page for each of the names, each of a host of its own."""
    for name in NAMES:
        site.answers[address(name)] = Answer(page(f"matter {name}"), headers=HTML)
    await stock(site, harness, "news", map(address, NAMES))
    return harness


async def stock(site: Site, harness: AppHarness, source: str, urls: Any) -> None:
    feed = f"http://{source}.test/feed"
    site.answers[feed] = rss(*urls)
    await harness.operations.sources.add(feed, source)
    await harness.work()


def address(name: str) -> str:
    return f"http://{name}.test/page"


async def raw_file(harness: AppHarness, name: str) -> Path:
    document = (await harness.documents())[address(name)]
    return harness.operations.settings.data_dir / "corpus" / document.raw_path


async def verify(harness: AppHarness, on_progress: OnProgress = lambda *_: None, **options: Any) -> VerifyReport:
    async with harness.operations.upkeep.verify(on_progress=on_progress, **options) as verified:
        return verified


def faults(verified: VerifyReport) -> dict[str, str]:
    return {finding.url.split(".")[0].removeprefix("http://"): finding.fault for finding in verified.findings}


@pytest.fixture
def command(make_settings: Callable[..., Settings], tmp_path: Path) -> Command:
    settings = make_settings()

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return headwater("verify", *words, cwd=tmp_path, data_dir=settings.data_dir, database_url=settings.database_url)

    return run


@pytest.mark.both_servers
async def test_documents_of_any_charset_and_redirect_are_right(site: Site, harness: AppHarness) -> None:
    site.answers["http://a.test/page"] = Answer(status=301, headers={"Location": "/deep/er/page"})
    site.answers["http://a.test/deep/er/page"] = Answer(page("moved", extra="<img src=x.png>"), headers=HTML)
    charset = {"Content-Type": "text/html; charset=windows-1251"}
    site.answers["http://b.test/page"] = Answer(page("Вода в реке").encode("cp1251"), headers=charset)
    site.answers["http://c.test/page"] = Answer(page("Straße").encode("utf-16"), headers={"Content-Type": ""})
    site.answers["http://d.test/page"] = Answer(page("moved", extra="<img src=x.png>"), headers=HTML)
    await stock(site, harness, "news", map(address, "abcd"))
    verified = await verify(harness)
    assert (verified.checked, verified.wrong, verified.findings) == (4, 0, [])


async def test_the_program_reports_right_documents_and_leaves_no_journal(
    stocked: AppHarness, command: Command, tmp_path: Path
) -> None:
    answer = command()
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.splitlines()[-1] == "All 8 documents are right."
    told = json.loads(command("--json").stdout)
    assert told.pop("begun_at")
    assert told == {
        "resumed_after": None, "checked": 8, "right": 8, "wrong": 0, "faults": {}, "findings": [], "unlisted": 0
    }  # fmt: skip
    assert list((tmp_path / "data/verify").iterdir()) == []


async def test_every_fault_of_a_raw_file_is_found(stocked: AppHarness, command: Command) -> None:
    changed = await raw_file(stocked, "a")
    changed.write_bytes(changed.read_bytes().replace(b"council", b"cuoncil"))
    with (await raw_file(stocked, "b")).open("ab") as longer:
        longer.write(b"<!-- more -->")
    os.truncate(await raw_file(stocked, "c"), 100)
    (await raw_file(stocked, "d")).write_bytes(b"")
    (await raw_file(stocked, "e")).unlink()
    folder = await raw_file(stocked, "f")
    folder.unlink()
    folder.mkdir()
    expected = {
        "a": "raw_differs", "b": "raw_differs", "c": "raw_differs", "d": "raw_differs",
        "e": "raw_missing", "f": "raw_unreadable",
    }  # fmt: skip
    assert faults(await verify(stocked)) == expected
    answer = command("--json")
    told = json.loads(answer.stdout)
    assert answer.returncode == 1
    assert (told["checked"], told["right"], told["wrong"]) == (8, 2, 6)
    assert told["faults"] == {"raw_differs": 4, "raw_missing": 1, "raw_unreadable": 1}
    (missing,) = [finding for finding in told["findings"] if finding["fault"] == "raw_missing"]
    assert (missing["url"], missing["source"]) == (address("e"), "news")
    assert missing["raw_path"].startswith("news/bodies/raw/")
    shown = command()
    assert shown.returncode == 1
    assert "6 of 8 documents" in shown.stdout
    assert address("e") in shown.stdout


@pytest.mark.both_servers
async def test_every_fault_of_a_row_is_found(stocked: AppHarness) -> None:
    of = "WHERE url_id = (SELECT id FROM url_frontier WHERE url = $1)"
    await stocked.execute(
        f"UPDATE texts SET body = body || ' And more.' WHERE content_hash = (SELECT content_hash FROM documents {of})",
        address("a"),
    )
    await stocked.execute(
        f"UPDATE documents SET content_hash = (SELECT content_hash FROM documents {of.replace('1', '2')}) {of}",
        address("b"),
        address("c"),
    )
    await stocked.execute(f"UPDATE documents SET raw_hash = sha256('x') {of}", address("d"))
    await stocked.execute(f"UPDATE documents SET normalizer = 'html_v0' {of}", address("e"))
    await stocked.execute(f"UPDATE documents SET raw_path = '../nowhere' {of}", address("f"))
    await stocked.execute(f"UPDATE documents SET raw_bytes = 7 {of}", address("g"))
    assert faults(await verify(stocked)) == {
        "a": "text_damaged", "b": "text_differs", "d": "raw_differs", "e": "no_normalizer", "f": "raw_missing",
        "g": "raw_differs",
    }  # fmt: skip


async def test_all_faults_of_a_document_are_reported(stocked: AppHarness) -> None:
    await stocked.execute("UPDATE texts SET body = body || '.'")
    (await raw_file(stocked, "a")).unlink()
    report = await verify(stocked)
    assert (report.wrong, report.faults) == (8, {"text_damaged": 8, "raw_missing": 1})


async def test_a_finding_names_a_fetch_before_content_types_were_saved(site: Site, harness: AppHarness) -> None:
    charset = {"Content-Type": "text/html; charset=iso-8859-2"}
    site.answers["http://a.test/page"] = Answer(page("Łódź na rzece").encode("iso-8859-2"), headers=charset)
    site.answers["http://b.test/page"] = Answer(page("Łódź na rzece"), headers=HTML)
    await stock(site, harness, "news", map(address, "ab"))
    await harness.execute("UPDATE documents SET fetched_url = NULL, content_type = NULL")
    (finding,) = (await verify(harness)).findings
    assert (finding.url, finding.fault) == (address("a"), "text_differs")
    assert "before content types were saved" in finding.detail


async def test_a_document_that_takes_too_long_is_not_right(
    stocked: AppHarness, make_settings: Callable[..., Settings]
) -> None:
    """Spec 4.3: it is read in a child with limits, as the first time."""
    async with open_harness(make_settings(sandbox_timeout_seconds=0.0001)) as hasty:
        assert faults(await verify(hasty)) == dict.fromkeys(NAMES, "not_derived")


async def test_a_page_that_is_being_fetched_is_not_wrong(site: Site, stocked: AppHarness) -> None:
    """Spec 1.5: its new file is in place before its row says so. The commit is held up by a lock on that row."""
    raw = await raw_file(stocked, "a")
    before = raw.read_bytes()
    site.answers[address("a")] = Answer(page("a newer matter"), headers=HTML)
    await stocked.operations.frontier.retry([address("a")])
    some_are_done = asyncio.Event()
    async with stocked.runtime.context.database.connection() as connection:
        held = connection.transaction()
        await held.start()
        await connection.execute("SELECT 1 FROM documents FOR UPDATE")
        working = asyncio.create_task(stocked.work())
        while raw.read_bytes() == before:
            await asyncio.sleep(0.01)
        verifying = asyncio.create_task(verify(stocked, lambda done, total: done and some_are_done.set()))
        await some_are_done.wait()
        assert not verifying.done()
        await held.rollback()
    verified = await verifying
    await working
    assert (verified.checked, verified.findings) == (8, [])
    assert raw.read_bytes() != before


async def test_a_row_that_changed_during_the_check_is_checked_again(site: Site, stocked: AppHarness) -> None:
    context = stocked.runtime.context
    stale = await context.database.transact(documents_to_verify, after=0, last=99, source_id=None, limit=99)
    site.answers[address("a")] = Answer(page("a newer matter"), headers=HTML)
    await stocked.operations.frontier.retry([address("a")])
    await stocked.work()
    await stocked.execute(
        "DELETE FROM documents WHERE url_id = (SELECT id FROM url_frontier WHERE url = $1)", address("b")
    )
    (await raw_file(stocked, "c")).unlink()
    verifier = Verifier(context, stocked.runtime.sandbox)
    assert [finding.url for finding in await verifier.verify(stale)] == [address("c")]


async def test_a_finding_after_a_killed_fetch_names_the_queued_repair(stocked: AppHarness) -> None:
    """Spec 1.5: the re-fetch of the returned lease repairs it."""
    (await raw_file(stocked, "a")).write_text(page("a newer matter"))
    await stocked.operations.frontier.retry([address("a")])
    (finding,) = (await verify(stocked)).findings
    assert finding.fault == "raw_differs"
    assert finding.detail.endswith("The page is queued to be fetched again.")
    await stocked.work()
    assert faults(await verify(stocked)) == {}


async def test_an_unreadable_refetch_changes_neither_document_nor_raw_file(site: Site, stocked: AppHarness) -> None:
    """Spec 1.5: every row's file matches its hash, whatever a re-fetch brings."""
    raw = await raw_file(stocked, "a")
    before = raw.read_bytes()
    site.answers[address("a")] = Answer(b"GIF89a" + b"x" * 500, headers=HTML)
    await stocked.operations.frontier.retry([address("a")])
    await stocked.work()
    assert (await stocked.outcomes())[address("a")] == "unsupported_type"
    assert raw.read_bytes() == before
    assert faults(await verify(stocked)) == {}


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text(page("newer, and its row was lost"))])
async def test_another_fetch_repairs_a_raw_file_of_an_unchanged_page(
    damage: Callable[[Path], object], site: Site, stocked: AppHarness
) -> None:
    """Spec 1.5, 4.2: a 304 touches only what is right here too."""
    tagged = Answer(page("tagged"), headers={**HTML, "ETag": '"v1"'})
    site.answers[address("a")] = tagged
    await stocked.operations.frontier.retry([address("a")])
    await stocked.work()
    damage(await raw_file(stocked, "a"))
    assert list(faults(await verify(stocked))) == ["a"]
    site.answers[address("a")] = [Answer(status=304), tagged]
    await stocked.operations.frontier.retry([address("a")])
    await stocked.work()
    assert faults(await verify(stocked)) == {}
    asked = [seen.headers.get("If-None-Match") for seen in site.seen if seen.url == address("a")]
    assert asked == [None, None, '"v1"', None]
    site.answers[address("a")] = Answer(status=304)
    await stocked.operations.frontier.retry([address("a")])
    await stocked.work()
    assert (await stocked.outcomes())[address("a")] == "unchanged"
    assert site.visits(address("a")) == 5


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "PAGE", 2)


@pytest.mark.usefixtures("small_pages")
async def test_an_interrupted_verify_resumes(stocked: AppHarness) -> None:
    """The report has the faults before the interruption; --restart checks everything again."""
    (await raw_file(stocked, "a")).unlink()
    (await raw_file(stocked, "h")).unlink()
    ids = sorted(document.id for document in (await stocked.documents()).values())
    looked = Looked()
    verifying = asyncio.create_task(verify(stocked, looked))
    await looked.at(5)
    verifying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await verifying
    looked = Looked()
    verified = await verify(stocked, looked)
    assert looked.first == (4, 8)
    assert verified.resumed_after == ids[3]
    assert (verified.checked, verified.wrong) == (8, 2)
    assert set(faults(verified)) == {"a", "h"}
    looked = Looked()
    assert (await verify(stocked, looked)).resumed_after is None
    assert looked.first == (0, 8)


class Looked:
    """Observes the progress of a verify."""

    def __init__(self) -> None:
        self.first: tuple[int, int] | None = None
        self._done = 0
        self._changed = asyncio.Event()

    def __call__(self, done: int, total: int) -> None:
        self.first = self.first or (done, total)
        self._done = done
        self._changed.set()

    async def at(self, done: int) -> None:
        while self._done < done:
            self._changed.clear()
            await self._changed.wait()


@pytest.mark.usefixtures("small_pages")
async def test_a_report_that_was_not_shown_is_shown_again(stocked: AppHarness) -> None:
    (await raw_file(stocked, "a")).unlink()

    async def tell_and_fail() -> None:
        async with stocked.operations.upkeep.verify():
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await tell_and_fail()
    assert faults(await verify(stocked)) == {"a": "raw_missing"}


@pytest.mark.usefixtures("small_pages")
async def test_a_restarted_verify_does_not_resume(stocked: AppHarness) -> None:
    looked = Looked()
    verifying = asyncio.create_task(verify(stocked, looked))
    await looked.at(5)
    verifying.cancel()
    await asyncio.gather(verifying, return_exceptions=True)
    looked = Looked()
    verified = await verify(stocked, looked, restart=True)
    assert (looked.first, verified.resumed_after, verified.checked) == ((0, 8), None, 8)


async def test_a_stopped_and_then_killed_verify_resumes(
    site: Site, harness: AppHarness, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    """Spec 9.3."""
    urls = [f"http://h{number}.test/page" for number in range(160)]
    for url in urls:
        site.answers[url] = Answer(page(url), headers=HTML)
    await stock(site, harness, "news", urls)
    first = min((await harness.documents()).values(), key=lambda document: document.id)
    (tmp_path / "data/corpus" / first.raw_path).unlink()
    settings = make_settings()
    place = {"data_dir": settings.data_dir, "database_url": settings.database_url}
    journal = tmp_path / "data/verify/_all.0.jsonl"

    def end_after(pages: int, how: signal.Signals) -> "tuple[int, str]":
        with forked("verify", cwd=tmp_path, **place) as process:
            wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") > pages)
            process.send_signal(how)
            _, said = process.communicate()
            return process.wait(), said

    assert end_after(1, signal.SIGTERM) == (143, "headwater: stopped. Verify again to resume from here.\n")
    assert end_after(2, signal.SIGKILL)[0] == -signal.SIGKILL
    told = json.loads(headwater("verify", "--json", cwd=tmp_path, **place).stdout)
    assert told["resumed_after"] is not None
    assert (told["checked"], told["wrong"]) == (160, 1)
    assert [finding["document_id"] for finding in told["findings"]] == [first.id]
    assert not journal.exists()


async def test_two_at_once_are_refused(stocked: AppHarness, command: Command, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "data/verify/_all.0.jsonl", now=stocked.runtime.context.clock.now(), restart=False)
    try:
        answer = command()
    finally:
        journal.close()
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "is running" in answer.stderr


async def test_verify_can_be_limited_to_a_source_or_new_documents(site: Site, stocked: AppHarness) -> None:
    await stock(site, stocked, "other", [])
    site.answers["http://z.test/page"] = Answer(page("the last"), headers=HTML)
    site.answers["http://other.test/feed"] = rss(address("z"))
    await stocked.operations.sources.sync("other")
    await stocked.work()
    for name in ("a", "z"):
        (await raw_file(stocked, name)).unlink()
    assert faults(await verify(stocked)) == {"a": "raw_missing", "z": "raw_missing"}
    news, other = await verify(stocked, source="news"), await verify(stocked, source="other")
    assert (news.checked, faults(news)) == (8, {"a": "raw_missing"})
    assert (other.checked, faults(other)) == (1, {"z": "raw_missing"})
    last = max(document.id for document in (await stocked.documents()).values())
    newest = await verify(stocked, since_id=last - 1)
    assert (newest.checked, newest.resumed_after, faults(newest)) == (1, None, {"z": "raw_missing"})
    with refused(Reason.UNKNOWN_SOURCE, "nobody"):
        await verify(stocked, source="nobody")


def test_an_empty_corpus_is_right(command: Command) -> None:
    answer = command()
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "There are no documents to verify.\n", "")
    told = json.loads(command("--json").stdout)
    assert (told["checked"], told["wrong"], told["findings"]) == (0, 0, [])


async def test_a_missing_disk_is_reported_once(stocked: AppHarness, command: Command, tmp_path: Path) -> None:
    (tmp_path / "data/corpus").rename(tmp_path / "data/away")
    answer = command()
    assert (answer.returncode, answer.stdout) == (2, "")
    assert len(answer.stderr.splitlines()) == 1
    assert str(tmp_path / "data/corpus") in answer.stderr
    (tmp_path / "data/away").rename(tmp_path / "data/corpus")
    assert command().returncode == 0


async def test_a_terminal_shows_a_bar(
    stocked: AppHarness, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    """Spec 8.2."""
    settings = make_settings()
    where = environment(data_dir=settings.data_dir, database_url=settings.database_url) | {"TERM": "xterm"}
    shown = await asyncio.to_thread(in_terminal, "verify", env=where, cwd=tmp_path)
    assert "━" in shown
    assert "8/8" in shown


def in_terminal(*words: str, env: dict[str, str], cwd: Path) -> str:
    """Run a command where it believes to be looked at, and return what is seen."""
    ours, theirs = pty.openpty()
    process = fork(*words, env=env, cwd=cwd, streams=(theirs, theirs, theirs))
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # when the other end is closed
        while part := os.read(ours, 65536):
            shown += part
    os.close(ours)
    assert process.wait_here(20) == 0
    return shown.decode()
