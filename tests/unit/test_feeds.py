"""Spec 3.2 and 8.6: RSS 0.9x-2.0, RDF, Atom and JSON Feed, well-formed or malformed."""

import gzip
import html
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from headwater.core.errors import HeadwaterError, Unreadable
from headwater.core.reasons import Reason
from headwater.core.text import strip_markup, unescape_html
from headwater.feeds.deferred_text import DeferredText
from headwater.feeds.feed_fields import slice_text, summary_text
from headwater.feeds.parser import parse_feed
from headwater.feeds.results import Feed, FeedEntry
from headwater.feeds.xml_names import RSS_ITEM, Layouts
from tests.refusals import refused

URL = "https://example.org/blog/feed.xml"


def rss(
    items: str, channel: str = "<title>T</title><link>https://example.org/</link>", root: str = "version='2.0'"
) -> bytes:
    return f"<rss {root}><channel>{channel}{items}</channel></rss>".encode()


def atom(inner: str, root: str = "") -> bytes:
    return f'<feed xmlns="http://www.w3.org/2005/Atom" {root}><title>T</title>{inner}</feed>'.encode()


def read(body: bytes, content_type: str | None = None) -> Feed:
    return parse_feed(body, url=URL, content_type=content_type)


def only_entry(body: bytes) -> FeedEntry:
    (entry,) = read(body).entries
    return entry


def item(inner: str) -> FeedEntry:
    return only_entry(rss(f"<item><link>https://example.org/a</link>{inner}</item>"))


RSS_2 = b"""<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" xmlns:dc="http://purl.org/dc/elements/1.1/"
     xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:media="http://search.yahoo.com/mrss/">
  <channel>
    <title>News &amp;amp; Views</title>
    <atom:link href="https://example.org/blog/feed.xml" rel="self" type="application/rss+xml"/>
    <atom:link href="https://hub.example/" rel="hub"/>
    <link>https://example.org/blog/</link>
    <language>en-GB</language>
    <ttl>90</ttl>
    <item>
      <media:title>Not this title</media:title>
      <title>Ships &amp;#8211; &lt;b&gt;and&lt;/b&gt; sails</title>
      <link>
        https://example.org/blog/ships?a=1&amp;b=2
      </link>
      <guid isPermaLink="false">tag:1</guid>
      <pubDate>Tue, 05 Mar 2024 10:30:00 +0100</pubDate>
      <dc:creator>A. Sailor</dc:creator>
      <category>Sea</category><category><![CDATA[ Wind ]]></category><category>Sea</category>
      <dc:subject>Ropes</dc:subject>
      <description>&lt;p&gt;First.&lt;/p&gt;&lt;p&gt;Second &amp;amp; last.&lt;/p&gt;
        &lt;script&gt;x()&lt;/script&gt;</description>
      <content:encoded><![CDATA[<p>The whole story.</p>]]></content:encoded>
    </item>
  </channel>
</rss>"""


def test_rss_2_is_read_whole() -> None:
    assert read(RSS_2) == Feed(
        title="News & Views",
        link="https://example.org/blog/",
        language="en",
        region="GB",
        ttl_seconds=5400,
        hub="https://hub.example/",
        entries=(
            FeedEntry(
                url="https://example.org/blog/ships?a=1&b=2",
                title="Ships \u2013 and sails",
                published_at=datetime(2024, 3, 5, 9, 30, tzinfo=UTC),
                summary="First. Second & last.",
                guid="tag:1",
                author="A. Sailor",
                tags=("Sea", "Wind", "Ropes"),
            ),
        ),
    )


