"""How sightings of one item become one (spec 6.4)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.source import Item
from headwater.discovery.save import merge_items, unite_tags

WORDS = st.text("abcÄ-1 ", max_size=3)
# A tag has the same type in all sightings: a list, a word, or ids by their names. It may also be missing.
TAGS = st.fixed_dictionaries(
    {},
    optional={
        "topic": st.lists(WORDS, max_size=4),
        "organisations": st.lists(WORDS, max_size=4) | st.none(),
        "document_type": WORDS | st.none(),
        "native_ids": st.fixed_dictionaries({}, optional={"content_id": WORDS, "others": st.lists(WORDS, max_size=3)}),
    },
)
MOMENTS = st.none() | st.sampled_from([datetime(2026, 7, 13, hour, tzinfo=UTC) for hour in range(3)])
RAWS = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2) | WORDS, max_size=3)


@st.composite
def sightings(draw: st.DrawFn) -> list[Item]:
    """Some sightings of an item; no two are of the same record with other tags, as no source gives that."""
    drawn = draw(st.lists(st.tuples(MOMENTS, RAWS, TAGS, WORDS), min_size=1, max_size=5))
    return [
        Item(url="http://a.test/", title=title, updated_at=moment, tags=tags, raw=raw | {"number": number})
        for number, (moment, raw, tags, title) in enumerate(drawn)
    ]


@given(sightings(), st.randoms())
def test_the_order_of_sightings_changes_nothing(items: list[Item], chance: Any) -> None:
    merged = merge_items(items)
    shuffled = list(items)
    chance.shuffle(shuffled)
    assert merge_items(shuffled) == merged


@given(sightings())
def test_the_one_updated_last_is_kept_with_its_raw_and_the_tags_of_all(items: list[Item]) -> None:
    merged = merge_items(items)
    (kept,) = (item for item in items if item.raw == merged.raw)
    assert (merged.title, merged.updated_at) == (kept.title, kept.updated_at)
    dated = [item.updated_at for item in items if item.updated_at]
    assert merged.updated_at == (max(dated) if dated else None)
    for name in ("topic", "organisations"):
        told = [set(item.tags[name]) for item in items if item.tags.get(name) is not None]
        assert (merged.tags.get(name) or []) == sorted(set().union(*told))


def test_tags_may_be_any_mapping() -> None:
    """Spec 6.1: tags of a source can be saved."""
    merged = merge_items([Item(url="http://a.test/", title="", tags=MappingProxyType({"topic": ["a"]}))])
    assert msgspec.json.encode(merged.tags) == b'{"topic":["a"]}'


@given(sightings())
def test_a_merged_item_that_is_seen_again_stays_the_same(items: list[Item]) -> None:
    merged = merge_items(items)
    assert merge_items([merged, merged]) == merged
    assert merge_items([*items, merged]).tags == merged.tags
    assert unite_tags(merged.tags, merged.tags) == merged.tags


@given(st.lists(TAGS, min_size=1, max_size=4))
def test_lists_become_sorted_sets_whatever_was_united_first(several: list[Mapping[str, Any]]) -> None:
    forward: Mapping[str, Any] = {}
    for tags in several:
        forward = unite_tags(forward, tags)
    backward: Mapping[str, Any] = {}
    for tags in reversed(several):
        backward = unite_tags(tags, backward)
    assert forward == backward
    topics = set().union(*(tags.get("topic", ()) for tags in several))
    assert forward.get("topic", []) == sorted(topics)
    assert list(forward) == sorted(forward)


@given(TAGS, TAGS)
def test_the_last_value_that_is_no_list_wins_unless_it_is_none(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    told = [tags["document_type"] for tags in (old, new) if tags.get("document_type") is not None]
    assert unite_tags(old, new).get("document_type") == (told[-1] if told else None)


@given(st.lists(st.one_of(WORDS, st.integers(0, 3), st.dictionaries(WORDS, WORDS, max_size=1)), max_size=6))
def test_anything_can_be_in_a_list(values: list[Any]) -> None:
    united = unite_tags({"tags": values}, {"tags": values[::-1]})["tags"]
    assert all(value in united for value in values)
    assert len(united) == len({repr(value) for value in values})
