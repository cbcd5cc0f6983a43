"""The pure rules: priority, back-off, politeness, polling, days."""

from datetime import UTC, date, datetime, timedelta
from email.utils import format_datetime
from uuid import uuid4

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.core import backoff, dates, politeness
from headwater.core.frontier import HostRecord, Origin
from headwater.core.reasons import Reason
from headwater.frontier.submit import HIGHEST, LOWEST, priority
from headwater.http.responses import reason_of_status
from headwater.politeness import host_lease

NOW = datetime(2026, 3, 12, 12, 0, tzinfo=UTC)


def lease_with(
    crawl_delay_ms: int | None, default_ms: int, backoff_ms: int, politeness_key: str = "a.test"
) -> host_lease.HostLease:
    host = HostRecord("a.test", politeness_key, crawl_delay_ms, backoff_ms)
    return host_lease.HostLease(host, uuid4(), NOW, default_ms)


@given(st.integers(1, 10), st.sampled_from(Origin), st.integers(0, 50))
def test_priority_stays_in_bounds_and_falls_with_depth(base: int, origin: Origin, depth: int) -> None:
    """Spec 2.2."""
    here = priority(base, origin, depth)
    assert LOWEST <= here <= HIGHEST
    assert priority(base, origin, depth + 1) <= here


@given(st.integers(1, 10), st.integers(1, 10), st.sampled_from(Origin), st.integers(0, 12))
def test_of_two_sources_the_more_important_never_goes_last(one: int, other: int, origin: Origin, depth: int) -> None:
    """Spec 2.2."""
    less, more = sorted((one, other))
    assert priority(less, origin, depth) <= priority(more, origin, depth)
    assert priority(one, origin) == min(HIGHEST, one + {Origin.FEED: 2, Origin.SITEMAP: 1}.get(origin, 0))


def test_a_feed_goes_before_a_sitemap_before_a_spider() -> None:
    """Spec 2.2."""
    assert [priority(5, origin) for origin in (Origin.FEED, Origin.SITEMAP, Origin.SPIDER)] == [7, 6, 5]


@given(st.integers(1, 60), st.floats(0, 1e4), st.floats(0, 1))
def test_a_retry_waits_longer_each_time_but_never_over_a_day(attempts: int, base: float, chance: float) -> None:
    """Spec 4.2."""
    wait = backoff.retry_wait(attempts, base, 0.0)
    assert wait <= backoff.retry_wait(attempts + 1, base, 0.0) <= backoff.LONGEST_RETRY
    assert wait <= backoff.retry_wait(attempts, base, chance) <= backoff.LONGEST_RETRY


@given(st.integers(1, 8), st.floats(0.001, 60), st.floats(0, 1))
def test_a_retry_waits_twice_as_long_as_the_one_before_and_a_quarter_more_at_most(
    attempts: int, base: float, chance: float
) -> None:
    """Spec 4.2."""
    wait = backoff.retry_wait(attempts, base, 0.0)
    assert backoff.retry_wait(attempts + 1, base, 0.0) / wait == pytest.approx(2, rel=0.01)
    assert wait <= backoff.retry_wait(attempts, base, chance) <= wait * 1.26


@given(st.integers(1, 60), st.lists(st.integers(0, 500), min_size=2, max_size=2, unique=True))
def test_urls_that_were_lost_more_than_once_return_one_after_the_other(attempts: int, places: list[int]) -> None:
    """Spec 2.4."""
    first, second = (backoff.wait_after_loss(attempts, place) for place in sorted(places))
    if attempts == 1:
        assert first == second == timedelta(0)
    else:
        assert second - first >= timedelta(seconds=1)


@given(st.integers(0, 10**30))
def test_retry_after_in_seconds_is_what_it_says_up_to_a_day(seconds: int) -> None:
    """Spec 4.2."""
    assert backoff.read_retry_after(str(seconds), NOW) == timedelta(seconds=min(seconds, 86400))