def test_rdf_is_read_whole() -> None:
    feed = read(
        b"""<?xml version="1.0"?>
        <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
                 xmlns:dc="http://purl.org/dc/elements/1.1/">
          <channel rdf:about="https://example.org/"><title>Old</title><link>https://example.org/</link>
            <dc:language>de</dc:language></channel>
          <item rdf:about="https://example.org/1"><title>One</title><link>https://example.org/1</link>
            <dc:date>2004-05-06T07:08:09+02:00</dc:date></item>
          <item rdf:about="https://example.org/2"><title>Two</title></item>
        </rdf:RDF>"""
    )
    assert (feed.title, feed.link, feed.language) == ("Old", "https://example.org/", "de")
    assert [(entry.url, entry.title) for entry in feed.entries] == [
        ("https://example.org/1", "One"),
        ("https://example.org/2", "Two"),
    ]
    assert feed.entries[0].published_at == datetime(2004, 5, 6, 5, 8, 9, tzinfo=UTC)


def test_atom_is_read_whole() -> None:
    feed = read(
        b"""<?xml version="1.0" encoding="utf-8"?>
        <feed xmlns="http://www.w3.org/2005/Atom" xml:lang="fr" xml:base="https://example.org/journal/">
          <title type="html">L&amp;#39;&amp;eacute;cho</title>
          <link rel="self" href="feed.atom"/><link href="./"/><link rel="hub" href="https://hub.example/"/>
          <author><name>Feed Author</name></author>
          <entry>
            <id>urn:1</id>
            <title type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">Bread &amp; <em>butter</em></div></title>
            <link rel="alternate" type="application/json" href="1.json"/>
            <link rel="alternate" type="text/html" href="1.html"/>
            <link rel="enclosure" href="1.mp3"/>
            <published>2024-03-05T10:30:00Z</published><updated>2024-03-06T10:30:00.5+01:00</updated>
            <author><name>Ann</name></author><author><name>Ben</name></author>
            <category term="food" label="Food"/>
            <summary type="html">&lt;p&gt;Crumbs&lt;/p&gt;</summary>
          </entry>
          <entry xml:base="/archive/"><id>https://example.org/2</id><title>No &lt;link&gt;</title>
            <content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>Only</p><p>content</p></div></content>
          </entry>
        </feed>"""
    )
    assert (feed.title, feed.language) == ("L'écho", "fr")
    assert (feed.link, feed.hub) == ("https://example.org/journal/", "https://hub.example/")
    assert feed.entries == (
        FeedEntry(
            url="https://example.org/journal/1.html",
            title="Bread & butter",
            published_at=datetime(2024, 3, 5, 10, 30, tzinfo=UTC),
            updated_at=datetime(2024, 3, 6, 9, 30, 0, 500000, tzinfo=UTC),
            summary="Crumbs",
            guid="urn:1",
            author="Ann, Ben",
            tags=("food",),
        ),
        FeedEntry(
            url="https://example.org/2",
            title="No <link>",
            summary="Only content",
            guid="https://example.org/2",
            author="Feed Author",
        ),
    )


def test_json_feed_is_read_whole() -> None:
    document = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "J",
        "home_page_url": "/",
        "language": "en",
        "hubs": [{"type": "WebSub", "url": "https://hub.example/"}],
        "authors": [{"name": "Feed Author"}],
        "items": [
            {
                "id": 7,
                "url": "posts/7",
                "title": "Seven &amp; more",
                "content_html": "<p>Hi <b>there</b></p>",
                "date_published": "2024-03-05T10:30:00-05:00",
                "date_modified": "yesterday",
                "tags": ["a", "b", 3],
            },
            {"id": "https://example.org/8", "content_text": "Plain", "author": {"name": "Old Style"}},
            "nonsense",
        ],
    }
    feed = read(json.dumps(document).encode())
    assert (feed.title, feed.link, feed.language, feed.hub) == (
        "J",
        "https://example.org/",
        "en",
        "https://hub.example/",
    )
    assert feed.entries == (
        FeedEntry(
            url="https://example.org/blog/posts/7",
            title="Seven & more",
            published_at=datetime(2024, 3, 5, 15, 30, tzinfo=UTC),
            summary="Hi there",
            guid="7",
            author="Feed Author",
            tags=("a", "b"),
        ),
        FeedEntry(url="https://example.org/8", summary="Plain", guid="https://example.org/8", author="Old Style"),
    )


