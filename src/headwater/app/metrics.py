"""The metrics for Prometheus: counters of this process, and gauges that are set before they are shown."""

import collections
import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from headwater import __version__
from headwater.core.frontier import FrontierStatus
from headwater.core.poll import PollResult
from headwater.db.changes import SendResult, Webhook
from headwater.frontier.claim import Finish
from headwater.handoff.operations import Backlog
from headwater.notify.alarms import Alarm, AlarmKind
from headwater.search.operations import IndexStatus


class Metrics:
    """Counters since the start of this process, and gauges of the database."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self._registry), partial(Gauge, registry=self._registry)
        counter("headwater_starts", "Starts of this process, by version.", ["version"]).labels(__version__).inc()
        self._fetches = counter("headwater_fetches", "Ended fetches, by reason.", ["reason"])
        self._polls = counter("headwater_polls", "Ended polls, by reason.", ["reason"])
        self._items = counter("headwater_new_items", "Items seen for the first time.")
        self._rescued = counter("headwater_rescued_leases", "Expired leases that were released.")
        self._deliveries = counter("headwater_deliveries", "Attempts to deliver to webhooks, by reason.", ["reason"])
        self._indexed = counter("headwater_indexed_documents", "Documents sent to the search index.")
        self._handoffs = counter("headwater_handoffs", "Items that runs handed off, by result.", ["end"])
        self._seconds = Histogram("headwater_request_seconds", "Duration of requests.", registry=self._registry)
        # The gauges of a backlog count up to some thousands.
        self._waiting = gauge("headwater_webhook_waiting", "Changes that wait for a webhook.", ["webhook"])
        self._parked = gauge("headwater_webhook_parked", "Deliveries that a webhook refused.", ["webhook"])
        age_of_change = "Age of the oldest change that waits for a webhook."
        self._behind = gauge("headwater_webhook_behind_seconds", age_of_change, ["webhook"])
        self._index = gauge("headwater_index_changes", "Waiting and parked changes of the search index.", ["status"])
        self._stories = gauge("headwater_story_changes", "Changes that are not in stories yet.", ["status"])
        self._alarms = gauge("headwater_alarms_open", "Open alarms, by kind.", ["kind"])
        self._jobs = gauge("headwater_jobs", "Queued and failed jobs.", ["status"])
        self._handoffs_waiting = gauge("headwater_handoffs_waiting", "Waiting hand-offs.")
        age_of_handoff = "Age of the oldest waiting hand-off."
        self._handoffs_waiting_seconds = gauge("headwater_handoffs_waiting_seconds", age_of_handoff)
        self._urls = gauge("headwater_urls", "URLs in the frontier, by status.", ["status"])

    def count_fetch(self, done: Finish) -> None:
        """Count a fetch that ended."""
        self._fetches.labels(done.outcome.reason).inc()
        if done.request:
            self._seconds.observe(done.request.elapsed_ms / 1000)

    def count_poll(self, polled: PollResult) -> None:
        """Count a poll that ended."""
        self._polls.labels(polled.reason).inc()
        self._items.inc(polled.new_items)
        if polled.handoffs:
            for end in ("completed", "failed", "skipped"):
                self._handoffs.labels(end).inc(getattr(polled.handoffs, end))

    def count_rescued(self, leases: int) -> None:
        """Count released leases."""
        self._rescued.inc(leases)

    def count_delivery(self, result: SendResult) -> None:
        """Count an attempt to deliver a change."""
        self._deliveries.labels(result.reason).inc()

    def count_indexed(self, documents: int) -> None:
        """Count documents that were sent to the search index."""
        self._indexed.inc(documents)

    def set_story_gauge(self, waiting: int | None) -> None:
        """Set the gauge of stories. Without a number it is removed."""
        self._stories.clear()
        if waiting is not None:
            self._stories.labels("waiting").set(waiting)

    def set_alarm_gauges(self, alarms: Iterable[Alarm] | None) -> None:
        """Set the gauges of open alarms. Without a list they are removed."""
        self._alarms.clear()
        if alarms is not None:
            counts = collections.Counter(one.kind for one in alarms)
            for kind in AlarmKind:
                self._alarms.labels(kind).set(counts[kind])

    def set_index_gauges(self, status: IndexStatus | None) -> None:
        """Set the gauges of the search index. Without a status they are removed."""
        self._index.clear()
        if status:
            self._index.labels("waiting").set(status.waiting)
            self._index.labels("parked").set(status.parked)

    def set_gauges(
        self, urls: Mapping[FrontierStatus, int], webhooks: Iterable[Webhook], backlog: Backlog | None, now: datetime
    ) -> None:
        """Set the gauges of the database: URLs by status, and the backlogs of webhooks, jobs and hand-offs.

        Gauges without a value are removed.
        """
        for gauge in (self._waiting, self._parked, self._behind, self._jobs, self._urls):
            gauge.clear()
        self._handoffs_waiting.set(math.nan)
        self._handoffs_waiting_seconds.set(math.nan)
        for status, count in urls.items():
            self._urls.labels(status).set(count)
        for webhook in webhooks:
            self._waiting.labels(webhook.name).set(webhook.waiting)
            self._parked.labels(webhook.name).set(webhook.parked)
            self._behind.labels(webhook.name).set(_seconds_since(webhook.waiting_since, now))
        if backlog is None:
            return
        self._jobs.labels("queued").set(backlog.jobs_queued)
        self._jobs.labels("failed").set(backlog.jobs_failed)
        if backlog.handoffs_queued is not None:
            self._handoffs_waiting.set(backlog.handoffs_queued)
            self._handoffs_waiting_seconds.set(_seconds_since(backlog.handoffs_since, now))

    def render(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self._registry)


def _seconds_since(moment: datetime | None, now: datetime) -> float:
    return (now - moment).total_seconds() if moment else 0
