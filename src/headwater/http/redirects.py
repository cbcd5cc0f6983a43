"""Where a redirect leads (spec 4.2)."""

from headwater.core.errors import ExchangeFailed, InvalidURL
from headwater.core.http import Response
from headwater.core.reasons import Reason
from headwater.core.urls import join_url

MAX_HOPS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


def redirect_target(response: Response) -> str | None:
    """Return where a redirect leads, None for any other answer; one that leads nowhere is an error.

    The address is as the server wrote it: one that differs only by a slash or a parameter must be followed as it is.
    """
    if response.status not in _REDIRECTS:
        return None
    location = response.headers.get("location")
    if not location:
        raise ExchangeFailed(f"{response.url} redirects without saying where to.", reason=Reason.BAD_REDIRECT)
    try:
        return join_url(location, response.url)
    except InvalidURL as error:
        raise ExchangeFailed(
            f"{response.url} redirects to an unusable address: {error}", reason=Reason.BAD_REDIRECT
        ) from None
