"""OPML files are read, also if the XML is broken, and written (spec 3.1)."""

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import process_time
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from headwater.core.errors import Unreadable
from headwater.core.reasons import Reason
from headwater.core.text import unescape_html
from headwater.feeds.opml import parse_opml, write_opml
from headwater.feeds.results import OpmlFeed

NOW = datetime(2024, 3, 5, 10, 30, tzinfo=UTC)


def opml(inner: str) -> bytes:
    return f'<?xml version="1.0"?><opml version="2.0"><head><title>T</title></head><body>{inner}</body></opml>'.encode()


def feed(attributes: str) -> OpmlFeed:
    (found,) = parse_opml(opml(f"<outline {attributes}/>"))
    return found


def written(*feeds: OpmlFeed, title: str = "Mine") -> bytes:
    return write_opml(feeds, title=title, now=NOW)


def test_a_feed_has_address_title_and_site() -> None:
    assert feed(
        'type="rss" text="x" title="T &amp; U" xmlUrl=" https://a.example/f?b=1&amp;c=2 " htmlUrl="https://a.example/"'
    ) == (OpmlFeed("https://a.example/f?b=1&c=2", "T & U", "https://a.example/"))


def test_folders_become_the_category() -> None:
    body = opml("""<outline xmlUrl="u:1"/>
        <outline text="News"><outline xmlUrl="u:2"/>
          <outline title="World"><outline xmlUrl="u:3"></outline><outline xmlUrl="u:4"/></outline>
          <outline><outline xmlUrl="u:5"/></outline>
        </outline><outline text="empty"/><outline text=" Arts / Film "><outline xmlUrl="u:6"/></outline>""")
    assert [(found.url, found.category) for found in parse_opml(body)] == [
        ("u:1", ""),
        ("u:2", "News"),
        ("u:3", "News/World"),
        ("u:4", "News/World"),
        ("u:5", "News"),
        ("u:6", "Arts/Film"),
    ]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("xmlUrl='u:1'", OpmlFeed("u:1")),
        ("XMLURL = 'u:1' TEXT='t'", OpmlFeed("u:1", "t")),
        ("xmlurl=u:1 title=t ", OpmlFeed("u:1", "t")),
        (
            "xmlUrl='u:1?a=1&copy=2&b' title='R&D &eacute; &nope; &#38;'",
            OpmlFeed("u:1?a=1&copy=2&b", "R&D \u00e9 &nope; &"),
        ),
        ("title='a\n  b\x00' xmlUrl='u:1'", OpmlFeed("u:1", "a b")),
        ('title="Say "hello" there" xmlUrl="u:1"', OpmlFeed("u:1", "Say")),
        ('title="1 > 0 < 2" xmlUrl="u:1"', OpmlFeed("u:1", "1 > 0 < 2")),
        ('title="t" description="<a href="x">y</a>. <b>z</b>" xmlUrl="u:1"', OpmlFeed("u:1", "t")),
        ("xmlUrl='u:1' xmlUrl='u:2'", OpmlFeed("u:1")),
    ],
)
def test_attributes_are_unescaped_and_read_in_any_case(attributes: str, expected: OpmlFeed) -> None:
    assert feed(attributes) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"<opml><outline xmlUrl='u:1'/>",
        b"<OPML><Outline xmlUrl='u:1'>",
        b"<opml></outline></outline><outline xmlUrl='u:1'/></body>",
        b"<opml><!-- <outline xmlUrl='u:0'/> --><![CDATA[<outline xmlUrl='u:0'/>]]><outline xmlUrl='u:1'/></opml>",
        b"\xef\xbb\xbf\n<?xml version='1.0'?><!DOCTYPE opml [<!ENTITY a 'b'>]><opml><outline xmlUrl='u:1'/></opml>",
        "<?xml version='1.0'?><opml><outline xmlUrl='u:1'/></opml>".encode("utf-16"),
        b"<opml><outline text='' xmlUrl=''/><outline xmlUrl='u:1'/><outline xmlUrl='u:cut",
    ],
)
def test_broken_documents_are_read_as_far_as_possible(body: bytes) -> None:
    assert [found.url for found in parse_opml(body)] == ["u:1"]


@pytest.mark.parametrize(
    ("declared", "codec"), [("iso-8859-1", "latin-1"), ("iso-8859-1", "utf-8"), ("x-none", "utf-8")]
)
def test_the_charset_may_be_declared_wrongly(declared: str, codec: str) -> None:
    body = f"<?xml version='1.0' encoding='{declared}'?><opml><outline xmlUrl='u:1' text='\u00e9'/></opml>".encode(
        codec
    )
    assert parse_opml(body) == [OpmlFeed("u:1", "\u00e9")]


@pytest.mark.parametrize(
    "body",
    [b"", b"\x00\xff", b"<html><body>opml</body></html>", b"<rss></rss>", b"<!-- <opml> -->", b"https://a.example/"],
)
def test_other_documents_are_refused(body: bytes) -> None:
    with pytest.raises(Unreadable, match="not OPML") as caught:
        parse_opml(body)
    assert caught.value.reason is Reason.PARSE_FAILED


