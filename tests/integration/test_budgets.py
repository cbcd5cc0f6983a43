"""Budgets of the api.data.gov key on a real database: shared, kept, never passed (spec 1.4)."""

import asyncio
import json
import random
import signal
from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from headwater.core.api_budget import DEFAULT_SPLIT, HOUR, Split, fingerprint
from headwater.core.errors import OperatorError
from headwater.core.settings import Settings
from headwater.db import budgets as books
from headwater.db.pool import Database, open_database
from headwater.politeness.api_budget import Budgets
from tests.integration import spender
from tests.integration.keyring import NOW, Keyring
from tests.integration.spender import HOST, KEY, SetClock
from tests.program import Forked, environment, headwater

pytestmark = pytest.mark.both_servers

MINUTE = timedelta(minutes=1)
OTHER_HOST = "other.test"


class Spender:
    """Another process with the same key."""

    def __init__(self, process: Forked) -> None:
        self._process = process

    async def step(self, now: datetime, asks: dict[str, int]) -> dict[str, int]:
        if not asks:
            return {}  # an empty answer
        self._process.stdin.write(json.dumps({"now": now.isoformat(), "asks": asks}) + "\n")
        self._process.stdin.flush()
        granted: dict[str, int] = json.loads(await asyncio.to_thread(self._process.stdout.readline))
        return granted

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        self.kill()
        self._process.communicate()


@asynccontextmanager
async def spenders(database_url: str, **rate_limits: int) -> AsyncIterator[Callable[[], Awaitable[Spender]]]:
    """A way to start processes that end with the test."""
    started: list[Spender] = []

    async def start() -> Spender:
        words = (database_url, json.dumps(rate_limits))
        process = Forked(*words, cwd=Path.cwd(), env=environment(), module=spender.__name__)
        started.append(Spender(process))
        await asyncio.to_thread(process.stdout.readline)
        return started[-1]

    try:
        yield start
    finally:
        for one in started:
            one.close()


def most_in_an_hour(times: list[datetime]) -> int:
    """The plain model: of all rolling hours, both ends included, the count of the fullest."""
    times = sorted(times)
    return max(number + 1 - bisect_left(times, at - HOUR) for number, at in enumerate(times))


def demand(minute: int, chance: random.Random) -> dict[str, int]:
    """The requests of one process in a minute: the most it may send at first and around noon, else a few bursts."""
    sources = ("bills", "regulations_gov", "hearings", "public_laws", "roll_call_votes", "crs", "gao")
    if minute < 70 or 715 <= minute < 725:
        return dict.fromkeys(sources, 30)
    if chance.random() < 0.01:
        return {source: chance.randint(1, 50) for source in chance.sample(sources, 2)}
    return {}


async def test_two_processes_never_pass_the_limit_in_any_rolling_hour_of_a_day(
    database: Database, database_url: str
) -> None:
    """Spec 1.4, issue 5: the first hour included; one of them is killed at noon and started again."""
    chance = random.Random(14)
    split, sent = Split(), list[tuple[datetime, str]]()
    async with spenders(database_url) as start:
        pair = [await start(), await start()]
        for minute in range(24 * 60):
            if minute == 12 * 60:
                pair[0].kill()
                pair[0] = await start()
            # Their clocks do not quite agree.
            nows = [NOW + minute * MINUTE + timedelta(seconds=chance.uniform(0, 40)) for _ in pair]
            asks = [demand(minute, chance) for _ in pair]
            granted = await asyncio.gather(*map(Spender.step, pair, nows, asks))
            for now, by_source in zip(nows, granted, strict=True):
                sent += [(now, source) for source, times in by_source.items() for _ in range(times)]

    first_hour = [at for at, _ in sent if at < NOW + HOUR]
    assert len(first_hour) == most_in_an_hour([at for at, _ in sent]) == 1000
    assert sum(at < NOW + 70 * MINUTE for at, _ in sent) == 2000
    for child, share in DEFAULT_SPLIT.items():
        assert most_in_an_hour([at for at, source in sent if split.child_of(source) == child]) == share
    async with database.connection() as connection:
        kept = await connection.fetchval("SELECT count(*) FROM budget_spending")
    assert kept <= 121 * len(DEFAULT_SPLIT) * 2


@pytest.mark.usefixtures("database")
async def test_two_processes_that_ask_at_once_get_together_what_is_there(database_url: str) -> None:
    """Spec 1.4: the last request is given out once."""
    all_at_once = {f"source{number}": 1 for number in range(8)}
    async with spenders(database_url, reserve=5) as start:
        pair = [await start(), await start()]
        for number in range(5):
            now = NOW + number * 2 * HOUR
            granted = await asyncio.gather(*(each.step(now, all_at_once) for each in pair))
            assert sum(sum(each.values()) for each in granted) == 5


