"""The way in: one URL has one identity, whoever submits it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from headwater.errors import InvalidURL
from headwater.model.frontier import Origin, Submission
from headwater.policy.urls import host_of, normalize_url, url_hash
from headwater.store import frontier
from headwater.store.pool import Connection


@dataclass(frozen=True, slots=True)
class Candidate:
    """A URL as it was found, before anything is known of it."""

    url: str
    source_id: int
    origin: Origin
    priority: int
    depth: int = 0
    hops: int = 0
    parent_id: int | None = None
    subpath: str | None = None  # by host and URL hash where the source's kind has no partition of its own


@dataclass(frozen=True, slots=True)
class Identity:
    """What a URL is called here, whatever it was called when it was given."""

    id: int
    url: str


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of a batch, by the URLs as they were given."""

    known: dict[str, Identity]
    refused: dict[str, str]  # with why
    new: int


async def submit(connection: Connection, candidates: Iterable[Candidate], now: datetime) -> Submitted:
    """Put a batch into the frontier; what cannot be used is refused with its reason and the rest goes in."""
    prepared: dict[str, Submission] = {}
    normalized: dict[str, str] = {}
    refused: dict[str, str] = {}
    for candidate in candidates:
        try:
            submission = _prepare(candidate)
        except InvalidURL as error:
            refused[candidate.url] = str(error)
            continue
        normalized[candidate.url] = submission.url
        twin = prepared.get(submission.url)
        if twin is None or twin.priority < submission.priority:
            prepared[submission.url] = submission
    if not prepared:
        return Submitted({}, refused, 0)
    found = await frontier.submit_urls(connection, list(prepared.values()), now)
    known = {given: Identity(found[url][0], url) for given, url in normalized.items()}
    return Submitted(known, refused, sum(is_new for _, is_new in found.values()))


def _prepare(candidate: Candidate) -> Submission:
    url = normalize_url(candidate.url)
    return Submission(
        url=url,
        source_id=candidate.source_id,
        origin=candidate.origin,
        priority=candidate.priority,
        subpath=candidate.subpath or _web_page(url),
        depth=candidate.depth,
        hops=candidate.hops,
        parent_id=candidate.parent_id,
    )


def _web_page(url: str) -> str:
    digest = url_hash(url).hex()
    return f"{host_of(url)}/{digest[:2]}/{digest}"
