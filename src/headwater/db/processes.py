"""The programs of Headwater that use a database."""

from datetime import datetime

from headwater.core.record import record
from headwater.db.pool import PROGRAM, Connection
from headwater.db.sql import query


@record
class ProcessRow:
    """The connections of the programs of one name from one machine."""

    name: str
    address: str | None
    """Null: it connects over a local socket."""
    connections: int
    since: datetime
    """When the oldest of the connections began."""


async def list_processes(connection: Connection) -> list[ProcessRow]:
    """List the programs of Headwater on this database."""
    return [ProcessRow(**row) for row in await connection.fetch(query("list_processes"), PROGRAM)]
