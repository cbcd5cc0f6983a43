"""The limits of a request, and the response to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one exchange. `total_seconds` limits the whole exchange, without redirects."""

    connect_seconds: float = 10.0
    read_seconds: float = 60.0
    total_seconds: float = 120.0
    ends_at: datetime | None = None  # the end of the host's lease: no request leaves after it
    body_bytes: int = 20 * 1024 * 1024  # before and after decompression
    cut: bool = False  # True: a longer body is cut; False: it is refused


@dataclass(frozen=True, slots=True)
class Response:
    """A response of any status. Header names are lower case; the body is decompressed."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    sent_at: datetime
    elapsed_seconds: float


@dataclass(slots=True, kw_only=True)
class AdmittedRequest:
    """A request of a page that may be sent until its host is released, and what happened to it."""

    ends_at: datetime | None = None
    sent_at: datetime | None = None  # None: it was not sent
    connections: int = 0
    sent_chunks: int = 0  # that the browser sent through these connections
    received: int = 0  # bytes, before decompression
    error: OSError | None = None  # the reason why it did not reach its host
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
