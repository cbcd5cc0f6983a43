"""Counters for Prometheus, fed by what the roles report, and gauges, fed by whoever is about to show them."""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from headwater import __version__
from headwater.core.frontier import FrontierStatus
from headwater.core.poll import PollResult
from headwater.db.changes import SendResult, Webhook
from headwater.frontier.claim import Finish
from headwater.handoff.operations import Backlog


class Metrics:
    """What this process has done since it started, and what the frontier holds."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        build = Counter("headwater_starts", "Starts of this process, by version.", ["version"], registry=self._registry)
        build.labels(__version__).inc()
        self._fetches = Counter("headwater_fetches", "Ended fetches, by reason.", ["reason"], registry=self._registry)
        self._polls = Counter("headwater_polls", "Ended polls, by reason.", ["reason"], registry=self._registry)
        self._items = Counter("headwater_new_items", "Items seen for the first time.", registry=self._registry)
        self._rescued = Counter(
            "headwater_rescued_leases", "Leases taken back from dead holders.", registry=self._registry
        )
        self._deliveries = Counter(
            "headwater_deliveries", "Attempts to deliver to webhooks, by reason.", ["reason"], registry=self._registry
        )
        self._waiting = self._of_webhooks(
            "headwater_webhook_waiting", "Changes a webhook has not had yet, counted up to some thousands."
        )
        self._parked = self._of_webhooks("headwater_webhook_parked", "Deliveries a webhook will not have.")
        self._behind = self._of_webhooks(
            "headwater_webhook_behind_seconds", "Age of the oldest change a webhook has not had yet."
        )
        self._handoffs = Counter(
            "headwater_handoffs",
            "Items that runs have handed off, by what became of it.",
            ["end"],
            registry=self._registry,
        )
        self._jobs = Gauge(
            "headwater_jobs",
            "Jobs that wait for their pages and that have failed, counted up to some thousands.",
            ["status"],
            registry=self._registry,
        )
        self._unhanded = Gauge(
            "headwater_handoffs_waiting", "Hand-offs that wait, counted up to some thousands.", registry=self._registry
        )
        self._unhanded_seconds = Gauge(
            "headwater_handoffs_waiting_seconds", "Age of the oldest hand-off that waits.", registry=self._registry
        )
        self._seconds = Histogram("headwater_exchange_seconds", "Time an exchange took.", registry=self._registry)
        self._urls = Gauge("headwater_urls", "URLs in the frontier, by status.", ["status"], registry=self._registry)

    def fetched(self, done: Finish) -> None:
        """Count the end of a fetch."""
        self._fetches.labels(done.outcome.reason).inc()
        if done.request:
            self._seconds.observe(done.request.elapsed_ms / 1000)

    def polled(self, polled: PollResult) -> None:
        """Count the end of a poll."""
        self._polls.labels(polled.reason).inc()
        self._items.inc(polled.new_items)
        if polled.handoffs:
            for end in ("completed", "failed", "skipped"):
                self._handoffs.labels(end).inc(getattr(polled.handoffs, end))

    def rescued(self, leases: int) -> None:
        """Count leases that were taken back."""
        self._rescued.inc(leases)

    def delivered(self, result: SendResult) -> None:
        """Count an attempt to deliver."""
        self._deliveries.labels(result.reason).inc()

    def owes(self, webhooks: Iterable[Webhook], now: datetime) -> None:
        """Say what each webhook has not had yet; nothing where that is not known."""
        for gauge in (self._waiting, self._parked, self._behind):
            gauge.clear()
        for webhook in webhooks:
            since = webhook.waiting_since
            self._waiting.labels(webhook.name).set(webhook.waiting)
            self._parked.labels(webhook.name).set(webhook.parked)
            self._behind.labels(webhook.name).set((now - since).total_seconds() if since else 0)

    def awaits(self, backlog: Backlog | None, now: datetime) -> None:
        """Say what waits to be handed off and for its page; nothing where that is not known."""
        self._jobs.clear()
        self._unhanded.set(math.nan)
        self._unhanded_seconds.set(math.nan)
        if backlog is None:
            return
        self._jobs.labels("queued").set(backlog.jobs_queued)
        self._jobs.labels("failed").set(backlog.jobs_failed)
        if backlog.handoffs_queued is not None:
            since = backlog.handoffs_since
            self._unhanded.set(backlog.handoffs_queued)
            self._unhanded_seconds.set((now - since).total_seconds() if since else 0)

    def _of_webhooks(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, ["webhook"], registry=self._registry)

    def holds(self, urls: Mapping[FrontierStatus, int]) -> None:
        """Say how many URLs there are of each status; nothing where that is not known."""
        self._urls.clear()
        for status, count in urls.items():
            self._urls.labels(status).set(count)

    def text(self) -> bytes:
        """Write them all in Prometheus's text format."""
        return generate_latest(self._registry)
