"""Spec 4.3, 5.1, 5.2, 5.3 and 8.6: every page ends as an article or with a reason."""

import gzip
import os
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.errors import HeadwaterError, OperatorError, Unreadable
from headwater.core.reasons import Reason
from headwater.core.text import collapse_whitespace
from headwater.extraction.article import Article
from headwater.extraction.html.html_v1 import extract_html
from headwater.extraction.html.metadata import TRUST
from headwater.extraction.registry import NORMALIZERS, normalize
from headwater.extraction.sniffing import choose_normalizer
from headwater.feeds.results import FeedEntry
from headwater.fetching.commit import merge_metadata
from tests.refusals import refusal_of

URL = "https://example.org/news/2024/ships.html"
PARAGRAPHS = [
    "The harbour was quiet when the first of the new ferries came in from the north on Tuesday.",
    "Its crew had been at sea for eleven days & nights, and nobody had slept much since the storm.",
    "What the owners will do with the older boats has not been decided, a spokeswoman said.",
]


def page(head: str = "", before: str = "", after: str = "", html: str = "lang='en'") -> str:
    text = "".join(f"<p>{paragraph.replace('&', '&amp;')}</p>\n" for paragraph in PARAGRAPHS)
    return (
        f"<!doctype html><html {html}><head><meta charset=utf-8>{head}</head><body>"
        "<nav><ul><li><a href=/>Home</a></li><li><a href=/sport>Sport</a></li></ul></nav>"
        f"<article>{before}{text}{after}</article>"
        "<footer><p>All rights reserved by the publisher of this page.</p></footer>"
        "<script>var tracker = 'do not read me';</script></body></html>"
    )


def json_ld(inner: str) -> str:
    return f'<script type="application/ld+json">{inner}</script>'


def test_main_text_has_no_navigation_or_scripts() -> None:
    article = extract_html(page(), url=URL)
    assert article.text == "\n\n".join(PARAGRAPHS)
    assert article.provenance["text"] == "dom"


def test_a_paragraph_of_a_hidden_copy_of_the_article_is_kept_once() -> None:
    """Issue 24."""
    copy = "".join(f"<p>{paragraph}</p>" for paragraph in PARAGRAPHS)
    article = extract_html(page(after=f"<div class=amp-copy>{copy}</div>"), url=URL)
    assert article.text == "\n\n".join(PARAGRAPHS)


def test_a_paragraph_that_an_article_repeats_in_place_is_kept_each_time() -> None:
    article = extract_html(page(after=f"<p>{PARAGRAPHS[0]}</p>"), url=URL)
    assert article.text == "\n\n".join([*PARAGRAPHS, PARAGRAPHS[0]])


GOODS = "".join(
    f'<li class="product-card"><h2><a href=/p/{n}>Brass table lamp {n}</a></h2><div class=price>${n}9.00</div></li>'
    for n in range(40)
)
POSTS = "".join(
    f"<div class=post><div class=author>user{n}</div><p class=message>{PARAGRAPHS[n % 3]} Number {n}.</p></div>"
    for n in range(12)
)


@pytest.mark.parametrize(
    ("url", "markup", "kind", "wanted"),
    [
        (
            "https://shop.example/collections/lamps?page=2",
            f"<h1>Lamps</h1><ul class='products product-grid'>{GOODS}</ul><div>Already a member? Log in</div>",
            "collection",
            ["Brass table lamp 7", "$79.00"],
        ),
        (
            "https://forum.example/thread/10234",
            f"<h1>Why do ferries whistle?</h1><div class='topic thread'>{POSTS}</div>",
            "forum",
            ["Number 0.", "Number 11."],
        ),
    ],
)
def test_pages_of_other_kinds_keep_their_lists(url: str, markup: str, kind: str, wanted: list[str]) -> None:
    """Issue 24: a shop without prose is no login page, and a forum is not empty."""
    article = extract_html(f"<html><body><nav>Menu</nav>{markup}</body></html>", url=url)
    assert article.page_kind == kind
    assert all(part in article.text for part in wanted)


def test_markdown_keeps_headings_lists_and_tables() -> None:
    """Issue 8."""
    table = "<table><tr><th>Ferry</th><th>Built</th></tr><tr><td>Freya</td><td>2021</td></tr></table>"
    quoted = "<blockquote><p># That is what the captain of the older ferry said about it.</p></blockquote>"
    items = "<ul><li>Ropes and sails for all.</li><li>Oars for some of them.</li></ul>"
    markdown = extract_html(page(after=f"<h2>The whole fleet</h2>{items}{quoted}{table}"), url=URL).markdown
    assert "## The whole fleet\n\n- Ropes and sails for all.\n- Oars for some of them.\n\n" in markdown
    assert "> \\# That is what" in markdown
    assert "| Ferry | Built |\n| --- | --- |\n| Freya | 2021 |" in markdown


def test_every_field_has_a_confidence_and_a_selector_has_the_highest() -> None:
    """Issue 8."""
    article = extract_html(page(LINKED_DATA), url=URL, selectors={"body": "article"})
    assert article.confidence.keys() == article.provenance.keys()
    assert article.confidence["text"] == 1.0
    assert 0.5 < extract_html(page(), url=URL).confidence["text"] < 1


def test_a_date_keeps_the_day_of_its_time_zone() -> None:
    head = "<meta property='article:published_time' content='2024-03-06T00:30:00+05:00'>"
    published = extract_html(page(head), url=URL).published_at
    assert published == datetime(2024, 3, 5, 19, 30, tzinfo=UTC)
    assert published.day == 6


