"""Fetches one claimed URL and reads its page. The fetcher writes nothing to the database."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from headwater.core.backoff import retry_wait
from headwater.core.errors import HeadwaterError, NotNow, OperatorError, StorageFailed
from headwater.core.frontier import Candidate, Claim, FetchOutcome, RequestRecord, UrlStatus
from headwater.core.http import Response
from headwater.core.reasons import BODY_REASONS, Reason
from headwater.core.urls import host_of, page_subpath
from headwater.db.context import DatabaseContext
from headwater.db.documents import NewDocument
from headwater.db.frontier import is_dead
from headwater.db.pool import Coalescer, is_down
from headwater.db.site_memory import KnownBlocks, get_known_blocks
from headwater.db.verify import raw_file_of
from headwater.extraction.registry import NormalizedPage, normalize
from headwater.frontier.claim import Finish
from headwater.frontier.submit import find_url
from headwater.http.responses import MAX_HOPS, reason_of_status, redirect_target
from headwater.politeness.gate import Gate, RequestOptions
from headwater.politeness.host_lease import HostLease
from headwater.sandbox.pool import Sandbox
from headwater.storage.folder import Corpus, NewRawFile, RawFile

log = structlog.get_logger()
_COMMIT_MARGIN = timedelta(seconds=2)  # a fetch ends before its lease, so that the commit comes in time
_OPERATOR_WAIT = timedelta(minutes=10)  # only an operator can fix some failures, such as a missing key
_CHALLENGE_FACTOR = 5  # frequent requests to a page that shows a challenge look like an attack
_OWN_FAULTS = frozenset({Reason.OFFLINE, Reason.STORAGE, Reason.DATABASE_LOST, Reason.SHUTDOWN})


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The result of a fetch. One transaction saves the document and the aliases and submits the redirect target."""

    finish: Finish
    document: NewDocument | None = None
    redirect: Candidate | None = None
    aliases: tuple[str, ...] = ()  # other URLs of the host that led to the document


@dataclass(slots=True)
class _Fetch:
    claim: Claim
    lease: HostLease
    response: Response | None = None
    aliases: tuple[str, ...] = ()


