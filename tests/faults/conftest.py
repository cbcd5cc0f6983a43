"""The fixture of the fault tests."""

import functools
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.faults.harness import Harness, open_harness
from tests.fork_server import fork_server

Crawl = Callable[..., AbstractAsyncContextManager[Harness]]


@pytest.fixture
def crawl(tmp_path: Path, database_url: str) -> Crawl:
    """Opens a harness with this test's folder and database."""
    return functools.partial(open_harness, folder=tmp_path, database_url=database_url, fork_server=fork_server())
