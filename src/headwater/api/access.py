"""The guard in front of all routes: host names, origins, tokens, the size of bodies, and headers of security."""

import ipaddress
import re
from collections.abc import Sequence

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from headwater.access.operations import Scope, TokenCheck
from headwater.api.common import Needs
from headwater.api.errors import answer_database_away, answer_error, make_answer
from headwater.app.operations import DATABASE_AWAY
from headwater.core.errors import BadRequest, HeadwaterError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings

MAX_BODY_BYTES = 8 * 1024 * 1024  # the largest batch of URLs fits
HELP = (
    "Send an API token as `Authorization: Bearer TOKEN`. The first one is in the file api-token in the data folder; "
    "`headwater token add` makes more."
)
READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_HOST = re.compile(r"(?:\[([0-9a-f:.]{2,45})\]|([a-z0-9._-]{1,255}))(?::(\d{1,5}))?", re.IGNORECASE)
# A request with one of these came through a proxy, perhaps from another machine.
_PROXY_HEADERS = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
_SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def is_reading_free(settings: Settings) -> bool:
    """Return whether reading needs no token: only programs of this machine can connect, and no proxy has a name."""
    return _is_loopback(settings.listen_host) and not settings.allowed_hosts


def get_needed_scope(route: BaseRoute | None, method: str) -> Scope | None:
    """Return the scope that a route declares, else the scope of its method. None: no token."""
    for dependency in getattr(route, "dependencies", ()):
        if isinstance(dependency.dependency, Needs):
            return dependency.dependency.scope
    if isinstance(needs := getattr(getattr(route, "app", None), "needs", None), Needs):
        return needs.scope
    return Scope.READ if method in READING_METHODS else Scope.WRITE


class AccessGuard:
    """Checks each request before its body is read, and adds headers to each answer."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute], settings: Settings, tokens: TokenCheck) -> None:
        self._app = app
        self._routes = routes
        self._tokens = tokens
        self._is_reading_free = is_reading_free(settings)
        self._listen_host = settings.listen_host
        self._allowed_hosts = frozenset(settings.allowed_hosts)

    async def __call__(self, connection: Connection, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if connection["type"] != "http":
            await self._app(connection, receive, send)
            return
        if connection["method"] == "HEAD":
            connection = {**connection, "method": "GET"}  # the server, which knows better, sends the headers alone
        headers = Headers(scope=connection)
        send = _add_security_headers(send, is_private="authorization" in headers or "cookie" in headers)
        try:
            host = self._check_host(headers, connection)
            if connection["method"] not in READING_METHODS:
                self._check_origin(headers, host)
            is_free = self._is_reading_free and not any(name in headers for name in _PROXY_HEADERS)
            connection.setdefault("state", {})["is_reading_free"] = is_free
            await self._check_token(headers, connection, is_free=is_free)
        except HeadwaterError as error:
            status = 400 if isinstance(error, BadRequest) else None
            answer = make_answer(status, error.reason, str(error)) if status else answer_error(error)
            await answer(connection, receive, send)
        except DATABASE_AWAY as error:
            await answer_database_away(connection["path"], error)(connection, receive, send)
        else:
            if connection["method"] not in READING_METHODS and not _has_fitting_body(headers):
                message = f"Send a body of at most {MAX_BODY_BYTES} bytes, with its length."
                await make_answer(413, Reason.BAD_REQUEST, message)(connection, receive, send)
            else:
                await self._app(connection, receive, send)

    def _check_host(self, headers: Headers, connection: Connection) -> str:
        """Return the Host header. A web page could otherwise reach the API by a name of its own (DNS rebinding)."""
        given = headers.getlist("host")
        match = _HOST.fullmatch(given[0]) if len(given) == 1 else None
        if match is None or int(match[3] or 0) > 65535:
            raise BadRequest("A request needs exactly one Host header, with a host name or an address.")
        name = (match[1] or match[2]).lower().rstrip(".")
        is_own = name == self._listen_host or _is_address_of(name, connection)
        if not (_is_loopback(name) or name in self._allowed_hosts or is_own):
            raise HeadwaterError(
                f"The API does not answer to the host name {name[:80]}. The setting allowed_hosts can add it.",
                reason=Reason.HOST_REFUSED,
            )
        return given[0].lower()

    def _check_origin(self, headers: Headers, host: str) -> None:
        """Refuse a write that a page of another site makes a browser send."""
        origins = headers.getlist("origin")
        is_foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if is_foreign or len(origins) > 1 or (origins and not self._is_own(origins[0].lower(), host)):
            raise HeadwaterError(Reason.CROSS_SITE.sentence, reason=Reason.CROSS_SITE)

    def _is_own(self, origin: str, host: str) -> bool:
        scheme, _, name = origin.partition("://")
        # A proxy may send the address of the API as Host. Its own name is then allowed without a port.
        return scheme in ("http", "https") and (name == host or name in self._allowed_hosts)

    async def _check_token(self, headers: Headers, connection: Connection, *, is_free: bool) -> None:
        needed = self._get_needed_scope(connection)
        if needed is None or (needed is Scope.READ and is_free):
            return
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise HeadwaterError(HELP, reason=Reason.TOKEN_REQUIRED)
        peer = (connection.get("client") or ("", 0))[0]
        access = await self._tokens.check(token.strip(), peer)
        if not access.scope.permits(needed):
            raise HeadwaterError(
                f"The token {access.token} has the scope {access.scope}; this needs {needed}.",
                reason=Reason.SCOPE_REQUIRED,
            )

    def _get_needed_scope(self, connection: Connection) -> Scope | None:
        for route in self._routes:
            match, _ = route.matches(connection)
            if match is Match.FULL:
                return get_needed_scope(route, connection["method"])
        return get_needed_scope(None, connection["method"])


def make_malformed_answer() -> JSONResponse:
    """Make the answer to bytes that are no request. The server sends it, because no route sees such bytes."""
    answer = make_answer(400, Reason.BAD_REQUEST, "Send an HTTP/1.1 request with exactly one Host header.")
    answer.headers.update(_SECURITY_HEADERS | {"Connection": "close"})
    return answer


def _has_fitting_body(headers: Headers) -> bool:
    length = headers.get("content-length", "" if "transfer-encoding" in headers else "0")
    return length.isdigit() and int(length) <= MAX_BODY_BYTES


def _add_security_headers(send: Send, *, is_private: bool) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            if is_private:
                headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return send_with_headers


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_address_of(name: str, connection: Connection) -> bool:
    """Return whether a name is the very address that the request arrived at."""
    server = connection.get("server")
    try:
        asked, own = ipaddress.ip_address(name), ipaddress.ip_address(server[0]) if server else None
    except ValueError:
        return False
    return own is not None and asked in (own, getattr(own, "ipv4_mapped", None))
