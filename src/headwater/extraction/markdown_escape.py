"""Escape text for Markdown. A backslash is added only where CommonMark or GFM would read markup."""

import re
from collections.abc import Sequence

_MARKUP = re.compile(
    r"\\(?=[!-/:-@\[-`{-~]|\s*\n)"  # a backslash that would not be visible
    r"|\](?=\()"  # a link
    r"|<(?=[a-zA-Z/!?]|[^\s<>]*@)"  # a tag or an address
    r"|&(?=#?\w{1,32};)"  # a character reference
)
# The opening and the closing pattern of each sign. One without the other is text, such as the mark of a footnote.
_PAIRS = {
    "`": (re.compile(r"`+"), re.compile(r"`")),
    "*": (re.compile(r"\*(?=[^\s*])"), re.compile(r"(?<=[^\s*])\*")),
    "~": (re.compile(r"~(?=[^\s~])"), re.compile(r"(?<=[^\s~])~")),
    "_": (re.compile(r"(?<!\w)_+(?=[^\s_])"), re.compile(r"(?<=[^\s_])_+(?![^\W_])")),
}
_BLOCK_START = re.compile(
    r"[-+*](?=\s|$)|#{1,6}(?=\s|$)|>|`{3}|~{3,}|=+\s*$|([-*_])(?:\s*\1){2,}\s*$|\[(?=[^\]]*\]:)"
    r"|(?P<number>\d{1,9})(?=[.)](?:\s|$))"
)
_UNDERLINE = re.compile(r"[|:-][-|:\s]*$")  # the underline of a heading, or the second line of a table
_ENDS_HEADING = re.compile(r"(?:^|(?<=\s))(?=#+$)")


def escape_line(text: str) -> str:
    """Escape a piece of a line."""
    # Searching for single signs is fast, and most texts have none.
    if "\\" in text or "](" in text or "<" in text or "&" in text:
        text = _MARKUP.sub(r"\\\g<0>", text)
    if "*" in text or "_" in text or "`" in text or "~" in text:
        for sign, (opening, closing) in _PAIRS.items():
            first = opening.search(text) if sign in text else None
            if first and closing.search(text, first.end()):
                text = text.replace(sign, f"\\{sign}")
    return text


def escape_paragraph(text: str) -> str:
    """Escape lines, so that they begin no heading, list, quotation or code block."""
    text = escape_line(text)
    if "\n" not in text:
        return _line(text)
    lines = [line.strip() for line in text.split("\n")]
    names = max((number for number, line in enumerate(lines) if "]:" in line), default=-1)
    return "\n".join(
        "\\" + line
        if (number and _UNDERLINE.match(line)) or (line.startswith("[") and number <= names)
        else _line(line)
        for number, line in enumerate(lines)
    )


def _line(text: str) -> str:
    begins = None if text[:1].isalpha() else _BLOCK_START.match(text)
    if not begins:
        return text
    if begins["number"]:
        return f"{begins['number']}\\{text[begins.end() :]}"
    if text[0] in "*_~":  # the other signs would close what an earlier line opened
        return begins[0].replace(text[0], f"\\{text[0]}") + text[begins.end() :]
    return f"\\{text}"


def escape_heading(text: str, level: int) -> str:
    """Return a heading. Signs at the end of its text do not close it."""
    text = escape_line(text)
    return "#" * level + " " + (_ENDS_HEADING.sub(r"\\", text) if text.endswith("#") else text)


def escape_cell(text: str) -> str:
    """Return a cell of a pipe table as one line."""
    return escape_line(text).replace("|", "\\|").replace("\n", " ")


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Return a pipe table. The first row is its head."""
    head, *body = (f"| {' | '.join(map(escape_cell, row))} |" for row in rows)
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *body])
