"""How to read a response: its content encoding, its status and its redirect target (spec 4.2)."""

from headwater.core.errors import ExchangeFailed, InvalidURL
from headwater.core.http import Response
from headwater.core.inflate import BadEncoding, Inflater
from headwater.core.reasons import Reason
from headwater.core.source import FetchProfile
from headwater.core.urls import join_url
from headwater.http.user_agents import HONEST

ACCEPT_ENCODING = "gzip, deflate"
MAX_HOPS = 5

_GZIP_CODINGS = (["gzip"], ["x-gzip"])
_MEANINGLESS_CODINGS = {"", "identity", "none", "utf-8", "utf8"}  # servers send these by mistake
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REASONS = {
    404: Reason.NOT_FOUND,
    408: Reason.HTTP_5XX,
    410: Reason.GONE,
    425: Reason.HTTP_5XX,
    429: Reason.RATE_LIMITED,
}


def inflater_for(content_encoding: str) -> Inflater | None:
    """Return the decoder for a Content-Encoding header; None if the body is not encoded."""
    listed = [coding.strip().lower() for coding in content_encoding.split(",")]
    codings = [coding for coding in listed if coding not in _MEANINGLESS_CODINGS]
    if not codings:
        return None
    if codings in _GZIP_CODINGS or codings == ["deflate"]:
        return Inflater(gzip=codings in _GZIP_CODINGS)
    raise BadEncoding(f"the server used the content encoding {content_encoding[:50]!r}, which we did not accept")


def reason_of_status(status: int) -> Reason | None:
    """Return the reason for a status that carries no document; None for 2xx and 304."""
    if 200 <= status < 300 or status == 304:
        return None
    if status in _REASONS:
        return _REASONS[status]
    if status >= 500:
        return Reason.HTTP_5XX
    return Reason.HTTP_4XX if status >= 400 else Reason.HTTP_ODD


def suggest_fixes(status: int, profile: FetchProfile, *, has_contact: bool) -> str:
    """Return a sentence that names what may help against a 403; an empty text for other statuses."""
    if status != 403:
        return ""
    settings = f" of source {profile.source}" if profile.source else ""
    fixes = [
        "set contact_url, which the user agent names" if not has_contact else "",
        f"set user_agent=browser{settings}" if profile.user_agent == HONEST else "",
        f"set needs_browser=true{settings}" if not profile.needs_browser else "",
        "ask the operator of the site to allow Headwater",
    ]
    return f" The site refuses this client. One of these may help: {'; '.join(filter(None, fixes))}."


def redirect_target(response: Response) -> str | None:
    """Return the target URL of a redirect, exactly as the server wrote it; None for any other response.

    Normalization would be wrong here: the target may differ from the URL only by a slash or a parameter.
    """
    if response.status not in _REDIRECTS:
        return None
    location = response.headers.get("location")
    if not location:
        raise ExchangeFailed(f"{response.url} redirects but names no target.", reason=Reason.BAD_REDIRECT)
    try:
        return join_url(location, response.url)
    except InvalidURL as error:
        raise ExchangeFailed(
            f"{response.url} redirects to an unusable URL: {error}", reason=Reason.BAD_REDIRECT
        ) from None
