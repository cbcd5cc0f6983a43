"""Every error Headwater raises on purpose.

    HeadwaterError                 carries reason, retryable, url
    ├── OperatorError              an operator has to change something: one line, exit code 2
    │   ├── RunUnderWay            the source is being read; `run_id` is the run that does, if one does
    │   └── HandoffsMissing        the migration that hand-offs need is not applied
    ├── InvalidURL                 the address cannot be used, and why
    ├── ExchangeFailed             no usable answer came: time-out, reset, DNS, guard, caps
    ├── NotNow                     the gate says: not before a time (`until`); costs no retry
    ├── NotAllowed                 robots.txt forbids it
    ├── Unreadable                 bytes came, but not what was asked for
    ├── SandboxFailed              the child that read the bytes was stopped or died
    ├── StorageFailed              a raw file could not be written
    └── LeaseLost                  somebody else holds it now

Which member of the closed list applies is the error's `reason`; `retryable` follows from the reason's class.
"""

from datetime import datetime, timedelta

from headwater.core.reasons import Reason


class HeadwaterError(Exception):
    """Base of all. `str(error)` is a whole sentence for a person."""

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
    """Something only an operator can mend; the message says what is wrong and what to do."""

    default_reason = Reason.BAD_SETTING


class RunUnderWay(OperatorError):
    """The source is being read already; `run_id` is the run that does so, None where it is a poll."""

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
    """The address cannot be used; the message says why."""

    default_reason = Reason.INVALID_URL


class ExchangeFailed(HeadwaterError):
    """No usable answer came; `retry_after` is how long the server wants to be left alone, if it said so."""

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
    """The host may not be asked before `until`."""

    default_reason = Reason.HOST_BUSY

    def __init__(self, message: str, *, until: datetime, reason: Reason | None = None, url: str | None = None) -> None:
        super().__init__(message, reason=reason, url=url)
        self.until = until


class NotAllowed(HeadwaterError):
    """The host's robots.txt forbids the address."""

    default_reason = Reason.ROBOTS_BLOCKED


class Unreadable(HeadwaterError):
    """Bytes came, but they are not what was asked for."""

    default_reason = Reason.PARSE_FAILED


class SandboxFailed(HeadwaterError):
    """The child process that read the bytes was stopped or died."""

    default_reason = Reason.SANDBOX_CRASHED


class StorageFailed(HeadwaterError):
    """A raw file could not be written."""

    default_reason = Reason.STORAGE


class LeaseLost(HeadwaterError):
    """The lease ran out and somebody else holds it now; nothing was changed."""

    default_reason = Reason.WORKER_LOST
