"""How a spider classifies links: articles, pages to follow, and external pages (spec 3.5)."""

import time

import pytest

from headwater.core.errors import Unreadable
from headwater.feeds.links import MAX_SPIDER_LINKS, ClassifiedLinks, classify_links, looks_like_article

URL = "https://a.example/"
ARTICLES = [
    "https://a.example/2026/01/15/ferry",
    "https://a.example/news/2026/01/ferry",
    "https://a.example/news/2026-01-15-ferry",
    "https://a.example/20260115-ferry",
    "https://a.example/news/ferry-and-tram-share-a-ticket",
    "https://a.example/news/ferry_and_tram_share/",
    "https://a.example/n/4711.html",
    "https://a.example/news/uk-68123456",
    "https://a.example/news/ferry-and-tram-share-a-ticket/2",
    "https://a.example/?p=4711",
    "https://a.example/read.php?lang=en&newsid=3",
]
LISTS = [
    "https://a.example/",
    "https://a.example/news",
    "https://a.example/news/transport",
    "https://a.example/2026/01/15",
    "https://a.example/2026/01/",
    "https://a.example/about-us.html",
    "https://a.example/category/local-government-and-politics",
    "https://a.example/tag/a-b-c-d-e",
    "https://a.example/news/page/20260115",
    "https://a.example/2026/01/page/2",
    "https://a.example/?page=4711",
    "https://a.example/news/2",
]


def links(*targets: str, head: str = "", rel: str = "") -> bytes:
    return f"<head>{head}</head>{''.join(f'<a href={target!r} rel={rel!r}>x</a>' for target in targets)}".encode()


@pytest.mark.parametrize("url", ARTICLES)
def test_an_address_that_looks_like_an_article_is_one(url: str) -> None:
    assert looks_like_article(url)


@pytest.mark.parametrize("url", LISTS)
def test_an_address_that_looks_like_a_list_is_navigation(url: str) -> None:
    assert not looks_like_article(url)


def test_patterns_alone_decide_if_there_are_any() -> None:
    found = classify_links(links("/2026/01/15/ferry", "/s/1", "/print/s/2"), URL, None, ["a.example"], [r"/s/\d+$"])
    assert found.articles == ["https://a.example/s/1", "https://a.example/print/s/2"]
    assert found.navigation == ["https://a.example/2026/01/15/ferry"]


def test_www_is_the_same_site_and_other_hosts_are_external() -> None:
    page = links("https://www.a.example/x", "http://a.example/y", "https://shop.a.example/", "https://b.example/z")
    found = classify_links(page, URL, None, ["www.a.example"], [])
    assert found.navigation == ["https://www.a.example/x", "http://a.example/y"]
    assert found.external == ["https://shop.a.example/", "https://b.example/z"]


@pytest.mark.parametrize(
    "target",
    [
        *("/a.jpg", "/b.ZIP", "/style.css", "/feed.xml", "/login", "/wp-login.php", "/search/?q=x", "/share/1"),
        *("mailto:x@a.example", "javascript:void(0)", "tel:1", "https://twitter.com/intent/tweet?url=x"),
        *("https://www.facebook.com/paper", "https://b.example/sharer?u=x", "https://b.example/x.png"),
    ],
)
def test_files_and_utility_pages_are_left_out(target: str) -> None:
    found = classify_links(links(target), URL, None, ["a.example"], [])
    assert found == ClassifiedLinks()


def test_a_pdf_is_an_article_if_no_pattern_matches_it() -> None:
    assert classify_links(links("/papers/b.PDF"), URL, None, ["a.example"], ["/news/"]).articles == [
        "https://a.example/papers/b.PDF"
    ]


@pytest.mark.parametrize(
    ("head", "rel"), [("<meta name=robots content='noindex, nofollow'>", ""), ("", "nofollow noopener")]
)
def test_nofollow_is_obeyed_in_links_and_in_pages(head: str, rel: str) -> None:
    found = classify_links(
        links("/x", "/2026/01/15/ferry", "https://b.example/", head=head, rel=rel), URL, None, [], []
    )
    assert found == ClassifiedLinks()


def test_a_page_of_very_many_links_gives_the_first_links() -> None:
    found = classify_links(
        links(*(f"/p{number}x" for number in range(3 * MAX_SPIDER_LINKS))), URL, None, ["a.example"], []
    )
    assert len(found.navigation) == MAX_SPIDER_LINKS


def test_a_page_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(Unreadable, match="too deep"):
        classify_links(b"<div>" * 1_000_000, URL, None, ["a.example"], [])


@pytest.mark.parametrize("part", ["a", "1", "a1", "a-", "-", "2026/01/", "/2026/01", "1.html"])
def test_no_address_takes_long_to_classify(part: str) -> None:
    url = f"{URL}{part * 8_000}"[:8_000]
    begun = time.process_time()
    for _ in range(20):
        looks_like_article(url)
    assert time.process_time() - begun < 1
