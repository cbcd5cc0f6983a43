"""Text that stays text in Markdown: a backslash stands only before what CommonMark, or GFM, would read as more."""

import re

_MEANT = re.compile(
    r"\\(?=[!-/:-@\[-`{-~]|\s*\n)"  # a backslash that would hide itself
    r"|\](?=\()"  # a link
    r"|<(?=[a-zA-Z/!?]|[^\s<>]*@)"  # a tag, an address
    r"|&(?=#?\w{1,32};)"  # a reference to a character
)
# By sign: what opens, and what closes further on; one without the other is the mark of a footnote, a blank to fill in.
_PAIRS = {
    "`": (re.compile(r"`+"), re.compile(r"`")),
    "*": (re.compile(r"\*(?=[^\s*])"), re.compile(r"(?<=[^\s*])\*")),
    "~": (re.compile(r"~(?=[^\s~])"), re.compile(r"(?<=[^\s~])~")),
    "_": (re.compile(r"(?<!\w)_+(?=[^\s_])"), re.compile(r"(?<=[^\s_])_+(?![^\W_])")),
}
_BEGINS = re.compile(
    r"[-+*](?=\s|$)|#{1,6}(?=\s|$)|>|`{3}|~{3,}|=+\s*$|([-*_])(?:\s*\1){2,}\s*$|\[(?=[^\]]*\]:)"
    r"|(?P<number>\d{1,9})(?=[.)](?:\s|$))"
)
_RULES = re.compile(r"[|:-][-|:\s]*$")  # what makes a table, or a heading, of the line before
_ENDS_HEADING = re.compile(r"(?:^|(?<=\s))(?=#+$)")


def escaped(text: str) -> str:
    """Return a piece of a line whose signs mean themselves."""
    # To look for single signs takes no time, and most texts have none of them.
    if "\\" in text or "](" in text or "<" in text or "&" in text:
        text = _MEANT.sub(r"\\\g<0>", text)
    if "*" in text or "_" in text or "`" in text or "~" in text:
        for sign, (opening, closing) in _PAIRS.items():
            first = opening.search(text) if sign in text else None
            if first and closing.search(text, first.end()):
                text = text.replace(sign, f"\\{sign}")
    return text


def paragraph(text: str) -> str:
    """Return lines that begin nothing: no heading, list, quotation or block of code."""
    text = escaped(text)
    if "\n" not in text:
        return _line(text)
    lines = [line.strip() for line in text.split("\n")]
    names = max((number for number, line in enumerate(lines) if "]:" in line), default=-1)
    return "\n".join(
        "\\" + line if (number and _RULES.match(line)) or (line.startswith("[") and number <= names) else _line(line)
        for number, line in enumerate(lines)
    )


def _line(text: str) -> str:
    begins = None if text[:1].isalpha() else _BEGINS.match(text)
    if not begins:
        return text
    if begins["number"]:
        return f"{begins['number']}\\{text[begins.end() :]}"
    if text[0] in "*_~":  # the rest of them would close what a line before has opened: a backslash is no space
        return begins[0].replace(text[0], f"\\{text[0]}") + text[begins.end() :]
    return f"\\{text}"


def heading(text: str, level: int) -> str:
    """Return a heading, which signs at the end of its text do not close."""
    text = escaped(text)
    return "#" * level + " " + (_ENDS_HEADING.sub(r"\\", text) if text.endswith("#") else text)


def cell(text: str) -> str:
    """Return a cell of a pipe table, which is one line."""
    return escaped(text).replace("|", "\\|").replace("\n", " ")
