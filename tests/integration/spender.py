"""A process that spends from a shared key on request. Its arguments are a database's URL and the limits, in JSON.

Each line that it reads is a step: the time, and how often each source wants to ask. It writes how often each could. A
source that was refused does not ask again before its time.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from headwater.core.api_budget import Split
from headwater.core.settings import Settings
from headwater.db.pool import open_database
from headwater.politeness.api_budget import Budgets

KEY = "0123456789" * 4
HOST = "api.test"


class SetClock:
    """Returns the time that it was set to."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at


async def spend(database_url: str, rate_limits: dict[str, int]) -> None:
    clock = SetClock(datetime.now(UTC))
    again: dict[str, datetime] = {}

    async def ask(source: str, times: int) -> int:
        if again.get(source, clock.at) > clock.at:
            return 0
        for granted in range(times):
            if until := await budgets.try_acquire(source, HOST):
                again[source] = until
                return granted
        return times

    async with open_database(Settings(data_dir=Path("unused"), database_url=database_url)) as database:
        budgets = Budgets(database, clock, KEY, Split(rate_limits))
        say("ready")
        for line in iter(sys.stdin.readline, ""):
            step = json.loads(line)
            clock.at = datetime.fromisoformat(step["now"])
            granted = await asyncio.gather(*(ask(source, times) for source, times in step["asks"].items()))
            say(dict(zip(step["asks"], granted, strict=True)))


def say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main(words: Sequence[str]) -> None:
    database_url, rate_limits = words
    asyncio.run(spend(database_url, json.loads(rate_limits)))
