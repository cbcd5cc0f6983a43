"""When a source is polled next, and why (spec 3.2)."""

import heapq
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.core.backoff import read_requested_delay
from headwater.core.poll import FIRST_GAP, AdaptiveInterval, PollPlan, RequestedDelay, first_poll_at
from headwater.core.reasons import Reason
from headwater.core.text import format_duration
from headwater.discovery.decide import (
    LONGEST_REQUESTED_WAIT,
    Failed,
    Read,
    interval_limits,
    is_failed_wait,
    is_overflow,
    plan_next_poll,
)

NOW = datetime(2026, 3, 29, 0, 0, tzinfo=UTC)
QUARTER = timedelta(minutes=15)
DAY = timedelta(days=1)
TINY = timedelta(milliseconds=1)

bases = st.one_of(st.sampled_from([1, 5, 6, 14, 15, 16, 360, 1440, 10_080]), st.integers(1, 10_080)).map(
    lambda minutes: timedelta(minutes=minutes)
)
chances = st.floats(0, 1)
reads = st.integers(0, 50).flatmap(lambda seen: st.builds(Read, st.just(seen), st.integers(0, seen)))
outcomes = st.one_of(reads, st.builds(Failed, st.booleans()))
adaptives = st.none() | st.builds(AdaptiveInterval, st.floats(0.3, 4) | st.floats(0, 100), st.integers(0, 1000))
delays = st.builds(
    RequestedDelay, st.timedeltas(timedelta(0), timedelta(days=400)), st.sampled_from(["ttl", "Retry-After"])
)
errors_before = st.integers(0, 1000)


def plan(
    outcome: Read | Failed,
    *,
    base: timedelta = QUARTER,
    adaptive: AdaptiveInterval | None = None,
    errors: int = 0,
    delay: RequestedDelay | None = None,
    chance: float = 0.0,
) -> PollPlan:
    return plan_next_poll(
        NOW,
        base=base,
        adaptive_interval=adaptive,
        errors=errors,
        outcome=outcome,
        requested_delay=delay,
        chance=chance,
    )


@pytest.mark.parametrize(
    ("reason", "waits", "unread", "expected"),
    [
        (Reason.HOST_BUSY, timedelta(seconds=30), timedelta(minutes=20), False),
        (Reason.CONNECTION_LOST, timedelta(seconds=1), timedelta(minutes=20), False),
        (Reason.HOST_BUSY, timedelta(minutes=10), timedelta(minutes=20), True),
        (Reason.HOST_BUSY, timedelta(seconds=30), timedelta(hours=2), True),
        (Reason.HOST_CLOSED, timedelta(seconds=30), timedelta(minutes=20), True),
        (Reason.ROBOTS_UNREACHABLE, timedelta(minutes=10), timedelta(0), True),
        (Reason.HOST_GONE, timedelta(hours=24), timedelta(0), True),
    ],
)
def test_a_poll_that_is_put_off_has_failed_unless_its_host_is_busy_for_a_short_time(
    reason: Reason, waits: timedelta, unread: timedelta, expected: bool
) -> None:
    """Spec 11.3."""
    assert is_failed_wait(reason, waits, unread, QUARTER) is expected


@given(outcomes, adaptives, errors_before)
def test_a_manual_poll_adapts_nothing(outcome: Read | Failed, adaptive: AdaptiveInterval | None, errors: int) -> None:
    """Issue 20."""
    planned = plan_next_poll(
        NOW,
        base=QUARTER,
        adaptive_interval=adaptive,
        errors=errors,
        outcome=outcome,
        requested_delay=None,
        chance=0.0,
        is_manual=True,
    )
    first = AdaptiveInterval() if isinstance(outcome, Read) else None
    assert planned.adaptive_interval == (adaptive or first)
    assert planned.errors <= max(errors, 1)


def wait(outcome: Read | Failed, **given: object) -> timedelta:
    return plan(outcome, **given).at - NOW  # type: ignore[arg-type]


