"""The errors that Headwater raises on purpose.

    HeadwaterError                 carries reason, retryable, url
    ├── OperatorError              an operator must change something: one line, exit code 2
    │   ├── BadRequest             a part of a request or command cannot be used
    │   ├── DatabaseUnreachable    the database cannot be reached or used
    │   ├── FolderUnusable         a file or folder cannot be used
    │   ├── SchemaMismatch         the schema of the database is not this program's
    │   ├── RunUnderWay            a run or a poll reads the source already
    │   └── HandoffsMissing        the migration that hand-offs need is not applied
    ├── InvalidURL                 the URL cannot be used
    ├── ExchangeFailed             no usable answer: time-out, reset, DNS, guard, limits
    ├── NotNow                     the host gets no request before `until`; costs no retry
    ├── NotAllowed                 robots.txt forbids it
    ├── Unreadable                 the bytes are not in the expected format
    ├── SandboxFailed              the child that parsed the bytes was stopped or died
    ├── StorageFailed              a raw file could not be written
    └── LeaseLost                  another process holds the lease now

Each error has a `reason` of the closed list. Its `retryable` follows from the class of the reason.
"""

from datetime import datetime, timedelta

from headwater.core.host_wait import HostWait
from headwater.core.reasons import Reason


class HeadwaterError(Exception):
    """The base of all errors. `str(error)` is a complete sentence for a person."""

    default_reason = Reason.INTERNAL

    def __init__(self, message: str, *, reason: Reason | None = None, url: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason or self.default_reason
        self.url = url

    @property
    def retryable(self) -> bool:
        """Whether the same attempt may succeed later."""
        return self.reason.retryable


class OperatorError(HeadwaterError):
    """Only an operator can fix this. The message names the problem and the next step."""

    default_reason = Reason.BAD_SETTING


class BadRequest(OperatorError):
    """A part of a request or of a command cannot be used."""

    default_reason = Reason.BAD_REQUEST


class DatabaseUnreachable(OperatorError):
    """The database cannot be reached or used."""

    default_reason = Reason.DATABASE_UNREACHABLE


class FolderUnusable(OperatorError):
    """A file or a folder cannot be used."""

    default_reason = Reason.FOLDER_UNUSABLE


class SchemaMismatch(OperatorError):
    """The schema of the database does not match this program."""

    default_reason = Reason.SCHEMA_MISMATCH


class RunUnderWay(OperatorError):
    """Another run (`run_id`) or a poll (None) reads the source already."""

    default_reason = Reason.RUN_UNDER_WAY

    def __init__(self, message: str, *, run_id: int | None) -> None:
        super().__init__(message)
        self.run_id = run_id


class HandoffsMissing(OperatorError):
    """The migration that hand-offs need is not applied."""

    default_reason = Reason.HANDOFFS_MISSING

    def __init__(self) -> None:
        super().__init__(Reason.HANDOFFS_MISSING.sentence)


class InvalidURL(HeadwaterError):
    """The URL cannot be used; the message says why."""

    default_reason = Reason.INVALID_URL


class ExchangeFailed(HeadwaterError):
    """No usable answer came. `retry_after` is the wait that the server requested, if it did."""

    default_reason = Reason.NETWORK

    def __init__(
        self,
        message: str,
        *,
        reason: Reason | None = None,
        url: str | None = None,
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__(message, reason=reason, url=url)
        self.retry_after = retry_after


class NotNow(HeadwaterError):
    """The host gets no request before `until`."""

    default_reason = Reason.HOST_BUSY

    def __init__(
        self,
        message: str,
        *,
        until: datetime,
        reason: Reason | None = None,
        url: str | None = None,
        wait: HostWait | None = None,
    ) -> None:
        super().__init__(message, reason=reason, url=url)
        self.until = until
        self.wait = wait

    @property
    def lasting_message(self) -> str:
        """The message without durations, so that it stays true when it is stored."""
        return str(self.wait or self)


class NotAllowed(HeadwaterError):
    """The host's robots.txt forbids the URL."""

    default_reason = Reason.ROBOTS_BLOCKED


class Unreadable(HeadwaterError):
    """The bytes are not in the expected format."""

    default_reason = Reason.PARSE_FAILED


class SandboxFailed(HeadwaterError):
    """The child process that parsed the bytes was stopped or died."""

    default_reason = Reason.SANDBOX_CRASHED


class StorageFailed(HeadwaterError):
    """A raw file could not be written."""

    default_reason = Reason.STORAGE


class LeaseLost(HeadwaterError):
    """The lease ran out and another process holds it now. The work was not saved."""

    default_reason = Reason.WORKER_LOST