@pytest.mark.parametrize(
    ("body", "url"),
    [
        (
            rss("<item><link>../a?b=1</link></item>", channel="<link>https://example.org/x/y/</link>"),
            "https://example.org/x/a?b=1",
        ),
        (rss("<item><link>a</link></item>", channel="<title>T</title>"), "https://example.org/blog/a"),
        (rss("<item xml:base='https://base.example/z/'><link>a</link></item>"), "https://base.example/z/a"),
        (rss("<item><link>//other.example/a</link></item>"), "https://other.example/a"),
        (rss("<item><link>example.org/a</link></item>"), "https://example.org/a"),
        (rss("<item><guid>https://example.org/g</guid></item>"), "https://example.org/g"),
        (rss("<item><link>mailto:a@b.c</link><guid>https://example.org/g</guid></item>"), "https://example.org/g"),
        (rss("<item><link><![CDATA[https://example.org/?a=1&b=2]]></link></item>"), "https://example.org/?a=1&b=2"),
        (rss("<item><link>https://example.org/a b</link></item>"), "https://example.org/a%20b"),
        # a usable address stays as written
        (rss("<item><link>HTTPS://Example.org/A/?utm_source=x</link></item>"), "HTTPS://Example.org/A/?utm_source=x"),
        (atom("<entry><link href='/a'/></entry>", "xml:base='https://base.example/'"), "https://base.example/a"),
        (atom("<entry xml:base='deep/'><link xml:base='er/' href='a'/></entry>"), "https://example.org/blog/deep/er/a"),
    ],
)
def test_the_address_of_an_entry_is_absolute(body: bytes, url: str) -> None:
    assert only_entry(body).url == url


@pytest.mark.parametrize(
    "inner",
    [
        "<title>none</title>",
        "<guid isPermaLink='false'>https://example.org/g</guid>",
        "<guid>not an address</guid>",
        "<link>javascript:alert(1)</link>",
        "<link>http://[broken/</link>",
        "<link></link>",
    ],
)
def test_an_entry_without_a_usable_address_has_none(inner: str) -> None:
    assert [entry.url for entry in read(rss(f"<item>{inner}</item><item><link>/b</link></item>")).entries] == [
        None,
        "https://example.org/b",
    ]


def test_entries_with_the_same_address_are_all_kept() -> None:
    feed = read(rss("<item><link>/a</link><title>1</title></item><item><link>/a</link><title>2</title></item>"))
    assert [entry.title for entry in feed.entries] == ["1", "2"]


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("AT&amp;T", "AT&T"),
        ("AT&amp;amp;T", "AT&T"),
        ("1 &lt; 2", "1 < 2"),
        ("Vec&lt;T&gt; in Rust", "Vec<T> in Rust"),
        ("&lt;i&gt;Nature&lt;/i&gt; of things", "Nature of things"),
        ("<![CDATA[It&#8217;s <b>bold</b>]]>", "It\u2019s bold"),
        ("Bare <b>markup</b> in it", "Bare markup in it"),
        ("The &lt;link&gt; element &lt;link rel='x' href='y'&gt;", "The element"),
        ("The &lt;link&gt; element", "The <link> element"),
        ("safe&lt;!-- not seen", "safe"),
        ("  two\n  lines\t", "two lines"),
        ("Cafe\u0301", "Café"),
    ],
)
def test_titles_are_plain_text_decoded_once(written: str, title: str) -> None:
    assert item(f"<title>{written}</title>").title == title


def test_summaries_have_no_markup_and_a_limited_length() -> None:
    entry = item("<description>&lt;style&gt;x{}&lt;/style&gt;" + "&lt;p&gt;word&lt;/p&gt;" * 5000 + "</description>")
    assert entry.summary.startswith("word word word")
    assert "<" not in entry.summary
    assert 200 <= len(entry.summary) <= 250


@pytest.mark.parametrize(
    "date", ["yesterday", "2 hours ago", "Mon, 31 Feb 2024 10:00:00 GMT", "Thu, 01 Jan 1970 00:00:00 GMT", ""]
)
def test_a_date_that_cannot_be_read_is_none(date: str) -> None:
    entry = item(f"<pubDate>{date}</pubDate>")
    assert entry.published_at is None
    assert entry.updated_at is None


