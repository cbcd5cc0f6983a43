"""The defaults of the federal kinds (spec 1.1, 1.4, 1.5, 1.8)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headwater.core.dates import day_of
from headwater.core.settings import Settings
from headwater.demo.federal_api import CongressServer, RegisterApi
from headwater.demo.federal_run import key_shares, read_federal
from headwater.demo.federal_sites import (
    API,
    BACKFILL_SINCE,
    FEDERAL,
    GOVINFO,
    KEY,
    SHARES,
    SOURCES,
    register_document,
)
from headwater.demo.plan import Site
from headwater.demo.web import DemoWeb
from headwater.sources.kinds.records import US_CAPITAL
from headwater.sources.registry import configure
from tests.database_state import items
from tests.harness import AppHarness, open_harness
from tests.waiting import until

TODAY = day_of(datetime.now(UTC), US_CAPITAL)
DOCS = Path(__file__).parents[2] / "docs"


@asynccontextmanager
async def federal(make_settings: Callable[..., Settings], *sites: Site) -> AsyncIterator[AppHarness]:
    async with DemoWeb(today=TODAY, sites=sites or FEDERAL) as web:
        settings = make_settings(
            connect_to=(f"*.demo.test={web.ip}:{web.port}",),
            host_delay_ms=1,
            api_data_gov_key=KEY,
            rate_limits=dict(SHARES),
        )
        async with open_harness(settings) as opened:
            yield opened


BILL_RECORDS = [
    {"congress": congress, "number": str(number), "type": "HR", "title": f"Act {number}"}
    for congress in (118, 119)
    for number in range(1, 25)
]
DOCUMENTS = [register_document(f"2026-{number:05}", f"Notice {number}", TODAY) for number in range(1, 4)]


def ignore_progress(name: str, done: int, of: int, now: str) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("kind", "schedule", "minutes", "rate", "budget"),
    [
        ("federal_register", "15 9 * * *", None, 5.0, None),  # its API takes no key
        ("bills", None, 240, 2.0, "api.data.gov"),
        ("public_laws", "30 7 * * *", None, 2.0, "api.data.gov"),
        ("crs_reports", "0 8 * * *", None, 2.0, "api.data.gov"),
        ("gao_reports", None, 240, 0.1, None),
    ],
)
def test_federal_kinds_declare_schedule_rate_and_budget(
    kind: str, schedule: str | None, minutes: int | None, rate: float, budget: str | None
) -> None:
    declared = configure(kind, kind, {})
    assert (declared.schedule, declared.rate_per_second, declared.budget) == (schedule, rate, budget)
    assert declared.timezone == "America/New_York"
    (interval,) = declared.methods(timedelta(minutes=15)).values()
    assert interval == (timedelta(minutes=minutes) if minutes else None)
    assert declared.api_hosts == {
        "federal_register": {"www.federalregister.gov/api/"},
        "gao_reports": set(),
    }.get(kind, {"api.congress.gov"})
    assert kind in (DOCS / "federal.md").read_text()


async def test_the_raw_bytes_of_federal_sources_are_partitioned_by_their_natural_keys(
    make_settings: Callable[..., Settings],
) -> None:
    """Spec 1.5: each pattern has exactly this form."""
    async with federal(make_settings) as opened:
        assert await read_federal(opened.operations, TODAY, ignore_progress)
        await opened.work()
        corpus = opened.runtime.context.settings.data_dir / "corpus"
        found = sorted(str(path.relative_to(corpus)) for path in corpus.glob("*/**/*") if path.is_file())
        register = [
            f"{day_of(item.published_at, US_CAPITAL):%Y/%m}/{item.url.rpartition('/')[2]}"
            for item in await items(opened)
            if "/documents/" in item.url
        ]
        assert found == sorted(
            [
                *(f"bills/bodies/raw/billstatus/119/hr/BILLSTATUS-119hr{number}.xml" for number in (1, 2, 3)),
                "crs/bodies/raw/R47175.html",
                *(f"federal_register/bodies/raw/{place}" for place in register),
                "gao/bodies/raw/26/gao-26-107908.pdf",
                *(f"public_laws/bodies/raw/119/PLAW-119publ{number}.xml" for number in (1, 2)),
            ]
        )
        assert len(register) == 3


async def test_a_source_of_a_killed_demo_is_polled_after_its_lease(
    make_settings: Callable[..., Settings],
) -> None:
    """Spec 9.3."""
    async with federal(make_settings) as opened:
        await opened.operations.sources.create("crs", SOURCES["crs"].kind, dict(SOURCES["crs"].settings))
        held = "UPDATE poll_state SET lease_token = {}, lease_holder = {}, lease_until = {}"
        await opened.execute(held.format("gen_random_uuid()", "'killed'", "now() + interval '1 hour'"))
        assert not await read_federal(opened.operations, TODAY, ignore_progress)
        await opened.execute(held.format("NULL", "NULL", "NULL"))
        assert await read_federal(opened.operations, TODAY, ignore_progress)


async def test_a_backfill_of_bills_starves_no_other_source_of_the_key(make_settings: Callable[..., Settings]) -> None:
    """Spec 1.4: it waits for its share while the daily runs of the others end."""
    async with federal(make_settings) as opened:
        assert await read_federal(opened.operations, TODAY, ignore_progress)
        spent = {child.source: child.spent for child in await key_shares(opened.operations) if child.spent}
        assert spent == {
            "bills": SHARES["bills"],
            "federal_register": 2,
            "public_laws": 1,
            "reserve": 1,
        }  # the last is crs
        listed = {source.name: source.last_success_at for source in await opened.operations.sources.list_sources()}
        assert None not in listed.values()
        assert len(listed) == 5


async def test_a_bills_backfill_and_a_daily_federal_register_run_share_one_key_and_starve_neither(
    make_settings: Callable[..., Settings],
) -> None:
    """Spec 1.4, issue 10: both sources use the whole limit of one host. The daily run ends while the backfill waits.
    The backfill continues after the hour, and no request is refused.
    """
    of_register = 2  # requests of its run: the list and the count
    limit = SHARES["bills"] + of_register
    host = CongressServer(bills=BILL_RECORDS, limit=limit, register=RegisterApi(DOCUMENTS))
    async with federal(make_settings, replace(API, api=lambda _today, _seed: host), GOVINFO) as opened:
        operations = opened.operations
        for name in ("bills", "federal_register"):
            settings = {**SOURCES[name].settings, "fetch_items": False}
            await operations.sources.create(name, SOURCES[name].kind, settings)
        backfill = asyncio.create_task(operations.sources.backfill("bills", BACKFILL_SINCE))
        try:
            await until(lambda: len(host.requests) == SHARES["bills"])
            daily = await operations.sources.sync("federal_register")
            assert (daily.error, daily.items, backfill.done()) == (None, len(DOCUMENTS), False)
        finally:
            backfill.cancel()
            await asyncio.gather(backfill, return_exceptions=True)
        assert host.keys == [KEY] * host.limit  # exactly the whole limit
        (budget,) = await operations.budgets() or []
        spent = {child.source: child.spent for child in budget.sources if child.spent}
        assert spent == {"bills": SHARES["bills"], "federal_register": of_register}
        assert budget.hourly_limit == host.limit
        drawn = {child.source: child.drawn_by for child in budget.sources if child.spent}
        assert drawn == {"bills": ["bills"], "federal_register": ["federal_register"]}
        await opened.execute("UPDATE budget_spending SET bucket = bucket - interval '61 minutes'")  # it is past
        host.keys.clear()
        goes_on = await operations.sources.backfill("bills", BACKFILL_SINCE)
        assert (goes_on.error, goes_on.left) == (None, 0)
        assert (await operations.sources.sync("federal_register")).error is None
        assert sum(asked.path.startswith("/api/v3/") for asked in host.requests) == 27  # each bill was looked up once
        assert len(host.keys) <= host.limit