@given(bases, st.lists(st.tuples(outcomes, chances), max_size=60))
def test_no_sequence_of_polls_leaves_the_floor_and_the_ceiling(
    base: timedelta, polls: list[tuple[Read | Failed, float]]
) -> None:
    adaptive, errors = None, 0
    for outcome, chance in polls:
        following = plan(outcome, base=base, adaptive=adaptive, errors=errors, chance=chance)
        waited = following.at - NOW
        assert waited >= interval_limits(base)[0]
        assert waited <= max(interval_limits(base)[1] * 1.1 if isinstance(outcome, Read) else DAY, base * 1.1)
        errors, stored = (
            following.errors,
            following.adaptive_interval and json.loads(json.dumps(following.adaptive_interval.to_json())),
        )
        adaptive = AdaptiveInterval.from_json(stored)
        assert adaptive == following.adaptive_interval


@pytest.mark.parametrize(
    ("minutes", "shortest", "longest"),
    [(1, 1, 4), (4, 4, 16), (6, 5, 24), (15, 5, 60), (60, 20, 240), (600, 200, 1440), (2000, 2000 / 3, 2000)],
)
def test_an_interval_adapts_between_a_third_and_four_times_itself(
    minutes: int, shortest: float, longest: float
) -> None:
    base = timedelta(minutes=minutes)
    assert interval_limits(base) == (timedelta(minutes=shortest), timedelta(minutes=longest))


@given(bases, adaptives, errors_before, outcomes, delays, chances)
def test_it_is_never_sooner_than_the_publisher_asks_and_asking_only_lengthens(
    base: timedelta,
    adaptive: AdaptiveInterval | None,
    errors: int,
    outcome: Read | Failed,
    delay: RequestedDelay,
    chance: float,
) -> None:
    unasked = plan(outcome, base=base, adaptive=adaptive, errors=errors, chance=chance)
    heard = plan(outcome, base=base, adaptive=adaptive, errors=errors, chance=chance, delay=delay)
    least = min(delay.wait, LONGEST_REQUESTED_WAIT)
    assert heard.at >= max(unasked.at, NOW + least)
    assert heard.at <= max(unasked.at, NOW + least * 1.1 + TINY)
    assert (heard.errors, heard.adaptive_interval) == (unasked.errors, unasked.adaptive_interval)


@given(bases, adaptives, errors_before, chances)
def test_each_error_waits_as_long_as_the_one_before_or_longer_and_at_most_a_day(
    base: timedelta, adaptive: AdaptiveInterval | None, errors: int, chance: float
) -> None:
    following = plan(Failed(), base=base, adaptive=adaptive, errors=errors, chance=chance)
    assert following.errors == errors + 1
    assert following.adaptive_interval == adaptive
    assert following.at <= plan(Failed(), base=base, adaptive=adaptive, errors=errors + 1, chance=chance).at
    assert min(base * 2, max(DAY, base)) <= following.at - NOW <= max(DAY, base * 1.1)


@given(bases, adaptives)
def test_an_error_never_brings_the_next_poll_forward(base: timedelta, adaptive: AdaptiveInterval | None) -> None:
    usual = (
        interval_limits(base)[0]
        if adaptive is None
        else min(max(base * adaptive.stretch, interval_limits(base)[0]), interval_limits(base)[1])
    )
    assert wait(Failed(), base=base, adaptive=adaptive) >= usual


def test_errors_double_the_interval_up_to_a_day() -> None:
    waits = [wait(Failed(), errors=errors) / QUARTER for errors in range(8)]
    assert waits == [2, 4, 8, 16, 32, 64, 96, 96]


@given(bases, adaptives, errors_before, chances)
def test_a_failure_of_ours_is_not_charged_and_waits_one_interval_at_most(
    base: timedelta, adaptive: AdaptiveInterval | None, errors: int, chance: float
) -> None:
    following = plan(Failed(is_ours=True), base=base, adaptive=adaptive, errors=errors, chance=chance)
    assert (following.errors, following.adaptive_interval) == (errors, adaptive)
    assert interval_limits(base)[0] <= following.at - NOW <= base


@given(bases, adaptives, errors_before, reads)
def test_one_good_poll_forgives_all_errors(
    base: timedelta, adaptive: AdaptiveInterval | None, errors: int, outcome: Read
) -> None:
    following = plan(outcome, base=base, adaptive=adaptive, errors=errors)
    assert following.errors == 0
    assert following == plan(outcome, base=base, adaptive=adaptive, errors=0)