@pytest.mark.parametrize(
    ("shown", "day"),
    [
        ("Am 5. M\u00e4rz 2024 um 10:30", 5),
        ("5 de marzo de 2024", 5),
        ("March 7th, 2024", 7),
        ("2024\u5e743\u67089\u65e5", 9),
        ("2024年3月9日 10時30分", 9),
        ("١٦ مارس ٢٠٢٤", 16),
        ("10.03.2024", 10),
        ("03/31/2024", 31),
    ],
)
def test_a_visible_date_is_read(shown: str, day: int) -> None:
    article = extract_html(page(before=f"<div class=post-date>{shown}</div>"), url="https://example.org/ships")
    assert article.published_at == datetime(2024, 3, day, tzinfo=UTC)


@pytest.mark.parametrize(
    "shown",
    [
        "<p class=date>Closing date: 12 March 2024</p>",
        "<p>Closing date</p><p class=closing-date>12 March 2024</p>",
        "<dl class=meta><dt>Closes</dt><dd><time datetime=2024-03-12>12 March 2024</time></dd></dl>",
        "<p>Apply by <time datetime=2024-03-12>Tuesday</time></p>",
        "<div class=meta>The consultation closes at 11:59pm on 12 March 2024</div>",
        "<div class=date>Bewerbungsschluss: 12. M\u00e4rz 2024</div>",
        "<div class=date>Date limite de candidature : 12 mars 2024</div>",
    ],
)
def test_a_deadline_is_no_date_of_publication(shown: str) -> None:
    """Issue 20."""
    assert extract_html(page(before=shown), url="https://example.org/jobs").published_at is None
    both = f"<div class=meta>Published 5 March 2024</div>{shown}"
    assert extract_html(page(before=both), url="https://example.org/jobs").published_at == datetime(
        2024, 3, 5, tzinfo=UTC
    )
    after = f"{shown}<div class=meta>Closed consultation Published 5 March 2024</div>"
    assert extract_html(page(before=after), url="https://example.org/jobs").published_at == datetime(
        2024, 3, 5, tzinfo=UTC
    )


GRAPH_OF_THE_STATES = "<meta property='og:locale' content='en_US'>"
META_OF_THE_STATES = "<meta http-equiv=content-language content=en-US>"


@pytest.mark.parametrize(
    ("html", "head", "url", "month"),
    [
        ("lang=en-US", "", "https://example.org/ships", 11),
        ("lang=en", GRAPH_OF_THE_STATES, "https://example.org/ships", 11),
        ("", META_OF_THE_STATES, "https://example.org/ships", 11),
        ("lang=en", "", "https://www.example.gov/ships", 11),
        ("lang=en", "", "https://example.mil/ships", 11),
        ("lang=en", "", "https://example.gov.uk/ships", 2),
        ("lang=en-GB", GRAPH_OF_THE_STATES, "https://example.org/ships", 2),
        ("lang=de", GRAPH_OF_THE_STATES, "https://example.org/ships", 2),
        ("", "", "https://example.org/ships", 2),
    ],
)
def test_the_month_comes_first_on_pages_of_the_united_states(html: str, head: str, url: str, month: int) -> None:
    """Issue 8, spec 5.2."""
    for shown in ("<span class=date>11/02/2026</span>", "<p>Posted 11-02-2026</p>"):
        article = extract_html(page(head, before=shown, html=html), url=url)
        assert article.published_at == datetime(2026, month, 13 - month, tzinfo=UTC)
        assert article.provenance["published_at"] == "dom"


@pytest.mark.parametrize(
    ("shown", "day"),
    [("31/03/2024", 31), ("March 7th, 2024", 7), ("2024-03-09", 9), ("10.03.2024", 10), ("3/7/2024", 7)],
)
def test_other_days_are_read_in_the_united_states_as_elsewhere(shown: str, day: int) -> None:
    """Issue 8, spec 5.2."""
    body = page(before=f"<div class=post-date>{shown}</div>", html="lang=en-US")
    article = extract_html(body, url="https://example.org/ships")
    assert article.published_at == datetime(2024, 3, day, tzinfo=UTC)


def test_a_day_in_metadata_follows_the_same_order() -> None:
    """Issue 8, spec 5.2: without a country, both readings are possible, and there is no date."""
    head = "<meta name=date content='11/02/2026'><meta name=revised content='12/11/2026 9:00 AM'>"
    article = extract_html(page(head, html="lang=en-US"), url="https://example.org/ships")
    assert article.published_at == datetime(2026, 11, 2, tzinfo=UTC)
    assert article.updated_at == datetime(2026, 12, 11, tzinfo=UTC)
    assert article.provenance["published_at"] == "meta"
    assert extract_html(page(head), url="https://example.org/ships").published_at is None


@pytest.mark.parametrize(
    ("sentence", "home", "advertisement"),
    [
        ("港口昨天很安静，第一艘新渡轮从北方开来。", "首页", "广告"),  # noqa: RUF001
        ("昨日の港は静かで、最初の新しいフェリーが北からやって来た。", "ホーム", "広告"),
        ("เมื่อวานท่าเรือเงียบสงบและเรือข้ามฟากลำใหม่ลำแรกก็มาถึงจากทางเหนือ", "หน้าแรก", "โฆษณา"),
    ],
    ids=["Chinese", "Japanese", "Thai"],
)
def test_pages_without_spaces_between_words_are_read(sentence: str, home: str, advertisement: str) -> None:
    """Issue 8."""
    sentence *= 4
    around = f"<nav><a href=/>{home}</a></nav>", f"<aside>{advertisement}</aside>"
    body = f"{around[0]}<article><p>{sentence}</p><p>{sentence}</p></article>{around[1]}"
    assert extract_html(f"<html><body>{body}</body></html>", url=URL).text == f"{sentence}\n\n{sentence}"


