"""What the links of a page are to one who walks its site: articles, pages that lead on, or the outside.

It is decided in the sandbox, where a pattern that takes for ever only ends its child.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from headwater.feeds.links import find_links

MOST_LINKS = 2_000  # of one page
_DOCUMENT = re.compile(r"\.pdf$", re.IGNORECASE)
_NO_PAGE = re.compile(
    r"\.(?:7z|apk|atom|avi|avif|bmp|bz2|css|csv|dmg|docx?|eot|epub|exe|gif|gz|ico|ics|iso|jpe?g|js|json|m3u8?|m4[av]"
    r"|mjs|mov|mp[34]|mpe?g|msi|od[pst]|og[agv]|otf|png|pptx?|rar|rdf|rss|svg|tar|tgz|tiff?|ttf|txt|wav|webm|webp"
    r"|webmanifest|wmv|woff2?|xlsx?|xml|xz|zip)$",
    re.IGNORECASE,
)
# Pages about a visitor, or about a page, and those that begin without end.
_FOR_VISITORS = re.compile(
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
_QUERY = re.compile(r"(?:^|&)(?:p|id|[ans]id|(?:article|news|story)_?id)=\d+(?:&|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ClassifiedLinks:
    """Where a page leads, each in the page's order: articles and documents, pages to follow, pages of others."""

    articles: list[str] = field(default_factory=list)
    navigation: list[str] = field(default_factory=list)
    external: list[str] = field(default_factory=list)


def sort_links(
    body: bytes, url: str, content_type: str | None, hosts: Collection[str], patterns: Collection[str]
) -> ClassifiedLinks:
    """Sort the links of the page at `url`, without those it says are not to be followed.

    A page of `hosts` is of the site; an article there is what one of `patterns` is found in, or, without any, what
    looks like one. Raises Unreadable where the page is made too deep to be parsed.
    """
    names = frozenset(map(site_name, hosts))
    matches = _matching(patterns)
    found = ClassifiedLinks()
    for link in find_links(body, url, content_type, MOST_LINKS):
        parts = urlsplit(link.url)
        is_own = site_name(parts.netloc) in names
        if link.nofollow:
            continue
        if is_own and matches(link.url):
            found.articles.append(link.url)
        elif _NO_PAGE.search(parts.path) or _FOR_VISITORS.search(parts.path):
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
    """Return a host without its "www.", which is the same site."""
    return host.removeprefix("www.")


def looks_like_article(url: str) -> bool:
    """Tell whether an address looks like an article's.

    That is one with a date in its path, or whose last part is four words or more, has a number of five digits or more,
    or is a file with a number in its name, or that asks for an article by number (`?p=4711`); but not where a part of
    the path says that it is a list.
    """
    parts = urlsplit(url)
    whole = parts.path.rstrip("/")
    if _LIST.search(f"{whole.rpartition('/')[0]}/"):
        return False
    path = _PAGE_NUMBER.sub("", whole)
    name = path.rpartition("/")[2]
    return bool(
        _has_date(path)
        or _LONG_SLUG.search(name)
        or _NUMBERED_FILE.search(name)
        or _LONG_NUMBER.search(name)
        or _QUERY.search(parts.query)
    )


def _has_date(path: str) -> bool:
    """Tell whether there is a date and something after it: a date alone is a list of what came on it."""
    date = _DATE.search(path)
    return date is not None and _LETTER.search(path, date.end()) is not None


def _matching(patterns: Collection[str]) -> Callable[[str], bool]:
    compiled = [re.compile(pattern) for pattern in patterns]
    return lambda url: any(pattern.search(url) for pattern in compiled)