@given(bases, adaptives, st.integers(1, 50))
@example(timedelta(hours=1), AdaptiveInterval(1 / 3), 20)
@example(timedelta(hours=1), AdaptiveInterval(4.0), 20)
def test_the_more_of_a_poll_is_new_the_sooner_is_the_next(
    base: timedelta, adaptive: AdaptiveInterval | None, seen: int
) -> None:
    waits = [wait(Read(seen, new), base=base, adaptive=adaptive) for new in range(seen + 1)]
    assert waits == sorted(waits, reverse=True)


@given(bases, st.floats(0, 100), st.floats(0, 100), reads)
def test_a_longer_interval_so_far_never_makes_the_next_one_shorter(
    base: timedelta, one: float, other: float, outcome: Read
) -> None:
    short, long = sorted((one, other))
    shorter = wait(outcome, base=base, adaptive=AdaptiveInterval(short))
    assert shorter <= wait(outcome, base=base, adaptive=AdaptiveInterval(long)) + TINY


@given(bases, adaptives.filter(bool))
def test_a_source_with_nothing_new_is_asked_step_by_step_less_often(
    base: timedelta, adaptive: AdaptiveInterval
) -> None:
    waits = []
    for _ in range(14):
        following = plan(Read(), base=base, adaptive=adaptive)
        assert following.adaptive_interval is not None
        adaptive = following.adaptive_interval
        waits.append(following.at - NOW)
    assert all(before <= after <= max(before * 2.2, base) for before, after in pairwise(waits))
    assert waits[-1] == interval_limits(base)[1]


@given(bases, adaptives.filter(bool))
def test_a_source_with_a_little_new_returns_to_its_own_interval(base: timedelta, adaptive: AdaptiveInterval) -> None:
    for _ in range(8):
        following = plan(Read(20, 1), base=base, adaptive=adaptive)
        assert following.adaptive_interval is not None
        adaptive = following.adaptive_interval
    assert abs(following.at - NOW - base) <= TINY
    assert following.why == f"Every {format_duration(base)}."


@given(bases, adaptives.filter(bool))
def test_a_source_that_overflows_its_window_is_read_as_often_as_may_be(
    base: timedelta, adaptive: AdaptiveInterval
) -> None:
    assert wait(Read(20, 20), base=base, adaptive=adaptive) == interval_limits(base)[0]


@given(bases, reads)
def test_the_first_reading_says_nothing_of_the_pace(base: timedelta, outcome: Read) -> None:
    assert wait(outcome, base=base, adaptive=None) == base


def test_an_interval_that_is_set_anew_counts_at_once() -> None:
    stretched = AdaptiveInterval(2.0)
    assert wait(Read(20, 1), adaptive=stretched) < timedelta(minutes=30)
    assert wait(Read(20, 1), base=timedelta(hours=5), adaptive=stretched) > timedelta(hours=5)


@given(bases, adaptives, errors_before, outcomes, st.none() | delays, chances)
def test_chance_adds_up_to_a_tenth_and_takes_nothing_away(
    base: timedelta,
    adaptive: AdaptiveInterval | None,
    errors: int,
    outcome: Read | Failed,
    delay: RequestedDelay | None,
    chance: float,
) -> None:
    least = wait(outcome, base=base, adaptive=adaptive, errors=errors, delay=delay)
    assert (
        least <= wait(outcome, base=base, adaptive=adaptive, errors=errors, delay=delay, chance=chance) <= least * 1.1
    )


def test_sources_with_the_same_delay_are_polled_at_different_times() -> None:
    hour = RequestedDelay(timedelta(hours=1), "ttl")
    assert [wait(Read(), delay=hour, chance=chance) for chance in (0, 0.5, 1)] == [
        timedelta(minutes=60),
        timedelta(minutes=63),
        timedelta(minutes=66),
    ]


