"""The one closed list of reasons.

Whatever changes state in Headwater (a URL, a poll, a run, a lease) says why with one of these. The code is what is
stored and what scripts match on; the sentence is what a person reads.
"""

from enum import StrEnum
from typing import Self


class ReasonClass(StrEnum):
    """What a reason means for the next attempt."""

    DONE = "done"  # it ended well
    TRANSIENT = "transient"  # the outside failed for now: try again later
    PERMANENT = "permanent"  # the outside said no: trying again changes nothing
    POLICY = "policy"  # a rule of ours or of the site decided
    HANDOFF = "handoff"  # where a hand-off or a delivery stands; no URL ends so
    CONFIG = "config"  # an operator has to change something
    OURS = "ours"  # a fault or a stop on our side: the other party is not charged for it


class Reason(StrEnum):
    """A code, its class and its sentence."""

    kind: ReasonClass
    sentence: str

    def __new__(cls, code: str, kind: ReasonClass, sentence: str) -> Self:  # noqa: D102
        member = str.__new__(cls, code)
        member._value_ = code
        member.kind = kind
        member.sentence = sentence
        return member

    @classmethod
    def of(cls, code: str) -> "Reason":
        """Find a reason by its code, as it is stored."""
        return cls[code.upper()]

    @property
    def retryable(self) -> bool:
        """Whether the same attempt may succeed later without anybody changing anything."""
        return self.kind in (ReasonClass.TRANSIENT, ReasonClass.OURS)

    # It ended well.
    STORED = "stored", ReasonClass.DONE, "The page was fetched and its text is stored."
    LINKED = "linked", ReasonClass.DONE, "The page was fetched; its text was known from another page and is kept once."
    UNCHANGED = "unchanged", ReasonClass.DONE, "Nothing has changed since the last visit."
    SAME_PAGE = (
        "same_page",
        ReasonClass.DONE,
        "Another address of the same host leads here; the page is kept under that one.",
    )
    SCANNED_NO_TEXT = (
        "scanned_no_text",
        ReasonClass.DONE,
        "The PDF was fetched and is kept, but it holds pictures of pages and no text.",
    )
    POLLED = "polled", ReasonClass.DONE, "The source was read and what it lists is saved."
    DELIVERED = "delivered", ReasonClass.DONE, "The receiver has taken it."

    # The outside failed for now.
    HTTP_5XX = "http_5xx", ReasonClass.TRANSIENT, "The server failed to answer the request (5xx, 408 or 425)."
    RATE_LIMITED = "rate_limited", ReasonClass.TRANSIENT, "The server asked us to come back later."
    TIMEOUT = (
        "timeout",
        ReasonClass.TRANSIENT,
        "The server, or the page in the browser, took longer than the time allowed.",
    )
    NETWORK = "network", ReasonClass.TRANSIENT, "The connection failed or broke off before the whole answer had come."
    DNS = "dns", ReasonClass.TRANSIENT, "The host name could not be resolved."
    ROBOTS_UNREACHABLE = (
        "robots_unreachable",
        ReasonClass.TRANSIENT,
        "The host's robots.txt cannot be read, so nothing is asked of that host for a while.",
    )
    BUDGET_SPENT = (
        "budget_spent",
        ReasonClass.TRANSIENT,
        "The hour's requests to this API are used up; it waits until there is room again.",
    )
    INCOMPLETE = (
        "incomplete",
        ReasonClass.TRANSIENT,
        "What the source answered does not add up to all that it says it has.",
    )
    HOST_BUSY = "host_busy", ReasonClass.TRANSIENT, "The host may not be asked again yet."

    BROWSER_BUSY = (
        "browser_busy",
        ReasonClass.TRANSIENT,
        "The browser is starting, has no place for another page, or failed under several at once.",
    )
    CHALLENGE = "challenge", ReasonClass.TRANSIENT, "A page that tells people from programs came instead of the page."

    # The outside said no.
    NOT_FOUND = "not_found", ReasonClass.PERMANENT, "The server says there is no such page (404)."
    GONE = "gone", ReasonClass.PERMANENT, "The server says the page is gone for good (410)."
    HTTP_4XX = "http_4xx", ReasonClass.PERMANENT, "The server refused the request (4xx)."
    HTTP_ODD = "http_odd", ReasonClass.PERMANENT, "The server answered with a status that makes no sense here."
    BAD_REDIRECT = "bad_redirect", ReasonClass.PERMANENT, "The redirect names no usable address."
    BAD_ENCODING = "bad_encoding", ReasonClass.PERMANENT, "The body could not be decompressed."
    BAD_HTML = "bad_html", ReasonClass.PERMANENT, "The body is too short or is not markup."
    EMPTY_TEXT = "empty_text", ReasonClass.PERMANENT, "The page holds no text to keep."
    UNSUPPORTED_TYPE = "unsupported_type", ReasonClass.PERMANENT, "The body is of a type that cannot be read yet."
    ENCRYPTED = "encrypted", ReasonClass.PERMANENT, "The PDF opens with a password only."
    BROKEN = "broken", ReasonClass.PERMANENT, "The PDF is broken and cannot be opened."
    NOT_A_PDF = "not_a_pdf", ReasonClass.PERMANENT, "What was announced as a PDF is none."
    UNKNOWN_SCHEMA = (
        "unknown_schema",
        ReasonClass.PERMANENT,
        "The document was fetched and is kept, but it follows a schema that is not known here.",
    )
    NOT_A_FEED = "not_a_feed", ReasonClass.PERMANENT, "What was answered is not a feed."
    PARSE_FAILED = "parse_failed", ReasonClass.PERMANENT, "The body could not be read."
    SOFT_404 = "soft_404", ReasonClass.PERMANENT, "The page says there is no such page, though the server says 200."
    LOGIN_WALL = "login_wall", ReasonClass.PERMANENT, "The page is only for those who log in."
    COOKIE_WALL = "cookie_wall", ReasonClass.PERMANENT, "The page asks for consent to cookies before it shows anything."
    MAX_RETRIES = "max_retries", ReasonClass.PERMANENT, "It kept failing, so it was given up after the last retry."

    # A rule decided.
    REDIRECT = "redirect", ReasonClass.POLICY, "The page moved to another address, which is fetched in its own right."
    REDIRECT_LIMIT = "redirect_limit", ReasonClass.POLICY, "The page redirects too often."
    ROBOTS_BLOCKED = "robots_blocked", ReasonClass.POLICY, "The host's robots.txt forbids this address."
    ADDRESS_REFUSED = (
        "address_refused",
        ReasonClass.POLICY,
        "The name leads to a private or reserved network address, which is never visited unless allowed.",
    )
    HOST_CLOSED = "host_closed", ReasonClass.POLICY, "An operator has closed the host: nothing is asked of it."
    BODY_TOO_LARGE = "body_too_large", ReasonClass.POLICY, "The body is larger than the cap."
    TOO_LARGE = "too_large", ReasonClass.POLICY, "The PDF has more pages or more text than is read."
    SOURCE_REMOVED = "source_removed", ReasonClass.POLICY, "Its source was removed before it was fetched."
    INVALID_URL = "invalid_url", ReasonClass.POLICY, "The address cannot be used."

    # Where a hand-off or a delivery stands.
    QUEUED_FROM_SCRAPE = (
        "queued_from_scrape",
        ReasonClass.HANDOFF,
        "A run has brought the item; it is yet to be handed off.",
    )
    INGESTION_JOB_QUEUED = (
        "ingestion_job_queued",
        ReasonClass.HANDOFF,
        "A job was made for the item; it is ready when its page is stored.",
    )
    INGESTION_JOB_ALREADY_ACTIVE = (
        "ingestion_job_already_active",
        ReasonClass.HANDOFF,
        "A job for the item, as it is now, waits for its page already.",
    )
    INGESTION_JOB_ALREADY_READY = (
        "ingestion_job_already_ready",
        ReasonClass.HANDOFF,
        "A job for the item, as it is now, is ready already.",
    )
    INGESTION_JOB_ALREADY_FAILED = (
        "ingestion_job_already_failed",
        ReasonClass.HANDOFF,
        "A job for the item, as it is now, failed, and its page is as dead as it was then; it is retried when asked.",
    )
    PAGE_NOT_FETCHED = (
        "page_not_fetched",
        ReasonClass.HANDOFF,
        "The pages of its source's items are not fetched, so there is nothing that a job could wait for.",
    )
    RETRY_EXHAUSTED = (
        "retry_exhausted",
        ReasonClass.HANDOFF,
        "The hand-off kept failing for a passing reason, so it was given up after the last attempt.",
    )
    SUPERSEDED = "superseded", ReasonClass.HANDOFF, "The receiver has taken a later one of the same document or job."
    DISMISSED = "dismissed", ReasonClass.HANDOFF, "An operator has decided that it is not delivered."

    # An operator has to change something.
    BAD_SETTING = "bad_setting", ReasonClass.CONFIG, "A setting is unknown or has a value that cannot be used."
    DATABASE_UNREACHABLE = "database_unreachable", ReasonClass.CONFIG, "The database cannot be reached."
    SCHEMA_MISMATCH = "schema_mismatch", ReasonClass.CONFIG, "The database schema does not fit this program."
    FOLDER_UNUSABLE = "folder_unusable", ReasonClass.CONFIG, "A folder cannot be used."
    PORT_TAKEN = "port_taken", ReasonClass.CONFIG, "The address to listen on is taken."
    UNKNOWN_KIND = "unknown_kind", ReasonClass.CONFIG, "No installed kind of source has this name."
    UNKNOWN_SOURCE = "unknown_source", ReasonClass.CONFIG, "There is no source of this name."
    RUN_UNDER_WAY = "run_under_way", ReasonClass.CONFIG, "A run of this source is under way; only one runs at a time."
    UNKNOWN_RUN = "unknown_run", ReasonClass.CONFIG, "There is no run of this number."
    UNKNOWN_JOB = "unknown_job", ReasonClass.CONFIG, "There is no job of this number."
    UNKNOWN_HANDOFF = "unknown_handoff", ReasonClass.CONFIG, "There is no hand-off of this number."
    NOT_FAILED = "not_failed", ReasonClass.CONFIG, "It has not failed, and only what has failed is retried."
    HANDOFFS_MISSING = (
        "handoffs_missing",
        ReasonClass.CONFIG,
        "Hand-offs are not there: migration 003_handoffs is not applied (`headwater migrate up` applies it).",
    )
    UNKNOWN_DAY = "unknown_day", ReasonClass.CONFIG, "No day has been read yet."
    SOURCE_EXISTS = "source_exists", ReasonClass.CONFIG, "There is a source of this name or for this feed already."
    BAD_SOURCE = "bad_source", ReasonClass.CONFIG, "A source's settings cannot be used."

    BAD_REQUEST = "bad_request", ReasonClass.CONFIG, "The request has a part that cannot be used."
    NO_BROWSER = (
        "no_browser",
        ReasonClass.CONFIG,
        "The page needs a browser and there is none that starts; it waits until there is one.",
    )
    UNKNOWN_URL = "unknown_url", ReasonClass.CONFIG, "This address has never been seen here."
    UNKNOWN_HOST = "unknown_host", ReasonClass.CONFIG, "This host has never been seen here."
    HOST_IN_USE = "host_in_use", ReasonClass.CONFIG, "The host is being asked just now; try again in a moment."
    UNKNOWN_DOCUMENT = "unknown_document", ReasonClass.CONFIG, "There is no document of this number."
    UNKNOWN_REVISION = "unknown_revision", ReasonClass.CONFIG, "The document has no revision of this number."
    UNKNOWN_WEBHOOK = "unknown_webhook", ReasonClass.CONFIG, "There is no webhook of this name."
    WEBHOOK_EXISTS = "webhook_exists", ReasonClass.CONFIG, "There is a webhook of this name already."
    UNKNOWN_DELIVERY = "unknown_delivery", ReasonClass.CONFIG, "The webhook has no delivery of this id."
    UNKNOWN_PATH = "unknown_path", ReasonClass.CONFIG, "There is nothing at this path, or not for this method."
    TOKEN_REQUIRED = "token_required", ReasonClass.CONFIG, "What writes needs the API token."

    # On our side.
    OFFLINE = "offline", ReasonClass.OURS, "Our own network is down: nobody can be reached, so nobody is charged."
    WORKER_LOST = "worker_lost", ReasonClass.OURS, "The process that held it died or lost its lease."
    SHUTDOWN = "shutdown", ReasonClass.OURS, "The program was stopped and gave it back."
    BUSY = "busy", ReasonClass.OURS, "Another answer of this sort is being made; ask again in a moment."
    SANDBOX_TIMEOUT = "sandbox_timeout", ReasonClass.OURS, "Reading the body took too long and was stopped."
    SANDBOX_MEMORY = (
        "sandbox_memory",
        ReasonClass.OURS,
        "Reading the body took more memory than it may have and was stopped.",
    )
    SANDBOX_CRASHED = "sandbox_crashed", ReasonClass.OURS, "Reading the body ended its worker process."
    SANDBOX_OUTPUT = "sandbox_output", ReasonClass.OURS, "Reading the body gave more than may be kept."
    BROWSER_CRASHED = "browser_crashed", ReasonClass.OURS, "The browser died while it read the page."
    DATABASE_LOST = "database_lost", ReasonClass.OURS, "The database went away while it was needed."
    REDIS_LOST = (
        "redis_lost",
        ReasonClass.OURS,
        "Redis cannot be reached or refuses what is asked; the next run brings it up to date.",
    )
    STORAGE = "storage", ReasonClass.OURS, "The raw file could not be written."
    INTERNAL = "internal", ReasonClass.OURS, "An error in the program; its log tells more."


# What a body does to whoever reads it. Another try may end otherwise; if none does, it is the body's own fault.
BODY_REASONS = frozenset({Reason.SANDBOX_TIMEOUT, Reason.SANDBOX_MEMORY, Reason.SANDBOX_CRASHED, Reason.SANDBOX_OUTPUT})
