"""Clean text: readable, storable, and free of markup. Durations for people are written here too."""

import html
import ipaddress
import re
import unicodedata
from datetime import datetime, timedelta
from functools import lru_cache
from html.entities import html5

from selectolax.lexbor import LexborHTMLParser

# C0 except tab and newline, DEL, C1, and the byte order mark.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff]")
_SURROGATES = re.compile("[\ud800-\udfff]")
# Only the names ignore case: a pattern that ignores case as a whole takes five times as long.
_BLOCK_TAG = re.compile(
    r"<(?=/?(?i:address|article|aside|blockquote|br|caption|center|dd|details|div|dl|dt|fieldset|figcaption|figure"
    r"|footer|form|h[1-6]|header|hr|img|li|main|nav|ol|option|p|pre|section|summary|table|tbody|td|tfoot|th|thead|tr"
    r"|ul)\b)"
)
# A title may name the tags of the last line ("the <link> element"). They are markup only with attributes.
_HTML_TAG = re.compile(
    r"<!--|<(?:/?(?i:a|abbr|acronym|b|big|blink|blockquote|br|center|cite|code|del|div|em|font|frameset|h[1-6]|hr|i|iframe"
    r"|img|ins|kbd|li|mark|ol|p|pre|q|s|samp|script|small|span|strike|strong|style|sub|sup|table|td|th|time|tr|tt|u|ul|var"
    r"|video|wbr)(?:\s[^<>]*)?|(?i:embed|frame|link|meta|object)\s[^<>]*)/?>"
)
_REFERENCE = re.compile(r"&#?\w+;?")
_CLOSED_REFERENCE = re.compile(r"&(?:#(?:[0-9]{1,7}|[xX][0-9a-fA-F]{1,6})|[a-zA-Z][a-zA-Z0-9]*);")
_LONG_REFERENCE = 12
_BLANKS = [mark for mark in map(chr, range(0x3001)) if mark.isspace() and mark != " "]
_LONG = 100_000  # characters; shorter texts cost little time in any case
_MANY_MARKS = 500
_MAX_MARKS = 30  # on one letter, as in Unicode's stream-safe format; the time to sort them grows with the square
_HOSTILE_MARKS = 300
_ENDLESS_REFERENCE = re.compile(r"&#(?:[0-9]{8,}|[xX][0-9a-fA-F]{8,});?")
_MAX_DEPTH = 5000  # of elements: the time of parsing grows with the square of the depth
# A tag that nests. Parsers close the others by themselves.
_NESTING_TAG = re.compile(
    r"<(/?)(?!(?i:area|base|br|col|dd|dt|embed|hr|img|input|li|link|meta|option|p|param|source|tbody|td|tfoot|th|thead"
    r"|tr|track|wbr)\b)[a-zA-Z]"
)
_HIDDEN = ["script", "style", "noscript", "template", "iframe", "object", "svg", "math", "head", "select", "textarea"]


def is_too_deep(text: str) -> bool:
    """Return whether markup has too many elements open at once to be parsed."""
    tags = text.count("<")
    if tags <= _MAX_DEPTH or tags - text.count("</") <= _MAX_DEPTH:
        return False
    depth = 0
    for tag in _NESTING_TAG.finditer(text):
        depth = max(depth - 1, 0) if tag[1] else depth + 1
        if depth > _MAX_DEPTH:
            return True
    return False


def unescape_html(text: str, *, only_closed: bool = False) -> str:
    """Resolve character references as browsers do. A number that is too large for any character becomes U+FFFD.

    With `only_closed`, a reference must end with a semicolon. Addresses in hand-written XML need this: in
    "?a=1&copy=2" the ampersand begins no reference.
    """
    if "&" not in text:
        return text
    if only_closed:
        return _CLOSED_REFERENCE.sub(_resolve_closed, text)
    # These few are nearly all references in escaped markup, and str.replace is faster than the pattern.
    text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"')
    if text.count("&") == text.count("&amp;"):
        return text.replace("&amp;", "&")
    return _REFERENCE.sub(_resolve_match, text)


def _resolve_closed(match: re.Match[str]) -> str:
    reference = match[0]
    return html.unescape(reference) if reference[1] == "#" else html5.get(reference[1:], reference)


def _resolve_match(match: re.Match[str]) -> str:
    reference = match[0]
    return _resolve_short(reference) if len(reference) < _LONG_REFERENCE else _resolve(reference)


@lru_cache(maxsize=4096)
def _resolve_short(reference: str) -> str:
    return _resolve(reference)


def _resolve(reference: str) -> str:
    return html.unescape(_ENDLESS_REFERENCE.sub("\ufffd", reference))


