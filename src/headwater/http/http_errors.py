"""The only place that maps the errors of HTTP libraries and of the system to our own errors."""

import os
import re
import socket
import ssl

import aiohttp

from headwater.core.errors import ExchangeFailed, HeadwaterError, InvalidURL
from headwater.core.inflate import BadEncoding
from headwater.core.reasons import Reason
from headwater.http.guard import AddressRefused


def too_large(url: str, what: str, cap: int) -> ExchangeFailed:
    """Return the error for a response that exceeds the size limit."""
    message = f"{what} over {cap / 1024 / 1024:g} MB; the setting max_body_mb is the limit."
    return ExchangeFailed(message, reason=Reason.BODY_TOO_LARGE, url=url)


def map_error(error: Exception, url: str) -> HeadwaterError:
    """Return our own error for an error of a library or of the system."""
    cause = cause_of(error)
    if isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError):
        return InvalidURL(f"{url} cannot be used: {_detail(error)}", url=url)
    reason, what = _describe(error, cause)
    return ExchangeFailed(f"{shown_host(url)}: {what}", reason=reason, url=url)


def cause_of(error: Exception) -> Exception:
    """Return the system error inside a library error, or the error itself."""
    return getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error


def _describe(error: Exception, cause: Exception) -> tuple[Reason, str]:
    if isinstance(cause, AddressRefused):
        return Reason.ADDRESS_REFUSED, str(cause)
    if isinstance(cause, TimeoutError):
        return Reason.TIMEOUT, "no whole response within the time limit"
    if isinstance(error, aiohttp.ClientConnectorDNSError) or isinstance(cause, socket.gaierror):
        return Reason.DNS, f"the name could not be resolved ({_detail(cause)})"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Reason.CERTIFICATE, f"the certificate is not valid ({cause.verify_message})"
    if isinstance(error, BadEncoding):
        return Reason.BAD_ENCODING, f"the body could not be decompressed ({_detail(error)})"
    if isinstance(error, aiohttp.ClientPayloadError):
        return Reason.NETWORK, "the response ended too early"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return Reason.NETWORK, "the server closed the connection without a response"
    if isinstance(error, aiohttp.ClientResponseError):
        return Reason.NETWORK, "the response is not valid HTTP"
    if isinstance(error, aiohttp.ClientError | OSError):
        return Reason.NETWORK, f"the connection failed ({_detail(cause)})"
    return Reason.INTERNAL, f"the client failed ({type(error).__name__}: {_detail(error)})"


def _detail(error: Exception) -> str:
    """Return one short line for an error whose own text may be long or missing."""
    if isinstance(error, OSError) and error.errno and error.errno > 0 and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    text = str(getattr(error, "strerror", None) or error) or type(error).__name__
    return text.splitlines()[0][:200]


def shown_host(url: str) -> str:
    """Return the host of any URL, valid or not, for a message."""
    authority = re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]
    return authority.rpartition("@")[2][:253] or url[:253]