def test_tables_and_lists_are_kept() -> None:
    table = "<table><tr><th>Ferry</th><th>Built</th></tr><tr><td>Freya</td><td>2021</td></tr></table>"
    text = extract_html(page(after=f"<h2>Fleet</h2><ul><li>Ropes and sails</li></ul>{table}"), url=URL).text
    for piece in ("Fleet", "Ropes and sails", "Freya", "2021"):
        assert piece in text
    assert "\n\n\n" not in text
    assert "\n" not in text.replace("\n\n", "")


LINKED_DATA = json_ld(
    """{"@context": "https://schema.org", "@graph": [
        {"@type": "Organization", "name": "The Paper"},
        {"@type": ["NewsArticle"], "headline": "Ferries &amp; storms", "datePublished": "2024-03-05T10:30:00+01:00",
         "author": [{"@type": "Person", "name": "Ann Sailor"}, {"name": "Ben Rower"}], "image": ["/img/ld.jpg"],
         "inLanguage": "en-GB", "mainEntityOfPage": {"@id": "https://example.org/ld"}}]}"""
)
OPEN_GRAPH = (
    "<meta property='og:title' content='Ferries arrive | The Paper'><meta property='og:site_name' content='The Paper'>"
    "<meta property='article:published_time' content='2024-03-06'><meta property='og:image' content='../og.jpg'>"
    "<meta property='og:locale' content='en_US'><meta property='og:description' content='Told by the graph.'>"
    "<meta property='og:url' content='https://example.org/og'>"
)
META = (
    "<meta name=author content='Meta Author'><meta name=date content='7 March 2024'>"
    "<meta name=description content='Told by meta.'>"
    "<meta name='twitter:image' content='https://cdn.example/t.jpg'><meta http-equiv=content-language content=de>"
)
DOM = (
    "<h1>Ferries <i>seen</i></h1><p class=byline>By Dom Author</p><time datetime='2024-03-08T09:00:00Z'>8 March</time>"
    "<figure><img data-src='/img/dom.jpg' src='data:image/gif;base64,R0lG'></figure>"
)


SHOWN_IMAGE = "<meta property='og:image' content='/img/dom-1200x630.jpg'>"
MODIFIED = "<meta property='article:modified_time' content='2024-04-01T08:00:00Z'>"


@pytest.mark.parametrize(
    ("head", "field", "value", "origin"),
    [
        (LINKED_DATA + OPEN_GRAPH + META, "title", "Ferries & storms", "json-ld"),
        (OPEN_GRAPH + META, "title", "Ferries arrive", "opengraph"),
        (META + "<title>Ferries seen - News</title>", "title", "Ferries seen", "dom"),
        (META + "<title>Not the heading</title>", "title", "Not the heading", "dom"),
        (LINKED_DATA + OPEN_GRAPH + META, "byline", "Ann Sailor, Ben Rower", "json-ld"),
        (OPEN_GRAPH + META, "byline", "Meta Author", "meta"),
        ("<meta property='article:author' content='https://social.example/me'>", "byline", "Dom Author", "dom"),
        (LINKED_DATA + OPEN_GRAPH + META, "published_at", datetime(2024, 3, 5, 9, 30, tzinfo=UTC), "json-ld"),
        (OPEN_GRAPH + META, "published_at", datetime(2024, 3, 6, tzinfo=UTC), "opengraph"),
        (META, "published_at", datetime(2024, 3, 7, tzinfo=UTC), "meta"),
        ("<meta name=date content=yesterday>", "published_at", datetime(2024, 3, 8, 9, tzinfo=UTC), "dom"),
        (OPEN_GRAPH + LINKED_DATA, "image", "https://example.org/img/dom.jpg", "dom"),
        (SHOWN_IMAGE, "image", "https://example.org/img/dom-1200x630.jpg", "opengraph"),
        ("", "image", "https://example.org/img/dom.jpg", "dom"),
        (LINKED_DATA, "published_at", datetime(2024, 3, 5, 9, 30, tzinfo=UTC), "json-ld"),
        (MODIFIED, "updated_at", datetime(2024, 4, 1, 8, tzinfo=UTC), "opengraph"),
        (OPEN_GRAPH + META, "abstract", "Told by the graph.", "opengraph"),
        (META, "abstract", "Told by meta.", "meta"),
        (
            "<link rel=canonical href='/canonical'>" + OPEN_GRAPH,
            "canonical_url",
            "https://example.org/canonical",
            "dom",
        ),
        (OPEN_GRAPH + LINKED_DATA, "canonical_url", "https://example.org/og", "opengraph"),
        (LINKED_DATA, "canonical_url", "https://example.org/ld", "json-ld"),
        (LINKED_DATA + OPEN_GRAPH, "language", "en", "dom"),
    ],
)
def test_each_field_comes_from_the_best_place_and_names_it(head: str, field: str, value: object, origin: str) -> None:
    article = extract_html(page(head, before=DOM), url=URL)
    assert getattr(article, field) == value
    assert article.provenance[field] == origin


@pytest.mark.parametrize(
    ("head", "image", "origin"),
    [
        (OPEN_GRAPH + LINKED_DATA, "https://example.org/news/og.jpg", "opengraph"),
        (LINKED_DATA + META, "https://example.org/img/ld.jpg", "json-ld"),
        (META, "https://cdn.example/t.jpg", "meta"),
        ("<base href='https://static.example/x/'>" + OPEN_GRAPH, "https://static.example/og.jpg", "opengraph"),
    ],
)
def test_an_image_in_metadata_is_used_if_the_article_shows_none(head: str, image: str, origin: str) -> None:
    article = extract_html(page(head), url=URL)
    assert (article.image, article.provenance["image"]) == (image, origin)


