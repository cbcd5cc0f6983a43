"""Budgets of APIs that count requests by the rolling hour, against a plain model (spec 1.4)."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core import api_budget
from headwater.core.api_budget import BUCKET, DEFAULT_SPLIT, HOUR, ON_THE_WAY, RESERVE, Allowance, Spent, Split

NOW = datetime(2026, 3, 12, 12, 0, 3, tzinfo=UTC)
TICK = timedelta(microseconds=1)
LONGEST = HOUR + ON_THE_WAY + BUCKET  # a longer count would waste requests
SOURCES = ("bills", "hearings", "crs", "gao")


class Books:
    """The counts in buckets, and next to them a plain model with the time of every request."""

    def __init__(self, limit: int, split: Split) -> None:
        self.limit, self.split = limit, split
        self.exhausted_until: datetime | None = None
        self.counts: Counter[tuple[datetime, str]] = Counter()
        self.sent: list[tuple[datetime, str]] = []

    def allowance(self, child: str) -> Allowance:
        return self.split.allowance(child, self.limit, self.exhausted_until)

    def spent(self, child: str) -> list[Spent]:
        buckets = {bucket for bucket, _ in self.counts}
        return [
            Spent(
                bucket,
                sum(count for (at, _), count in self.counts.items() if at == bucket),
                self.counts[bucket, child],
            )
            for bucket in buckets
        ]

    def take(self, child: str, now: datetime) -> datetime | None:
        again = self.allowance(child).free_at(self.spent(child), now)
        if again is None:
            self.counts[api_budget.bucket_of(now), child] += 1
            self.sent.append((now, child))
        return again

    def model(self, since: datetime, child: str | None = None) -> int:
        return sum(at >= since and child in (None, whose) for at, whose in self.sent)


SECONDS = st.just(0.0) | st.floats(0, 20) | st.floats(0, 2000)
STEPS = st.lists(
    st.one_of(
        # Ask so often, some time later, or some time after the latest time to try again.
        st.tuples(st.sampled_from(["later", "come back"]), SECONDS, st.sampled_from(SOURCES), st.integers(1, 12)),
        st.tuples(st.just("limit"), SECONDS, st.none(), st.integers(1, 60)),
        st.tuples(st.just("empty"), SECONDS, st.none(), st.integers(1, 4000)),
    ),
    max_size=40,
)


@given(st.integers(1, 40), st.dictionaries(st.sampled_from(SOURCES), st.integers(1, 15)), STEPS)
def test_no_rolling_hour_has_more_than_the_limit_and_no_source_more_than_its_share(
    limit: int, overrides: dict[str, int], steps: list[tuple[str, float, str, int]]
) -> None:
    """Spec 1.4: also in the first hour. No source waits much longer than necessary."""
    books, now, told = Books(limit, Split(overrides)), NOW, NOW
    for what, seconds, source, number in steps:
        now = (max(now, told) if what == "come back" else now) + timedelta(seconds=seconds)
        if what == "limit":
            books.limit = number
        elif what == "empty":
            books.exhausted_until = now + timedelta(seconds=number)
        else:
            for _ in range(number):
                told = ask(books, books.split.child_of(source), now) or told


def ask(books: Books, child: str, now: datetime) -> datetime | None:
    """Ask once, and compare the answer with the model."""
    before = [books.model(now - LONGEST + TICK, whose) for whose in (None, child)]
    allowed, spent = books.allowance(child), books.spent(child)
    is_empty = books.exhausted_until is not None and books.exhausted_until > now
    again = books.take(child, now)
    assert (again is None) == (allowed.left(spent, now) > 0)
    if again is None:
        assert not is_empty
        assert books.model(now - HOUR - ON_THE_WAY) <= books.limit
        assert books.model(now - HOUR - ON_THE_WAY, child) <= allowed.share
    else:
        assert is_empty or before[0] >= books.limit or before[1] >= allowed.share
        assert now < again <= max(now + LONGEST, books.exhausted_until or now)
        assert allowed.free_at(spent, again) is None
        assert allowed.free_at(spent, again - TICK) == again
    return again


def test_a_burst_at_the_end_of_an_hour_leaves_nothing_for_the_next_hours_begin() -> None:
    """Spec 1.4: a bucket that starts full and refills would allow it."""
    books = Books(1000, Split({"bills": 1000}))
    late = NOW + timedelta(minutes=59)
    assert [books.take("bills", late) for _ in range(1000)] == [None] * 1000
    again = books.take("bills", late + timedelta(minutes=2))
    assert again
    assert late + HOUR + ON_THE_WAY < again <= late + LONGEST


def test_the_default_split_is_a_thousand_an_hour() -> None:
    """Spec 1.4."""
    shares = {child: Split().allowance(child, 1000).share for child in Split().children}
    assert shares == {
        "bills": 350,
        "regulations_gov": 200,
        "hearings": 150,
        "public_laws": 100,
        "roll_call_votes": 100,
        "reserve": 100,
    }
    assert sum(shares.values()) == 1000


def test_a_larger_limit_scales_every_share() -> None:
    """Spec 1.4: 5,000 gives bills 1,750."""
    assert {child: Split().allowance(child, 5000).share for child in DEFAULT_SPLIT} == {
        child: 5 * share for child, share in DEFAULT_SPLIT.items()
    }
    assert Split().allowance("bills", 5000).share == 1750


@given(st.integers(1, api_budget.LARGEST_LIMIT))
def test_shares_never_sum_to_more_than_a_limit_that_has_one_for_each(limit: int) -> None:
    """Spec 1.4."""
    shares = [Split().allowance(child, limit).share for child in DEFAULT_SPLIT]
    assert min(shares) >= 1
    assert sum(shares) <= max(limit, 10)


def test_an_override_stands_whatever_the_limit_and_the_limit_still_holds() -> None:
    """Spec 1.4."""
    split = Split({"bills": 900, "crs": 20})
    assert split.allowance("bills", 1000).share == split.allowance("bills", 5000).share == 900
    assert split.child_of("crs") == "crs"
    assert split.allowance("crs", 1000).share == 20
    assert split.allowance("hearings", 1000).share == 150
    assert Split({"bills": 900}).allowance("bills", 40).left([], NOW) == 40


def test_a_source_without_a_share_uses_the_reserve() -> None:
    """Spec 1.4."""
    assert Split().child_of("crs") == Split().child_of("gao") == RESERVE
    assert Split().child_of("regulations.gov") == Split().child_of("Regulations-Gov") == "regulations_gov"


@pytest.mark.parametrize(
    ("header", "limit"),
    [
        (None, None),
        ("", None),
        ("1000", 1000),
        (" 5000 ", 5000),
        ("0", None),
        ("-5", None),
        ("many", None),
        ("\u0665\u0660", None),
        ("99999999999999999999", api_budget.LARGEST_LIMIT),
    ],
)
def test_a_limit_is_read_from_its_header(header: str | None, limit: int | None) -> None:
    """Spec 1.4."""
    assert api_budget.read_limit(header) == limit


@given(st.text())
def test_no_limit_header_is_an_error(header: str) -> None:
    limit = api_budget.read_limit(header)
    assert limit is None or 1 <= limit <= api_budget.LARGEST_LIMIT


def test_a_fingerprint_names_a_key_and_does_not_hold_it() -> None:
    """Spec 1.4: the key itself is never kept."""
    key = "hunter2" * 6
    assert api_budget.fingerprint(key) == api_budget.fingerprint(key) != api_budget.fingerprint(key + "x")
    assert len(api_budget.fingerprint(key)) == 16
    assert "hunter2" not in api_budget.fingerprint(key)


@given(st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)).map(lambda naive: naive.replace(tzinfo=UTC)))
def test_every_moment_is_in_one_bucket(moment: datetime) -> None:
    start = api_budget.bucket_of(moment)
    assert start <= moment < start + BUCKET
    assert api_budget.bucket_of(start) == start


@given(st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)).map(lambda naive: naive.replace(tzinfo=UTC)))
def test_the_oldest_bucket_that_counts_is_known(moment: datetime) -> None:
    oldest = api_budget.oldest_counted(moment)
    assert api_budget.spent_lately([Spent(oldest, 3, 2)], moment) == (3, 2)
    assert api_budget.spent_lately([Spent(oldest - BUCKET, 3, 2)], moment) == (0, 0)


def test_a_share_is_drawn_on_by_those_who_have_no_other() -> None:
    split = Split({"votes": 10})
    sources = ["votes", "regulations.gov", "regulations-gov", "rulings", "reserve", "bills"]
    assert split.drawn_by("reserve", sources) == ["reserve", "rulings"]
    assert split.drawn_by("regulations_gov", sources) == ["regulations-gov", "regulations.gov"]
    assert split.drawn_by("hearings", sources) == []


@pytest.mark.parametrize(
    ("status", "body", "refused"),
    [
        (403, b'{"error": {"code": "API_KEY_INVALID", "message": "An invalid api_key was supplied."}}', True),
        (401, b'{"error": {"code": "API_KEY_DISABLED"}}', True),
        (200, b'{"error": {"code": "API_KEY_INVALID"}}', False),
        (403, b'{"error": {"code": "FORBIDDEN", "message": "API_KEY_INVALID is no matter here."}}', False),
        (403, b"<p>API_KEY_INVALID</p>", False),
        (403, b'{"error": "API_KEY_INVALID"}', False),
        (403, b'["API_KEY_INVALID"]', False),
        (403, b'{"error": {"code": 7}}', False),
        (403, b"[" * 4000, False),
        (403, b"\xff", False),
    ],
)
def test_only_an_api_that_names_the_key_refuses_it(status: int, body: bytes, refused: bool) -> None:
    assert api_budget.refuses_key(status, body) is refused
