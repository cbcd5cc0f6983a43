"""Sessions: sign-in by a token or by a link that works once, a signed cookie, and the checks of a form."""

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import IntEnum
from urllib.parse import urlsplit

from fastapi import Request, Response
from starlette.datastructures import FormData

from headwater.core.record import record

SESSION_LASTS = timedelta(days=14)
LINK_SECONDS = 600.0
ROOT = "/ui"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
CSRF_FIELD = "csrf"
OPEN = "open"  # the tag of a route that anyone may post to: it changes only the cookies of the browser
ADMIN = "admin"  # the tag of a route that needs the scope admin
_MAX_LINKS = 20


class Scope(IntEnum):
    """The access of a session. Each scope includes those below it."""

    NONE = 0
    READ = 1
    WRITE = 2
    ADMIN = 3


@record
class Session:
    """The user of a request."""

    name: str
    """The name of the token. Empty without sign-in."""
    scope: Scope
    csrf: str = ""

    @property
    def is_signed_in(self) -> bool:
        """Return whether the user signed in."""
        return bool(self.name)

    @property
    def can_write(self) -> bool:
        """Return whether pages show the buttons that change something."""
        return self.scope >= Scope.WRITE

    @property
    def is_admin(self) -> bool:
        """Return whether pages show the buttons of an administrator."""
        return self.scope >= Scope.ADMIN


class SignInLinks:
    """Links that sign in once, within ten minutes. Only the program that makes a link accepts it."""

    def __init__(self) -> None:
        self._ends: dict[str, float] = {}

    def make(self, address: str) -> str:
        """Return a link for the operator who started the program."""
        code = secrets.token_urlsafe(24)
        self._ends = dict([*self._ends.items(), (_digest(code), time.monotonic() + LINK_SECONDS)][-_MAX_LINKS:])
        return f"{address}{ROOT}/sign-in?code={code}"

    def use(self, code: str) -> bool:
        """Return whether a code is good. It then works no more."""
        return self._ends.pop(_digest(code), 0.0) > time.monotonic()


class Sessions:
    """Makes and reads session cookies. A cookie names its token and its end, and is signed with a key of the token."""

    def __init__(self, token: str, now: Callable[[], datetime], links: SignInLinks) -> None:
        self._token = token
        self._key = hashlib.sha256(b"headwater session " + token.encode()).digest()
        self._now = now
        self._links = links

    def use_link(self, code: str) -> Session | None:
        """Return the session of a link, or None if the link is not good any more."""
        return self._open() if self._links.use(code) else None

    async def sign_in(self, token: str) -> Session | None:
        """Return a new session of a token, or None for an unknown token."""
        is_known = hmac.compare_digest(_digest(token.strip()), _digest(self._token))
        return self._open() if is_known else None

    async def read(self, request: Request) -> Session:
        """Return the session of a request."""
        anonymous = Session("", Scope.READ if request.state.is_reading_free else Scope.NONE)
        text, _, signature = request.cookies.get(_cookie_name(request), "").partition(".")
        if not hmac.compare_digest(self._sign(text).encode(), signature.encode()):
            return anonymous
        try:
            content = json.loads(base64.urlsafe_b64decode(text))
            ends = datetime.fromisoformat(content["ends"])
        except (binascii.Error, ValueError, KeyError, TypeError):
            return anonymous
        if ends <= self._now():
            return anonymous
        return Session(content["name"], Scope(content["scope"]), self._sign(f"csrf {content['nonce']}"))

    def set_cookie(self, request: Request, response: Response, session: Session) -> None:
        """Give the browser the cookie of a new session."""
        content = {
            "name": session.name,
            "scope": session.scope,
            "nonce": secrets.token_urlsafe(16),
            "ends": (self._now() + SESSION_LASTS).isoformat(),
        }
        text = base64.urlsafe_b64encode(json.dumps(content).encode()).decode()
        set_cookie(request, response, _cookie_name(request), f"{text}.{self._sign(text)}", SESSION_LASTS)

    def end(self, request: Request, response: Response) -> None:
        """Make the browser forget the session."""
        response.delete_cookie(_cookie_name(request), path="/", httponly=True, samesite="strict")

    def _open(self) -> Session:
        return Session("api", Scope.ADMIN)

    def _sign(self, text: str) -> str:
        return hmac.digest(self._key, text.encode(), "sha256").hex()


def set_cookie(request: Request, response: Response, name: str, value: str, lasts: timedelta) -> None:
    """Set a cookie that no script reads and no other site sends."""
    response.set_cookie(
        name,
        value,
        max_age=int(lasts.total_seconds()),
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def cookie_name(request: Request, purpose: str) -> str:
    """Return the name of a cookie. Browsers share cookies between all ports of a host, so the name has the port."""
    return f"headwater-{purpose}-{request.url.port or 0}"


def is_from_here(request: Request) -> bool:
    """Return whether a page of this server sent a form. A browser that sends neither header is old or no browser."""
    origin = request.headers.get("origin") or request.headers.get("referer")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def has_csrf_token(session: Session, form: FormData) -> bool:
    """Return whether a form has the token of the session."""
    return bool(session.csrf) and hmac.compare_digest(str(form.get(CSRF_FIELD, "")).encode(), session.csrf.encode())


def _cookie_name(request: Request) -> str:
    return cookie_name(request, "session")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
