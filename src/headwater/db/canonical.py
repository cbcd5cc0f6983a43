"""Typed functions over queries/canonical.sql."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from headwater.core.lease import Lease
from headwater.core.reasons import Reason
from headwater.db.pool import Connection
from headwater.db.sql import query

LINK_LIFE = timedelta(hours=48)
ARTICLE_LIFE = timedelta(days=7)
ATTEMPT_LIFE = timedelta(days=30)
Page = tuple[datetime, str, str]  # where the page before ended


class FailureCode(StrEnum):
    """Why there is no article, in the five words that other programs on the same Redis know."""

    BAD_HTML = "FAIL_BAD_HTML"
    HTTP = "FAIL_HTTP"
    TIMEOUT = "FAIL_TIMEOUT"
    PARSE = "FAIL_PARSE"
    EMPTY = "FAIL_EMPTY"


@dataclass(frozen=True, slots=True)
class Link:
    """A URL of a category, as it was given."""

    category: str
    uid: str
    url: str
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a URL stands that is asked for. `due_at`: one that waits is tried no sooner; `waiting_reason` tells why."""

    uid: str
    url: str
    url_id: int
    status: str
    reason: str | None
    detail: str | None
    has_document: bool
    due_at: datetime | None
    waiting_reason: str | None


@dataclass(frozen=True, slots=True)
class Mark:
    """How an attempt ended: without a code it has an article."""

    uid: str
    url_id: int | None
    code: FailureCode | None
    reason: Reason


async def note_links(connection: Connection, category: str, urls: Mapping[str, str], now: datetime) -> None:
    """Keep that URLs, given by uid, were seen in a category."""
    if urls:
        await connection.execute(query("note_links"), category, list(urls), list(urls.values()), now)


async def drop_links(connection: Connection, now: datetime) -> None:
    """Forget the links that were not seen for long."""
    await connection.execute(query("drop_links"), now - LINK_LIFE)


async def take_lease(connection: Connection, lease: Lease, now: datetime) -> bool:
    """Begin a run; False while another is under way."""
    taken = await connection.fetchval(query("take_canonical_lease"), lease.holder, lease.token, lease.until, now)
    return taken is not None


async def current_lease(connection: Connection) -> Lease | None:
    """Return the lease of the run that is under way, or was when its program died."""
    row = await connection.fetchrow(query("canonical_lease"))
    return Lease(*row) if row else None


async def keep_lease(connection: Connection, lease: Lease, until: datetime) -> bool:
    """Keep a run's lease until then; False when it is another's."""
    return bool(await connection.fetchval(query("keep_canonical_lease"), lease.token, until))


async def end_lease(connection: Connection, lease: Lease) -> None:
    """End a run."""
    await connection.execute(query("end_canonical_lease"), lease.token)


async def return_expired_lease(connection: Connection, now: datetime) -> int:
    """Take the lease back from a holder that is late; return how many were so."""
    return len(await connection.fetch(query("return_expired_canonical_lease"), now))


async def ask_new_links(connection: Connection, now: datetime) -> int:
    """Ask for all that is linked and was not attempted lately; return how many are asked for now."""
    await connection.execute(query("ask_new_links"), now - LINK_LIFE, now - ATTEMPT_LIFE, now)
    asked: int = await connection.fetchval(query("count_asked"))
    return asked


async def list_in_more_categories(
    connection: Connection, after: tuple[str, str], now: datetime
) -> tuple[tuple[str, str] | None, int]:
    """List articles in the categories that link them since, by pages of links.

    Return the category and uid that the page ends with, None after the last page, and how many articles were listed.
    """
    row = await connection.fetchrow(query("list_in_more_categories"), *after, now - ARTICLE_LIFE)
    return ((row["category"], row["uid"]), row["listed"]) if row else (None, 0)


async def unsubmitted(connection: Connection, after: str, limit: int) -> list[tuple[str, str, bool]]:
    """List what is asked for and not in the frontier yet, by pages: uid, URL, and whether it was attempted long ago."""
    return [tuple(row) for row in await connection.fetch(query("unsubmitted"), after, limit)]


