"""What a door may ask of sources without reaching out: add, change, list, show, switch, remove."""

from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from headwater.core.errors import OperatorError
from headwater.core.frontier import UrlFilter
from headwater.core.reasons import Reason
from headwater.core.source import Method, Source
from headwater.core.text import make_storable
from headwater.core.url_input import redact
from headwater.db import sources
from headwater.db.context import DatabaseContext
from headwater.db.pool import Connection
from headwater.frontier.retry import retry_all
from headwater.sandbox.pool import Sandbox, make_sandbox
from headwater.sources.health_report import HEALTHS, kind_or_why, tell_source
from headwater.sources.import_export import Imported, export_opml, export_yaml, import_sources
from headwater.sources.kind import Kind
from headwater.sources.registry import get_kind, prepare_settings
from headwater.sources.settings import require_set, require_unread, save_fetch_profile, unknown

_SLICE = 2000  # URLs ended at once
_ITEMS_SHOWN = 5
# Fields that may change while what is read, and so what is remembered of it, stays as it was.
_ABOUT_READING = frozenset(Kind.__struct_fields__) | {
    *("category", "ingestion_mode", "sitemap_hours", "spider_hours", "spider_depth", "spider_pages"),
}


@dataclass(frozen=True, slots=True)
class Removed:
    """What became of a source that was removed, and of what it had still to fetch."""

    name: str
    kept: bool  # what it has brought is kept; else it had brought nothing
    ended: int


