"""Spec 3.4 and 3.5: the feeds that a page names, and the pages that it links to."""

from contextlib import suppress
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import Unreadable
from headwater.feeds.links import MAX_LINKS, find_feed_links, find_links
from headwater.feeds.results import FeedLink, PageLink

URL = "https://example.org/blog/page.html"


def page(body: str, head: str = "") -> bytes:
    return f"<!doctype html><html><head><meta charset=utf-8>{head}</head><body>{body}</body></html>".encode()


def feeds(head: str) -> list[FeedLink]:
    return find_feed_links(page("", head), url=URL)


def links(body: str, head: str = "") -> list[PageLink]:
    return find_links(page(body, head), url=URL)


def test_feeds_come_in_the_order_of_the_page_with_their_titles() -> None:
    found = feeds("""
        <link rel=stylesheet href=/style.css>
        <link rel="alternate" hreflang="de" href="/de">
        <link rel="alternate" type="application/rss+xml" title=" All
            posts " href="/feed">
        <LINK REL="Alternate" TYPE="application/atom+xml; charset=utf-8" HREF="atom.xml#top">
        <link rel="alternate" type="application/feed+json" href="//other.example/feed.json">
        <link rel="alternate" type="application/rss+xml" title="again" href="https://EXAMPLE.org/feed">
        <link rel="feed" href="/plain">""")
    assert found == [
        FeedLink("https://example.org/feed", "All posts"),
        FeedLink("https://example.org/blog/atom.xml"),
        FeedLink("https://other.example/feed.json"),
        FeedLink("https://example.org/plain"),
    ]


@pytest.mark.parametrize(
    "link",
    [
        '<link rel="alternate" type="application/json" href="/wp-json/wp/v2/posts/1">',
        '<link rel="alternate" type="application/json+oembed" href="/oembed">',
        '<link rel="alternate" type="text/xml+oembed" href="/oembed">',
        '<link rel="alternate" type="text/html" href="/m">',
        '<link rel="search" type="application/opensearchdescription+xml" href="/search.xml">',
        '<link rel="alternate" type="application/rss+xml" href="">',
        '<link rel="alternate" type="application/rss+xml" href="javascript:x()">',
        '<link rel="alternate" type="application/rss+xml">',
        '<!-- <link rel="alternate" type="application/rss+xml" href="/feed"> -->',
    ],
)
def test_other_links_are_not_feeds(link: str) -> None:
    assert feeds(link) == []


def test_links_are_absolute_without_fragments_and_each_once() -> None:
    found = links("""<a href="/a#one">1</a><a href=' /a#two '>2</a><a href="b?x=1&amp;y=2">3</a>
        <a href="//other.example/c/">4</a><a href="#top">5</a><a href="">6</a><a name="x">7</a>
        <a href="mailto:a@example.org">8</a><a href="javascript:void(0)">9</a><a href="tel:1">10</a>
        <a href="https://u:p@example.org/">11</a><a href="http://">12</a><A HREF=HTTP://EXAMPLE.com:80>13</A>""")
    assert [link.url for link in found] == [
        "https://example.org/a",
        "https://example.org/blog/b?x=1&y=2",
        "https://other.example/c/",
        "https://example.org/blog/page.html",
        "http://example.com/",
    ]


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ('<base href="/deep/er/">', "https://example.org/deep/er/a"),
        ('<base target="_top"><base href="https://other.example/x/y"><base href="/z/">', "https://other.example/x/a"),
        ('<base href="javascript:x">', "https://example.org/blog/a"),
        ('<base href="">', "https://example.org/blog/a"),
    ],
)
def test_the_base_of_the_page_counts(base: str, expected: str) -> None:
    assert [link.url for link in links('<a href="a">', base)] == [expected]
    assert [link.url for link in feeds(f"{base}<link rel=alternate type=application/rss+xml href=a>")] == [expected]


def test_nofollow_links_are_flagged() -> None:
    found = links("""<a href="/a" rel="external NoFollow">a</a><a href="/b" rel="noopener">b</a>
        <a href="/c" rel="nofollow">c</a><a href="/c">c</a>""")
    assert found == [
        PageLink("https://example.org/a", nofollow=True),
        PageLink("https://example.org/b"),
        PageLink("https://example.org/c"),
    ]


@pytest.mark.parametrize(
    ("meta", "nofollow"),
    [
        ('<meta name="robots" content="noindex, nofollow">', True),
        ('<META NAME="ROBOTS" CONTENT="NONE">', True),
        ('<meta name="robots" content="noindex,follow">', False),
        ('<meta name="description" content="nofollow">', False),
    ],
)
def test_a_page_may_declare_nofollow_for_all_its_links(meta: str, nofollow: bool) -> None:
    assert links('<a href="/a">', meta) == [PageLink("https://example.org/a", nofollow=nofollow)]


def test_only_the_first_links_are_returned() -> None:
    body = "".join(f'<a href="/{number}">' for number in range(50))
    found = find_links(page(body), url=URL, max_links=3)
    assert [link.url[-2:] for link in found] == ["/0", "/1", "/2"]
    assert len(links("".join(f'<a href="/{number}">x</a>' for number in range(MAX_LINKS + 1)))) == MAX_LINKS


def test_the_charset_of_the_answer_counts() -> None:
    body = "<a href='/\u00e9'>".encode("latin-1")
    assert find_links(body, url=URL, content_type="text/html; charset=iso-8859-1") == [
        PageLink("https://example.org/%C3%A9")
    ]


@pytest.mark.parametrize("find", [find_links, find_feed_links])
def test_a_page_nested_too_deep_is_refused_at_once(find: type[find_links]) -> None:
    began = process_time()
    with pytest.raises(Unreadable, match="too deep"):
        find(b"<div>" * 1_000_000, url=URL)
    assert process_time() - began < 5


@given(
    st.one_of(
        st.binary(),
        st.binary().map(lambda body: b"<a href='" + body + b"'><base href='" + body + b"'>"),
        st.binary().map(lambda body: b"<link rel=feed href='" + body + b"' title='" + body + b"'>"),
    )
)
def test_any_bytes_give_links_or_a_headwater_error(body: bytes) -> None:
    with suppress(Unreadable):
        found = [*find_links(body, url=URL), *find_feed_links(body, url=URL)]
        assert all(link.url.startswith(("https://", "http://")) for link in found)