@pytest.mark.parametrize(
    ("ttl", "seconds"), [("60", 3600), (" 5 ", 300), ("0", None), ("-1", None), ("soon", None), ("9" * 12, None)]
)
def test_the_time_to_live_is_in_seconds_or_absent(ttl: str, seconds: int | None) -> None:
    assert read(rss("", channel=f"<title>T</title><ttl>{ttl}</ttl>")).ttl_seconds == seconds


@pytest.mark.parametrize(
    ("start", "codec", "content_type"),
    [
        ("", "utf-8", None),
        ("", "latin-1", None),
        ("<?xml version='1.0' encoding='utf-8'?>", "utf-8", None),
        ("<?xml version='1.0' encoding='iso-8859-1'?>", "latin-1", None),
        ("", "latin-1", "text/xml; charset=latin1"),
        ("", "koi8-r", "text/xml; charset=KOI8-R"),
        # the HTTP header comes before the declaration of the document
        ("<?xml version='1.0' encoding='utf-8'?>", "latin-1", "text/xml; charset=windows-1252"),
        ("<?xml version='1.0' encoding='windows-1252'?>", "koi8-r", 'application/xml; charset="koi8-r"'),
        # wrong prologs and headers
        ("<?xml version='1.0' encoding='iso-8859-1'?>", "utf-8", None),
        ("<?xml version='1.0' encoding='utf-16'?>", "utf-8", None),
        ("<?xml version='1.0' encoding='nonsense'?>", "utf-8", None),
        ("<?xml version='1.0' encoding='utf-8'?>", "utf-8", "text/xml; charset=iso-8859-1"),
        ("<?xml version='1.0' encoding='utf-8'?>", "utf-8", "text/xml; charset=nonsense"),
        # byte order marks, and their absence
        ("\ufeff<?xml version='1.0' encoding='iso-8859-1'?>", "utf-8", "text/xml; charset=iso-8859-1"),
        ("\ufeff", "utf-16-le", None),
        ("\ufeff", "utf-16-be", "text/xml; charset=utf-8"),
        ("\ufeff", "utf-32-le", None),
        ("<?xml version='1.0' encoding='utf-16'?>", "utf-16-le", None),
        ("<?xml version='1.0' encoding='utf-16'?>", "utf-16-be", None),
    ],
)
def test_the_encoding_is_found(start: str, codec: str, content_type: str | None) -> None:
    title = "Размер" if codec == "koi8-r" else "Größe"
    document = start + rss(f"<item><link>/a</link><title>{title}</title></item>").decode()
    (entry,) = read(document.encode(codec), content_type).entries
    assert entry.title == title


@pytest.mark.parametrize(
    ("pictures", "image"),
    [
        ("<enclosure url='/a.jpg' type='image/jpeg'/>", "https://example.org/a.jpg"),
        (
            "<media:thumbnail url='/small.jpg'/><media:content url='/a.jpg' medium='image'/>",
            "https://example.org/a.jpg",
        ),
        ("<media:thumbnail url='/small.jpg'/>", "https://example.org/small.jpg"),
        ("<media:content url='/a.mp4' type='video/mp4'/><enclosure url='/a.mp3' type='audio/mpeg'/>", None),
        ("<enclosure type='image/png'/><media:content url='data:,x' type='image/png'/>", None),
        ("", None),
    ],
)
def test_the_image_of_an_entry_is_read(pictures: str, image: str | None) -> None:
    """Issue 8."""
    item = f"<item xmlns:media='http://search.yahoo.com/mrss/'><link>/a</link><title>A</title>{pictures}</item>"
    (entry,) = read(rss(item)).entries
    assert entry.image == image


def test_the_image_of_a_json_feed_entry_is_read() -> None:
    """Issue 8."""
    item = {"id": "1", "url": "https://example.org/a", "banner_image": "/wide.jpg"}
    body = {"version": "https://jsonfeed.org/version/1.1", "title": "T", "items": [item, item | {"image": "/a.jpg"}]}
    images = [entry.image for entry in read(json.dumps(body).encode()).entries]
    assert images == ["https://example.org/wide.jpg", "https://example.org/a.jpg"]


