"""Submits URLs to the frontier. Each URL has one normalized form, whatever form was submitted."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from headwater.core.errors import InvalidURL
from headwater.core.frontier import Candidate, Origin, Submission
from headwater.core.politeness import KeyOf, own_key
from headwater.core.urls import identify, url_hash
from headwater.db import frontier, hosts
from headwater.db.pool import Connection

LOWEST, HIGHEST = 1, 10  # priorities
ORIGIN_BONUS = {Origin.FEED: 2, Origin.SITEMAP: 1, Origin.SPIDER: 0, Origin.MANUAL: 0, Origin.CATEGORY: 0}


class KnownUrl(NamedTuple):
    """A known URL in its normalized form."""

    id: int
    url: str
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class Submitted:
    """The results of a batch, by the URLs as they were given."""

    known: dict[str, KnownUrl]
    refused: dict[str, str]  # with the reason
    new: int


def priority(source_base: int, origin: Origin, depth: int = 0) -> int:
    """Return the priority of a URL: its source's base plus its origin's bonus minus its depth, from 1 to 10 (first)."""
    return max(LOWEST, min(HIGHEST, source_base + ORIGIN_BONUS[origin] - depth))


async def submit(
    connection: Connection, candidates: Iterable[Candidate], now: datetime, key_of: KeyOf = own_key
) -> Submitted:
    """Submit a batch. An unusable URL is refused with the reason, and the other URLs are accepted."""
    keeps_slash = await hosts.list_slash_hosts(connection)
    prepared: dict[bytes, Submission] = {}
    hashes: dict[str, bytes] = {}
    refused: dict[str, str] = {}
    for candidate in candidates:
        try:
            url, host = identify(candidate.url, keeps_slash=keeps_slash)
        except InvalidURL as error:
            refused[candidate.url] = str(error)
            continue
        digest = hashes[candidate.url] = url_hash(url)
        earlier = prepared.get(digest)
        if earlier is None or earlier.candidate.priority < candidate.priority:
            prepared[digest] = Submission(url, digest, host, key_of(host), candidate)
    if not prepared:
        return Submitted({}, refused, 0)
    ids, new = await frontier.submit_urls(connection, prepared, now)
    known = {given: KnownUrl(ids[digest], prepared[digest].url, digest in new) for given, digest in hashes.items()}
    return Submitted(known, refused, len(new))


def normalize_candidates(candidates: Iterable[Candidate]) -> Submitted:
    """Normalize URLs without submitting them. Their ids are 0."""
    known: dict[str, KnownUrl] = {}
    refused: dict[str, str] = {}
    for candidate in candidates:
        try:
            known[candidate.url] = KnownUrl(0, identify(candidate.url)[0])
        except InvalidURL as error:
            refused[candidate.url] = str(error)
    return Submitted(known, refused, 0)


async def find_url(connection: Connection, url: str) -> KnownUrl | None:
    """Return a URL in its normalized form; None if it is unknown."""
    identity, _ = identify(url, keeps_slash=await hosts.list_slash_hosts(connection))
    digest = url_hash(identity)
    found = await frontier.find_urls(connection, [digest])
    return KnownUrl(found[digest], identity) if found else None
