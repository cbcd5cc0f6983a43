"""The sweeper: no host with work is forgotten."""

from headwater.db import hosts
from headwater.db.pool import Connection, Database

SLICE = 2000


class Sweeper:
    """Goes round all hosts, a slice at a time, and wakes those that have work but that no claim would look at.

    There should be none: a submit, a finish and a rescue each set when a host has work next.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._after = ""

    async def sweep(self) -> int:
        """Look at the next slice; return how many hosts were woken."""

        async def work(connection: Connection) -> tuple[int, str | None]:
            forgotten, last = await hosts.forgotten_hosts(connection, self._after, SLICE)
            if forgotten:
                await hosts.wake_hosts(connection, forgotten)
            return len(forgotten), last

        woken, last = await self._database.transact(work)
        self._after = last or ""
        return woken
