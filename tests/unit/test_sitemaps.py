"""Spec 3.3 and 8.6: sitemaps of all sorts, streamed, also malformed and hostile ones."""

import gzip
import os
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.charset import xml_codec
from headwater.core.errors import HeadwaterError, InvalidURL, Unreadable
from headwater.core.reasons import Reason
from headwater.core.urls import join_url
from headwater.feeds import sitemaps
from headwater.feeds.results import SitemapEntry, SitemapRef
from headwater.feeds.sitemaps import parse_sitemap
from tests.refusals import refused

URL = "https://example.org/maps/sitemap.xml"
NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"
PROLOG = '<?xml version="1.0" encoding="UTF-8"?>\n'


def urlset(inner: str, root: str = f'urlset xmlns="{NAMESPACE}"') -> bytes:
    return f"{PROLOG}<{root}>{inner}</{root.split()[0]}>".encode()


def read(body: bytes) -> list[SitemapEntry | SitemapRef]:
    return list(parse_sitemap(body, url=URL))


def read_urls(body: bytes) -> list[str]:
    return [entry.url for entry in read(body)]


def loc(content: str) -> str:
    (url,) = read_urls(urlset(f"<url><loc>{content}</loc></url>"))
    return url


def lastmod(text: str) -> datetime | None:
    (entry,) = read(urlset(f"<url><loc>/a</loc><lastmod>{text}</lastmod></url>"))
    return entry.lastmod


def read_until_it_fails(body: bytes) -> tuple[list[str], Reason]:
    urls: list[str] = []
    with pytest.raises(Unreadable) as caught:
        urls.extend(entry.url for entry in parse_sitemap(body, url=URL))
    assert caught.value.url == URL
    return urls, caught.value.reason


def reason_for_refusing(body: bytes) -> Reason:
    urls, reason = read_until_it_fails(body)
    assert urls == []
    return reason


def many(count: int) -> bytes:
    entries = (
        f"<url>\n<loc>https://example.org/news/2024/03/{number:06}/a-headline-of-some-length?a=1&amp;b=2</loc>\n"
        "<lastmod>2024-03-05T10:30:00+00:00</lastmod>\n<changefreq>daily</changefreq>\n<priority>0.5</priority>\n</url>\n"
        for number in range(count)
    )
    return urlset("".join(entries))


def test_a_urlset_gives_pages() -> None:
    body = urlset(
        "<url><loc>https://example.org/a</loc><lastmod>2024-03-05</lastmod><priority>0.5</priority></url>"
        "<url><loc>https://other.example/b</loc></url>"
    )
    assert read(body) == [
        SitemapEntry("https://example.org/a", datetime(2024, 3, 5, tzinfo=UTC)),
        SitemapEntry("https://other.example/b"),
    ]


def test_an_index_gives_sitemaps() -> None:
    body = urlset(
        "<sitemap><loc>https://example.org/1.xml.gz</loc><lastmod>2024-03-05T10:30:00+01:00</lastmod></sitemap>"
        "<sitemap><loc>/2.xml</loc></sitemap>",
        f'sitemapindex xmlns="{NAMESPACE}"',
    )
    assert read(body) == [
        SitemapRef("https://example.org/1.xml.gz", datetime(2024, 3, 5, 9, 30, tzinfo=UTC)),
        SitemapRef("https://example.org/2.xml"),
    ]


def test_a_sitemap_for_news_gives_titles_and_dates() -> None:
    news = (
        "<{0}:news><{0}:publication><{0}:name>The Paper</{0}:name></{0}:publication>"
        "<{0}:publication_date>2024-03-05T10:30:00Z</{0}:publication_date>"
        "<{0}:title>Ships &amp;amp; <![CDATA[sails & <b>ropes</b>]]></{0}:title></{0}:news>"
    )
    for prefix in ("news", "n"):
        root = f'urlset xmlns="{NAMESPACE}" xmlns:{prefix}="http://www.google.com/schemas/sitemap-news/0.9"'
        body = urlset(f"<url><loc>/a</loc>{news.format(prefix)}</url><url><loc>/b</loc></url>", root)
        assert read(body) == [
            SitemapEntry(
                "https://example.org/a",
                title="Ships & sails & ropes",
                published_at=datetime(2024, 3, 5, 10, 30, tzinfo=UTC),
            ),
            SitemapEntry("https://example.org/b"),
        ]


