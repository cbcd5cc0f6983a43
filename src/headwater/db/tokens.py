"""Typed functions over queries/tokens.sql."""

from datetime import datetime

from headwater.core.access import Scope
from headwater.core.record import record
from headwater.db.pool import Connection
from headwater.db.sql import query, to_record


@record
class Token:
    """An API token. Only a hash of its characters is stored."""

    name: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None
    """Null if it does not expire."""
    last_used_at: datetime | None
    """To about a minute. Null if it was never used."""


async def add_token(
    connection: Connection, name: str, digest: bytes, scope: Scope, *, now: datetime, expires_at: datetime | None
) -> Token | None:
    """Add a token by its hash. Return None if its name is taken."""
    row = await connection.fetchrow(query("add_token"), name, digest, scope, now, expires_at)
    return to_record(Token, row) if row else None


async def list_tokens(connection: Connection) -> dict[bytes, Token]:
    """Return all tokens by hash, ordered by name."""
    return {row["digest"]: to_record(Token, row) for row in await connection.fetch(query("list_tokens"))}


async def remove_token(connection: Connection, name: str) -> bool:
    """Remove a token; return False if there is none."""
    return await connection.fetchval(query("remove_token"), name) is not None


async def set_token_used(connection: Connection, digest: bytes, now: datetime) -> None:
    """Save when a token was used."""
    await connection.execute(query("set_token_used"), digest, now)
