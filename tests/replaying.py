"""Reads a site on answers that a test lists: it makes a golden recording and replays it."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from headwater.sources import golden
from headwater.sources.kinds.site import SiteKind

NOW = "2026-01-15T12:00:00Z"
Answers = Mapping[str, str | bytes | int | list[str | bytes | int]]  # a body, a status, or several of them in turn


async def replay(
    folder: Path,
    settings: Mapping[str, Any],
    answers: Answers,
    *,
    method: str = "main",
    state: Mapping[str, Any] | None = None,
    since: str | None = None,
    now: str = NOW,
) -> dict[str, Any]:
    """Run a method of the site and return its result. A request without an answer fails it."""
    exchanges = []
    for url, given in answers.items():
        for answer in given if isinstance(given, list) else [given]:
            exchange: dict[str, Any] = {"url": url}
            if isinstance(answer, int):
                exchange["status"] = answer
            else:
                exchange["body"] = f"{len(exchanges)}"
                (folder / exchange["body"]).write_bytes(answer.encode() if isinstance(answer, str) else answer)
            exchanges.append(exchange)
    recording = {"now": now, "method": method, "settings": settings, "state": state or {}, "exchanges": exchanges}
    (folder / "run.json").write_text(json.dumps(recording | ({"since": since} if since else {})))
    return await golden.replay(SiteKind, folder)


def urlset(*pages: tuple[str, str | None]) -> str:
    """Return a sitemap of addresses, each with its last change or None."""
    entries = "".join(f"<url><loc>{url}</loc>{_lastmod(changed)}</url>" for url, changed in pages)
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'


def index(*sitemaps: tuple[str, str | None]) -> str:
    """Return a sitemap index, each entry with its last change or None."""
    entries = "".join(f"<sitemap><loc>{url}</loc>{_lastmod(changed)}</sitemap>" for url, changed in sitemaps)
    return f'<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</sitemapindex>'


def _lastmod(changed: str | datetime | None) -> str:
    return f"<lastmod>{changed}</lastmod>" if changed else ""
