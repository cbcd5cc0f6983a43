"""The links of a page: the feeds that it names, the pages that it links to, and what a spider makes of these pages."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from selectolax.lexbor import LexborHTMLParser, LexborNode

from headwater.core.charset import decode_html
from headwater.core.errors import InvalidURL, Unreadable
from headwater.core.text import is_too_deep, one_line
from headwater.core.urls import join_url
from headwater.feeds.results import FeedLink, PageLink

MAX_LINKS = 10_000
MAX_SPIDER_LINKS = 2_000  # of one page
# WordPress names its API with application/json, so that type is not in the list.
_FEED_TYPES = frozenset(
    {
        "application/atom+xml",
        "application/feed+json",
        "application/rdf+xml",
        "application/rss+xml",
        "application/x.atom+xml",
        "application/x-atom+xml",
        "application/x-rss+xml",
        "application/xml",
        "text/rss+xml",
        "text/xml",
    }
)
_DOCUMENT = re.compile(r"\.pdf$", re.IGNORECASE)
_NOT_A_PAGE = re.compile(
    r"\.(?:7z|apk|atom|avi|avif|bmp|bz2|css|csv|dmg|docx?|eot|epub|exe|gif|gz|ico|ics|iso|jpe?g|js|json|m3u8?|m4[av]"
    r"|mjs|mov|mp[34]|mpe?g|msi|od[pst]|og[agv]|otf|png|pptx?|rar|rdf|rss|svg|tar|tgz|tiff?|ttf|txt|wav|webm|webp"
    r"|webmanifest|wmv|woff2?|xlsx?|xml|xz|zip)$",
    re.IGNORECASE,
)
# Pages of an account, pages to share or print another page, and searches with unlimited results.
_UTILITY_PAGE = re.compile(
    r"/(?:account|admin|basket|cart|checkout|e-?mail|intent|log-?in|log-?out|my-?account|print|register|search|share"
    r"|sharer|share(?:Article|r\.php)|sign-?in|sign-?up|sign-?out|subscribe|wp-admin|wp-json|wp-login\.php)(?:[/.]|$)",
    re.IGNORECASE,
)
_SHARING_HOSTS = re.compile(
    r"(?:^|\.)(?:addtoany\.com|addthis\.com|facebook\.com|fb\.com|flipboard\.com|getpocket\.com|instagram\.com"
    r"|linkedin\.com|pinterest\.com|plus\.google\.com|play\.google\.com|accounts\.google\.com|apps\.apple\.com"
    r"|itunes\.apple\.com|reddit\.com|t\.me|telegram\.me|threads\.net|tiktok\.com|tumblr\.com|twitter\.com"
    r"|whatsapp\.com|wa\.me|x\.com|youtube\.com|youtu\.be)$"
)
_LIST = re.compile(
    r"/(?:authors?|by|categor(?:y|ies)|collections?|feeds?|page|people|sections?|tags?|topics?)/",
    re.IGNORECASE,
)
_DATE = re.compile(r"/(?:19|20)\d\d(?:[/-](?:0?[1-9]|1[0-2])(?:[/-](?:0?[1-9]|[12]\d|3[01]))?[/-]|[01]\d[0-3]\d)")
_LETTER = re.compile(r"[^\W\d_]")
_LONG_SLUG = re.compile(r"(?<![^\W_])[^\W_]++(?:[-_][^\W_]++){3}")
_NUMBERED_FILE = re.compile(r"^[^\d]*+(?:\d[^\d]++)*+\d\d.*\.(?:html?|php|aspx?|jsp)$", re.IGNORECASE)
_LONG_NUMBER = re.compile(r"\d{5,}")
_PAGE_NUMBER = re.compile(r"/\d{1,3}$")
_ARTICLE_QUERY = re.compile(r"(?:^|&)(?:p|id|[ans]id|(?:article|news|story)_?id)=\d+(?:&|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ClassifiedLinks:
    """The links of a page, in its order: articles and documents, pages to follow, and pages of other sites."""

    articles: list[str] = field(default_factory=list)
    navigation: list[str] = field(default_factory=list)
    external: list[str] = field(default_factory=list)


def find_feed_links(body: bytes, url: str, content_type: str | None = None) -> list[FeedLink]:
    """Return the feeds that the page at `url` names as its own, in its order, each once.

    Raises Unreadable if the elements of the page are nested too deep.
    """
    tree = _parse(body, url, content_type)
    base = _base_url(tree, url)
    found: dict[str, FeedLink] = {}
    for node in tree.css("link[href]"):
        link = _absolute_url(node, base) if _names_feed(node) else None
        if link and len(found) < MAX_LINKS:
            found.setdefault(link, FeedLink(link, one_line(node.attributes.get("title") or "")))
    return list(found.values())


def find_links(body: bytes, url: str, content_type: str | None = None, max_links: int = MAX_LINKS) -> list[PageLink]:
    """Return the first `max_links` pages that the page at `url` links to: in its order, each once, without fragments.

    Raises Unreadable if the elements of the page are nested too deep.
    """
    tree = _parse(body, url, content_type)
    base = _base_url(tree, url)
    page_says_nofollow = _page_says_nofollow(tree)
    nofollow_by_url: dict[str, bool] = {}
    for node in tree.css("a[href]"):
        link = _absolute_url(node, base)
        if link is None or (link not in nofollow_by_url and len(nofollow_by_url) >= max_links):
            continue
        nofollow = page_says_nofollow or "nofollow" in _words(node, "rel")
        nofollow_by_url[link] = nofollow and nofollow_by_url.get(link, True)
    return [PageLink(link, nofollow) for link, nofollow in nofollow_by_url.items()]


def classify_links(
    body: bytes, url: str, content_type: str | None, hosts: Collection[str], patterns: Collection[str]
) -> ClassifiedLinks:
    """Classify the links of the page at `url`. Links with "nofollow" are left out.

    A page on one of `hosts` belongs to the site. A page of the site is an article if one of `patterns` matches its
    address. Without patterns, `looks_like_article` decides. Raises Unreadable if the page is nested too deep.

    This runs in the sandbox, where a pattern that runs too long ends only its child process.
    """
    names = frozenset(map(site_name, hosts))
    compiled = [re.compile(pattern) for pattern in patterns]
    found = ClassifiedLinks()
    for link in find_links(body, url, content_type, MAX_SPIDER_LINKS):
        parts = urlsplit(link.url)
        is_own = site_name(parts.netloc) in names
        if link.nofollow:
            continue
        if is_own and any(pattern.search(link.url) for pattern in compiled):
            found.articles.append(link.url)
        elif _NOT_A_PAGE.search(parts.path) or _UTILITY_PAGE.search(parts.path):
            continue
        elif not is_own:
            if not _SHARING_HOSTS.search(parts.netloc):
                found.external.append(link.url)
        elif _DOCUMENT.search(parts.path) or (not patterns and looks_like_article(link.url)):
            found.articles.append(link.url)
        else:
            found.navigation.append(link.url)
    return found


def site_name(host: str) -> str:
    """Return a host without "www.". Both hosts are the same site."""
    return host.removeprefix("www.")


def looks_like_article(url: str) -> bool:
    """Return whether an address looks like the address of an article.

    One of these signs is enough: a date in the path; a last part with four words or a number of five digits; a file
    name with a number; a query that names an article by number (`?p=4711`). A path that names a list never counts.
    """
    parts = urlsplit(url)
    whole = parts.path.rstrip("/")
    if _LIST.search(f"{whole.rpartition('/')[0]}/"):
        return False
    path = _PAGE_NUMBER.sub("", whole)
    name = path.rpartition("/")[2]
    return bool(
        _has_date_before_name(path)
        or _LONG_SLUG.search(name)
        or _NUMBERED_FILE.search(name)
        or _LONG_NUMBER.search(name)
        or _ARTICLE_QUERY.search(parts.query)
    )


def _has_date_before_name(path: str) -> bool:
    """Return whether the path has a date with a name after it. A path that ends with its date is a list."""
    date = _DATE.search(path)
    return date is not None and _LETTER.search(path, date.end()) is not None


def _parse(body: bytes, url: str, content_type: str | None) -> LexborHTMLParser:
    text = decode_html(body, content_type)
    if is_too_deep(text):
        raise Unreadable("The elements of the page are nested too deep.", url=url)
    return LexborHTMLParser(text)


def _base_url(tree: LexborHTMLParser, url: str) -> str:
    node = tree.css_first("base[href]")
    return (_absolute_url(node, url) if node is not None else None) or url


def _absolute_url(node: LexborNode, base: str) -> str | None:
    try:
        return join_url((node.attributes.get("href") or "").strip(), base)
    except InvalidURL:
        return None


def _names_feed(node: LexborNode) -> bool:
    relations = _words(node, "rel")
    media_type = (node.attributes.get("type") or "").partition(";")[0].strip().lower()
    return "feed" in relations or ("alternate" in relations and media_type in _FEED_TYPES)


def _page_says_nofollow(tree: LexborHTMLParser) -> bool:
    return any(
        (node.attributes.get("name") or "").strip().lower() == "robots"
        and not {"nofollow", "none"}.isdisjoint(_words(node, "content"))
        for node in tree.css("meta[name][content]")
    )


def _words(node: LexborNode, attribute: str) -> list[str]:
    return (node.attributes.get(attribute) or "").lower().replace(",", " ").split()