@given(st.integers(-(10**6), 10**6))
def test_retry_after_as_a_date_is_the_time_until_then_up_to_a_day(seconds: int) -> None:
    """Spec 4.2."""
    header = format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)
    assert backoff.read_retry_after(header, NOW) == timedelta(seconds=max(0, min(seconds, 86400)))


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("120", 120),
        (" 7 ", 7),
        ("0", 0),
        ("999999999999999999999", 86400),
        ("Thu, 12 Mar 2026 12:01:00 GMT", 60),
        ("Thu, 12 Mar 2026 11:00:00 GMT", 0),
        ("Thu, 12 Mar 2036 12:01:00 GMT", 86400),
        ("soon", None),
        ("-5", None),
        ("", None),
        ("Thu, 99 Mar 2026 12:01:00 GMT", None),
    ],
)
def test_retry_after_is_read_in_both_forms_and_capped(header: str | None, seconds: float | None) -> None:
    """Spec 4.2."""
    wait = backoff.read_retry_after(header, NOW)
    assert wait == (None if seconds is None else timedelta(seconds=seconds))


@example("Mon, 01 Jan 99999999999 00:00:00 GMT")
@given(st.text(max_size=40))
def test_no_retry_after_header_is_an_error(header: str) -> None:
    wait = backoff.read_retry_after(header, NOW)
    assert wait is None or timedelta(0) <= wait <= backoff.LONGEST_RETRY


@pytest.mark.parametrize(
    ("crawl_delay", "backoff_ms", "expected_ms"),
    [(None, 0, 1000), (0, 0, 0), (5000, 0, 5000), (None, 4000, 4000), (5000, 4000, 5000)],
)
def test_the_hosts_own_wish_goes_before_the_default(crawl_delay: int | None, backoff_ms: int, expected_ms: int) -> None:
    """Spec 4.1."""
    assert lease_with(crawl_delay, 1000, backoff_ms).delay == timedelta(milliseconds=expected_ms)


def test_a_crawl_delay_is_cut_at_the_cap() -> None:
    """Spec 4.1."""
    assert host_lease.capped_crawl_delay_ms(86400, 60) == 60_000
    assert host_lease.capped_crawl_delay_ms(-1, 60) == 0
    assert host_lease.capped_crawl_delay_ms(None, 60) is None


delays = st.one_of(st.none(), st.integers(0, 3_600_000))


@given(delays, st.integers(0, 3_600_000), st.integers(0, host_lease.LONGEST_BACKOFF_MS), st.booleans())
def test_no_host_is_asked_sooner_than_it_wishes_or_its_back_off_says(
    crawl_delay: int | None, default: int, backoff_ms: int, shared: bool
) -> None:
    """Spec 4.1, 4.2: nor, where it shares its turn, sooner than the others wish."""
    lease = lease_with(crawl_delay, default, backoff_ms, politeness_key="group:g" if shared else "a.test")
    pause = lease.delay / timedelta(milliseconds=1)
    asked = [backoff_ms, default if crawl_delay is None else crawl_delay, *([default] if shared else [])]
    assert pause == max(asked)


@given(st.integers(1, 200), st.integers(0, 60_000), st.floats(0, 1))
def test_each_complaint_slows_down_at_least_twofold_up_to_an_hour(times: int, delay_ms: int, chance: float) -> None:
    """Spec 4.2."""
    in_force = timedelta(milliseconds=delay_ms)
    for _ in range(times):
        longer = timedelta(milliseconds=host_lease.longer_backoff(in_force, chance))
        longest = timedelta(milliseconds=host_lease.LONGEST_BACKOFF_MS)
        assert min(2 * in_force, longest) <= longer <= longest
        assert longer <= max(timedelta(seconds=1), 2.5 * in_force)
        in_force = longer