@pytest.mark.parametrize(
    ("head", "language", "region", "origin"),
    [
        (LINKED_DATA + OPEN_GRAPH + META, "en", "GB", "json-ld"),
        (OPEN_GRAPH + META, "en", "US", "opengraph"),
        (META, "de", None, "meta"),
        ("<meta http-equiv=content-language content='all of them'>", None, None, None),
    ],
)
def test_the_language_comes_from_metadata_if_the_page_declares_none(
    head: str, language: str | None, region: str | None, origin: str | None
) -> None:
    article = extract_html(page(head, html="lang=''"), url=URL)
    assert (article.language, article.region, article.provenance.get("language")) == (language, region, origin)


def test_missing_fields_are_none_and_the_abstract_is_the_first_long_paragraph() -> None:
    article = extract_html(page(before="<p>Short.</p>"), url=URL)
    assert article.title is None
    assert (article.byline, article.published_at, article.image, article.canonical_url) == (None, None, None, None)
    assert article.abstract == PARAGRAPHS[0]
    assert article.provenance == {"text": "dom", "abstract": "dom", "language": "dom"}


@pytest.mark.parametrize(
    "broken",
    [
        "{",
        "null",
        "[]",
        "[[[]]]",
        '{"@type": 7}',
        '{"@type": "Article", "headline": {"a": [1]}, "author": 3}',
        "{" * 5000,
    ],
)
def test_broken_linked_data_is_ignored(broken: str) -> None:
    assert extract_html(page(json_ld(broken) + OPEN_GRAPH), url=URL).title == "Ferries arrive"


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("\n<!--\n", "\n-->\n"),
        ("<![CDATA[", "]]>"),
        ("\n  <![CDATA[\n", "\n  ]]>\n"),
        ("//<![CDATA[\n", "\n//]]>"),
        ("/* <![CDATA[ */", "/* ]]> */"),
        ("", ";\n"),
    ],
)
def test_linked_data_in_comments_or_with_line_breaks_is_read(before: str, behind: str) -> None:
    linked = '{"@type": "BlogPosting", "headline": "Two\nlines; and ]]> more"}'
    script = json_ld(f"{before}{linked}{behind}")
    assert extract_html(page(script), url=URL).title == "Two lines; and ]]> more"


@pytest.mark.parametrize(
    "linked",
    [
        '{"@type": "Article", "headline": "Ferries, ] and more", "author": {"name": "Ann Lee",},}',
        '{"@type": "Article", "headline": "Ferries, ] and more", "author": [{"name": "Ann Lee"}, ]\n,\n}',
    ],
)
def test_linked_data_with_trailing_commas_is_read(linked: str) -> None:
    """Issue 8, spec 5.2."""
    article = extract_html(page(json_ld(linked)), url=URL)
    assert (article.byline, article.provenance["byline"]) == ("Ann Lee", "json-ld")


@pytest.mark.parametrize(
    ("author", "byline"),
    [
        ('{"@id": "#ann"}', "Ann Lee"),
        ('[{"@type": "Person", "@id": "#ann"}, "Ben Rower", {"@id": "#nobody"}]', "Ann Lee, Ben Rower"),
        ('{"@id": "#ann", "name": "A. Lee"}', "A. Lee"),
        ('{"@id": ["#ann"]}', None),
        ("{}", None),
    ],
)
def test_an_author_that_linked_data_refers_to_is_found(author: str, byline: str | None) -> None:
    """Issue 8, spec 5.2."""
    people = '{"@type": "Person", "@id": "#ann", "name": "Ann Lee"}, {"@type": "Person", "name": "Cy Stern"}'
    graph = f'{{"@graph": [{{"@type": "NewsArticle", "headline": "Ferries", "author": {author}}}, {people}]}}'
    assert extract_html(page(json_ld(graph)), url=URL).byline == byline


def test_selectors_of_the_source_win() -> None:
    extra = (
        "<div class=own><h4>Own title</h4><span class=who>By Own Author</span><span class=when>9 March 2024</span>"
        "<div class=pic><img src=/own.jpg></div><div class=story><p>Own <b>b</b>ody.</p>\n<p>And more.</p></div></div>"
    )
    selectors = {"body": ".story", "title": ".own h4", "byline": ".who", "published": ".when", "image": ".pic"}
    article = extract_html(page(LINKED_DATA + OPEN_GRAPH, after=extra), url=URL, selectors=selectors)
    assert article.text == "Own body.\n\nAnd more."
    assert (article.title, article.byline) == ("Own title", "Own Author")
    assert article.published_at == datetime(2024, 3, 9, tzinfo=UTC)
    assert article.image == "https://example.org/own.jpg"
    for field in ("text", "title", "byline", "published_at", "image"):
        assert article.provenance[field] == "selector"


def test_a_selector_that_matches_nothing_changes_nothing() -> None:
    article = extract_html(page(LINKED_DATA), url=URL, selectors={"body": ".none", "title": ".none"})
    assert article.text == "\n\n".join(PARAGRAPHS)
    assert article.provenance["title"] == "json-ld"


@pytest.mark.parametrize("selectors", [{"body": "p["}, {"title": ""}, {"headline": "h1"}])
def test_an_invalid_selector_is_an_operator_error(selectors: dict[str, str]) -> None:
    with pytest.raises(OperatorError, match=next(iter(selectors))) as caught:
        extract_html(page(), url=URL, selectors=selectors)
    assert caught.value.reason is Reason.BAD_SOURCE