class SourceOperations:
    """The sources' part of the desk; it reaches nothing but the database."""

    def __init__(self, context: DatabaseContext) -> None:
        self._context = context
        self._interval = timedelta(minutes=context.settings.poll_interval_minutes)

    async def listed(self, *, category: str | None = None, health: str | None = None) -> list[dict[str, Any]]:
        """List sources, the worst first, each with its health, why, and the state of its polls."""
        if health is not None and health not in HEALTHS:
            raise OperatorError(
                f"There is no health {redact(health)!r}: choose one of {', '.join(HEALTHS)}.",
                reason=Reason.BAD_REQUEST,
            )
        told = await self._told()
        if category is not None:
            told = [row for row in told if f"{row['category']}/".startswith(f"{category.strip('/')}/")]
        chosen = [row for row in told if health in (None, row["health"])]
        return sorted(chosen, key=lambda row: (row["health"].rank, row["name"]))

    async def show(self, name: str) -> dict[str, Any]:
        """Return all that is known of a source."""
        found = await self._told(name)
        if not found:
            raise unknown(name)
        row = found[0]
        async with self._context.database.connection() as connection:
            urls = await sources.count_source_urls(connection, row["id"])
            items = await sources.last_items(connection, row["id"], _ITEMS_SHOWN)
        kind = kind_or_why(row)
        defaults = {} if isinstance(kind, str) else msgspec.to_builtins(kind)
        return row | {
            "defaults": {field: value for field, value in defaults.items() if field not in row["settings"]},
            "urls": {status: urls.get(status, 0) for status in ("pending", "fetched", "dead")},
            "last_items": items,
        }

    async def _told(self, name: str | None = None) -> list[dict[str, Any]]:
        context = self._context
        async with context.database.connection() as connection:
            rows = await sources.list_sources(connection, make_storable(name) if name is not None else None)
            alone = rows[0]["id"] if name is not None and rows else None
            methods: dict[int, list[dict[str, Any]]] = {}
            for one in await sources.list_methods(connection, alone):
                methods.setdefault(one.pop("source_id"), []).append(one)
        now, look = context.clock.now(), timedelta(seconds=context.settings.poll_check_seconds)
        return [
            tell_source(row, methods.get(row["id"], ()), now, look, self._context.settings.timezone) for row in rows
        ]

    async def create(self, name: str, kind: str, settings: Mapping[str, Any]) -> Source:
        """Add a source of any kind. It is polled when it is due: by the running poller at once, or at its schedule."""
        configured, settings = prepare_settings(name, kind, settings)
        source, was_there = await self._context.database.transact(
            lambda connection: self._insert(connection, name, kind, configured, settings)
        )
        if was_there:
            await self._queue_again(name)
        return source

    async def _insert(
        self, connection: Connection, name: str, kind_name: str, kind: Kind, settings: Mapping[str, Any]
    ) -> tuple[Source, bool]:
        """Add the row; tell also whether there was a source of this name before."""
        await require_unread(connection, settings)
        now = self._context.clock.now()
        was_there = bool(await sources.find_removed_names(connection, [name]))
        due = {method: now if gap else None for method, gap in kind.methods(self._interval).items()}
        source = await sources.add_source(connection, name, kind_name, settings, now=now, due=due)
        if source is None:
            raise OperatorError(
                f"There is a source named {name} already; choose another name.", reason=Reason.SOURCE_EXISTS
            )
        await save_fetch_profile(connection, source, kind)
        return source, was_there

    async def _queue_again(self, name: str) -> None:
        """Let a source that is back have the URLs that had ended with it."""
        filters = UrlFilter(source=name, reason=Reason.SOURCE_REMOVED)

        async def is_there(connection: Connection) -> bool:
            """Tell whether nobody has removed it again, and let nobody do so meanwhile."""
            source = await sources.get_source(connection, name)
            return source is not None and await sources.prevent_removal(connection, source.id)

        async for _ in retry_all(self._context.database, self._context.clock.now(), filters, is_allowed=is_there):
            pass

    async def edit(self, name: str, changes: Mapping[str, Any], unset: Collection[str] = ()) -> dict[str, Any]:
        """Change settings of a source, or take them back to their defaults; return all that is known of it then."""
        if not changes and not unset:
            raise OperatorError(f"Source {name}: nothing was given to change.", reason=Reason.BAD_REQUEST)

        async def work(connection: Connection) -> None:
            source = await self._locked(connection, name)
            require_set(source, changes, unset)
            merged = {field: value for field, value in {**source.settings, **changes}.items() if field not in unset}
            kind, settings = prepare_settings(name, source.kind, merged)
            await self._replace_settings(connection, source, kind, settings)

        await self._context.database.transact(work)
        return await self.show(name)

    async def _replace_settings(
        self, connection: Connection, source: Source, kind: Kind, settings: Mapping[str, Any]
    ) -> None:
        fields = source.settings.keys() | settings.keys()
        changed = {field for field in fields if source.settings.get(field) != settings.get(field)}
        if "feed_url" in changed:
            await require_unread(connection, settings)
        if not await sources.replace_settings(connection, source.id, settings):
            raise OperatorError(f"Source {source.name}: another reads this feed already.", reason=Reason.SOURCE_EXISTS)
        await save_fetch_profile(connection, source, kind)
        now, gaps = self._context.clock.now(), kind.methods(self._interval)
        await sources.save_methods(
            connection, source.id, {method: now if gap else None for method, gap in gaps.items()}
        )
        before = self._gaps(source)
        await sources.replan_methods(
            connection,
            source.id,
            gaps,
            changed=[method for method, gap in gaps.items() if method not in before or before[method] != gap],
            now=now,
            afresh=bool(changed - _ABOUT_READING),
        )

    def _gaps(self, source: Source) -> Mapping[Method, timedelta | None]:
        """Return the intervals of a source as its row has them; none where that cannot be used."""
        try:
            return get_kind(source).methods(self._interval)
        except OperatorError:
            return {}

    async def switch(self, name: str, *, enabled: bool) -> dict[str, Any]:
        """Let a source be polled, or not; return all that is known of it then."""

        async def work(connection: Connection) -> None:
            source = await self._locked(connection, name)
            await sources.set_source_enabled(connection, source.id, enabled=enabled)

        await self._context.database.transact(work)
        return await self.show(name)

    async def remove(self, name: str) -> Removed:
        """Remove a source. What it has brought stays; what waits to be fetched is not.

        What is being fetched meanwhile is, and comes back to the queue where that fails: another removal ends it.
        """

        async def work(connection: Connection) -> tuple[Source, bool, bool]:
            found = await sources.lock_source(connection, make_storable(name))
            if found is None:
                raise unknown(name)
            source, was_removed = found
            kept = was_removed or not await sources.delete_unused_source(connection, source.id)
            if kept and not was_removed:
                await sources.mark_source_removed(connection, source.id, self._context.clock.now())
            return source, kept, was_removed

        source, kept, was_removed = await self._context.database.transact(work)
        ended = await self._end_urls(source.id) if kept else 0
        if was_removed and not ended:  # else somebody was stopped while removing it
            raise unknown(name)
        return Removed(name, kept, ended)

    async def check_name(self, name: str) -> None:
        """Raise what a removal would where no source was ever named so."""
        if await self._context.database.transact(lambda held: sources.lock_source(held, make_storable(name))) is None:
            raise unknown(name)

    async def _end_urls(self, source_id: int) -> int:
        """End what a removed source had still to fetch, a slice at a time; return how much that was."""
        after = count = 0
        while True:

            async def work(connection: Connection, after: int = after) -> list[int]:
                return await sources.end_removed_urls(connection, source_id, after, _SLICE)

            ended = await self._context.database.transact(work)
            if not ended:
                return count
            after, count = max(ended), count + len(ended)

    async def _locked(self, connection: Connection, name: str) -> Source:
        found = await sources.lock_source(connection, make_storable(name))
        if found is None or found[1]:
            raise unknown(name)
        return found[0]

    async def import_list(self, body: bytes, *, dry_run: bool = False) -> Imported:
        """Add the sources of an OPML or YAML file, each that can be used; tell what became of the rest."""
        async with self._sandbox() as sandbox:
            imported = await import_sources(self._context, sandbox, body, self._interval, dry_run=dry_run)
        for name in imported.back:
            await self._queue_again(name)
        return imported

    async def export_yaml(self) -> bytes:
        """Return all sources as a file that can be imported."""
        return export_yaml(await self._all())

    async def export_opml(self) -> tuple[bytes, list[str]]:
        """Return the feeds as a file for any reader, and the names of the sources that have none."""
        return export_opml(await self._all(), self._context.clock.now())

    async def _all(self) -> list[Source]:
        async with self._context.database.connection() as connection:
            return await sources.get_all_sources(connection)

    def _sandbox(self) -> AbstractAsyncContextManager[Sandbox]:
        """Lend a place to read what came from outside."""
        return make_sandbox(self._context.settings)
