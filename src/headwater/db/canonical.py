"""Typed functions over queries/canonical.sql."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from headwater.core.lease import Lease
from headwater.core.reasons import Reason
from headwater.db.pool import Connection
from headwater.db.sql import query, to_columns, to_record

LINK_LIFE = timedelta(hours=48)
ARTICLE_LIFE = timedelta(days=7)
ATTEMPT_LIFE = timedelta(days=30)
LinkCursor = tuple[datetime, str, str]  # time, uid and category of the last link of a page


class FailureCode(StrEnum):
    """The five codes of a link without an article. Other programs on the same Redis use them too."""

    BAD_HTML = "FAIL_BAD_HTML"
    HTTP = "FAIL_HTTP"
    TIMEOUT = "FAIL_TIMEOUT"
    PARSE = "FAIL_PARSE"
    EMPTY = "FAIL_EMPTY"


@dataclass(frozen=True, slots=True)
class CategoryLink:
    """A URL of a category, as given."""

    category: str
    uid: str
    url: str
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class LinkProgress:
    """The progress of a requested link in the frontier. A waiting link is not tried before `due_at`."""

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
class AttemptResult:
    """The result of an attempt: an article, or a failure code."""

    uid: str
    url_id: int | None
    code: FailureCode | None
    reason: Reason


@dataclass(frozen=True, slots=True)
class CanonicalArticle:
    """The document of an attempt, as other programs read it."""

    raw_bytes: int
    title: str
    byline: str | None
    language: str | None
    image: str | None
    abstract: str | None
    provenance: Mapping[str, Any]
    fetched_at: datetime
    text: str
    published_at: datetime | None
    published_by_source: bool


@dataclass(frozen=True, slots=True)
class CanonicalAttempt:
    """An attempt to get an article. It has neither article nor code if another program made it."""

    uid: str
    url: str | None
    categories: list[str]
    attempted_at: datetime
    code: str | None
    is_deleted: bool  # its document was deleted
    article: CanonicalArticle | None


async def note_links(connection: Connection, category: str, urls: Mapping[str, str], now: datetime) -> None:
    """Save that URLs, given by uid, were seen in a category."""
    if urls:
        await connection.execute(query("note_links"), category, list(urls), list(urls.values()), now)


async def drop_links(connection: Connection, now: datetime) -> None:
    """Delete the links that were not seen for 48 hours."""
    await connection.execute(query("drop_links"), now - LINK_LIFE)


async def take_lease(connection: Connection, lease: Lease, now: datetime) -> bool:
    """Take the lease of a run; return False if another run holds it."""
    taken = await connection.fetchval(query("take_canonical_lease"), lease.holder, lease.token, lease.until, now)
    return taken is not None


async def get_lease(connection: Connection) -> Lease | None:
    """Return the lease of the run under way, which may belong to a dead process."""
    row = await connection.fetchrow(query("canonical_lease"))
    return Lease(*row) if row else None


async def renew_lease(connection: Connection, lease: Lease, until: datetime) -> bool:
    """Renew the lease of a run; return False if it is lost."""
    return bool(await connection.fetchval(query("renew_canonical_lease"), lease.token, until))


async def end_lease(connection: Connection, lease: Lease) -> None:
    """End the lease of a run."""
    await connection.execute(query("end_canonical_lease"), lease.token)


async def return_expired_lease(connection: Connection, now: datetime) -> int:
    """Take back an expired lease; return how many."""
    return len(await connection.fetch(query("return_expired_canonical_lease"), now))


async def request_new_links(connection: Connection, now: datetime) -> int:
    """Request all links that were not attempted within 30 days; return how many are requested now."""
    await connection.execute(query("request_new_links"), now - LINK_LIFE, now - ATTEMPT_LIFE, now)
    value: int = await connection.fetchval(query("count_requested"))
    return value


async def add_categories(
    connection: Connection, after: tuple[str, str], now: datetime
) -> tuple[tuple[str, str] | None, int]:
    """Add to articles the categories that have linked them since, by pages of links.

    Return category and uid of the last link of the page, None after the last page, and the number of changed articles.
    """
    row = await connection.fetchrow(query("add_categories"), *after, now - ARTICLE_LIFE)
    return ((row["category"], row["uid"]), row["changed"]) if row else (None, 0)


async def list_unsubmitted(connection: Connection, after: str, limit: int) -> list[tuple[str, str, bool]]:
    """List requested links that are not in the frontier, by pages: uid, URL, and whether an old attempt has expired."""
    return [tuple(row) for row in await connection.fetch(query("unsubmitted"), after, limit)]


async def save_submitted(connection: Connection, url_ids: Mapping[str, int]) -> None:
    """Save the frontier ids of requested links, given by uid."""
    await connection.execute(query("save_submitted"), list(url_ids), list(url_ids.values()))


async def list_progress(connection: Connection, after: str, limit: int, now: datetime) -> list[LinkProgress]:
    """List the progress of requested links by pages; a moved link has the progress of its final page."""
    return [LinkProgress(**row) for row in await connection.fetch(query("list_progress"), after, limit, now)]


async def save_results(connection: Connection, results: Collection[AttemptResult], now: datetime) -> set[str]:
    """End requested links; return the uids of those that were still requested."""
    if not results:
        return set()
    rows = await connection.fetch(query("save_results"), *to_columns(results), now)
    return {row["uid"] for row in rows}


async def defer(connection: Connection, uids: Collection[str]) -> None:
    """Withdraw the request of links; a later run requests them again."""
    await connection.execute(query("drop_unattempted"), list(uids))
    await connection.execute(query("withdraw_requests"), list(uids))


async def note_refused_links(
    connection: Connection, category: str, texts: Mapping[str, str], code: FailureCode, now: datetime
) -> set[str]:
    """Save links, given by uid, that are no addresses; return the uids of the new ones."""
    urls = list(texts.values())
    rows = await connection.fetch(
        query("note_refused_links"), category, list(texts), urls, code, Reason.INVALID_URL, now
    )
    return {row["uid"] for row in rows}


async def note_foreign_attempts(connection: Connection, uids: Collection[str], now: datetime) -> None:
    """Save the attempts of other programs."""
    await connection.execute(query("note_foreign_attempts"), list(uids), now)


async def withdraw_foreign(connection: Connection, uids: Collection[str], now: datetime) -> set[str]:
    """Withdraw requests that another program has attempted and this one never; return their uids."""
    return {row["uid"] for row in await connection.fetch(query("withdraw_foreign"), list(uids), now)}


async def get_redis_mark(connection: Connection) -> str | None:
    """Return the mark of the Redis that has everything."""
    value: str | None = await connection.fetchval(query("redis_mark"))
    return value


async def save_redis_mark(connection: Connection, mark: str) -> None:
    """Save the mark of a Redis that has everything."""
    await connection.execute(query("save_redis_mark"), mark)


async def unproject(connection: Connection, now: datetime) -> None:
    """Mark all links and attempts as missing in Redis."""
    await connection.execute(query("unproject_links"), now - LINK_LIFE)
    await connection.execute(query("unproject_attempts"), now - ATTEMPT_LIFE)


async def list_unprojected_links(
    connection: Connection, now: datetime, after: LinkCursor, limit: int, category: str | None = None
) -> list[CategoryLink]:
    """List links that Redis does not have, by pages."""
    rows = await connection.fetch(query("unprojected_links"), category, now - LINK_LIFE, *after, limit)
    return [CategoryLink(**row) for row in rows]


async def mark_links_projected(connection: Connection, links: Collection[CategoryLink]) -> None:
    """Mark links as written to Redis."""
    columns = zip(*((link.category, link.uid, link.seen_at) for link in links), strict=True)
    await connection.execute(query("mark_links_projected"), *map(list, columns))


async def list_unprojected_attempts(
    connection: Connection, now: datetime, after: tuple[datetime, str], limit: int
) -> list[CanonicalAttempt]:
    """List attempts that Redis does not have, by pages, with the articles that have not expired."""
    rows = await connection.fetch(query("unprojected_attempts"), now - ATTEMPT_LIFE, *after, now - ARTICLE_LIFE, limit)
    return [to_record(CanonicalAttempt, row, article=dict(row) if row["text"] is not None else None) for row in rows]


async def mark_attempts_projected(connection: Connection, attempts: Mapping[str, datetime]) -> None:
    """Mark attempts, given by uid, as written to Redis."""
    await connection.execute(query("mark_attempts_projected"), list(attempts), list(attempts.values()))


async def mark_articles_changed(connection: Connection, url_ids: Collection[int], now: datetime) -> None:
    """Mark the articles of changed documents as missing in Redis."""
    await connection.execute(query("mark_articles_changed"), list(url_ids), now - ARTICLE_LIFE)