def test_the_header_names_the_charset_and_str_needs_none() -> None:
    text = page().replace("<meta charset=utf-8>", "").replace("harbour", "Häfen")
    normalized = normalize(text.encode("cp1257"), URL, "text/html; charset=windows-1257")
    assert "Häfen" in normalized.article.text
    assert extract_html(text, url=URL) == normalized.article


def test_text_is_normalized_and_has_no_control_characters() -> None:
    odd = (
        "<p>Cafe\u0301 \x00 \x07 \x85 &#0; &#xD800; &#x1F; &#8203; long enough to be taken for a paragraph of text.</p>"
    )
    text = extract_html(page(after=odd), url=URL).text
    assert "Café" in text
    assert_clean(text)


def assert_clean(text: str) -> None:
    text.encode()
    assert unicodedata.is_normalized("NFC", text)
    assert not [character for character in text if unicodedata.category(character) == "Cc" and character not in "\n\t"]


def test_a_normalized_page_names_its_normalizer_and_the_hash_of_its_text() -> None:
    normalized = normalize(page().encode(), URL, None)
    assert normalized.normalizer == "html_v1"
    assert normalized.normalizer in NORMALIZERS
    assert normalized.content_hash == sha256(normalized.article.text.encode()).hexdigest()


XHTML = (
    "<?xml version='1.0' encoding='utf-8'?>\n<!-- a --><!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN' 'x'>\n"
)


@pytest.mark.parametrize(
    "body",
    [
        page().encode(),
        page().upper().encode(),
        b"\n\n \xef\xbb\xbf" + page().encode(),
        ("\ufeff" + page()).encode("utf-16-le"),
        (XHTML + page().removeprefix("<!doctype html>")).encode(),
        ("<div>" + "<p>word word word</p>" * 20).encode(),
        page().encode() + b"\x00" * 1000,
        b"\x00" + page().encode(),
    ],
)
def test_the_bytes_choose_the_normalizer_of_markup(body: bytes) -> None:
    assert choose_normalizer(body, "application/pdf") == "html_v1"
    assert normalize(body, URL, "application/octet-stream").article.text


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"%PDF-1.7\n" + b"<p>" * 100, Reason.BROKEN),
        (b"\x89PNG\r\n\x1a\n" + b"\x00" * 300, Reason.UNSUPPORTED_TYPE),
        (b"\xff\xd8\xff\xe0" + b"\x00" * 300, Reason.UNSUPPORTED_TYPE),
        (b"GIF89a" + b"\x00" * 300, Reason.UNSUPPORTED_TYPE),
        (b"PK\x03\x04" + b"\x00" * 300, Reason.UNSUPPORTED_TYPE),
        (gzip.compress(page().encode(), mtime=0), Reason.UNSUPPORTED_TYPE),
        (b'{"html": "<p>text</p>"' + b" " * 300 + b"}\n", Reason.UNSUPPORTED_TYPE),
        (b"[1, 2]", Reason.UNSUPPORTED_TYPE),
        (
            b"<?xml version='1.0'?><rss><channel><item><description><p>x</p></description></item></channel></rss>" * 5,
            Reason.UNSUPPORTED_TYPE,
        ),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><a>" + b"<path/>" * 100 + b"</a></svg>", Reason.UNSUPPORTED_TYPE),
        (bytes(range(256)) * 10, Reason.UNSUPPORTED_TYPE),
        (b"", Reason.BAD_HTML),
        (b"<html><body><p>Hi</p></body></html>", Reason.BAD_HTML),
        (b"<p>" + b" " * 1000, Reason.BAD_HTML),
        (b"Just a long line of plain text, no tags. " * 20, Reason.BAD_HTML),
        (b"a < b and c > d, " * 30, Reason.BAD_HTML),
        (
            b"<html><head><title>Shell</title></head><body><div id=app></div>" + b"<script>x()</script>" * 20,
            Reason.EMPTY_TEXT,
        ),
    ],
)
def test_other_bytes_are_refused_with_a_reason(body: bytes, reason: Reason) -> None:
    assert refusal_of(body, URL, "text/html") is reason


def test_a_small_page_that_is_all_text_is_kept() -> None:
    article = extract_html("<html><body><div>Closed on Monday.</div></body></html>", url=URL)
    assert article.text == "Closed on Monday."


@pytest.mark.parametrize("tag", ["div", "b", "ul><li", "table><tr><td", "article", "x-y", "DIV", "svg"])
def test_a_page_nested_a_hundred_thousand_deep_ends_with_a_reason(tag: str) -> None:
    body = b"<html><body>" + f"<{tag}>".encode() * 100_000 + PARAGRAPHS[0].encode() * 10
    with pytest.raises(Unreadable) as caught:
        normalize(body, URL, None)
    assert caught.value.reason is Reason.PARSE_FAILED


def test_a_long_page_of_unclosed_paragraphs_is_not_too_deep() -> None:
    item = b"<li>An item of the list<br><p>and its words, which are a whole sentence of an article.\n"
    article = normalize(b"<html><body><article><ul>" + item * 6000, URL, None).article
    assert article.text.count("and its words") == 6000


@pytest.mark.parametrize(
    "body",
    [
        b"<html><body><p>" + b"word " * 4_000_000,
        b"<html><body><p " + b"a=1 " * 1_000_000 + b">" + b"word " * 100,
        b"<html><body>" + b"<!--" * 100_000 + b"<p>" + b"word " * 100,
        b"<html><body><p>" + b"&" * 1_000_000,
        b"<html><head>" + b"<" * 100_000,
        b"<html><body><p>" + b"\x00\xff\xfe" * 10_000,
    ],
    ids=["20 MB of text", "a million attributes", "unclosed comments", "ampersands", "brackets", "bytes"],
)
def test_huge_and_hostile_pages_end_as_an_article_or_with_a_reason(body: bytes) -> None:
    try:
        article = normalize(body, URL, "text/html; charset=utf-8").article
    except HeadwaterError:
        return
    assert_clean(article.text)


