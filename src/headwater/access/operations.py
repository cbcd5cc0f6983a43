"""Operations on API tokens: add, list, remove, and check the token of a request."""

import contextlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256

from headwater.access.token_file import get_first_token as get_first_token
from headwater.core.access import FailureLimit
from headwater.core.access import Scope as Scope
from headwater.core.errors import BadRequest, HeadwaterError, OperatorError
from headwater.core.reasons import Reason
from headwater.core.record import extend, record
from headwater.core.source import SOURCE_NAME
from headwater.core.text import make_storable
from headwater.db import tokens
from headwater.db.context import DatabaseContext
from headwater.db.pool import AWAY
from headwater.db.tokens import Token as Token

FIRST_NAME = "api-token"
"""The name of the token in the data folder or in the settings. It has no row."""
_MOST_TOKENS = 1000
_LONGEST = timedelta(days=3650)
_RELOAD_SECONDS = 1.0
_USED_AGAIN = timedelta(minutes=1)


@record
class AddedToken(Token):
    """A new token."""

    token: str
    """Send it as `Authorization: Bearer TOKEN`. It is never shown again."""


@record
class TokenList:
    """All tokens by name, without the first one, which is in the data folder or in the settings."""

    tokens: list[Token]


@record
class RemovedToken:
    """The token that was removed."""

    name: str


@record
class Access:
    """The token that a request has, and what it permits."""

    token: str
    """Its name."""
    scope: Scope
    created_at: datetime | None = None
    """When the token was made. None: it is the first token."""


FIRST_ACCESS = Access(FIRST_NAME, Scope.ADMIN)


class TokenOperations:
    """Operations on API tokens."""

    def __init__(self, context: DatabaseContext) -> None:
        self._database = context.database
        self._clock = context.clock

    async def add(self, name: str, scope: Scope, lifetime: timedelta | None = None) -> AddedToken:
        """Make a token. The result has its characters, which are never shown again."""
        if not SOURCE_NAME.fullmatch(name) or name == FIRST_NAME:
            raise BadRequest(
                f"name: {make_storable(name)[:80]!r} must be a word such as grafana, and not {FIRST_NAME}."
            )
        if lifetime is not None and not timedelta(0) < lifetime <= _LONGEST:
            raise BadRequest("A token expires after at most ten years.")
        if len(await self._database.run(tokens.list_tokens)) >= _MOST_TOKENS:
            raise BadRequest(f"There are {_MOST_TOKENS} tokens. Remove one first.")
        token, now = f"hw_{secrets.token_urlsafe(32)}", self._clock.now()
        expires_at = now + lifetime if lifetime else None
        added = await self._database.run(tokens.add_token, name, _hash(token), scope, now=now, expires_at=expires_at)
        if added is None:
            raise OperatorError(f"There is already a token named {name}.", reason=Reason.TOKEN_EXISTS)
        return extend(added, AddedToken, token=token)

    async def list_tokens(self) -> TokenList:
        """List tokens by name. Their characters are not stored."""
        return TokenList(list((await self._database.run(tokens.list_tokens)).values()))

    async def remove(self, name: str) -> RemovedToken:
        """Remove a token. Requests with it are refused from now on, in other processes after a second at most."""
        if not await self._database.run(tokens.remove_token, make_storable(name)):
            raise OperatorError(f"There is no token named {make_storable(name)[:80]!r}.", reason=Reason.UNKNOWN_TOKEN)
        return RemovedToken(name)


class TokenCheck(TokenOperations):
    """The tokens of a process that serves the API. It checks each request and limits the rate of failures.

    A process reads all tokens at most once a second. The number of requests does not change the work of the database,
    and a flood of wrong tokens locks no valid one out.
    """

    def __init__(self, context: DatabaseContext, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(context)
        self._monotonic = monotonic
        self._failures = FailureLimit()
        self._first: bytes | None = None
        self._known: Mapping[bytes, Token] = {}
        self._read_at = float("-inf")

    def accept_first(self, token: str) -> None:
        """Accept the first token, which has no row."""
        self._first = _hash(token)

    async def add(self, name: str, scope: Scope, lifetime: timedelta | None = None) -> AddedToken:
        """Make a token. The result has its characters, which are never shown again."""
        added = await super().add(name, scope, lifetime)
        self._read_at = float("-inf")
        return added

    async def remove(self, name: str) -> RemovedToken:
        """Remove a token. Requests with it are refused from now on, in other processes after a second at most."""
        removed = await super().remove(name)
        self._read_at = float("-inf")
        return removed

    async def check(self, token: str, peer: str) -> Access:
        """Return the access that a token gives. A wrong or expired token counts as a failure of the peer."""
        digest, now = _hash(token), self._clock.now()
        if digest == self._first:  # both are hashes: the time of a comparison reveals nothing of the token
            return FIRST_ACCESS
        await self._reload()
        found = self._known.get(digest)
        if found and _is_valid(found, now):
            await self._save_use(digest, found, now)
            return Access(found.name, found.scope, found.created_at)
        if self._failures.count(peer, self._monotonic()):
            raise HeadwaterError(Reason.TOKEN_FAILURES.sentence, reason=Reason.TOKEN_FAILURES)
        message = f"The token {found.name} has expired." if found else "The token is wrong, or was removed."
        raise HeadwaterError(message, reason=Reason.TOKEN_REQUIRED)

    async def find(self, name: str, created_at: datetime | None) -> Access | None:
        """Return the access of a token that has signed a person in. None: the token has expired or was removed."""
        if name == FIRST_NAME:
            return FIRST_ACCESS
        await self._reload()
        for token in self._known.values():
            if token.name == name and token.created_at == created_at and _is_valid(token, self._clock.now()):
                return Access(name, token.scope, created_at)
        return None

    async def _reload(self) -> None:
        if self._monotonic() - self._read_at > _RELOAD_SECONDS:
            self._known = await self._database.run(tokens.list_tokens)
            self._read_at = self._monotonic()

    async def _save_use(self, digest: bytes, token: Token, now: datetime) -> None:
        if token.last_used_at and now - token.last_used_at < _USED_AGAIN:
            return
        self._known = {**self._known, digest: replace(token, last_used_at=now)}
        with contextlib.suppress(*AWAY):
            await self._database.run(tokens.set_token_used, digest, now)


def _is_valid(token: Token, now: datetime) -> bool:
    return token.expires_at is None or now < token.expires_at


def _hash(token: str) -> bytes:
    return sha256(token.encode(errors="surrogatepass")).digest()
