"""A web of many small hosts, made to be crawled while things go wrong."""

from typing import Any

from tests.server import Answer, Site


class Swarm(Site):
    """`hosts` times `pages` articles, listed by feeds on hosts of their own."""

    def __init__(self, *, hosts: int, pages: int, feeds: int, delay_ms: int, **where: Any) -> None:
        super().__init__(**where)
        self.delay_ms = delay_ms
        self.edition = 1  # of every page's text
        self.urls = [f"http://h{host}.test/p{page}" for page in range(pages) for host in range(hosts)]
        self.size = len(self.urls)
        self._known = set(self.urls)
        self._feeds = {f"http://feed{number}.test/feed": _feed(self.urls[number::feeds]) for number in range(feeds)}

    @property
    def feeds(self) -> list[str]:
        """The feeds' addresses."""
        return list(self._feeds)

    def _next(self, url: str) -> Answer:
        if url in self._known:
            return Answer(_page(url, self.edition), headers={"Content-Type": "text/html"})
        return self._feeds.get(url, Answer(status=404))


def _feed(urls: list[str]) -> Answer:
    entries = "".join(
        f"<item><title>{url}</title><link>{url}</link><pubDate>{_date(number)}</pubDate></item>"
        for number, url in enumerate(urls)
    )
    return Answer(f"<rss version='2.0'><channel><title>swarm</title>{entries}</channel></rss>")


def _date(number: int) -> str:
    return f"{number % 28 + 1:02} Feb 2026 12:00:00 GMT"


def _page(url: str, edition: int) -> str:
    sentence = f"This is what {url} has to say about the water in the reservoirs this season. "
    article = f"<article><p>{sentence * 4}Edition {edition}.</p></article>"
    return f"<html><head><title>{url}</title></head><body>{article}</body></html>"
