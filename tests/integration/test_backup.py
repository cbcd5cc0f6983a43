"""One consistent copy of database and corpus, and back (spec 9.1, 1.5). Under load and under kills: tests/faults."""

import asyncio
import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db import dump, migrate
from headwater.db.dump import TABLES
from headwater.db.embedded.server import EmbeddedServer
from headwater.db.pool import open_database
from headwater.storage import corpus_copy
from headwater.storage.backup import back_up
from headwater.storage.corpus_copy import CorpusCopy
from headwater.storage.folder import Corpus, RawFile
from headwater.storage.restore import restore
from tests.harness import AppHarness, open_harness
from tests.integration.test_verify import in_terminal
from tests.postgres15 import Postgres15
from tests.program import environment, headwater, with_a_mount
from tests.refusals import refused
from tests.server import Answer, Site, page

HTML = {"Content-Type": "text/html; charset=utf-8"}
PAGES = {f"http://{name}.test/page": Answer(page(f"matter {name}"), headers=HTML) for name in "abcd"}
UNREADABLE = {"http://e.test/page": Answer(b"GIF89a" + b"x" * 500, headers=HTML)}
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
async def stocked(site: Site, harness: AppHarness) -> AppHarness:
    """A house with four documents, one of them with a revision, and a raw file that could not be read."""
    site.answers |= PAGES | UNREADABLE
    await harness.fetch(*site.answers)
    site.answers["http://a.test/page"] = Answer(page("a newer matter, \\N \t \\. and Straße"), headers=HTML)
    await harness.operations.frontier.retry(["http://a.test/page"])
    await harness.work()
    return harness


@pytest.fixture
def command(make_settings: Callable[..., Settings], tmp_path: Path) -> Command:
    """Runs the program on the data of this test, or on other data."""
    settings = make_settings()
    ours = {"data_dir": settings.data_dir, "database_url": settings.database_url}

    def run(*words: str, **others: Any) -> "subprocess.CompletedProcess[str]":
        return headwater(*words, cwd=tmp_path, **(ours | others))

    return run


def elsewhere(folder: Path) -> dict[str, object]:
    """The settings of a machine with nothing on it yet."""
    return {"data_dir": folder / "elsewhere", "database_url": ""}


def contents(backup: Path) -> dict[str, Any]:
    """The contents of a backup, without time and place."""
    manifest = json.loads((backup / "manifest.json").read_text())
    files = {str(path.relative_to(backup)): path.read_bytes() for path in backup.rglob("corpus/**/*") if path.is_file()}
    return {"tables": manifest["tables"], "sequences": manifest["sequences"], "files": files}