def is_storable(text: str) -> bool:
    """Return whether PostgreSQL can store the text. It refuses the null character and lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def make_storable(text: str) -> str:
    """Replace the characters that PostgreSQL refuses, so that a query can use any text."""
    return text.replace("\0", " ").encode(errors="replace").decode()


def format_duration(length: timedelta) -> str:
    """Write a duration in its largest fitting unit: 90 seconds, 15 minutes, 2.5 hours, 3 days."""
    seconds = length.total_seconds()
    for name, unit in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * unit:
            return f"{round(seconds / unit, 1):g} {name}"
    return "1 second" if round(seconds) == 1 else f"{seconds:.0f} seconds"


def format_distance(moment: datetime, now: datetime) -> str:
    """Write how far a time is from now: in 15 minutes, 3 days ago."""
    distance = moment - now
    if abs(distance) < timedelta(seconds=1):
        return "in a moment" if distance > timedelta(0) else "just now"
    return f"in {format_duration(distance)}" if distance > timedelta(0) else f"{format_duration(-distance)} ago"


def clean(text: str) -> str:
    """Return the text in NFC, without control characters other than tab and newline, and without lone surrogates."""
    if text.replace("\n", "").isprintable():  # control characters and surrogates are not printable
        return text if text.isascii() else _compose(text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROLS.sub("", text)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = _SURROGATES.sub("\ufffd", text)
    return _compose(text)


def one_line(text: str) -> str:
    """Return the cleaned text with every run of whitespace as one space."""
    line = text.replace("\n", " ").strip()
    if "  " in line or not line.isprintable():  # other blanks, control characters and surrogates are not printable
        line = collapse_whitespace(text)
        if not line.isprintable():
            return collapse_whitespace(clean(line))
    return line if line.isascii() else _compose(line)


def collapse_whitespace(text: str) -> str:
    """Return the text with every run of whitespace as one space, and none around it."""
    line = text.replace("\n", " ").strip()
    if "  " not in line and line.isprintable():  # other blanks are not printable
        return line
    if len(text) < _LONG:
        return " ".join(text.split())
    # split() would make a string of each word: 60 MB for a million words.
    for blank in filter(text.__contains__, _BLANKS):
        text = text.replace(blank, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.strip()


def _compose(text: str) -> str:
    """Return the text in NFC, with at most 30 marks on one letter."""
    if unicodedata.is_normalized("NFC", text):
        return text
    if len(text) > _MANY_MARKS and _may_hold_marks(text, _MAX_MARKS):
        text = _long_mark_runs().sub(lambda run: run[0][:_MAX_MARKS], text)
    return unicodedata.normalize("NFC", text)


@lru_cache(maxsize=1)
def _long_mark_runs() -> re.Pattern[str]:
    return re.compile(f"[{_marks()}]{{{_MAX_MARKS},}}")


@lru_cache(maxsize=1)
def _hostile_marks() -> re.Pattern[str]:
    return re.compile(f"[{_marks()}]{{{_HOSTILE_MARKS}}}")


@lru_cache(maxsize=1)
def _marks() -> str:
    return "".join(filter(_is_mark, map(chr, range(0x300, 0x20000))))


def _is_mark(character: str) -> bool:
    return unicodedata.combining(unicodedata.normalize("NFD", character)[0]) > 0


def has_hostile_marks(text: str) -> bool:
    """Return whether one letter has so many marks, with or without blanks between, that a library hangs on them."""
    if text.isascii():
        return False
    text = "".join(text.split())
    return _may_hold_marks(text, _HOSTILE_MARKS) and _hostile_marks().search(text) is not None


def _may_hold_marks(text: str, number: int) -> bool:
    """Return whether a run of marks of this length is possible. A run would cover one of every `number` characters."""
    return any(map(_is_mark, text[number - 1 :: number]))


def plain_text(text: str) -> str:
    """Return text that may be HTML as one line of plain text. Text that only resembles a tag ("Vec<T>") stays."""
    if "<" in text and _HTML_TAG.search(text):
        return strip_markup(text)
    return one_line(unescape_html(text) if "&" in text else text)


def strip_markup(markup: str) -> str:
    """Return the visible text of a piece of HTML as one line."""
    if "<" not in markup:
        return one_line(unescape_html(markup))
    return one_line(_visible_text(_BLOCK_TAG.sub(" <", markup)))


def extract_blocks(markup: str) -> str:
    """Return the visible text of a piece of HTML, with empty lines between its blocks."""
    text = _visible_text(_BLOCK_TAG.sub("\n<", collapse_whitespace(markup)))
    return join_blocks(text.split("\n"))


def join_blocks(lines: list[str]) -> str:
    """Return the lines that are not blank, with empty lines between them."""
    blocks = (one_line(line) for line in lines)
    return "\n\n".join(block for block in blocks if block)


def _visible_text(markup: str) -> str:
    tree = LexborHTMLParser(markup)
    tree.strip_tags(_HIDDEN)
    body = tree.body
    return body.text() if body is not None else ""


def is_address(name: str) -> bool:
    """Return whether a name is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
