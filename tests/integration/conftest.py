"""Fixtures that several integration tests share."""

from collections.abc import AsyncIterator

import pytest

from headwater.core.settings import Settings
from headwater.db import sources
from headwater.db.pool import Database
from tests.api import Api, open_api
from tests.frontier import NOW, Frontier
from tests.harness import AppHarness
from tests.pages import Reader, open_reader


@pytest.fixture
async def frontier(database: Database) -> Frontier:
    """A frontier with one source."""
    async with database.connection() as connection:
        source = await sources.add_source(connection, "s", "feed", {}, now=NOW, due={})
    assert source
    return Frontier(database, source.id)


@pytest.fixture
async def api(api_settings: Settings) -> AsyncIterator[Api]:
    """A running API with the settings of the module."""
    async with open_api(api_settings) as running:
        yield running


@pytest.fixture
async def reader(harness: AppHarness) -> AsyncIterator[Reader]:
    """A browser without JavaScript that has signed in."""
    async with open_reader(harness.operations.settings) as opened:
        await opened.sign_in()
        yield opened
