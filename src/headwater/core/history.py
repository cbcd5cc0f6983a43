"""The numbers of history, and the parts of the past that it shows."""

from enum import StrEnum


class Metric(StrEnum):
    """The numbers that are recorded for each minute. `failed_...` are attempts by the class of their reason."""

    FETCHED = "fetched"
    TRANSIENT = "failed_transient"
    PERMANENT = "failed_permanent"
    POLICY = "failed_policy"
    CONFIG = "failed_config"
    OURS = "failed_ours"
    PAGES = "pages"
    BYTES = "bytes"
    DOCUMENTS = "documents"
    HANDOFFS = "handoffs"
    PENDING = "pending"
    LAG_SECONDS = "lag_seconds"


FAILURES = tuple(metric for metric in Metric if metric.startswith("failed_"))
GAUGES = (Metric.PENDING, Metric.LAG_SECONDS)
"""The metrics that are no counts: of several values the largest holds, not the sum."""


class HistoryWindow(StrEnum):
    """A part of the past that ends now."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"
    YEAR = "year"