def test_fields_of_images_and_videos_are_not_fields_of_the_page() -> None:
    body = urlset(
        "<url><image:image><image:loc>/i.jpg</image:loc><image:title>I</image:title></image:image>"
        "<video:video><video:title>V</video:title><video:publication_date>2020-01-01</video:publication_date>"
        "</video:video><xhtml:link rel='alternate' hreflang='de' href='/de'/><loc>/a</loc></url>"
    )
    assert read(body) == [SitemapEntry("https://example.org/a")]


@pytest.mark.parametrize(
    "root",
    [
        "urlset",
        'urlset xmlns="https://www.google.com/schemas/sitemap/0.84"',
        "urlset xmlns=http://unquoted.example/",
        f'sm:urlset xmlns:sm="{NAMESPACE}"',
        "sm:urlset",
        "URLSET",
    ],
)
def test_namespaces_may_be_wrong_or_missing(root: str) -> None:
    prefix = "sm:" if root.startswith("sm:") else ""
    body = urlset(f"<{prefix}url><{prefix}loc>/a</{prefix}loc></{prefix}url>", root)
    assert read_urls(body) == ["https://example.org/a"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("\n\t https://example.org/a \n", "https://example.org/a"),
        ("<![CDATA[https://example.org/a?b=1&c=2]]>", "https://example.org/a?b=1&c=2"),
        (" <!-- old --> <![CDATA[ https://example.org/a]]>?b=1&amp;c=2 ", "https://example.org/a?b=1&c=2"),
        ("https://example.org/a?b=1&amp;c=2", "https://example.org/a?b=1&c=2"),
        ("https://example.org/a?b=1&copy=2&c;", "https://example.org/a?b=1&copy=2&c;"),
        ("https://example.org/&#x41;&#66;&eacute;", "https://example.org/AB%C3%A9"),
        ("https://example.org/a#part", "https://example.org/a"),
        ("HTTPS://EXAMPLE.org:443/a/../b", "https://example.org/b"),
        ("a", "https://example.org/maps/a"),
        ("/a", "https://example.org/a"),
        ("//cdn.example/a", "https://cdn.example/a"),
        ("example.org/a", "https://example.org/a"),
    ],
)
def test_addresses_are_resolved_and_repaired(written: str, meant: str) -> None:
    assert loc(written) == meant


@pytest.mark.parametrize(
    "written", ["", " ", "mailto:a@example.org", "javascript:x()", "https://", "https://u:p@example.org/", "x" * 9000]
)
def test_unusable_addresses_are_left_out(written: str) -> None:
    assert read_urls(urlset(f"<url><loc>{written}</loc></url><url><loc>/b</loc></url>")) == ["https://example.org/b"]


