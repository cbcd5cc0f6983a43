"""The readers to fuzz. Each target calls pure functions as the sandbox does, and has seeds and words of its format."""

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import msgspec

from headwater.core.errors import HeadwaterError
from headwater.core.json_values import parse_json
from headwater.core.urls import host_of, identify, join_url, normalize_url
from headwater.demo.build import _Builder
from headwater.demo.sites import SITES
from headwater.extraction.html.page_list import read_list
from headwater.extraction.registry import normalize, normalize_as
from headwater.feeds.links import classify_links, find_feed_links
from headwater.feeds.parser import parse_feed
from headwater.feeds.sitemap_selection import read_sitemap
from headwater.politeness.robots import check_robots, named_sitemaps
from headwater.sources.import_export import read_source_list

ROOT = Path(__file__).parents[2]
_MAX_SEED_BYTES = 100_000
_MAX_SEEDS = 300
_URL = "https://news.example.org/a/b?c=d"
_TYPES = (
    None,
    "text/html; charset=utf-8",
    "text/html; charset=windows-1252",
    "application/xml",
    "text/html; charset=utf-7",
)
_NOW = datetime(2026, 3, 3, tzinfo=UTC)


def _type(body: bytes) -> str | None:
    """Choose a declared type. The same body always has the same type."""
    return _TYPES[len(body) % len(_TYPES)]


def _read_url(body: bytes) -> object:
    text = body.decode("utf-8", "surrogateescape")
    found = normalize_url(text, _URL)
    if normalize_url(found) != found:
        raise AssertionError("a normalized URL changes when it is normalized again")
    return [found, join_url(text, _URL), host_of(found), identify(found)]


def _read_feed(body: bytes) -> object:
    return parse_feed(body, _URL, _type(body))


def _read_sitemap(body: bytes) -> object:
    return read_sitemap(body, _URL, _NOW, ["news.example.org"], "/")


def _read_robots(body: bytes) -> object:
    return [check_robots(body.decode("utf-8", "replace"), "Headwater", _URL), named_sitemaps(body, _URL)]


def _read_list(body: bytes) -> object:
    return read_source_list(body)


def _read_html(body: bytes) -> object:
    page = normalize_as("html_v1", body, _URL, _type(body))
    links = classify_links(body, _URL, _type(body), ["news.example.org"], [])
    return [page, links, find_feed_links(body, _URL, _type(body)), read_list(body, _URL, _type(body))]


def _read_xml(body: bytes) -> object:
    return normalize_as("xml_v1", body, _URL, _type(body))


def _read_pdf(body: bytes) -> object:
    return normalize_as("pdf_v1", body, _URL, "application/pdf")


def _read_json(body: bytes) -> object:
    try:
        return normalize(body, _URL, _type(body))
    except HeadwaterError:
        return parse_json(body)


def _split(words: bytes) -> tuple[bytes, ...]:
    """Split words at two spaces."""
    return tuple(words.split(b"  "))


