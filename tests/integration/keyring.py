"""The budgets of a key, with a clock that advances when a caller sleeps."""

from datetime import UTC, datetime, timedelta

from headwater.core.api_budget import Split, fingerprint
from headwater.core.http import Response
from headwater.db import budgets as books
from headwater.db.pool import Database
from headwater.politeness.api_budget import Budgets
from tests.integration.spender import HOST, KEY, SetClock

NOW = datetime(2026, 3, 12, 0, 0, 7, tzinfo=UTC)


class Keyring:
    """The budgets of one database."""

    def __init__(self, database: Database, **rate_limits: int) -> None:
        self.clock = SetClock(NOW)
        self.database = database
        self.budgets = Budgets(database, self.clock, KEY, Split(rate_limits), self.sleep)
        self.sleeps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self.sleeps.append(seconds)
        self.clock.at += timedelta(seconds=seconds)

    async def spend(self, source: str, times: int, host: str = HOST) -> datetime | None:
        """Ask so often, or until a request is refused. Return when to try again."""
        for _ in range(times):
            if again := await self.budgets.try_acquire(source, host):
                return again
        return None

    async def answer(self, status: int = 200, host: str = HOST, **headers: str) -> None:
        """Read an answer of a host."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.budgets.read_answer(host, Response(f"https://{host}/", status, named, b"", self.clock.at, 0.1))

    async def shares(self, host: str = HOST) -> dict[str, int]:
        async with self.database.connection() as connection:
            rows = await books.list_budgets(connection, fingerprint(KEY), Split(), self.clock.at)
        (found,) = (row.sources for row in rows if row.host == host)
        return {row.source: row.share for row in found}