@pytest.mark.parametrize(
    ("following", "values"),
    [
        (plan(Read(20, 20)), ["15 minutes"]),
        (plan(Read(), adaptive=AdaptiveInterval()), ["15 minutes", "18.8 minutes"]),
        (plan(Read(), adaptive=AdaptiveInterval(4.0, 11)), ["15 minutes", "60 minutes", "12 polls"]),
        (plan(Read(20, 15), adaptive=AdaptiveInterval()), ["15 minutes", "10 minutes"]),
        (plan(Read(20, 20), adaptive=AdaptiveInterval()), ["15 minutes", "5 minutes"]),
        (plan(Read(20, 1), adaptive=AdaptiveInterval(4.0)), ["15 minutes", "30 minutes"]),
        (plan(Read(1, 1), base=timedelta(minutes=1), adaptive=AdaptiveInterval()), ["60 seconds"]),
        (plan(Failed()), ["15 minutes"]),
        (plan(Failed(), errors=2), ["3 times", "15 minutes"]),
        (plan(Failed(), errors=11), ["12 times", "15 minutes", "24 hours"]),
        (plan(Failed(), adaptive=AdaptiveInterval(4.0)), ["60 minutes"]),
        (plan(Failed(), base=timedelta(days=7), errors=4), ["5 times", "7 days"]),
        (plan(Failed(is_ours=True), errors=4), ["15 minutes"]),
        (plan(Read(), delay=RequestedDelay(timedelta(hours=1), "ttl")), ["60 minutes", "ttl"]),
        (plan(Failed(), delay=RequestedDelay(timedelta(days=30), "Retry-After")), ["30 days", "Retry-After", "7 days"]),
        (plan(Read(), delay=RequestedDelay(timedelta(minutes=10), "max-age")), ["15 minutes"]),
    ],
)
def test_the_reason_of_the_next_poll_names_its_values(following: PollPlan, values: list[str]) -> None:
    assert [value for value in values if value not in following.why] == []


@given(st.none() | st.integers() | st.dictionaries(st.sampled_from(["stretch", "quiet"]), st.floats() | st.integers()))
@example({"stretch": "2", "quiet": 1})
@example({"stretch": float("nan"), "quiet": 1})
@example({"stretch": 10**400, "quiet": 1})
def test_any_stored_adaptive_interval_is_usable_or_none(stored: object) -> None:
    assert wait(Read(20, 1), adaptive=AdaptiveInterval.from_json(stored)) >= interval_limits(QUARTER)[0]


@given(bases, st.integers(1, 5000))
def test_first_polls_of_many_are_spread_within_one_interval_and_of_few_start_at_once(
    base: timedelta, count: int
) -> None:
    times = [first_poll_at(NOW, interval=base, index=index, count=count) for index in range(count)]
    assert times[0] == NOW
    assert times == sorted(times)
    assert times[-1] < NOW + min(base, timedelta(seconds=count)) + TINY
    if count * FIRST_GAP > base:
        assert max(times) > NOW + base * 0.9 - FIRST_GAP


@pytest.mark.parametrize(
    ("items", "new_items", "overflow"), [(20, 20, True), (3, 3, True), (20, 19, False), (2, 2, False), (0, 0, False)]
)
def test_a_feed_overflows_when_it_has_no_known_entry(items: int, new_items: int, overflow: bool) -> None:
    assert is_overflow(items=items, new_items=new_items) is overflow


