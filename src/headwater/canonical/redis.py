"""The only one who speaks to Redis: commands out, answers or errors back, within a few seconds.

The library takes a quarter of a second to load, so it is loaded by those who have a Redis.
"""

import contextlib
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headwater.core.errors import HeadwaterError, OperatorError
from headwater.core.reasons import Reason

if TYPE_CHECKING:
    from redis.asyncio import Redis as Client

Command = tuple[str | bytes | float, ...]
CONNECT_SECONDS = 2.0
_ANSWER_SECONDS = 5.0
_REPEATED = re.compile(r"^Command # \d+ .* of pipeline caused error: ", re.DOTALL)


class Redis:
    """A Redis server. Whatever keeps it from answering is a HeadwaterError(redis_lost)."""

    def __init__(self, client: "Client") -> None:
        from redis.exceptions import RedisError, ResponseError

        self._client = client
        self._refusal = ResponseError
        self._loss = (RedisError, OSError, TimeoutError)

    async def ask(self, *command: str | bytes | float) -> Any:
        """Send one command and return what it answers."""
        with self._lost(f" ({command[0]!s} {_shown(command[1])})" if len(command) > 1 else ""):
            return await self._client.execute_command(*command)  # type: ignore[no-untyped-call]

    async def batch(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands that take effect together; an answer that is an error stands in its place."""
        return await self._send(commands, together=True)

    async def ask_all(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands one after the other, without waiting in between."""
        return await self._send(commands, together=False)

    async def _send(self, commands: Sequence[Command], *, together: bool) -> list[Any]:
        if not commands:
            return []
        with self._lost():
            async with self._client.pipeline(transaction=together) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                answers: list[Any] = await pipe.execute(raise_on_error=False)
        return [_words(answer) if isinstance(answer, self._refusal) else answer for answer in answers]

    @contextlib.contextmanager
    def _lost(self, asked: str = "") -> Iterator[None]:
        try:
            yield
        except self._loss as error:
            about = asked if isinstance(error, self._refusal) else ""
            what = f"Redis cannot be used: {_words(error).rstrip('.')}{about}."
            raise HeadwaterError(what, reason=Reason.REDIS_LOST) from error

    async def keys(self, prefix: bytes) -> AsyncIterator[bytes]:
        """Yield the keys that start so, each once as long as nobody renames them."""
        cursor: int | bytes = 0
        while True:
            cursor, found = await self.ask("SCAN", cursor, "MATCH", _literal(prefix) + b"*", "COUNT", 1000)
            for key in found:
                yield key
            if not int(cursor):
                return

    async def type_of(self, key: bytes) -> str:
        """Return the type of a key, "none" where there is none."""
        return bytes(await self.ask("TYPE", key)).decode()

    async def pages(self, key: bytes, *, scored: bool = False, size: int = 1000) -> AsyncIterator[list[bytes]]:
        """Yield the members of a set, or of a sorted one, a page at a time; what changes meanwhile may be missing."""
        cursor: int | bytes = 0
        while True:
            cursor, found = await self.ask("ZSCAN" if scored else "SSCAN", key, cursor, "COUNT", size)
            members = [member for member, _ in found] if scored else list(found)
            if members:
                yield members
            if not int(cursor):
                return


class Refused(str):
    """What Redis answers to a command that it does not carry out."""

    __slots__ = ()


@contextlib.asynccontextmanager
async def open_redis(url: str) -> AsyncIterator[Redis]:
    """Open the Redis at an address; it is reached when first asked."""
    from redis.asyncio import Redis as Client
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
    from redis.exceptions import RedisError

    try:
        client = Client.from_url(
            url,
            protocol=2,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=_ANSWER_SECONDS,
            # Once more on another connection: the one at hand may be from before the server was restarted.
            retry=Retry(NoBackoff(), 1),
        )
    except (ValueError, TypeError):
        raise OperatorError(
            "Setting redis_url cannot be read: it is redis://user:password@host:port/database; special characters in "
            "the password must be escaped (@ as %40, / as %2F)."
        ) from None
    try:
        yield Redis(client)
    finally:
        with contextlib.suppress(RedisError, OSError):
            await client.aclose()


def _words(error: Exception) -> Refused:
    """Return an error's first line, without the command that the library repeats in it: there are texts in that."""
    said = _REPEATED.sub("", str(error)).strip("()'\", \n") or type(error).__name__
    return Refused(said.splitlines()[0][:300])


def _shown(part: object) -> str:
    return part[:200].decode(errors="backslashreplace") if isinstance(part, bytes) else str(part)


def _literal(text: bytes) -> bytes:
    """Return a text so that it means itself in a pattern."""
    return b"".join(b"\\" + bytes([mark]) if mark in b"*?[]^\\" else bytes([mark]) for mark in text)
