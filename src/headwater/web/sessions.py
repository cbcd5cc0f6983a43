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

from fastapi import Request, Response
from starlette.datastructures import FormData

from headwater.access.operations import FIRST_ACCESS, Access, Scope, TokenCheck
from headwater.core.record import record

SESSION_LASTS = timedelta(days=14)
LINK_SECONDS = 600.0
ROOT = "/ui"
_COOKIE = "session"
CSRF_FIELD = "csrf"
_MAX_LINKS = 20


@record
class Session:
    """The user of a request."""

    name: str
    """The name of the token. Empty without sign-in."""
    scope: Scope | None
    """None: not even reading is permitted."""
    csrf: str = ""

    def permits(self, needed: Scope | None) -> bool:
        """Return whether the user may do what needs a scope."""
        return needed is None or (self.scope is not None and self.scope.permits(needed))

    @property
    def is_signed_in(self) -> bool:
        """Return whether the user signed in."""
        return bool(self.name)

    @property
    def can_write(self) -> bool:
        """Return whether pages show the buttons that change something."""
        return self.permits(Scope.WRITE)

    @property
    def is_admin(self) -> bool:
        """Return whether pages show the buttons of an administrator."""
        return self.permits(Scope.ADMIN)


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
    """Makes and reads session cookies.

    A cookie names its token and its end. It is signed with a key made of the first token, which only this program has.
    The rights are those that the token has at the time of a request: a removed token ends its sessions.
    """

    def __init__(self, tokens: TokenCheck, first_token: str, now: Callable[[], datetime], links: SignInLinks) -> None:
        self._tokens = tokens
        self._key = hashlib.sha256(b"headwater session " + first_token.encode()).digest()
        self._now = now
        self._links = links

    def use_link(self, code: str) -> Access | None:
        """Return the access of a link, or None if the link is not good any more."""
        return FIRST_ACCESS if self._links.use(code) else None

    async def sign_in(self, request: Request, token: str) -> Access:
        """Return the access of a token. Raises HeadwaterError for an unknown one."""
        return await self._tokens.check(token.strip(), request.client.host if request.client else "")

    def get_anonymous(self, request: Request) -> Session:
        """Return the session of a request without sign-in."""
        return Session("", Scope.READ if request.state.is_reading_free else None)

    async def read(self, request: Request) -> Session:
        """Return the session of a request."""
        anonymous = self.get_anonymous(request)
        text, _, signature = request.cookies.get(cookie_name(request, _COOKIE), "").partition(".")
        if not hmac.compare_digest(self._sign(text).encode(), signature.encode()):
            return anonymous
        try:
            name, created_at, ends, nonce = json.loads(base64.urlsafe_b64decode(text))
            if datetime.fromisoformat(ends) <= self._now():
                return anonymous
        except (binascii.Error, ValueError, TypeError):
            return anonymous
        access = await self._tokens.find(name, datetime.fromisoformat(created_at) if created_at else None)
        return Session(name, access.scope, self._sign(f"csrf {nonce}")) if access else anonymous

    def begin(self, request: Request, response: Response, access: Access) -> None:
        """Give the browser the cookie of a new session."""
        created_at = access.created_at.isoformat() if access.created_at else None
        content = [access.token, created_at, (self._now() + SESSION_LASTS).isoformat(), secrets.token_urlsafe(16)]
        text = base64.urlsafe_b64encode(json.dumps(content).encode()).decode()
        set_cookie(request, response, cookie_name(request, _COOKIE), f"{text}.{self._sign(text)}", SESSION_LASTS)

    def end(self, request: Request, response: Response) -> None:
        """Make the browser forget the session."""
        response.delete_cookie(cookie_name(request, _COOKIE), path="/", httponly=True, samesite="strict")

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


def has_csrf_token(session: Session, form: FormData) -> bool:
    """Return whether a form has the token of the session."""
    return bool(session.csrf) and hmac.compare_digest(str(form.get(CSRF_FIELD, "")).encode(), session.csrf.encode())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