@pytest.mark.both_servers
async def test_a_restored_backup_is_the_same_to_the_byte(stocked: AppHarness, command: Command, tmp_path: Path) -> None:
    """From PostgreSQL 15 and from 18, into the embedded one; a backup of what was restored is the same backup."""
    backup, again = tmp_path / "backup", tmp_path / "again"
    answer = command("backup", str(backup), "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    told = json.loads(answer.stdout)
    assert (told["documents"], told["files"], told["missing"], told["differing"]) == (4, 5, 0, 0)
    assert backup.stat().st_mode & 0o077 == 0
    (stale := tmp_path / "elsewhere/verify/_all.0.jsonl").parent.mkdir(parents=True)
    stale.write_text("how far somebody was in an earlier life")

    answer = command("restore", "backup", "--json", **elsewhere(tmp_path))
    assert (answer.returncode, answer.stderr) == (0, "")
    assert json.loads(answer.stdout)["documents"] == 4
    verified = json.loads(command("verify", "--json", **elsewhere(tmp_path)).stdout)
    assert (verified["checked"], verified["wrong"], verified["resumed_after"]) == (4, 0, None)
    assert command("backup", "again", **elsewhere(tmp_path)).returncode == 0
    assert contents(again) == contents(backup)
    assert not list((tmp_path / "elsewhere/corpus").glob(".restoring"))


@contextlib.asynccontextmanager
async def new_database(dsn: str) -> AsyncIterator[str]:
    name = f"restored_{secrets.token_hex(4)}"
    admin = await asyncpg.connect(dsn)
    try:
        await admin.execute(f"CREATE DATABASE {name}")
        yield urlsplit(dsn)._replace(path=f"/{name}").geturl()
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await admin.close()


@pytest.fixture
async def elsewhere_url(server: EmbeddedServer) -> AsyncIterator[str]:
    """An empty database, where it does not matter that a machine may have no server yet."""
    async with new_database(server.dsn) as url:
        yield url


LAST = "SELECT last_value FROM pg_sequences WHERE sequencename = 'documents_id_seq'"
SCHEMA = """
SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT tgname || tgenabled::text FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT conname FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n' ORDER BY 1
"""


async def test_a_backup_of_a_newer_server_restores_into_an_older_one_and_works_there(
    stocked: AppHarness,
    site: Site,
    make_settings: Callable[..., Settings],
    embedded_server: EmbeddedServer,
    postgres15: Postgres15,
    tmp_path: Path,
) -> None:
    """Indexes, triggers and counters are as before: the next document has a new number."""
    del embedded_server  # the database of `stocked`
    await back_up(make_settings(), tmp_path / "backup")
    async with new_database(postgres15.dsn) as url:
        settings = make_settings(data_dir=tmp_path / "elsewhere", database_url=url, connect_to=site.connect_to)
        await restore(settings, tmp_path / "backup")
        async with open_harness(settings) as moved:
            assert await moved.rows(SCHEMA) == await stocked.rows(SCHEMA)
            site.answers["http://f.test/page"] = Answer(page("after the move"), headers=HTML)
            await moved.fetch("http://f.test/page")
            known = [(len(await one.urls()), len(await one.documents())) for one in (stocked, moved)]
            assert known == [(5, 4), (6, 5)]
            assert await moved.rows("SELECT FROM documents WHERE id > $1", *(await stocked.rows(LAST))[0])


async def test_the_rescuer_releases_leases_of_a_restored_backup(
    stocked: AppHarness, site: Site, make_settings: Callable[..., Settings], elsewhere_url: str, tmp_path: Path
) -> None:
    """Spec 2.4: their holders are far away."""
    site.answers["http://f.test/page"] = Answer(page("was under way"), headers=HTML)
    await stocked.operations.frontier.submit(["http://f.test/page"])
    for table, where in (("frontier_queue", "url_id > 5"), ("host_state", "host = 'f.test'")):
        await stocked.execute(
            f"UPDATE {table} SET lease_holder = 'gone', lease_token = gen_random_uuid(), "
            f"lease_until = clock_timestamp() + interval '1 s' WHERE {where}"
        )
    await back_up(make_settings(), tmp_path / "backup")
    settings = make_settings(data_dir=tmp_path / "elsewhere", database_url=elsewhere_url, connect_to=site.connect_to)
    await restore(settings, tmp_path / "backup")
    async with open_harness(settings) as moved:
        await moved.work()
        assert (await moved.outcomes())["http://f.test/page"] == "stored"


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("data/backup", "is inside the data folder"),
        ("data", "is inside the data folder"),
        ("full", "is not empty"),
        ("file", "is not a folder"),
        ("nowhere/backup", "is its disk mounted?"),
    ],
)
async def test_a_backup_needs_its_own_folder(
    folder: str, said: str, stocked: AppHarness, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/corpus").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(OperatorError, match=said.replace("?", "\\?")):
        await back_up(make_settings(), tmp_path / folder)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["corpus"]
    assert not (tmp_path / "data/backup").exists()


async def test_a_backup_reports_missing_raw_files(stocked: AppHarness, command: Command, tmp_path: Path) -> None:
    raw = next(path for path in (tmp_path / "data/corpus").rglob("raw/a.test/**/*") if path.is_file())
    raw.unlink()
    answer = command("backup", "backup")
    assert answer.returncode == 1
    assert "1 of 4 documents have no raw file here." in answer.stdout
    shutil.rmtree(tmp_path / "data/corpus")
    answer = command("backup", "another")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert str(tmp_path / "data/corpus") in answer.stderr
    assert not (tmp_path / "another").exists()


def add_to_the_file_with(folder: Path, words: bytes) -> None:
    (file,) = [path for path in folder.rglob("corpus/**/*") if path.is_file() and words in path.read_bytes()]
    file.write_bytes(file.read_bytes() + b"more")


async def test_a_backup_reports_a_raw_file_of_another_size_than_in_its_row(
    stocked: AppHarness, command: Command, tmp_path: Path
) -> None:
    add_to_the_file_with(tmp_path, b"matter b")
    answer = command("backup", str(tmp_path / "backup"), "--json")
    assert (answer.returncode, json.loads(answer.stdout)["differing"]) == (1, 1)


async def test_two_backups_into_one_folder_at_once_are_refused(
    stocked: AppHarness, command: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "backup"
    folder.mkdir()
    with (folder / "UNFINISHED").open("w") as sign:
        fcntl.flock(sign, fcntl.LOCK_EX)
        answer = command("backup", str(folder))
    assert answer.returncode == 2
    assert "Another backup is being made" in answer.stderr


async def test_a_terminal_shows_a_bar_for_each_step(
    stocked: AppHarness, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    """Spec 8.2."""
    settings = make_settings()
    where = environment(data_dir=settings.data_dir, database_url=settings.database_url) | {"TERM": "xterm"}
    shown = await asyncio.to_thread(in_terminal, "backup", "backup", env=where, cwd=tmp_path)
    for part in ("raw files", "4/4", "tables", f"{len(TABLES)}/{len(TABLES)}", "backup has 4 documents"):
        assert part in shown


async def test_a_backup_on_a_full_disk_fails_and_leaves_nothing(
    stocked: AppHarness, command: Command, tmp_path: Path
) -> None:
    """The disk is another than the corpus', too: there files are copied."""
    (tmp_path / "disk").mkdir()
    script = f'mount -t tmpfs -o size=$0 tmpfs "{tmp_path}/disk" && "$@"; echo $?; ls -A "{tmp_path}/disk"'
    wrapped = with_a_mount('true && exec "$@"')[:-2]
    small = await asyncio.to_thread(command, "backup", "disk/b", wrapped_by=(*wrapped, script, "16k"))
    assert "No space left on device" in small.stderr
    assert small.stdout.splitlines() == ["2"]
    large = await asyncio.to_thread(command, "backup", "disk/b", wrapped_by=(*wrapped, script, "16m"))
    assert (large.stderr, large.stdout.splitlines()[-2:]) == ("", ["0", "b"])


@pytest.mark.parametrize("stop_at", ["raw files", "tables"])
async def test_a_backup_that_is_stopped_leaves_nothing(
    stop_at: str, stocked: AppHarness, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    reached = asyncio.Event()
    backing_up = asyncio.create_task(
        back_up(make_settings(), tmp_path / "backup", lambda step, *_: reached.set() if step == stop_at else None)
    )
    async with asyncio.timeout(20):
        await reached.wait()
    backing_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await backing_up
    assert not (tmp_path / "backup").exists()


async def damaged(backup: Path, settings: Settings) -> str:
    with pytest.raises(OperatorError) as refused:
        await restore(settings, backup)
    assert not settings.data_dir.exists()
    return str(refused.value)


async def test_a_damaged_backup_is_refused_before_anything_is_touched(
    stocked: AppHarness, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    await back_up(make_settings(), whole)
    settings = make_settings(data_dir=tmp_path / "elsewhere", database_url="")

    def spoilt(spoil: Callable[[Path], object]) -> Path:
        backup = tmp_path / f"backup-{secrets.token_hex(4)}"
        shutil.copytree(whole, backup)
        spoil(backup)
        return backup

    def cut(path: Path) -> None:
        path.write_bytes(path.read_bytes()[:-1])

    def reword(old: str, new: str) -> Callable[[Path], object]:
        def spoil(backup: Path) -> None:
            text = (backup / "manifest.json").read_text()
            assert old in text
            (backup / "manifest.json").write_text(text.replace(old, new))

        return spoil

    (read,) = (path.relative_to(whole) for path in whole.rglob("raw/a.test/**/*") if path.is_file())
    (unread,) = (path.relative_to(whole) for path in whole.rglob("raw/e.test/**/*") if path.is_file())
    named = str(read.relative_to("corpus"))

    def swap(backup: Path) -> None:
        """Leave as many files of as many bytes."""
        (backup / read).rename(backup / unread.parent / "stray")

    schema = migrate.all_migrations()[-1].number
    for spoil, said in (
        (lambda backup: cut(backup / "database/documents.copy"), "documents.copy is not the file that was written"),
        (lambda backup: (backup / "database/texts.copy").unlink(), "texts.copy is missing"),
        (lambda backup: (backup / unread).unlink(), "has 4 raw files"),
        (lambda backup: (backup / read).unlink(), f"1 of its raw files is missing: {named}."),
        (swap, f"1 of its raw files is missing: {named}."),
        (lambda backup: shutil.rmtree(backup / "corpus"), "4 of its raw files are missing, such as "),
        (lambda backup: cut(backup / "manifest.json") or cut(backup / "manifest.json"), "manifest.json cannot be read"),
        (lambda backup: (backup / "manifest.json").unlink(), "There is no backup in"),
        (lambda backup: (backup / "UNFINISHED").touch(), "is not whole"),
        (reword(f'"schema": {schema}', '"schema": 999'), f"knows them up to {schema}"),
        (reword('"format": 1', '"format": 2'), "a newer Headwater"),
    ):
        message = await damaged(spoilt(spoil), settings)
        assert said in message
        assert message.endswith("Nothing was restored.")


async def test_a_restore_reports_raw_files_that_the_backup_lacks(
    stocked: AppHarness, command: Command, elsewhere_url: str, tmp_path: Path
) -> None:
    """All the rest would be lost otherwise."""
    (raw,) = (path for path in (tmp_path / "data/corpus").rglob("raw/a.test/**/*") if path.is_file())
    raw.unlink()
    assert command("backup", "backup").returncode == 1
    answer = command("restore", "backup", data_dir=tmp_path / "elsewhere", database_url=elsewhere_url)
    assert (answer.returncode, answer.stderr) == (1, "")
    assert "1 of 4 documents have no raw file in the backup." in answer.stdout
    (another,) = (path for path in (tmp_path / "backup/corpus").rglob("raw/b.test/**/*") if path.is_file())
    another.unlink()
    answer = command("restore", "backup", data_dir=tmp_path / "third", database_url="")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "2 of its raw files are missing, such as " in answer.stderr
    assert "1 of them were missing when it was made." in answer.stderr
    assert not (tmp_path / "third").exists()


async def test_a_restore_reports_a_damaged_raw_file_of_the_same_size(
    stocked: AppHarness, command: Command, elsewhere_url: str, server: EmbeddedServer, tmp_path: Path
) -> None:
    """Rows and all other files are right, and are there."""
    assert command("backup", "backup").returncode == 0
    (raw,) = (path for path in (tmp_path / "backup/corpus").rglob("raw/a.test/**/*") if path.is_file())
    body = raw.read_bytes()
    raw.unlink()  # it may be a link to the corpus' own
    raw.write_bytes(body.replace(b"matter", b"mutter", 1))
    there: dict[str, object] = {"data_dir": tmp_path / "elsewhere", "database_url": elsewhere_url}
    answer = command("restore", "backup", **there)
    assert (answer.returncode, answer.stderr) == (1, "")
    told = " ".join(answer.stdout.split())
    assert "1 of 4 documents differ from their raw file:" in told
    assert "/raw/a.test/" in told
    async with new_database(server.dsn) as third_url:
        answer = command("restore", "backup", "--json", data_dir=tmp_path / "third", database_url=third_url)
    assert (answer.returncode, json.loads(answer.stdout)["differing"]) == (1, 1)
    verified = json.loads(command("verify", "--json", **there).stdout)
    assert (verified["checked"], verified["faults"]) == (4, {"raw_differs": 1})


def test_raw_files_are_read_from_the_dump_of_documents(tmp_path: Path) -> None:
    """The dump has the text format of COPY."""
    columns = ["id", "raw_path", "title", "raw_hash", "raw_bytes"]
    (tmp_path / "documents.copy").write_bytes(
        b"1\ts/bodies/raw/a\\\\b\\tc\\nd\xc3\x9f\t\\N\t\\\\xab01\t7\n2\tp\tA title\t\\\\x\t0\n"
    )
    table = dump.Table("documents", columns, 2, 0, "")
    assert list(dump.read_raw_files_in(tmp_path, [table])) == [
        ("s/bodies/raw/a\\b\tc\ndß", b"\xab\x01", 7),
        ("p", b"", 0),
    ]


async def test_a_restore_refuses_existing_files_and_tables(
    stocked: AppHarness, make_settings: Callable[..., Settings], database_url: str, tmp_path: Path
) -> None:
    await back_up(make_settings(), tmp_path / "backup")
    with refused(Reason.FOLDER_UNUSABLE, make_settings().data_dir / "corpus"):
        await restore(make_settings(), tmp_path / "backup")
    with pytest.raises(
        OperatorError,
        match=rf"already \(the tables alarm_state, alarms, api_tokens and {len(TABLES) - 3} more\)",
    ):
        await restore(make_settings(data_dir=tmp_path / "elsewhere"), tmp_path / "backup")
    assert not (tmp_path / "elsewhere").exists()
    assert len(await stocked.documents()) == 4


async def test_a_refused_restore_advises_to_move_data_and_never_to_remove_it(
    stocked: AppHarness, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    await back_up(make_settings(), tmp_path / "backup")
    told = []
    for data in ("data", "elsewhere"):
        with pytest.raises(OperatorError) as refused:
            await restore(make_settings(data_dir=tmp_path / data), tmp_path / "backup")
        told.append(str(refused.value))
    over_files, over_rows = told
    data = tmp_path / "data"
    assert f"`mv {data} {data}.old`" in over_files
    for words in told:
        assert "Nothing was changed." in words
        assert "HEADWATER_DATA_DIR" in words
        assert not re.search(r"(?i)remov|delet|drop|empty it|\brm\b", words)
    assert "HEADWATER_DATABASE_URL" in over_rows


@pytest.mark.empty_database
async def test_a_backup_of_an_older_schema_is_updated(
    make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch, elsewhere_url: str, tmp_path: Path
) -> None:
    known = migrate.all_migrations()
    monkeypatch.setattr(migrate, "all_migrations", lambda: known[:-1])
    async with open_database(make_settings()) as database:
        await migrate.up(database)
        async with database.connection() as connection:
            there = {row["tablename"] for row in await connection.fetch("SELECT tablename FROM pg_tables")}
            await connection.execute("INSERT INTO sources (name, kind, created_at) VALUES ('old', 'manual', now())")
    monkeypatch.setattr(dump, "TABLES", [table for table in TABLES if table in there])
    await back_up(make_settings(), tmp_path / "backup")
    monkeypatch.undo()
    settings = make_settings(data_dir=tmp_path / "elsewhere", database_url=elsewhere_url)
    restored = await restore(settings, tmp_path / "backup")
    assert (restored.manifest.schema, restored.schema) == (known[-2].number, known[-1].number)
    async with open_database(settings) as database:
        await migrate.require_current(database)
        async with database.connection() as connection:
            assert await connection.fetchval("SELECT name FROM sources") == "old"


async def test_the_update_of_an_old_backup_may_take_longer_than_a_query(
    stocked: AppHarness,
    make_settings: Callable[..., Settings],
    embedded_server: EmbeddedServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The limit of a connection is meant for a query: a step of the schema may rewrite a whole table."""
    manifest = await back_up(make_settings(), tmp_path / "backup")
    slow = migrate.Migration(999, "slow", "SELECT pg_sleep(1.5)", "")
    known = (*migrate.all_migrations(), slow)
    monkeypatch.setattr(migrate, "all_migrations", lambda: known)
    async with new_database(embedded_server.dsn) as url:
        connection = await asyncpg.connect(url, command_timeout=1)
        try:
            async with connection.transaction():
                await dump.load(
                    connection,
                    manifest.schema,
                    manifest.tables,
                    manifest.sequences,
                    tmp_path / "backup/database",
                    lambda _: None,
                )
            assert max(await migrate.get_applied(connection)) == 999
        finally:
            await connection.close()


async def test_folder_walks_do_not_block_the_event_loop(
    stocked: AppHarness,
    make_settings: Callable[..., Settings],
    monkeypatch: pytest.MonkeyPatch,
    elsewhere_url: str,
    tmp_path: Path,
) -> None:
    """A folder of a million files on a slow disk takes minutes: progress, signals and connections must not wait."""
    walks: list[tuple[str, bool]] = []
    walk, scan, remove = os.walk, os.scandir, shutil.rmtree

    def note(what: str) -> None:
        walks.append((what, threading.current_thread() is threading.main_thread()))

    def noted_walk(*words: Any, **others: Any) -> Iterator[Any]:
        for step in walk(*words, **others):
            note("walk")
            yield step

    def noted_removal(*words: Any, **others: Any) -> None:
        note("removal")
        remove(*words, **others)

    def noted_scan(*words: Any) -> Any:
        note("scan")
        return scan(*words)

    folder, settings = tmp_path / "backup", make_settings(data_dir=tmp_path / "elsewhere", database_url=elsewhere_url)
    (folder / "corpus").mkdir(parents=True)
    (folder / "UNFINISHED").touch()
    (tmp_path / "elsewhere/corpus/.restoring").mkdir(parents=True)
    with monkeypatch.context() as patched:
        patched.setattr(os, "walk", noted_walk)
        patched.setattr(os, "scandir", noted_scan)
        patched.setattr(shutil, "rmtree", noted_removal)
        await back_up(make_settings(), folder)
        await restore(settings, folder)
    assert {what for what, _ in walks} == {"walk", "removal", "scan"}
    assert [what for what, on_the_loop in walks if on_the_loop] == []


def test_a_locked_corpus_keeps_every_version_until_it_is_unlocked(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path / "corpus")
    versions = [corpus.write("s", "a", b"one")]
    copy = CorpusCopy(corpus, tmp_path / "copy")
    with copy.locked():
        versions += [corpus.write("s", "a", body) for body in (b"two", b"three")]
        assert copy.has_all(versions)
        assert not copy.has_all([RawFile("s/bodies/raw/a", b"x" * 32, 3)])
        others = [versions[-1]._replace(path=path) for path in ("s/bodies/raw/b", "../s/bodies/raw/a")]
        assert copy.copy_known([versions[-1], *others]) == 2
        for version in reversed(versions):
            assert copy.correct([version], copy.find_replaced()) == 0
            assert Corpus(tmp_path / "copy").has(version)
    assert list(corpus.folder.rglob("replaced.*")) == []
    assert corpus.read("s/bodies/raw/a") == b"three"


def test_a_second_backup_at_once_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_copy, "_LOCK_SECONDS", 0.01)
    copy = CorpusCopy(Corpus(tmp_path / "corpus"), tmp_path / "copy")
    with copy.locked(), pytest.raises(OperatorError, match="Another backup"), copy.locked():
        pass
