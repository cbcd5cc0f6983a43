"""Join lines to running text, with the words and addresses that were broken at the ends of lines."""

import re
from collections.abc import Iterable

from headwater.extraction.pdf.page_content import SOFT_HYPHEN

_HYPHENS = ("-", SOFT_HYPHEN)
_MAX_ADDRESS_LENGTH = 300
_CHINESE_OR_JAPANESE = re.compile("[\u3001-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff9f]")
_SCHEME = re.compile(r"https?://$")
_ADDRESS = re.compile(r"(?:https?://|www\.)\S*$")
_ANOTHER = re.compile(r"\W*(?:https?://|www\.)")
# The patterns of the rest of an address, by the last character before the break.
_AFTER_A_SLASH = re.compile(r"\S*(?:[/_=?&%#\d]|\.\w)")
_AFTER_A_DOT = re.compile(r"[\w-]+[./]\w")
_FILE = r"\.(?:pdf|html?|aspx?|php|xml|json)"
_AFTER_A_LETTER = re.compile(rf"[^\s_=?&%#]*[_=?&%#]|\S*{_FILE}\b|[^\s\d]*\d[^\s/]*/|[^\s/]*/[^\s\d]*\d")
_WHOLE = re.compile(rf"[,;:)>\]]$|{_FILE}$")


def join_lines(lines: Iterable[str]) -> str:
    """Join the lines of a paragraph."""
    pieces: list[str] = []
    end = ""  # of the text so far; reading all of it for each line takes long
    for line in lines:
        drops_hyphen, between = _find_joint(end, line)
        if drops_hyphen:
            pieces[-1], end = pieces[-1][:-1], end[:-1]
        pieces.append(between + line)
        end = (end + pieces[-1])[-_MAX_ADDRESS_LENGTH:]
    return "".join(pieces)


def _find_joint(text: str, line: str) -> tuple[bool, str]:
    """Return whether a text loses the hyphen at its end before a line, and the text between them."""
    drops_hyphen = text.endswith(SOFT_HYPHEN)
    if _is_broken_address(text, line):
        return drops_hyphen, "-" if drops_hyphen else ""
    if drops_hyphen:
        is_one = line[:1].islower() or (text[-3:-1].isupper() and line[:2].isalpha() and line[:2].isupper())
        return True, "" if is_one else "-"
    if not text or is_broken_word(text, line) or _is_without_spaces(text[-1], line[:1]):
        return False, ""
    return False, " "


def _is_without_spaces(before: str, after: str) -> bool:
    """Return whether both characters are Chinese or Japanese, which have no spaces. Korean has spaces."""
    return not before.isascii() and not after.isascii() and all(map(_CHINESE_OR_JAPANESE.match, (before, after)))


def is_broken_word(text: str, line: str) -> bool:
    """Return whether a text ends within a word that the line continues."""
    return text.endswith(_HYPHENS) and text[-2:-1].isalpha() and line[:1].islower()


def _is_broken_address(text: str, line: str) -> bool:
    address = text[text.rfind(" ") + 1 :]
    if not _ADDRESS.search(address):
        return False
    if _SCHEME.search(address):
        return line[:1].isalnum()
    if _WHOLE.search(address) or _ANOTHER.match(line):
        return False
    if address.endswith((*_HYPHENS, "_", "=", "?", "&", "%", "#", "~")):
        return line[:1].isalnum() or line.startswith("%")
    rest = {"/": _AFTER_A_SLASH, ".": _AFTER_A_DOT}.get(address[-1], _AFTER_A_LETTER)
    return rest.match(line) is not None
