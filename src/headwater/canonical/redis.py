"""The only client of Redis, and the keys that Headwater shares with other programs there.

A Redis SET has one lifetime for all its members. Therefore each SET has a sorted set under `headwater:times:` with the
time of each member, so that each member can expire on its own day.
"""

import contextlib
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from headwater.core.errors import HeadwaterError, OperatorError
from headwater.core.reasons import Reason
from headwater.db.canonical import ARTICLE_LIFE, ATTEMPT_LIFE, LINK_LIFE, CanonicalArticle, CanonicalAttempt

if TYPE_CHECKING:
    from redis.asyncio import Redis as Client

Command = tuple[str | bytes | float, ...]
CONNECT_SECONDS = 2.0
_RESPONSE_SECONDS = 5.0
_REPEATED_COMMAND = re.compile(r"^Command # \d+ .* of pipeline caused error: ", re.DOTALL)

LINKS = b"rss:category_links:"
ARTICLE = b"rss:article_canonical:"
BY_CATEGORY = b"rss:articles_by_category:"
INDEX = b"rss:article_canonical_index"
ATTEMPTED = b"rss:canonical_attempted"
FAILURES = b"rss:canonical_failures"
MARK = b"headwater:canonical:mark"
_TIMES = b"headwater:times:"


class Refusal(str):
    """The error of a command that Redis refused."""

    __slots__ = ()


class Redis:
    """A Redis server. Every failure to use it is a HeadwaterError with the reason redis_lost."""

    def __init__(self, client: "Client") -> None:
        from redis.exceptions import RedisError, ResponseError

        self._client = client
        self._refusal = ResponseError
        self._loss = (RedisError, OSError, TimeoutError)

    async def execute(self, *command: str | bytes | float) -> Any:
        """Send one command and return its response."""
        with self._translate_errors(f" ({command[0]!s} {_show(command[1])})" if len(command) > 1 else ""):
            return await self._client.execute_command(*command)  # type: ignore[no-untyped-call]

    async def execute_all(self, commands: Sequence[Command], *, together: bool = False) -> list[Any]:
        """Send commands in one round trip, or as one transaction. A refused command has a Refusal as its response."""
        if not commands:
            return []
        with self._translate_errors():
            async with self._client.pipeline(transaction=together) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                responses: list[Any] = await pipe.execute(raise_on_error=False)
        return [_describe(response) if isinstance(response, self._refusal) else response for response in responses]

    @contextlib.contextmanager
    def _translate_errors(self, command: str = "") -> Iterator[None]:
        try:
            yield
        except self._loss as error:
            where = command if isinstance(error, self._refusal) else ""
            message = f"Redis cannot be used: {_describe(error).rstrip('.')}{where}."
            raise HeadwaterError(message, reason=Reason.REDIS_LOST) from error

    async def list_keys(self, prefix: bytes) -> AsyncIterator[bytes]:
        """Yield the keys with a prefix."""
        pattern = re.sub(rb"[*?\[\]^\\]", rb"\\\g<0>", prefix) + b"*"
        async for page in self._scan(("SCAN",), ("MATCH", pattern, "COUNT", 1000)):
            for key in page:
                yield key

    async def type_of(self, key: bytes) -> str:
        """Return the type of a key, "none" if there is no such key."""
        return bytes(await self.execute("TYPE", key)).decode()

    async def list_members(self, key: bytes, *, scored: bool = False, size: int = 1000) -> AsyncIterator[list[bytes]]:
        """Yield the members of a set or sorted set by pages. Members that change meanwhile may be missing."""
        async for page in self._scan(("ZSCAN" if scored else "SSCAN", key), ("COUNT", size)):
            if page:
                yield [member for member, _ in page] if scored else page

    async def _scan(self, before: Command, after: Command) -> AsyncIterator[list[Any]]:
        cursor: int | bytes = 0
        while True:
            cursor, page = await self.execute(*before, cursor, *after)
            yield page
            if not int(cursor):
                return


