"""GOV.UK for tests: its APIs, an application that reads them, and a clock that the test sets."""

import contextlib
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from aiohttp import web

from headwater.app.metrics import Metrics
from headwater.app.operations import Operations
from headwater.app.runtime import Runtime, open_runtime
from headwater.core.settings import Settings
from headwater.db.context import open_database_context
from headwater.db.items import DayFilter
from headwater.demo.answers import status
from headwater.demo.api import CONTENT_PATH
from headwater.demo.govuk_api import GovukApi
from headwater.demo.govuk_pages import GovukPage, content_id
from headwater.demo.govuk_site import GOVUK
from headwater.demo.plan import Piece, Site
from headwater.demo.visits import arrival
from headwater.demo.web import DemoWeb
from headwater.discovery.operations import RunRecord
from headwater.documents.days import DayView
from tests.harness import AppHarness

HOME = "http://govuk.demo.test"
DAY = date(2026, 7, 13)
NOON = datetime(2026, 7, 13, 11, tzinfo=UTC)  # of DAY, in London
NIGHT = datetime(2026, 7, 14, 1, tzinfo=UTC)  # 02:00 in London: the slot that reads DAY
RETRY = {"attempts": 4, "base_seconds": 0, "on_rate_limit": True, "longest_seconds": 900}
QUICK: dict[str, Any] = {"site_url": HOME, "rate_per_second": 1000, "retry": RETRY, "fetch_items": False}


def page(link: str, at: datetime | None = NOON, **details: Any) -> GovukPage:
    """Return a page that was published at a time and has not changed since, except for the details."""
    known = {
        "title": f"About {link}",
        "first_published_at": at,
        "public_timestamp": at,
        "updated_at": NIGHT,
        "content_id": content_id(link),
    }
    return GovukPage(link=link, **(known | details))


def serving(api: GovukApi, *, pieces: tuple[Piece, ...] = ()) -> Site:
    """Return the host with this API, and with these pages in place of its own."""
    return replace(GOVUK, pieces=pieces, api=lambda _today, _seed: api)


class RateLimit:
    """A number of requests that a client may make in any second."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._admitted: defaultdict[str, deque[float]] = defaultdict(deque)

    def admits(self, client: str, now: float) -> bool:
        """Check whether a client may make a request now, and count it if so."""
        times = self._admitted[client]
        while times and times[0] <= now - 1:
            times.popleft()
        if len(times) >= self._per_second:
            return False
        times.append(now)
        return True


class NextGovukApi(GovukApi):
    """GOV.UK with the totals of the next search engine: `{"value", "relation"}`, and no total above `cap_at`."""

    def __init__(self, pages: Iterable[GovukPage], *, total_as_object: bool = False, cap_at: int | None = None) -> None:
        super().__init__(pages)
        self.total_as_object = total_as_object
        self.cap_at = cap_at

    def count_results(self, found: int) -> int | dict[str, Any]:
        """Return the total in its form."""
        value = found if self.cap_at is None else min(found, self.cap_at)
        return {"value": value, "relation": "eq" if value == found else "gte"} if self.total_as_object else value


class DoublingGovukApi(NextGovukApi):
    """GOV.UK whose search lists some links twice."""

    def list_again(self, page: GovukPage) -> None:
        """Add a second record of a link to the search."""
        self._pages[f"{page.link} again"] = page


class LimitedGovukApi(GovukApi):
    """GOV.UK whose Content API accepts some requests from a client in any second and answers 429 to the others."""

    def __init__(self, pages: Iterable[GovukPage], limit_per_second: int) -> None:
        super().__init__(pages)
        self._limit = RateLimit(limit_per_second)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request, or refuse it if the client exceeds the limit."""
        is_content = request.raw_path.startswith(f"{CONTENT_PATH}/")
        if is_content and not self._limit.admits(request.remote or "", arrival(request)):
            return await status(429)(request)
        return await super().__call__(request)


class MovingClock:
    """A clock that runs on from the time to which it was set."""

    is_settled = True

    def __init__(self, at: datetime) -> None:
        self.set(at)

    def set(self, at: datetime) -> None:
        """Set it. Only forward, because the times reserved for requests must come."""
        self._at, self._since = at, time.monotonic()

    def now(self) -> datetime:
        """Return the time."""
        return self._at + timedelta(seconds=time.monotonic() - self._since)


@dataclass(frozen=True)
class DayHarness(AppHarness):
    """An application with the source `govuk`."""

    clock: MovingClock
    web: DemoWeb
    api: GovukApi

    async def ingest(self, day: date | None = DAY, source: str = "govuk") -> RunRecord:
        """Read a day and return the run."""
        return await self.operations.runs.ingest(source, day)

    async def view(self, day: date | None = DAY, **only: str) -> DayView:
        """Return a day."""
        return await self.operations.days.day(day, DayFilter(**only))

    async def index(self, day: date = DAY) -> dict[str, tuple[str, str | None]]:
        """Return the bucket and the rule of each item of a day, by link."""
        items = (await self.view(day)).items
        found = {str(row.url).removeprefix(HOME): (row.bucket, row.rule) for row in items}
        assert len(found) == len(items)
        return found

    async def buckets(self, day: date = DAY) -> dict[str, str]:
        """Return the buckets of a day's items by link."""
        return {link: bucket for link, (bucket, _) in (await self.index(day)).items()}

    async def state(self, day: date = DAY) -> str:
        """Return the state of the source for a day."""
        (state,) = (await self.view(day)).sources
        return str(state.state)

    async def settings(self, **settings: Any) -> None:
        """Change settings of the source."""
        await self.operations.sources.edit("govuk", settings)


@contextlib.asynccontextmanager
async def open_clocked(settings: Settings, clock: MovingClock) -> AsyncIterator[Runtime]:
    """Open a runtime with a clock that can be set."""
    async with (
        open_database_context(settings) as context,
        open_runtime(replace(context, clock=clock)) as runtime,  # type: ignore[arg-type]
    ):
        yield runtime


@contextlib.asynccontextmanager
async def open_day_harness(
    settings: Settings,
    api: GovukApi | Iterable[GovukPage],
    *,
    at: datetime = NIGHT,
    pieces: tuple[Piece, ...] = (),
    **overrides: Any,
) -> AsyncIterator[DayHarness]:
    """Open an application at a time, with a web whose GOV.UK is this API or has these pages.

    An override of None leaves a setting to the kind.
    """
    served = api if isinstance(api, GovukApi) else GovukApi(api)
    served.put(page("/earlier", at - timedelta(days=5)))  # an empty day is believed only if others have pages
    clock = MovingClock(at)
    async with DemoWeb(today=at.date(), sites=(serving(served, pieces=pieces),)) as web:
        reached = replace(settings, connect_to=(f"*.demo.test={web.ip}:{web.port}",))
        async with open_clocked(reached, clock) as runtime:
            harness = DayHarness(runtime, Operations(runtime, Metrics()), clock, web, served)
            given = {name: value for name, value in (QUICK | overrides).items() if value is not None}
            await harness.operations.sources.create("govuk", "govuk", given)
            yield harness
