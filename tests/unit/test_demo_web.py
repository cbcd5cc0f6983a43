"""Spec 9.2: the demo serves a small web, which is the same on every run."""

import json
import re
from html.parser import HTMLParser

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from selectolax.lexbor import LexborHTMLParser

from headwater.core.reasons import Reason
from headwater.demo.answers import whole
from headwater.demo.content import write_story
from headwater.demo.expected import Expected, expected_outcomes
from headwater.demo.faulty_sites import ARCHIVE, MUSEUM
from headwater.demo.pages import article_page
from headwater.demo.sites import GAZETTE, HOSTILE_TITLE, SITES
from headwater.demo.web import DemoWeb
from headwater.politeness.robots import MAX_BYTES, Robots
from tests.demo_client import TODAY, get, open_client

VOID_TAGS = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}


# The pages that are served whole, and those of them in the look of their site.
PAGES = [site.url(piece) for site in SITES for piece in site.pieces if piece.link is None and piece.answer is whole]
ARTICLES = [
    site.url(piece)
    for site in SITES
    for piece in site.pieces
    if piece.link is None and piece.answer is whole and piece.form is article_page
]


async def all_bytes(web: DemoWeb) -> dict[str, bytes]:
    feeds = [site.feed_url for site in SITES if site.feed_url]
    robots = [f"{site.home}robots.txt" for site in SITES if site.robots_answer is whole]
    sitemaps = [f"{GAZETTE.home}sitemap_index.xml", f"{GAZETTE.home}sitemaps/stories.xml.gz"]
    async with open_client(web) as client:
        urls = [*PAGES, *feeds, *robots, *sitemaps, *(site.home for site in SITES)]
        return {url: (await get(client, url))[1] for url in urls}


def paragraphs(page: bytes, box: str) -> list[str]:
    return [node.text() for node in LexborHTMLParser(page).css(f"{box} p")]


