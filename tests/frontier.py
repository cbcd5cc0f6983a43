"""The frontier on a real database, with a clock that the test sets."""

from datetime import UTC, datetime, timedelta

from headwater.core.frontier import Candidate, Claim, FetchOutcome, HostRelease, Origin, UrlFilter, UrlStatus
from headwater.core.reasons import Reason
from headwater.db.frontier import UrlLine, list_urls, lock_claims
from headwater.db.pool import Connection, Database
from headwater.frontier.claim import Finish, claim, finish
from headwater.frontier.submit import Submitted, submit
from headwater.frontier.submit import priority as rank
from tests.database_state import DatabaseReader

STORED = FetchOutcome(Reason.STORED, UrlStatus.FETCHED)
NOW = datetime(2026, 3, 12, 12, 0, tzinfo=UTC)
LEASE = timedelta(seconds=60)
DELAY_MS = 1000


class Frontier(DatabaseReader):
    """The frontier with a clock in hand."""

    def __init__(self, database: Database, source_id: int) -> None:
        self.database = database
        self.source_id = source_id
        self.now = NOW

    async def put(self, *urls: str, origin: Origin = Origin.FEED, priority: int = 5) -> Submitted:
        batch = [Candidate(url, self.source_id, origin, rank(priority, origin)) for url in urls]
        return await self.database.transact(lambda connection: submit(connection, batch, self.now))

    async def take(self, limit: int = 10, holder: str = "me") -> list[Claim]:
        return await claim(
            self.database, now=self.now, lease=LEASE, holder=holder, limit=limit, default_delay_ms=DELAY_MS
        )

    async def end(self, claimed: Claim, ending: FetchOutcome, *, not_before: datetime | None = None) -> bool:
        """Finish a claim the way a worker does; False when the fence refused it."""

        async def work(connection: Connection) -> bool:
            if claimed.url_id not in await lock_claims(connection, [claimed]):
                return False
            key, token = claimed.host.politeness_key, claimed.lease.token
            release = HostRelease(key, token, not_before or self.now)
            await finish(connection, [Finish(claimed, ending, release)], self.now)
            return True

        return await self.database.transact(work)

    async def urls(self) -> dict[str, UrlLine]:
        """Return the URLs by address."""
        any_url = UrlFilter()

        async def work(connection: Connection) -> list[UrlLine]:
            return await list_urls(connection, any_url, now=self.now, after=0, limit=10_000)

        return {line.url: line for line in await self.database.transact(work)}
