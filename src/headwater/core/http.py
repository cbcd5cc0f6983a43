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
    """A request of a page that may go out until its hold ends, and what those who let it out learn of it."""

    ends_at: datetime | None = None
    sent_at: datetime | None = None  # None: nothing has left
    connections: int = 0
    format_duration: int = 0  # how many times the browser said something through them
    received: int = 0  # bytes, as they came
    error: OSError | None = None  # why it did not reach its host
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
