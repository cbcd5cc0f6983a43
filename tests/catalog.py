"""A source whose list a test decides, and the state of its hand-offs and jobs."""

import json

import pytest

from headwater.core.poll import PollResult
from headwater.db.handoffs import HandoffFilter
from tests import kinds
from tests.harness import AppHarness
from tests.server import Answer, Site, page

LIST = "http://api.test/list"
HTML = {"Content-Type": "text/html; charset=utf-8"}


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the kind for one test."""
    kinds.install(monkeypatch, "catalog", kinds.CatalogKind)


def address(name: str) -> str:
    return f"http://news.test/{name}"


def listing(site: Site, **titles: str) -> None:
    """Make the source list pages of news.test, given by name and title."""
    records = [{"url": address(name), "title": title} for name, title in titles.items()]
    site.answers[LIST] = Answer(json.dumps(records), headers={"Content-Type": "application/json"})


def serving(site: Site, *names: str) -> None:
    """Serve pages."""
    for name in names:
        site.answers[address(name)] = Answer(page(f"all about {name}"), headers=HTML)


async def sync(harness: AppHarness, name: str = "shop") -> PollResult:
    """Sync the source, and add it first if it is not there."""
    if name not in [row.name for row in await harness.operations.sources.list_sources()]:
        await harness.operations.sources.create(name, "catalog", {})
    polled = await harness.operations.sources.sync(name)
    assert polled.error is None
    return polled


async def jobs(harness: AppHarness) -> list[tuple[str, str, str | None]]:
    """Return item name, status and reason of every job, by name, the oldest first.

    No operation shows the address that the item lists; jobs show the present one.
    """
    rows = await harness.rows(
        "SELECT i.url, j.status, j.reason FROM ingestion_jobs j JOIN items i ON i.id = j.reference_id "
        "ORDER BY i.url, job_id"
    )
    return [(url.removeprefix(address("")), status, reason) for url, status, reason in rows]


async def handoffs(harness: AppHarness) -> list[tuple[str, str, int]]:
    """Return status, reason and attempts of every hand-off, the oldest first."""
    found = (await harness.operations.handoffs.list_handoffs(HandoffFilter(), limit=10_000)).handoffs
    return [(one.status, one.reason_code, one.attempts) for one in sorted(found, key=lambda one: one.handoff_id)]
