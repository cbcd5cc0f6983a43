"""Crawl pages with Scrapy or Crawlee. Runs in an environment of its own: python pipeline_peer.py NAME URLS OUTPUT.

NAME is scrapy, scrapy-text, scrapy-metadata or crawlee. Each page becomes a line of JSON, except with `scrapy`, which
keeps nothing. Prints JSON: the version and the number of pages.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_AT_ONCE = 32
_resolve, _resolve_all = socket.gethostbyname, socket.getaddrinfo


def lead_to_loopback() -> None:
    """Resolve all names to loopback."""
    socket.gethostbyname = lambda _: "127.0.0.1"
    socket.getaddrinfo = lambda _host, port, *rest, **named: _resolve_all("127.0.0.1", port, *rest, **named)


def extract(body: str, url: str, *, with_metadata: bool) -> dict[str, Any]:
    """Return the fields of a page."""
    import trafilatura

    if with_metadata:
        found: Any = trafilatura.bare_extraction(body, url=url, fast=True, with_metadata=True)
        return (found.as_dict() if found else {}) | {"url": url, "body": None, "commentsbody": None}
    return {"url": url, "text": trafilatura.extract(body, url=url, fast=True)}


def run_scrapy(name: str, urls: list[str], output: Path) -> tuple[str, int]:
    """Crawl with Scrapy."""
    import scrapy
    from scrapy.crawler import CrawlerProcess

    pages = 0
    lines = output.open("w", encoding="utf-8")

    class Pages(scrapy.Spider):  # type: ignore[misc]
        name = "pages"

        async def start(self) -> Any:
            for url in urls:
                yield scrapy.Request(url)

        def parse(self, response: Any) -> Iterable[Any]:
            nonlocal pages
            pages += 1
            if name != "scrapy":
                fields = extract(response.text, response.url, with_metadata=name == "scrapy-metadata")
                lines.write(json.dumps(fields, default=str) + "\n")
            return ()

    process = CrawlerProcess(
        {
            "ROBOTSTXT_OBEY": True,
            "CONCURRENT_REQUESTS": _AT_ONCE,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
            "DOWNLOAD_DELAY": 0,
            "LOG_LEVEL": "ERROR",
            "TELNETCONSOLE_ENABLED": False,
        }
    )
    process.crawl(Pages)
    process.start()
    lines.close()
    return scrapy.__version__, pages


def run_crawlee(urls: list[str], output: Path) -> tuple[str, int]:
    """Crawl with Crawlee and its queue in memory."""
    import crawlee
    from crawlee import ConcurrencySettings
    from crawlee.crawlers import HttpCrawler, HttpCrawlingContext
    from crawlee.http_clients import HttpxHttpClient
    from crawlee.storage_clients import MemoryStorageClient

    pages = 0
    lines = output.open("w", encoding="utf-8")

    async def crawl() -> None:
        crawler = HttpCrawler(
            http_client=HttpxHttpClient(),
            respect_robots_txt_file=True,
            storage_client=MemoryStorageClient(),
            concurrency_settings=ConcurrencySettings(desired_concurrency=_AT_ONCE, max_concurrency=_AT_ONCE),
            configure_logging=False,
        )

        @crawler.router.default_handler  # type: ignore[untyped-decorator]
        async def keep(context: HttpCrawlingContext) -> None:
            nonlocal pages
            pages += 1
            body = (await context.http_response.read()).decode("utf-8", "replace")
            lines.write(json.dumps(extract(body, context.request.url, with_metadata=False)) + "\n")

        await crawler.run(urls)

    asyncio.run(crawl())
    lines.close()
    return crawlee.__version__, pages


if __name__ == "__main__":
    peer, listed, wanted = sys.argv[1:]
    lead_to_loopback()
    addresses = Path(listed).read_text(encoding="ascii").split()
    made = run_crawlee(addresses, Path(wanted)) if peer == "crawlee" else run_scrapy(peer, addresses, Path(wanted))
    print(json.dumps(made))