@pytest.mark.parametrize("blanks", ["{" + " " * 100_000 + "x", " " * 100_000 + "x", "x" + " " * 100_000 + "]]>"])
def test_blanks_around_linked_data_take_no_time(blanks: str) -> None:
    """Spec 4.3, issue 8: a page takes two seconds at most."""
    script = f'<script type="application/ld+json">{blanks}</script>'
    began = time.process_time()
    extract_html(page(script), url=URL)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("piece", ["<tr><td>a b c", "<p>word", "<"])
def test_pages_of_a_million_tags_are_refused_at_once(piece: str) -> None:
    """Spec 4.3, issue 8: a page takes two seconds and 300 MB at most."""
    began = time.process_time()
    with pytest.raises(Unreadable) as caught:
        extract_html("<html><body><table>" + piece * 600_000, url=URL)
    assert caught.value.reason is Reason.BODY_TOO_LARGE
    assert time.process_time() - began < 2


LONG_TITLE = "a - b | " * 300_000


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (f"<title>{LONG_TITLE}</title>", f"<h1>{LONG_TITLE}</h1>"),
        (json_ld(f'{{"@type": "Article", "headline": "{LONG_TITLE[:1_900_000]}"}}'), ""),
        (f"<meta property=og:title content='{LONG_TITLE}'>", ""),
        ("<meta property=og:site_name content='The Paper'>", "<h1>The Papers of</h1>" * 40_000),
        (json_ld('{"@type": "Article", "author": [' + '{"name": "Ann"},' * 100_000 + '"Ben"]}'), ""),
        (json_ld("[" + "{}," * 3_000_000 + "{}]"), ""),
        (json_ld("{}") * 50_000, ""),
        (json_ld("[" * 100_000 + "]" * 100_000), ""),
        (f"<meta name=author content='{'by ' * 1_000_000}'>", f"<p class=byline>{'by ' * 1_000_000}</p>"),
        (f"<meta name=description content='{'word ' * 1_000_000}'>", ""),
    ],
    ids=["title", "headline", "og", "h1", "authors", "list", "blocks", "deep", "byline", "description"],
)
def test_endless_fields_take_no_time_and_are_not_kept(head: str, body: str) -> None:
    """Spec 4.3, issue 8: a page takes two seconds at most."""
    began = time.process_time()
    article = extract_html(page(head, after=body), url=URL)
    assert time.process_time() - began < 2
    fields = (article.title, article.byline, article.abstract, article.language, article.image, article.canonical_url)
    assert max(len(field or "") for field in fields) <= 5000


@pytest.mark.parametrize("marks", ["\u0301\u0316", "\u0f73\u0f71", "\u0f81\u0f75\u0f71"])
def test_many_accents_on_one_letter_take_no_time(marks: str) -> None:
    """Spec 4.3, issue 8: the time of sorting grows with the square. Some characters are accents only in parts."""
    heap = marks * 50_000
    began = time.process_time()
    article = extract_html(page(after=f"<p>The letter e{heap} and what follows it.</p>"), url=URL)
    assert time.process_time() - began < 2
    assert "and what follows it." in article.text
    assert_clean(article.text)


@pytest.mark.parametrize("heap", ["\u0301\u0316" * 60_000, "<b>&#769;&#790;</b> " * 15_000], ids=["one", "pieces"])
def test_many_accents_take_no_time_before_a_second_opinion(heap: str) -> None:
    """Spec 4.3, issue 8."""
    began = time.process_time()
    article = extract_html(f"<body><nav><a>e{heap}</a></nav><p>The ferry sails again.</p></body>", url=URL)
    assert time.process_time() - began < 2
    assert article.text == "The ferry sails again."


@pytest.mark.parametrize(
    "tag", ["div class=author", "section rel=author", "div class=date", "h1", "div itemprop=dateModified"]
)
@pytest.mark.parametrize(
    "inner", ["words that are long enough " * 75_000, "<i><a>Ann</a> x</i>" * 20_000], ids=["text", "links"]
)
def test_nested_fields_take_no_time(tag: str, inner: str) -> None:
    """Spec 4.3, issue 8."""
    began = time.process_time()
    extract_html(page(after=f"<{tag}>" * 200 + inner), url=URL)
    assert time.process_time() - began < 4


def test_a_field_after_many_nested_ones_is_found() -> None:
    """Spec 4.3, issue 8."""
    inner = "words that are long enough " * 75_000
    byline = "<p class=author>By <b>Ann</b> <i>Lee</i></p>"
    article = extract_html(page(after="<div class=author>" * 20 + inner + byline), url=URL)
    assert article.byline == "Ann Lee"


def test_deeply_nested_blocks_take_no_time() -> None:
    """Spec 4.3, issue 8: a page with thousands of both."""
    began = time.process_time()
    article = extract_html("<body>" + "<div>" * 4_800 + "<li>x" * 10_000, url=URL)
    assert time.process_time() - began < 2
    assert article.text.count("x") == 10_000


@given(st.text(alphabet="a \t\n\x1c\x85\xa0\u2003\u3000é"))
def test_blanks_are_squeezed_equally_in_short_and_long_texts(text: str) -> None:
    """Issue 8."""
    assert collapse_whitespace(text + " " * 100_000) == collapse_whitespace(text) == " ".join(text.split())


