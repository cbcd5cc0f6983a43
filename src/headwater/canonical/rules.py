"""Rules of canonical articles: the uid of a URL, and the failure code of each reason."""

from hashlib import sha1

from headwater.core.reasons import Reason
from headwater.db.canonical import FailureCode

LONGEST_CATEGORY = 200

_CODES = {
    FailureCode.BAD_HTML: (
        Reason.BAD_HTML,
        Reason.UNSUPPORTED_TYPE,
        Reason.BAD_ENCODING,
        Reason.BODY_TOO_LARGE,
        Reason.NOT_A_FEED,
        Reason.NOT_A_PDF,
        Reason.TOO_LARGE,
    ),
    FailureCode.TIMEOUT: (Reason.TIMEOUT,),
    FailureCode.PARSE: (
        Reason.PARSE_FAILED,
        Reason.ENCRYPTED,
        Reason.BROKEN,
        Reason.UNKNOWN_SCHEMA,
        Reason.SANDBOX_TIMEOUT,
        Reason.SANDBOX_MEMORY,
        Reason.SANDBOX_CRASHED,
        Reason.SANDBOX_OUTPUT,
        Reason.BROWSER_CRASHED,
        Reason.WORKER_LOST,
        Reason.INTERNAL,
    ),
    FailureCode.EMPTY: (Reason.EMPTY_TEXT, Reason.CHALLENGE, Reason.LOGIN_WALL, Reason.COOKIE_WALL),
    # No page came: the server said no, could not be reached, or may not be asked.
    FailureCode.HTTP: (
        Reason.NOT_FOUND,
        Reason.SOFT_404,
        Reason.GONE,
        Reason.HTTP_4XX,
        Reason.HTTP_5XX,
        Reason.HTTP_ODD,
        Reason.RATE_LIMITED,
        Reason.NETWORK,
        Reason.DNS,
        Reason.BROWSER_BUSY,
        Reason.MAX_RETRIES,
        Reason.BAD_REDIRECT,
        Reason.REDIRECT,
        Reason.REDIRECT_LIMIT,
        Reason.ROBOTS_BLOCKED,
        Reason.ROBOTS_UNREACHABLE,
        Reason.ADDRESS_REFUSED,
        Reason.HOST_CLOSED,
        Reason.HOST_BUSY,
        Reason.BUDGET_SPENT,
        Reason.INCOMPLETE,
        Reason.SOURCE_REMOVED,
        Reason.INVALID_URL,
        Reason.OFFLINE,
        Reason.SHUTDOWN,
        Reason.BUSY,
        Reason.DATABASE_LOST,
        Reason.REDIS_LOST,
        Reason.STORAGE,
    ),
}
CODES = {reason: code for code, reasons in _CODES.items() for reason in reasons}


def uid_of(url: str | bytes) -> str:
    """Return what an article is called: the first 16 hex digits of the SHA-1 of its URL as given."""
    return sha1(url if isinstance(url, bytes) else url.encode(), usedforsecurity=False).hexdigest()[:16]


def code_of(reason: Reason, detail: str | None = None) -> FailureCode:
    """Return what the end of a URL is called; of what was given up after the last retry, what that retry ended with."""
    if reason is Reason.MAX_RETRIES and detail:
        last = detail.partition(":")[0].upper()
        reason = Reason.__members__.get(last, reason)
    return CODES.get(reason, FailureCode.HTTP)