@pytest.mark.parametrize(
    ("headers", "ttl", "expected"),
    [
        ({}, None, None),
        ({}, 0, None),
        ({}, -5, None),
        ({}, 3600, (3600, "ttl")),
        ({}, 10**30, (86_400, "ttl")),
        ({"cache-control": "max-age=600"}, None, (600, "max-age")),
        ({"cache-control": "Public, Max-Age = 600 , must-revalidate"}, None, (600, "max-age")),
        ({"cache-control": 'max-age="600"'}, None, (600, "max-age")),
        ({"cache-control": "public;max-age=600"}, None, (600, "max-age")),
        ({"cache-control": "max-age=600, max-age=900"}, None, (600, "max-age")),
        ({"cache-control": 'private="a, max-age=9", max-age=600'}, None, (600, "max-age")),
        ({"cache-control": "max-age=600", "age": "200"}, None, (400, "max-age")),
        ({"cache-control": "max-age=600", "age": "900"}, None, None),
        ({"cache-control": "max-age=600", "age": "long ago"}, None, (600, "max-age")),
        ({"cache-control": f"max-age={'9' * 5000}"}, None, (86_400, "max-age")),
        ({"cache-control": "max-age=0"}, None, None),
        ({"cache-control": "max-age=-600"}, None, None),
        ({"cache-control": "max-age=ten"}, None, None),
        ({"cache-control": "max-age=٣"}, None, None),
        ({"cache-control": "max-age"}, None, None),
        ({"cache-control": 'max-age="600'}, None, None),
        ({"cache-control": "s-maxage=600"}, None, None),
        ({"cache-control": "x-max-age=600"}, None, None),
        ({"cache-control": "no-cache, max-age=600"}, None, None),
        ({"cache-control": "no-store, max-age=600"}, None, None),
        ({"expires": "Thu, 01 Jan 2099 00:00:00 GMT"}, None, None),
        ({"retry-after": "120"}, None, (120, "Retry-After")),
        ({"retry-after": "Sun, 29 Mar 2026 01:00:00 GMT"}, None, (3600, "Retry-After")),
        ({"retry-after": "0"}, None, None),
        ({"retry-after": "soon"}, None, None),
        ({"retry-after": "120", "cache-control": "max-age=600"}, 300, (600, "max-age")),
        ({"retry-after": "900", "cache-control": "max-age=600"}, 300, (900, "Retry-After")),
    ],
)
def test_the_delay_that_a_publisher_requests_is_read(
    headers: dict[str, str], ttl: int | None, expected: tuple[int, str] | None
) -> None:
    delay = read_requested_delay(headers, ttl, NOW)
    assert delay == (expected and RequestedDelay(timedelta(seconds=expected[0]), expected[1]))


pieces = ["max-age", "no-store", "=", '"', ",", ";", " ", "\t", "600", "-1", "9" * 40, "é", "٣"]
scraps = st.lists(st.sampled_from(pieces)).map("".join)


@given(scraps, scraps, scraps, st.none() | st.integers())
def test_no_header_is_an_error(cache_control: str, age: str, retry_after: str, ttl: int | None) -> None:
    headers = {"cache-control": cache_control, "age": age, "retry-after": retry_after}
    delay = read_requested_delay(headers, ttl, NOW)
    assert delay is None or timedelta(0) < delay.wait <= DAY


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (timedelta(seconds=0.4), "0 seconds"),
        (timedelta(seconds=1.4), "1 second"),
        (timedelta(seconds=60), "60 seconds"),
        (timedelta(minutes=15), "15 minutes"),
        (timedelta(minutes=90), "90 minutes"),
        (timedelta(minutes=150), "2.5 hours"),
        (timedelta(hours=24), "24 hours"),
        (timedelta(days=7), "7 days"),
    ],
)
def test_a_length_of_time_is_said_as_people_do(length: timedelta, words: str) -> None:
    assert format_duration(length) == words


LOOK = timedelta(seconds=30)
AT_ONCE = 10
SLACK = timedelta(minutes=2)  # a look, the polls before it and its own
OUTAGE = (NOW + timedelta(hours=12), NOW + timedelta(hours=13))


@dataclass
class SimulatedFeed:
    base: timedelta
    publishes_every: timedelta
    fails: float  # how often
    broken: tuple[datetime, datetime] | None
    delay: RequestedDelay | None
    due: datetime
    adaptive: AdaptiveInterval | None = None
    errors: int = 0
    read_to: datetime | None = None  # when the newest entry read was published
    polls: list[tuple[datetime, Read | Failed, PollPlan]] = field(default_factory=list)

    def poll(self, now: datetime, random: Random) -> None:
        outcome = self._answer(now, random)
        following = plan_next_poll(
            now,
            base=self.base,
            adaptive_interval=self.adaptive,
            errors=self.errors,
            outcome=outcome,
            requested_delay=self.delay if isinstance(outcome, Read) else None,
            chance=random.random(),
        )
        self.due, self.adaptive, self.errors = following.at, following.adaptive_interval, following.errors
        self.polls.append((now, outcome, following))

    def _answer(self, now: datetime, random: Random) -> Read | Failed:
        if OUTAGE[0] <= now < OUTAGE[1]:
            return Failed(is_ours=True)
        if random.random() < self.fails or (self.broken and self.broken[0] <= now < self.broken[1]):
            return Failed()
        if self.read_to is None:
            self.read_to = now
            return Read(20, 20)
        published = int((now - self.read_to) / self.publishes_every)
        self.read_to += published * self.publishes_every
        return Read(20, min(published, 20)) if published else Read()