def test_lone_surrogates_in_a_str_are_dropped() -> None:
    """Issue 8."""
    article = extract_html(page("<title>A \ud800 ferry</title>", after="<p>Half \udfff of a sign.</p>" * 3), url=URL)
    assert_clean(article.text)
    assert_clean(article.title or "")


@given(st.integers(0))
def test_random_bytes_with_a_tag_are_not_a_page(seed: int) -> None:
    """Spec 5.3."""
    with pytest.raises(Unreadable):
        normalize(Random(seed).randbytes(20_000) + b"<p>", URL, "text/html")


PIECES = (
    *("<p>", "</p>", "<div>", "</table>", "<!--", "-->", "<script>", "</script>", "<title>", "<h1>", "<svg>"),
    *("<template>", "<![CDATA[", "<meta name=author content='", "'>", "&amp;", "&#xD800;", "&#0;", "\x00"),
    *(OPEN_GRAPH, LINKED_DATA),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(st.characters()))).map("".join))
def test_random_markup_ends_as_an_article_or_with_a_reason(text: str) -> None:
    for body in (page(after=text), page(text), text):
        try:
            article = extract_html(body, url=URL)
        except HeadwaterError:
            continue
        for value in (article.text, article.title, article.byline, article.abstract, article.language):
            assert_clean(value or "")


def test_trafilatura_is_loaded_only_when_needed() -> None:
    code = "import sys, headwater.extraction.registry; sys.exit('trafilatura' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


CORPORA = Path(os.environ.get("HEADWATER_CORPORA", Path(__file__).parents[3] / "shared" / "corpora"))


@pytest.mark.skipif(not CORPORA.is_dir(), reason="no corpora: set HEADWATER_CORPORA")
@pytest.mark.parametrize("corpus", ["trafilatura-eval", "fundus-test-html"])
def test_every_tenth_real_page_ends_as_an_article_or_with_a_reason(corpus: str) -> None:
    paths = sorted((CORPORA / corpus).rglob("*.html.gz"))
    assert len(paths) > 100
    articles = [_article_or_none(gzip.decompress(path.read_bytes())) for path in paths[::10]]
    assert sum(article is not None for article in articles) >= len(articles) * 0.9


def _article_or_none(body: bytes) -> Article | None:
    try:
        article = normalize(body, URL, None).article
    except HeadwaterError:
        return None
    assert_clean(article.text)
    return article


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            b"\xff\xd8\xff\xe0\x00\x10JFIF\x00<p>A text in a picture, of which nobody knows what it is for.</p>" * 9,
            "type",
        ),
        (b"\x01\x02\x03\x04<p>Something between bytes of another sort.</p>" * 9, "type"),
        (b"%PDF-1.7\n<p>Words and more words.</p>" * 9, "type"),
        (b'{"html": "<p>Words and more words of a record.</p>"}', "type"),
        (b"Just a long line of plain text, no tags. " * 20, "html"),
        (b"", "html"),
    ],
    ids=["jpeg", "binary", "pdf", "json", "text", "empty"],
)
def test_the_library_and_the_normalizer_refuse_the_same_bytes(body: bytes, reason: str) -> None:
    """Issue 8."""
    with pytest.raises(Unreadable) as caught:
        extract_html(body, url=URL)
    assert caught.value.reason is {"type": Reason.UNSUPPORTED_TYPE, "html": Reason.BAD_HTML}[reason]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"body": None}, "body must be"),
        ({"body": 7}, "body must be"),
        ({"body": bytearray(b"<p>")}, "body must be"),
        ({"url": None}, "url must be"),
        ({"url": URL.encode()}, "url must be"),
        ({"selectors": "article"}, "selectors must be"),
        ({"selectors": ["article"]}, "selectors must be"),
        ({"selectors": {"body": None}}, r"selectors\['body'\] must be"),
    ],
)
def test_an_argument_of_another_type_is_a_type_error(arguments: dict[str, object], named: str) -> None:
    """Spec 8.6, issue 8."""
    with pytest.raises(TypeError, match=named):
        extract_html(**({"body": page(), "url": URL} | arguments))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("heading", "title", "is_sure"),
    [
        ("Ferries at last", "Ferries at last", True),
        ("Ferries at last", "Ferries at last - The Paper", True),
        ("Ferries at last", "The Paper | Ferries at last", True),
        ("Ferries at last", "The Paper: Ferries at last", True),
        ("Ferries at last", "Ferries at last: The Paper", True),
        ("柿の木、伐採へ", "柿の木、伐採へ\uff5c東海新報", True),
        ("柿の木、伐採へ", "東海新報\uff1a柿の木、伐採へ", True),
        ("Ferries at last", "All about ships", False),
        ("at last", "Ferries at last", False),
        ("Example", "Example", False),
    ],
)
def test_a_title_that_heading_and_page_title_agree_on_has_a_high_confidence(
    heading: str, title: str, is_sure: bool
) -> None:
    """Issue 8: the title of a feed does not replace it."""
    article = extract_html(page(f"<title>{title}</title>", before=f"<h1>{heading}</h1>"), url=URL)
    assert article.provenance["title"] == "dom"
    assert (article.confidence["title"] == TRUST["json-ld"]) is is_sure
    fused = merge_metadata(article, FeedEntry(URL, "What the feed says"))
    assert fused.title == (heading if is_sure else "What the feed says")


