"""Lists of sources, the worst health first. Health depends on the time, so each list assesses all sources anew."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from datetime import timedelta
from typing import NamedTuple

from headwater.core.errors import BadRequest
from headwater.core.record import record
from headwater.core.url_input import redact
from headwater.db import sources
from headwater.db.context import DatabaseContext
from headwater.db.sources import MethodRow
from headwater.sources.health import SILENT_AFTER, SourceHealth, SourceSummary, configure_json, summarize_source

_AT_ONCE = 200


@record
class SourcePage:
    """A page of sources, the worst health first."""

    sources: list[SourceSummary]
    next: str | None
    """The `after` of the next page; null on the last page."""
    total: int
    """The number of sources that match all filters."""
    health: Mapping[SourceHealth, int]
    """The number of sources of each health that match the other filters."""


@record
class SourceFilter:
    """The sources to list; None permits any value."""

    category: str | None = None
    health: str | None = None
    name: str | None = None
    """A part of the name."""

    def __post_init__(self) -> None:
        if self.health is not None and self.health not in tuple(SourceHealth):
            raise BadRequest(f"There is no health {redact(self.health)!r}: choose one of {', '.join(SourceHealth)}.")

    def admits(self, name: str, category: str) -> bool:
        """Check whether a source matches, whatever its health."""
        within = self.category is None or f"{category}/".startswith(f"{self.category.strip('/')}/")
        return within and (self.name or "").lower() in name


class _State(NamedTuple):
    """The place of a source in a list."""

    health: SourceHealth
    name: str
    id: int

    @property
    def position(self) -> tuple[int, str]:
        return self.health.rank, self.name


async def summarize(
    context: DatabaseContext, ids: Collection[int] | None = None, *, name: str | None = None
) -> list[SourceSummary]:
    """Return all sources, those of some ids, or the one of a name."""
    async with context.database.connection() as connection:
        rows = await sources.list_sources(connection, name, ids=ids)
        methods: dict[int, list[MethodRow]] = {}
        chosen = None if ids is None and name is None else [row.id for row in rows]
        for method in await sources.list_methods(connection, chosen):
            methods.setdefault(method.source_id, []).append(method)
    now, check_interval = context.clock.now(), timedelta(seconds=context.settings.poll_check_seconds)
    summaries = []
    for number, row in enumerate(rows):
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)  # other requests are answered meanwhile
        own = methods.get(row.id, ())
        summaries.append(summarize_source(row, own, now, check_interval, context.settings.timezone))
    return summaries


async def list_page(context: DatabaseContext, only: SourceFilter, limit: int, after: str | None) -> SourcePage:
    """Summarize the sources of a page. Of the others, only those that may have a problem are read in whole."""
    position = _read_cursor(after) if after is not None else (-1, "")
    states = [state async for state in _assess(context, only)]
    counts = Counter(state.health for state in states)
    matching = [state for state in states if only.health in (None, state.health)]
    later = sorted((state for state in matching if state.position > position), key=lambda state: state.position)
    shown = later[:limit]
    found = {row.id: row for row in await summarize(context, [state.id for state in shown])}
    return SourcePage(
        sources=[found[state.id] for state in shown if state.id in found],
        next=f"{shown[-1].health}:{shown[-1].name}" if len(later) > limit else None,
        total=len(matching),
        health={health: counts[health] for health in SourceHealth},
    )


async def _assess(context: DatabaseContext, only: SourceFilter) -> AsyncIterator[_State]:
    """Yield the sources that match a filter, whatever its health."""
    rows = await context.database.run(sources.list_source_states, context.clock.now(), SILENT_AFTER)
    unsure = []
    for number, row in enumerate(rows):
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
        if not only.admits(row.name, row.category):
            continue
        if isinstance(configure_json(row.name, row.kind, row.settings), str):
            yield _State(SourceHealth.FAILING, row.name, row.id)
        elif row.is_well:
            yield _State(SourceHealth.ON_TIME, row.name, row.id)
        else:
            unsure.append(row.id)
    for summary in await summarize(context, unsure):
        yield _State(summary.health, summary.name, summary.id)


def _read_cursor(after: str) -> tuple[int, str]:
    health, _, name = after.partition(":")
    if health not in tuple(SourceHealth) or not name:
        raise BadRequest("after: must be the `next` of the page before.")
    return SourceHealth(health).rank, name
