"""Typed functions over queries/site_memory.sql."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from headwater.core.site_memory import SiteMemory
from headwater.db.pool import Connection
from headwater.db.sql import query


class KnownBlocks(NamedTuple):
    """The blocks that a reader leaves out of a page, and whether its document has pinned them."""

    hashes: list[int]
    is_pinned: bool


async def get_known_blocks(connection: Connection, pages: Sequence[tuple[int, str]]) -> list[KnownBlocks]:
    """Return for each page (URL id, host) the blocks that its document was read without, or those of its host."""
    rows = await connection.fetch(query("get_known_blocks"), *zip(*pages, strict=True))
    return [
        KnownBlocks(_read_memory(row).recurring() if row["pages"] else [], is_pinned=False)
        if row["removed"] is None
        else KnownBlocks(row["removed"], is_pinned=True)
        for row in rows
    ]


async def lock_site_memories(connection: Connection, hosts: Collection[str]) -> dict[str, SiteMemory]:
    """Return the memories of hosts that have one. No other transaction changes them before this one ends."""
    rows = await connection.fetch(query("lock_site_memory"), list(hosts))
    return {row["host"]: _read_memory(row) for row in rows}


async def save_site_memories(connection: Connection, memories: Mapping[str, SiteMemory]) -> None:
    """Save the memories of hosts."""
    hosts = sorted(memories)
    of_hosts = [memories[host] for host in hosts]
    blocks = [_write_array(memory.counts) for memory in of_hosts]
    counts = [_write_array(memory.counts.values()) for memory in of_hosts]
    await connection.execute(query("save_site_memory"), hosts, [memory.pages for memory in of_hosts], blocks, counts)


def _read_memory(row: Mapping[str, Any]) -> SiteMemory:
    return SiteMemory(row["pages"], dict(zip(row["blocks"], row["counts"], strict=True)))


def _write_array(values: Iterable[int]) -> str:
    return f"{{{','.join(map(str, values))}}}"
