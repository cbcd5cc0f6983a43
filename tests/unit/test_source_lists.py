"""Lists of sources in OPML and YAML (spec 3.1)."""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.core.errors import Unreadable
from headwater.sources.import_export import MAX_FILE_BYTES, SourceEntry, read_source_list, write_yaml

OPML = b"""<opml><body><outline text="News"><outline text="A" xmlUrl="https://a.example/feed" htmlUrl="https://a.example/"/>
</outline></body></opml>"""
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def test_opml_is_recognized_by_its_content() -> None:
    settings = {"feed_url": "https://a.example/feed", "site_url": "https://a.example/", "category": "News"}
    assert read_source_list(OPML) == [SourceEntry("feed 1", settings=settings, title="A")]
    assert read_source_list(b"\xef\xbb\xbf\n " + OPML) == read_source_list(OPML)


@pytest.mark.parametrize("prefix", [b"sources:\n", b""])
def test_yaml_lists_sources_flat_or_with_settings(prefix: bytes) -> None:
    found = read_source_list(
        prefix
        + b"""
- feed_url: https://a.example/feed
  category: News
- name: rulings
  kind: court_rulings
  enabled: false
  settings: {list_url: "https://b.example/", since: 2024-01-02, on_sundays: yes}
"""
    )
    line = 3 if prefix else 2
    assert found == [
        SourceEntry(f"line {line}", settings={"feed_url": "https://a.example/feed", "category": "News"}),
        SourceEntry(
            f"line {line + 2}",
            "rulings",
            "court_rulings",
            False,
            {"list_url": "https://b.example/", "since": "2024-01-02", "on_sundays": True},
        ),
    ]


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ("just text", ""),
        ("{name: 12, feed_url: x}", "name: "),
        ("{kind: [], feed_url: x}", "kind: "),
        ("{enabled: maybe, feed_url: x}", "enabled: "),
        ("{settings: 3}", "settings: "),
        ("{feed_url: x, feed_url: y}", "feed_url: "),
        ("{feed_url: x, settings: {feed_url: y}}", "feed_url: "),
        ("{1: x}", ""),
        ("{? [a, b] : x}", ""),
        ("{feed_url: !!python/object:os.system x}", "os.system"),
        ("{feed_url: !!binary aGk=}", ""),
        ("{feed_url: !!timestamp x}", "x: "),
    ],
)
def test_an_unusable_entry_has_an_error_and_the_rest_is_read(entry: str, named: str) -> None:
    first, second = read_source_list(f"- {entry}\n- feed_url: z\n".encode())
    assert first.where == "line 1"
    assert first.error
    assert named in first.error
    assert second == SourceEntry("line 2", settings={"feed_url": "z"})


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"- a: &x 1\n- b: *x\n", "Line 1: "),
        (b"- *x\n", "Line 1: "),
        (b"- [unclosed", "YAML"),
        (b"- \x07", "YAML"),
        (b"feeds: []\n", "feeds"),
        (b"sources: []\nother: 1\n", "other"),
        (b"{}", "`sources`"),
        (b"some words", ""),
        (b"sources: 3", ""),
        (b"<html><body>login</body></html>", "OPML"),
        (b"- " + b"[" * 1_000_000, "Line 1: "),
        (b" " * (MAX_FILE_BYTES + 1), "8 MB"),
        (b"- a\n---\n- b\n", "YAML"),
    ],
)
def test_other_files_are_refused_with_what_is_wrong(body: bytes, named: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read_source_list(body)
    assert named in str(caught.value)


@pytest.mark.parametrize("body", [b"", b"sources:\n", b"[]", b"# nothing yet\n"])
def test_an_empty_list_has_no_entries(body: bytes) -> None:
    assert read_source_list(body) == []


@example({"name": None, "kind": "other"})  # a kind may have settings of these names
@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_a_written_file_is_read_back_unchanged(settings: dict[str, object]) -> None:
    body = write_yaml([{"name": "a", "kind": "k", "enabled": False, "settings": settings}])
    (found,) = read_source_list(body)
    assert found == SourceEntry("line 2", "a", "k", False, settings)


@given(st.binary(max_size=200))
def test_any_bytes_give_entries_or_unreadable(body: bytes) -> None:
    with suppress(Unreadable):
        assert isinstance(read_source_list(body), list)
