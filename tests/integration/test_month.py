"""A simulated month: memory, descriptors, files and the tables that are written often stay bounded (issue 21)."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import psutil
import pytest

from headwater.changes.operations import NewWebhook
from headwater.core.settings import Settings
from tests.database_state import count
from tests.harness import AppHarness, open_harness
from tests.receiver import ReceiverServer
from tests.server import Answer, Site, page
from tests.simulation import Simulation

DAYS, LOG_DAYS = 30, 4
DAY = timedelta(days=1)
HOSTS = [f"paper{number}.test" for number in range(4)]
HTML, FEED_TYPE = {"Content-Type": "text/html"}, {"Content-Type": "application/rss+xml"}
# A working row or a log. The documents, items, days and changes of a month are kept.
HOT = ("frontier_queue", "host_state", "poll_state", "watches", "fetch_log", "deliveries", "delivery_log")


@dataclass(frozen=True)
class Measured:
    """The figures at the end of a day."""

    memory_mb: float
    descriptors: int
    drafts: int
    raw_files: int
    documents: int
    rows: dict[str, int]
    table_mb: float  # of the hot tables and their indexes


def publish(site: Site, day: int, now: datetime) -> None:
    """Add a story to each paper, and change the watched page. A feed lists the last ten stories."""
    for host in HOSTS:
        urls = [f"http://{host}/story-{number}" for number in range(max(0, day - 9), day + 1)]
        site.answers[urls[-1]] = Answer(page(f"day {day} in {host}"), headers=HTML)
        items = "".join(
            f"<item><title>{url}</title><link>{url}</link><pubDate>{format_datetime(now)}</pubDate></item>"
            for url in urls
        )
        feed = f'<rss version="2.0"><channel><title>{host}</title>{items}</channel></rss>'
        site.answers[f"http://{host}/feed"] = Answer(feed, headers=FEED_TYPE)
    site.answers["http://notice.test/rates"] = Answer(page(f"the rates of day {day}"), headers=HTML)


async def measure(harness: AppHarness, data: Path) -> Measured:
    ((size,),) = await harness.rows(
        "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest($1::text[]) name", HOT
    )
    files = [path for path in (data / "corpus").rglob("*") if path.is_file() and path.name != ".lock"]
    return Measured(
        memory_mb=psutil.Process().memory_info().rss / 2**20,
        descriptors=len(os.listdir("/proc/self/fd")),
        drafts=sum(".tmp" in path.parts for path in files),
        raw_files=len(files),
        documents=await count(harness, "documents"),
        rows={table: await count(harness, table) for table in HOT},
        table_mb=float(size) / 2**20,
    )


async def deliver_all(harness: AppHarness) -> None:
    """Send all deliveries of a day."""
    while claimed := await harness.runtime.outbox.claim(100):
        for delivery in claimed:
            await harness.runtime.outbox.deliver(delivery)


@pytest.mark.timeout(400)
async def test_a_month_of_work_leaves_no_growing_queue_log_or_process(
    site: Site,
    make_settings: Callable[..., Settings],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = make_settings(
        connect_to=site.connect_to,
        poll_check_seconds=0.05,
        poll_interval_minutes=480,
        timezone="UTC",
        fetch_log_days=LOG_DAYS,
        delivery_log_days=LOG_DAYS,
    )
    measured: list[Measured] = []
    async with ReceiverServer() as receiver, open_harness(settings) as harness:
        simulation = Simulation(harness, monkeypatch)
        publish(site, 0, simulation.now)
        for host in HOSTS:
            await harness.operations.sources.add(f"http://{host}/feed", host)
        await harness.operations.watches.watch("http://notice.test/rates", "every 12h")
        await harness.operations.webhooks.add(NewWebhook("hook", receiver.url("hook"), since="c0"))
        for day in range(DAYS):
            publish(site, day, simulation.now)
            await simulation.run(DAY, timedelta(hours=4))
            await deliver_all(harness)
            measured.append(await measure(harness, settings.data_dir))
    with capsys.disabled():
        for day in (0, 9, 19, 29):
            print(f"\nday {day + 1}: {measured[day]}", end="")  # noqa: T201
    first, last = measured[9], measured[-1]
    assert last.documents == len(HOSTS) * DAYS + 1
    assert last.raw_files == last.documents
    assert last.drafts == 0
    assert 0 < first.rows["deliveries"] < first.documents
    assert last.memory_mb - first.memory_mb < 30
    assert abs(last.descriptors - first.descriptors) < 10
    for table in HOT:
        assert last.rows[table] <= 1.3 * first.rows[table] + 5, table
    assert last.table_mb < 2 * first.table_mb + 1
