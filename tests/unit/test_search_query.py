"""The language of searches (spec 11.10, issue 23)."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.search_query import (
    LONGEST_PHRASE,
    MOST_TERMS,
    Filter,
    list_words,
    parse_query,
    write_query,
)

PIECES = st.one_of(
    st.sampled_from(
        ["OR", "or", '"', "-", ":", "(", ")", "site:", "title:", "lang:", "before:", "'", "\\", "*", "中", "ü"]
    ),
    st.sampled_from([*"-:()'*中ü", '"', "\\", "OR", "or", "site:", "title:", "lang:", "before:"]),
    st.text(max_size=8),
)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("river flood", "(('river') & ('flood'))"),
        ('"old meadow" -rain', "(('old' <1> 'meadow') & !(('rain')))"),
        ("“old meadow”", "(('old' <1> 'meadow'))"),
        ("a b OR c", "(('a') & ('b')) | (('c'))"),
        ("a AND b or c -d", "(('a') & ('b')) | (('c') & !(('d')))"),
        ("OR a OR", "(('a'))"),
        ("covid-19", "(('covid' <1> '19'))"),
        ("水位上升", "(('水位' <1> '位上' <1> '上升'))"),
        ("水位A", "(('水位' <2> 'a'))"),
        ("桥", "(('桥':*))"),
        ('"unclosed phrase', "(('unclosed' <1> 'phrase'))"),
        ("nosuch:field", "(('nosuch' <1> 'field'))"),
        ("!&|", ""),
    ],
)
def test_a_search_is_written_for_postgresql(text: str, written: str) -> None:
    assert write_query(parse_query(text).alternatives) == written


def test_filters_hold_for_the_whole_search() -> None:
    filters = 'site:www.Example.org/x SITE:bücher.example -lang:de-AT category:/world/ topic:"Two Words"'
    query = parse_query(f"a OR b {filters}")
    assert {name: query.get(name) for name in query.filters} == {
        "site": Filter(("www.example.org", "xn--bcher-kva.example")),
        "lang": Filter((), ("de",)),
        "category": Filter(("world",)),
        "topic": Filter(("Two Words",)),
    }
    assert len(query.alternatives) == 2
    assert query.notes == ()


def test_the_strictest_of_several_days_holds() -> None:
    query = parse_query(
        "after:2026-01-01 since:2026-02-01 -before:2026-01-15 before:2026-05-01 before:2026-04-01T06:00Z"
    )
    assert (query.after, query.before) == (datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 4, 1, 6, tzinfo=UTC))


@pytest.mark.parametrize("text", ["before:soon", "lang:klingonisch", "title:...", 'site:""', 'topic:""', "category:/"])
def test_a_filter_that_cannot_be_understood_has_a_note(text: str) -> None:
    assert len(parse_query(f"{text} river {text}").notes) == 1


@given(st.lists(PIECES, max_size=30).map(" ".join) | st.lists(PIECES, max_size=30).map("".join))
def test_every_text_is_a_search(text: str) -> None:
    query = parse_query(text)
    for one in (*query.alternatives, query.title):
        assert all(0 < len(term.words) <= LONGEST_PHRASE for term in (*one.wanted, *one.unwanted))
    written = write_query(query.alternatives)
    assert written.count("(") == written.count(")")
    assert written.count("'") % 2 == 0
    assert set(list_words(query.alternatives)) <= set(written.split("'"))


def test_long_searches_are_cut() -> None:
    assert len(parse_query("x " * 2000).alternatives[0].wanted) == MOST_TERMS
