"""The totals of a canonical run, and the failure code of each reason."""

from dataclasses import dataclass, field
from datetime import datetime

from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.db.canonical import FailureCode

MAX_LISTED = 20  # failed URLs in the totals, and as many deferred ones

_REASONS = {
    FailureCode.BAD_HTML: (
        "bad_html unsupported_type bad_encoding body_too_large too_large not_a_feed not_a_pdf no_list"
    ),
    FailureCode.TIMEOUT: "timeout",
    FailureCode.PARSE: (
        "parse_failed encrypted broken unknown_schema sandbox_timeout sandbox_memory sandbox_crashed sandbox_output"
        " browser_crashed worker_lost internal"
    ),
    FailureCode.EMPTY: "empty_text challenge login_wall cookie_wall",
    # The server refused, could not be reached, or may not be asked.
    FailureCode.HTTP: (
        "not_found soft_404 gone http_4xx http_5xx http_odd rate_limited network connection_lost dns certificate"
        " host_gone browser_busy max_retries bad_redirect redirect redirect_limit robots_blocked robots_unreachable"
        " address_refused host_closed host_busy budget_spent incomplete source_removed deleted expired invalid_url"
        " offline shutdown busy database_lost redis_lost index_lost storage"
        " mail_deferred mail_refused"
    ),
}
CODES = {Reason.of(reason): code for code, reasons in _REASONS.items() for reason in reasons.split()}


@record
class FailedLink:
    """A link without an article. It is not tried again for 30 days."""

    uid: str
    url: str
    code: str
    reason: str


@record
class DeferredLink:
    """A link that waits in the frontier. A later run marks its result."""

    uid: str
    url: str
    reason: str | None
    until: datetime | None


@dataclass(slots=True)
class CanonicalTotals:
    """The counts of a run. The run updates them while it works."""

    new: int = 0  # links that were not attempted within 30 days
    stored: int = 0  # fetched, with an article
    skipped: int = 0  # with an article from before
    failed: dict[str, int] = field(default_factory=dict)  # by code
    failed_urls: list[FailedLink] = field(default_factory=list)
    deferred: int = 0
    deferred_urls: list[DeferredLink] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)  # keys and members in Redis that cannot be used
    redis: str = "not configured"

    @property
    def done(self) -> int:
        """The number of links with a result."""
        return self.stored + self.skipped + sum(self.failed.values()) + self.deferred

    def add_failure(self, link: FailedLink) -> None:
        """Count a failed link, and list it while there is room."""
        self.failed[link.code] = self.failed.get(link.code, 0) + 1
        if len(self.failed_urls) < MAX_LISTED:
            self.failed_urls.append(link)

    def add_deferral(self, link: DeferredLink) -> None:
        """Count a deferred link, and list it while there is room."""
        self.deferred += 1
        if len(self.deferred_urls) < MAX_LISTED:
            self.deferred_urls.append(link)


def code_of(reason: Reason, detail: str | None = None) -> FailureCode:
    """Return the failure code of a reason. For max_retries, the detail names the reason of the last attempt."""
    if reason is Reason.MAX_RETRIES and detail:
        reason = Reason.__members__.get(detail.partition(":")[0].upper(), reason)
    return CODES.get(reason, FailureCode.HTTP)