@given(st.from_regex(r"\Ahttps://example\.org(/[A-Za-z0-9%._~!$()*+,;=:@\\'\"|{}-]{0,8}){0,4}(\?[ -~]{0,9})?\Z"))
def test_the_fast_path_gives_the_resolved_address(address: str) -> None:
    assert loc(f"<![CDATA[{address}]]>") == join_url(address.strip(), URL)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024", datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-03", datetime(2024, 3, 1, tzinfo=UTC)),
        ("2024-03-05", datetime(2024, 3, 5, tzinfo=UTC)),
        ("2024-03-05T10:30Z", datetime(2024, 3, 5, 10, 30, tzinfo=UTC)),
        ("2024-03-05T10:30:15+01:00", datetime(2024, 3, 5, 9, 30, 15, tzinfo=UTC)),
        ("2024-03-05T10:30:15.250-05:00", datetime(2024, 3, 5, 15, 30, 15, 250000, tzinfo=UTC)),
        (" <![CDATA[2024-03-05]]> ", datetime(2024, 3, 5, tzinfo=UTC)),
        ("2099-01-01", datetime(2099, 1, 1, tzinfo=UTC)),
        ("2024-13-05", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_dates_of_every_precision_are_read_and_impossible_ones_are_none(text: str, moment: datetime | None) -> None:
    assert lastmod(text) == moment


def test_an_index_may_name_its_sitemaps_without_an_element_of_their_own() -> None:
    body = urlset("<sitemap>\nhttps://example.org/a?b=1&amp;c=2\n</sitemap>", "sitemapindex")
    assert read(body) == [SitemapRef("https://example.org/a?b=1&c=2")]


def test_entries_in_comments_or_cdata_are_not_listed() -> None:
    hidden = "<url><loc>/hidden</loc></url>"
    body = urlset(f"<!-- {hidden} --><x><![CDATA[{hidden}]]></x><url><loc>/a</loc></url>")
    assert read_urls(f"<!-- <urlset>{hidden} -->".encode() + body) == ["https://example.org/a"]


@pytest.mark.parametrize(
    "inner",
    [
        "<url><loc>/a</loc><url><loc>/b</loc></url>",
        "<url><loc>/a</url><url><loc>/b</url>",
        "<url><loc>/a</loc></foo></url><bar><url x=1><loc>/b</loc></url>",
        "<url><loc>/a</loc><x>1 < 2 & 3</x></url>\x00\x0b<url><loc>/b</loc></url>",
    ],
)
def test_a_malformed_sitemap_is_read_as_far_as_possible(inner: str) -> None:
    assert read_urls(urlset(inner)) == ["https://example.org/a", "https://example.org/b"]


def test_text_before_the_root_is_ignored() -> None:
    body = b"\n<br />\n<b>Warning</b>: x in <b>y.php</b>\n" + urlset("<url><loc>/a</loc></url>") + b"<!-- cached -->"
    assert read_urls(body) == ["https://example.org/a"]


def test_an_empty_sitemap_lists_nothing() -> None:
    assert read(urlset("")) == []
    assert read(b"<urlset/>") == []


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_every_unicode_encoding_is_read(codec: str) -> None:
    body = (PROLOG + "<urlset><url><loc>/\N{LATIN SMALL LETTER E WITH ACUTE}</loc></url></urlset>").encode(codec)
    assert read_urls(body) == ["https://example.org/%C3%A9"]


@pytest.mark.parametrize(
    ("declared", "codec"),
    [("iso-8859-1", "latin-1"), ("iso-8859-1", "utf-8"), ("utf-8", "utf-8"), ("shift_jis", "cp932")],
)
def test_the_declared_charset_counts_unless_the_bytes_disagree(declared: str, codec: str) -> None:
    letter = "\N{HIRAGANA LETTER A}" if codec == "cp932" else "\N{LATIN SMALL LETTER E WITH ACUTE}"
    body = f"<?xml version='1.0' encoding='{declared}'?><urlset><url><loc>/{letter}</loc></url></urlset>".encode(codec)
    assert read_urls(body) == [join_url(f"/{letter}", URL)]


def test_a_text_file_lists_one_address_a_line() -> None:
    body = (
        "\ufeffhttps://example.org/a\r\nhttps://example.org/b?x=1&y=2\r\rnot one\nhttp://other.example/\u00e9".encode()
    )
    assert read_urls(body) == [
        "https://example.org/a",
        "https://example.org/b?x=1&y=2",
        "http://other.example/%C3%A9",
    ]


def test_an_endless_line_takes_no_memory_and_is_not_an_address() -> None:
    body = b"https://example.org/a\nhttps://example.org/" + b"x" * 1_000_000 + b"\nhttps://example.org/b"
    assert read_urls(body) == ["https://example.org/a", "https://example.org/b"]


def test_feeds_may_serve_as_sitemaps() -> None:
    rss = b"""<rss version="2.0"><channel><item><title>T</title><link>https://example.org/a</link>
        <pubDate>Tue, 05 Mar 2024 10:30:00 GMT</pubDate></item></channel></rss>"""
    moment = datetime(2024, 3, 5, 10, 30, tzinfo=UTC)
    assert read(rss) == [SitemapEntry("https://example.org/a", moment, "T", moment)]
    atom = b"""<feed xmlns="http://www.w3.org/2005/Atom"><entry><title>T</title><link href="/a"/>
        <updated>2024-03-05T10:30:00Z</updated></entry></feed>"""
    assert read(gzip.compress(atom)) == [SitemapEntry("https://example.org/a", moment, "T")]


def test_gzip_is_detected_by_its_bytes_and_may_have_several_members() -> None:
    body = many(3000)
    pressed = gzip.compress(body[:100_000]) + gzip.compress(body[100_000:]) + b"padding"
    assert read_urls(pressed) == read_urls(body)
    assert len(read_urls(body)) == 3000


def test_a_character_cut_by_the_head_does_not_change_the_encoding() -> None:
    assert xml_codec("<urlset>é".encode()[:-1]) == "utf-8"
    assert xml_codec("<urlset>été".encode("cp1252")) == "cp1252"


@given(st.data())
def test_the_size_of_the_pieces_does_not_matter(data: st.DataObject) -> None:
    pieces = st.sampled_from(
        [
            "<url><loc>",
            "/a?b=1&amp;c",
            "<![CDATA[/x&y]]>",
            "<!-- <url> -->",
            "</loc>",
            "</url>",
            "<lastmod>2024",
            "é",
            "<",
        ]
    )
    body = urlset("".join(data.draw(st.lists(pieces, max_size=30))))
    with pytest.MonkeyPatch.context() as patch:
        expected = read(body)
        patch.setattr(sitemaps, "_HEAD_BYTES", data.draw(st.integers(120, 300)))
        size = data.draw(st.integers(1, 20))
        cut = [body[start : start + size] for start in range(0, len(body), size)]
        assert list(parse_sitemap(cut, url=URL)) == expected


def test_entries_come_before_all_bytes_have() -> None:
    body = many(2000)
    given_out = 0

    def pieces() -> Iterator[bytes]:
        nonlocal given_out
        for start in range(0, len(body), 10_000):
            given_out += 1
            yield body[start : start + 10_000]

    first = next(parse_sitemap(pieces(), url=URL))
    assert first.url.endswith("000000/a-headline-of-some-length?a=1&b=2")
    assert given_out < 10


def test_a_document_cut_off_gives_its_whole_entries_and_then_fails() -> None:
    body = urlset("<url><loc>/a</loc></url><url><loc>/b</loc><lastmod>2024-01-01</lastmod></url>")
    cut = body[: body.index(b"01-01")]
    assert read_until_it_fails(cut) == (["https://example.org/a", "https://example.org/b"], Reason.PARSE_FAILED)
    assert read_until_it_fails(body[: body.index(b"b</loc>") + 1]) == (["https://example.org/a"], Reason.PARSE_FAILED)


def test_gzip_cut_off_gives_its_readable_entries_and_then_fails() -> None:
    body = many(3000)
    pressed = gzip.compress(body)
    urls, reason = read_until_it_fails(pressed[: len(pressed) // 2])
    assert reason is Reason.BAD_ENCODING
    assert 500 < len(urls) < 3000
    assert urls == read_urls(body)[: len(urls)]


def test_the_last_line_of_gzip_cut_off_is_not_an_address() -> None:
    pressed = gzip.compress(b"https://example.org/a\nhttps://example.org/whole-name", compresslevel=0)
    assert read_until_it_fails(pressed[:-14]) == (["https://example.org/a"], Reason.BAD_ENCODING)


def test_broken_gzip_fails() -> None:
    assert reason_for_refusing(b"\x1f\x8b\x08 not gzip at all") is Reason.BAD_ENCODING


BOMB = """<?xml version="1.0"?><!DOCTYPE urlset [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
    <!ENTITY x SYSTEM "file:///etc/passwd">]><urlset><url><loc>/&b;&x;</loc></url></urlset>"""


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"\x00\xff\xfe\x01",
        b"%PDF-1.7",
        b'{"error": "not found"}',
        b"Not found: http://example.org/",
        b"http://example.org/ is down",
        b"<!DOCTYPE html><html><body><form>Log in</form><urlset></body></html>",
        b"<html><head></head></html>",
        b"<note><to>x</to></note>",
        b"<!-- <urlset> -->",
        b"<!-- <urlset><url><loc>/a</loc></url></urlset>",
        BOMB.encode(),
        BOMB.encode("utf-16"),
        f"<!-- {'x' * 5000} -->{BOMB}".encode(),
    ],
)
def test_other_bodies_are_refused(body: bytes) -> None:
    assert reason_for_refusing(body) is Reason.PARSE_FAILED


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"<!DOCTYPE html><html><body></body></html>", "page"),
        (b"<html><head></head></html>", "page"),
        (BOMB.encode(), "DOCTYPE"),
        (BOMB.encode("utf-16"), "DOCTYPE"),
    ],
)
def test_a_page_and_a_document_type_have_different_messages(body: bytes, named: str) -> None:
    """Spec 3.3."""
    with refused(Reason.PARSE_FAILED, named):
        read_urls(body)


