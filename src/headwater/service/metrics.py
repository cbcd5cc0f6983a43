"""Counters for Prometheus, fed by what the roles report, and gauges, fed by whoever is about to show them."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from headwater import __version__
from headwater.frontier.finish import Finish
from headwater.model.poll import Polled
from headwater.model.webhook import Answered


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
        self._seconds = Histogram("headwater_exchange_seconds", "Time an exchange took.", registry=self._registry)
        self._urls = Gauge("headwater_urls", "URLs in the frontier, by status.", ["status"], registry=self._registry)

    def fetched(self, done: Finish) -> None:
        """Count the end of a fetch."""
        self._fetches.labels(done.ending.reason).inc()
        if done.exchange:
            self._seconds.observe(done.exchange.elapsed_ms / 1000)

    def polled(self, polled: Polled) -> None:
        """Count the end of a poll."""
        self._polls.labels(polled.reason).inc()
        self._items.inc(polled.new_items)

    def rescued(self, leases: int) -> None:
        """Count leases that were taken back."""
        self._rescued.inc(leases)

    def delivered(self, answered: Answered) -> None:
        """Count an attempt to deliver."""
        self._deliveries.labels(answered.reason).inc()

    def owes(self, webhooks: Iterable[Mapping[str, Any]], now: datetime) -> None:
        """Say what each webhook has not had yet; nothing where that is not known."""
        for gauge in (self._waiting, self._parked, self._behind):
            gauge.clear()
        for webhook in webhooks:
            since = webhook["waiting_since"]
            self._waiting.labels(webhook["name"]).set(webhook["waiting"])
            self._parked.labels(webhook["name"]).set(webhook["parked"])
            self._behind.labels(webhook["name"]).set((now - since).total_seconds() if since else 0)

    def _of_webhooks(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, ["webhook"], registry=self._registry)

    def holds(self, urls: Mapping[str, int]) -> None:
        """Say how many URLs there are of each status; nothing where that is not known."""
        self._urls.clear()
        for status, count in urls.items():
            self._urls.labels(status).set(count)

    def text(self) -> bytes:
        """Write them all in Prometheus's text format."""
        return generate_latest(self._registry)
