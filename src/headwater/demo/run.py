"""`headwater demo`: serve the small web, run the whole flow on it, hold what came against what must come."""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from headwater.config import Settings
from headwater.demo.expected import Expected, expected_outcomes
from headwater.demo.web import DemoWeb
from headwater.errors import OperatorError
from headwater.model.reasons import Reason
from headwater.policy.days import day_of
from headwater.service.desk import Desk
from headwater.service.maintenance import MaintenanceRole
from headwater.service.metrics import Metrics
from headwater.service.parts import open_parts, open_records
from headwater.service.running import Role, make_crew, run_roles

DELAY_MS = 50
# Arrival times are read off a busy machine; a real breach is a whole delay off, not a sliver of one.
TOLERANCE_MS = 10
# Whoever killed an earlier demo need not wait long for its leases.
LEASE_SECONDS = 5.0
PATIENCE_SECONDS = 90.0
DAY_FILE = "demo-day"

Progress = Callable[[str, int, int], None]  # stage, done, of how many


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must hold at the end, and whether it does."""

    name: str
    holds: bool
    found: str


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """What the demo brought, and whether it is what it must be."""

    day: date
    documents: dict[str, int]  # by source
    fates: dict[str, int]  # by reason
    items: list[dict[str, Any]]
    seconds: dict[str, float]
    checks: list[Check]

    @property
    def as_expected(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        """Return the outcome for a script."""
        return {
            "as_expected": self.as_expected,
            "day": self.day,
            "documents": self.documents,
            "fates": self.fates,
            "daily": self.items,
            "seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()},
            "checks": [{"name": check.name, "holds": check.holds, "found": check.found} for check in self.checks],
        }


async def run_demo(data: Path | None, progress: Progress) -> DemoOutcome:
    """Run one whole cycle, in a folder that is kept or in one that is thrown away."""
    if data is not None:
        return await _run(data, progress)
    with tempfile.TemporaryDirectory(prefix="headwater-demo-") as folder:
        return await _run(Path(folder), progress)


async def _run(data: Path, progress: Progress) -> DemoOutcome:
    clock = _Stopwatch()
    day = _day(data)
    async with DemoWeb(today=day) as web:
        settings = _settings(data, web)
        async with open_records(settings) as records, open_parts(records) as parts:
            desk = Desk(parts, Metrics())
            expected = expected_outcomes(web)
            clock.lap("start")
            await _read_feeds(desk, expected, progress)
            clock.lap("feeds")
            await _fetch_pages(desk, len(expected.outcomes), progress)
            clock.lap("pages")
            outcome = await _look(desk, web, expected)
    clock.lap("checks")
    return replace(outcome, seconds=clock.laps)


def _settings(data: Path, web: DemoWeb) -> Settings:
    return Settings(
        data_dir=data,
        allow_networks=("127.0.0.0/8",),
        connect_to=(f"*.demo.test=127.0.0.1:{web.port}",),
        host_delay_ms=DELAY_MS,
        lease_seconds=LEASE_SECONDS,
        retry_base_seconds=0.1,
    )


def _day(data: Path) -> date:
    """Return the demo's day: today, or the day the folder was begun, so that it goes on with the same web."""
    try:
        data.mkdir(parents=True, exist_ok=True)
        path = data / DAY_FILE
        if path.exists():
            return date.fromisoformat(path.read_text(encoding="ascii"))
        today = day_of(datetime.now(UTC), Settings().timezone)
        draft = path.with_suffix(".new")
        draft.write_text(today.isoformat(), encoding="ascii")
        draft.replace(path)
    except (OSError, ValueError) as error:
        raise OperatorError(
            f"The folder {data} cannot be used for the demo: {error}.", reason=Reason.FOLDER_UNUSABLE
        ) from None
    return today


async def _read_feeds(desk: Desk, expected: Expected, progress: Progress) -> None:
    known = {source["settings"]["feed_url"] for source in await desk.sources()}
    for done, feed in enumerate(expected.feeds.values(), start=1):
        if feed.url not in known:
            await desk.add(feed.url)
        progress("feeds", done, len(expected.feeds))