def test_entities_are_never_expanded() -> None:
    body = urlset('<!DOCTYPE x [<!ENTITY b "boom">]><url><loc>/&b;</loc></url>')
    assert read_urls(body) == ["https://example.org/&b;"]


def gigabyte(unit: bytes, start: bytes = b"") -> bytes:
    member = gzip.compress(unit * (1_000_000 // len(unit)))
    return gzip.compress(start) + member * 1000


COSTLY = {
    "zeros": (lambda: gigabyte(b"\x00"), Reason.PARSE_FAILED),
    "zeros in a sitemap": (lambda: gigabyte(b"\x00", b"<urlset>"), Reason.BODY_TOO_LARGE),
    "spaces in a sitemap": (lambda: gigabyte(b" ", b"<urlset>"), Reason.BODY_TOO_LARGE),
    "an endless address": (lambda: gigabyte(b"x", b"<urlset><url><loc>"), Reason.PARSE_FAILED),
    "an endless comment": (lambda: gigabyte(b"<", b"<urlset><!--"), Reason.PARSE_FAILED),
    "empty entries": (lambda: gigabyte(b"<url>", b"<urlset>"), Reason.BODY_TOO_LARGE),
    "empty lines": (lambda: gigabyte(b"\n", b"https://example.org/a"), Reason.BODY_TOO_LARGE),
    "an endless line": (lambda: b"http://" + b"a" * 2_000_000, None),
    "deep nesting": (lambda: b"<urlset>" + b"<a>" * 1_000_000, Reason.PARSE_FAILED),
    "deep entries": (lambda: b"<urlset>" + b"<url><loc>" * 200_000, Reason.PARSE_FAILED),
    "open comments": (lambda: b"<urlset>" + b"<!--" * 500_000, Reason.PARSE_FAILED),
    "open CDATA": (lambda: b"<urlset>" + b"<![CDATA[" * 200_000, Reason.PARSE_FAILED),
    "open comments before the root": (lambda: b"<!--" * 500_000, Reason.PARSE_FAILED),
    "open tags": (lambda: b"<" * 2_000_000, Reason.PARSE_FAILED),
    "an endless root": (lambda: b"<urlset" + b" a" * 500_000, Reason.PARSE_FAILED),
}


@pytest.mark.parametrize("name", COSTLY)
def test_hostile_sitemaps_take_little_time(name: str) -> None:
    make, reason = COSTLY[name]
    body = make()
    began = process_time()
    tracemalloc.start()
    try:
        for _ in parse_sitemap(body, url=URL):
            pass
        failed = None
    except Unreadable as error:
        failed = error.reason
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert failed is reason
    assert peak < 10_000_000
    assert process_time() - began < 20


def test_a_sitemap_with_too_many_entries_gives_some_and_then_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemaps, "MAX_ENTRIES", 100)
    urls, reason = read_until_it_fails(many(101))
    assert (len(urls), reason) == (100, Reason.BODY_TOO_LARGE)
    assert len(read_urls(many(100))) == 100


def test_a_feed_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemaps, "_MAX_FEED_BYTES", 100_000)
    assert reason_for_refusing(b"<rss><channel>" + b" " * 200_000) is Reason.BODY_TOO_LARGE


