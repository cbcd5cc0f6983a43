"""One claimed URL, from the request to what becomes of it. Nothing is written to the database here."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import structlog

from headwater.core.backoff import retry_wait
from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError, NotNow, OperatorError
from headwater.core.frontier import Claim, Exchange, FetchOutcome, UrlStatus
from headwater.core.http import Limits, Response
from headwater.core.reasons import BODY_REASONS, Reason
from headwater.core.urls import host_of, page_subpath
from headwater.db.documents import NewDocument
from headwater.db.frontier import is_dead
from headwater.db.pool import Database, is_down
from headwater.db.verify import raw_file_of
from headwater.extraction.registry import NormalizedPage, normalize
from headwater.frontier.complete import Finish
from headwater.frontier.submit import Candidate, find
from headwater.http.responses import MAX_HOPS, reason_of_status, redirect_target
from headwater.politeness.gate import Gate
from headwater.politeness.host_lease import HostLease
from headwater.sandbox.pool import Sandbox
from headwater.storage.folder import Corpus, RawFile

log = structlog.get_logger()
# A visit ends this long before its lease does, so that what it brought can be committed in time.
MARGIN = timedelta(seconds=2)
# What only an operator can mend (a key that is missing here) is looked at again after this, at no cost to the page.
UNTIL_MENDED = timedelta(minutes=10)
# Who knocks at a wall again and again looks all the more like what it is to keep out.
_WALL_FACTOR = 5
NOT_THE_PAGES_FAULT = frozenset({Reason.OFFLINE, Reason.STORAGE, Reason.DATABASE_LOST, Reason.SHUTDOWN})


@dataclass(frozen=True, slots=True)
class FetchResult:
    """How a visit ended; `document` and `twins` are to be saved, `onward` to be submitted, in the same transaction."""

    finish: Finish
    document: NewDocument | None = None
    onward: Candidate | None = None
    twins: tuple[str, ...] = ()  # other addresses of the host that led to the document


@dataclass(slots=True)
class _Visit:
    """A visit under way: what is known so far, whatever happens next."""

    claim: Claim
    hold: HostLease
    response: Response | None = None
    twins: tuple[str, ...] = ()

    def exchange(self) -> Exchange | None:
        if self.response is None:
            return None
        return Exchange(
            self.response.sent_at,
            self.response.status,
            len(self.response.body),
            int(self.response.elapsed_seconds * 1000),
        )


class Fetcher:
    """Visits claimed URLs."""

    def __init__(
        self,
        *,
        database: Database,
        gate: Gate,
        corpus: Corpus,
        sandbox: Sandbox,
        clock: Clock,
        limits: Limits,
        sandbox_seconds: float,
        max_retries: int,
        retry_base_seconds: float,
    ) -> None:
        self._database = database
        self._gate = gate
        self._corpus = corpus
        self._sandbox = sandbox
        self._clock = clock
        self._limits = limits
        self._sandbox_seconds = sandbox_seconds
        self._max_retries = max_retries
        self._retry_base_seconds = retry_base_seconds

    async def visit(self, claim: Claim) -> FetchResult:
        """Fetch and read a URL. Whatever goes wrong, and a cancel too, is an ending and not an error."""
        visit = _Visit(claim, HostLease(claim.host, claim.lease.token, claim.lease.until, claim.delay_ms))
        limit = asyncio.timeout((claim.lease.until - MARGIN - self._clock.now()).total_seconds())
        try:
            async with limit:
                return await self._follow(visit)
        except asyncio.CancelledError:
            return self._end(visit, FetchOutcome(Reason.SHUTDOWN, UrlStatus.PENDING, counts=False))
        except Exception as error:  # noqa: BLE001 - told by its ending, and logged where it is a fault of ours
            ended = "The lease was about to end." if limit.expired() else None
            return self._end(visit, self._ending_of(claim, error, ended))

    def _ending_of(self, claim: Claim, error: Exception, lease_ended: str | None) -> FetchOutcome:
        if lease_ended:
            return self._failure(claim, Reason.TIMEOUT, lease_ended)
        if isinstance(error, NotNow):
            return FetchOutcome(error.reason, UrlStatus.PENDING, str(error), due_at=error.until, counts=False)
        if isinstance(error, OperatorError):
            due = self._clock.now() + UNTIL_MENDED
            return FetchOutcome(error.reason, UrlStatus.PENDING, str(error), due_at=due, counts=False)
        if isinstance(error, HeadwaterError):
            return self._failure(claim, error.reason, str(error))
        if is_down(error):
            return self._failure(claim, Reason.DATABASE_LOST, str(error))
        log.exception("visit.failed", url=claim.url)
        return self._failure(claim, Reason.INTERNAL, f"{type(error).__name__}: {error}")

    async def _follow(self, visit: _Visit) -> FetchResult:
        """Follow redirects within the host; one that leads elsewhere ends this URL and submits the other."""
        claim, url = visit.claim, visit.claim.url
        headers = _validators(claim)
        for hops in range(claim.hops, MAX_HOPS + 1):
            try:
                response = await self._ask(visit, url, headers)
            except NotNow:
                if not await self._is_another_address(visit, url):
                    raise
                # The pauses between its hops outlast a lease: the rest of the way is another visit.
                return self._moved(visit, url, hops)
            target = redirect_target(response)
            if target is None:
                return await self._answer(visit, response)
            if host_of(target) != host_of(url) or await self._is_another_page(visit, target):
                return self._moved(visit, target, hops + 1)
            url, headers = target, {}
            visit.twins += (target,)
        return self._end(visit, FetchOutcome(Reason.REDIRECT_LIMIT, UrlStatus.DEAD))

    async def _ask(self, visit: _Visit, url: str, headers: Mapping[str, str]) -> Response:
        visit.response = None
        profile = visit.claim.fetch_profile
        visit.response = await self._gate.send(visit.hold, url, headers=headers, limits=self._limits, profile=profile)
        if visit.response.status == 304 and headers and not await self._still_held(visit.claim):
            # What has not changed there is not what we have here: ask for all of it.
            visit.response = await self._gate.send(visit.hold, url, limits=self._limits, profile=profile)
        return visit.response

    async def _is_another_address(self, visit: _Visit, url: str) -> bool:
        """Tell whether an address is not only another spelling of the one that is visited."""
        async with self._database.connection() as connection:
            known = await find(connection, url)
        return known is None or known.id != visit.claim.url_id

    async def _is_another_page(self, visit: _Visit, url: str) -> bool:
        """Tell whether an address is known as a page of its own that is or will be fetched, and not to be twice."""
        async with self._database.connection() as connection:
            known = await find(connection, url)
            if known is None or known.id == visit.claim.url_id:
                return False
            return not await is_dead(connection, known.id)

    def _moved(self, visit: _Visit, target: str, hops: int) -> FetchResult:
        if hops > MAX_HOPS:
            return self._end(visit, FetchOutcome(Reason.REDIRECT_LIMIT, UrlStatus.DEAD, target))
        claim = visit.claim
        onward = Candidate(
            target,
            claim.source_id,
            claim.origin,
            priority=claim.priority,
            depth=claim.depth,
            hops=hops,
            parent_id=claim.url_id,
        )
        return self._end(visit, FetchOutcome(Reason.REDIRECT, UrlStatus.DEAD, target), onward=onward)

    async def _answer(self, visit: _Visit, response: Response) -> FetchResult:
        claim = visit.claim
        if response.status == 304:
            ending = FetchOutcome(
                Reason.UNCHANGED, UrlStatus.FETCHED, etag=claim.etag, last_modified=claim.last_modified
            )
            return self._end(visit, ending)
        self._gate.check_key(response, claim.fetch_profile)
        reason = reason_of_status(response.status)
        if reason is Reason.RATE_LIMITED:
            return self._end(visit, self._come_back(visit))
        if reason:
            return self._end(visit, self._failure(claim, reason, f"The server answered {response.status}."))
        page = await self._read_or_keep(claim, response)
        raw = await self._keep(claim, response.body)
        document = NewDocument(
            article=page.article,
            content_hash=bytes.fromhex(page.content_hash),
            normalizer=page.normalizer,
            raw_path=raw.path,
            raw_hash=raw.sha256,
            raw_bytes=raw.size,
            fetched_url=response.url,
            content_type=response.headers.get("content-type"),
            selectors=claim.selectors,
        )
        ending = FetchOutcome(
            Reason.STORED,
            UrlStatus.FETCHED,
            etag=response.headers.get("etag"),
            last_modified=response.headers.get("last-modified"),
        )
        return self._end(visit, ending, document=document, twins=visit.twins)

    async def _still_held(self, claim: Claim) -> bool:
        """Tell whether the raw file is the document's: a visit that was killed may have replaced it before its row."""
        raw = await self._document_file(claim)
        return raw is not None and await asyncio.to_thread(self._corpus.holds, raw)

    async def _document_file(self, claim: Claim) -> RawFile | None:
        async with self._database.connection() as connection:
            known = await raw_file_of(connection, claim.url_id)
        return RawFile(*known) if known else None

    async def _read_or_keep(self, claim: Claim, response: Response) -> NormalizedPage:
        """Read the page. What cannot be read is kept too, but not in place of a file that a document was made from."""
        try:
            return await self._read(response, claim.selectors)
        except HeadwaterError:
            if await self._document_file(claim) is None:
                await self._keep(claim, response.body)
            raise

    async def _keep(self, claim: Claim, body: bytes) -> RawFile:
        """Write the raw file, but not once the lease may be another's."""

        def still_ours() -> bool:
            return self._clock.now() < claim.lease.until - MARGIN

        subpath = claim.subpath or page_subpath(claim.host.host, claim.url)
        return await asyncio.to_thread(self._corpus.write, claim.fetch_profile.source, subpath, body, still_ours)

    async def _read(self, response: Response, selectors: Mapping[str, str]) -> NormalizedPage:
        return await self._sandbox.run(
            normalize,
            response.body,
            response.url,
            response.headers.get("content-type"),
            selectors,
            returns=NormalizedPage,
            seconds=self._sandbox_seconds,
        )

    def _come_back(self, visit: _Visit) -> FetchOutcome:
        """429: the host is left alone for as long as it asks, and the URL pays nothing."""
        now = self._clock.now()
        due = visit.hold.blocked_until or now + visit.hold.delay
        return FetchOutcome(Reason.RATE_LIMITED, UrlStatus.PENDING, due_at=due, counts=False)

    def _failure(self, claim: Claim, reason: Reason, detail: str) -> FetchOutcome:
        """Try again later where that may help, until the retries are used up; what no page can help costs it none."""
        if not reason.retryable:
            return FetchOutcome(reason, UrlStatus.DEAD, detail)
        counts = reason not in NOT_THE_PAGES_FAULT
        if counts and claim.lease.attempts > self._max_retries:
            if reason in BODY_REASONS:
                return FetchOutcome(reason, UrlStatus.DEAD, detail)
            return FetchOutcome(Reason.MAX_RETRIES, UrlStatus.DEAD, f"{reason}: {detail}")
        base_seconds = self._retry_base_seconds * (_WALL_FACTOR if reason is Reason.CHALLENGE else 1)
        wait = retry_wait(claim.lease.attempts, base_seconds, random.random())  # noqa: S311
        return FetchOutcome(reason, UrlStatus.PENDING, detail, due_at=self._clock.now() + wait, counts=counts)

    def _end(
        self,
        visit: _Visit,
        ending: FetchOutcome,
        *,
        document: NewDocument | None = None,
        onward: Candidate | None = None,
        twins: tuple[str, ...] = (),
    ) -> FetchResult:
        release = visit.hold.release(self._clock.now())
        return FetchResult(Finish(visit.claim, ending, release, visit.exchange()), document, onward, twins)


def _validators(claim: Claim) -> dict[str, str]:
    names = {"If-None-Match": claim.etag, "If-Modified-Since": claim.last_modified}
    return {name: value for name, value in names.items() if value}
