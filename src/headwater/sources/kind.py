"""The kind API: a new kind of source is one class.

A kind declares its settings with defaults, and a source may override each of them. `discover` yields items. It may use
`run.http`, `run.state`, `run.now`, and for a dated kind `run.day` and `run.counters`, and nothing else.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import date, datetime, timedelta
from operator import attrgetter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from headwater.core import cron
from headwater.core.dates import check_timezone
from headwater.core.errors import HeadwaterError, InvalidURL, StorageFailed
from headwater.core.frontier import Origin
from headwater.core.reasons import Reason
from headwater.core.refetch import NEVER, parse_policy
from headwater.core.source import DiscoveredUrl, FetchProfile, Intervals, Item, Method, Retry, Selectors, Timeout
from headwater.core.urls import host_of
from headwater.extraction.html.metadata import check_selector
from headwater.storage.folder import raw_path

if TYPE_CHECKING:
    from headwater.sources.run import Run  # it imports the readers and the gate, which only a poll needs

_RANGES = (
    ("poll_interval_minutes", 1, 7 * 24 * 60),
    ("priority", 1, 10),
    ("keep_days", 1, 36_500),
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
    """The settings that all kinds share. A source may override each field."""

    origin: ClassVar[Origin] = Origin.FEED
    # Each run reads one day, `run.day`: the day before its slot. Later runs read the days that were missed.
    dated: ClassVar[bool] = False
    # Items may be saved before `discover` ends. At each request and at each yield, `run.state` must cover exactly the
    # items that were yielded before.
    in_parts: ClassVar[bool] = False
    first_day: ClassVar[date] = date(1970, 1, 1)  # the first day that a dated kind can read

    schedule: str | None = None  # a cron string in the time zone of the source; None: polled by interval
    timezone: str | None = None  # None: the setting `timezone`
    poll_interval_minutes: int | None = None  # None: the setting of the same name
    priority: int = 5  # 1 (least) to 10
    keep_days: int | None = None  # documents that were last fetched earlier are deleted; None: all are kept
    timeout: Timeout = Timeout()
    rate_per_second: float = 2.0  # its own requests; if a source sets it, it also limits the pages of one host
    concurrency: int = 4  # its pages and its own requests at the same time, in all processes
    retry: Retry = Retry()
    user_agent: Literal["honest", "browser"] = "honest"
    needs_browser: bool = False
    stealth: Literal["full", "light", "none"] | None = None  # the profile of the browser; None: full
    # Requests to `api_hosts` carry this key and count against its hourly budget.
    budget: Literal["api.data.gov"] | None = None
    fetch_items: bool = True  # fetch the pages of its items too
    selectors: Selectors = Selectors()  # the places of the fields in those pages
    refetch: str = NEVER  # when stored pages are fetched again: 'never', 'every 6h', 'adaptive', 'adaptive 2h to 7d'
    deadline: float = 3600.0  # seconds until a run is stopped; waits for the budget do not count

    @property
    def api_hosts(self) -> frozenset[str]:
        """Hosts of declared APIs, or parts of hosts such as 'www.example.org/api/'.

        Requests to them keep the rate of the source. They ignore robots.txt and the pause of the host.
        """
        return frozenset()

    def discover(self, run: "Run") -> AsyncIterator[Item | DiscoveredUrl]:
        """Yield what the source lists now."""
        raise TypeError(f"{type(self).__name__} must define discover()")

    def methods(self, interval: timedelta) -> Intervals:
        """Return the methods of the source with their intervals. None: only at its schedule, or on request.

        `interval` is the default.
        """
        minutes = self.poll_interval_minutes
        return {Method.FEED: None if self.schedule else timedelta(minutes=minutes) if minutes else interval}

    def origin_of(self, method: Method) -> Origin:
        """Return the origin of the pages that a method finds."""
        return {Method.FEED: self.origin, Method.SITEMAP: Origin.SITEMAP, Method.SPIDER: Origin.SPIDER}[method]

    def partition(self, item: Item) -> str | None:
        """Return the path of an item's raw bytes in the folder of the source. None: by host and URL hash."""
        del item
        return None

    @property
    def gap(self) -> timedelta:
        """The shortest time between two of its own requests."""
        return timedelta(seconds=1 / self.rate_per_second)

    def fetch_profile(self, source: str) -> FetchProfile:
        """Return how the requests for a source of this kind are made."""
        stealth = self.stealth or "full"
        return FetchProfile(source, self.user_agent, self.api_hosts, self.budget, self.needs_browser, stealth)

    def fetch_profile_json(self, source: str) -> Mapping[str, Any]:
        """Return the fetch profile and further settings of pages and requests as the database stores them."""
        profile = self.fetch_profile(source)
        return {
            "user_agent": profile.user_agent,
            "api_hosts": sorted(profile.api_hosts),
            "budget": profile.budget,
            "needs_browser": profile.needs_browser,
            "stealth": profile.stealth,
            "concurrency": self.concurrency,
            "gap": f"{self.gap.total_seconds()} seconds",
            "selectors": msgspec.to_builtins(self.selectors),
            "refetch": self.refetch,
        }

    def check(self) -> None:
        """Raise ValueError, with the field, if the settings cannot work."""
        if self.dated and self.schedule is None:
            raise ValueError("schedule: missing; a dated source needs one, such as '0 2 * * *'")
        if self.dated and self.schedule is not None and self.schedule.split()[2:] != ["*", "*", "*"]:
            raise ValueError("schedule: a dated source is read every day, as in '0 2 * * *'")
        if self.stealth is not None and not self.needs_browser:
            raise ValueError("stealth: is the profile of a browser; set needs_browser=true too, or stealth=null")
        if self.budget is not None and not self.api_hosts:
            raise ValueError(f"budget: {type(self).__name__} declares no api_hosts to spend it at")
        for host in sorted(self.api_hosts):
            _check_api_host(type(self).__name__, host)
        selectors = self.selectors.given()
        texts: dict[str, tuple[Callable[[str], object], str | None]] = {
            "schedule": (cron.check, self.schedule),
            "timezone": (check_timezone, self.timezone),
            "refetch": (parse_policy, self.refetch),
        }
        texts |= {f"selectors.{field}": (check_selector, selector) for field, selector in selectors.items()}
        for field, (check, text) in texts.items():
            try:
                if text is not None:
                    check(text)
            except ValueError as error:
                raise ValueError(f"{field}: {error}") from None
        for name, low, high in _RANGES:
            value = attrgetter(name)(self)
            if value is not None and not low <= value <= high:
                raise ValueError(f"{name}: must be from {low:g} to {high:g}")


