"""The demo web, up, a visitor of it, and what a right one must end up with."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from headwater.demo.expected import Expected, expected_outcomes
from headwater.demo.web import DemoWeb
from tests.demo_client import TODAY, open_client


@pytest.fixture
async def web() -> AsyncIterator[DemoWeb]:
    async with DemoWeb(today=TODAY) as running:
        yield running


@pytest.fixture
async def client(web: DemoWeb) -> AsyncIterator[aiohttp.ClientSession]:
    async with open_client(web) as session:
        yield session


@pytest.fixture
def expected(web: DemoWeb) -> Expected:
    return expected_outcomes(web)
