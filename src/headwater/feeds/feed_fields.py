"""What every feed dialect has in common: links made absolute, texts made plain."""

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

import ada_url

from headwater.core.text import one_line, plain_text, strip_markup, unescape_html

_Source = TypeVar("_Source")

SUMMARY_LENGTH = 250
# How much markup is read for a summary: an entry with a whole article in it costs no more than the article's beginning.
_USUAL_MARKUP_LENGTH = 2 * SUMMARY_LENGTH
_LONGEST_MARKUP_LENGTH = 8 * SUMMARY_LENGTH
_ENOUGH_TEXT = SUMMARY_LENGTH * 6 // 5  # with the white space in it
_LITTLE_TEXT = SUMMARY_LENGTH // 5
_MAX_TTL_MINUTES = 365 * 24 * 60

# An address that no parser would refuse: its host is a name, and not an international one.
_LABEL = r"(?!xn--)(?=[^.]{1,63}\.)[a-z0-9]++(?:-++[a-z0-9]++)*+\."
_USUAL = re.compile(rf"https?://(?:{_LABEL}){{1,9}}+[a-z]{{2,20}}+(?:/[!-~]*+)?")
_ABSOLUTE = re.compile(r"https?://[!-~]+", re.IGNORECASE)
# Tags whose text is seen, with space around it or without.
_BLOCK_TAG = (
    r"</?(?:p|br|div|li|ul|ol|h[1-6]|blockquote|center|figure|figcaption|hr|img|pre|section|table|td|tr)\b[^>]*+>"
)
_BLOCK_TAGS = re.compile(rf"{_BLOCK_TAG}(?:\s*+{_BLOCK_TAG})*+\s*+")
_INLINE_TAG = re.compile(r"</?(?:a|abbr|b|big|cite|code|del|em|font|i|mark|small|span|strong|sub|sup|u)\b[^>]*+>")
_EMAIL_WITH_NAME = re.compile(r"[^\s@]+@[^\s@]+\s+\((.+)\)")


def absolute_link(link: str | None, base: str) -> str | None:
    """Return the http(s) address that `link` stands for, or None. An absolute one stays as the publisher wrote it."""
    link = link.strip() if link else ""
    if not link:
        return None
    if _USUAL.fullmatch(link):
        return link
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


def beginning(text: str, length: int) -> str:
    """Return the text up to that length, for a summary of it."""
    return text[:length]


def summary_text(source: _Source, markup_of: Callable[[_Source, int], str]) -> str:
    """Return the beginning of what a reader would see, of a source whose markup can be had up to any length."""
    markup = markup_of(source, _USUAL_MARKUP_LENGTH)
    text = _strip(markup)
    if len(text) < _LITTLE_TEXT and len(markup) == _USUAL_MARKUP_LENGTH:
        text = _strip(markup_of(source, _LONGEST_MARKUP_LENGTH))
    return text[:SUMMARY_LENGTH].rstrip()


def _strip(markup: str) -> str:
    """Do what `strip_markup` does, in less time where there is nothing but plain tags and text."""
    text = markup
    if "<" in markup:
        if markup.rfind("<") > markup.rfind(">"):  # a tag that was cut in two
            markup = markup[: markup.rfind("<")]
        text = _BLOCK_TAGS.sub(" ", markup)
        if "<" in text:
            text = _INLINE_TAG.sub("", text)
            if "<" in text:
                return strip_markup(markup)
    text = text[:_ENOUGH_TEXT]
    return one_line(unescape_html(text) if "&" in text else text)


def author_name(text: str) -> str | None:
    """Return the name where RSS gives it behind an address, "someone@example.org (Some One)"."""
    text = plain_text(text)
    match = _EMAIL_WITH_NAME.fullmatch(text) if "@" in text else None
    return (match[1] if match else text) or None


def plain_tags(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the tags as plain text, in their order, each once."""
    return tuple(dict.fromkeys(filter(None, map(plain_text, texts))))


def ttl_seconds(minutes: str) -> int | None:
    """Return a time to live that makes sense."""
    minutes = minutes.strip()
    if not minutes.isdecimal() or len(minutes) > 9:
        return None
    value = int(minutes)
    return value * 60 if 0 < value <= _MAX_TTL_MINUTES else None
