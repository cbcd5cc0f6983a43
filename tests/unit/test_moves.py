"""When a source's address is given up for the one it redirects to (spec 3.2)."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.sources.redirect_history import LEAST_AGE, LEAST_SIGHTINGS, Hop, RedirectHistory, watch

NOW = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)
OLD, NEW, OTHER = "https://a.test/feed", "https://b.test/feed", "https://c.test/feed"
FOR_GOOD = [Hop(301, NEW)]

hops_lists = st.lists(st.builds(Hop, st.sampled_from([301, 301, 308, 302]), st.sampled_from([NEW, OTHER])), max_size=2)
answers = st.sampled_from([(FOR_GOOD, True), ([Hop(308, OTHER)], True)]) | st.tuples(hops_lists, st.booleans())
runs = st.tuples(answers, st.integers(1, 8), st.timedeltas(timedelta(minutes=1), timedelta(days=1)))


def seen(*hops: Hop, url: str = OLD, is_feed: bool = True) -> RedirectHistory | None:
    return watch(None, url=url, hops=hops, is_feed=is_feed, now=NOW)


def after(count: int, every: timedelta) -> tuple[RedirectHistory | None, datetime]:
    """Return what is remembered after so many polls that all met the same redirect."""
    move = None
    for poll in range(count):
        now = NOW + poll * every
        move = watch(move, url=OLD, hops=FOR_GOOD, is_feed=True, now=now)
    return move, now


@pytest.mark.parametrize(
    ("count", "every", "learned"),
    [
        (5, timedelta(hours=12), True),
        (193, timedelta(minutes=15), True),
        (192, timedelta(minutes=15), False),  # one quarter of an hour short of two days
        (1000, timedelta(minutes=1), False),
        (4, timedelta(days=7), False),
        (5, timedelta(days=7), True),
    ],
)
def test_a_move_is_learned_after_five_sightings_in_two_days(count: int, every: timedelta, learned: bool) -> None:
    move, now = after(count, every)
    assert move is not None
    assert (move.target, move.count, move.is_learned(now)) == (NEW, count, learned)


@given(st.lists(runs, max_size=10))
def test_what_is_learned_was_the_only_answer_for_two_days_and_five_polls(
    runs: list[tuple[tuple[list[Hop], bool], int, timedelta]],
) -> None:
    move, now, history = None, NOW, []
    for (hops, is_feed), later in [(answer, later) for answer, times, later in runs for _ in range(times)]:
        now += later
        move = watch(move, url=OLD, hops=hops, is_feed=is_feed, now=now)
        assert move == RedirectHistory.from_json(move and json.loads(json.dumps(move.to_json())))
        history.append((now, hops, is_feed))
        if move and move.is_learned(now):
            alike = [poll for poll in history if poll[0] >= move.first_seen]
            assert len(alike) == move.count >= LEAST_SIGHTINGS
            assert now - alike[0][0] >= LEAST_AGE
            for _, hops_then, was_feed in alike:
                assert was_feed
                assert hops_then[-1].target == move.target
                assert all(hop.status in (301, 308) for hop in hops_then)


@pytest.mark.parametrize(
    ("hops", "is_feed"),
    [
        ([], True),
        ([Hop(302, NEW)], True),
        ([Hop(307, NEW)], True),
        ([Hop(301, OTHER), Hop(302, NEW)], True),
        ([Hop(302, OTHER), Hop(301, NEW)], True),
        (FOR_GOOD, False),
    ],
)
def test_a_direct_answer_a_temporary_redirect_and_a_page_start_it_over(hops: list[Hop], is_feed: bool) -> None:
    move, now = after(100, timedelta(hours=1))
    assert move is not None
    assert move.is_learned(now)
    assert watch(move, url=OLD, hops=hops, is_feed=is_feed, now=now) is None


def test_another_target_starts_its_own_count() -> None:
    move, now = after(100, timedelta(hours=1))
    assert watch(move, url=OLD, hops=[Hop(301, OTHER)], is_feed=True, now=now) == RedirectHistory(OTHER, now, 1)


@pytest.mark.parametrize(
    ("url", "hops", "watched"),
    [
        ("http://a.test/feed", [Hop(301, "https://a.test/feed")], True),
        ("http://a.test/feed", [Hop(301, "http://b.test/feed")], True),
        (OLD, [Hop(308, OTHER), Hop(301, NEW)], True),
        (OLD, [Hop(301, "https://a.test/?feed=rss2")], True),
        (OLD, [Hop(301, "https://feeds.b.test/a")], True),
        (OLD, [Hop(301, "http://b.test/feed")], False),
        (OLD, [Hop(301, "http://b.test/feed"), Hop(301, NEW)], False),
        (OLD, [Hop(301, "https://a.test/")], False),
        (OLD, [Hop(301, "https://b.test")], False),
        (OLD, [Hop(301, OTHER), Hop(301, OLD)], False),
    ],
)
def test_a_move_that_could_be_a_trap_or_a_lost_page_is_never_learned(url: str, hops: list[Hop], watched: bool) -> None:
    assert (seen(*hops, url=url) is not None) is watched


@given(st.none() | st.integers() | st.dictionaries(st.sampled_from(["target", "first_seen", "count"]), st.integers()))
@example({"target": NEW, "first_seen": "2026-03-29T12:00:00", "count": 1})
@example({"target": NEW, "first_seen": "yesterday", "count": 1})
@example({"target": None, "first_seen": "2026-03-29T12:00:00Z", "count": 1})
def test_what_was_stored_and_is_no_move_is_forgotten(stored: object) -> None:
    assert RedirectHistory.from_json(stored) is None


def test_it_says_what_is_known_and_what_is_missing() -> None:
    move, now = after(4, timedelta(hours=8))
    assert move is not None
    assert move.told(now) == (
        "It redirects for good to https://b.test/feed, seen 4 times in 24 hours; it is kept after 5 times in 2 days."
    )
    first = seen(*FOR_GOOD)
    assert first is not None
    assert first.told(NOW).startswith("It redirects for good to https://b.test/feed, seen once;")
