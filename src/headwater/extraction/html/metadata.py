"""What a page says of itself: title, byline, date, language, image, description, canonical address.

Each field has an order of places to look, the more reliable first; the place it was found in is its provenance. A
selector that the source gives goes before all of them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TypeVar
from urllib.parse import urlsplit

import ada_url
from selectolax.lexbor import LexborHTMLParser, LexborNode

from headwater.core.dates import parse_local_date
from headwater.core.text import one_line, plain_text, strip_markup
from headwater.extraction.article import Article
from headwater.extraction.html import json_ld
from headwater.extraction.html.titles import best_title, is_agreed
from headwater.extraction.html.visible_dates import date_in_address, first_date

T = TypeVar("T")
# A value and where it came from.
Found = tuple[str, str]

# How often the places that fields come from are right, about, by the corpora.
TRUST = {"selector": 1.0, "json-ld": 0.9, "opengraph": 0.9, "meta": 0.8, "url": 0.8, "dom": 0.7}
_TRUST_IN_AGREEMENT = 0.9  # of the heading that is seen and the title of the window

# Found in one walk through the tree, since each page is asked for all of them.
_STATED = 'meta[content], script[type*="ld+json"], h1, title, base[href]'
_AUTHOR_META = (
    "author",
    "article:author",
    "article:author_name",
    "og:article:author",
    "citation_author",
    "dc.creator",
    "dcterms.creator",
    "parsely-author",
    "sailthru.author",
)
# Each of these is a walk through the whole tree, so the less sure ones share one.
_AUTHOR_DOM = (
    '[itemprop~="author"] [itemprop~="name"], [rel~="author"]',
    '[itemprop~="author"], .byline, .author-name, .author',
    '[class*="byline"], [class*="author"], [class*="autor"], a[href*="/author/"], a[href*="/autor/"]',
)
_DATE_META = (
    *("datepublished", "date", "pubdate", "publishdate", "publish-date", "publish_date", "publication_date"),
    *("dc.date.issued", "dc.date", "dc.date.created", "dcterms.issued", "dcterms.created", "dcterms.date"),
    *("parsely-pub-date", "sailthru.date", "citation_publication_date", "citation_online_date", "article.published"),
)
_UPDATE_META = (
    "datemodified",
    "dcterms.modified",
    "dc.date.modified",
    "last-modified",
    "lastmod",
    "revised",
    "modified",
)
_DATE_DOM = (
    '[itemprop~="datePublished"], time[pubdate]',
    "article time[datetime], main time[datetime]",
    "time[datetime]",
)
_DATE_SHOWN = (
    *("time", '[class*="publish"]', '[class*="posted"]', '[class*="date"]', '[id*="date"]', '[class*="datum"]'),
    *('[class*="fecha"]', '[class*="timestamp"]', '[class*="meta"]', '[class*="byline"]'),
)
_IMAGE_DOM = ("article figure img", "article img", "main figure img", "main img", "figure img")
_IMAGE_ATTRIBUTES = ("data-src", "data-original", "data-lazy-src", "src", "content", "href")
_LANGUAGE = re.compile(r"[a-zA-Z]{2,3}(?:[-_][a-zA-Z0-9]{1,8})*")
_BY = re.compile(
    r"^(?:(?:written|posted|published|story|words|text|article|reported|ver\xf6ffentlicht|geschrieben|publi\xe9|escrito"
    r"|publicado|zeige alle beitr\xe4ge|ein artikel|ein beitrag|redaktion|scritto)?\s*"
    r"(?:by|von|vom|par|por|di|door|av|af|przez|od)\b|author|autor(?:in|en)?\b|auteur|autore|text|words|foto|redakteur\w*)"
    r"\s*:?\s*",
    re.IGNORECASE,
)
# What often follows a name in the same element: a date, a place in a paper, a link.
_AFTER_NAME = re.compile(
    r" ?(?:[|\u2022\u00b7]| [-\u2013] |,? ?\b(?:\d{1,2}[./:]|\d{4}\b|am \d|on \w+ \d|\d{1,2}\.? \w+ \d{4}"
    r"|(?:updated|published|posted|aktualisiert|follow|view all|more by)\b))",
    re.IGNORECASE,
)
_NO_NAME = re.compile(r"[\W\d_]*|admin|author|by|link\d*|editor", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"^data:|blank|placeholder|spacer|logo|avatar|icon|pixel|\.svg(?:$|\?)|1x1", re.IGNORECASE)
_SIZES = re.compile(
    r"[-_,]?\d{2,4}x\d{2,4}[-_,]?|[-_,][whs]?\d{2,4}(?![0-9a-z])|[-_](?:xlarge|large|medium|small|scaled)"
)
_LONGEST_BYLINE = 200
LONGEST_ADDRESS = 2000
_LONGEST_LANGUAGE = 35
_MAX_VALUE_LENGTH = 5000  # of a text or an attribute
_MAX_MARKUP_LENGTH = 50_000  # of an element; elements may be nested, so all of them may contain the whole page
_MAX_PICTURES = 100
_MAX_ELEMENTS = 200  # of one selector


def read_metadata(tree: LexborHTMLParser, url: str, selectors: Mapping[str, str], lines: Sequence[str] = ()) -> Article:
    """Return an article that still lacks its text; `lines` are what a reader sees of the page."""
    page = _Page(tree, url, selectors, lines)
    provenance: dict[str, str] = {}
    confidence: dict[str, float] = {}

    def first(name: str, candidates: Iterator[Found], read: Callable[[str], T | None]) -> T | None:
        for text, origin in candidates:
            if text and (value := read(text)):
                provenance[name], confidence[name] = origin, TRUST[origin]
                return value
        return None

    title = first("title", page.titles(), one_line)
    if title and page.agrees_on(title):
        confidence["title"] = max(confidence["title"], _TRUST_IN_AGREEMENT)
    return Article(
        text="",
        title=title,
        byline=first("byline", page.bylines(), person),
        published_at=first("published_at", page.dates(), page.moment),
        updated_at=first("updated_at", page.updates(), page.moment),
        language=first("language", page.languages(), _language),
        image=first("image", page.images(), page.absolute),
        abstract=first("abstract", page.descriptions(), one_line),
        canonical_url=first("canonical_url", page.canonical_urls(), page.absolute),
        provenance=provenance,
        confidence=confidence,
    )


class _Page:
    """The candidates for each field, the best first."""

    def __init__(self, tree: LexborHTMLParser, url: str, selectors: Mapping[str, str], lines: Sequence[str]) -> None:
        self._lines = lines
        self._tree = tree
        self._url = url
        self._selectors = selectors
        stated: dict[str | None, list[LexborNode]] = {tag: [] for tag in ("meta", "script", "h1", "title", "base")}
        for node in tree.css(_STATED):
            stated[node.tag].append(node)
        self._meta = _meta(stated["meta"])
        self._article = json_ld.find_article(script.text() for script in stated["script"])
        self._headings = [_text_of(node) for node in stated["h1"][:_MAX_ELEMENTS]]
        self._window_title = _text_of(stated["title"][0]) if stated["title"] else ""
        base = _attribute(stated["base"][0], "href") if stated["base"] else ""
        self._base = _join(url, base[:LONGEST_ADDRESS]) or url

    def titles(self) -> Iterator[Found]:
        yield from self._selected("title")
        yield from best_title(
            [text for text, _ in self._linked_data("headline")],
            next(self._named("og:title"), ""),
            self._headings,
            self._window_title,
            self._site_names,
        )

    def agrees_on(self, title: str) -> bool:
        """Tell whether a heading and the title of the window say this."""
        return is_agreed(title, self._headings, self._window_title, self._site_names)

    def bylines(self) -> Iterator[Found]:
        yield from self._selected("byline")
        names = (plain_text(name) for name in json_ld.texts(self._article.get("author")))
        linked = ", ".join(dict.fromkeys(filter(None, names)))
        stated = [(linked, "json-ld"), *((name, "meta") for name in self._named(*_AUTHOR_META))]
        yield from stated
        yield from ((_names_in(node), "dom") for selector in _AUTHOR_DOM for node in self._found(selector))

    def dates(self) -> Iterator[Found]:
        yield from self._selected("published", "datetime", "content")
        yield from self._linked_data("datePublished")
        yield from ((date, "opengraph") for date in self._named("article:published_time"))
        yield from ((date, "meta") for date in self._named(*_DATE_META))
        yield from self._seen(*_DATE_DOM, attributes=("datetime", "content"))
        yield date_in_address(self._url) or "", "url"
        shown = self._first_date(text for text in self._dated_texts() if len(text) <= _LONGEST_BYLINE)
        yield shown.isoformat() if shown else "", "dom"
        yield from self.updates()
        # a page without any other date often has it in one of its lines
        shown = self._first_date(self._lines) or self._first_date(text for text, _ in self._seen("footer"))
        yield shown.isoformat() if shown else "", "dom"

    def _dated_texts(self) -> Iterator[str]:
        for node in self._found(", ".join(_DATE_SHOWN)):
            if "comment" not in _attribute(node, "class").lower():
                yield _text_of(node)

    def updates(self) -> Iterator[Found]:
        yield from self._linked_data("dateModified")
        yield from ((date, "opengraph") for date in self._named("article:modified_time", "og:updated_time"))
        yield from ((date, "meta") for date in self._named(*_UPDATE_META))
        yield from self._seen('[itemprop~="dateModified"]', attributes=("datetime", "content"))

    def moment(self, text: str) -> datetime | None:
        """Return the moment that a text names; 11/02/2026 is a day only where it is known which number is the month."""
        moment = parse_local_date(text)
        if moment is None and self._is_american and len(text) <= _LONGEST_BYLINE:
            return self._first_date([text])
        return moment

    def _first_date(self, texts: Iterable[str]) -> datetime | None:
        return first_date(texts, month_first=self._is_american)

    @cached_property
    def _is_american(self) -> bool:
        """Whether the page is of the United States, by its host or by the first language it states with a country."""
        if (urlsplit(self._url).hostname or "").endswith((".gov", ".mil")):
            return True
        stated = (language.strip().replace("_", "-").lower() for language, _ in self.languages())
        return next((language for language in stated if language not in ("", "en")), "") == "en-us"

    def languages(self) -> Iterator[Found]:
        yield _attribute(self._tree.css_first("html[lang]"), "lang"), "dom"
        yield from self._linked_data("inLanguage")
        yield from ((locale, "opengraph") for locale in self._named("og:locale"))
        yield from ((language, "meta") for language in self._named("content-language", "dc.language"))

    def images(self) -> Iterator[Found]:
        if selector := self._selectors.get("image"):
            yield from ((_image_address(node), "selector") for node in self._found(selector))
        stated = [(address, "opengraph") for address in self._named("og:image:secure_url", "og:image") if address]
        stated += [(address, "json-ld") for address in json_ld.addresses(self._article.get("image"))]
        stated += [(address, "meta") for address in self._named("twitter:image", "twitter:image:src") if address]
        stated = [found for found in stated if len(found[0]) <= LONGEST_ADDRESS]
        shown = self._pictures_shown() if stated else ""
        # a picture that is made for social networks is not on the page; the one that is there is meant
        yield from (found for found in stated if _picture_name(found[0]) in shown)
        if stated:
            yield from self._first_pictures("article figure img", "main figure img", "h1 ~ figure img")
        yield from stated
        yield from self._first_pictures(*_IMAGE_DOM)

    def _pictures_shown(self) -> str:
        pictures = self._tree.css("img, source")[:_MAX_PICTURES]
        return " ".join(value for node in pictures for value in node.attributes.values() if value and "/" in value)

    def _first_pictures(self, *selectors: str) -> Iterator[Found]:
        for selector in selectors:
            for node in self._found(selector):
                address = _image_address(node)
                if address and not _PLACEHOLDER.search(address):
                    yield address, "dom"

    @cached_property
    def _site_names(self) -> list[str]:
        publisher = next(json_ld.texts(self._article.get("publisher")), "")
        stated = [*self._named("og:site_name", "application-name", "apple-mobile-web-app-title"), publisher]
        return [*filter(None, stated), urlsplit(self._url).hostname or ""]

    def descriptions(self) -> Iterator[Found]:
        yield from ((text, "opengraph") for text in self._named("og:description"))
        yield from ((text, "meta") for text in self._named("description", "twitter:description"))

    def canonical_urls(self) -> Iterator[Found]:
        yield _attribute(self._tree.css_first('link[rel~="canonical"]'), "href"), "dom"
        yield from ((address, "opengraph") for address in self._named("og:url"))
        addresses = json_ld.addresses([self._article.get("url"), self._article.get("mainEntityOfPage")])
        yield from ((address, "json-ld") for address in addresses)

    def absolute(self, address: str) -> str | None:
        """Return a whole address, None where there is none, or none that anybody meant to write."""
        return _join(self._base, address.strip()) if 0 < len(address.strip()) <= LONGEST_ADDRESS else None

    def _named(self, *names: str) -> Iterator[str]:
        return (plain_text(self._meta[name]) for name in names if name in self._meta)

    def _linked_data(self, name: str) -> Iterator[Found]:
        return ((plain_text(text), "json-ld") for text in json_ld.texts(self._article.get(name)))

    def _selected(self, name: str, *attributes: str) -> Iterator[Found]:
        selector = self._selectors.get(name)
        return ((self._said(node, attributes), "selector") for node in (self._found(selector) if selector else ()))

    def _seen(self, *selectors: str, attributes: Iterable[str] = ()) -> Iterator[Found]:
        return ((self._said(node, attributes), "dom") for selector in selectors for node in self._found(selector))

    def _found(self, selector: str) -> list[LexborNode]:
        return self._tree.css(selector)[:_MAX_ELEMENTS]

    def _said(self, node: LexborNode, attributes: Iterable[str]) -> str:
        """Return what an element says in one of these attributes, else in its text."""
        for attribute in attributes:
            if value := _attribute(node, attribute):
                return value
        return _text_of(node)


def _text_of(node: LexborNode) -> str:
    """Return the text of an element as one line."""
    child = node.first_child
    if child is None or (child.is_text_node and child.next is None):
        return one_line(node.text()[:_MAX_VALUE_LENGTH])
    return strip_markup((node.html or "")[:_MAX_MARKUP_LENGTH])[:_MAX_VALUE_LENGTH]


def _names_in(node: LexborNode) -> str:
    """Return the names in a byline. Each may be a link."""
    links = node.css("a")[:_MAX_ELEMENTS]
    if len(links) < 2:
        return _text_of(node)
    return ", ".join(dict.fromkeys(filter(None, map(_text_of, links))))


def _meta(nodes: Iterable[LexborNode]) -> dict[str, str]:
    """Return the first content of each name, whichever attribute gives the name."""
    meta: dict[str, str] = {}
    for node in nodes:
        attributes = node.attributes
        content = attributes.get("content")
        for naming in ("property", "name", "itemprop", "http-equiv"):
            if content and (name := attributes.get(naming)):
                meta.setdefault(name.strip().lower(), content[:_MAX_VALUE_LENGTH])
    return meta


def _image_address(node: LexborNode) -> str:
    image = node if any(_attribute(node, name) for name in _IMAGE_ATTRIBUTES) else node.css_first("img")
    return next(filter(None, (_attribute(image, name) for name in _IMAGE_ATTRIBUTES)), "")


def _attribute(node: LexborNode | None, name: str) -> str:
    return (node.attributes.get(name) or "") if node is not None else ""


def _picture_name(address: str) -> str:
    """Return what all sizes of a picture have in their address."""
    path = address.partition("?")[0].rstrip("/")
    name = path.rpartition("/")[2].partition(".")[0]
    return max(_SIZES.split(name), key=len) or path


def person(text: str) -> str | None:
    """Return the name, or the names, in a byline."""
    name = one_line(text[:_MAX_VALUE_LENGTH])
    for _ in range(3):
        name = _BY.sub("", name, count=1).strip(" ,;|-\u2013\u00b7\u2022")
    name = _AFTER_NAME.split(name, maxsplit=1)[0].strip(" ,;|-\u2013\u00b7\u2022")
    # social networks' tags give the address of a profile instead of a name
    return name if len(name) <= _LONGEST_BYLINE and "://" not in name and not _NO_NAME.fullmatch(name) else None


def is_picture(address: str) -> bool:
    """Tell whether an address may be that of a page's picture: whole, of a sane length, and no sign or portrait."""
    return (
        address.startswith(("https://", "http://"))
        and len(address) <= LONGEST_ADDRESS
        and not _PLACEHOLDER.search(address)
    )


def _language(text: str) -> str | None:
    tag = text.strip()
    return tag.replace("_", "-") if len(tag) <= _LONGEST_LANGUAGE and _LANGUAGE.fullmatch(tag) else None


def _join(base: str, address: str) -> str | None:
    try:
        joined = ada_url.join_url(base, address)
    except ValueError:
        return None
    return joined if joined.startswith(("https://", "http://")) else None
