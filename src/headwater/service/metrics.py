"""Counters for Prometheus, fed by what the roles report."""

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from headwater import __version__
from headwater.frontier.finish import Finish
from headwater.model.poll import Polled


class Metrics:
    """What this process has done since it started."""

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

    def text(self) -> bytes:
        """Write the counters in Prometheus's text format."""
        return generate_latest(self._registry)
