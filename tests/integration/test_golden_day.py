"""The golden day: recorded answers to the bytes that people get, whatever happens meanwhile (spec 6.4, 6.8)."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from headwater import normalize_url
from headwater.app import schema
from headwater.app.maintenance import rescue_expired
from headwater.core.settings import Settings
from headwater.db.context import open_database_context
from tests.database_clock import make_clock, step_clock
from tests.govuk import RETRY
from tests.program import environment, headwater
from tests.server import Answer, Site

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
RECORDED = GOLDEN / "govuk" / "summer_day"
HOME = "http://www.gov.test"
SETTINGS = {"site_url": HOME, "rate_per_second": 1000, "retry": RETRY, "fetch_items": False}
LEASE = timedelta(minutes=30)  # longer than any

Program = Callable[..., Awaitable["subprocess.CompletedProcess[str]"]]


def serve_recording(site: Site, *, turned: bool = False) -> None:
    """Let the site answer as was recorded, or with the results of each answer in the other order."""
    for exchange in json.loads((RECORDED / "run.json").read_text())["exchanges"]:
        url = normalize_url(exchange["url"].replace("https://www.gov.uk", HOME))
        body = json.loads((RECORDED / exchange["body"]).read_text()) if "body" in exchange else {}
        if turned and "results" in body:
            body["results"].reverse()
        site.answers[url] = Answer(json.dumps(body), exchange.get("status", 200), {"Content-Type": "application/json"})


@pytest.fixture
async def settings(
    site: Site, make_settings: Callable[..., Settings], database_url: str, tmp_path: Path
) -> dict[str, Any]:
    """This test's web and database, in the night after the day, with the source in place."""
    serve_recording(site)
    await make_clock(database_url)
    night = datetime(2026, 7, 14, 1, tzinfo=UTC)
    await step_clock(database_url, (night - datetime.now(UTC)).total_seconds())
    await schema.up(make_settings())
    connection = await asyncpg.connect(database_url)
    await connection.execute(
        "WITH added AS (INSERT INTO sources (name, kind, settings, created_at) "
        "VALUES ('govuk', 'govuk', $1::jsonb, clock_timestamp()) RETURNING id) "
        "INSERT INTO poll_state (source_id, method) SELECT id, 'main' FROM added",
        json.dumps(SETTINGS),
    )
    await connection.close()
    return {
        "database_url": database_url,
        "data_dir": tmp_path / "data",
        "connect_to": ",".join(site.connect_to),
        "allow_networks": "127.0.0.0/8",
    }


@pytest.fixture
def program(settings: dict[str, Any], tmp_path: Path) -> Program:
    """The real program."""
    return lambda *words: asyncio.to_thread(headwater, *words, cwd=tmp_path, **settings)


async def day(program: Program) -> str:
    """The shown day, without the run and the time of its reading."""
    shown = await program("daily", "2026-07-13", "--json")
    assert shown.returncode == 0, shown.stderr
    return re.sub(r'("run_id": |"read_at": )[^,\n]+', r"\1null", shown.stdout)


def expected() -> str:
    return (GOLDEN / "days" / "summer_day.json").read_text()


async def test_recorded_answers_become_the_expected_day_byte_for_byte(program: Program, site: Site) -> None:
    """Spec 6.4, 6.8: the same bytes, again after a rerun, and with results delivered in another order."""
    read = await program("ingest", "govuk", "--date", "2026-07-13")
    assert (read.returncode, read.stderr) == (0, "")
    assert re.fullmatch(
        r"govuk 2026-07-13: 4 NEW, 3 LATEST \(9 records in 4 pages, [\d.]+ s\)\n  complete\n"
        r"See `headwater daily 2026-07-13 --source govuk`.\n",
        read.stdout,
    )
    assert await day(program) == expected()
    serve_recording(site, turned=True)
    assert (await program("ingest", "govuk", "--date", "2026-07-13")).returncode == 0
    assert await day(program) == expected()
    table = (await program("daily", "2026-07-13")).stdout
    assert table.startswith("2026-07-13: 4 NEW, 3 LATEST\n  govuk: complete, read 2026-07-14 01:0")
    for words in ("Tide tables for the new moorings", "Harbour Office", "press_release", "LATEST"):
        assert words in table


async def test_a_kill_between_items_and_index_leaves_neither_and_a_rerun_gives_the_same_bytes(
    program: Program, site: Site, settings: dict[str, Any], tmp_path: Path
) -> None:
    """Spec 6.4, 6.5: one transaction; the killed run becomes FAILED(worker_lost). The rerun gets another order."""
    database_url = settings["database_url"]
    words = ["items of a poll are saved", "-", "ingest", "govuk", "--date", "2026-07-13"]
    code = f"from tests.faults.victim import main; main({words})"
    killed = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], cwd=ROOT, env=environment(**settings), capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL
    connection = await asyncpg.connect(database_url)
    try:
        for table in ("items", "item_observations", "daily_index", "days_read"):
            assert await connection.fetchval(f"SELECT count(*) FROM {table}") == 0
        (run,) = json.loads((await program("runs", "--json")).stdout)["runs"]
        assert run["status"] == "running"
        refused = await program("ingest", "govuk", "--date", "2026-07-13")
        assert refused.returncode == 2
        assert "run 1 of it is under way" in refused.stderr
        assert (await program("daily")).returncode == 2
        await step_clock(database_url, LEASE.total_seconds())
        own = Settings(database_url=database_url, data_dir=tmp_path / "data")
        async with open_database_context(own) as context:
            assert await rescue_expired(context) == 2
        (run,) = json.loads((await program("runs", "--json")).stdout)["runs"]
        assert (run["status"], run["reason"]) == ("failed", "worker_lost")
        serve_recording(site, turned=True)
        assert (await program("ingest", "govuk", "--date", "2026-07-13")).returncode == 0
        assert await day(program) == expected()
    finally:
        await connection.close()
