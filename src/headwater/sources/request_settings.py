"""On what terms a source asks: how long, how often, how fast."""

from typing import Protocol

import msgspec


class Timeout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long one request may take, in seconds; `total` bounds all of it."""

    connect: float = 10.0
    read: float = 60.0
    total: float = 120.0


class Retry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How often a request that fails for a passing reason is sent, and the first wait between, which then doubles."""

    attempts: int = 3
    base_seconds: float = 1.0
    on_rate_limit: bool = False  # 429 too, after as long as its Retry-After says
    longest_seconds: float = 60.0  # whoever asks for a longer wait is left alone for as long, and the run ends


class Selectors(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """CSS selectors for the fields of its pages: one that matches something goes before all else that a page says."""

    body: str | None = None
    title: str | None = None
    byline: str | None = None
    published: str | None = None
    image: str | None = None

    def given(self) -> dict[str, str]:
        """Return those that are set, by field."""
        return {field: selector for field, selector in msgspec.structs.asdict(self).items() if selector is not None}


class RequestSettings(Protocol):
    """The attributes of a kind that its requests keep to."""

    @property
    def timeout(self) -> Timeout: ...  # noqa: D102
    @property
    def rate_per_second(self) -> float: ...  # noqa: D102
    @property
    def concurrency(self) -> int: ...  # noqa: D102
    @property
    def retry(self) -> Retry: ...  # noqa: D102
