"""Start and stop of roles. SIGTERM and SIGINT end all roles within ten seconds; each lease is finished or released."""

import asyncio
import contextlib
import gc
import signal
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import Any, Protocol

import structlog

from headwater.app.fetch_processes import FetchProcesses, watch_input
from headwater.app.maintenance import ClockRole, MaintenanceRole
from headwater.app.metrics import Metrics
from headwater.app.operations import Operations
from headwater.app.polling import PollerRole
from headwater.app.runtime import Runtime, open_runtime
from headwater.app.scheduler import SchedulerRole
from headwater.app.server import WebServer, get_address, listen
from headwater.canonical.role import CanonicalRole
from headwater.changes.outbox import DelivererRole
from headwater.core.settings import Settings
from headwater.db.context import MigrateWhen, open_database_context
from headwater.fetching.pool import FetchPool
from headwater.history.recorder import mark_start
from headwater.notify.alarms import AlarmRole
from headwater.notify.matching import MatcherRole
from headwater.search.feeder import IndexRole
from headwater.stories.builder import StoryBuilder, StoryRole

log = structlog.get_logger()
# Work may end during the grace; then the rest is released. Both together take less than ten seconds.
GRACE_SECONDS = 3.0
STOP_SECONDS = 7.5
_COLLECTED_AFTER = 5000  # new objects, from a few polls: some megabytes
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

MakeApp = Callable[[Operations], Any]


class RoleName(StrEnum):
    """The roles of a process."""

    API = "api"
    SCHEDULER = "scheduler"
    POLLER = "poller"
    FETCHER = "fetcher"
    DELIVERER = "deliverer"
    MAINTENANCE = "maintenance"


_PARSING_ROLES = {RoleName.POLLER, RoleName.FETCHER}


class Role(Protocol):
    """Work that runs until it must stop."""

    async def run(self, stop: asyncio.Event, grace_seconds: float, /) -> None:
        """Run until `stop`, then end within about twice the grace."""


async def serve(
    settings: Settings,
    roles: Collection[RoleName],
    make_app: MakeApp | None = None,
    *,
    update_schema: bool = False,
    on_ready: Callable[[str], None] = lambda _: None,
    fetch_processes: int = 1,
    is_child: bool = False,
) -> None:
    """Run roles until a signal stops them.

    At most `fetch_processes` processes fetch, this one included. A child of such a program ends with its input.
    """
    stop = asyncio.Event()
    if is_child:
        watch_input(stop)
    # DNS queries and disk writes block threads. Slow ones must not delay the others.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(settings.fetch_workers + 16))
    listener = listen(settings) if RoleName.API in roles else None
    try:
        with _stop_on_signals(stop):
            async with (
                open_database_context(
                    settings,
                    migrate_when=MigrateWhen.ALWAYS if update_schema else MigrateWhen.NEVER,
                    fetches=RoleName.FETCHER in roles,
                ) as context,
                open_runtime(context) as runtime,
            ):
                if not is_child:
                    await mark_start(context, roles)
                metrics = Metrics()
                running = _make_roles(runtime, roles, metrics, fetch_processes)
                if listener:
                    assert make_app is not None, "the api role needs an app"
                    operations = Operations(runtime, metrics, ready=lambda: not stop.is_set())
                    running += [WebServer(make_app(operations), listener), operations.runs]
                    on_ready(get_address(listener))
                if _PARSING_ROLES & set(roles):
                    runtime.sandbox.start()
                await run_roles(running, stop)
    finally:
        if listener:
            listener.close()


async def run_roles(roles: Collection[Role], stop: asyncio.Event) -> None:
    """Run roles concurrently until `stop`. If one fails, all others stop in order, and its error is raised."""
    failures: list[BaseException] = []

    async def run_role(role: Role) -> None:
        try:
            await role.run(stop, GRACE_SECONDS)
        except Exception as error:  # noqa: BLE001 - raised below, when the others have released their leases
            failures.append(error)
        finally:
            stop.set()

    tasks = [asyncio.create_task(run_role(role)) for role in roles]
    try:
        with _collect_rarely():
            await stop.wait()
            _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS)
    finally:
        for task in tasks:
            task.cancel()
    if late:
        # A database or a name server that hangs must not prevent the end of the program. Its leases expire.
        log.error("stop.incomplete", roles=len(late))
        await asyncio.wait(late, timeout=1)
    if failures:
        raise failures[0]


@contextlib.contextmanager
def _collect_rarely() -> Iterator[None]:
    """Collect garbage rarely, and not in the objects that exist now: polls took a tenth longer otherwise."""
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_COLLECTED_AFTER, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _make_roles(runtime: Runtime, roles: Collection[RoleName], metrics: Metrics, fetch_processes: int) -> list[Role]:
    settings, context = runtime.context.settings, runtime.context
    made: list[Role] = [ClockRole(context)]
    if RoleName.FETCHER in roles:
        pool = make_fetch_pool(runtime, metrics)
        made.append(pool)
        if fetch_processes > 1:
            made.append(FetchProcesses(fetch_processes - 1, lambda: pool.busy_since))
    if RoleName.POLLER in roles:
        feeds = PollerRole(runtime, metrics.count_poll)
        made.append(feeds)
        made.append(PollerRole(runtime, metrics.count_poll, is_long=True))
        made.append(
            CanonicalRole(
                runtime.canonical_runner,
                runtime.poller.found_new,
                lambda: feeds.under_way,
                cycle_seconds=settings.poll_check_seconds,
            )
        )
    if RoleName.SCHEDULER in roles:
        made.append(SchedulerRole(runtime, metrics.count_poll))
    if RoleName.DELIVERER in roles:
        made.append(DelivererRole(runtime.outbox, metrics.count_delivery))
        made.append(StoryRole(StoryBuilder(context)))
        made.append(MatcherRole(runtime.matcher, runtime.digest_maker))
        if runtime.index_feeder:
            made.append(IndexRole(runtime.index_feeder, on_sent=metrics.count_indexed))
    if RoleName.MAINTENANCE in roles:
        made.append(MaintenanceRole(context, metrics.count_rescued))
        made.append(AlarmRole(runtime.alarm_keeper))
    names = sorted(str(role) for role in roles)
    log.info("started", roles=names, workers=settings.fetch_workers, holder=context.holder)
    return made


def make_fetch_pool(runtime: Runtime, metrics: Metrics) -> FetchPool:
    """Make the fetch workers of this process."""
    return FetchPool(runtime.context, runtime.fetcher, metrics.count_fetch)


def run_fetch_pool(runtime: Runtime, metrics: Metrics) -> contextlib.AbstractAsyncContextManager[None]:
    """Run fetch workers, maintenance and clock during the block. If they fail, the block fails."""
    return run_in_background(
        [make_fetch_pool(runtime, metrics), MaintenanceRole(runtime.context), ClockRole(runtime.context)]
    )


@contextlib.asynccontextmanager
async def run_in_background(roles: Collection[Role]) -> AsyncIterator[None]:
    """Run roles during the block, and stop them in order at its end. If they fail, the block fails."""
    stop = asyncio.Event()
    block = asyncio.current_task()
    assert block is not None
    working = asyncio.create_task(run_roles(roles, stop))
    working.add_done_callback(lambda _: None if is_stopping else block.cancel())
    is_stopping = False
    try:
        yield
    except asyncio.CancelledError:
        if working.done() and not block.uncancel():
            working.result()
        raise
    finally:
        is_stopping = True
        stop.set()
        await asyncio.wait([working])
        failure = working.exception()
    if failure:  # the block has already ended
        raise failure


@contextlib.contextmanager
def _stop_on_signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
