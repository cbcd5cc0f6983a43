"""Operations on sources that need only the database: add, list, show, edit, enable, remove, import, export."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from headwater.core.errors import BadRequest, OperatorError, Unreadable
from headwater.core.frontier import UrlFilter
from headwater.core.poll import first_poll_at
from headwater.core.reasons import Reason
from headwater.core.record import extend, record
from headwater.core.source import Intervals, Method, Source
from headwater.core.url_input import redact
from headwater.db import history, sources
from headwater.db.context import DatabaseContext
from headwater.db.pool import Connection
from headwater.db.purge import find_name_in_purge
from headwater.frontier.retry import retry_all
from headwater.sandbox.pool import Sandbox
from headwater.sources.health import SourceDetails, SourceSummary, configure_or_explain
from headwater.sources.import_export import (
    ImportCandidate,
    RefusedSource,
    SourceEntry,
    export_opml,
    export_yaml,
    plan_import,
    read_source_list,
)
from headwater.sources.kind import Kind
from headwater.sources.listing import SourceFilter as SourceFilter
from headwater.sources.listing import SourcePage as SourcePage
from headwater.sources.listing import list_page, summarize
from headwater.sources.registry import get_kind, prepare_settings

_URL_BATCH = 2000
_IMPORT_BATCH = 500
_READ_SECONDS = 60.0
_ITEMS_SHOWN = 5
_AFTER_FEED = timedelta(minutes=1)
# A change of these settings does not change what a source reads, so the source keeps its state.
_KEEP_STATE = frozenset(Kind.__struct_fields__) | {
    *("category", "ingestion_mode", "sitemap_hours", "spider_hours", "spider_depth", "spider_pages"),
}


@record
class RemovedSource:
    """The result of a removal."""

    name: str
    kept: bool
    """The items and documents of the source are kept. False: it had none."""
    ended_urls: int
    """The number of URLs that waited and are not fetched."""


@record
class ChangedSetting:
    """A setting that an edit changed."""

    field: str
    before: Any
    """The value that the source had: its own, or the default of its kind."""
    after: Any


@record
class EditedSource:
    """The settings of a source that an edit changed."""

    name: str
    changed: list[ChangedSetting]


@record
class ImportedSources:
    """The result of an import."""

    added: list[str]
    known: list[str]
    refused: list[RefusedSource]
    dry_run: bool
    """Nothing was saved: `added` are the sources that an import adds."""


@dataclass(eq=False)
class SourceOperations:
    """The operations on sources that need only the database. `open_sandbox` lends a sandbox for reading files."""

    context: DatabaseContext
    open_sandbox: Callable[[], AbstractAsyncContextManager[Sandbox]]

    @property
    def _interval(self) -> timedelta:
        return timedelta(minutes=self.context.settings.poll_interval_minutes)

    async def list_sources(
        self, *, category: str | None = None, health: str | None = None, name: str | None = None
    ) -> list[SourceSummary]:
        """List all sources that match, the worst health first. `name` is a part of the name."""
        only = SourceFilter(category, health, name)
        chosen = [row for row in await summarize(self.context) if only.admits(row.name, row.category)]
        return sorted(
            (row for row in chosen if health in (None, row.health)), key=lambda row: (row.health.rank, row.name)
        )

    async def list_page(self, only: SourceFilter, *, limit: int = 50, after: str | None = None) -> SourcePage:
        """List a page of sources, the worst health first."""
        return await list_page(self.context, only, limit, after)

    async def show(self, name: str) -> SourceDetails:
        """Return everything that is known about a source."""
        rows = await summarize(self.context, name=name)
        if not rows:
            raise sources.unknown_source(name)
        (row,) = rows
        async with self.context.database.connection() as connection:
            urls = await sources.count_source_urls(connection, row.id)
            items = await sources.list_last_items(connection, row.id, _ITEMS_SHOWN)
        kind = configure_or_explain(row)
        defaults = {} if isinstance(kind, str) else msgspec.to_builtins(kind)
        return extend(
            row,
            SourceDetails,
            defaults={field: value for field, value in defaults.items() if field not in row.settings},
            urls={status: urls.get(status, 0) for status in ("pending", "fetched", "dead")},
            last_items=items,
        )

    async def create(self, name: str, kind: str, settings: Mapping[str, Any]) -> Source:
        """Add a source of any kind. The running poller polls it when it is due: at once, or at its schedule."""
        configured, prepared = prepare_settings(name, kind, settings)
        source, was_removed = await self.context.database.transact(self._insert, name, kind, configured, prepared)
        if was_removed:
            await self._requeue_urls(name)
        return source

    async def _insert(
        self, connection: Connection, name: str, kind_name: str, kind: Kind, settings: Mapping[str, Any]
    ) -> tuple[Source, bool]:
        """Add a source. Returns also whether a source of this name was removed before."""
        await _refuse_feed_owner(connection, settings)
        if await find_name_in_purge(connection, [name]):
            raise OperatorError(
                f"The purge of source {name} has not ended. `headwater source remove {name} --purge` continues it.",
                reason=Reason.SOURCE_EXISTS,
            )
        was_removed = bool(await sources.find_removed_names(connection, [name]))
        candidate = ImportCandidate(name, kind_name, kind, settings, enabled=True)
        source = await self._add_candidate(connection, candidate, self.context.clock.now())
        if source is None:
            raise OperatorError(
                f"There is a source named {name} already; choose another name.", reason=Reason.SOURCE_EXISTS
            )
        return source, was_removed

    async def _requeue_urls(self, name: str) -> None:
        """Queue the URLs again that ended when their source was removed."""
        filters = UrlFilter(source=name, reason=Reason.SOURCE_REMOVED)

        async def is_allowed(connection: Connection) -> bool:
            source = await sources.get_source(connection, name)
            return source is not None and await sources.prevent_removal(connection, source.id)

        async for _ in retry_all(self.context.database, self.context.clock.now(), filters, is_allowed=is_allowed):
            pass

    async def edit(self, name: str, changes: Mapping[str, Any], unset: Collection[str] = ()) -> EditedSource:
        """Change settings of a source. The settings in `unset` return to their defaults."""
        if not changes and not unset:
            raise BadRequest(f"Source {name}: there is no setting to change.")
        return EditedSource(name, await self.context.database.transact(self._change_settings, name, changes, unset))

    async def _change_settings(
        self, connection: Connection, name: str, changes: Mapping[str, Any], unset: Collection[str]
    ) -> list[ChangedSetting]:
        source = await _lock_source(connection, name)
        _check_unset(source, changes, unset)
        merged = {field: value for field, value in {**source.settings, **changes}.items() if field not in unset}
        kind, settings = prepare_settings(name, source.kind, merged)
        fields = source.settings.keys() | settings.keys()
        changed = {field for field in fields if source.settings.get(field) != settings.get(field)}
        if "feed_url" in changed:
            await _refuse_feed_owner(connection, settings)
        if not await sources.replace_settings(connection, source.id, settings):
            raise OperatorError(
                f"Source {source.name}: another source reads this feed already.", reason=Reason.SOURCE_EXISTS
            )
        await _save_fetch_profile(connection, source, kind)
        now, gaps = self.context.clock.now(), kind.methods(self._interval)
        due = {method: now if gap else None for method, gap in gaps.items()}
        await sources.save_methods(connection, source.id, due)
        before: Intervals = {}
        old: Mapping[str, Any] = source.settings
        with contextlib.suppress(OperatorError):
            old_kind = get_kind(source)
            before, old = old_kind.methods(self._interval), msgspec.to_builtins(old_kind)
        await sources.replan_methods(
            connection,
            source.id,
            gaps,
            changed=[method for method, gap in gaps.items() if method not in before or before[method] != gap],
            now=now,
            reset=bool(changed - _KEEP_STATE),
        )
        new = msgspec.to_builtins(kind)
        fields_changed = [ChangedSetting(field, old.get(field), new.get(field)) for field in sorted(changed)]
        labels = [f"{one.field} was {_write_value(one.before)}, is {_write_value(one.after)}" for one in fields_changed]
        await history.add_marks(connection, "setting", labels, now, source.id)
        return fields_changed

    async def set_enabled(self, name: str, *, enabled: bool) -> SourceDetails:
        """Enable or disable the polls of a source."""

        async def work(connection: Connection) -> None:
            source = await _lock_source(connection, name)
            await sources.set_source_enabled(connection, source.id, enabled=enabled)
            if source.enabled != enabled:
                label = "enabled" if enabled else "disabled"
                await history.add_marks(connection, "setting", [label], self.context.clock.now(), source.id)

        await self.context.database.transact(work)
        return await self.show(name)

    async def remove(self, name: str) -> RemovedSource:
        """Remove a source. Its items and documents stay. Queued URLs end.

        A URL that is being fetched is not ended. If that fetch fails, the URL is queued again, and the next removal of
        the same name ends it.
        """

        async def work(connection: Connection) -> tuple[Source, bool, bool]:
            source, was_removed = await sources.lock_source(connection, name)
            kept = was_removed or not await sources.delete_unused_source(connection, source.id)
            if kept and not was_removed:
                await sources.mark_source_removed(connection, source.id, self.context.clock.now())
            return source, kept, was_removed

        source, kept, was_removed = await self.context.database.transact(work)
        ended = await self._end_urls(source.id) if kept else 0
        if was_removed and not ended:  # a removal that was interrupted left nothing to end
            raise sources.unknown_source(name)
        return RemovedSource(name, kept, ended)

    async def check_removable(self, name: str) -> None:
        """Raise OperatorError if no present or removed source has this name."""
        await self.context.database.transact(sources.lock_source, name)

    async def _end_urls(self, source_id: int) -> int:
        after = count = 0
        while ended := await self.context.database.transact(sources.end_removed_urls, source_id, after, _URL_BATCH):
            after, count = max(ended), count + len(ended)
        return count

    async def import_list(self, body: bytes, *, dry_run: bool = False) -> ImportedSources:
        """Add the sources of an OPML or YAML file that can be used. Raises Unreadable if the file has no source."""
        async with self.open_sandbox() as sandbox:
            entries = await sandbox.run(read_source_list, body, returns=list[SourceEntry], seconds=_READ_SECONDS)
        if not entries:
            raise Unreadable("The file contains no source: no feed (OPML) and no entry under `sources` (YAML).")
        plan = plan_import(entries, await self._get_all(), prepare_settings)
        if not dry_run:
            for name in await self._add_all(plan.new):
                await self._requeue_urls(name)
        return ImportedSources([new.name for new in plan.new], plan.known, plan.refused, dry_run)

    async def _add_all(self, new: list[ImportCandidate]) -> list[str]:
        """Add sources, their first polls spread over an interval. Returns the names that were removed before."""
        removed_before: list[str] = []
        now = self.context.clock.now()
        for start in range(0, len(new), _IMPORT_BATCH):
            batch = {
                one.name: (one, first_poll_at(now, interval=self._interval, index=index, count=len(new)))
                for index, one in enumerate(new[start : start + _IMPORT_BATCH], start)
            }
            removed_before.extend(await self.context.database.transact(self._add_batch, batch))
        return removed_before

    async def _add_batch(
        self, connection: Connection, batch: Mapping[str, tuple[ImportCandidate, datetime]]
    ) -> set[str]:
        removed = await sources.find_removed_names(connection, batch)
        for one, due in batch.values():
            await self._add_candidate(connection, one, due)
        return removed

    async def _add_candidate(self, connection: Connection, one: ImportCandidate, due: datetime) -> Source | None:
        """Add a source whose first poll is at `due`. Returns None if another has the name or the feed."""
        gaps, now = one.kind.methods(self._interval), self.context.clock.now()
        # The feed comes first: it may name the home page, where the other methods start.
        later = due + _AFTER_FEED if Method.FEED in gaps else due
        methods = {method: (due if method is Method.FEED else later) if gap else None for method, gap in gaps.items()}
        source = await sources.add_source(connection, one.name, one.kind_name, one.settings, now=now, due=methods)
        if source:
            await _save_fetch_profile(connection, source, one.kind)
            if not one.enabled:
                await sources.set_source_enabled(connection, source.id, enabled=False)
        return source

    async def export_yaml(self) -> bytes:
        """Return all sources as a YAML file, which can be imported."""
        return await asyncio.to_thread(export_yaml, await self._get_all())

    async def export_opml(self) -> tuple[bytes, list[str]]:
        """Return the feeds as an OPML file, and the names of the sources without a feed."""
        return await asyncio.to_thread(export_opml, await self._get_all(), self.context.clock.now())

    async def _get_all(self) -> list[Source]:
        return await self.context.database.run(sources.get_all_sources)


async def _lock_source(connection: Connection, name: str) -> Source:
    source, was_removed = await sources.lock_source(connection, name)
    if was_removed:
        raise sources.unknown_source(name)
    return source


async def _refuse_feed_owner(connection: Connection, settings: Mapping[str, Any]) -> None:
    feed_url = settings.get("feed_url")
    owner = await sources.find_feed_owner(connection, feed_url) if isinstance(feed_url, str) else None
    if owner:
        raise OperatorError(f"{feed_url} is read by source {owner} already.", reason=Reason.SOURCE_EXISTS)


async def _save_fetch_profile(connection: Connection, source: Source, kind: Kind) -> None:
    """Save how the pages of a source are fetched, so that the settings take effect before the next poll."""
    await sources.save_fetch_profile(connection, source.id, kind.fetch_profile_json(source.name))


def _check_unset(source: Source, changes: Mapping[str, Any], unset: Collection[str]) -> None:
    for field in unset:
        if field in changes:
            raise BadRequest(f"Source {source.name}: {redact(field)}: cannot be set and unset at once.")
        if field not in source.settings:
            is_set = ", ".join(sorted(source.settings)) or "nothing"
            raise BadRequest(f"Source {source.name}: {redact(field)}: is not set; set is {is_set}.")


def _write_value(value: Any) -> str:
    return "empty" if value is None else msgspec.json.encode(value).decode()