@dataclass(eq=False)
class Fetcher:
    """Fetches claimed URLs."""

    context: DatabaseContext
    gate: Gate
    corpus: Corpus
    sandbox: Sandbox

    def __post_init__(self) -> None:
        self._clock = self.context.clock
        self._raw_files = Coalescer(self._write_batch)
        self._known_blocks = Coalescer(self._get_known_blocks)
        seconds = self.context.settings.page_timeout_seconds
        self._limits = replace(self.gate.limits, read_seconds=seconds, total_seconds=seconds)

    async def fetch(self, claim: Claim) -> FetchResult:
        """Fetch and read a URL. A failure or a cancel is an outcome and not an error."""
        fetch = _Fetch(claim, HostLease(claim.host, claim.lease.token, claim.lease.until, claim.delay_ms))
        limit = asyncio.timeout((claim.lease.until - _COMMIT_MARGIN - self._clock.now()).total_seconds())
        try:
            async with limit:
                return await self._follow(fetch)
        except asyncio.CancelledError:
            outcome = FetchOutcome(Reason.SHUTDOWN, UrlStatus.PENDING, is_counted=False)
        except Exception as error:  # noqa: BLE001 - the outcome carries it, and the log if it is our own fault
            if limit.expired():
                outcome = self._fail(claim, Reason.TIMEOUT, "The lease was about to end.")
            else:
                outcome = self._classify(claim, fetch.lease, error)
        return self._end(fetch, outcome)

    def _classify(self, claim: Claim, lease: HostLease, error: Exception) -> FetchOutcome:
        if isinstance(error, NotNow):
            detail = error.lasting_message
            if error.reason is Reason.HOST_GONE:
                return FetchOutcome(error.reason, UrlStatus.DEAD, detail)
            # The page of a blocked host waits with its host. It is due as soon as an operator releases the host.
            due = None if lease.blocked_until else error.until
            return FetchOutcome(error.reason, UrlStatus.PENDING, detail, due_at=due, is_counted=False)
        if isinstance(error, OperatorError):
            due = self._clock.now() + _OPERATOR_WAIT
            return FetchOutcome(error.reason, UrlStatus.PENDING, str(error), due_at=due, is_counted=False)
        if isinstance(error, HeadwaterError):
            return self._fail(claim, error.reason, str(error))
        if is_down(error):
            return self._fail(claim, Reason.DATABASE_LOST, str(error))
        log.exception("fetch.failed", url=claim.url)
        return self._fail(claim, Reason.INTERNAL, f"{type(error).__name__}: {error}")

    async def _follow(self, fetch: _Fetch) -> FetchResult:
        """Follow redirects within the host. Submit the target of any other redirect as a URL of its own."""
        claim, url = fetch.claim, fetch.claim.url
        validators = {"If-None-Match": claim.etag, "If-Modified-Since": claim.last_modified}
        headers = {name: value for name, value in validators.items() if value}
        for hops in range(claim.hops, MAX_HOPS + 1):
            try:
                response = await self._request(fetch, url, headers)
            except NotNow:
                known = await self.context.database.run(find_url, url)
                if known and known.id == claim.url_id:  # another form of the claimed URL
                    raise
                # The delays between the hops outlast a lease, so another fetch continues here.
                return self._redirect(fetch, url, hops)
            target = redirect_target(response)
            if target is None:
                if claim.fetch_profile.budget:
                    self.gate.check_key(response, claim.fetch_profile)
                if reason := reason_of_status(response.status):
                    return self._end(fetch, self._refuse(fetch, response, reason))
                return await self._save(fetch, response)
            if host_of(target) != host_of(url) or await self._is_other_page(claim, target):
                return self._redirect(fetch, target, hops + 1)
            url, headers = target, {}
            fetch.aliases += (target,)
        return self._end(fetch, FetchOutcome(Reason.REDIRECT_LIMIT, UrlStatus.DEAD))

    async def _request(self, fetch: _Fetch, url: str, headers: Mapping[str, str]) -> Response:
        fetch.response = None
        options = RequestOptions(self._limits, headers, fetch.claim.fetch_profile)
        response = await self.gate.send(fetch.lease, url, options)
        fetch.response = response
        if response.status == 304 and headers and not await self._has_raw_file(fetch.claim):
            # The raw file is not the document's: a killed worker may have replaced it. Request the whole page.
            response = await self.gate.send(fetch.lease, url, replace(options, headers={}))
            fetch.response = response
        return response

    async def _is_other_page(self, claim: Claim, url: str) -> bool:
        """Return whether a URL belongs to another known page, which workers fetch as a page of its own."""
        async with self.context.database.connection() as connection:
            known = await find_url(connection, url)
            if known is None or known.id == claim.url_id:
                return False
            return not await is_dead(connection, known.id)

    def _redirect(self, fetch: _Fetch, target: str, hops: int) -> FetchResult:
        if hops > MAX_HOPS:
            return self._end(fetch, FetchOutcome(Reason.REDIRECT_LIMIT, UrlStatus.DEAD, target))
        claim = fetch.claim
        redirect = Candidate(
            target, claim.source_id, claim.origin, claim.priority, claim.depth, hops=hops, parent_id=claim.url_id
        )
        return replace(self._end(fetch, FetchOutcome(Reason.REDIRECT, UrlStatus.DEAD, target)), redirect=redirect)

    def _refuse(self, fetch: _Fetch, response: Response, reason: Reason) -> FetchOutcome:
        """Return the outcome of a status without a page. A 429 consumes no retry; the URL waits as its host wants."""
        if reason is not Reason.RATE_LIMITED:
            fixes = self.gate.suggest_fixes(response, fetch.claim.fetch_profile)
            return self._fail(fetch.claim, reason, f"The server answered {response.status}.{fixes}")
        due = fetch.lease.blocked_until or self._clock.now() + fetch.lease.delay
        return FetchOutcome(reason, UrlStatus.PENDING, due_at=due, is_counted=False)

    async def _save(self, fetch: _Fetch, response: Response) -> FetchResult:
        claim, headers = fetch.claim, response.headers
        if response.status == 304:
            unchanged = FetchOutcome(
                Reason.UNCHANGED, UrlStatus.FETCHED, etag=claim.etag, last_modified=claim.last_modified
            )
            return self._end(fetch, unchanged)
        known = await self._known_blocks.submit((claim.url_id, claim.host.host))
        page = await self._read(claim, response, known)
        raw = await self._write_raw_file(claim, response.body)
        document = NewDocument(
            article=page.article,
            content_hash=bytes.fromhex(page.content_hash),
            normalizer=page.normalizer,
            raw_path=raw.path,
            raw_hash=raw.sha256,
            raw_bytes=raw.size,
            fetched_url=response.url,
            content_type=headers.get("content-type"),
            selectors=claim.selectors,
            # A document that was read before keeps its list, so that its text changes only if its page does.
            removed_blocks=known.hashes if known.is_pinned else list(page.site_blocks.removed),
            site_blocks=page.site_blocks.learned,
        )
        outcome = FetchOutcome(
            Reason.STORED, UrlStatus.FETCHED, etag=headers.get("etag"), last_modified=headers.get("last-modified")
        )
        return replace(self._end(fetch, outcome), document=document, aliases=fetch.aliases)

    async def _read(self, claim: Claim, response: Response, known: KnownBlocks) -> NormalizedPage:
        """Read the page. Keep the bytes of an unreadable page, unless a document was made from an earlier raw file."""
        try:
            return await self.sandbox.run(
                normalize,
                response.body,
                response.url,
                response.headers.get("content-type"),
                claim.selectors,
                known.hashes,
                returns=NormalizedPage,
                seconds=self.context.settings.sandbox_timeout_seconds,
            )
        except HeadwaterError:
            if await self._document_file(claim) is None:
                await self._write_raw_file(claim, response.body)
            raise

    async def _document_file(self, claim: Claim) -> RawFile | None:
        known = await self.context.database.run(raw_file_of, claim.url_id)
        return RawFile(*known) if known else None

    async def _has_raw_file(self, claim: Claim) -> bool:
        raw = await self._document_file(claim)
        return raw is not None and await asyncio.to_thread(self.corpus.has, raw)

    async def _write_raw_file(self, claim: Claim, body: bytes) -> RawFile:
        """Write the raw file, but not after the lease may have ended."""
        subpath = claim.subpath or page_subpath(claim.host.host, claim.url)
        written = await self._raw_files.submit(
            NewRawFile(
                claim.fetch_profile.source,
                subpath,
                body,
                lambda: self._clock.now() < claim.lease.until - _COMMIT_MARGIN,
            )
        )
        if isinstance(written, StorageFailed):
            raise written
        return written

    async def _get_known_blocks(self, pages: Sequence[tuple[int, str]]) -> list[KnownBlocks]:
        return await self.context.database.run(get_known_blocks, pages)

    async def _write_batch(self, files: Sequence[NewRawFile]) -> list[RawFile | StorageFailed]:
        return await asyncio.to_thread(self.corpus.write_batch, files)

    def _fail(self, claim: Claim, reason: Reason, detail: str) -> FetchOutcome:
        """Retry later if that may help and retries are left. Our own faults consume no retry."""
        if not reason.retryable:
            return FetchOutcome(reason, UrlStatus.DEAD, detail)
        is_counted = reason not in _OWN_FAULTS
        if is_counted and claim.lease.attempts > self.context.settings.max_retries:
            if reason in BODY_REASONS:
                return FetchOutcome(reason, UrlStatus.DEAD, detail)
            return FetchOutcome(Reason.MAX_RETRIES, UrlStatus.DEAD, f"{reason}: {detail}")
        base_seconds = self.context.settings.retry_base_seconds
        if reason is Reason.CHALLENGE:
            base_seconds *= _CHALLENGE_FACTOR
        due = self._clock.now() + retry_wait(claim.lease.attempts, base_seconds, random.random())  # noqa: S311
        return FetchOutcome(reason, UrlStatus.PENDING, detail, due_at=due, is_counted=is_counted)

    def _end(self, fetch: _Fetch, outcome: FetchOutcome) -> FetchResult:
        request, response = None, fetch.response
        if response:
            elapsed_ms = int(response.elapsed_seconds * 1000)
            request = RequestRecord(response.sent_at, response.status, len(response.body), elapsed_ms)
        return FetchResult(Finish(fetch.claim, outcome, fetch.lease.release(self._clock.now()), request))