def test_an_opml_without_feeds_has_no_feeds() -> None:
    assert parse_opml(opml("")) == []


COSTLY = {
    "deep folders": b"<outline text='a'>" * 200_000 + b"<outline xmlUrl='u:1'/>" * 100_000,
    "deep folders that end": b"<outline text='a'>" * 200_000 + b"</outline>" * 200_000,
    "long folder": b"<outline text='"
    + b"a" * 2_000_000
    + b"'>"
    + b"<outline text='b'><outline xmlUrl='u:1'/>" * 50_000,
    "entities": b"<!DOCTYPE opml [<!ENTITY a '&b;&b;'><!ENTITY b '&a;&a;'>]><outline text='&a;' xmlUrl='u:1'/>",
    "open comments": b"<!--" * 500_000,
    "open quotes": b'<outline a="' + b" b='" * 500_001,
    "one word": b"<outline " + b"a" * 2_000_000,
    "spaces": b"<outline a" + b" " * 2_000_000,
    "tag ends": b"<outline " + b">" * 2_000_000,
    "tag starts": b"<outline " * 200_000,
}


@pytest.mark.parametrize("name", COSTLY)
def test_hostile_documents_cost_little_time(name: str) -> None:
    began = process_time()
    found = parse_opml(b"<opml>" + COSTLY[name])
    assert process_time() - began < 10
    assert all(len(each.category) < 5000 for each in found)


@given(st.one_of(st.binary(), st.binary().map(lambda body: b"<opml><outline xmlUrl='u:1' text='" + body)))
def test_any_bytes_give_feeds_or_unreadable(body: bytes) -> None:
    with suppress(Unreadable):
        assert all(found.url for found in parse_opml(body))


def test_the_written_file_is_well_formed_and_nested() -> None:
    body = written(
        OpmlFeed("https://a.example/f?b=1&c=2", 'A "quoted" <title>', "https://a.example/", "News/World"),
        OpmlFeed("https://b.example/f"),
        OpmlFeed("https://c.example/f", "C", category="News"),
        title="Mine & yours",
    )
    root = etree.fromstring(body)
    assert root.findtext("head/title") == "Mine & yours"
    assert root.findtext("head/dateCreated") == "Tue, 05 Mar 2024 10:30:00 +0000"
    assert [outline.get("xmlUrl") or outline.get("text") for outline in root.iter("outline")] == [
        "https://b.example/f",
        "News",
        "https://c.example/f",
        "World",
        "https://a.example/f?b=1&c=2",
    ]
    (nested,) = root.findall("body/outline/outline/outline")
    assert nested.get("title") == 'A "quoted" <title>'
    assert nested.get("htmlUrl") == "https://a.example/"


PRINTABLE = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"], exclude_characters="/"), max_size=12)
# NFC, as everything that is kept
NAMES = PRINTABLE.map(lambda text: " ".join(normalize("NFC", text).split()))
FEEDS = st.builds(
    OpmlFeed,
    url=PRINTABLE.map(lambda text: f"u:{text}"),
    title=NAMES,
    site_url=st.one_of(st.none(), PRINTABLE.filter(bool)),
    category=st.lists(NAMES.filter(bool), max_size=4).map("/".join),
)


@given(st.lists(FEEDS, max_size=12))
def test_a_written_file_is_read_back_unchanged(feeds: list[OpmlFeed]) -> None:
    read = parse_opml(written(*feeds))
    assert sorted(read, key=repr) == sorted(feeds, key=repr)
    assert parse_opml(written(*read)) == read


@given(st.builds(OpmlFeed, url=st.text(), title=st.text(), site_url=st.text(), category=st.text()), st.text())
def test_any_feeds_are_written_well_formed(feed: OpmlFeed, title: str) -> None:
    assert etree.fromstring(written(feed, title=title)).tag == "opml"


CORPORA = Path(os.environ.get("HEADWATER_CORPORA", Path(__file__).parents[3] / "shared" / "corpora"))


@pytest.mark.skipif(not CORPORA.is_dir(), reason="no corpora: set HEADWATER_CORPORA")
def test_every_file_of_the_corpora_is_imported_with_all_its_feeds() -> None:
    folder = CORPORA / "opml-awesome-rss-feeds"
    lists = [parse_opml(path.read_bytes()) for path in folder.rglob("*.opml")]
    assert len(lists) == 118
    assert all(lists)
    expected = {unescape_html(line, only_closed=True) for line in (folder / "feeds.txt").read_text().split()}
    assert {found.url for feeds in lists for found in feeds} == expected


def test_text_between_outlines_loses_none_of_them() -> None:
    outlines = '<outline xmlUrl="u1"/>x<outline xmlUrl="u2"/> y <outline text="f">z<outline xmlUrl="u3"/></outline>'
    body = f"<opml><body>{outlines}".encode()
    assert [(feed.url, feed.category) for feed in parse_opml(body)] == [("u1", ""), ("u2", ""), ("u3", "f")]
