"""Texts and addresses from outside, as parts of a page that cannot act: filters of the templates."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Literal
from urllib.parse import urlencode, urlsplit

from markupsafe import Markup, escape

from headwater.core.text import format_distance
from headwater.search.operations import TextPart

# A terminal reads these sequences as commands. A browser shows their letters, which are noise.
_TERMINAL_SEQUENCE = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[ -/]*[0-~])")
# Control characters, and the marks that change the direction of the text around them. Joiners stay: scripts need them.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_LEAD_CHARACTERS = 200
_ELLIPSIS = "…"


def clean(text: object) -> str:
    """Return a text without terminal sequences, control characters and direction marks."""
    return _INVISIBLE.sub("", _TERMINAL_SEQUENCE.sub("", str(text)))


def plain(text: object, limit: int | None = None) -> Markup:
    """Return a text from outside as one line that only shows it. Its direction does not touch the text around it."""
    line = " ".join(clean(text).split())
    return Markup("<bdi>{}</bdi>").format(shorten(line, limit) if limit else line)


def lead(text: object, title: object) -> Markup:
    """Return the beginning of a text from outside. A text that begins with its title is shown without it."""
    line, head = (" ".join(clean(part).split()) for part in (text, title))
    rest = line.removeprefix(head).lstrip(" .,:;|-\u2013\u2014") if head else line
    return plain(rest or line, _LEAD_CHARACTERS)


def shorten(text: str, limit: int) -> str:
    """Cut a text at a space, to at most `limit` characters with the ellipsis."""
    if len(text) <= limit:
        return text
    head, _, _ = text[:limit].rpartition(" ")
    return (head if len(head) > limit // 2 else text[: limit - 1]).rstrip(" ,;:.-") + _ELLIPSIS


def is_web_address(url: object) -> bool:
    """Return whether a browser may follow an address from outside."""
    try:
        parts = urlsplit(str(url))
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def outside(url: object, label: object = None, limit: int = 100) -> Markup:
    """Return a link to another site, or only the text of an address that is none of the web."""
    shown = plain(url if label is None else label, limit)
    if not is_web_address(url):
        return shown
    return Markup('<a href="{}" class="outside" rel="noopener noreferrer nofollow">{}</a>').format(clean(url), shown)


def marked(parts: Sequence[TextPart]) -> Markup:
    """Return the words around the matches of a search, with the matches marked."""
    shown = [(Markup("<mark>{}</mark>") if part.is_match else Markup("{}")).format(clean(part.text)) for part in parts]
    return Markup("<bdi>{}</bdi>").format(Markup("").join(shown))


def commands(text: object) -> Markup:
    """Return sentences in which a command is between backticks."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(clean(text).split("`"))
    )


def query_string(**values: object) -> str:
    """Return the query string of the values that are set, with its question mark."""
    chosen = {name: value for name, value in values.items() if value is not None and value != ""}
    return "?" + urlencode(chosen) if chosen else ""


def moment(when: datetime | None, now: datetime, style: Literal["short", "full", "age"] = "short") -> Markup:
    """Return a time element in the time zone of `now`.

    `short` is the time of day, or the day if it is not today; `full` is both; `age` is the distance from now.
    """
    if when is None:
        return Markup('<span class="none">never</span>')
    local = when.astimezone(now.tzinfo)
    day = f"{local.day} {local:%b}" + ("" if local.year == now.year and style == "short" else f" {local.year}")
    exact, age = f"{local:%Y-%m-%d %H:%M:%S %Z}", format_distance(when, now)
    shown = {
        "short": f"{local:%H:%M}" if local.date() == now.date() else day,
        "full": f"{day}, {local:%H:%M}",
        "age": age,
    }[style]
    title = exact if style == "age" else f"{exact}, {age}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(when.isoformat(), title, shown)


def size(number: float) -> str:
    """Write a number of bytes for a person."""
    if number < 1000:
        return f"{number:.0f} bytes"
    power = min(4, (len(str(int(number))) - 1) // 3)
    return f"{number / 1000**power:.3g} {' kMGT'[power]}B"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Write a number with its noun: 1 document, 2,400 documents."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
