"""Counters for Prometheus, fed by what the roles report, and gauges, fed by whoever is about to show them."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from headwater import __version__
from headwater.frontier.finish import Finish
from headwater.model.poll import Polled


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

    def holds(self, urls: Mapping[str, int]) -> None:
        """Say how many URLs there are of each status; nothing where that is not known."""
        self._urls.clear()
        for status, count in urls.items():
            self._urls.labels(status).set(count)

    def text(self) -> bytes:
        """Write them all in Prometheus's text format."""
        return generate_latest(self._registry)