def test_fifty_thousand_addresses_take_little_memory() -> None:
    body = many(50_000)
    tracemalloc.start()
    count = sum(1 for _ in parse_sitemap(body, url=URL))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 50_000
    assert peak < 5_000_000


def test_the_address_of_the_sitemap_must_be_usable() -> None:
    with pytest.raises(InvalidURL):
        list(parse_sitemap(b"https://example.org/a", url="sitemap.xml"))


MARKUP = st.lists(
    st.sampled_from(
        [
            b"<urlset>",
            b"<url>",
            b"<loc>",
            b"/a",
            b"</loc>",
            b"<!--",
            b"-->",
            b"<![CDATA[",
            b"]]>",
            b"&#xD800;",
            b"&#0;",
            b"&#9999999;",
            b"<sitemap>",
            b"<rss>",
            b"\xff",
            b"\x00",
            b"<",
            b">",
            b"http://a.example/",
            b"\n",
        ]
    )
).map(b"".join)


@settings(deadline=2000)
@given(st.one_of(st.binary(), MARKUP, MARKUP.map(lambda body: b"<urlset>" + body), st.binary().map(gzip.compress)))
def test_any_bytes_give_entries_or_a_headwater_error(body: bytes) -> None:
    with suppress(HeadwaterError):
        for entry in parse_sitemap(body, url=URL):
            assert entry.url.startswith(("http://", "https://"))
            entry.url.encode()