async def _fetch_pages(desk: Desk, pages: int, progress: Progress) -> None:
    """Run fetchers and maintenance until nothing is left to do; feeds whose poll was cut short are polled again."""
    stop = asyncio.Event()

    async def watch() -> None:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < give_up:
            for source in await desk.sources():
                if source["last_success_at"] is None and not source["polling"]:
                    await desk.poll_now(source["name"])
            queued, _, _ = await desk.unfinished()
            ended = [outcome for outcome in await desk.outcomes() if outcome["status"] != "pending"]
            progress("pages", len(ended), max(pages, len(ended)))
            if not queued and all(source["last_success_at"] for source in await desk.sources()):
                break
            await asyncio.sleep(0.05)
        stop.set()

    roles: list[Role] = [make_crew(desk.parts, desk.metrics), MaintenanceRole(desk.parts.records, look_seconds=0.5)]
    async with asyncio.TaskGroup() as group:
        group.create_task(run_roles(roles, stop))
        group.create_task(watch())


async def _look(desk: Desk, web: DemoWeb, expected: Expected) -> DemoOutcome:
    outcomes = await desk.outcomes()
    sources = await desk.sources()
    _, items = await desk.today(web.today)
    fates = Counter(outcome["reason"] or "pending" for outcome in outcomes)
    checks = [
        _check_fates(expected, outcomes),
        *_check_feeds(expected, sources, items),
        _check("documents", (expected.documents, expected.texts), await desk.counts()),
        await _check_raw_files(desk),
        _check_politeness(web),
    ]
    documents = {source["name"]: source["documents"] for source in sources}
    return DemoOutcome(web.today, documents, dict(fates), items, {}, checks)


def _check(name: str, wanted: object, found: object) -> Check:
    return Check(name, wanted == found, f"{found}" if wanted == found else f"{found}, expected {wanted}")


def _check_fates(expected: Expected, outcomes: list[dict[str, str | None]]) -> Check:
    found = {str(outcome["url"]): outcome["reason"] for outcome in outcomes}
    wrong = [
        f"{url}: {found.get(url)}, expected {' or '.join(sorted(reasons))}"
        for url, reasons in expected.outcomes.items()
        if found.get(url) not in reasons
    ]
    wrong += [f"{url}: not expected at all" for url in found.keys() - expected.outcomes.keys()]
    return Check("every URL ends once, as it must", not wrong, "; ".join(wrong) or f"{len(found)} URLs")


def _check_feeds(expected: Expected, sources: list[dict[str, Any]], items: list[dict[str, Any]]) -> list[Check]:
    counted = Counter((item["source"], item["bucket"]) for item in items)
    checks = []
    for feed in expected.feeds.values():
        source = next((source for source in sources if source["settings"]["feed_url"] == feed.url), None)
        name = source["name"] if source else feed.url
        found = (source["items"] if source else 0, counted[name, "NEW"], counted[name, "LATEST"])
        checks.append(_check(f"{name}: items, NEW, LATEST", (feed.items, feed.new, feed.latest), found))
    return checks


async def _check_raw_files(desk: Desk) -> Check:
    wrong = []
    lines = await desk.documents(limit=500)
    for line in lines:
        document = await desk.document(line["id"])
        assert document is not None
        if not await desk.raw_matches(document):
            wrong.append(line["url"])
    return Check("every raw file matches its row", not wrong, "; ".join(wrong) or f"{len(lines)} files")


def _check_politeness(web: DemoWeb) -> Check:
    broken = web.politeness((DELAY_MS - TOLERANCE_MS) / 1000)
    found = str(broken[0]) if broken else f"{len(web.requests)} requests, {DELAY_MS} ms apart on each host"
    return Check("no host was asked too soon", not broken, found)


class _Stopwatch:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, stage: str) -> None:
        now = time.monotonic()
        self.laps[stage] = now - self._last
        self._last = now
