"""Read the metadata of a page: title, byline, dates, language, image, description and canonical address.

Each field has candidates in several places, the more reliable first. The place of the chosen one is its provenance. A
selector of the source comes before all others.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TypeVar
from urllib.parse import urlsplit

import ada_url
from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from headwater.core.dates import parse_local_date
from headwater.core.language import split_language
from headwater.core.text import one_line, plain_text, strip_markup
from headwater.extraction.article import Article
from headwater.extraction.html import json_ld
from headwater.extraction.html.titles import best_title, is_agreed
from headwater.extraction.html.visible_dates import date_in_address, first_date, is_deadline

T = TypeVar("T")
# A value and its origin.
Candidate = tuple[str, str]

# About how often each origin is right, measured on the corpora.
TRUST = {"selector": 1.0, "json-ld": 0.9, "opengraph": 0.9, "meta": 0.8, "url": 0.8, "dom": 0.7}
_TRUST_IN_AGREEMENT = 0.9  # if a heading and the title of the page agree

# One walk through the tree finds all of these.
_ALL_METADATA = 'meta[content], script[type*="ld+json"], h1, title, base[href]'
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
# Each of these is a walk through the whole tree, so the less reliable ones share one.
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
_VISIBLE_DATES = (
    'time, [class*="publish"], [class*="posted"], [class*="date"], [id*="date"], [class*="datum"], [class*="fecha"], '
    '[class*="timestamp"], [class*="meta"], [class*="byline"]'
)
_DEADLINE_CLASS = re.compile(r"clos(?:es|ing)|deadline|expir|due[-_]?date", re.IGNORECASE)
_IMAGE_DOM = ("article figure img", "article img", "main figure img", "main img", "figure img")
_IMAGE_ATTRIBUTES = ("data-src", "data-original", "data-lazy-src", "src", "content", "href")
_BYLINE_START = re.compile(
    r"^(?:(?:written|posted|published|story|words|text|article|reported|ver\xf6ffentlicht|geschrieben|publi\xe9|escrito"
    r"|publicado|zeige alle beitr\xe4ge|ein artikel|ein beitrag|redaktion|scritto)?\s*"
    r"(?:by|von|vom|par|por|di|door|av|af|przez|od)\b|author|autor(?:in|en)?\b|auteur|autore|text|words|foto|redakteur\w*)"
    r"\s*:?\s*",
    re.IGNORECASE,
)
# Text that often follows a name in the same element: a date, a position, a link.
_AFTER_NAME = re.compile(
    r"(?i) ?(?:[|\u2022\u00b7]| [-\u2013] |,? ?\b(?:\d{1,2}[./:]|\d{4}\b|am \d|on \w+ \d|\d{1,2}\.? \w+ \d{4}"
    r"|(?:updated|published|posted|aktualisiert|follow|view all|more by)\b))"
)
_NO_NAME = re.compile(r"[\W\d_]*|admin|author|by|link\d*|editor", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"^data:|blank|placeholder|spacer|logo|avatar|icon|pixel|\.svg(?:$|\?)|1x1", re.IGNORECASE)
_SIZES = re.compile(
    r"[-_,]?\d{2,4}x\d{2,4}[-_,]?|[-_,][whs]?\d{2,4}(?![0-9a-z])|[-_](?:xlarge|large|medium|small|scaled)"
)
SELECTOR_KEYS = ("body", "title", "byline", "published", "image")  # the fields that a source may select by CSS
_MAX_SELECTOR_LENGTH = 500
_TELLING_META = ("og:", "article:", "product:")
_PROGRAM = re.compile(r"[a-z]{2,30}")
_MAX_TYPE_LENGTH = 30
_MAX_BYLINE_LENGTH = 200
_MAX_ADDRESS_LENGTH = 2000
_MAX_VALUE_LENGTH = 5000  # of a text or an attribute
_MAX_MARKUP_LENGTH = 50_000  # of an element; elements may be nested, so all of them may contain the whole page
_MAX_PICTURES = 100
_MAX_ELEMENTS = 200  # of one selector


def read_metadata(
    tree: LexborHTMLParser, url: str, selectors: Mapping[str, str], lines: Sequence[str] = ()
) -> tuple[Article, set[str]]:
    """Return an article without its text, and the types that the page declares. `lines` are its visible lines."""
    page = _PageFields(tree, url, selectors, lines)
    provenance: dict[str, str] = {}
    confidence: dict[str, float] = {}

    def first(name: str, candidates: Iterator[Candidate], read: Callable[[str], T | None]) -> T | None:
        for text, origin in candidates:
            if text and (value := read(text)):
                provenance[name], confidence[name] = origin, TRUST[origin]
                return value
        return None

    title = first("title", page.titles(), one_line)
    if title and page.agrees_on(title):
        confidence["title"] = max(confidence["title"], _TRUST_IN_AGREEMENT)
    language = first("language", page.languages(), split_language)
    article = Article(
        text="",
        title=title,
        byline=first("byline", page.bylines(), read_byline),
        published_at=first("published_at", page.dates(), page.read_time),
        updated_at=first("updated_at", page.updates(), page.read_time),
        language=language.code if language else None,
        region=language.region if language else None,
        image=first("image", page.images(), page.absolute),
        abstract=first("abstract", page.descriptions(), one_line),
        canonical_url=first("canonical_url", page.canonical_urls(), page.absolute),
        provenance=provenance,
        confidence=confidence,
    )
    return article, page.declared_types()


class _PageFields:
    """The candidates for each field, the best first."""

    def __init__(self, tree: LexborHTMLParser, url: str, selectors: Mapping[str, str], lines: Sequence[str]) -> None:
        self._lines = lines
        self._tree = tree
        self._url = url
        self._selectors = selectors
        stated: dict[str | None, list[LexborNode]] = {tag: [] for tag in ("meta", "script", "h1", "title", "base")}
        for node in tree.css(_ALL_METADATA):
            stated[node.tag].append(node)
        self._meta = _meta(stated["meta"])
        scripts = [script.text() for script in stated["script"]]
        self._linked_types = json_ld.find_types(scripts)
        self._article = json_ld.find_article(scripts)
        self._headings = [_text_of(node) for node in stated["h1"][:_MAX_ELEMENTS]]
        self._window_title = _text_of(stated["title"][0]) if stated["title"] else ""
        base = _attribute(stated["base"][0], "href") if stated["base"] else ""
        self._base = _join(url, base[:_MAX_ADDRESS_LENGTH]) or url

    def declared_types(self) -> set[str]:
        """Return the types in JSON-LD and OpenGraph, the program that made the page, and the names of metadata."""
        types = {f"json-ld:{name}" for name in self._linked_types}
        if page_type := self._meta.get("og:type"):
            types.add(f"og:{page_type.strip().lower()[:_MAX_TYPE_LENGTH]}")
        if program := _PROGRAM.search(self._meta.get("generator", "").lower()):
            types.add(f"generator:{program[0]}")
        return types | {f"meta:{name}" for name in self._meta if name.startswith(_TELLING_META)}

    def titles(self) -> Iterator[Candidate]:
        yield from self._from_selector("title")
        yield from best_title(
            [text for text, _ in self._from_linked_data("headline")],
            next(self._from_meta("og:title"), ""),
            self._headings,
            self._window_title,
            self._site_names,
        )

    def agrees_on(self, title: str) -> bool:
        return is_agreed(title, self._headings, self._window_title, self._site_names)

    def bylines(self) -> Iterator[Candidate]:
        yield from self._from_selector("byline")
        names = (plain_text(name) for name in json_ld.read_texts(self._article.get("author")))
        linked = ", ".join(dict.fromkeys(filter(None, names)))
        stated = [(linked, "json-ld"), *((name, "meta") for name in self._from_meta(*_AUTHOR_META))]
        yield from stated
        yield from ((_names_in(node), "dom") for selector in _AUTHOR_DOM for node in self._find(selector))

    def dates(self) -> Iterator[Candidate]:
        yield from self._from_selector("published", "datetime", "content")
        yield from self._from_linked_data("datePublished")
        yield from ((date, "opengraph") for date in self._from_meta("article:published_time"))
        yield from ((date, "meta") for date in self._from_meta(*_DATE_META))
        times = (node for selector in _DATE_DOM for node in self._find(selector) if not _has_deadline(node))
        yield from ((self._value_of(node, ("datetime", "content")), "dom") for node in times)
        yield date_in_address(self._url) or "", "url"
        nodes = (
            node
            for node in self._find(_VISIBLE_DATES)
            if "comment" not in _attribute(node, "class").lower() and not _has_deadline(node)
        )
        shown = self._find_date(text for node in nodes if len(text := _text_of(node)) <= _MAX_BYLINE_LENGTH)
        yield shown.isoformat() if shown else "", "dom"
        yield from self.updates()
        # A page without any other date often has one in its text.
        shown = self._find_date(self._lines) or self._find_date(text for text, _ in self._from_dom("footer"))
        yield shown.isoformat() if shown else "", "dom"

    def updates(self) -> Iterator[Candidate]:
        yield from self._from_linked_data("dateModified")
        yield from ((date, "opengraph") for date in self._from_meta("article:modified_time", "og:updated_time"))
        yield from ((date, "meta") for date in self._from_meta(*_UPDATE_META))
        yield from self._from_dom('[itemprop~="dateModified"]', attributes=("datetime", "content"))

    def read_time(self, text: str) -> datetime | None:
        """Return the time in a text. 11/02/2026 is a day only on pages of the United States."""
        read_time = parse_local_date(text)
        if read_time is None and self._is_american and len(text) <= _MAX_BYLINE_LENGTH:
            return self._find_date([text])
        return read_time

    def _find_date(self, texts: Iterable[str]) -> datetime | None:
        return first_date(texts, month_first=self._is_american)

    @cached_property
    def _is_american(self) -> bool:
        """Whether the page is from the United States, by its host or the first language with a country."""
        if (urlsplit(self._url).hostname or "").endswith((".gov", ".mil")):
            return True
        stated = (language.strip().replace("_", "-").lower() for language, _ in self.languages())
        return next((language for language in stated if language not in ("", "en")), "") == "en-us"

    def languages(self) -> Iterator[Candidate]:
        yield _attribute(self._tree.css_first("html[lang]"), "lang"), "dom"
        yield from self._from_linked_data("inLanguage")
        yield from ((locale, "opengraph") for locale in self._from_meta("og:locale"))
        yield from ((language, "meta") for language in self._from_meta("content-language", "dc.language"))

    def images(self) -> Iterator[Candidate]:
        if selector := self._selectors.get("image"):
            yield from ((_image_address(node), "selector") for node in self._find(selector))
        stated = [(address, "opengraph") for address in self._from_meta("og:image:secure_url", "og:image") if address]
        stated += [(address, "json-ld") for address in json_ld.read_addresses(self._article.get("image"))]
        stated += [(address, "meta") for address in self._from_meta("twitter:image", "twitter:image:src") if address]
        stated = [found for found in stated if len(found[0]) <= _MAX_ADDRESS_LENGTH]
        pictures = self._tree.css("img, source")[:_MAX_PICTURES] if stated else []
        shown = " ".join(value for node in pictures for value in node.attributes.values() if value and "/" in value)
        # An image for social networks may not be on the page. An image that is on the page is better.
        yield from (found for found in stated if _image_name(found[0]) in shown)
        if stated:
            yield from self._first_images("article figure img", "main figure img", "h1 ~ figure img")
        yield from stated
        yield from self._first_images(*_IMAGE_DOM)

    def _first_images(self, *selectors: str) -> Iterator[Candidate]:
        for selector in selectors:
            for node in self._find(selector):
                address = _image_address(node)
                if address and not _PLACEHOLDER.search(address):
                    yield address, "dom"

    @cached_property
    def _site_names(self) -> list[str]:
        publisher = next(json_ld.read_texts(self._article.get("publisher")), "")
        stated = [*self._from_meta("og:site_name", "application-name", "apple-mobile-web-app-title"), publisher]
        return [*filter(None, stated), urlsplit(self._url).hostname or ""]

    def descriptions(self) -> Iterator[Candidate]:
        yield from ((text, "opengraph") for text in self._from_meta("og:description"))
        yield from ((text, "meta") for text in self._from_meta("description", "twitter:description"))

    def canonical_urls(self) -> Iterator[Candidate]:
        yield _attribute(self._tree.css_first('link[rel~="canonical"]'), "href"), "dom"
        yield from ((address, "opengraph") for address in self._from_meta("og:url"))
        addresses = json_ld.read_addresses([self._article.get("url"), self._article.get("mainEntityOfPage")])
        yield from ((address, "json-ld") for address in addresses)

    def absolute(self, address: str) -> str | None:
        """Return an absolute address, or None if there is no usable one."""
        return _join(self._base, address.strip()) if 0 < len(address.strip()) <= _MAX_ADDRESS_LENGTH else None

    def _from_meta(self, *names: str) -> Iterator[str]:
        return (plain_text(self._meta[name]) for name in names if name in self._meta)

    def _from_linked_data(self, name: str) -> Iterator[Candidate]:
        return ((plain_text(text), "json-ld") for text in json_ld.read_texts(self._article.get(name)))

    def _from_selector(self, name: str, *attributes: str) -> Iterator[Candidate]:
        selector = self._selectors.get(name)
        return ((self._value_of(node, attributes), "selector") for node in (self._find(selector) if selector else ()))

    def _from_dom(self, *selectors: str, attributes: Iterable[str] = ()) -> Iterator[Candidate]:
        return ((self._value_of(node, attributes), "dom") for selector in selectors for node in self._find(selector))

    def _find(self, selector: str) -> list[LexborNode]:
        return self._tree.css(selector)[:_MAX_ELEMENTS]

    def _value_of(self, node: LexborNode, attributes: Iterable[str]) -> str:
        """Return the first of these attributes with a value, else the text of the element."""
        for attribute in attributes:
            if value := _attribute(node, attribute):
                return value
        return _text_of(node)


def _has_deadline(node: LexborNode) -> bool:
    """Return whether an element shows a deadline, by its class or by the text before it."""
    if _DEADLINE_CLASS.search(f"{_attribute(node, 'class')} {_attribute(node, 'id')}"):
        return True
    # The text before it, or before its parent: <dt>Closes</dt><dd><time>...</time></dd>.
    for element in (node, node.parent):
        before = element.prev if element is not None else None
        while before is not None and not (text := one_line(before.text()[-_MAX_BYLINE_LENGTH:])):
            before = before.prev
        if before is not None:
            return is_deadline(text)
    return False


def _text_of(node: LexborNode) -> str:
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
    """Return the first content of each name. Several attributes may contain the name."""
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


def _image_name(address: str) -> str:
    """Return the part of an address that all sizes of an image share."""
    path = address.partition("?")[0].rstrip("/")
    name = path.rpartition("/")[2].partition(".")[0]
    return max(_SIZES.split(name), key=len) or path


def read_byline(text: str) -> str | None:
    """Return the names in a byline."""
    name = one_line(text[:_MAX_VALUE_LENGTH])
    for _ in range(3):
        name = _BYLINE_START.sub("", name, count=1).strip(" ,;|-\u2013\u00b7\u2022")
    name = _AFTER_NAME.split(name, maxsplit=1)[0].strip(" ,;|-\u2013\u00b7\u2022")
    # Some pages give the address of a profile instead of a name.
    return name if len(name) <= _MAX_BYLINE_LENGTH and "://" not in name and not _NO_NAME.fullmatch(name) else None


def is_image_address(address: str) -> bool:
    """Return whether an address may be that of the image of a page: absolute, not too long, and no icon or portrait."""
    return (
        address.startswith(("https://", "http://"))
        and len(address) <= _MAX_ADDRESS_LENGTH
        and not _PLACEHOLDER.search(address)
    )


def check_selector(selector: str) -> None:
    """Raise ValueError with the reason if a selector is unusable."""
    if len(selector) > _MAX_SELECTOR_LENGTH:
        raise ValueError(f"has over {_MAX_SELECTOR_LENGTH} characters")
    try:
        LexborHTMLParser("<p>").css_first(selector)
    except SelectolaxError:
        raise ValueError(f"{selector!r} is not valid CSS") from None


def _join(base: str, address: str) -> str | None:
    try:
        joined = ada_url.join_url(base, address)
    except ValueError:
        return None
    return joined if joined.startswith(("https://", "http://")) else None