@dataclass(frozen=True)
class Target:
    """A reader, words of its format, and the patterns of its seeds in the repository and in the corpora."""

    read: Callable[[bytes], object]
    words: tuple[bytes, ...]
    patterns: tuple[str, ...] = ()
    samples: tuple[bytes, ...] = ()
    max_bytes: int = 512 * 1024

    def call(self, body: bytes) -> str:
        """Read an input. Returns how it ended in a word; raises any error that the program does not expect."""
        try:
            result = self.read(body)
        except HeadwaterError as error:
            str(error).encode()
            return str(error.reason)
        return f"read{len(msgspec.msgpack.encode(result)).bit_length()}"

    def seeds(self, corpora: Path) -> list[bytes]:
        """Return the seeds: our samples, the pages of the demo, and files of the corpora if these are there."""
        found = [*self.samples, *_demo_bodies(self)]
        for pattern in self.patterns:
            folder = ROOT / "tests" / "golden" if not pattern.startswith("/") else corpora
            paths = sorted(folder.glob(pattern.lstrip("/")))
            for path in paths[:: max(1, len(paths) // _MAX_SEEDS)]:
                body = path.read_bytes()
                if path.suffix == ".gz" and self is not TARGETS["sitemap"]:
                    body = gzip.decompress(body)
                if len(body) <= _MAX_SEED_BYTES:
                    found.append(body)
        return list(dict.fromkeys(found))


_XML_WORDS = _split(
    b"<![CDATA[  ]]>  <!--  -->  <!DOCTYPE a [<!ENTITY b 'cc'>]>  &b;  &#x110000;  &#0;  &amp;  </a>  <a>  a:b  //"
    b"  <?xml version='1.0' encoding='utf-16'?>  <?xml version='1.0' encoding='utf-7'?>  xml:base='http://['"
    b"  xmlns:a='b'  http://[::1  2026-02-30T25:61:61Z  Thu, 99 Foo 2026"
)
_FEED_WORDS = _split(
    b"<item>  </item>  <entry>  <link>  <guid isPermaLink='true'>  <pubDate>  <content:encoded>  <content type='xhtml'>"
    b'  <link rel=\'alternate\' href=\'  <category>  {"version": "https://jsonfeed.org/version/1.1",  "items": ['
    b'  <rdf:RDF>  "date_published": 1e400  <ttl>999999999999999999999</ttl>  <enclosure url=\''
)
_SITEMAP_WORDS = _split(b"<url><loc>  <lastmod>  <sitemap>  <news:title>  </loc>  \x1f\x8b\x08")
_ROBOTS_WORDS = _split(
    b"User-agent:   Disallow:   Allow:   Crawl-delay:   Sitemap:   *  $  *a  %  %2f  #  \r\n  \n  \nDisallow: /*a*b$"
)
_LIST_WORDS = _split(
    b"<outline text='  xmlUrl='  category='  </outline>  - url:   &a [*a, *a]  ?   !!python  :   sources:\n  !!int"
)
_HTML_WORDS = _split(
    b"<div>  </div>  <p>  <table><tr><td>  <template>  <svg><style>  <math><mtext>  <noscript>  <script>  <!--"
    b"  <select>  <meta charset=utf-16>  <base href='http://['>  <time datetime='2026-99-99'>  <option>  <title>"
    b'  "datePublished": "  <script type="application/ld+json">{"@graph": [  <plaintext>  &#xD800;  <li>  <article>'
    b"  <a href='//['>  <frameset>  <h1>  <blockquote>  <pre>"
)
_PDF_WORDS = _split(
    b"obj  endobj  stream\n  endstream  xref  trailer  startxref  <<  >>  /Length 99999999  /Kids [2 0 R]"
    b"  /Parent 3 0 R  /Filter /FlateDecode  /Filter [/ASCIIHexDecode /ASCIIHexDecode]  BT  Tj  cm\n  q\n"
    b"  re f\n  /Type /Page  1 0 R  /MediaBox [0 0 1e9 1e9]  /Rotate 90  1 0 0 1 0 0 Tm\n  /Count -1"
    b"  /Encoding /Identity-H  /Contents [  Do  6 0 R  /ObjStm  /ToUnicode 4 0 R"
)
_DOCUMENT_WORDS = _split(
    b"<RULE>  <billStatus>  <GPOTABLE>  <ROW><ENT>  <section><enum>  <HD SOURCE='HED'>  <BOXHD>  <pLaw>  <quoted-block>"
)
_JSON_WORDS = _split(
    b'{  }  [  ]  ,  :  "  null  true  1e999  \\ud800  \\u0000  "CRSReport": {  %PDF-  <html>  -0  1.5'
)
_URL_WORDS = _split(
    b"http://  https:  //  \\  @  :  %  %00  %2e%2e  ..  [  ]  ::1  xn--  #  ?  &  =  utm_source=  0x7f  127.1"
    b"  \xc3\x9f  \xef\xbc\x8e  \xe2\x80\x8d  \t  :99999  %u0041  javascript:  data:  \xed\xa0\x80  \xc2\xad  \xff"
)
_RULE = (
    b"<RULE><PREAMB><AGENCY>A</AGENCY><SUBJECT>S</SUBJECT></PREAMB><SUPLINF><P>Text of the rule, at some length.</P>"
    b"<GPOTABLE><BOXHD><CHED>A</CHED></BOXHD><ROW><ENT>1</ENT></ROW></GPOTABLE></SUPLINF></RULE>"
)

TARGETS = {
    "url": Target(
        _read_url,
        _URL_WORDS,
        samples=(
            b"https://user:pass@news.example.org:8080/a/../b;c?utm_source=x&b=%41#f",
            b"http://[2001:db8::1]:80/\xc3\xa4?q=\xe2\x82\xac",
            b"//xn--bcher-kva.example/\\path//x/./y",
            b"http://0x7f.1/%7Ea?a=1&A=2&a=0",
            b"http://www.ex\xc3\xa4mple.org.:443/",
            b"?page=2",
        ),
        max_bytes=10_000,
    ),
    "feed": Target(
        _read_feed,
        _XML_WORDS + _FEED_WORDS,
        (
            "**/*feed*.xml",
            "**/reports.xml",
            "/feedparser-tests/**/*.xml",
            "/real-feeds-kagi/**/*.gz",
            "/misc-feed-fixtures/**/*.*",
        ),
    ),
    "sitemap": Target(
        _read_sitemap,
        _XML_WORDS + _SITEMAP_WORDS,
        ("**/index.xml", "**/all.xml", "**/month.xml.gz", "/crawler-commons-tests/**/sitemaps/**/*.*"),
    ),
    "robots": Target(
        _read_robots,
        _ROBOTS_WORDS,
        ("**/robots.txt", "/**/*robots*.txt"),
        (
            b"User-agent: *\nDisallow: /private/\nCrawl-delay: 0.2\nAllow: /*.html$\nSitemap: https://news.example.org/s\n",
            b"user-agent: headwater\nuser-agent: b\ndisallow: /*/a*/b$\ncrawl-delay: 1e400\n",
        ),
    ),
    "opml": Target(
        _read_list,
        _XML_WORDS + _LIST_WORDS,
        ("/opml-awesome-rss-feeds/**/*.opml",),
        (
            b'<opml version="2.0"><body><outline text="A"><outline text="B" xmlUrl="https://a.example/f"/></outline></body>',
            b"sources:\n- name: a\n  kind: site\n  settings: {feed_url: 'https://a.example/f', poll_minutes: 15}\n",
        ),
    ),
    "html": Target(
        _read_html,
        _HTML_WORDS,
        (
            "**/home.html",
            "/newspaper4k-test-data/**/*.html*",
            "/fundus-test-html/**/*.html.gz",
            "/readability-test-pages/**/source.html*",
            "/trafilatura-eval/**/*.html.gz",
        ),
    ),
    "pdf": Target(_read_pdf, _PDF_WORDS, ("/../pdfs/*/*.pdf",)),
    "xml": Target(
        _read_xml,
        _XML_WORDS + _DOCUMENT_WORDS,
        ("**/119*.xml", "/../samples/billstatus/*.xml", "/../samples/senate/*.xml"),
        (_RULE,),
    ),
    "json": Target(
        _read_json,
        _JSON_WORDS,
        ("/../samples/**/*.json", "**/*.json"),
        (
            b'{"CRSReport": {"id": "R1", "title": "t", "summary": "x", "publish_date": "2026-01-15"}}',
            b"PK\x03\x04",
            b"GIF89a",
        ),
    ),
}


def _demo_bodies(target: Target) -> Iterator[bytes]:
    for site in SITES:
        builder = _Builder(site, date(2026, 3, 3), 1)
        if target is TARGETS["feed"] and site.feed:
            yield builder.feed().content
        if target is TARGETS["sitemap"] and site.sitemaps:
            yield from (body.content for body in builder.sitemaps().values())
        if target is TARGETS["robots"] and site.robots:
            yield site.robots.encode()
        kinds = {TARGETS["html"]: "text/html", TARGETS["pdf"]: "application/pdf", TARGETS["xml"]: "application/xml"}
        if kind := kinds.get(target):
            pages = [builder.page(piece) for piece in builder.own[:8]]
            yield from (page.content for page in pages if page.content_type.startswith(kind))