GOOD = rss("<item><link>/a?x=1&amp;y=2</link><title>Caf&#233; &amp; bar</title></item>").decode()


@pytest.mark.parametrize(
    "broken",
    [
        "\n\n  " + "<?xml version='1.0'?>" + GOOD,
        "<br/><b>Warning</b>: something in index.php on line 3\n<?xml version='1.0'?>" + GOOD,
        GOOD.replace("Caf&#233;", "Caf&eacute;"),
        GOOD.replace("x=1&amp;y", "x=1&y").replace("&amp; bar", "& bar"),
        GOOD.replace("Caf", "C\x08af\x0c"),
        GOOD.replace("Caf", "Caf&#xD800;&#0;&#x8;").replace("</item>", "<x></item>"),
        GOOD + "<!-- trailing --><junk>",
        GOOD.removesuffix("</channel></rss>"),
        GOOD.replace("<item>", "<item><media:thumbnail url='x'/>"),
        GOOD.replace("<rss version='2.0'>", "<rss version=2.0>"),
        GOOD.replace("<title>T</title>", "<title>T</titel>"),
        "<!DOCTYPE rss SYSTEM 'http://my.netscape.com/publish/formats/rss-0.91.dtd'>"
        + GOOD.replace("Caf&#233;", "Caf&eacute;"),
        "<!DOCTYPE html>" + GOOD,
    ],
)
def test_a_broken_feed_is_read_as_far_as_it_goes(broken: str) -> None:
    (entry,) = read(broken.encode()).entries
    assert entry.url == "https://example.org/a?x=1&y=2"
    assert entry.title.replace("\ufffd", "") == "Café & bar"


def test_feedparser_reads_what_recovery_cannot_read() -> None:
    body = b"<rss><channel><title>T</title><item =><link>https://example.org/a</link><title>A & B</title></item>"
    assert [(entry.url, entry.title) for entry in read(body).entries] == [("https://example.org/a", "A & B")]


def test_feedparser_is_loaded_only_when_needed() -> None:
    code = (
        "import sys; from headwater.feeds.parser import parse_feed;"
        "parse_feed(b'<rss><channel><title>T</title></channel></rss>', url='https://example.org/');"
        "sys.exit('feedparser' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" \n",
        b"<!doctype html><html><head><title>Sign in</title></head><body><form></form></body></html>",
        b"<?xml version='1.0'?><!DOCTYPE html PUBLIC 'x' 'y'><html xmlns='http://www.w3.org/1999/xhtml'><body/></html>",
        b"<html><body><pre>&lt;rss></pre><script>'<rss><channel><item><link>/a</link></item>'</script></body></html>",
        b"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>https://example.org/</loc></url></urlset>",
        b"<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'><rdf:Description/></rdf:RDF>",
        b'{"error": "not found", "items": []}',
        b'{"version": "https://jsonfeed.org/version/1", "items": "none"}',
        b'{"version": "https://jsonfeed.org/version/1", "items": [',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"/etc/passwd",
        b"https://example.org/feed.xml",
        bytes(range(256)) * 20,
    ],
)
def test_other_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        read(body)
    assert caught.value.reason is Reason.NOT_A_FEED
    assert caught.value.url == URL


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"", "the answer is empty"),
        (b" \r\n", "the answer is empty"),
        (
            b"<!doctype html><html><head><title lang=en>Sign in &amp;\n wait</title></head><body><form/></body></html>",
            'it is an HTML page with the title "Sign in & wait"',
        ),
        (b"<html><body><h1>Hello</h1></body></html>", "it is an HTML page"),
        (b"<!-- hi --><div><p>Hello</div>", "it is an HTML page"),
        (b"Hello <br> you", "it is an HTML page"),
        (
            f"<html><title>{'long ' * 100}</title>".encode(),
            f'it is an HTML page with the title "{"long " * 15}long..."',
        ),
        (
            b"<?xml version='1.0'?>\n<Error><Code>AccessDenied</Code></Error>",
            "it is XML with the root element <Error>",
        ),
        (b"<s:note>x</s:note>", "it is XML with the root element <s:note>"),
        (b'{"error": "not found", "items": []}', "it is JSON, but not a JSON Feed"),
        (b"[1, 2]\n", "it is JSON, but not a JSON Feed"),
        (b'{"version": "https://jsonfeed.org/version/1", "items": [', "it starts like JSON but is cut off"),
        (b'{"version": "https://jsonfeed.org/version/1", "items": [}', "it starts like JSON but is malformed"),
        (b'{"a":' * 100_000, "it is JSON that is nested too deep"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(range(256)), "it is a JPEG image"),
        (gzip.compress(bytes(100_000)), "it is compressed (gzip)"),
        (bytes(100_000), "it is binary data"),
        (bytes(range(256)) * 20, "it is binary data"),
        (b"Too many requests, come back later.", "it is text in an unknown format"),
    ],
)
def test_the_error_describes_a_body_that_is_not_a_feed(body: bytes, what: str) -> None:
    """Spec 3.2."""
    with pytest.raises(Unreadable) as caught:
        read(body)
    assert f": {what}." in str(caught.value)
    assert caught.value.reason is Reason.NOT_A_FEED


