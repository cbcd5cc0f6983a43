"""Long texts are taken out of a document before it is parsed, and put back where somebody asks for them.

Most of a feed is the text of its entries, of which a reader wants the beginning; to carry all of it through a parser
takes longer than everything else.
"""

import html
import re
import secrets
from codecs import utf_8_decode
from collections.abc import Iterator

from headwater.core.text import unescape_html

_CDATA = b"<![CDATA["
_CDATA_END = b"]]>"
_COMMENT = b"<!--"
_COMMENT_END = b"-->"
_OPENING = re.compile(rb"<!(?:\[CDATA\[|--)")
# A single byte, "!" or "]", is found ten times as quickly as several together, unless a document is full of it.
_MOST_TRIES = 300
_LONG_CDATA = 300
_LONG_TEXT = 800
_LONGEST_REFERENCE = 10
_Place = tuple[int, int, bool]  # from where, to where, whether it is CDATA


class DeferredText:
    """A document without its long texts. In their places stand marks, which begin with a `nonce` nobody can guess."""

    def __init__(self, document: bytes) -> None:
        self._whole = document
        self._texts: dict[str, _Place] = {}  # by their marks
        self.nonce = secrets.token_hex(8)
        self._kept: list[bytes] = []
        self._done = 0
        self._lift_long_texts()
        self.document = b"".join((*self._kept, document[self._done :]))

    def text(self, given: str, length: int | None = None) -> str:
        """Return a text that has the nonce in it with what was lifted from it, or the beginning of that."""
        place = self._texts.get(given) or self._texts.get(given.strip())
        if place:  # as most are: nothing else stands beside the mark
            return self._lifted_text(place, length)
        return self._marks().sub(lambda mark: self._lifted_text(self._texts[mark[0]], length), given)[:length]

    def markup(self, given: str, length: int) -> str:
        """Return the beginning of a piece of markup with what was lifted from it."""
        if self.nonce not in given:
            return given[:length]
        return self._marks().sub(lambda mark: html.escape(self._lifted_text(self._texts[mark[0]], length)), given)[
            :length
        ]

    def _marks(self) -> re.Pattern[str]:
        return re.compile(f"{self.nonce}[0-9]+;")

    def _lifted_text(self, place: _Place, length: int | None) -> str:
        start, end, is_cdata = place
        if length is not None:
            for size in (length * 3 // 2, length * 6):
                if size >= end - start:
                    break
                # not final: the last character may be cut in two, and so may the last reference
                text, _ = utf_8_decode(self._whole[start : start + size], "strict", False)
                text = text if is_cdata else unescape_html(text)
                if len(text) >= length + _LONGEST_REFERENCE:
                    return text[:length]
        text = self._whole[start:end].decode()
        return (text if is_cdata else unescape_html(text))[:length]

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
    tries = _MOST_TRIES
    mark = document.find(b"!")
    while mark >= 0:
        start, end = mark - 1, mark
        if document[start : start + len(_CDATA)] == _CDATA:
            end = document.find(b"]", mark)
            if document[end : end + len(_CDATA_END)] != _CDATA_END:
                end = _end_of_cdata(document, end)
            if end >= 0:
                yield start, end + len(_CDATA_END)
        elif document[start : start + len(_COMMENT)] == _COMMENT:
            end = document.find(_COMMENT_END, start + len(_COMMENT))
        else:
            tries -= 1
        if end < 0:
            return
        mark = document.find(b"!", end + 1) if tries > 0 else _next_mark(document, end + 1)


def _next_mark(document: bytes, position: int) -> int:
    opening = _OPENING.search(document, position)
    return opening.start() + 1 if opening else -1


def _end_of_cdata(document: bytes, bracket: int) -> int:
    for _ in range(_MOST_TRIES):
        if bracket < 0 or document[bracket : bracket + len(_CDATA_END)] == _CDATA_END:
            return bracket
        bracket = document.find(b"]", bracket + 1)
    return document.find(_CDATA_END, bracket)
