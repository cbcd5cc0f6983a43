"""A model of the frontier in a few dicts. test_frontier_machine.py compares the real frontier with it."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from headwater.core.frontier import Claim, FetchOutcome, HostRelease, UrlStatus
from headwater.core.politeness import KeyOf
from headwater.core.reasons import Reason

LONG_AGO = datetime.min.replace(tzinfo=UTC)
LEASE = timedelta(seconds=60)
DELAY_MS = 1000
MAX_ATTEMPTS = 3

Leased = tuple[UUID, datetime]


@dataclass
class Queued:
    """A page's place in the queue."""

    key: str
    priority: int
    due_at: datetime
    attempts: int = 0
    lease: Leased | None = None


@dataclass
class Page:
    """A URL that has been seen."""

    host: str
    status: str = "pending"
    reason: str | None = None
    same_as: str | None = None
    visits: int = 0


@dataclass
class Host:
    """A host, or the key of a turn that several hosts share."""

    key: str | None = None
    not_before: datetime = LONG_AGO
    closed_until: datetime | None = None
    reserved_until: datetime | None = None
    backoff_ms: int = 0
    crawl_delay_ms: int | None = None
    lease: Leased | None = None

    @property
    def delay(self) -> timedelta:
        """The Crawl-delay of the host, else the default."""
        return timedelta(milliseconds=DELAY_MS if self.crawl_delay_ms is None else self.crawl_delay_ms)

    @property
    def longest_pause(self) -> timedelta:
        """The delay after a holder died: the holder may have sent a request."""
        return timedelta(milliseconds=max(self.crawl_delay_ms or 0, DELAY_MS, self.backoff_ms))

    @property
    def left_alone_until(self) -> datetime:
        """When it may be asked, whatever is queued."""
        return max(self.not_before, self.closed_until or LONG_AGO)