def test_an_empty_feed_is_a_feed() -> None:
    assert read(rss("")).entries == ()
    assert read(atom("")).entries == ()


def test_entities_are_never_expanded_nor_fetched(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("do not tell")
    lines = [f"<!ENTITY x0 SYSTEM '{secret.as_uri()}'>", f"<!ENTITY x1 '{'x' * 1000}'>"]
    body = f"<!DOCTYPE rss [{''.join(lines)}]>" + rss("<item><link>/a</link><title>&x0;|&x1;</title></item>").decode()
    (entry,) = read(body.encode()).entries
    assert "do not tell" not in entry.title
    assert len(entry.title) < 100


BOMB = b"<!DOCTYPE rss [<!ENTITY a 'ha'><!ENTITY b '&a;&a;'>]>" + rss("<title>&b;</title>")


@pytest.mark.parametrize(
    "body",
    [
        BOMB,
        b"\xef\xbb\xbf<?xml version='1.0'?>\n<?a ><rss ?>" + BOMB,
        b"<?a?>" + BOMB.replace(b"]>", b"]><?b?>"),
        b"<!-- <rss> -->" + BOMB,
        rss("<item><link>/a</link><description>" + "<b>" * 100_000 + "</description></item>"),
    ],
)
def test_harmful_bodies_are_refused(body: bytes) -> None:
    """Issue 6, bad input."""
    with refused(Reason.PARSE_FAILED):
        read(body)


def _strings(feed: Feed) -> Iterator[str]:
    yield from filter(None, [feed.title, feed.link, feed.language, feed.hub])
    for entry in feed.entries:
        yield from filter(None, [entry.url, entry.title, entry.summary, entry.guid, entry.author, *entry.tags])


fields = ["title", "link", "guid", "description", "author", "category", "pubDate", "language", "ttl"]
wild_text = st.text(alphabet=st.one_of(st.characters(), st.sampled_from("&<>;#]\x00\ud800 "))).map(
    lambda text: text.encode("utf-8", "surrogatepass")
)


@given(parts=st.lists(st.tuples(st.sampled_from(fields), wild_text)), wild=wild_text)
def test_random_xml_gives_only_storable_text(parts: list[tuple[str, bytes]], wild: bytes) -> None:
    inner = b"".join(b"<%s>%s</%s>" % (name.encode(), text, name.encode()) for name, text in parts)
    body = b"<rss><channel>%s<item><link>/a&#0;b</link>%s&#xD800;</item>%s</channel></rss>" % (wild, inner, inner)
    _assert_storable(body)


@given(
    st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters())), st.lists)
)
def test_random_json_gives_only_storable_text(value: object) -> None:
    names = ["id", "url", "title", "summary", "content_html", "date_published", "tags", "authors", "external_url"]
    entry = dict.fromkeys(names, value)
    whole = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": value,
        "hubs": value,
        "items": [entry, {**entry, "url": "/a"}],
    }
    _assert_storable(json.dumps(whole).encode())