@given(st.integers(0, host_lease.LONGEST_BACKOFF_MS), st.integers(0, 10_000))
def test_good_answers_shorten_a_back_off_and_never_lengthen_it(backoff_ms: int, seconds: int) -> None:
    """Spec 4.2: forgiven after quiet."""
    quiet = timedelta(seconds=seconds)
    left = host_lease.shorter_backoff(backoff_ms, NOW - quiet, NOW)
    assert left == (0 if quiet >= host_lease.QUIET else backoff_ms // 2)
    assert host_lease.shorter_backoff(backoff_ms, None, NOW) == 0


@given(st.floats(allow_nan=False), st.floats(0, 3600))
def test_no_crawl_delay_is_over_the_cap_or_under_nothing(wished: float, cap: float) -> None:
    """Spec 4.1."""
    delay_ms = host_lease.capped_crawl_delay_ms(wished, cap)
    assert delay_ms is not None
    assert 0 <= delay_ms <= cap * 1000
    if 0 <= wished <= cap:
        assert delay_ms == int(wished * 1000)


labels = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
suffixes = st.sampled_from(["org", "co.uk", "github.io", "example", "com"])


@given(labels, suffixes, st.lists(labels, max_size=3), st.sampled_from(["", ":8080"]))
def test_all_hosts_below_a_registrable_domain_share_its_turn(
    name: str, suffix: str, below: list[str], port: str
) -> None:
    """Spec 2.3."""
    domain = f"headwater-{name}.{suffix}"  # a name that is on no list of suffixes
    host = ".".join([*below, domain]) + port
    assert politeness.domain_key(host) == f"domain:{domain}"
    assert politeness.own_key(host) == host


def test_a_429_doubles_the_delay_with_a_little_by_chance() -> None:
    """Spec 4.2."""
    assert host_lease.longer_backoff(timedelta(seconds=1), 0) == 2000
    assert host_lease.longer_backoff(timedelta(seconds=2), 0) == 4000
    assert host_lease.longer_backoff(timedelta(seconds=2), 1) == 5000
    assert host_lease.longer_backoff(timedelta(0), 0) == 1000
    assert host_lease.longer_backoff(timedelta(days=9), 0) == host_lease.LONGEST_BACKOFF_MS


def test_a_good_answer_halves_the_back_off_and_a_long_quiet_forgives_it() -> None:
    """Spec 4.2."""
    assert host_lease.shorter_backoff(2000, NOW - timedelta(minutes=5), NOW) == 1000
    assert host_lease.shorter_backoff(1, NOW - timedelta(minutes=5), NOW) == 0
    assert host_lease.shorter_backoff(3_600_000, NOW - host_lease.QUIET, NOW) == 0


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("www.bbc.co.uk", "domain:bbc.co.uk"),
        ("bbc.co.uk:8080", "domain:bbc.co.uk"),
        ("a.b.github.io", "domain:b.github.io"),
        ("co.uk", "co.uk"),
        ("localhost", "localhost"),
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("[::1]:80", "[::1]:80"),
    ],
)
def test_hosts_of_one_registrable_domain_share_a_turn(host: str, key: str) -> None:
    """Spec 2.3."""
    assert politeness.KEYS["domain"](host) == key
    assert politeness.KEYS["host"](host) == host


def test_robots_are_asked_for_again_after_a_day() -> None:
    """Spec 4.1."""
    assert host_lease.robots_are_fresh(NOW - timedelta(hours=23), NOW)
    assert not host_lease.robots_are_fresh(NOW - timedelta(hours=24), NOW)
    assert not host_lease.robots_are_fresh(None, NOW)


@pytest.mark.parametrize(
    ("day", "zone", "hours"),
    [
        (date(2026, 3, 29), "Europe/London", 23),
        (date(2026, 10, 25), "Europe/London", 25),
        (date(2026, 7, 13), "Europe/London", 24),
        (date(2026, 3, 8), "America/New_York", 23),
        (date(2026, 11, 1), "America/New_York", 25),
        (date(2018, 11, 4), "America/Sao_Paulo", 23),  # the clocks skipped midnight itself
    ],
)
def test_a_day_has_as_many_hours_as_its_zone_says(day: date, zone: str, hours: int) -> None:
    """Spec 6.2."""
    start, end = dates.bounds(day, zone)
    assert end - start == timedelta(hours=hours)
    assert dates.day_of(start, zone) == day
    assert dates.day_of(start - timedelta(microseconds=1), zone) == day - timedelta(days=1)
    assert dates.day_of(end, zone) == day + timedelta(days=1)


@given(st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)), st.sampled_from(["Europe/London", "Asia/Kolkata"]))
def test_every_moment_is_in_exactly_the_day_that_bounds_it(naive: datetime, zone: str) -> None:
    """Spec 6.2."""
    moment = naive.replace(tzinfo=UTC)
    start, end = dates.bounds(dates.day_of(moment, zone), zone)
    assert start <= moment < end


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (200, None),
        (204, None),
        (304, None),
        (404, Reason.NOT_FOUND),
        (410, Reason.GONE),
        (403, Reason.HTTP_4XX),
        (408, Reason.HTTP_5XX),
        (425, Reason.HTTP_5XX),
        (429, Reason.RATE_LIMITED),
        (500, Reason.HTTP_5XX),
        (503, Reason.HTTP_5XX),
        (300, Reason.HTTP_ODD),
    ],
)
def test_each_status_has_its_reason(status: int, reason: Reason | None) -> None:
    """Spec 4.2."""
    assert reason_of_status(status) == reason