@contextlib.asynccontextmanager
async def open_redis(url: str) -> AsyncIterator[Redis]:
    """Open the Redis at an address; the first command connects."""
    # The import takes a quarter of a second, so only programs with a Redis do it.
    from redis.asyncio import Redis as Client
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
    from redis.exceptions import RedisError

    try:
        client = Client.from_url(
            url,
            protocol=2,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=_RESPONSE_SECONDS,
            # One retry on a new connection: a restart of the server breaks the old ones.
            retry=Retry(NoBackoff(), 1),
        )
    except (ValueError, TypeError):
        raise OperatorError(
            "Setting redis_url cannot be read. Write redis://user:password@host:port/database, and escape special "
            "characters of the password (@ as %40, / as %2F)."
        ) from None
    try:
        yield Redis(client)
    finally:
        with contextlib.suppress(RedisError, OSError):
            await client.aclose()


def _describe(error: Exception) -> Refusal:
    """Return the first line of an error without the command, which may contain whole texts."""
    message = _REPEATED_COMMAND.sub("", str(error)).strip("()'\", \n") or type(error).__name__
    return Refusal(message.splitlines()[0][:300])


def _show(part: object) -> str:
    return part[:200].decode(errors="backslashreplace") if isinstance(part, bytes) else str(part)


def times_key(key: bytes) -> bytes:
    """Return the key of the sorted set with the times of a SET's members."""
    return _TIMES + key


def date_members(
    key: bytes, members: Mapping[str, float] | Mapping[bytes, float], life: timedelta, *, only_new: bool = False
) -> Iterator[Command]:
    """Yield the commands that save the times of members and prolong the life of both keys."""
    scores = [part for member, moment in members.items() for part in (moment, member)]
    yield ("ZADD", times_key(key), *(("NX",) if only_new else ()), *scores)
    seconds = int(life.total_seconds())
    yield ("EXPIRE", key, seconds)
    yield ("EXPIRE", times_key(key), seconds)


def write_links(category: str, urls: Mapping[str, tuple[str, datetime]]) -> Iterator[Command]:
    """Yield the commands that add URLs to a category, given by uid with the time when they were seen."""
    key = LINKS + category.encode()
    yield ("SADD", key, *(url.encode() for url, _ in urls.values()))
    yield from date_members(key, {uid: seen_at.timestamp() for uid, (_, seen_at) in urls.items()}, LINK_LIFE)


def write_attempt(attempt: CanonicalAttempt, now: datetime) -> Iterator[Command]:
    """Yield the commands that add an attempt with its article or its failure."""
    moment = attempt.attempted_at.timestamp()
    if attempt.article:
        yield from _write_article(attempt, attempt.article, now)
    elif attempt.code:
        yield ("ZADD", FAILURES, moment, f"{attempt.uid}:{attempt.code}")
    if attempt.is_deleted:
        yield ("DEL", ARTICLE + attempt.uid.encode())
    yield ("SADD", ATTEMPTED, attempt.uid)
    yield from date_members(ATTEMPTED, {attempt.uid: moment}, ATTEMPT_LIFE)


def _write_article(attempt: CanonicalAttempt, article: CanonicalArticle, now: datetime) -> Iterator[Command]:
    key = ARTICLE + attempt.uid.encode()
    yield ("HSET", key, *(part for pair in _article_fields(attempt, article).items() for part in pair))
    left = attempt.attempted_at + ARTICLE_LIFE - now
    yield ("EXPIRE", key, max(1, round(left.total_seconds())))
    for category in attempt.categories:
        uids = BY_CATEGORY + category.encode()
        yield ("SADD", uids, attempt.uid)
        yield from date_members(uids, {attempt.uid: attempt.attempted_at.timestamp()}, ARTICLE_LIFE)
    yield ("ZADD", INDEX, int(article.fetched_at.timestamp()), attempt.uid)


def _article_fields(attempt: CanonicalAttempt, article: CanonicalArticle) -> dict[str, str]:
    provenance = dict(article.provenance)
    if article.published_at and article.published_by_source:
        provenance["published_at"] = "feed"
    fields: dict[str, object] = {
        "uid": attempt.uid,
        "url": attempt.url,
        "category": attempt.categories[0] if attempt.categories else "",
        "raw_len": article.raw_bytes,
        "text_len": len(article.text),
        "clean_text": article.text,
        "abstract": article.abstract,
        "image": article.image,
        "fetched_ts": int(article.fetched_at.timestamp()),
        "status": "success",
        "title": article.title,
        "byline": article.byline,
        "published_at": article.published_at.isoformat() if article.published_at else None,
        "language": article.language,
        "provenance": json.dumps(provenance, sort_keys=True, ensure_ascii=False),
    }
    return {name: "" if value is None else str(value) for name, value in fields.items()}
