"""The kind API: adding a kind of source is writing one class.

A kind declares its attributes with defaults; a source row may override any of them. `discover` yields items and uses
`run.http`, `run.state`, `run.now` (`run.day` and `run.tally`, where it reads days) and nothing else.
"""

from collections.abc import AsyncIterator, Mapping
from datetime import date, timedelta
from operator import attrgetter
from typing import Any, ClassVar, Literal

import msgspec

from headwater.core import cron
from headwater.core.dates import check_timezone
from headwater.core.errors import InvalidURL
from headwater.core.frontier import Origin
from headwater.core.source import DiscoveredUrl, FetchProfile, Item, Method, Retry, Selectors, Timeout
from headwater.core.urls import host_of
from headwater.extraction.html.selectors import check_selector
from headwater.sources.run import Run

_RANGES = (
    ("priority", 1, 10),
    ("timeout.connect", 0.1, 600),
    ("timeout.read", 0.1, 600),
    ("timeout.total", 0.1, 3600),
    ("rate_per_second", 0.0001, 1000),
    ("concurrency", 1, 100),
    ("retry.attempts", 1, 20),
    ("retry.base_seconds", 0, 3600),
    ("retry.longest_seconds", 0, 86400),
    ("deadline", 1, 86400),
)


class Kind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every source inherits. Each field is an attribute that a source row may override."""

    origin: ClassVar[Origin] = Origin.FEED
    # Each run reads one day, `run.day`: the one before that of its slot. Days that were missed are caught up with.
    dated: ClassVar[bool] = False
    # What it has yielded may be saved before it comes to its end: `run.state` is true whenever it asks, and whenever it
    # yields it holds all that was yielded before.
    in_parts: ClassVar[bool] = False
    first_day: ClassVar[date] = date(1970, 1, 1)  # that can be read, for a kind that is dated

    schedule: str | None = None  # a cron string in the source's time zone; None: polled by interval
    timezone: str | None = None  # None: the setting `timezone`
    poll_interval_minutes: int | None = None  # None: the setting of the same name
    priority: int = 5  # 1 (least) to 10
    timeout: Timeout = Timeout()
    rate_per_second: float = 2.0  # requests of its own; where a source sets it, pages of one host as well
    concurrency: int = 4  # requests of its own that are under way at once
    retry: Retry = Retry()
    user_agent: Literal["honest", "browser"] = "honest"
    needs_browser: bool = False
    stealth: Literal["full", "light", "none"] | None = None  # the browser's profile; None: full
    # Whose key its requests to `api_hosts` carry, and whose hourly budget they are taken from.
    budget: Literal["api.data.gov"] | None = None
    fetch_items: bool = True  # whether the pages of its items are fetched too
    selectors: Selectors = Selectors()  # where the fields of those pages stand
    deadline: float = 3600.0  # seconds until a run is given up; waits for the budget are not counted

    @property
    def api_hosts(self) -> frozenset[str]:
        """Hosts of declared APIs, or parts of hosts such as 'www.example.org/api/'.

        They are asked at the source's rate, without robots.txt and without the pause of a host.
        """
        return frozenset()

    def discover(self, run: Run) -> AsyncIterator[Item | DiscoveredUrl]:
        """Yield what the source lists now."""
        raise TypeError(f"{type(self).__name__} must define discover()")

    def methods(self, interval: timedelta) -> Mapping[Method, timedelta | None]:
        """Return the ways in which the source is read, and the time between; None: only at its schedule, or when asked.

        `interval` is the time between where the source does not say.
        """
        minutes = self.poll_interval_minutes
        return {Method.FEED: None if self.schedule else timedelta(minutes=minutes) if minutes else interval}

    def origin_of(self, method: Method) -> Origin:
        """Return how the pages that a pass finds come to us."""
        return {Method.FEED: self.origin, Method.SITEMAP: Origin.SITEMAP, Method.SPIDER: Origin.SPIDER}[method]

    def partition(self, item: Item) -> str | None:
        """Return where an item's raw bytes go below the source's folder; None: by host and URL hash."""
        del item
        return None

    @property
    def gap(self) -> timedelta:
        """How long two of its requests are apart at least."""
        return timedelta(seconds=1 / self.rate_per_second)

    def fetch_profile(self, source: str) -> FetchProfile:
        """Return for whom the requests of a source of this kind are made."""
        stealth = self.stealth or "full"
        return FetchProfile(source, self.user_agent, self.api_hosts, self.budget, self.needs_browser, stealth)

    def fetch_profile_json(self, source: str) -> dict[str, Any]:
        """Return the fetch profile, the gap and the selectors as the database stores them."""
        profile = self.fetch_profile(source)
        return {
            "user_agent": profile.user_agent,
            "api_hosts": sorted(profile.api_hosts),
            "budget": profile.budget,
            "needs_browser": profile.needs_browser,
            "stealth": profile.stealth,
            "gap": f"{self.gap.total_seconds()} seconds",
            "selectors": msgspec.to_builtins(self.selectors),
        }

    def check(self) -> None:
        """Refuse settings that cannot work, with a ValueError that names the field."""
        if self.dated and self.schedule is None:
            raise ValueError("schedule: missing; a source of dated days is read at one, such as '0 2 * * *'")
        if self.dated and self.schedule is not None and self.schedule.split()[2:] != ["*", "*", "*"]:
            raise ValueError("schedule: a source of dated days is read every day, as in '0 2 * * *'")
        if self.schedule is not None:
            try:
                cron.check(self.schedule)
            except ValueError as error:
                raise ValueError(f"schedule: {error}") from None
        if self.timezone is not None:
            try:
                check_timezone(self.timezone)
            except ValueError as error:
                raise ValueError(f"timezone: {error}") from None
        if self.poll_interval_minutes is not None and not 1 <= self.poll_interval_minutes <= 7 * 24 * 60:
            raise ValueError("poll_interval_minutes: must be from 1 to 10080")
        if self.stealth is not None and not self.needs_browser:
            raise ValueError("stealth: is how a browser looks; set needs_browser=true too, or stealth=null")
        if self.budget is not None and not self.api_hosts:
            raise ValueError(f"budget: {type(self).__name__} declares no api_hosts to spend it at")
        for host in sorted(self.api_hosts):
            _check_api_host(type(self).__name__, host)
        for field, selector in self.selectors.given().items():
            try:
                check_selector(selector)
            except ValueError as error:
                raise ValueError(f"selectors.{field}: {error}") from None
        for name, low, high in _RANGES:
            if not low <= attrgetter(name)(self) <= high:
                raise ValueError(f"{name}: must be from {low:g} to {high:g}")


def _check_api_host(kind: str, declared: str) -> None:
    """Refuse a host that is written otherwise than a request's is: the two would never be the same."""
    right: str | None
    host, slash, path = declared.removeprefix("https://").partition("/")
    try:
        right = host_of(f"https://{host}") + (f"/{path.rstrip('/')}/" if path else slash)
    except InvalidURL:
        right = None
    if declared != right:
        raise ValueError(
            f"api_hosts: {kind} declares {declared!r}, which is no host as in 'api.example.org' or "
            "'api.example.org:8443', nor a part of one as in 'www.example.org/api/'"
            + (f"; write {right!r}" if right else "")
        )
