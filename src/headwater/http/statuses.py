"""What an HTTP status means for the URL that was asked for (spec 4.2)."""

from headwater.core.reasons import Reason

_NAMED = {404: Reason.NOT_FOUND, 410: Reason.GONE, 429: Reason.RATE_LIMITED, 408: Reason.HTTP_5XX, 425: Reason.HTTP_5XX}


def reason_of_status(status: int) -> Reason | None:
    """Say why a status is not an answer; None where it is one (2xx and 304)."""
    if 200 <= status < 300 or status == 304:
        return None
    if status in _NAMED:
        return _NAMED[status]
    if status >= 500:
        return Reason.HTTP_5XX
    return Reason.HTTP_4XX if status >= 400 else Reason.HTTP_ODD
