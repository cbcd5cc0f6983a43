"""Take long texts out of a feed document before it is parsed, and put them back when a reader asks for them.

Most of a feed is the text of its entries, and a reader needs only the beginning of each. Parsing all of that text
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
# Searching for one byte ("!" or "]") is ten times as fast as for several, unless the document is full of that byte.
_MAX_FALSE_HITS = 300
_MIN_CDATA_BYTES = 300
_MIN_TEXT_BYTES = 800
_MAX_REFERENCE_LENGTH = 10
_Span = tuple[int, int, bool]  # start, end, is CDATA


class DeferredText:
    """A document without its long texts. A marker replaces each text.

    Markers begin with a random `nonce`, so a document cannot contain one by itself.
    """

    def __init__(self, document: bytes) -> None:
        self._whole = document
        self._spans: dict[str, _Span] = {}  # by marker
        self.nonce = secrets.token_hex(8)
        self._pieces: list[bytes] = []
        self._copied_to = 0
        self._defer_long_texts()
        self.document = b"".join((*self._pieces, document[self._copied_to :]))

    def text(self, marked: str, length: int | None = None) -> str:
        """Return a text that contains the nonce with its markers replaced, up to `length` characters."""
        span = self._spans.get(marked) or self._spans.get(marked.strip())
        if span:  # usual: the text is one marker
            return self._deferred_text(span, length)
        return self._markers().sub(lambda marker: self._deferred_text(self._spans[marker[0]], length), marked)[:length]

    def markup(self, marked: str, length: int) -> str:
        """Return a piece of markup with its markers replaced by escaped text, up to `length` characters."""
        if self.nonce not in marked:
            return marked[:length]
        return self._markers().sub(
            lambda marker: html.escape(self._deferred_text(self._spans[marker[0]], length)), marked
        )[:length]

    def _markers(self) -> re.Pattern[str]:
        return re.compile(f"{self.nonce}[0-9]+;")

    def _deferred_text(self, span: _Span, length: int | None) -> str:
        start, end, is_cdata = span
        if length is not None:
            for size in (length * 3 // 2, length * 6):
                if size >= end - start:
                    break
                # `final` is False because the slice may cut the last character and the last reference in two.
                text, _ = utf_8_decode(self._whole[start : start + size], "strict", False)
                text = text if is_cdata else unescape_html(text)
                if len(text) >= length + _MAX_REFERENCE_LENGTH:
                    return text[:length]
        text = self._whole[start:end].decode()
        return (text if is_cdata else unescape_html(text))[:length]

    def _defer_long_texts(self) -> None:
        position = 0
        for start, end in _cdata_sections(self._whole):
            if start - position > _MIN_TEXT_BYTES:
                self._defer_escaped_texts(position, start)
            if end - start > _MIN_CDATA_BYTES:
                self._defer(start + len(_CDATA), end - len(_CDATA_END), is_cdata=True)
            position = end
        self._defer_escaped_texts(position, len(self._whole))

    def _defer_escaped_texts(self, position: int, limit: int) -> None:
        """Defer the long texts with escaped markup in a part of the document that has no CDATA."""
        document = self._whole
        while (escaped := document.find(b"&lt;", position, limit)) >= 0:
            end = document.find(b"<", escaped, limit)
            if end < 0:
                return
            # Use the last ">". An earlier one may be part of a comment or an attribute.
            start = document.rfind(b">", position, end) + 1
            if start and end - start > _MIN_TEXT_BYTES:
                self._defer(start, end, is_cdata=False)
            position = end

    def _defer(self, start: int, end: int, *, is_cdata: bool) -> None:
        marker = f"{self.nonce}{len(self._spans)};"
        self._spans[marker] = (start, end, is_cdata)
        self._pieces += (self._whole[self._copied_to : start], marker.encode())
        self._copied_to = end


def _cdata_sections(document: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each CDATA section. Text that looks like one inside a comment does not count."""
    tries = _MAX_FALSE_HITS
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
        mark = document.find(b"!", end + 1) if tries > 0 else _find_opening(document, end + 1)


def _find_opening(document: bytes, position: int) -> int:
    opening = _OPENING.search(document, position)
    return opening.start() + 1 if opening else -1


def _end_of_cdata(document: bytes, bracket: int) -> int:
    for _ in range(_MAX_FALSE_HITS):
        if bracket < 0 or document[bracket : bracket + len(_CDATA_END)] == _CDATA_END:
            return bracket
        bracket = document.find(b"]", bracket + 1)
    return document.find(_CDATA_END, bracket)
