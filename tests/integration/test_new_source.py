"""A new kind, from its skeleton to a working source, and its errors (spec 1.1, 1.2, 1.5; issue 5)."""

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from headwater import Item, Kind, Run, Undated
from headwater.api import make_app
from headwater.app.roles import RoleName, serve
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db.pool import Database
from tests import kinds
from tests.api import TOKEN
from tests.database_state import count
from tests.harness import AppHarness
from tests.program import headwater, program_settings
from tests.server import Answer, Site, rss

FEED = "http://news.test/feed"
LIST = "http://api.test/records.json"
JSON = {"Content-Type": "application/json"}
RECORDS = '[{"id": "2026-0001", "url": "http://news.test/1", "title": "The first record"}]'
KEY = "abcdefgh" * 5
DOCS = Path(__file__).parents[2] / "docs"

Program = Callable[..., Awaitable["subprocess.CompletedProcess[str]"]]


@pytest.fixture
def program(site: Site, make_settings: Callable[..., Settings], tmp_path: Path) -> Program:
    """The real program with the database and the web of this test."""
    settings = program_settings(make_settings(connect_to=site.connect_to))
    return lambda *words, **more: asyncio.to_thread(headwater, *words, cwd=tmp_path, **settings, **more)


@pytest.fixture
async def kind_file(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kind as `new-kind` writes it, installed by the lines that the command prints."""
    written = await program("source", "new-kind", "votes")
    assert written.returncode == 0
    lines = re.search(r"^votes = \"(.*)\"$", written.stdout, re.M)
    assert lines
    metadata = tmp_path / "votes-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: votes\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[headwater.kinds]\nvotes = {lines[1]}\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return tmp_path / "votes.py"


def spoil_partition(kind_file: Path, path: str) -> None:
    text = kind_file.read_text()
    kind_file.write_text(re.sub(r"return f\"\{str.*", f'return "{path}"', text))
    assert kind_file.read_text() != text


async def count_sources(program: Program) -> int:
    return len(json.loads((await program("source", "list", "--json")).stdout)["sources"])


@pytest.mark.usefixtures("database", "kind_file")
async def test_a_new_kind_reads_a_source_after_four_commands(site: Site, program: Program) -> None:
    """The steps are those of docs/sources.md."""
    site.answers[LIST] = Answer(RECORDS, headers=JSON)
    added = await program("source", "add", "votes", "--kind", "votes", "--set", f"list_url={LIST}")
    assert (added.returncode, added.stdout) == (0, "Added source votes of kind votes.\n")
    polled = await program("source", "sync", "votes")
    assert polled.stdout.splitlines()[0] == "Read votes: 1 items, 1 of them new, 1 new pages to fetch."
    again = await program("source", "add", "votes", "--kind", "votes", "--set", f"list_url={LIST}")
    assert again.returncode == 2
    assert "There is a source named votes already" in again.stderr


@pytest.mark.usefixtures("database", "kind_file")
async def test_a_kind_may_be_tested_against_this_machine_if_allowed(
    site: Site, database_url: str, tmp_path: Path
) -> None:
    """docs/sources.md names the setting and the network."""
    named = re.search(r"HEADWATER_ALLOW_NETWORKS=([\d./]+)", (DOCS / "sources.md").read_text())
    assert named
    address = f"http://{site.connect_to[0].partition('=')[2]}/records.json"
    site.answers[address] = Answer((tmp_path / "golden/votes/records.json").read_text(), headers=JSON)
    settings = {"database_url": database_url, "data_dir": tmp_path / "data"}

    async def run(*words: str, **more: str) -> "subprocess.CompletedProcess[str]":
        return await asyncio.to_thread(headwater, *words, cwd=tmp_path, **settings, **more)

    assert (await run("source", "add", "votes", "--kind", "votes", "--set", f"list_url={address}")).returncode == 0
    refused = await run("source", "sync", "votes")
    assert refused.returncode == 2
    assert "is a private or reserved address" in refused.stderr
    polled = await run("source", "sync", "votes", allow_networks=named[1])
    assert polled.stdout.splitlines()[0] == "Read votes: 2 items, 2 of them new, 2 new pages to fetch."


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("../../etc/x", "The subpath '../../etc/x'"),
        ("same/x", "'same/x' is given to http://news.test/1 and to http://news.test/2."),
    ],
)
async def test_a_partition_outside_the_folder_or_shared_by_two_pages_fails_the_run(
    path: str, words: str, site: Site, program: Program, kind_file: Path, database: Database, tmp_path: Path
) -> None:
    """Issue 5, spec 1.5: the error names the source and the field, and nothing is saved."""
    two = [{"id": f"2026-000{number}", "url": f"http://news.test/{number}", "title": "A record"} for number in (1, 2)]
    site.answers[LIST] = Answer(json.dumps(two), headers=JSON)
    spoil_partition(kind_file, path)
    await program("source", "add", "votes", "--kind", "votes", "--set", f"list_url={LIST}")
    polled = await program("source", "sync", "votes")
    assert polled.returncode == 2
    assert f"Source votes: partition: {words}" in polled.stderr
    assert len(polled.stderr.splitlines()) == 1
    async with database.connection() as connection:
        for table in ("items", "url_frontier"):
            assert await connection.fetchval(f"SELECT count(*) FROM {table}") == 0
    assert not list((tmp_path / "data").rglob("x"))


def give_it_a_budget(kind_file: Path) -> None:
    """docs/sources.md shows the two lines."""
    lines = re.search(r"```python\n(.*?)```", (DOCS / "sources.md").read_text(), re.S)
    assert lines
    text = kind_file.read_text().replace(
        "    list_url: str", lines[1].replace("api.congress.gov", "api.test") + "    list_url: str"
    )
    kind_file.write_text(text.replace("from headwater", "from typing import ClassVar, Literal\n\nfrom headwater", 1))


@pytest.mark.usefixtures("database")
async def test_only_the_api_receives_the_key(site: Site, program: Program, kind_file: Path) -> None:
    """Spec 1.4: this holds for all errors and all log levels."""
    give_it_a_budget(kind_file)
    site.answers[LIST] = [Answer(status=503), Answer(RECORDS, headers=JSON), Answer(status=404), Answer("no JSON")]
    await program("source", "add", "votes", "--kind", "votes", "--set", f"list_url={LIST}")
    words, output = ("source", "sync", "votes"), ""
    for key in (KEY, KEY, KEY, ""):
        done = await program(*words, log_level="debug", api_data_gov_key=key)
        output += done.stdout + done.stderr
    assert [seen.headers["X-Api-Key"] for seen in site.seen] == [KEY] * 4
    assert "Read votes: 1 items" in output
    assert "answered 404" in output
    assert "set HEADWATER_API_DATA_GOV_KEY to it" in output
    assert KEY not in output


BAD = {
    "schedule": ("0 0 30 2 *", "never fires"),
    "timezone": ("Mars/Olympus_Mons", "not a time zone"),
    "rate_per_second": (-1, "must be from"),
    "budget": ("api.data.gov", "declares no api_hosts"),
}


@pytest.mark.parametrize("field", BAD)
async def test_the_command_refuses_bad_settings_and_saves_nothing(
    field: str, site: Site, program: Program, database: Database
) -> None:
    """Issue 5: the error names the source and the field."""
    site.answers[FEED] = rss()
    value, why = BAD[field]
    words = ("source", "add", "news", "--kind", "site", "--set", f"feed_url={FEED}", "--set", f"{field}={value}")
    refused = await program(*words)
    assert refused.returncode == 2
    assert re.fullmatch(rf"headwater: Source news: {field}: .*{why}.*\n", refused.stderr)
    assert await count_sources(program) == 0


@pytest.fixture
async def post(
    site: Site, make_settings: Callable[..., Settings], database: Database
) -> AsyncIterator[Callable[[dict[str, object]], Awaitable[tuple[int, str]]]]:
    """A function that sends a new source to the running API."""
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(settings, [RoleName.API], make_app, on_ready=address.set_result))
    base = await address
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session:

        async def ask(body: dict[str, object]) -> tuple[int, str]:
            async with session.post(f"{base}/sources", json=body) as response:
                answer = await response.json()
                return response.status, answer["error"]["message"] if "error" in answer else answer["name"]

        yield ask
    os.kill(os.getpid(), signal.SIGTERM)
    await serving


Post = Callable[[dict[str, object]], Awaitable[tuple[int, str]]]


async def test_the_api_refuses_bad_settings_and_saves_nothing(site: Site, post: Post, program: Program) -> None:
    """Issue 5: the error names the source and the field, for a feed and for other kinds."""
    site.answers[FEED] = rss()
    for field, (value, why) in BAD.items():
        for body in ({"url": FEED, "name": "news"}, {"kind": "manual", "name": "news"}):
            status, message = await post({**body, "settings": {field: value}})
            assert status == 422
            assert message.startswith(f"Source news: {field}: ")
            assert why in message
    for body in (
        {"kind": "manual"},
        {"kind": "manual", "name": "x", "url": FEED},
        {"name": "x"},
        {"kind": "nothing", "name": "x"},
    ):
        assert (await post(body))[0] == 422
    assert await count_sources(program) == 0
    assert await post({"kind": "manual", "name": "by-hand"}) == (201, "by-hand")
    assert (await post({"kind": "manual", "name": "by-hand"}))[0] == 409
    assert await count_sources(program) == 1


async def test_a_row_with_broken_settings_fails_its_polls_and_loses_nothing(site: Site, harness: AppHarness) -> None:
    """Spec 1.1: the error names the source and the field. The source works again after a repair."""
    site.answers[FEED] = rss("http://news.test/a")
    await harness.operations.sources.add(FEED, "news")
    change = "UPDATE sources SET settings = settings || $1"
    await harness.execute(change, {"timezone": "Mars/Olympus_Mons"})
    failed = await harness.operations.sources.sync("news")
    assert failed.reason is Reason.BAD_SOURCE
    assert (failed.error or "").startswith("Source news: timezone: ")
    await harness.execute(change, {"timezone": None})
    assert (await harness.operations.sources.sync("news")).error is None


async def test_a_kind_whose_partition_raises_fails_its_run_and_keeps_its_state(
    site: Site, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run reports the error of the kind and releases its lease at once."""
    kinds.install(monkeypatch, "plain", kinds.PlainKind)
    site.answers[LIST] = Answer('[{"url": "http://news.test/1", "number": "1"}]', headers=JSON)
    await harness.operations.sources.create("odd", "plain", {"urls": [LIST]})
    failed = await harness.operations.sources.sync("odd")
    assert (failed.reason, failed.error) == (Reason.INTERNAL, "KeyError: 'date'")
    method = await harness.method("odd")
    assert (method.polling, method.last_reason) == (False, Reason.INTERNAL)


async def test_a_broken_kind_does_not_affect_other_kinds(
    site: Site, program: Program, kind_file: Path, database: Database
) -> None:
    """Spec 1.1: only a source of the broken kind reports the error."""
    (points,) = kind_file.parent.glob("*.dist-info/entry_points.txt")
    points.write_text(f"{points.read_text()}broken = nosuchmodule:Kind\n")
    site.answers[LIST] = Answer(RECORDS, headers=JSON)
    refused = await program("source", "add", "x", "--kind", "broken")
    assert refused.returncode == 2
    assert "Source x: the kind 'broken' cannot be loaded (nosuchmodule:Kind: ModuleNotFoundError" in refused.stderr
    await program("source", "add", "votes", "--kind", "votes", "--set", f"list_url={LIST}")
    assert (await program("source", "sync", "votes")).returncode == 0
    assert await count_sources(program) == 1


class UndatedKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Yields a date as an API writes it."""

    date: str | None = None

    async def discover(self, run: Run) -> AsyncIterator[Item]:
        given: Any = self.date or run.now.replace(tzinfo=None)
        yield Item(url="http://news.test/1", title="1", published_at=given)


@pytest.mark.parametrize("settings", [{"date": "2026-01-01"}, {}])
async def test_a_date_without_time_is_refused_with_the_source_and_the_field(
    settings: dict[str, str], harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds.install(monkeypatch, "undated", UndatedKind)
    await harness.operations.sources.create("odd", "undated", settings)
    failed = await harness.operations.sources.sync("odd")
    assert failed.reason is Reason.BAD_SOURCE
    assert (failed.error or "").startswith("Source odd: published_at: must be a datetime with a time zone, not ")
    assert (await harness.operations.sources.show("odd")).last_items == []
    assert not (await harness.method("odd")).polling


class ComingKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Yields an item that a list announces for a later day."""

    async def discover(self, run: Run) -> AsyncIterator[Item]:
        later = run.now + timedelta(days=2)
        yield Item(url="http://news.test/1", title="1", published_at=later, updated_at=later, undated=Undated.UNKNOWN)


async def test_a_date_in_the_future_is_no_date_of_any_kind(
    harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 20: the item is on no day until its day has come."""
    kinds.install(monkeypatch, "coming", ComingKind)
    await harness.operations.sources.create("soon", "coming", {})
    assert (await harness.operations.sources.sync("soon")).new_items == 1
    (item,) = (await harness.operations.sources.show("soon")).last_items
    assert item.published_is_sighting
    assert await count(harness, "item_observations") == 0