def _assert_storable(body: bytes) -> None:
    try:
        feed = read(body)
    except HeadwaterError:
        return
    for text in _strings(feed):
        assert "\x00" not in text
        text.encode()


LONG = "word " * 200 + "&lt;br&gt;"


@pytest.mark.parametrize(
    ("middle", "titles"),
    [
        (f"<!-- a -> b {LONG} --><item><title>2</title></item><!-- c -->", ["1", "2", "3"]),
        (f"<item><title>2</title><description x='a > b'>{LONG}</description></item>", ["1", "2", "3"]),
        (
            "<!-- use <![CDATA[ here --><item><title>2</title></item>"
            f"<item><title>x</title><description><![CDATA[{LONG}]]></description></item><!-- y -->",
            ["1", "2", "x", "3"],
        ),
    ],
)
def test_text_that_looks_deferred_loses_no_entry(middle: str, titles: list[str]) -> None:
    body = rss(f"<item><title>1</title></item>{middle}<item><title>3</title></item>")
    assert [entry.title for entry in read(body).entries] == titles


def test_a_text_deferred_in_parts_is_joined() -> None:
    entry = item(f"<description>Intro. <![CDATA[{'inner ' * 20}]]> {LONG}</description>")
    assert entry.summary.startswith("Intro. inner inner")
    guid = item(f"<guid>{f'<![CDATA[{LONG}]]>' * 3}</guid>").guid
    assert guid == " ".join((LONG * 3).split())


@pytest.mark.parametrize(("open_", "close"), [("<![CDATA[", "]]>"), ("", "")])
def test_a_summary_has_the_same_length_in_every_notation(open_: str, close: str) -> None:
    markup = "<i></i>" * 60 + "\u6587" * 2000
    written = markup if open_ else markup.replace("<", "&lt;").replace(">", "&gt;")
    assert len(item(f"<description>{open_}{written}{close}</description>").summary) >= 50


def test_a_reference_of_endless_digits_is_not_a_character() -> None:
    digits = "1" * 5000
    for written in (f"a&#{digits};b", f"<![CDATA[a&#{digits};b]]>", f"a&amp;#{digits};b"):
        assert item(f"<title>{written}</title>").title == "a\ufffdb"
    read(json.dumps({"version": "https://jsonfeed.org/version/1", "items": [{"title": f"&#{digits};"}]}).encode())


@pytest.mark.parametrize("hostile", [b">" * 200_000, b"<item><author>" + b"@" * 200_000, b"<!--" * 50_000])
def test_hostile_feeds_take_no_longer_than_their_length(hostile: bytes) -> None:
    started = time.process_time()
    read(b"<rss><channel><title>T</title>" + hostile)
    assert time.process_time() - started < 2


references = [
    "&lt;",
    "&gt;",
    "&quot;",
    "&amp;",
    "&apos;",
    "&#39;",
    "&#x27;",
    "&#38;",
    "&amp;lt;",
    "&nbsp;",
    "&not",
    "&",
]
ITEM_PARTS = [
    *("<title>Plain</title>", "<dc:title>Dublin</dc:title>", "<link>http://a.test/1</link>"),
    *("<dc:date>2023-01-01</dc:date>", "<pubDate>2024-03-05</pubDate>", "<dc:creator>Some One</dc:creator>"),
    *("<category>a</category>", "<dc:subject>b</dc:subject>", "<guid>1</guid>"),
]
written_text = st.lists(
    st.sampled_from([*references, "lt;", "amp;", "#38;", ";", "<", '"', " ", "a", "\u00e9", "&#111111111"])
).map("".join)


@given(written_text)
def test_references_have_the_meaning_of_browsers(written: str) -> None:
    assert unescape_html(written) == html.unescape(re.sub("&#1{9};?", "\ufffd", written))


