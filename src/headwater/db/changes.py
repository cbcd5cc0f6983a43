"""Typed functions over queries/changes.sql."""

from collections.abc import Collection
from datetime import datetime

from headwater.core.change import Change, ChangedDocument, FailedJob
from headwater.core.reasons import Reason
from headwater.db.pool import Connection
from headwater.db.sql import query

BATCH = 5000


async def number_changes(connection: Connection) -> int:
    """Give positions to what has committed, a batch at most; return how many got one. Must run inside a transaction."""
    last = await connection.fetchval(query("hold_change_state"))
    numbered: int = await connection.fetchval(query("number_changes"), last, BATCH)
    return numbered


async def last_position(connection: Connection) -> int:
    """Return the last position that was given."""
    last: int = await connection.fetchval(query("last_position"))
    return last


async def furthest_position(connection: Connection) -> int:
    """Return the position that nobody can have read beyond."""
    furthest: int = await connection.fetchval(query("furthest_position"))
    return furthest


async def position_before(connection: Connection, moment: datetime) -> int | None:
    """Return the position right before all that changed at a time or later; None where nothing did."""
    position: int | None = await connection.fetchval(query("position_before"), moment)
    return position


async def changes_after(connection: Connection, position: int, limit: int) -> list[Change]:
    """List changes in their order."""
    rows = await connection.fetch(query("positions_after"), position, limit)
    return list((await tell_changes(connection, [row["position"] for row in rows])).values())


async def tell_changes(connection: Connection, positions: Collection[int]) -> dict[int, Change]:
    """Tell of the changes at some positions, in their order."""
    told = {}
    for row in await connection.fetch(query("tell_changes"), list(positions)):
        document = job = None
        if row["revision"] is not None:
            document = ChangedDocument(
                row["document_id"],
                row["revision"],
                row["title"],
                row["content_hash"].hex(),
                row["language"],
                row["published_at"],
            )
        else:
            job = FailedJob(row["job_id"], row["reference_id"], Reason.of(row["reason"]))
        told[row["position"]] = Change(
            row["position"], row["changed_at"], row["url"], row["source"], document, job, row["is_correction"]
        )
    return told
