"""A short visit to a site: it reads each address once, and it limits requests and time (spec 3.1)."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from headwater.core.errors import HeadwaterError, NotNow
from headwater.core.http import Response
from headwater.core.reasons import Reason
from headwater.core.urls import host_of, normalize_url
from headwater.http.responses import reason_of_status
from headwater.politeness.host_lease import robots_are_fresh
from headwater.sources.run import Http, Page, make_status_error


@dataclass(slots=True, eq=False)
class SiteVisit:
    """The answers of a visit so far, and what is left of its requests and of its time.

    Requests count as the site receives them: robots.txt, redirects and the scripts of a page count too.
    """

    most_requests: float = math.inf
    seconds: float = math.inf
    requests: int = 0
    is_over: bool = False  # a request was refused, because the requests or the time are used up
    answers: dict[str, Page | HeadwaterError] = field(default_factory=dict)  # by normalized URL
    _began: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    @property
    def elapsed_seconds(self) -> float:
        """The seconds since the visit began."""
        return asyncio.get_running_loop().time() - self._began

    @property
    def requests_left(self) -> float:
        """How many requests the visit may still send."""
        return 0 if self.elapsed_seconds >= self.seconds else self.most_requests - self.requests

    @property
    def ends_at(self) -> float | None:
        """The end of the visit on the clock of the event loop, or None."""
        return self._began + self.seconds if self.seconds < math.inf else None


@dataclass(eq=False)
class VisitHttp(Http):
    """Requests of a visit. Several readers may share one visit: each address is requested once.

    Raises NotNow when the visit is over.
    """

    visit: SiteVisit = field(default_factory=SiteVisit)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.before_send = self._count_request

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> Page:
        """Return the answer of this visit to a URL. Request the URL if this is the first time."""
        target = normalize_url(url, keep_trailing_slash=True)
        known = self.visit.answers.get(target)
        if known is None:
            known = self.visit.answers[target] = await self._read(target, headers)
        if isinstance(known, HeadwaterError):
            raise known
        return known

    async def _read(self, url: str, headers: Mapping[str, str] | None) -> Page | HeadwaterError:
        if self.visit.requests_left <= 0:
            raise self._end_visit()
        try:
            async with asyncio.timeout_at(self.visit.ends_at) as limit:
                if urlsplit(url).path == "/robots.txt" and (robots := await self._get_known_robots(url)):
                    return robots
                return await super().get(url, headers=headers)
        except TimeoutError:
            if limit.expired():
                raise self._end_visit() from None
            raise
        except NotNow:
            raise  # a later request may succeed
        except HeadwaterError as error:
            return error

    async def _get_known_robots(self, url: str) -> Page | HeadwaterError | None:
        """Return the robots.txt that the gate has read already, as an answer. None: it has read none."""
        host = await self.gate.get_or_create_host(host_of(url))
        if host.robots_fetched_at is None or not robots_are_fresh(host.robots_fetched_at, self.gate.clock.now()):
            return None
        body = (host.robots_txt or "").encode()
        response = Response(url, 404 if host.robots_txt is None else 200, {}, body, host.robots_fetched_at, 0.0)
        reason = reason_of_status(response.status)
        return make_status_error(response, reason) if reason else Page(response, self.sandbox)

    def _count_request(self) -> None:
        if self.visit.requests_left <= 0:
            raise self._end_visit()
        self.visit.requests += 1

    def _end_visit(self) -> NotNow:
        visit = self.visit
        visit.is_over = True
        reason = Reason.TIMEOUT if visit.elapsed_seconds >= visit.seconds else Reason.HOST_BUSY
        what = f"The visit ended after {visit.elapsed_seconds:.0f} seconds and {visit.requests} of its requests."
        return NotNow(what, until=self.gate.clock.now(), reason=reason)