@pytest.mark.parametrize(
    ("stated", "day"),
    [
        ("2024-03-06T00:30:00+05:00", 6),
        ("Wed, 06 Mar 2024 00:30:00 +0500", 6),
        ("March 5, 2024 11:30 PM EST", 5),
        ("2024-03-06", 6),
    ],
)
def test_a_date_keeps_the_day_of_its_publisher_in_every_notation(stated: str, day: int) -> None:
    """Issue 8."""
    article = extract_html(page(f"<meta name=date content='{stated}'>"), url=URL)
    assert article.published_at is not None
    assert article.published_at.day == day


SHORT_MENU = "".join(f"<li><a href=/{name}>{name}</a></li>" for name in ("News", "Sport", "Weather", "Newsletters"))
ABOUT = (
    "The Fenland Courier has been reporting from the towns and villages of the fens since 1887. We are owned by our "
    "readers; if you have a complaint about something we published, please write to the editor at any time."
)
TEASERS = "".join(
    f"<div class=crd><a href=/c><div>{title}</div></a><div>{title}. It was the talk of the town.</div></div>"
    for title in ("Council agrees a budget", "Bus drivers vote on an offer", "Bakery turns one hundred")
)


def marked_page(inner: str) -> str:
    return (
        "<!doctype html><html lang=en><head><title>Pump prices</title></head><body>"
        f"<header><a href=/>The Fenland Courier</a></header><nav><ul>{SHORT_MENU}</ul></nav>"
        f"<main><article>{inner}</article></main><aside><h2>Recent</h2>{TEASERS}</aside>"
        f"<footer><p>{ABOUT}</p><ul>{SHORT_MENU}</ul></footer></body></html>"
    )


def unmarked_page(inner: str) -> str:
    return (
        "<!doctype html><html lang=en><head><title>Pump prices</title></head><body>"
        f"<div id=root><div class=css-1>{SHORT_MENU}</div><div class=css-9><div class=css-22>{inner}</div></div>"
        f"<div class=css-77>{TEASERS}</div><div class=css-5><div>{ABOUT}</div></div></div></body></html>"
    )


@pytest.mark.parametrize("around", [marked_page, unmarked_page])
@pytest.mark.parametrize(
    "lines",
    [
        ["Diesel fell by two pence a litre in Wisbech this week."],
        ["£9.50", "Holds 350 ml. Made in Poland. Not for the microwave."],
        ["因管道维修\uff0c明天上午八点至下午四点东城区停水\uff0c请市民提前储水。"],
        ["Fog at first, then sun. High 9, low 2.", "Wind light, from the east."],
    ],
)
def test_a_short_article_has_no_menu(around: Callable[[str], str], lines: list[str]) -> None:
    """Issue 8, spec 5.2."""
    text = "".join(f"<div>{line}</div>" for line in lines)
    article = extract_html(around(f"<h1>Pump prices</h1>{text}<div><a href=/>More of this</a></div>"), url=URL)
    assert article.text.split("\n\n") == lines
    assert (article.provenance["text"], article.confidence["text"]) == ("dom", 0.5)


def test_text_outside_of_the_section_of_the_heading_is_dropped() -> None:
    """Issue 8, spec 5.2."""
    text = "".join(f"<p>{paragraph}</p>" for paragraph in PARAGRAPHS)
    article = extract_html(unmarked_page(f"<h1>Pump prices</h1>{text}").replace(" the talk of the town.", ""), url=URL)
    assert article.text.split("\n\n") == PARAGRAPHS


def test_preformatted_text_keeps_its_lines_and_is_fenced_in_markdown() -> None:
    """Issue 8, spec 5.2."""
    code = 'def lift(gate):\n    if gate.stuck:\n\n\traise Stuck("*x* `y`")'
    markup = f"<pre><code>{code}</code></pre><pre>````\n  nested<br>line\n```\n</pre>"
    markup += "<blockquote><pre>a\n b</pre></blockquote>"
    article = extract_html(page(after=f"{markup}<p>{PARAGRAPHS[0]}</p>"), url=URL)
    assert f"\n\n{code}\n\n````\n  nested\nline\n```\n\na\n b\n\n" in article.text
    assert f"\n\n```\n{code}\n```\n\n" in article.markdown
    assert "\n\n`````\n````\n  nested\nline\n```\n`````\n\n> ```\n> a\n>  b\n> ```\n\n" in article.markdown


def test_nested_lists_are_indented_and_keep_their_numbers_in_markdown() -> None:
    """Issue 8, spec 5.2."""
    items = "<li>Raise the gate.<ul><li>Both motors.</li><li>Slowly.<ol><li>Wait.</li></ol></li></ul></li>"
    steps = f"<p>{PARAGRAPHS[0]}</p><ol>{items}<li>Lower the gate.</li></ol><ul><li>Ropes.</li></ul>"
    markdown = extract_html(page(after=f"{steps}<p>{PARAGRAPHS[1].replace('&', 'and')}</p>"), url=URL).markdown
    nested = "1. Raise the gate.\n    - Both motors.\n    - Slowly.\n      1. Wait.\n2. Lower the gate.\n\n- Ropes.\n\n"
    assert nested in markdown


def test_a_line_of_only_the_byline_and_a_date_is_not_in_the_text() -> None:
    """Spec 5.2: copies of an article then have one text."""
    said = "Ann Lee met 40 owners."
    text = "".join(f"<p>{paragraph}</p>" for paragraph in (*PARAGRAPHS, said, *PARAGRAPHS[:1]))
    info = "<p class='post-info'><span>Ann Lee</span><time>17 November 2026, 10:14</time></p>"
    page = (
        "<html><head><title>Ferries</title><meta name=author content='Ann Lee'></head><body><div class='post'>"
        f"<h1>Ferries</h1>{info}<div class='post-content'>{text}</div></div></body></html>"
    )
    found = extract_html(page, url=URL).text
    assert "17 November" not in found
    assert said in found
