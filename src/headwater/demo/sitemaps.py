"""Sitemaps as publishers write them: an index, plain ones, and one for news."""

from collections.abc import Iterable
from datetime import datetime
from html import escape

from headwater.demo.feeds import Line, iso_offset, iso_z

_PROLOG = '<?xml version="1.0" encoding="UTF-8"?>'
_NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"
_NEWS_NAMESPACE = "http://www.google.com/schemas/sitemap-news/0.9"


def sitemap_index(urls: Iterable[str], modified: datetime) -> str:
    """Write the sitemap of sitemaps."""
    named = "\n".join(f"<sitemap><loc>{url}</loc><lastmod>{iso_z(modified)}</lastmod></sitemap>" for url in urls)
    return f'{_PROLOG}\n<sitemapindex xmlns="{_NAMESPACE}">\n{named}\n</sitemapindex>\n'


def sitemap(pages: Iterable[tuple[str, datetime | None]]) -> str:
    """Write a sitemap of addresses, each with the time it last changed where that is known."""
    entries = "\n".join(f"<url><loc>{escape(url)}</loc>{_last_modified(changed)}</url>" for url, changed in pages)
    return f'{_PROLOG}\n<urlset xmlns="{_NAMESPACE}">\n{entries}\n</urlset>\n'


def news_sitemap(publication: str, lines: Iterable[Line]) -> str:
    """Write a sitemap of the newest stories, each with title and language."""
    entries = "\n".join(_news(publication, line) for line in lines)
    return f'{_PROLOG}\n<urlset xmlns="{_NAMESPACE}" xmlns:news="{_NEWS_NAMESPACE}">\n{entries}\n</urlset>\n'


def _last_modified(changed: datetime | None) -> str:
    return "" if changed is None else f"<lastmod>{iso_offset(changed)}</lastmod>"


def _news(publication: str, line: Line) -> str:
    assert line.published is not None
    language = f"<news:language>{line.story.language}</news:language>"
    return f"""<url><loc>{escape(line.url)}</loc><news:news>
<news:publication><news:name>{escape(publication)}</news:name>{language}</news:publication>
<news:publication_date>{iso_z(line.published)}</news:publication_date>
<news:title>{escape(line.story.headline)}</news:title>
</news:news></url>"""
