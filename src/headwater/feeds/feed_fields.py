"""Fields that all feed formats share: absolute links, plain texts, tags, authors and the time to live."""

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

import ada_url

from headwater.core.text import one_line, plain_text, strip_markup, unescape_html

_Source = TypeVar("_Source")

SUMMARY_LENGTH = 250
# A summary needs only the beginning of a text. An entry with a whole article costs no more than a short one.
_MARKUP_LENGTH = 2 * SUMMARY_LENGTH
_MAX_MARKUP_LENGTH = 8 * SUMMARY_LENGTH  # if the first part holds little text
_MAX_TEXT_LENGTH = SUMMARY_LENGTH * 6 // 5  # including white space
_MIN_TEXT_LENGTH = SUMMARY_LENGTH // 5
_MAX_TTL_MINUTES = 365 * 24 * 60

# An address that every parser accepts: the host is a name and not an international one.
_LABEL = r"(?!xn--)(?=[^.]{1,63}\.)[a-z0-9]++(?:-++[a-z0-9]++)*+\."
_COMMON_URL = re.compile(rf"https?://(?:{_LABEL}){{1,9}}+[a-z]{{2,20}}+(?:/[!-~]*+)?")
_ABSOLUTE_URL = re.compile(r"https?://[!-~]+", re.IGNORECASE)
# Tags whose content is visible. Block tags put space around it, inline tags do not.
_BLOCK_TAG = (
    r"</?(?:p|br|div|li|ul|ol|h[1-6]|blockquote|center|figure|figcaption|hr|img|pre|section|table|td|tr)\b[^>]*+>"
)
_BLOCK_TAGS = re.compile(rf"{_BLOCK_TAG}(?:\s*+{_BLOCK_TAG})*+\s*+")
_INLINE_TAG = re.compile(r"</?(?:a|abbr|b|big|cite|code|del|em|font|i|mark|small|span|strong|sub|sup|u)\b[^>]*+>")
_EMAIL_WITH_NAME = re.compile(r"[^\s@]+@[^\s@]+\s+\((.+)\)")


def absolute_link(link: str | None, base: str) -> str | None:
    """Return the http(s) address of a link, or None. An absolute address stays as the publisher wrote it."""
    link = link.strip() if link else ""
    if not link:
        return None
    if _COMMON_URL.fullmatch(link):
        return link
    scheme, _, rest = base.partition("//")
    host = rest.partition("/")[0]
    if host and (link == host or link.startswith(f"{host}/")):
        # Some publishers omit the scheme of their own addresses. A folder never has the name of its host.
        link = f"{scheme}//{link}"
    if _ABSOLUTE_URL.fullmatch(link):
        return link if ada_url.check_url(link) else None
    try:
        joined = ada_url.join_url(base, link)
    except ValueError:
        return None
    return joined if joined.startswith(("https://", "http://")) else None


def slice_text(text: str, length: int) -> str:
    """Return the first `length` characters. `summary_text` uses it for a text that is already in memory."""
    return text[:length]


def summary_text(source: _Source, read_markup: Callable[[_Source, int], str]) -> str:
    """Return the beginning of the visible text of a source.

    `read_markup` returns the markup of the source up to a length.
    """
    markup = read_markup(source, _MARKUP_LENGTH)
    text = _strip_tags(markup)
    if len(text) < _MIN_TEXT_LENGTH and len(markup) == _MARKUP_LENGTH:
        text = _strip_tags(read_markup(source, _MAX_MARKUP_LENGTH))
    return text[:SUMMARY_LENGTH].rstrip()


def _strip_tags(markup: str) -> str:
    """Return the same as `strip_markup`, but faster for markup that has only plain tags and text."""
    text = markup
    if "<" in markup:
        if markup.rfind("<") > markup.rfind(">"):  # the slice cuts the last tag in two
            markup = markup[: markup.rfind("<")]
        text = _BLOCK_TAGS.sub(" ", markup)
        if "<" in text:
            text = _INLINE_TAG.sub("", text)
            if "<" in text:
                return strip_markup(markup)
    return one_line(unescape_html(text[:_MAX_TEXT_LENGTH]))


def author_name(text: str) -> str | None:
    """Return the name of an author. RSS may give it after an address: "someone@example.org (Some One)"."""
    text = plain_text(text)
    match = _EMAIL_WITH_NAME.fullmatch(text) if "@" in text else None
    return (match[1] if match else text) or None


def plain_tags(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the tags as plain text, in their order, each once."""
    return tuple(dict.fromkeys(filter(None, map(plain_text, texts))))


def ttl_seconds(minutes: str) -> int | None:
    """Return a time to live in seconds, or None if the value is not from one minute to one year."""
    minutes = minutes.strip()
    if not minutes.isdecimal() or len(minutes) > 9:
        return None
    value = int(minutes)
    return value * 60 if 0 < value <= _MAX_TTL_MINUTES else None