@pytest.fixture
def keyring(database: Database) -> Keyring:
    return Keyring(database)


async def test_a_larger_limit_scales_its_host_and_no_other(keyring: Keyring) -> None:
    """Spec 1.4: `X-RateLimit-Limit: 5000` gives bills 1,750; another host's header changes nothing."""
    assert await keyring.spend("bills", 350) is None
    assert await keyring.spend("bills", 1)
    await keyring.answer(host=OTHER_HOST, x_ratelimit_limit="5000")
    assert await keyring.spend("bills", 1)
    assert (await keyring.shares())["bills"] == 350
    assert await keyring.shares(OTHER_HOST) == {child: 5 * share for child, share in DEFAULT_SPLIT.items()}
    await keyring.answer(x_ratelimit_limit="5000")
    assert (await keyring.shares())["bills"] == 1750
    assert await keyring.spend("bills", 20) is None


async def test_a_smaller_limit_holds_for_what_was_spent_before(keyring: Keyring) -> None:
    """Spec 1.4."""
    assert await keyring.spend("bills", 20) is None
    await keyring.answer(x_ratelimit_limit="40")
    again = await keyring.spend("bills", 1)
    assert again
    assert again > keyring.clock.at + HOUR
    assert await keyring.spend("hearings", 6) is None
    assert await keyring.spend("hearings", 1)


async def test_a_limit_that_rises_makes_each_lower_one_be_learned_again(keyring: Keyring) -> None:
    """Spec 1.4: a key that may send more at one host may do so at others, which must not wait for an old limit."""
    third = "third.test"
    await keyring.answer(host=third, x_ratelimit_limit="5000")
    for host in (HOST, OTHER_HOST):
        await keyring.answer(host=host, x_ratelimit_limit="40")
        assert await keyring.spend("bills", 15, host)
        await keyring.answer(429, host, x_ratelimit_limit="40")
    await keyring.answer(429, third, x_ratelimit_limit="5000")
    await keyring.answer(x_ratelimit_limit="2000")
    assert (await keyring.shares())["bills"] == 700
    assert (await keyring.shares(OTHER_HOST))["bills"] == 350
    assert await keyring.spend("bills", 1) is None
    assert await keyring.spend("bills", 1, OTHER_HOST) is None
    assert await keyring.spend("bills", 1, third) == NOW + HOUR
    await keyring.answer(host=OTHER_HOST, x_ratelimit_limit="30")
    await keyring.answer(x_ratelimit_limit="1000")
    assert (await keyring.shares(OTHER_HOST))["bills"] == 10


async def test_a_header_that_says_nothing_changes_nothing(keyring: Keyring) -> None:
    for header in ("0", "-1", "many", ""):
        await keyring.spend("bills", 1)
        await keyring.answer(x_ratelimit_limit=header)
    assert (await keyring.shares())["bills"] == 350


async def test_a_restart_keeps_what_was_spent(make_settings: Callable[..., Settings], keyring: Keyring) -> None:
    """Spec 1.4: budgets hold across restarts."""
    await keyring.answer(x_ratelimit_limit="100")
    assert await keyring.spend("bills", 30) is None
    async with open_database(make_settings()) as reopened:
        later = Keyring(reopened)
        assert await later.spend("bills", 5) is None
        assert await later.spend("bills", 1) == await keyring.spend("bills", 1) is not None


async def test_a_429_stops_every_source_of_every_process_for_an_hour(
    make_settings: Callable[..., Settings], keyring: Keyring
) -> None:
    """Spec 1.4: an upstream 429 empties the parent; its own host's only."""
    await keyring.answer(429, x_ratelimit_limit="5000", x_ratelimit_remaining="0")
    async with open_database(make_settings()) as database:
        other = Keyring(database)
        for source in (*DEFAULT_SPLIT, "crs"):
            assert await other.spend(source, 1) == NOW + HOUR
        assert await other.spend("bills", 1, OTHER_HOST) is None
        other.clock.at = NOW + HOUR
        assert await other.spend("bills", 1) is None
    assert (await keyring.shares())["bills"] == 1750


async def test_a_429_that_says_when_to_come_back_is_believed(keyring: Keyring) -> None:
    """Spec 1.4."""
    await keyring.answer(429, retry_after="90")
    await keyring.answer(429, retry_after="30")
    assert await keyring.spend("bills", 1) == NOW + timedelta(seconds=90)
    await keyring.answer(429, retry_after="0")
    assert await keyring.spend("bills", 1) == NOW + HOUR