async def keep_submitted(connection: Connection, url_ids: Mapping[str, int]) -> None:
    """Keep which URLs of the frontier those are that are asked for, given by uid."""
    await connection.execute(query("keep_submitted"), list(url_ids), list(url_ids.values()))


async def follow_asked(connection: Connection, after: str, limit: int, now: datetime) -> list[Standing]:
    """Tell where those stand that are asked for, by pages; of an address that moved, where its page is now."""
    return [Standing(**row) for row in await connection.fetch(query("follow_asked"), after, limit, now)]


async def mark_attempts(connection: Connection, marks: Collection[Mark], now: datetime) -> set[str]:
    """End what is asked for; return the uids of those that were."""
    rows = await connection.fetch(
        query("mark_attempts"),
        [mark.uid for mark in marks],
        [mark.url_id for mark in marks],
        [mark.code for mark in marks],
        [mark.reason for mark in marks],
        now,
    )
    return {row["uid"] for row in rows}


async def put_off(connection: Connection, uids: Collection[str]) -> None:
    """Ask for these no longer; a later run does."""
    await connection.execute(query("drop_unattempted"), list(uids))
    await connection.execute(query("put_off_asked"), list(uids))


async def note_refused_links(
    connection: Connection, category: str, shown: Mapping[str, str], code: FailureCode, now: datetime
) -> set[str]:
    """Keep that links, given by uid, can be neither stored nor asked for; return which of them are new."""
    urls = list(shown.values())
    rows = await connection.fetch(
        query("note_refused_links"), category, list(shown), urls, code, Reason.INVALID_URL, now
    )
    return {row["uid"] for row in rows}


async def note_foreign_attempts(connection: Connection, uids: Collection[str], now: datetime) -> None:
    """Keep what another program has attempted."""
    await connection.execute(query("note_foreign_attempts"), list(uids), now)


async def forget_asked(connection: Connection, uids: Collection[str], now: datetime) -> set[str]:
    """Ask no longer for what another program has attempted; return those that never were attempted here."""
    return {row["uid"] for row in await connection.fetch(query("forget_asked"), list(uids), now)}


async def redis_mark(connection: Connection) -> str | None:
    """Return the mark of the Redis that has had everything."""
    mark: str | None = await connection.fetchval(query("redis_mark"))
    return mark


async def keep_redis_mark(connection: Connection, mark: str) -> None:
    """Keep the mark of a Redis that has everything now."""
    await connection.execute(query("keep_redis_mark"), mark)


async def unproject(connection: Connection, now: datetime) -> None:
    """Have everything that lasts written to Redis once more."""
    await connection.execute(query("unproject_links"), now - LINK_LIFE)
    await connection.execute(query("unproject_attempts"), now - ATTEMPT_LIFE)


async def unprojected_links(
    connection: Connection, now: datetime, after: Page, limit: int, category: str | None = None
) -> list[Link]:
    """List links that Redis does not have yet, by pages."""
    rows = await connection.fetch(query("unprojected_links"), category, now - LINK_LIFE, *after, limit)
    return [Link(**row) for row in rows]


async def links_are_projected(connection: Connection, links: Collection[Link]) -> None:
    """Note that Redis has these links."""
    columns = zip(*((link.category, link.uid, link.seen_at) for link in links), strict=True)
    await connection.execute(query("links_are_projected"), *map(list, columns))


async def unprojected_attempts(
    connection: Connection, now: datetime, after: tuple[datetime, str], limit: int
) -> list[dict[str, Any]]:
    """List attempts that Redis does not have yet, by pages, each with its article if it has one that lasts."""
    rows = await connection.fetch(query("unprojected_attempts"), now - ATTEMPT_LIFE, *after, now - ARTICLE_LIFE, limit)
    return [dict(row) for row in rows]


async def attempts_are_projected(connection: Connection, attempts: Mapping[str, datetime]) -> None:
    """Note that Redis has these attempts, given by uid."""
    await connection.execute(query("attempts_are_projected"), list(attempts), list(attempts.values()))


async def articles_changed(connection: Connection, url_ids: Collection[int], now: datetime) -> None:
    """Have the articles of documents that have changed written to Redis again."""
    await connection.execute(query("articles_changed"), list(url_ids), now - ARTICLE_LIFE)
