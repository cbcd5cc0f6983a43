"""The keys of canonical articles in Redis, as every program that shares them knows them, and what is written there.

A SET has one lifetime for all its members. So beside each SET stands a sorted set of ours, under `headwater:`, with the
time of each member, and each member goes on its own day.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from headwater.canonical.redis import Command
from headwater.db.canonical import ARTICLE_LIFE, ATTEMPT_LIFE, LINK_LIFE

LINKS = b"rss:category_links:"
ARTICLE = b"rss:article_canonical:"
BY_CATEGORY = b"rss:articles_by_category:"
INDEX = b"rss:article_canonical_index"
ATTEMPTED = b"rss:canonical_attempted"
FAILURES = b"rss:canonical_failures"
MARK = b"headwater:canonical:mark"
_TIMES = b"headwater:times:"


def links_key(category: str) -> bytes:
    """Name the SET of a category's URLs."""
    return LINKS + category.encode()


def article_key(uid: str | bytes) -> bytes:
    """Name the HASH of an article."""
    return ARTICLE + (uid if isinstance(uid, bytes) else uid.encode())


def times_key(key: bytes) -> bytes:
    """Name what has the times of a SET's members."""
    return _TIMES + key


def dated(
    key: bytes, members: Mapping[str, float] | Mapping[bytes, float], life: timedelta, *, first: bool = False
) -> Iterator[Command]:
    """Keep the time of each member (`first`: unless it has one), and SET and times for as long as a member may last."""
    scores = [part for member, moment in members.items() for part in (moment, member)]
    yield ("ZADD", times_key(key), *(("NX",) if first else ()), *scores)
    seconds = int(life.total_seconds())
    yield ("EXPIRE", key, seconds)
    yield ("EXPIRE", times_key(key), seconds)


def write_links(category: str, urls: Mapping[str, tuple[str, datetime]]) -> Iterator[Command]:
    """Put URLs, given by uid with when they were seen, into their category."""
    key = links_key(category)
    yield ("SADD", key, *(url.encode() for url, _ in urls.values()))
    yield from dated(key, {uid: seen_at.timestamp() for uid, (_, seen_at) in urls.items()}, LINK_LIFE)


def write_attempt(attempt: Mapping[str, Any], now: datetime) -> Iterator[Command]:
    """Tell of an attempt: that there was one, and its article or its failure."""
    uid, moment = attempt["uid"], attempt["attempted_at"].timestamp()
    if attempt["text"] is not None:
        yield from _write_article(attempt, now)
    elif attempt["code"]:
        yield ("ZADD", FAILURES, moment, f"{uid}:{attempt['code']}")
    yield ("SADD", ATTEMPTED, uid)
    yield from dated(ATTEMPTED, {uid: moment}, ATTEMPT_LIFE)


def _write_article(attempt: Mapping[str, Any], now: datetime) -> Iterator[Command]:
    uid, key = attempt["uid"], article_key(attempt["uid"])
    yield ("HSET", key, *(part for pair in article_fields(attempt).items() for part in pair))
    left = attempt["attempted_at"] + ARTICLE_LIFE - now
    yield ("EXPIRE", key, max(1, round(left.total_seconds())))
    for category in attempt["categories"]:
        listed = BY_CATEGORY + category.encode()
        yield ("SADD", listed, uid)
        yield from dated(listed, {uid: attempt["attempted_at"].timestamp()}, ARTICLE_LIFE)
    yield ("ZADD", INDEX, int(attempt["fetched_at"].timestamp()), uid)


def article_fields(attempt: Mapping[str, Any]) -> dict[str, str | bytes]:
    """Return the fields of an article's HASH, all of them each time, empty where nothing is known."""
    published_at, provenance = attempt["published_at"], dict(attempt["provenance"])
    if published_at and attempt["published_by_source"]:
        provenance["published_at"] = "feed"
    fields: dict[str, object] = {
        "uid": attempt["uid"],
        "url": attempt["url"],
        "category": attempt["categories"][0] if attempt["categories"] else "",
        "raw_len": attempt["raw_bytes"],
        "text_len": len(attempt["text"]),
        "clean_text": attempt["text"],
        "abstract": attempt["abstract"],
        "image": attempt["image"],
        "fetched_ts": int(attempt["fetched_at"].timestamp()),
        "status": "success",
        "title": attempt["title"],
        "byline": attempt["byline"],
        "published_at": published_at.isoformat() if published_at else None,
        "language": attempt["language"],
        "provenance": json.dumps(provenance, sort_keys=True, ensure_ascii=False),
    }
    return {name: "" if value is None else str(value) for name, value in fields.items()}