CORPORA = Path(os.environ.get("HEADWATER_CORPORA", Path(__file__).parents[3] / "shared" / "corpora"))


@pytest.mark.skipif(not CORPORA.is_dir(), reason="no corpora: set HEADWATER_CORPORA")
def test_every_sitemap_of_crawler_commons_is_read() -> None:
    paths = sorted((CORPORA / "crawler-commons-tests" / "src" / "test" / "resources" / "sitemaps").rglob("*.*"))
    counts = {path.name: len(read(path.read_bytes())) for path in paths}
    assert counts == {
        "atom.xml": 1,
        "do-not-visit.txt": 1,
        "hebdenbridgetimes-articles-sitemap.xml": 74,
        "pagemaps-sitemap.xml": 2,
        "shinpaideshou-news-sitemap.xml": 3,
        "sitemap-images.xml": 1,
        "sitemap-links.xml": 3,
        "sitemap-mobile.xml": 3,
        "sitemap-news.xml": 2,
        "sitemap-videos-tvshow.xml": 1,
        "sitemap-videos.xml": 3,
        "sitemap-with-bom.txt": 2,
        "sitemap.badns.xml": 2,
        "sitemap.index.xml": 15,
        "sitemap.ns.xml": 2,
        "sitemap.txt": 2,
        "sitemap.txt.gz": 5,
        "xmlSitemap.gz": 5,
    }