@given(st.permutations(ITEM_PARTS), st.permutations(ITEM_PARTS))
def test_the_order_of_the_children_of_an_item_does_not_matter(first: list[str], second: list[str]) -> None:
    """Spec 3.2: the items of a feed may differ."""
    items = f"<item>{''.join(first)}</item><item>{''.join(second)}<unknown/></item>"
    entries = read(rss(items, root='xmlns:dc="http://purl.org/dc/elements/1.1/" version="2.0"')).entries
    assert entries == (entries[0],) * 2
    assert (entries[0].title, entries[0].author, entries[0].tags) == ("Plain", "Some One", ("a", "b"))
    assert (entries[0].url, entries[0].published_at) == ("http://a.test/1", datetime(2024, 3, 5, tzinfo=UTC))


places = [
    *("{}", "<a>{}</a>", "<a>{} > {}</a>", "<a b='c > {}'/>", "<a b='c'>{}<b/>{}</a>"),
    *("<![CDATA[<{}>]]>", "<![CDATA[]{}]] > ]]]>", "<!-- > {} -->", "<!-- <![CDATA[ > {}< -->"),
]
repeated = st.tuples(
    st.sampled_from(["word ", "&lt;b&gt;", "&amp;lt;", "&#38;", "\u6587&gt;"]), st.sampled_from([0, 1, 300])
)


@given(st.lists(st.tuples(st.sampled_from(places), repeated)))
def test_deferred_text_can_be_restored(parts: list[tuple[str, tuple[str, int]]]) -> None:
    document = f"<rss>{''.join(place.replace('{}', text * times) for place, (text, times) in parts)}</rss>".encode()
    parser = etree.XMLParser(remove_comments=True)
    lifted = DeferredText(document)
    expected = list(etree.fromstring(document, parser).itertext())
    found = list(etree.fromstring(lifted.document, parser).itertext())
    assert [lifted.text(text) for text in found] == expected
    assert [lifted.text(text, 300) for text in found] == [text[:300] for text in expected]


tags = ["<p>", "</p>", "<br>", "<br/>", "<img src='x'>", "<b>", "</b>", '<a href="/x?a=1&amp;b=2">', "</a>", "</li>"]
plain_markup = st.lists(
    st.sampled_from([*tags, "word", "two words", " ", "\n", "&amp;", "&lt;", "&nbsp;", "caf\u00e9", "\u00ad"]),
    max_size=12,
).map("".join)


@given(plain_markup)
def test_the_summary_of_plain_markup_is_its_visible_text(markup: str) -> None:
    assert summary_text(markup, slice_text) == strip_markup(markup)


def test_a_text_full_of_brackets_takes_no_longer_than_others() -> None:
    """Spec 4.3."""
    body = b"<rss><channel><item><link>http://a.test/</link><description><![CDATA[" + b"] " * 5_000_000
    began = time.process_time()
    assert parse_feed(body + b"]]></description></item></channel></rss>", url="http://a.test/feed").entries
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("repeated", [b"! ", b"<!", b"<![CDATA[! ]]>!"])
def test_a_document_full_of_exclamation_marks_takes_no_longer_than_others(repeated: bytes) -> None:
    """Spec 4.3."""
    document = repeated * (4_000_000 // len(repeated))
    began = time.process_time()
    assert DeferredText(document).document == document
    assert time.process_time() - began < 0.5


def test_the_caches_of_element_names_stay_small() -> None:
    """Issue 8: a feed chooses its names, and its process reads many feeds."""
    layouts = Layouts(RSS_ITEM)
    for number in range(2_000):
        layouts.read_children(etree.fromstring(f"<item><a{number}/><title/></item>"))
    long = etree.fromstring("<item><title/>" + "".join(f"<{'n' * 1000}{number}/>" for number in range(20)) + "</item>")
    assert layouts.read_children(long)[1].title == [0]
    held = sum(len(str(tag)) for tags in layouts for tag in tags)
    assert 0 < held < 20_000
    layouts.read_children(etree.fromstring("<item><title/><link/></item>"))
    assert ("title", "link") in layouts
