"""Where a page leads: the feeds it names, and the pages it links to."""

from selectolax.lexbor import LexborHTMLParser, LexborNode

from headwater.core.charset import decode_html
from headwater.core.errors import InvalidURL, Unreadable
from headwater.core.html_depth import is_too_deep
from headwater.core.text import one_line
from headwater.core.urls import join_url
from headwater.feeds.page_links import FeedLink, PageLink

MAX_LINKS = 10_000
# Not application/json: that is how WordPress names its API.
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


def find_feed_links(body: bytes, url: str, content_type: str | None = None) -> list[FeedLink]:
    """Return the feeds that the page at `url` names as its own, in its order, each once.

    Raises Unreadable where the page is made too deep to be parsed.
    """
    tree = _parse(body, url, content_type)
    base = _base(tree, url)
    found: dict[str, FeedLink] = {}
    for node in tree.css("link[href]"):
        link = _absolute(node, base) if _names_feed(node) else None
        if link and len(found) < MAX_LINKS:
            found.setdefault(link, FeedLink(link, one_line(node.attributes.get("title") or "")))
    return list(found.values())


def find_links(body: bytes, url: str, content_type: str | None = None, max_links: int = MAX_LINKS) -> list[PageLink]:
    """Return the pages that the page at `url` links to, in its order, each once, without fragments; the first of many.

    Raises Unreadable where the page is made too deep to be parsed.
    """
    tree = _parse(body, url, content_type)
    base = _base(tree, url)
    page_says_nofollow = _page_says_nofollow(tree)
    nofollow_by_url: dict[str, bool] = {}
    for node in tree.css("a[href]"):
        link = _absolute(node, base)
        if link is None or (link not in nofollow_by_url and len(nofollow_by_url) >= max_links):
            continue
        nofollow = page_says_nofollow or "nofollow" in _words(node, "rel")
        nofollow_by_url[link] = nofollow and nofollow_by_url.get(link, True)
    return [PageLink(link, nofollow) for link, nofollow in nofollow_by_url.items()]


def _parse(body: bytes, url: str, content_type: str | None) -> LexborHTMLParser:
    text = decode_html(body, content_type)
    if is_too_deep(text):
        raise Unreadable("The elements of the page are nested too deep.", url=url)
    return LexborHTMLParser(text)


def _base(tree: LexborHTMLParser, url: str) -> str:
    node = tree.css_first("base[href]")
    return (_absolute(node, url) if node is not None else None) or url


def _absolute(node: LexborNode, base: str) -> str | None:
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
