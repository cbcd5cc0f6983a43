"""The pruner: the fetch log is kept for as long as the operator wants, and its tally small."""

from datetime import datetime, timedelta

from headwater.db import frontier
from headwater.db.pool import Database

BATCH = 5000


async def prune_log(database: Database, now: datetime, keep: timedelta) -> int:
    """Forget the attempts that ended longer ago than `keep`, a batch at a time; return how many."""
    pruned = 0
    while True:
        batch = await database.transact(lambda connection: frontier.prune_log(connection, now - keep, BATCH))
        pruned += batch
        if batch < BATCH:
            return pruned


async def merge_frontier_counts(database: Database) -> None:
    """Sum up the tally of URLs, which every change adds a row to."""
    await database.transact(frontier.merge_frontier_counts)
