"""Issue 8, spec 5.3: pages that stand in the way are told from documents."""

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
from tests.short_articles import articles
from tests.wall_pages import LOOKS, bare, walls
from tests.walls_in_sites import walls_in_sites

URL = "https://example.org/a"
WORDS_OF_WALLS = (
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


CHALLENGES = [
    page("Just a moment...", "<div id=challenge-stage>Checking if the site connection is secure</div>"),
    page("Attention Required!", "<h1>Please complete the security check to access this site</h1><p>Why?</p>"),
    page("example.org", "<h1>Access denied</h1><p>Verify you are human to go on.</p><div class=h-captcha></div>"),
    page("Sicherheitsüberprüfung", "<p>Bitte bestätigen Sie, dass Sie kein Roboter sind.</p>"),
]
SOFT_404S = [
    page("404 - Page not found", "<h1>Oops!</h1><p>We looked everywhere. Try the search or go to our front page.</p>"),
    page("Seite nicht gefunden | Zeitung", "<h1>Fehler</h1><p>Diese Seite gibt es nicht mehr.</p>"),
    page("Le Journal", "<h1>Page introuvable</h1><p>La page que vous cherchez a disparu.</p>"),
    page("页面不存在", "<p>您访问的页面不存在或已被删除。请返回首页继续浏览其他内容。</p>"),
]
LOGIN_WALLS = [
    page(
        "Log in", "<form><label>Name<input name=n></label><input type=password name=p></form><p>Log in to read on.</p>"
    ),
    page("Mein Konto", "<h1>Bitte anmelden</h1><form><input type=password></form><p>Nur für Abonnenten.</p>"),
]
COOKIE_WALLS = [
    page(
        "We value your privacy",
        "<h1>We value your privacy</h1><p>We and our partners use cookies and tracking. Do you consent to cookies?</p>"
        "<p>You can withdraw your consent in our privacy policy.</p><a href=#>Accept all</a>",
    ),
    page(
        "Zustimmung",
        "<p>Mit Cookies weiterlesen: Wir brauchen Ihre Einwilligung. Mehr in der Datenschutzerklärung.</p>"
        "<p>Alle Cookies akzeptieren</p>",
    ),
    *(
        page("The Paper", f"<h2>{heading}</h2><p>{said}</p><button>{agree}</button>")
        for heading, said, agree in (
            (
                "Before you go on",
                "We and our 310 partners store and access information on your device, such as cookies, to show ads.",
                "Accept all",
            ),
            ("Cookies", "We would like to set optional cookies to see how you use this service.", "Accept cookies"),
            ("Hinweis", "Wir und 90 Partner setzen Cookies ein. Mit einem Klick stimmen Sie dem zu.", "Akzeptieren"),
            ("Aviso", "Nosotros y 51 socios guardamos cookies y tratamos datos personales.", "Aceptar y continuar"),
            ("Welkom", "Wij en onze partners gebruiken cookies en verwerken persoonsgegevens.", "Akkoord"),
        )
    ),
]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        *((body, Reason.CHALLENGE) for body in CHALLENGES),
        *((body, Reason.SOFT_404) for body in SOFT_404S),
        *((body, Reason.LOGIN_WALL) for body in LOGIN_WALLS),
        *((body, Reason.COOKIE_WALL) for body in COOKIE_WALLS),
    ],
)
def test_a_page_that_stands_in_the_way_ends_with_its_reason(body: bytes, reason: Reason) -> None:
    with pytest.raises(Unreadable) as caught:
        normalize(body, URL, "text/html; charset=utf-8")
    assert caught.value.reason is reason
    assert str(caught.value) == reason.sentence


@pytest.mark.parametrize(("name", "reason", "body"), [*walls(), *walls_in_sites()], ids=lambda value: str(value)[:50])
def test_walls_of_all_sorts_in_many_looks_and_languages_are_no_documents(name: str, reason: Reason, body: str) -> None:
    with pytest.raises(Unreadable) as caught:
        normalize(body.encode(), URL, "text/html; charset=utf-8")
    assert caught.value.reason is reason, name


@pytest.mark.parametrize(("name", "body"), list(articles()), ids=lambda value: str(value)[:50])
def test_short_articles_that_speak_of_walls_stay_documents(name: str, body: str) -> None:
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
def test_what_is_stated_to_be_an_article_is_one(stated: str, headline: str) -> None:
    said = "We and our partners use cookies with your consent, the baker told us, and you can accept that or leave it."
    body = bare(headline, f"<article><h1>{headline}</h1><p>{said}</p><button>Accept</button></article>", stated)
    assert said in extract_html(body, url=URL).text


def test_nested_buttons_are_read_in_little_time() -> None:
    """Spec 5.2: read one within the other, these would take minutes."""
    nested = "<div role=button>" * 1_000 + "<script>" + "word " * 200_000 + "</script>"
    body = page("We value your privacy", f"<p>We and our partners use cookies with your consent.</p>{nested}")
    began = time.process_time()
    assert "partners" in extract_html(body, url=URL).text
    assert time.process_time() - began < 2


@given(st.lists(st.sampled_from(WORDS_OF_WALLS), min_size=1, max_size=8).map(" ".join), st.sampled_from(LOOKS[:3]))
def test_no_headline_makes_a_wall_of_an_article(headline: str, look: Callable[[str, str], str]) -> None:
    body = look(headline, f"<article><h1>{headline}</h1>{STORY[: 3 * len(STORY) // 20]}</article>")
    assert "harbour" in extract_html(body, url=URL).text


def test_only_a_challenge_may_pass_by_itself() -> None:
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
def test_an_article_about_walls_is_none(title: str) -> None:
    body = page(title, f"<article><h1>{title}</h1>{STORY}<form><input type=password></form></article>")
    assert "harbour" in extract_html(body, url=URL).text


def test_a_selector_looks_over_the_wall() -> None:
    article = extract_html(CHALLENGES[0], url=URL, selectors={"body": "#challenge-stage"})
    assert article.text == "Checking if the site connection is secure"
