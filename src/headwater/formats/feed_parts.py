"""What every feed dialect has in common: links made absolute, texts made plain, each address once."""

import re
from collections.abc import Iterable

import ada_url

from headwater.model.feed import FeedEntry
from headwater.policy.text import plain_text, strip_markup

SUMMARY_LENGTH = 2000
# How much markup is read for a summary: an entry with a whole article in it costs no more than the article's beginning.
_USUAL_MARKUP_LENGTH = 2 * SUMMARY_LENGTH
_LONGEST_MARKUP_LENGTH = 10 * SUMMARY_LENGTH
_MAX_TTL_MINUTES = 365 * 24 * 60

_ABSOLUTE = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_EMAIL_WITH_NAME = re.compile(r"\S+@\S+\s+\((.+)\)")


def absolute_link(link: str | None, base: str) -> str | None:
    """Return the http(s) address that `link` stands for, or None. An absolute one stays as the publisher wrote it."""
    link = link.strip() if link else ""
    if not link:
        return None
    scheme, _, rest = base.partition("//")
    host = rest.partition("/")[0]
    if host and (link == host or link.startswith(f"{host}/")):
        # publishers forget the scheme of their own addresses: no folder is called like its host
        link = f"{scheme}//{link}"
    if _ABSOLUTE.fullmatch(link):
        return link if ada_url.check_url(link) else None
    try:
        joined = ada_url.join_url(base, link)
    except ValueError:
        return None
    return joined if joined.startswith(("https://", "http://")) else None


def summary_text(markup: str) -> str:
    """Return the beginning of what a reader would see."""
    text = strip_markup(markup[:_USUAL_MARKUP_LENGTH])
    if len(text) < SUMMARY_LENGTH and len(markup) > _USUAL_MARKUP_LENGTH:
        text = strip_markup(markup[:_LONGEST_MARKUP_LENGTH])
    return text[:SUMMARY_LENGTH].rstrip()


def author_name(text: str) -> str | None:
    """Return the name where RSS gives it behind an address, "someone@example.org (Some One)"."""
    text = plain_text(text)
    match = _EMAIL_WITH_NAME.fullmatch(text)
    return (match[1] if match else text) or None


def plain_tags(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the tags as plain text, in their order, each once."""
    return tuple(dict.fromkeys(tag for tag in map(plain_text, texts) if tag))


def ttl_seconds(minutes: str) -> int | None:
    """Return a time to live that makes sense."""
    minutes = minutes.strip()
    if not minutes.isdecimal() or len(minutes) > 9:
        return None
    value = int(minutes)
    return value * 60 if 0 < value <= _MAX_TTL_MINUTES else None


def each_url_once(entries: Iterable[FeedEntry | None]) -> tuple[FeedEntry, ...]:
    """Return the usable entries, the first of each address."""
    first: dict[str, FeedEntry] = {}
    for entry in entries:
        if entry is not None:
            first.setdefault(entry.url, entry)
    return tuple(first.values())
