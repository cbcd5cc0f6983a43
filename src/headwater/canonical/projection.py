"""What PostgreSQL knows of canonical articles, brought to Redis, and what other programs put there, brought here."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import structlog

from headwater.canonical import keyspace
from headwater.canonical.redis import Command, Redis, Refused
from headwater.canonical.rules import LONGEST_CATEGORY, code_of, uid_of
from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason
from headwater.core.text import clean
from headwater.core.url_input import explain_unstorable, redact
from headwater.core.urls import MAX_URL_LENGTH
from headwater.db import canonical
from headwater.db.canonical import ARTICLE_LIFE, ATTEMPT_LIFE, LINK_LIFE
from headwater.db.pool import Connection, Database, is_down

log = structlog.get_logger()
Beat = Callable[[], Awaitable[None]]

_LINKS_A_PAGE = 500
_ARTICLES_A_PAGE = 50  # with their texts
_UIDS_A_PAGE = 1000
_MEMBERS_A_PAGE = 100  # what others wrote may be long
_UID = re.compile(rb"[0-9a-f]{16}")
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
# A poll waits no longer for Redis, and after that no poll asks it for a while.
_POLL_SECONDS = 2.0
_REST = timedelta(seconds=30)
_MOST_TROUBLES = 20


async def _no_beat() -> None:
    pass


class Projection:
    """One Redis, kept in line with PostgreSQL, which decides."""

    def __init__(self, database: Database, clock: Clock, redis: Redis) -> None:
        self._database = database
        self._clock = clock
        self._redis = redis
        self._rests_until: datetime | None = None
        self.troubles: list[str] = []  # keys and members that cannot be used; what is told once is not told again

    async def show_links(self, category: str) -> None:
        """Write a category's links after a poll; what goes wrong is left to the next run."""
        if self._rests_until and self._clock.now() < self._rests_until:
            return
        try:
            async with asyncio.timeout(_POLL_SECONDS):
                await self._project_links(_no_beat, category)
        except Exception as error:
            if not (is_down(error) or (isinstance(error, HeadwaterError) and error.reason is Reason.REDIS_LOST)):
                raise
            self._rests_until = self._clock.now() + _REST
            log.warning("redis.links_not_written", category=category, error=str(error) or "no answer in time")

    async def bring_up_to_date(self, beat: Beat) -> None:
        """Take in what others wrote, let go what is over, and write what is missing."""
        self.troubles.clear()
        mark = await self._mark()
        async with self._database.connection() as connection:
            is_whole = mark is not None and mark == await canonical.redis_mark(connection)
        await self._take_in_links(beat)
        is_whole = await self._take_in_attempts(beat) and is_whole
        if not is_whole:
            log.info("redis.written_anew")
            await self._database.transact(lambda connection: canonical.unproject(connection, self._clock.now()))
        await self.project(beat)
        await self._prune(beat)
        if not is_whole:
            mark = await self._leave_mark()
            async with self._database.connection() as connection:
                await canonical.keep_redis_mark(connection, mark)

    async def project(self, beat: Beat) -> None:
        """Write what Redis does not have yet."""
        await self._project_links(beat)
        await self._project_attempts(beat)

    async def attempted_elsewhere(self, uids: list[str]) -> set[str]:
        """Tell which of these are attempted by what Redis says."""
        if await self._redis.type_of(keyspace.ATTEMPTED) != "set":
            return set()
        answers = await self._redis.ask_all([("SISMEMBER", keyspace.ATTEMPTED, uid) for uid in uids])
        return {uid for uid, answer in zip(uids, answers, strict=True) if answer == 1}

    async def _mark(self) -> str | None:
        """Return what tells this Redis, as it runs now, from any other; None: nothing of ours is there."""
        token = await self._redis.ask("GET", keyspace.MARK) if await self._is(keyspace.MARK, "string") else None
        return None if token is None else f"{bytes(token).decode(errors='replace')}:{await self._run_id()}"

    async def _leave_mark(self) -> str:
        token = uuid4().hex
        await self._redis.ask("SET", keyspace.MARK, token)
        return f"{token}:{await self._run_id()}"

    async def _run_id(self) -> str:
        """Name this start of the server: after another one, what it was told last may be lost."""
        (answer,) = await self._redis.ask_all([("INFO", "server")])
        return "" if isinstance(answer, Refused) else str(answer.get("run_id", ""))

    async def _is(self, key: bytes, wanted: str, *or_else: str) -> bool:
        """Tell whether a key is of its type; one of another is told of and left alone."""
        found = await self._redis.type_of(key)
        if found not in (wanted, "none"):
            self._note(f"{_shown(key)} is a {found}, and should be a {wanted}: it is left alone.")
        return found == wanted or found in or_else

    def _note(self, trouble: str) -> None:
        if trouble not in self.troubles and len(self.troubles) < _MOST_TROUBLES:
            self.troubles.append(trouble)
            log.warning("redis.trouble", trouble=trouble)

    async def _take_in_links(self, beat: Beat) -> None:
        async for key in self._redis.keys(keyspace.LINKS):
            category = _category(key.removeprefix(keyspace.LINKS))
            if category is None:
                self._note(f"{_shown(key)} names no category that can be stored: it is left alone.")
            elif await self._is(key, "set"):
                await self._tend_links(key, category, beat)

    async def _tend_links(self, key: bytes, category: str, beat: Beat) -> None:
        """Take in the links of a category that have no time yet, and let those go whose time is over."""
        over = (self._clock.now() - LINK_LIFE).timestamp()
        times = keyspace.times_key(key)
        async for page in self._redis.pages(key, size=_MEMBERS_A_PAGE):
            await beat()
            uids = [uid_of(member) for member in page]
            scores = await self._scores(times, uids)
            new = {uid: member for uid, member, score in zip(uids, page, scores, strict=True) if score is None}
            old = {uid: member for uid, member, score in zip(uids, page, scores, strict=True) if _is_over(score, over)}
            if new:
                await self._adopt_links(key, category, new)
            if old:
                await self._redis.ask("SREM", key, *old.values())
                # One that a poll has seen again at this very moment stays.
                again = await self._scores(times, list(old))
                fresh = [member for member, score in zip(old.values(), again, strict=True) if score and score > over]
                if fresh:
                    await self._redis.ask("SADD", key, *fresh)
        await self._redis.ask("ZREMRANGEBYSCORE", times, "-inf", over)

    async def _adopt_links(self, key: bytes, category: str, members: Mapping[str, bytes]) -> None:
        """Keep links that another program wrote as seen now; what can never be an address is refused for good."""
        now = self._clock.now()
        usable: dict[str, str] = {}
        refused: dict[str, tuple[str, str]] = {}
        for uid, member in members.items():
            text, why = _read(member)
            if why is None:
                usable[uid] = text
            else:
                refused[uid] = (clean(redact(text)), why)

        async def work(connection: Connection) -> set[str]:
            await canonical.note_links(connection, category, usable, now)
            shown = {uid: text for uid, (text, _) in refused.items()}
            code = code_of(Reason.INVALID_URL)
            return await canonical.note_refused_links(connection, category, shown, code, now) if shown else set()

        for uid in await self._database.transact(work):
            text, why = refused[uid]
            self._note(f"{_shown(key)} has {text!r}: {why}")
        await self._redis.batch(
            list(keyspace.dated(key, dict.fromkeys(members, now.timestamp()), LINK_LIFE, first=True))
        )

    async def _take_in_attempts(self, beat: Beat) -> bool:
        """Take in what others attempted, let go what is over; False where something of ours is gone."""
        key, times = keyspace.ATTEMPTED, keyspace.times_key(keyspace.ATTEMPTED)
        if not await self._is(key, "set", "none"):
            return True  # what cannot be looked at is not gone either
        over = (self._clock.now() - ATTEMPT_LIFE).timestamp()
        while old := await self._redis.ask("ZRANGEBYSCORE", times, "-inf", over, "LIMIT", 0, _UIDS_A_PAGE):
            await beat()
            await self._redis.batch([("SREM", key, *old), ("ZREM", times, *old)])
        members, known = await self._redis.ask_all([("SCARD", key), ("ZCARD", times)])
        if members > known:
            async for page in self._redis.pages(key):
                await beat()
                await self._adopt_attempts(page)
        elif members < known:
            async for page in self._redis.pages(times, scored=True):
                await beat()
                answers = await self._redis.ask_all([("SISMEMBER", key, uid) for uid in page])
                if gone := [uid for uid, answer in zip(page, answers, strict=True) if answer == 0]:
                    await self._redis.ask("ZREM", times, *gone)
        return bool(members >= known)

    async def _adopt_attempts(self, page: list[bytes]) -> None:
        key, now = keyspace.ATTEMPTED, self._clock.now()
        scores = await self._scores(keyspace.times_key(key), page)
        new = [member for member, score in zip(page, scores, strict=True) if score is None]
        if new:
            uids = [member.decode() for member in new if _UID.fullmatch(member)]
            async with self._database.connection() as connection:
                await canonical.note_foreign_attempts(connection, uids, now)
            moments = dict.fromkeys(new, now.timestamp())
            await self._redis.batch(list(keyspace.dated(key, moments, ATTEMPT_LIFE, first=True)))

    async def _prune(self, beat: Beat) -> None:
        """Take out of the indexes what has no article any more."""
        async for key in self._redis.keys(keyspace.BY_CATEGORY):
            if await self._is(key, "set"):
                await self._prune_category(key, beat)
        if await self._is(keyspace.INDEX, "zset"):
            async for page in self._redis.pages(keyspace.INDEX, scored=True):
                await beat()
                if gone := await self._without_article(page):
                    await self._redis.ask("ZREM", keyspace.INDEX, *gone)

    async def _prune_category(self, key: bytes, beat: Beat) -> None:
        over, times = (self._clock.now() - ARTICLE_LIFE).timestamp(), keyspace.times_key(key)
        members, known, old = await self._redis.ask_all(
            [("SCARD", key), ("ZCARD", times), ("ZCOUNT", times, "-inf", over)]
        )
        each_has_its_time = members == known and not old
        async for page in self._redis.pages(key):
            await beat()
            gone = set(await self._without_article(page))
            commands: list[Command] = [] if each_has_its_time else await self._tend_articles(key, page, gone, over)
            if gone:
                commands += [("SREM", key, *gone), ("ZREM", times, *gone)]
            await self._redis.batch(commands)

    async def _tend_articles(self, key: bytes, page: list[bytes], gone: set[bytes], over: float) -> list[Command]:
        """Add to what is gone what has had its time; return what gives the others theirs."""
        scores = await self._scores(keyspace.times_key(key), page)
        gone |= {member for member, score in zip(page, scores, strict=True) if _is_over(score, over)}
        now = self._clock.now().timestamp()
        new = {member: now for member, score in zip(page, scores, strict=True) if score is None and member not in gone}
        return list(keyspace.dated(key, new, ARTICLE_LIFE, first=True)) if new else []

    async def _without_article(self, uids: list[bytes]) -> list[bytes]:
        keys = [keyspace.article_key(uid) for uid in uids]
        if await self._redis.ask("EXISTS", *keys) == len(keys):
            return []
        answers = await self._redis.ask_all([("EXISTS", key) for key in keys])
        return [uid for uid, answer in zip(uids, answers, strict=True) if answer == 0]

    async def _scores(self, key: bytes, members: list[Any]) -> list[float | None]:
        answers = await self._redis.ask_all([("ZSCORE", key, member) for member in members])
        return [None if isinstance(answer, Refused) else answer for answer in answers]

    async def _project_links(self, beat: Beat, category: str | None = None) -> None:
        after: canonical.Page = (_BEGINNING, "", "")
        while True:
            await beat()
            async with self._database.connection() as connection:
                now = self._clock.now()
                links = await canonical.unprojected_links(connection, now, after, _LINKS_A_PAGE, category)
            if not links:
                return
            after = (links[-1].seen_at, links[-1].uid, links[-1].category)
            written = [link for name in {link.category for link in links} for link in await self._write(name, links)]
            if written:
                async with self._database.connection() as connection:
                    await canonical.links_are_projected(connection, written)

    async def _write(self, category: str, links: list[canonical.Link]) -> list[canonical.Link]:
        """Write those links that are of this category; return them, or none if its key cannot be used."""
        of_it = [link for link in links if link.category == category]
        commands = list(keyspace.write_links(category, {link.uid: (link.url, link.seen_at) for link in of_it}))
        refused = _refused(await self._redis.batch(commands))
        if refused:
            self._note(f"{_shown(keyspace.links_key(category))} cannot be written: {refused}")
        return [] if refused else of_it

    async def _project_attempts(self, beat: Beat) -> None:
        after = (_BEGINNING, "")
        while True:
            await beat()
            now = self._clock.now()
            async with self._database.connection() as connection:
                attempts = await canonical.unprojected_attempts(connection, now, after, _ARTICLES_A_PAGE)
            if not attempts:
                return
            after = (attempts[-1]["attempted_at"], attempts[-1]["uid"])
            written = await self._write_attempts(attempts, now)
            async with self._database.connection() as connection:
                await canonical.attempts_are_projected(connection, written)

    async def _write_attempts(self, attempts: list[dict[str, Any]], now: datetime) -> dict[str, datetime]:
        """Write attempts; return those that went in whole, with their times."""
        commands = [
            (attempt["uid"], command) for attempt in attempts for command in keyspace.write_attempt(attempt, now)
        ]
        answers = await self._redis.batch([command for _, command in commands])
        refused: set[str] = set()
        for (uid, command), answer in zip(commands, answers, strict=True):
            if isinstance(answer, Refused):
                refused.add(uid)
                self._note(f"{_shown(command[1])} cannot be written: {answer}")
        return {attempt["uid"]: attempt["attempted_at"] for attempt in attempts if attempt["uid"] not in refused}


def _read(member: bytes) -> tuple[str, str | None]:
    """Return what a member says, and why it can be no address, if so."""
    if len(member) > MAX_URL_LENGTH:
        start = member[:MAX_URL_LENGTH].decode(errors="replace")
        return start, f"It has {len(member):,} bytes, and an address has {MAX_URL_LENGTH:,} at most."
    try:
        text = member.decode()
    except UnicodeDecodeError:
        return member.decode(errors="replace"), "The address is not UTF-8."
    return text, explain_unstorable(text)


def _category(name: bytes) -> str | None:
    text, why = _read(name)
    return text if why is None and 0 < len(text) <= LONGEST_CATEGORY else None


def _is_over(score: float | None, over: float) -> bool:
    return score is not None and score <= over


def _refused(answers: list[Any]) -> Refused | None:
    return next((answer for answer in answers if isinstance(answer, Refused)), None)


def _shown(key: object) -> str:
    return redact(key[:400].decode(errors="backslashreplace")) if isinstance(key, bytes) else str(key)
