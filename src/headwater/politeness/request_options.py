"""The options of a request through the gate."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headwater.core.http import Limits
from headwater.core.source import FetchProfile

NO_SOURCE = FetchProfile()


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """The limits, headers and profile of a request. Without limits, the request has those of the gate.

    `before_send` runs before each request that this one leads to, also for robots.txt and for the scripts of a page.
    If it raises an error, that request is not sent.
    """

    limits: Limits | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    profile: FetchProfile = NO_SOURCE
    before_send: Callable[[], None] | None = None