class TagBalance(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


async def test_the_same_day_and_seed_give_the_same_bytes_at_every_address(web: DemoWeb) -> None:
    async with DemoWeb(today=TODAY) as other:
        assert await all_bytes(web) == await all_bytes(other)


async def test_another_seed_gives_other_texts_at_the_same_addresses(web: DemoWeb, expected: Expected) -> None:
    async with DemoWeb(today=TODAY, seed=2) as other:
        assert expected_outcomes(other) == expected
        ours, theirs = await all_bytes(web), await all_bytes(other)
    assert all(ours[url] != theirs[url] for url in ARTICLES)


async def test_only_a_continued_run_may_find_lost_workers(web: DemoWeb, expected: Expected) -> None:
    """Issue 3: in a run without kills each outcome is the expected one."""
    fresh = expected_outcomes(web, is_continued=False).outcomes
    given_up = {url for url, reasons in expected.outcomes.items() if Reason.WORKER_LOST in reasons}
    assert len(given_up) >= 5
    assert all(fresh[url] == {Reason.MAX_RETRIES} for url in given_up)
    assert all(fresh[url] == expected.outcomes[url] for url in expected.outcomes.keys() - given_up)


async def test_every_article_has_a_real_size_and_all_parts(client: aiohttp.ClientSession) -> None:
    for url in ARTICLES:
        _, page = await get(client, url)
        assert 10_000 <= len(page) <= 60_000, url
        tree = LexborHTMLParser(page)
        assert len(tree.css("h1")) == 1
        assert tree.css_first("meta[name=author]") or tree.css_first(".post-author")
        assert tree.css_first("meta[name=description]")
        assert tree.css_first("img[src$='-1200.jpg']")
        assert tree.css_first("#cookie-notice")
        assert tree.css_first("link[rel=canonical]").attributes["href"] == url
        assert tree.css("style")
        assert tree.css("script")


async def test_pages_are_well_formed(client: aiohttp.ClientSession) -> None:
    others = [*(site.home for site in SITES), f"{GAZETTE.home}section/rivers", f"{GAZETTE.home}nothing"]
    for url in [*PAGES, *others]:
        response, page = await get(client, url)
        if response.content_type == "application/xml":
            assert etree.fromstring(page).tag, url
        elif not page.startswith(b"%PDF"):
            balance = TagBalance()
            balance.feed(page.decode())
            balance.close()
            assert balance.open == [], url


@given(
    seed=st.integers(),
    language=st.sampled_from(["en", "de", "fr", "ar", "ja", "zh"]),
    headline=st.from_regex("[A-Z][a-z]{3,30}", fullmatch=True),
)
def test_stories_have_a_real_length_with_any_seed(seed: int, language: str, headline: str) -> None:
    topic = {"en": "weather", "fr": "libraries", "ar": "weather"}.get(language, "rivers")
    story = write_story(headline, topic=topic, language=language, seed=seed)
    text = " ".join(story.paragraphs)
    if language in ("ja", "zh"):
        assert not re.search(r"[^\x00-\x7f] [^\x00-\x7f]", "".join(story.paragraphs))
        assert 700 <= len(text) <= 4000
    else:
        assert (300 if language == "ar" else 600) <= len(text.split()) <= 1500
    assert len(set(story.paragraphs)) == len(story.paragraphs) >= 8


async def test_all_languages_occur_and_one_is_written_from_right_to_left(client: aiohttp.ClientSession) -> None:
    format_duration = set()
    for url in ARTICLES:
        attributes = LexborHTMLParser((await get(client, url))[1]).css_first("html").attributes
        format_duration.add((attributes["lang"], attributes["dir"]))
    ltr = {(language, "ltr") for language in ("en", "de", "fr", "ja", "zh")}
    assert format_duration == ltr | {("ar", "rtl")}


async def test_looks_differ_in_their_metadata(client: aiohttp.ClientSession) -> None:
    rich = (await get(client, "http://gazette.demo.test/news/road-repairs"))[1].decode()
    plain = (await get(client, "http://council.demo.test/releases/draft-budget-goes-out-for-comment"))[1].decode()
    assert "application/ld+json" in rich
    assert 'property="og:title"' in rich
    assert "ld+json" not in plain
    assert "og:" not in plain
    assert 'name="DC.date.issued"' in plain


async def test_special_addresses_have_their_statuses(client: aiohttp.ClientSession) -> None:
    statuses = {
        200: (
            "http://wire.demo.test/stories/weir-gates",
            "http://mirror.demo.test/copies/parish-maps",
            "http://mirror.demo.test/private/minutes",
            "http://gazette.demo.test/news/road-repairs?utm_source=wire&utm_medium=rss&utm_campaign=desk",
            "http://kawabe.demo.test/%E6%9C%AC/%E5%A4%9C",
            "http://gazette.demo.test/robots.txt",
            "http://museum.demo.test/robots.txt",
        ),
        404: (
            "http://wire.demo.test/stories/story-withdrawn-by-the-desk",
            "http://council.demo.test/robots.txt",
            "http://gazette.demo.test/no/such/page",
        ),
        410: ("http://wire.demo.test/stories/story-withdrawn-by-a-court",),
        403: (
            "http://wire.demo.test/stories/story-for-member-papers",
            "http://board.demo.test/robots.txt",
        ),
        503: ("http://clinic.demo.test/robots.txt",),
        429: ("http://baths.demo.test/robots.txt",),
        421: ("http://stranger.demo.test/",),
    }
    for status, urls in statuses.items():
        for url in urls:
            assert (await get(client, url))[0].status == status, url


async def test_redirects_have_their_statuses_and_locations(client: aiohttp.ClientSession) -> None:
    redirects = {
        "http://wire.demo.test/r/1182": (301, "/stories/weir-gates"),
        "http://wire.demo.test/out/4471": (302, "http://mirror.demo.test/copies/parish-maps"),
        "http://wire.demo.test/r/there": (302, "/r/back"),
        "http://wire.demo.test/r/back": (302, "/r/there"),
        "http://county.demo.test/robots.txt": (301, "http://digest.demo.test/robots.txt"),
    }
    for url, expected in redirects.items():
        answer, _ = await get(client, url)
        assert (answer.status, answer.headers["Location"]) == expected, url


async def test_every_kind_of_robots_txt_is_served(client: aiohttp.ClientSession) -> None:
    """Spec 4.1."""

    async def robots(host: str) -> tuple[bytes, Robots]:
        _, body = await get(client, f"http://{host}.demo.test/robots.txt")
        return body, Robots(body.decode())

    for host in ("mirror", "digest"):
        assert (await robots(host))[0] == b"User-agent: *\nDisallow: /private/\n"
    body, rules = await robots("archive")
    assert len(body) > MAX_BYTES
    assert body.endswith(b"Disallow: /\n")
    assert rules.allowed("headwater", f"{ARCHIVE.home}pages/x")
    body, rules = await robots("kawabe")
    assert body.startswith(b"\xef\xbb\xbfuser-agent: *\r\n")
    assert not rules.allowed("headwater", "http://kawabe.demo.test/drafts/1")
    assert rules.allowed("headwater", "http://kawabe.demo.test/news/1")
    _, rules = await robots("sahifa")
    assert [rules.allowed(agent, "http://sahifa.demo.test/") for agent in ("headwater", "anybot")] == [True, False]
    assert (await robots("weather"))[1].crawl_delay("headwater") == 0.2
    assert "http://gazette.demo.test/sitemap_index.xml" in (await robots("gazette"))[1].sitemaps
    body, rules = await robots("museum")
    assert body.startswith(b"<!DOCTYPE html>")
    assert rules.allowed("headwater", f"{MUSEUM.home}news/x")


async def test_two_hosts_serve_one_text_in_different_looks(client: aiohttp.ClientSession, expected: Expected) -> None:
    twins = [url for url, ends in expected.outcomes.items() if Reason.LINKED in ends and "storm" in url]
    assert sorted(url.split("/")[2] for url in twins) == ["gazette.demo.test", "wire.demo.test"]
    first, second = [(await get(client, url))[1] for url in twins]
    assert paragraphs(first, ".story__body") == paragraphs(second, ".post-content") != []
    assert first != second
    assert expected.texts == expected.documents - 3


async def test_variants_have_the_text_of_their_page_and_name_it_as_canonical(client: aiohttp.ClientSession) -> None:
    page, amp, printed = [
        (await get(client, f"http://gazette.demo.test/{folder}/covered-market"))[1]
        for folder in ("news", "amp", "print")
    ]
    assert paragraphs(page, ".story__body") == paragraphs(amp, ".story__body") == paragraphs(printed, ".story__body")
    for form in (amp, printed):
        canonical = LexborHTMLParser(form).css_first("link[rel=canonical]").attributes["href"]
        assert canonical == "http://gazette.demo.test/news/covered-market"
    assert LexborHTMLParser(amp).css_first("html[amp]")


async def test_the_undated_article_has_no_date_on_its_page_either(client: aiohttp.ClientSession) -> None:
    _, body = await get(client, "http://wire.demo.test/stories/readers-borrow-more-books-than-before-the-floods")
    assert b"<time" not in body
    assert b"pubdate" not in body


async def test_front_pages_name_their_feed_and_link_every_article(client: aiohttp.ClientSession) -> None:
    """Spec 3.4."""
    for site in SITES:
        tree = LexborHTMLParser((await get(client, site.home))[1])
        links = [node.attributes for node in tree.css("link[rel=alternate]")]
        assert [link["href"] for link in links] == ([site.feed_url] if site.feed_url else [])
        if site.feed:
            assert links[0]["type"] == site.feed.content_type.partition(";")[0]
    tree = LexborHTMLParser((await get(client, GAZETTE.home))[1])
    linked = {node.attributes["href"] for node in tree.css("main a")}
    assert linked == {url for url in ARTICLES if url.startswith(GAZETTE.home)}


async def test_the_table_of_a_pdf_leads_to_its_objects(client: aiohttp.ClientSession) -> None:
    """Spec 1.6."""
    response, named = await get(client, "http://council.demo.test/papers/budget-1.pdf")
    disguised, other = await get(client, "http://council.demo.test/papers/budget-2")
    assert (response.content_type, disguised.content_type) == ("application/pdf", "text/html")
    for file in (named, other):
        assert file.startswith(b"%PDF-1.4\n")
        assert file.endswith(b"%%EOF\n")
        start = int(file.split()[-2])
        count, table = re.match(rb"xref\n0 (\d+)\n((?:.{19}\n)+)trailer", file[start:], re.DOTALL).groups()  # type: ignore[union-attr]
        places = [int(line[:10]) for line in table.splitlines()[1:]]
        assert len(places) == int(count) - 1 > 4
        assert all(file[place:].startswith(b"%d 0 obj\n" % number) for number, place in enumerate(places, start=1))
        for length, stream in re.findall(rb"/Length (\d+) >>\nstream\n(.*?)\nendstream", file, re.DOTALL):
            assert len(stream) == int(length)
    assert rb"(Budget book, part one \(all figures\)) Tj" in named


async def test_pages_can_be_compressed_or_have_wrong_charsets(client: aiohttp.ClientSession) -> None:
    """Spec 4.3."""
    urls = {piece.headline: ARCHIVE.url(piece) for piece in ARCHIVE.pieces}
    packed, body = await get(client, urls["Le fonds des cartes postales est numérisé"])
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "numérisé" in body.decode()
    called_latin, body = await get(client, urls["Das Stadtarchiv öffnet die Akten der großen Flut"])
    assert (called_latin.charset, "öffnet" in body.decode()) == ("iso-8859-1", True)
    called_utf8, body = await get(client, urls["Où sont passées les clés de la bibliothèque ?"])
    assert (called_utf8.charset, "passées" in body.decode("windows-1252")) == ("utf-8", True)
    with pytest.raises(UnicodeDecodeError):
        body.decode()


async def test_a_title_carries_terminal_codes(client: aiohttp.ClientSession) -> None:
    _, feed = await get(client, "http://board.demo.test/notices.json")
    assert json.loads(feed)["items"][0]["title"] == HOSTILE_TITLE
    _, page = await get(client, "http://board.demo.test/notices/sale")
    assert b"\x1b[31m" in page
    assert "\u202e".encode() in page
