"""Long texts are taken out of a document before it is parsed, and put back where somebody asks for them.

Most of a feed is the text of its entries, of which a reader wants the beginning; to carry all of it through a parser
takes longer than everything else.
"""

import html
import re
import secrets
from codecs import utf_8_decode
from collections.abc import Iterator

from headwater.policy.text import unescape_html

_CDATA = b"<![CDATA["
_CDATA_END = b"]]>"
_COMMENT = b"<!--"
_COMMENT_END = b"-->"
_LONG_CDATA = 100
_LONG_TEXT = 800
_LONGEST_REFERENCE = 10


class Lifted:
    """A document without its long texts. In their places stand marks, which begin with a `nonce` nobody can guess."""

    def __init__(self, document: bytes) -> None:
        self._whole = document
        self._texts: dict[str, tuple[int, int, bool]] = {}  # by its mark: from where, to where, whether it is CDATA
        self.nonce = secrets.token_hex(8)
        self._kept: list[bytes] = []
        self._done = 0
        self._lift_long_texts()
        self.document = b"".join((*self._kept, document[self._done :]))

    def text(self, given: str, length: int | None = None) -> str:
        """Return a text that has the nonce in it with what was lifted from it, or the beginning of that."""
        mark = given.strip()
        if mark in self._texts:  # as most are: nothing else stands beside it
            return self._lifted_text(mark, length)
        return self._marks().sub(lambda mark: self._lifted_text(mark[0], length), given)[:length]

    def markup(self, given: str, length: int) -> str:
        """Return the beginning of a piece of markup with what was lifted from it."""
        if self.nonce not in given:
            return given[:length]
        return self._marks().sub(lambda mark: html.escape(self._lifted_text(mark[0], length)), given)[:length]

    def _marks(self) -> re.Pattern[str]:
        return re.compile(f"{self.nonce}[0-9]+;")

    def _lifted_text(self, mark: str, length: int | None) -> str:
        start, end, is_cdata = self._texts[mark]
        if length is not None:
            for size in (length * 3 // 2, length * 6):
                if size >= end - start:
                    break
                # not final: the last character may be cut in two, and so may the last reference
                text, _ = utf_8_decode(self._whole[start : start + size], "strict", False)
                text = text if is_cdata else unescape_xml(text)
                if len(text) >= length + _LONGEST_REFERENCE:
                    return text[:length]
        text = self._whole[start:end].decode()
        return (text if is_cdata else unescape_xml(text))[:length]

    def _lift_long_texts(self) -> None:
        position = 0
        for start, end in _cdata_sections(self._whole):
            if start - position > _LONG_TEXT:
                self._lift_escaped_texts(position, start)
            if end - start > _LONG_CDATA:
                self._lift(start + len(_CDATA), end - len(_CDATA_END), is_cdata=True)
            position = end
        self._lift_escaped_texts(position, len(self._whole))

    def _lift_escaped_texts(self, position: int, limit: int) -> None:
        """Lift what is long and has escaped markup in it, in a part of the document without CDATA."""
        document = self._whole
        while (escaped := document.find(b"&lt;", position, limit)) >= 0:
            end = document.find(b"<", escaped, limit)
            if end < 0:
                return
            # The last ">": one before it may stand in a comment or an attribute, and what follows it is no text then.
            start = document.rfind(b">", position, end) + 1
            if start and end - start > _LONG_TEXT:
                self._lift(start, end, is_cdata=False)
            position = end

    def _lift(self, start: int, end: int, *, is_cdata: bool) -> None:
        mark = f"{self.nonce}{len(self._texts)};"
        self._texts[mark] = (start, end, is_cdata)
        self._kept += (self._whole[self._done : start], mark.encode())
        self._done = end


def _cdata_sections(document: bytes) -> Iterator[tuple[int, int]]:
    """Tell from where to where each section of CDATA reaches. What looks like one in a comment is none."""
    position, section = 0, document.find(_CDATA)
    while section >= 0:
        comment = document.find(_COMMENT, position, section)
        is_cdata = comment < 0
        end = _end_of_cdata(document, section) if is_cdata else document.find(_COMMENT_END, comment + len(_COMMENT))
        if end < 0:
            return
        position = end + (len(_CDATA_END) if is_cdata else len(_COMMENT_END))
        if is_cdata:
            yield section, position
        if section < position:
            section = document.find(_CDATA, position)


def _end_of_cdata(document: bytes, start: int) -> int:
    # one character is found four times as quickly as three are, and texts seldom have it
    bracket = document.find(b"]", start)
    return document.find(_CDATA_END, bracket) if bracket >= 0 else -1


def unescape_xml(text: str) -> str:
    """Do what `unescape_html` does, quicker where it is mostly markup that is escaped."""
    plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"')
    if "&" not in plain:
        return plain
    if plain.count("&") == plain.count("&amp;"):
        return plain.replace("&amp;", "&")
    return unescape_html(plain)
