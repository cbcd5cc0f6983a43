"""Issue 8, spec 5.3: an interstitial is not a document."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import Unreadable
from headwater.core.reasons import Reason
from headwater.extraction.html.html_v1 import extract_html
from headwater.extraction.registry import normalize
from tests.brief_articles import brief_articles
from tests.interstitial_pages import LOOKS, bare, interstitials
from tests.short_articles import articles

URL = "https://example.org/a"
WORDS_OF_INTERSTITIALS = (
    *(
        "page",
        "not",
        "found",
        "404",
        "error",
        "oops",
        "sorry",
        "missing",
        "log in",
        "sign in",
        "to continue",
        "reading",
    ),
    *("subscribers", "only", "cookies", "privacy", "accept", "just", "a moment", "access", "denied", "robot", "human"),
    *("verify", "you are", "this", "the", "Seite", "nicht gefunden", "introuvable", "не найдена", "页面不存在"),
)
STORY = "<p>The harbour was quiet when the first of the new ferries came in from the north on Tuesday morning.</p>" * 20


def page(title: str, body: str) -> bytes:
    style = "<style>body { font-family: sans-serif; margin: 3em auto; max-width: 40em; text-align: center }</style>"
    return f"<!doctype html><html><head><title>{title}</title>{style}</head><body>{body}</body></html>".encode()


@pytest.mark.parametrize(("name", "reason", "body"), list(interstitials()), ids=lambda value: str(value)[:50])
def test_an_interstitial_ends_with_its_reason(name: str, reason: Reason, body: str) -> None:
    with pytest.raises(Unreadable) as caught:
        normalize(body.encode(), URL, "text/html; charset=utf-8")
    assert caught.value.reason is reason, name


@pytest.mark.parametrize(("name", "body"), list(articles()), ids=lambda value: str(value)[:50])
def test_a_short_article_about_interstitials_stays_a_document(name: str, body: str) -> None:
    text = normalize(body.encode(), URL, "text/html; charset=utf-8").article.text
    assert len(text.encode()) > 150, name


@pytest.mark.parametrize(("name", "body"), list(brief_articles()), ids=lambda value: str(value)[:50])
def test_news_notices_and_help_of_a_few_sentences_stay_documents(name: str, body: str) -> None:
    assert normalize(body.encode(), URL, "text/html; charset=utf-8").article.text, name


STATEMENTS = (
    '<meta property="og:type" content="article">',
    '<meta property="article:published_time" content="2024-03-05T09:00:00Z">',
    '<script type="application/ld+json">{"@type": "NewsArticle", "author": {"name": "Ann Lee"}}</script>',
)


@pytest.mark.parametrize("stated", STATEMENTS)
@pytest.mark.parametrize("headline", ["Page not found", "Access denied", "We value your privacy"])
def test_a_page_with_the_metadata_of_an_article_is_an_article(stated: str, headline: str) -> None:
    said = "We and our partners use cookies with your consent, the baker told us, and you can accept that or leave it."
    body = bare(headline, f"<article><h1>{headline}</h1><p>{said}</p><button>Accept</button></article>", stated)
    assert said in extract_html(body, url=URL).text


def test_nested_buttons_are_read_in_little_time() -> None:
    """Spec 5.2."""
    nested = "<div role=button>" * 1_000 + "<script>" + "word " * 200_000 + "</script>"
    body = page("We value your privacy", f"<p>We and our partners use cookies with your consent.</p>{nested}")
    began = time.process_time()
    assert "partners" in extract_html(body, url=URL).text
    assert time.process_time() - began < 2


@given(
    st.lists(st.sampled_from(WORDS_OF_INTERSTITIALS), min_size=1, max_size=8).map(" ".join), st.sampled_from(LOOKS[:3])
)
def test_no_headline_makes_an_article_an_interstitial(headline: str, look: Callable[[str, str], str]) -> None:
    body = look(headline, f"<article><h1>{headline}</h1>{STORY[: 3 * len(STORY) // 20]}</article>")
    assert "harbour" in extract_html(body, url=URL).text


def test_only_a_bot_wall_is_retried() -> None:
    assert Reason.CHALLENGE.retryable
    assert not any(reason.retryable for reason in (Reason.SOFT_404, Reason.LOGIN_WALL, Reason.COOKIE_WALL))


@pytest.mark.parametrize(
    "title",
    [
        "Just a moment: a short history of time",
        "404 errors explained",
        "How to log in safely",
        "Why cookies need consent",
    ],
)
def test_a_long_article_about_interstitials_stays_a_document(title: str) -> None:
    body = page(title, f"<article><h1>{title}</h1>{STORY}<form><input type=password></form></article>")
    assert "harbour" in extract_html(body, url=URL).text


def test_a_selector_reads_an_interstitial() -> None:
    body = page("Just a moment...", "<div id=challenge-stage>Checking if the site connection is secure</div>")
    article = extract_html(body, url=URL, selectors={"body": "#challenge-stage"})
    assert article.text == "Checking if the site connection is secure"
