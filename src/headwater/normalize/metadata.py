"""What a page says of itself: title, byline, date, language, image, description, canonical address.

Each field has an order of places to look, the more reliable first; the place it was found in is its provenance. A
selector that the source gives goes before all of them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import ada_url
from selectolax.lexbor import LexborHTMLParser, LexborNode

from headwater.model.article import Article
from headwater.normalize import json_ld
from headwater.policy.dates import parse_date
from headwater.policy.text import one_line, plain_text, strip_markup

T = TypeVar("T")
# A value and where it came from.
Found = tuple[str, str]

_AUTHOR_META = ("author", "article:author", "dc.creator", "dcterms.creator", "parsely-author", "sailthru.author")
_AUTHOR_DOM = (
    *('[itemprop~="author"] [itemprop~="name"]', '[itemprop~="author"]', '[rel~="author"]'),
    *(".byline", ".author-name", ".author"),
)
_DATE_META = (
    *("datepublished", "date", "pubdate", "publishdate", "publish-date", "publish_date", "publication_date"),
    *("dc.date.issued", "dc.date", "dc.date.created", "dcterms.issued", "dcterms.created", "dcterms.date"),
    *("parsely-pub-date", "sailthru.date", "citation_publication_date", "citation_online_date", "article.published"),
)
_DATE_DOM = (
    *('[itemprop~="datePublished"]', "time[pubdate]"),
    *("article time[datetime]", "main time[datetime]", "time[datetime]"),
)
_IMAGE_DOM = ("article figure img", "article img", "main figure img", "main img", "figure img")
_IMAGE_ATTRIBUTES = ("data-src", "data-original", "data-lazy-src", "src", "content", "href")
_LANGUAGE = re.compile(r"[a-zA-Z]{2,3}(?:[-_][a-zA-Z0-9]{1,8})*")
_BY = re.compile(r"(?:written\s+)?by:?\s+", re.IGNORECASE)
_LONGEST_BYLINE = 200


def read_metadata(tree: LexborHTMLParser, url: str, selectors: Mapping[str, str]) -> Article:
    """Return an article that still lacks its text."""
    page = _Page(tree, url, selectors)
    provenance: dict[str, str] = {}

    def first(name: str, candidates: Iterator[Found], read: Callable[[str], T | None]) -> T | None:
        for text, origin in candidates:
            if text and (value := read(text)):
                provenance[name] = origin
                return value
        return None

    return Article(
        text="",
        title=first("title", page.titles(), one_line),
        byline=first("byline", page.bylines(), _person),
        published_at=first("published_at", page.dates(), parse_date),
        language=first("language", page.languages(), _language),
        image=first("image", page.images(), page.absolute),
        abstract=first("abstract", page.descriptions(), one_line),
        canonical_url=first("canonical_url", page.canonical_urls(), page.absolute),
        provenance=provenance,
    )


class _Page:
    """The candidates for each field, the best first."""

    def __init__(self, tree: LexborHTMLParser, url: str, selectors: Mapping[str, str]) -> None:
        self._tree = tree
        self._selectors = selectors
        self._meta = _meta(tree)
        self._article = json_ld.find_article(script.text() for script in tree.css('script[type*="ld+json"]'))
        self._base = _join(url, _attribute(tree.css_first("base[href]"), "href")) or url

    def titles(self) -> Iterator[Found]:
        yield from self._selected("title")
        yield from self._linked_data("headline")
        yield _without_site(*self._named("og:title", "og:site_name")), "opengraph"
        yield from self._seen("h1", "title")

    def bylines(self) -> Iterator[Found]:
        yield from self._selected("byline")
        names = (plain_text(name) for name in json_ld.texts(self._article.get("author")))
        yield ", ".join(dict.fromkeys(filter(None, names))), "json-ld"
        yield from ((name, "meta") for name in self._named(*_AUTHOR_META))
        yield from self._seen(*_AUTHOR_DOM)

    def dates(self) -> Iterator[Found]:
        yield from self._selected("published", "datetime", "content")
        yield from self._linked_data("datePublished")
        yield from ((date, "opengraph") for date in self._named("article:published_time"))
        yield from ((date, "meta") for date in self._named(*_DATE_META))
        yield from self._seen(*_DATE_DOM, attributes=("datetime", "content"))

    def languages(self) -> Iterator[Found]:
        yield _attribute(self._tree.css_first("html[lang]"), "lang"), "dom"
        yield from self._linked_data("inLanguage")
        yield from ((locale, "opengraph") for locale in self._named("og:locale"))
        yield from ((language, "meta") for language in self._named("content-language", "dc.language"))

    def images(self) -> Iterator[Found]:
        if selector := self._selectors.get("image"):
            yield from ((_image_address(node), "selector") for node in self._tree.css(selector))
        yield from ((address, "opengraph") for address in self._named("og:image:secure_url", "og:image"))
        yield from ((address, "json-ld") for address in json_ld.addresses(self._article.get("image")))
        yield from ((address, "meta") for address in self._named("twitter:image", "twitter:image:src"))
        for selector in _IMAGE_DOM:
            yield from ((_image_address(node), "dom") for node in self._tree.css(selector))

    def descriptions(self) -> Iterator[Found]:
        yield from ((text, "opengraph") for text in self._named("og:description"))
        yield from ((text, "meta") for text in self._named("description", "twitter:description"))

    def canonical_urls(self) -> Iterator[Found]:
        yield _attribute(self._tree.css_first('link[rel~="canonical"]'), "href"), "dom"
        yield from ((address, "opengraph") for address in self._named("og:url"))
        addresses = json_ld.addresses([self._article.get("url"), self._article.get("mainEntityOfPage")])
        yield from ((address, "json-ld") for address in addresses)

    def absolute(self, address: str) -> str | None:
        return _join(self._base, address.strip()) if address.strip() else None

    def _named(self, *names: str) -> Iterator[str]:
        return (plain_text(self._meta.get(name, "")) for name in names)

    def _linked_data(self, name: str) -> Iterator[Found]:
        return ((plain_text(text), "json-ld") for text in json_ld.texts(self._article.get(name)))

    def _selected(self, name: str, *attributes: str) -> Iterator[Found]:
        selector = self._selectors.get(name)
        return ((_said(node, attributes), "selector") for node in (self._tree.css(selector) if selector else ()))

    def _seen(self, *selectors: str, attributes: Iterable[str] = ()) -> Iterator[Found]:
        return ((_said(node, attributes), "dom") for selector in selectors for node in self._tree.css(selector))


def _meta(tree: LexborHTMLParser) -> dict[str, str]:
    """Return the first content of each name, whichever attribute gives the name."""
    meta: dict[str, str] = {}
    for node in tree.css("meta[content]"):
        attributes = node.attributes
        content = attributes.get("content")
        for naming in ("property", "name", "itemprop", "http-equiv"):
            if content and (name := attributes.get(naming)):
                meta.setdefault(name.strip().lower(), content)
    return meta


def _said(node: LexborNode, attributes: Iterable[str]) -> str:
    """Return what an element says in one of these attributes, else in its text."""
    for attribute in attributes:
        if value := _attribute(node, attribute):
            return value
    # a title by itself would be read as the head of a page, which nobody sees
    return one_line(node.text()) if node.tag == "title" else strip_markup(node.html or "")


def _image_address(node: LexborNode) -> str:
    image = node if any(_attribute(node, name) for name in _IMAGE_ATTRIBUTES) else node.css_first("img")
    return next(filter(None, (_attribute(image, name) for name in _IMAGE_ATTRIBUTES)), "")


def _attribute(node: LexborNode | None, name: str) -> str:
    return (node.attributes.get(name) or "") if node is not None else ""


def _without_site(title: str, site: str) -> str:
    """Return a title without " | Name of the site" at its end."""
    if site and title.casefold().endswith(site.casefold()):
        shorter = title[: -len(site)].rstrip()
        if shorter[-1:] in set("|-\u2013\u2014\u00b7\u00bb:"):
            return shorter[:-1].rstrip() or title
    return title


def _person(text: str) -> str | None:
    name = _BY.sub("", one_line(text), count=1)
    # social networks' tags give the address of a profile instead of a name
    return name if len(name) <= _LONGEST_BYLINE and "://" not in name else None


def _language(text: str) -> str | None:
    tag = text.strip()
    return tag.replace("_", "-") if _LANGUAGE.fullmatch(tag) else None


def _join(base: str, address: str) -> str | None:
    try:
        joined = ada_url.join_url(base, address)
    except ValueError:
        return None
    return joined if joined.startswith(("https://", "http://")) else None
