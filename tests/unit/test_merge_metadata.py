"""Spec 5.1, issue 8: the metadata of a feed and of the page become one article."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.extraction.article import Article
from headwater.extraction.html.metadata import TRUST
from headwater.feeds.results import FeedEntry
from headwater.fetching.commit import drop_future_dates, merge_metadata

MARCH, APRIL = datetime(2024, 3, 5, tzinfo=UTC), datetime(2024, 4, 5, tzinfo=UTC)
SUMMARY = "What the council will do about the old ferries, in a sentence."
PICTURE = "https://example.org/listed.jpg"
ENTRY = FeedEntry("https://example.org/a", "Its title", MARCH, APRIL, SUMMARY, author="By Ann Other", image=PICTURE)
OF_PAGE = {
    "title": "Seen",
    "byline": "Seen Author",
    "published_at": APRIL,
    "updated_at": MARCH,
    "abstract": "Seen.",
    "image": "https://example.org/seen.jpg",
}
OF_FEED = {
    "title": "Its title",
    "byline": "Ann Other",
    "published_at": MARCH,
    "updated_at": APRIL,
    "abstract": SUMMARY,
    "image": PICTURE,
}


def article(place: str) -> Article:
    return replace(
        Article(text="The text."),
        **OF_PAGE,
        provenance=dict.fromkeys(OF_PAGE, place),
        confidence=dict.fromkeys(OF_PAGE, TRUST[place]),
    )


def fields_of(merged: Article) -> dict[str, object]:
    return {name: getattr(merged, name) for name in OF_PAGE}


def test_a_field_that_the_page_lacks_comes_from_the_feed() -> None:
    merged = merge_metadata(Article(text="The text."), ENTRY)
    assert fields_of(merged) == OF_FEED
    assert merged.provenance == dict.fromkeys(OF_FEED, "feed")
    assert merged.confidence.keys() == OF_FEED.keys()
    assert merged.text == "The text."


def test_a_feed_goes_before_what_is_only_seen_on_the_page() -> None:
    merged = merge_metadata(article("dom"), ENTRY)
    assert fields_of(merged) == OF_FEED
    assert set(merged.provenance.values()) == {"feed"}


@pytest.mark.parametrize("place", ["selector", "json-ld", "opengraph"])
def test_structured_data_of_the_page_wins_over_the_feed(place: str) -> None:
    assert merge_metadata(article(place), ENTRY) == article(place)


def test_a_description_goes_before_a_summary_which_may_be_the_beginning_of_the_text() -> None:
    assert merge_metadata(article("meta"), ENTRY).provenance["abstract"] == "meta"
    assert merge_metadata(article("dom"), ENTRY._replace(summary=f" {SUMMARY}\n\x07 ")).abstract == SUMMARY
    for summary in ("Short.", "Cut off " * 40):
        assert merge_metadata(article("dom"), ENTRY._replace(summary=summary)).abstract == "Seen."


@pytest.mark.parametrize("author", ["admin", "someone@example.org", "", "https://example.org/people/7"])
def test_an_author_that_is_no_name_is_not_taken(author: str) -> None:
    assert merge_metadata(article("dom"), ENTRY._replace(author=author)).byline == "Seen Author"


@given(
    place=st.sampled_from(sorted(TRUST)),
    entry=st.builds(
        FeedEntry,
        url=st.none(),
        title=st.text(max_size=5),
        published_at=st.none() | st.just(MARCH),
        updated_at=st.none() | st.just(MARCH),
        summary=st.text(max_size=50),
        author=st.none() | st.text(max_size=5),
        image=st.none() | st.sampled_from(["", "data:,", "/relative", PICTURE]),
    ),
)
def test_a_merge_loses_no_field_and_lowers_no_confidence(place: str, entry: FeedEntry) -> None:
    before = article(place)
    merged = merge_metadata(before, entry)
    assert all(fields_of(merged).values())
    assert all(merged.confidence[name] >= before.confidence[name] for name in OF_PAGE)
    for name, value in fields_of(merged).items():
        assert (merged.provenance[name] == "feed") or value == OF_PAGE[name]


def test_dates_after_the_fetch_are_dropped() -> None:
    """Issue 20: they are closing dates, events or mistakes."""
    now = datetime(2026, 3, 12, 12, 0, tzinfo=UTC)
    dated = replace(article("json-ld"), published_at=now + timedelta(seconds=1), updated_at=now)
    dropped = drop_future_dates(dated, now)
    assert (dropped.published_at, dropped.updated_at, dropped.title) == (None, now, dated.title)
    assert dated.provenance.keys() - dropped.provenance.keys() == {"published_at"}
    assert dated.confidence.keys() - dropped.confidence.keys() == {"published_at"}
    assert drop_future_dates(dated, now + timedelta(seconds=1)) == dated
