"""What a test of faults needs."""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.faults.harness import Harness, open_harness
from tests.faults.nursery import Nursery

Crawl = Callable[..., AbstractAsyncContextManager[Harness]]


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """The session's nursery."""
    with Nursery() as open_:
        yield open_


@pytest.fixture
def crawl(tmp_path: Path, database_url: str, nursery: Nursery) -> Crawl:
    """Opens a harness in this test's folder and database."""
    return functools.partial(open_harness, folder=tmp_path, database_url=database_url, nursery=nursery)
