"""Open the operations for one call, and close them after it."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from headwater.app.local_operations import LocalOperations
from headwater.core.settings import Settings
from headwater.db.context import MigrateWhen as MigrateWhen
from headwater.db.context import open_database_context

if TYPE_CHECKING:
    from headwater.app.operations import Operations
    from headwater.canonical.operations import CanonicalTotals

T = TypeVar("T")


async def with_local_operations(
    settings: Settings, operation: Callable[[LocalOperations], Awaitable[T]], migrate_when: MigrateWhen
) -> T:
    """Call an operation that needs no network."""
    async with open_database_context(settings, migrate_when=migrate_when) as context:
        return await operation(LocalOperations(context))


async def with_operations(
    settings: Settings, operation: "Callable[[Operations], Awaitable[T]]", migrate_when: MigrateWhen
) -> T:
    """Call an operation that uses the network."""
    from headwater.app.metrics import Metrics
    from headwater.app.operations import Operations
    from headwater.app.runtime import open_runtime

    async with (
        open_database_context(settings, migrate_when=migrate_when) as context,
        open_runtime(context) as runtime,
    ):
        return await operation(Operations(runtime, Metrics()))


async def run_canonical(settings: Settings, totals: "CanonicalTotals") -> None:
    """Make the canonical articles of new links, with fetchers of its own."""
    from headwater.app.metrics import Metrics
    from headwater.app.roles import run_fetch_pool
    from headwater.app.runtime import open_runtime

    async with open_database_context(settings) as context, open_runtime(context) as runtime:
        await runtime.canonical_runner.run_or_refuse(totals, lambda: run_fetch_pool(runtime, Metrics()))