def _check_api_host(kind: str, declared: str) -> None:
    """Refuse a host that is not written as hosts of requests are: no request would match it."""
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


def check_item(source: str, kind: Kind, item: Item) -> str | None:
    """Return the normalized path of the raw bytes of an item's page, or None if the kind gives none.

    Raises HeadwaterError, with the field, if the item cannot be saved.
    """
    for name, value in (("published_at", item.published_at), ("updated_at", item.updated_at)):
        if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
            raise _bad_item(source, f"{name}: must be a datetime with a time zone, not {value!r}.", item.url)
    subpath = kind.partition(item)
    if subpath is None:
        return None
    if not isinstance(subpath, str):
        raise _bad_item(source, f"partition: must return text or None, not {subpath!r}.", item.url)
    try:
        raw_path(source, subpath)
    except StorageFailed as error:
        raise _bad_item(source, f"partition: {error}", item.url) from None
    return str(PurePosixPath(subpath))


def refuse_shared_paths(source: str, items: Iterable[tuple[Item, str | None]]) -> None:
    """Refuse two pages whose raw bytes have the same path, or one path below the other.

    The second file would replace the first, or would need it as a folder.
    """
    paths = [(item.url, subpath) for item, subpath in items if subpath is not None]
    owners: dict[str, str] = {}
    for url, subpath in paths:
        if owners.setdefault(subpath, url) != url:
            raise _bad_item(source, f"partition: {subpath!r} is given to {owners[subpath]} and to {url}.", url)
    for url, subpath in paths:
        for folder in map(str, PurePosixPath(subpath).parents):
            if owners.get(folder, url) != url:
                both = f"{folder!r} is given to {owners[folder]}, and {subpath!r} to {url}"
                raise _bad_item(source, f"partition: {both}, which would need it as a folder.", url)


def _bad_item(source: str, what: str, url: str) -> HeadwaterError:
    return HeadwaterError(f"Source {source}: {what}", reason=Reason.BAD_SOURCE, url=url)