def a_day_of_a_thousand_feeds() -> list[SimulatedFeed]:
    """Poll like the poller: the earliest due feed is first, with a claim every 30 s and when a slot is free."""
    random = Random(7)
    feeds = [
        SimulatedFeed(
            base=timedelta(minutes=random.choice([2, 5, *[15] * 11, *[30] * 5, 60, 240, 600])),
            publishes_every=timedelta(minutes=random.choice([0.2, 2, 10, 60, 300, 5000])),
            fails=random.choice([0, 0, 0, 0.02, 0.3]),
            broken=random.choice([None] * 9 + [(NOW + timedelta(hours=8), NOW + timedelta(hours=16))]),
            delay=random.choice([None] * 9 + [RequestedDelay(timedelta(minutes=40), "ttl")]),
            due=first_poll_at(NOW, interval=QUARTER, index=index, count=1000),
        )
        for index in range(1000)
    ]
    waiting = [(feed.due, index) for index, feed in enumerate(feeds)]
    heapq.heapify(waiting)
    ends: list[tuple[datetime, int]] = []
    now, look = NOW, NOW
    while now < NOW + DAY:
        while ends and ends[0][0] <= now:
            ended, index = heapq.heappop(ends)
            feeds[index].poll(ended, random)
            heapq.heappush(waiting, (feeds[index].due, index))
        while waiting[0][0] <= now and len(ends) < AT_ONCE:
            heapq.heappush(ends, (now + timedelta(seconds=random.uniform(0.1, 2)), heapq.heappop(waiting)[1]))
        look = now + LOOK
        now = min(look, ends[0][0]) if len(ends) == AT_ONCE else look
    return feeds


@pytest.fixture(scope="module")
def day() -> list[SimulatedFeed]:
    return a_day_of_a_thousand_feeds()


def test_no_feed_starves_in_a_day(day: list[SimulatedFeed]) -> None:
    for feed in day:
        assert feed.polls[0][0] <= NOW + QUARTER + SLACK
        assert feed.due >= NOW + DAY - SLACK
        for (before, outcome, following), (after, _, _) in pairwise(feed.polls):
            asked = feed.delay.wait if feed.delay else timedelta(0)
            longest = (
                interval_limits(feed.base)[1]
                if isinstance(outcome, Read)
                else feed.base * 2 ** max(following.errors, 2)
            )
            assert after - before <= max(longest, asked) * 1.1 + SLACK


def test_no_feed_is_polled_faster_than_its_floor_or_than_it_asks_in_a_day(day: list[SimulatedFeed]) -> None:
    for feed in day:
        for (before, outcome, _), (after, _, _) in pairwise(feed.polls):
            asked = feed.delay.wait if feed.delay and isinstance(outcome, Read) else timedelta(0)
            assert after - before >= max(interval_limits(feed.base)[0], asked)


def test_an_hour_without_network_is_not_charged_and_ends_within_an_interval(day: list[SimulatedFeed]) -> None:
    caught = 0
    for feed in day:
        errors_then, in_outage = 0, list[datetime]()
        for polled, outcome, following in feed.polls:
            if outcome == Failed(is_ours=True):
                assert following.errors == errors_then
                in_outage.append(polled)
            elif in_outage:
                assert polled <= max(OUTAGE[1], in_outage[-1] + feed.base) + SLACK
                break
            errors_then = following.errors
        caught += bool(in_outage)
    assert caught > 500
    healthy = [feed for feed in day if not feed.fails and not feed.broken]
    assert healthy
    assert all(following.errors == 0 for feed in healthy for _, _, following in feed.polls)


def test_polls_of_a_day_come_in_no_herds(day: list[SimulatedFeed]) -> None:
    due = Counter(following.at.replace(second=0, microsecond=0) for feed in day for _, _, following in feed.polls)
    assert due.total() > 30_000
    assert max(due.values()) <= 3 * due.total() / (24 * 60)
