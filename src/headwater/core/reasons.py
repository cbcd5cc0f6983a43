"""The closed list of reasons.

Every change of state in Headwater (of a URL, a poll, a run, a lease) has one of these reasons. The database stores the
code, and scripts compare it. People read the sentence.
"""

from enum import StrEnum
from typing import Self


class ReasonClass(StrEnum):
    """The effect of a reason on the next attempt."""

    DONE = "done"  # success
    TRANSIENT = "transient"  # a host failed for now: try again later
    PERMANENT = "permanent"  # a host refused: another attempt changes nothing
    POLICY = "policy"  # a rule of ours or of the site forbids it
    HANDOFF = "handoff"  # the state of a hand-off or a delivery; no URL ends with it
    CONFIG = "config"  # an operator must change something
    OURS = "ours"  # a fault or a stop on our side: it costs no retry


DONE, TRANSIENT, PERMANENT, POLICY, HANDOFF, CONFIG, OURS = ReasonClass


class Reason(StrEnum):
    """A code with its class and its sentence."""

    kind: ReasonClass
    sentence: str
    retryable: bool  # the same attempt may succeed later without any change

    def __new__(cls, code: str, kind: ReasonClass, sentence: str) -> Self:  # noqa: D102
        member = str.__new__(cls, code)
        member._value_ = code
        member.kind = kind
        member.sentence = sentence
        member.retryable = kind in (ReasonClass.TRANSIENT, ReasonClass.OURS)
        return member

    @classmethod
    def of(cls, code: str) -> "Reason":
        """Return the reason with a stored code."""
        return cls[code.upper()]

    # Success.
    STORED = "stored", DONE, "The page was fetched and its text is stored."
    LINKED = "linked", DONE, "The page was fetched; another page has the same text, which is stored once."
    UNCHANGED = "unchanged", DONE, "Nothing has changed since the last fetch."
    SAME_PAGE = "same_page", DONE, "The URL redirects to another URL of the same host, which has the page."
    SCANNED_NO_TEXT = "scanned_no_text", DONE, "The PDF is stored, but it has pictures of pages and no text."
    POLLED = "polled", DONE, "The source was read and its items are saved."
    DELIVERED = "delivered", DONE, "The receiver accepted the delivery."

    # A host failed for now.
    HTTP_5XX = "http_5xx", TRANSIENT, "The server failed to answer the request (5xx, 408 or 425)."
    RATE_LIMITED = "rate_limited", TRANSIENT, "The server asked us to come back later."
    TIMEOUT = "timeout", TRANSIENT, "The server, or the page in the browser, took longer than the time allowed."
    NETWORK = "network", TRANSIENT, "The connection failed or broke off before the answer was complete."
    CONNECTION_LOST = "connection_lost", TRANSIENT, "The server closed a kept connection when the request was sent."
    DNS = "dns", TRANSIENT, "The host name could not be resolved."
    CERTIFICATE = "certificate", TRANSIENT, "The certificate of the host is not valid, or names another host."
    ROBOTS_UNREACHABLE = "robots_unreachable", TRANSIENT, "The host gets no request until its robots.txt can be read."
    BUDGET_SPENT = "budget_spent", TRANSIENT, "The hourly requests to this API are used up, so the request waits."
    INCOMPLETE = "incomplete", TRANSIENT, "The source returned fewer items than it reports."
    HOST_BUSY = "host_busy", TRANSIENT, "The host may not get another request yet."

    MAIL_DEFERRED = "mail_deferred", TRANSIENT, "The mail server asked us to come back later, or refused the login."
    BROWSER_BUSY = "browser_busy", TRANSIENT, "The browser is starting, full, or failed with several pages."
    CHALLENGE = "challenge", TRANSIENT, "The server sent a challenge for bots instead of the page."

    # A host refused.
    NOT_FOUND = "not_found", PERMANENT, "The server reports that the page does not exist (404)."
    GONE = "gone", PERMANENT, "The server reports that the page was removed permanently (410)."
    HTTP_4XX = "http_4xx", PERMANENT, "The server refused the request (4xx)."
    HTTP_ODD = "http_odd", PERMANENT, "The server answered with a status that no rule covers."
    BAD_REDIRECT = "bad_redirect", PERMANENT, "The redirect names no usable URL."
    BAD_ENCODING = "bad_encoding", PERMANENT, "The body could not be decompressed."
    BAD_HTML = "bad_html", PERMANENT, "The body is too short or is not markup."
    EMPTY_TEXT = "empty_text", PERMANENT, "The page contains no text."
    UNSUPPORTED_TYPE = "unsupported_type", PERMANENT, "Headwater cannot read this type of body yet."
    ENCRYPTED = "encrypted", PERMANENT, "The PDF requires a password."
    BROKEN = "broken", PERMANENT, "The PDF is broken and cannot be opened."
    NOT_A_PDF = "not_a_pdf", PERMANENT, "The body was announced as a PDF but is not one."
    UNKNOWN_SCHEMA = "unknown_schema", PERMANENT, "The document is stored, but its schema is unknown."
    NOT_A_FEED = "not_a_feed", PERMANENT, "The answer is not a feed."
    NO_LIST = "no_list", PERMANENT, "The page lists no entries."
    PARSE_FAILED = "parse_failed", PERMANENT, "The body could not be parsed."
    SOFT_404 = "soft_404", PERMANENT, "The page reports that it does not exist, although the server answered 200."
    LOGIN_WALL = "login_wall", PERMANENT, "The page requires a login."
    COOKIE_WALL = "cookie_wall", PERMANENT, "The page requires consent to cookies before it shows its text."
    HOST_GONE = "host_gone", PERMANENT, "The host has not answered any request for 7 days."
    MAIL_REFUSED = "mail_refused", PERMANENT, "The mail server refused the message or its address."
    MAX_RETRIES = "max_retries", PERMANENT, "Every attempt failed, and the last retry is used up."

    # A rule forbids it.
    REDIRECT = "redirect", POLICY, "The page redirects to another URL, which is fetched separately."
    REDIRECT_LIMIT = "redirect_limit", POLICY, "The page has too many redirects."
    ROBOTS_BLOCKED = "robots_blocked", POLICY, "The host's robots.txt forbids this URL."
    ADDRESS_REFUSED = "address_refused", POLICY, "Only allow_networks permits a private address or our own."
    HOST_CLOSED = "host_closed", POLICY, "An operator closed the host, so Headwater sends it no request."
    BODY_TOO_LARGE = "body_too_large", POLICY, "The body is larger than the limit."
    TOO_LARGE = "too_large", POLICY, "The PDF has more pages or more text than the limit."
    SOURCE_REMOVED = "source_removed", POLICY, "Its source was removed before it was fetched."
    DELETED = "deleted", POLICY, "An operator deleted the document. It is fetched again only on request."
    EXPIRED = "expired", POLICY, "The source keeps documents for some days only, and deleted this one."
    INVALID_URL = "invalid_url", POLICY, "The URL cannot be used."

    # The state of a hand-off or a delivery.
    INDEX_REFUSED = "index_refused", HANDOFF, "The search index refused the document, which is parked."
    QUEUED_FROM_SCRAPE = "queued_from_scrape", HANDOFF, "A run found the item, which waits to be handed off."
    INGESTION_JOB_QUEUED = "ingestion_job_queued", HANDOFF, "A job was created. It is ready when its page is stored."
    INGESTION_JOB_ALREADY_ACTIVE = "ingestion_job_already_active", HANDOFF, "A job of this payload waits for its page."
    INGESTION_JOB_ALREADY_READY = "ingestion_job_already_ready", HANDOFF, "A job of this payload is already ready."
    INGESTION_JOB_ALREADY_FAILED = "ingestion_job_already_failed", HANDOFF, "A job of this payload failed. Retry it."
    PAGE_NOT_FETCHED = "page_not_fetched", HANDOFF, "The source's pages are not fetched, so no job waits for one."
    RETRY_EXHAUSTED = "retry_exhausted", HANDOFF, "Every attempt failed for a temporary reason."
    SUPERSEDED = "superseded", HANDOFF, "The receiver accepted a later delivery of the same document or job."
    DISMISSED = "dismissed", HANDOFF, "An operator dismissed the delivery."

    # An operator must change something.
    BAD_SETTING = "bad_setting", CONFIG, "A setting is unknown or has a value that cannot be used."
    DATABASE_UNREACHABLE = "database_unreachable", CONFIG, "The database cannot be reached."
    NO_DATABASE = "no_database", CONFIG, "There is no Headwater database here yet."
    SCHEMA_MISMATCH = "schema_mismatch", CONFIG, "The database schema does not match this program."
    FOLDER_UNUSABLE = "folder_unusable", CONFIG, "A folder cannot be used."
    PORT_TAKEN = "port_taken", CONFIG, "Another program uses the address to listen on."
    UNKNOWN_KIND = "unknown_kind", CONFIG, "No installed kind of source has this name."
    UNKNOWN_SOURCE = "unknown_source", CONFIG, "No source has this name."
    RUN_UNDER_WAY = "run_under_way", CONFIG, "A run of this source is in progress, and only one runs at a time."
    UNKNOWN_RUN = "unknown_run", CONFIG, "No run has this number."
    UNKNOWN_JOB = "unknown_job", CONFIG, "No job has this number."
    UNKNOWN_HANDOFF = "unknown_handoff", CONFIG, "No hand-off has this number."
    NOT_FAILED = "not_failed", CONFIG, "It has not failed, and only failed ones can be retried."
    HANDOFFS_MISSING = "handoffs_missing", CONFIG, "Hand-offs need migration 003_handoffs: run `headwater migrate up`."
    UNKNOWN_DAY = "unknown_day", CONFIG, "No day has been read yet."
    SOURCE_EXISTS = "source_exists", CONFIG, "A source with this name or for this feed already exists."
    BAD_SOURCE = "bad_source", CONFIG, "A source's settings cannot be used."

    BAD_REQUEST = "bad_request", CONFIG, "A part of the request cannot be used."
    NO_BROWSER = "no_browser", CONFIG, "The page waits for a browser, and none starts here."
    UNKNOWN_URL = "unknown_url", CONFIG, "Headwater has never seen this URL."
    UNKNOWN_HOST = "unknown_host", CONFIG, "Headwater has never seen this host."
    HOST_IN_USE = "host_in_use", CONFIG, "A request to the host is in progress. Try again in a moment."
    UNKNOWN_DOCUMENT = "unknown_document", CONFIG, "No document has this number."
    UNKNOWN_REVISION = "unknown_revision", CONFIG, "The document has no revision of this number."
    UNKNOWN_WEBHOOK = "unknown_webhook", CONFIG, "No webhook has this name."
    WEBHOOK_EXISTS = "webhook_exists", CONFIG, "A webhook with this name already exists."
    UNKNOWN_DELIVERY = "unknown_delivery", CONFIG, "The webhook has no delivery with this id."
    UNKNOWN_PATH = "unknown_path", CONFIG, "No operation has this path."
    METHOD_REFUSED = "method_refused", CONFIG, "No operation of this path has this method."
    UNKNOWN_SAVED_SEARCH = "unknown_saved_search", CONFIG, "No saved search has this name."
    SAVED_SEARCH_EXISTS = "saved_search_exists", CONFIG, "A saved search with this name already exists."
    UNKNOWN_FEED_ADDRESS = "unknown_feed_address", CONFIG, "There is no such feed address, or it was removed."
    FEED_ADDRESS_EXISTS = "feed_address_exists", CONFIG, "A feed address with this name already exists."
    UNKNOWN_TOKEN = "unknown_token", CONFIG, "No token has this name."
    TOKEN_EXISTS = "token_exists", CONFIG, "A token with this name already exists."
    TOKEN_REQUIRED = "token_required", CONFIG, "The request needs an API token."
    SCOPE_REQUIRED = "scope_required", CONFIG, "The request needs an API token with a larger scope."
    TOKEN_FAILURES = "token_failures", CONFIG, "Too many requests had a wrong token. Wait, then send a valid one."
    HOST_REFUSED = "host_refused", CONFIG, "The API does not answer to this host name."
    CROSS_SITE = "cross_site", CONFIG, "A page of another site sent the request, so it may not write."

    # On our side.
    OFFLINE = "offline", OURS, "Our own network is down. This costs no retry."
    WORKER_LOST = "worker_lost", OURS, "The process that held the lease died or lost it."
    SHUTDOWN = "shutdown", OURS, "The program was stopped and released its lease."
    BUSY = "busy", OURS, "Another request of this kind is in progress. Try again in a moment."
    SANDBOX_TIMEOUT = "sandbox_timeout", OURS, "Parsing the body took too long and was stopped."
    SANDBOX_MEMORY = "sandbox_memory", OURS, "Parsing the body needed too much memory and was stopped."
    SANDBOX_CRASHED = "sandbox_crashed", OURS, "Parsing the body crashed its child process."
    SANDBOX_OUTPUT = "sandbox_output", OURS, "Parsing the body returned more than the limit."
    BROWSER_CRASHED = "browser_crashed", OURS, "The browser died while it read the page."
    DATABASE_LOST = "database_lost", OURS, "The connection to the database was lost."
    REDIS_LOST = "redis_lost", OURS, "Redis cannot be reached or refuses a command. The next run brings it up to date."
    INDEX_LOST = (
        "index_lost",
        OURS,
        "The search index cannot be reached or refuses requests. It gets all changes later.",
    )
    STORAGE = "storage", OURS, "The raw file could not be written."
    INTERNAL = "internal", OURS, "The program has an error. Its log has the details."


# The body stopped its parser. Another attempt may succeed; if none does, the body is the cause.
BODY_REASONS = frozenset({Reason.SANDBOX_TIMEOUT, Reason.SANDBOX_MEMORY, Reason.SANDBOX_CRASHED, Reason.SANDBOX_OUTPUT})