@dataclass
class Model:
    """The state of the frontier, and the rules by which it changes."""

    key_of: KeyOf
    now: datetime
    pages: dict[str, Page] = field(default_factory=dict)
    queue: dict[str, Queued] = field(default_factory=dict)
    hosts: dict[str, Host] = field(default_factory=dict)
    attempts_logged: int = 0

    def tally(self) -> Counter[tuple[str, str | None]]:
        """The number of URLs of each status and reason."""
        return Counter((page.status, page.reason) for page in self.pages.values())

    def waiting(self, key: str) -> dict[str, Queued]:
        """The URLs that wait for the turn of a key."""
        return {url: row for url, row in self.queue.items() if row.key == key and row.lease is None}

    def best(self, key: str) -> set[str]:
        """The due URLs of a key with the highest priority; of these, the longest due."""
        due = {url: (-row.priority, row.due_at) for url, row in self.waiting(key).items() if row.due_at <= self.now}
        return {url for url, rank in due.items() if rank == min(due.values())}

    def may_be_asked(self, key: str) -> bool:
        """Whether a request to a key may be sent now."""
        return self.hosts[key].left_alone_until <= self.now

    def claimable(self) -> set[str]:
        """The keys that a claim may take, also keys of holders whose lease ended."""
        return {
            key
            for key, host in self.hosts.items()
            if self.may_be_asked(key) and (host.reserved_until or LONG_AGO) <= self.now and self.best(key)
        }

    def key(self, host: str) -> str:
        """The politeness key of a host."""
        return self.hosts[host].key or host

    def meet(self, host: str) -> str:
        """Make sure that a host is known; return its key."""
        if host not in self.hosts:
            key = self.key_of(host)
            self.hosts.setdefault(key, Host())
            self.hosts.setdefault(host, Host(key=None if key == host else key))
        return self.key(host)

    def page(self, url: str) -> str:
        """The page that a URL is the address of."""
        return self.pages[url].same_as or url

    def put(self, batch: dict[str, tuple[str, int]]) -> set[str]:
        """Submit normalized URLs, each with its host and its best priority; return what is new."""
        new = batch.keys() - self.pages.keys()
        for url, (host, priority) in batch.items():
            if url in new:
                key = self.meet(host)
                self.pages[url] = Page(host)
                self.queue[url] = Queued(key, priority, self.now)
            elif (row := self.queue.get(url)) and row.lease is None:
                row.priority = max(row.priority, priority)
        return new

    def take(self, claim: Claim) -> None:
        """Lease a URL and its key."""
        row, host = self.queue[claim.url], self.hosts[claim.host.politeness_key]
        row.attempts += 1
        row.lease = host.lease = (claim.lease.token, self.now + LEASE)
        host.not_before = self.now + LEASE + host.longest_pause

    def is_held(self, claim: Claim) -> bool:
        """Whether a claim is still its holder's."""
        row = self.queue.get(claim.url)
        return row is not None and row.lease is not None and row.lease[0] == claim.lease.token

    def end(self, url: str, ending: FetchOutcome) -> None:
        """End an attempt: the URL leaves the queue or goes back to it."""
        self.attempts_logged += 1
        if ending.status is UrlStatus.PENDING:
            row = self.queue[url]
            row.lease, row.due_at = None, ending.due_at or self.now
            row.attempts -= not ending.is_counted
        else:
            del self.queue[url]
            page = self.pages[url]
            page.status, page.reason = ending.status, ending.reason
            page.visits += 1

    def release(self, release: HostRelease) -> None:
        """Release a host whose lease still has the token."""
        host = self.hosts[release.politeness_key]
        if host.lease and host.lease[0] == release.token:
            host.lease, host.not_before, host.backoff_ms = None, release.not_before, release.backoff_ms

    def add_alias(self, url: str, alias: str) -> None:
        """Make another URL an alias of a page, unless it is a page of its own that has ended."""
        if alias not in self.pages:
            self.pages[alias] = Page(self.pages[url].host)
        elif self.pages[alias].status != "pending" or alias == url:
            return
        self.queue.pop(alias, None)
        self.pages[alias].status, self.pages[alias].reason, self.pages[alias].same_as = "fetched", "same_page", url

    def late_claims(self) -> list[str]:
        """URLs whose lease has ended."""
        return [url for url, row in self.queue.items() if row.lease and row.lease[1] <= self.now]

    def late_hosts(self) -> list[str]:
        """Keys whose lease has ended."""
        return [key for key, host in self.hosts.items() if host.lease and host.lease[1] <= self.now]

    def rescue(self, urls: list[str]) -> list[str]:
        """Requeue URLs whose lease has ended. Return those that wait and were lost more than once."""
        for url in urls:
            given_up = self.queue[url].attempts >= MAX_ATTEMPTS
            self.end(url, FetchOutcome(Reason.WORKER_LOST, UrlStatus.DEAD if given_up else UrlStatus.PENDING))
        return [url for url in urls if url in self.queue and self.queue[url].attempts > 1]

    def retry(self, url: str, priority: int) -> bool:
        """Queue a URL again; False while it is being fetched."""
        url = self.page(url)
        row = self.queue.get(url)
        if row is None:
            page = self.pages[url]
            page.status, page.reason = "pending", None
            self.queue[url] = Queued(self.key(page.host), priority, self.now)
        elif row.lease:
            return False
        else:
            row.due_at, row.attempts, row.priority = min(row.due_at, self.now), 0, max(row.priority, priority)
        return True

    def open(self, host: str) -> None:
        """Take back what closed or slowed a host, its pause aside."""
        key = self.hosts[self.key(host)]
        key.closed_until = key.reserved_until = None
        if key.lease is None:
            key.backoff_ms = 0
            key.not_before = min(key.not_before, self.now + key.delay)

    def group(self, hosts: set[str], key: str) -> bool:
        """Let hosts wait for one turn; all or none of them."""
        turns = {self.key(host) if host in self.hosts else self.key_of(host) for host in hosts}
        if self._any_held({*hosts, *turns, key}):
            return False
        for host in hosts:
            self.meet(host)
            self._join(host, key)
        return True

    def ungroup(self, hosts: set[str]) -> bool:
        """Let hosts have the turn again that they had when they were new; all or none of them."""
        grouped = {host for host in hosts if self.key(host) != self.key_of(host)}
        if self._any_held({name for host in grouped for name in (host, self.key(host), self.key_of(host))}):
            return False
        for host in grouped:
            if self.key_of(host) == host:
                self._leave(host)
            else:
                self._join(host, self.key_of(host))
        return True

    def _any_held(self, names: set[str]) -> bool:
        return any(name in self.hosts and self.hosts[name].lease for name in names)

    def _join(self, host: str, key: str) -> None:
        """Wait for the turn of a key, which becomes as late and as slow as the host was."""
        own, before, turn = self.hosts[host], self.key(host), self.hosts.setdefault(key, Host())
        turn.not_before = max(turn.not_before, self.hosts[before].not_before)
        turn.closed_until = latest(turn.closed_until, self.hosts[before].closed_until)
        turn.backoff_ms = max(turn.backoff_ms, self.hosts[before].backoff_ms)
        turn.crawl_delay_ms = slowest(turn.crawl_delay_ms, own.crawl_delay_ms)
        own.key, own.closed_until, own.backoff_ms = key, None, 0
        self._move(host, before)

    def _leave(self, host: str) -> None:
        """Have a turn of its own, as late and as slow as the one left."""
        own, before = self.hosts[host], self.key(host)
        turn = self.hosts[before]
        own.not_before = max(own.not_before, turn.not_before)
        own.key, own.closed_until, own.backoff_ms = None, turn.closed_until, turn.backoff_ms
        self._move(host, before)

    def _move(self, host: str, before: str) -> None:
        """Take the queue along; the turn that was left is as slow as the slowest of those that still wait for it."""
        for url, row in self.queue.items():
            if self.pages[url].host == host:
                row.key = self.key(host)
        if before != host:
            self._be_slow(before)

    def _be_slow(self, key: str) -> None:
        members = (host for host in self.hosts.values() if host.key == key)
        self.hosts[key].crawl_delay_ms = slowest(*(member.crawl_delay_ms for member in members))

    def save_crawl_delay(self, host: str, delay_ms: int | None) -> None:
        """Remember what a host's robots.txt asks for; its key is as slow as the slowest that waits for it."""
        self.hosts[host].crawl_delay_ms = delay_ms
        if self.key(host) != host:
            self._be_slow(self.key(host))


def latest(*moments: datetime | None) -> datetime | None:
    """The last of those there are."""
    return max((moment for moment in moments if moment is not None), default=None)


def slowest(*delays_ms: int | None) -> int | None:
    """The longest of those there are."""
    return max((delay_ms for delay_ms in delays_ms if delay_ms is not None), default=None)
