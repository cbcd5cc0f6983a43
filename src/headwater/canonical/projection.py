"""The projection of canonical articles to Redis, and the adoption of links and attempts from other programs there."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import structlog

from headwater.canonical import redis as keys
from headwater.canonical.operations import code_of
from headwater.canonical.redis import Command, Redis, Refusal
from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason
from headwater.core.source import MAX_CATEGORY_LENGTH
from headwater.core.text import clean
from headwater.core.url_input import explain_unstorable, redact
from headwater.core.urls import MAX_URL_LENGTH, uid_of
from headwater.db import canonical
from headwater.db.canonical import ARTICLE_LIFE, ATTEMPT_LIFE, LINK_LIFE, CanonicalAttempt, CategoryLink, LinkCursor
from headwater.db.context import DatabaseContext
from headwater.db.pool import Connection, is_down

log = structlog.get_logger()
RenewLease = Callable[[], Awaitable[None]]

_LINKS_A_PAGE = 500
_ARTICLES_A_PAGE = 50  # with their texts
_UIDS_A_PAGE = 1000
_MEMBERS_A_PAGE = 100  # members of other programs may be long
_UID = re.compile(rb"[0-9a-f]{16}")
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_POLL_SECONDS = 2.0  # the longest time that a poll waits for Redis
_PAUSE = timedelta(seconds=30)  # no poll writes to Redis for so long after a failure
_MAX_TROUBLES = 20


async def _renew_nothing() -> None:
    pass


class Projection:
    """Keeps one Redis in line with PostgreSQL, which has the last word."""

    def __init__(self, context: DatabaseContext, redis: Redis) -> None:
        self._database = context.database
        self._clock = context.clock
        self._redis = redis
        self._paused_until: datetime | None = None
        self.troubles: list[str] = []  # keys and members that cannot be used, each reported once

    async def show_links(self, category: str) -> None:
        """Write a category's links after a poll. A failure is logged; the next run writes the links."""
        if self._paused_until and self._clock.now() < self._paused_until:
            return
        try:
            async with asyncio.timeout(_POLL_SECONDS):
                await self._write_links(_renew_nothing, category)
        except Exception as error:
            if not (is_down(error) or (isinstance(error, HeadwaterError) and error.reason is Reason.REDIS_LOST)):
                raise
            self._paused_until = self._clock.now() + _PAUSE
            log.warning("redis.links_not_written", category=category, error=str(error) or "no response in time")

    async def synchronize(self, renew: RenewLease) -> None:
        """Adopt the links and attempts of other programs, remove expired members, and write what Redis lacks."""
        self.troubles.clear()
        mark = await self._read_mark()
        is_complete = mark is not None and mark == await self._database.run(canonical.get_redis_mark)
        await self._adopt_links(renew)
        is_complete = await self._adopt_attempts(renew) and is_complete
        if not is_complete:
            log.info("redis.rewritten")
            await self._database.transact(canonical.unproject, self._clock.now())
        await self.write(renew)
        await self._prune(renew)
        if not is_complete:
            mark = await self._write_mark()
            await self._database.run(canonical.save_redis_mark, mark)

    async def write(self, renew: RenewLease) -> None:
        """Write the links and attempts that Redis does not have."""
        await self._write_links(renew)
        await self._write_attempts(renew)

    async def find_attempted(self, uids: list[str]) -> set[str]:
        """Return the uids that Redis has as attempted."""
        if await self._redis.type_of(keys.ATTEMPTED) != "set":
            return set()
        responses = await self._redis.execute_all([("SISMEMBER", keys.ATTEMPTED, uid) for uid in uids])
        return {uid for uid, response in zip(uids, responses, strict=True) if response == 1}

    async def _read_mark(self) -> str | None:
        """Return the mark of this start of this Redis; None if we have left no mark."""
        token = await self._redis.execute("GET", keys.MARK) if await self._is_type(keys.MARK, "string") else None
        return None if token is None else f"{bytes(token).decode(errors='replace')}:{await self._read_run_id()}"

    async def _write_mark(self) -> str:
        token = uuid4().hex
        await self._redis.execute("SET", keys.MARK, token)
        return f"{token}:{await self._read_run_id()}"

    async def _read_run_id(self) -> str:
        """Return the id of this start of the server: a restart may have lost the last writes."""
        (response,) = await self._redis.execute_all([("INFO", "server")])
        return "" if isinstance(response, Refusal) else str(response.get("run_id", ""))

    async def _is_type(self, key: bytes, wanted: str, *others: str) -> bool:
        """Return whether a key has its type; report a key of a wrong type."""
        found = await self._redis.type_of(key)
        if found not in (wanted, "none"):
            self._report(f"{_show(key)} is a {found} and should be a {wanted}. It is left alone.")
        return found == wanted or found in others

    def _report(self, trouble: str) -> None:
        if trouble not in self.troubles and len(self.troubles) < _MAX_TROUBLES:
            self.troubles.append(trouble)
            log.warning("redis.trouble", trouble=trouble)

    async def _adopt_links(self, renew: RenewLease) -> None:
        async for key in self._redis.list_keys(keys.LINKS):
            category = _read_category(key.removeprefix(keys.LINKS))
            if category is None:
                self._report(f"{_show(key)} has no storable category. It is left alone.")
            elif await self._is_type(key, "set"):
                await self._update_links(key, category, renew)

    async def _update_links(self, key: bytes, category: str, renew: RenewLease) -> None:
        """Adopt the links of a category that have no time yet, and remove the expired ones."""
        limit = (self._clock.now() - LINK_LIFE).timestamp()
        times = keys.times_key(key)
        async for page in self._redis.list_members(key, size=_MEMBERS_A_PAGE):
            await renew()
            uids = [uid_of(member) for member in page]
            scores = await self._read_scores(times, uids)
            members = list(zip(uids, page, scores, strict=True))
            new = {uid: member for uid, member, score in members if score is None}
            old = {uid: member for uid, member, score in members if score is not None and score <= limit}
            if new:
                await self._adopt_new_links(key, category, new)
            if old:
                await self._redis.execute("SREM", key, *old.values())
                # A poll may have seen a link again since its score was read: that link stays.
                again = await self._read_scores(times, list(old))
                seen = [member for member, score in zip(old.values(), again, strict=True) if score and score > limit]
                if seen:
                    await self._redis.execute("SADD", key, *seen)
        await self._redis.execute("ZREMRANGEBYSCORE", times, "-inf", limit)

    async def _adopt_new_links(self, key: bytes, category: str, members: Mapping[str, bytes]) -> None:
        """Save links of other programs as seen now; save a member that is no address as refused."""
        now = self._clock.now()
        usable: dict[str, str] = {}
        refused: dict[str, tuple[str, str]] = {}
        for uid, member in members.items():
            text, why = _decode(member)
            if why is None:
                usable[uid] = text
            else:
                refused[uid] = (clean(redact(text)), why)

        async def work(connection: Connection) -> set[str]:
            await canonical.note_links(connection, category, usable, now)
            texts = {uid: text for uid, (text, _) in refused.items()}
            code = code_of(Reason.INVALID_URL)
            return await canonical.note_refused_links(connection, category, texts, code, now) if texts else set()

        for uid in await self._database.transact(work):
            text, why = refused[uid]
            self._report(f"{_show(key)} has {text!r}: {why}")
        moments = dict.fromkeys(members, now.timestamp())
        await self._redis.execute_all(list(keys.date_members(key, moments, LINK_LIFE, only_new=True)), together=True)

    async def _adopt_attempts(self, renew: RenewLease) -> bool:
        """Adopt the attempts of other programs and remove expired ones; return False if ours are missing."""
        key, times = keys.ATTEMPTED, keys.times_key(keys.ATTEMPTED)
        if not await self._is_type(key, "set", "none"):
            return True  # a key of a wrong type cannot be checked
        limit = (self._clock.now() - ATTEMPT_LIFE).timestamp()
        while old := await self._redis.execute("ZRANGEBYSCORE", times, "-inf", limit, "LIMIT", 0, _UIDS_A_PAGE):
            await renew()
            await self._redis.execute_all([("SREM", key, *old), ("ZREM", times, *old)], together=True)
        members, dated = await self._redis.execute_all([("SCARD", key), ("ZCARD", times)])
        if members > dated:
            async for page in self._redis.list_members(key):
                await renew()
                await self._adopt_new_attempts(page)
        elif members < dated:
            async for page in self._redis.list_members(times, scored=True):
                await renew()
                responses = await self._redis.execute_all([("SISMEMBER", key, uid) for uid in page])
                if gone := [uid for uid, response in zip(page, responses, strict=True) if response == 0]:
                    await self._redis.execute("ZREM", times, *gone)
        return bool(members >= dated)

    async def _adopt_new_attempts(self, page: list[bytes]) -> None:
        key, now = keys.ATTEMPTED, self._clock.now()
        scores = await self._read_scores(keys.times_key(key), page)
        new = [member for member, score in zip(page, scores, strict=True) if score is None]
        if new:
            uids = [member.decode() for member in new if _UID.fullmatch(member)]
            await self._database.run(canonical.note_foreign_attempts, uids, now)
            moments = dict.fromkeys(new, now.timestamp())
            await self._redis.execute_all(
                list(keys.date_members(key, moments, ATTEMPT_LIFE, only_new=True)), together=True
            )

    async def _prune(self, renew: RenewLease) -> None:
        """Remove the uids without an article from the indexes."""
        async for key in self._redis.list_keys(keys.BY_CATEGORY):
            if await self._is_type(key, "set"):
                await self._prune_category(key, renew)
        if await self._is_type(keys.INDEX, "zset"):
            async for page in self._redis.list_members(keys.INDEX, scored=True):
                await renew()
                if gone := await self._find_without_article(page):
                    await self._redis.execute("ZREM", keys.INDEX, *gone)

    async def _prune_category(self, key: bytes, renew: RenewLease) -> None:
        limit, times = (self._clock.now() - ARTICLE_LIFE).timestamp(), keys.times_key(key)
        members, dated, old = await self._redis.execute_all(
            [("SCARD", key), ("ZCARD", times), ("ZCOUNT", times, "-inf", limit)]
        )
        all_dated = members == dated and not old
        async for page in self._redis.list_members(key):
            await renew()
            gone = set(await self._find_without_article(page))
            commands: list[Command] = [] if all_dated else await self._date_articles(key, page, gone, limit)
            if gone:
                commands += [("SREM", key, *gone), ("ZREM", times, *gone)]
            await self._redis.execute_all(commands, together=True)

    async def _date_articles(self, key: bytes, page: list[bytes], gone: set[bytes], limit: float) -> list[Command]:
        """Add the expired members to `gone`; return the commands that give the undated ones their times."""
        scores = await self._read_scores(keys.times_key(key), page)
        members = list(zip(page, scores, strict=True))
        gone |= {member for member, score in members if score is not None and score <= limit}
        now = self._clock.now().timestamp()
        new = {member: now for member, score in members if score is None and member not in gone}
        return list(keys.date_members(key, new, ARTICLE_LIFE, only_new=True)) if new else []

    async def _find_without_article(self, uids: list[bytes]) -> list[bytes]:
        articles = [keys.ARTICLE + uid for uid in uids]
        if await self._redis.execute("EXISTS", *articles) == len(articles):
            return []
        responses = await self._redis.execute_all([("EXISTS", key) for key in articles])
        return [uid for uid, response in zip(uids, responses, strict=True) if response == 0]

    async def _read_scores(self, key: bytes, members: list[Any]) -> list[float | None]:
        responses = await self._redis.execute_all([("ZSCORE", key, member) for member in members])
        return [None if isinstance(response, Refusal) else response for response in responses]

    async def _write_links(self, renew: RenewLease, category: str | None = None) -> None:
        after: LinkCursor = (_BEGINNING, "", "")
        while True:
            await renew()
            now = self._clock.now()
            links = await self._database.run(canonical.list_unprojected_links, now, after, _LINKS_A_PAGE, category)
            if not links:
                return
            after = (links[-1].seen_at, links[-1].uid, links[-1].category)
            by_category: dict[str, list[CategoryLink]] = {}
            for link in links:
                by_category.setdefault(link.category, []).append(link)
            written = [link for name, group in by_category.items() for link in await self._write_category(name, group)]
            if written:
                await self._database.run(canonical.mark_links_projected, written)

    async def _write_category(self, category: str, links: list[CategoryLink]) -> list[CategoryLink]:
        """Write the links of a category; return them, or none if Redis refuses its key."""
        commands = list(keys.write_links(category, {link.uid: (link.url, link.seen_at) for link in links}))
        responses = await self._redis.execute_all(commands, together=True)
        refusal = next((response for response in responses if isinstance(response, Refusal)), None)
        if refusal:
            self._report(f"{_show(keys.LINKS + category.encode())} cannot be written: {refusal}")
        return [] if refusal else links

    async def _write_attempts(self, renew: RenewLease) -> None:
        after = (_BEGINNING, "")
        while True:
            await renew()
            now = self._clock.now()
            attempts = await self._database.run(canonical.list_unprojected_attempts, now, after, _ARTICLES_A_PAGE)
            if not attempts:
                return
            after = (attempts[-1].attempted_at, attempts[-1].uid)
            written = await self._write_page(attempts, now)
            await self._database.run(canonical.mark_attempts_projected, written)

    async def _write_page(self, attempts: list[CanonicalAttempt], now: datetime) -> dict[str, datetime]:
        """Write attempts; return the times of those without a refused command, by uid."""
        commands = [(attempt.uid, command) for attempt in attempts for command in keys.write_attempt(attempt, now)]
        responses = await self._redis.execute_all([command for _, command in commands], together=True)
        refused: set[str] = set()
        for (uid, command), response in zip(commands, responses, strict=True):
            if isinstance(response, Refusal):
                refused.add(uid)
                self._report(f"{_show(command[1])} cannot be written: {response}")
        return {attempt.uid: attempt.attempted_at for attempt in attempts if attempt.uid not in refused}


def _decode(member: bytes) -> tuple[str, str | None]:
    """Return the text of a member, and why it is no address, None if it is one."""
    if len(member) > MAX_URL_LENGTH:
        start = member[:MAX_URL_LENGTH].decode(errors="replace")
        return start, f"It has {len(member):,} bytes, and an address has {MAX_URL_LENGTH:,} at most."
    try:
        text = member.decode()
    except UnicodeDecodeError:
        return member.decode(errors="replace"), "The address is not UTF-8."
    return text, explain_unstorable(text)


def _read_category(name: bytes) -> str | None:
    text, why = _decode(name)
    return text if why is None and 0 < len(text) <= MAX_CATEGORY_LENGTH else None


def _show(key: object) -> str:
    return redact(key[:400].decode(errors="backslashreplace")) if isinstance(key, bytes) else str(key)
