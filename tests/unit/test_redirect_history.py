"""When a permanent redirect replaces a source's address (spec 3.2)."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.core.redirect_history import MIN_AGE, MIN_SIGHTINGS, Hop, RedirectHistory, update_redirect_history

NOW = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)
OLD, NEW, OTHER = "https://a.test/feed", "https://b.test/feed", "https://c.test/feed"
PERMANENT = [Hop(301, NEW)]

hops_lists = st.lists(st.builds(Hop, st.sampled_from([301, 301, 308, 302]), st.sampled_from([NEW, OTHER])), max_size=2)
answers = st.sampled_from([(PERMANENT, True), ([Hop(308, OTHER)], True)]) | st.tuples(hops_lists, st.booleans())
runs = st.tuples(answers, st.integers(1, 8), st.timedeltas(timedelta(minutes=1), timedelta(days=1)))


def seen(*hops: Hop, url: str = OLD, is_feed: bool = True) -> RedirectHistory | None:
    return update_redirect_history(None, url=url, hops=hops, is_feed=is_feed, now=NOW)


def after(count: int, every: timedelta) -> tuple[RedirectHistory | None, datetime]:
    """Return the history after `count` polls that all see the same redirect."""
    history = None
    for poll in range(count):
        now = NOW + poll * every
        history = update_redirect_history(history, url=OLD, hops=PERMANENT, is_feed=True, now=now)
    return history, now


@pytest.mark.parametrize(
    ("count", "every", "confirmed"),
    [
        (5, timedelta(hours=12), True),
        (193, timedelta(minutes=15), True),
        (192, timedelta(minutes=15), False),  # 15 minutes less than two days
        (1000, timedelta(minutes=1), False),
        (4, timedelta(days=7), False),
        (5, timedelta(days=7), True),
    ],
)
def test_a_redirect_is_confirmed_after_five_sightings_in_two_days(
    count: int, every: timedelta, confirmed: bool
) -> None:
    history, now = after(count, every)
    assert history is not None
    assert (history.target, history.count, history.is_confirmed(now)) == (NEW, count, confirmed)


@given(st.lists(runs, max_size=10))
def test_a_confirmed_redirect_was_the_only_answer_for_two_days_and_five_polls(
    runs: list[tuple[tuple[list[Hop], bool], int, timedelta]],
) -> None:
    history, now, polls = None, NOW, []
    for (hops, is_feed), later in [(answer, later) for answer, times, later in runs for _ in range(times)]:
        now += later
        history = update_redirect_history(history, url=OLD, hops=hops, is_feed=is_feed, now=now)
        assert history == RedirectHistory.from_json(history and json.loads(json.dumps(history.to_json())))
        polls.append((now, hops, is_feed))
        if history and history.is_confirmed(now):
            same = [poll for poll in polls if poll[0] >= history.first_seen]
            assert len(same) == history.count >= MIN_SIGHTINGS
            assert now - same[0][0] >= MIN_AGE
            for _, hops_then, was_feed in same:
                assert was_feed
                assert hops_then[-1].target == history.target
                assert all(hop.status in (301, 308) for hop in hops_then)


@pytest.mark.parametrize(
    ("hops", "is_feed"),
    [
        ([], True),
        ([Hop(302, NEW)], True),
        ([Hop(307, NEW)], True),
        ([Hop(301, OTHER), Hop(302, NEW)], True),
        ([Hop(302, OTHER), Hop(301, NEW)], True),
        (PERMANENT, False),
    ],
)
def test_a_direct_answer_a_temporary_redirect_or_a_page_clears_the_history(hops: list[Hop], is_feed: bool) -> None:
    history, now = after(100, timedelta(hours=1))
    assert history is not None
    assert history.is_confirmed(now)
    assert update_redirect_history(history, url=OLD, hops=hops, is_feed=is_feed, now=now) is None


def test_a_new_target_starts_a_new_count() -> None:
    history, now = after(100, timedelta(hours=1))
    assert update_redirect_history(history, url=OLD, hops=[Hop(301, OTHER)], is_feed=True, now=now) == RedirectHistory(
        OTHER, now, 1
    )


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
def test_a_redirect_to_http_or_to_a_front_page_is_never_counted(url: str, hops: list[Hop], watched: bool) -> None:
    assert (seen(*hops, url=url) is not None) is watched


@given(st.none() | st.integers() | st.dictionaries(st.sampled_from(["target", "first_seen", "count"]), st.integers()))
@example({"target": NEW, "first_seen": "2026-03-29T12:00:00", "count": 1})
@example({"target": NEW, "first_seen": "yesterday", "count": 1})
@example({"target": None, "first_seen": "2026-03-29T12:00:00Z", "count": 1})
def test_saved_json_of_another_shape_is_ignored(stored: object) -> None:
    assert RedirectHistory.from_json(stored) is None