async def test_an_override_stands_and_sources_without_a_share_divide_the_reserve(database: Database) -> None:
    """Spec 1.4: HEADWATER_RATE_LIMIT_<SOURCE>_PER_HOUR."""
    keyring = Keyring(database, bills=3, crs=2)
    assert await keyring.spend("bills", 3) is None
    assert await keyring.spend("bills", 1)
    assert await keyring.spend("crs", 2) is None
    assert await keyring.spend("crs", 1)
    assert await keyring.spend("gao", 60) is None
    assert await keyring.spend("cbo", 40) is None
    assert await keyring.spend("gao", 1)
    assert await keyring.spend("cbo", 1)
    assert await keyring.spend("hearings", 1) is None


async def test_the_key_itself_is_never_kept(keyring: Keyring) -> None:
    """Spec 1.4: only a fingerprint of it."""
    await keyring.spend("bills", 1)
    await keyring.answer(429, x_ratelimit_limit="5000")
    async with keyring.database.connection() as connection:
        rows = await connection.fetch("SELECT b::text FROM budgets b UNION ALL SELECT s::text FROM budget_spending s")
        assert len(rows) == 2
        assert all(KEY not in row["b"] and fingerprint(KEY) in row["b"] for row in rows)
        with pytest.raises(asyncpg.CheckViolationError):
            await books.save_limit(connection, KEY, HOST, 1000, NOW)


async def test_a_request_that_waits_for_a_connection_counts_when_it_leaves(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 1.4: counted from its first wait, the hour would end too early."""
    keyring, transact = Keyring(database, bills=1), database.transact

    async def wait_and_transact(work: Callable[..., Awaitable[object]], *arguments: object) -> object:
        keyring.clock.at += 30 * MINUTE
        return await transact(work, *arguments)

    monkeypatch.setattr(database, "transact", wait_and_transact)
    assert await keyring.spend("bills", 1) is None
    monkeypatch.undo()
    keyring.clock.at = NOW + HOUR + 5 * MINUTE
    assert await keyring.spend("bills", 1) is not None


async def test_a_missing_key_is_said_to_the_operator(database: Database) -> None:
    """Spec 1.4."""
    keyless = Budgets(database, SetClock(NOW), "", Split())
    with pytest.raises(OperatorError, match="HEADWATER_API_DATA_GOV_KEY"):
        await keyless.spend("bills", HOST)


async def test_the_command_shows_what_is_left(database: Database, database_url: str, tmp_path: Path) -> None:
    """Spec 1.4, issue 5: `headwater source budgets`."""
    settings = {"database_url": database_url, "api_data_gov_key": KEY, "rate_limit_bills_per_hour": 4}

    async def ask(*words: str) -> str:
        answer = await asyncio.to_thread(headwater, "source", "budgets", *words, cwd=tmp_path, **settings)
        assert (answer.returncode, answer.stderr) == (0, "")
        assert KEY not in answer.stdout
        return answer.stdout

    asking = {"user_agent": "honest", "api_hosts": [HOST], "budget": "api.data.gov"}
    async with database.connection() as connection:
        for name, others in (("crs", {}), ("elsewhere", {"api_hosts": ["api2.test"]}), ("unpaid", {"budget": None})):
            await connection.execute(
                "INSERT INTO sources (name, kind, created_at, fetch_profile) VALUES ($1, 'manual', now(), $2)",
                name,
                asking | others,
            )
    keyring = Keyring(database, bills=4)
    keyring.clock.at = datetime.now(UTC)
    assert await keyring.spend("bills", 4) is None
    assert await keyring.spend("crs", 1) is None
    await keyring.answer(x_ratelimit_limit="2000")
    (host,) = json.loads(await ask("--json"))["hosts"]
    bills, *others = host["sources"]
    assert (host["host"], host["hourly_limit"]) == (HOST, 2000)
    assert (bills["source"], bills["share"], bills["spent"], bills["left"]) == ("bills", 4, 4, 0)
    assert datetime.fromisoformat(bills["next_free"]) > keyring.clock.at + HOUR
    spent = {"share": 200, "spent": 1, "left": 199, "next_free": None}
    assert others[-1] == {"source": "reserve", "drawn_by": ["crs"], **spent}
    shown = await ask()
    assert "2,000 requests an hour (as the host says)" in shown
    assert len(shown.splitlines()) == 3 + len(DEFAULT_SPLIT)
    assert shown.endswith("These sources use the reserve: crs.\n")
