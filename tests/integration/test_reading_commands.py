"""Commands that read: they create no database, keep addresses whole, and report a lost connection in one line."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
import typer

from headwater.cli.app import command
from headwater.core.settings import Settings
from headwater.db.pool import open_database
from tests.database_state import others_have_asked
from tests.harness import AppHarness
from tests.program import forked, headwater, program_settings
from tests.server import Answer, Site, page, rss
from tests.waiting import until

READING = [
    ("today",),
    ("daily",),
    ("search", "river"),
    ("new",),
    ("runs",),
    ("why", "http://news.test/"),
    ("show", "1"),
    ("diff", "1"),
    ("verify",),
    ("completeness",),
    ("missing",),
    ("source", "list"),
    ("source", "show", "news"),
    ("source", "export"),
    ("source", "sync", "news"),
    ("source", "budgets"),
    ("source", "disk"),
    ("source", "test", "news"),
    ("watch",),
    ("frontier", "list"),
    ("frontier", "stats"),
    ("frontier", "hosts"),
    ("handoff", "list"),
    ("webhook", "list"),
    ("migrate", "status"),
    ("backup", "copy"),
    ("upgrade",),
]


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_reading_commands_create_no_database(words: tuple[str, ...], tmp_path: Path) -> None:
    """Spec 8.2: a reading command names the data folder that it searched, and what to do."""
    data = tmp_path / "data"
    refused = headwater(*words, cwd=tmp_path, data_dir=data)
    assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (2, "", 1)
    assert str(data) in refused.stderr
    assert "headwater up" in refused.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.empty_database
def test_reading_commands_leave_an_empty_server_as_it_is(database_url: str, tmp_path: Path) -> None:
    """Spec 8.2, 9.1: the schema is made by commands that write."""
    settings = {"database_url": database_url, "data_dir": tmp_path / "data"}
    refused = headwater("source", "list", cwd=tmp_path, **settings)
    assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (2, "", 1)
    assert "headwater up" in refused.stderr
    assert "not applied" in headwater("migrate", "status", cwd=tmp_path, **settings).stdout
    submitted = headwater("frontier", "submit", "http://news.test/", cwd=tmp_path, **settings)
    assert submitted.returncode == 0
    assert headwater("source", "list", cwd=tmp_path, **settings).returncode == 0


async def test_a_connection_lost_during_a_command_is_one_line(tmp_path: Path) -> None:
    """Spec 8.2, 9.1: the command ends with exit code 2 and no traceback."""
    data = tmp_path / "data"
    headwater("migrate", "up", cwd=tmp_path, data_dir=data)
    with forked("new", "--follow", cwd=tmp_path, data_dir=data) as following:
        async with open_database(Settings(data_dir=data)) as database:
            await until(lambda: others_have_asked(database, "changes"))
        (pid_file,) = data.glob("postgres/*/cluster/postmaster.pid")
        os.kill(int(pid_file.read_text().split()[0]), signal.SIGKILL)
        following.wait()
        errors = following.stderr.read()
        assert (following.returncode, len(errors.splitlines())) == (2, 1), errors
        assert f"the database in {data / 'postgres'}" in errors


async def test_no_command_breaks_or_cuts_an_address(
    harness: AppHarness, site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spec 8.2: an address can be copied whole from a terminal of 80 columns and from a pipe."""
    monkeypatch.setenv("COLUMNS", "80")
    long = f"http://news.test/{'a-long-path-of-words/' * 12}end"
    moved = f"http://moved.test/{'a-long-path-of-words/' * 12}end"
    unknown = f"http://news.test/{'a-long-path-of-words/' * 12}unknown"
    site.answers["http://news.test/feed"] = rss(long, title="The news")
    site.answers[long] = Answer(page("the river"), headers={"Content-Type": "text/html"})
    site.answers[moved] = Answer("gone", status=404)
    await harness.operations.sources.create("news", "site", {"feed_url": "http://news.test/feed", "site_url": long})
    await harness.operations.sources.sync("news")
    await harness.fetch(moved)
    settings = program_settings(harness.runtime.context.settings) | {"contact_url": long}
    for words, address in {
        ("config",): long,
        ("today", "2026-03-12"): long,
        ("daily",): long,
        ("search", "river"): long,
        ("show", long): long,
        ("why", moved): moved,
        ("new",): long,
        ("source", "show", "news"): long,
        ("frontier", "list"): moved,
        ("frontier", "retry", unknown): unknown,
        ("why", unknown): unknown,
        ("source", "test", moved): moved,
    }.items():
        shown = await asyncio.to_thread(headwater, *words, cwd=tmp_path, **settings)
        assert address in shown.stdout + shown.stderr, (words, shown.stdout, shown.stderr)


async def test_show_prints_a_document_with_its_fields_revisions_and_text(
    harness: AppHarness, site: Site, tmp_path: Path
) -> None:
    """Spec 8.2, 4.4: by its id or by its URL, for a person or as JSON."""
    url = "http://news.test/river"
    for words in ("the river", "the mended river"):
        site.answers[url] = Answer(page(words), headers={"Content-Type": "text/html"})
        await harness.fetch(url)
        await harness.operations.frontier.retry([url])
        await harness.work()
    document = await harness.document()
    settings = program_settings(harness.runtime.context.settings)
    shown = await asyncio.to_thread(headwater, "show", url, cwd=tmp_path, **settings)
    lines = shown.stdout.splitlines()
    assert lines[:2] == [document.title, url]
    assert f"document {document.id} of manual, revision 2" in lines[2]
    for part in (document.text, document.raw_path, document.content_hash, "revision 1 ", document.provenance["title"]):
        assert part in shown.stdout
    printed = await asyncio.to_thread(headwater, "show", str(document.id), "--json", cwd=tmp_path, **settings)
    assert json.loads(printed.stdout)["revisions"][0]["revision"] == 1
    refused = await asyncio.to_thread(headwater, "show", "http://news.test/none", cwd=tmp_path, **settings)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)


def test_the_help_groups_every_command() -> None:
    """Spec 8.2: read, sources, run, look after."""
    context = typer.Context(command)
    panels: dict[str, list[str]] = {}
    for name in command.list_commands(context):
        panels.setdefault(command.get_command(context, name).rich_help_panel, []).append(name)
    assert list(panels) == ["Read", "Sources", "Run", "Look after"]
    assert {"today", "search", "show"} <= set(panels["Read"])
    assert "doctor" in panels["Look after"]
