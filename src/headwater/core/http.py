"""What goes out and what comes back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Caps on one exchange. `total` bounds all of it, redirects aside."""

    connect_seconds: float = 10.0
    read_seconds: float = 60.0
    total_seconds: float = 120.0
    ends_at: datetime | None = None  # of the hold: from then on nothing leaves, whatever was waited for
    body_bytes: int = 20 * 1024 * 1024  # before and after decompression alike
    cut: bool = False  # whether a longer body is cut there, and not refused


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, whatever its status. Header names are lower case; the body is decompressed."""

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
    sent_at: datetime | None = None  # None: nothing was sent
    connections: int = 0
    sent_chunks: int = 0  # that the browser sent through these connections
    received: int = 0  # bytes, before decompression
    error: OSError | None = None  # why it did not reach its host
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
