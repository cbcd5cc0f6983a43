"""Long texts are taken out of a document before it is parsed, and put back where somebody asks for them.

Most of a feed is the text of its entries, of which a reader wants the beginning; to carry all of it through a parser
takes longer than everything else.
"""

import html
import re
import secrets
from codecs import utf_8_decode

_CDATA, _CDATA_END = b"<![CDATA[", b"]]>"
_LONG = 64
_NONCE = secrets.token_hex(8)
_MARK = re.compile(f"{_NONCE}[0-9]+;")
_LONG_TEXT = re.compile(rb">([^<]{400,})<")
_BYTES_A_CHARACTER = 2


class Lifted:
    """A document without its long texts. Marks that nobody can guess stand in their places."""

    def __init__(self, document: bytes) -> None:
        self._texts: dict[str, tuple[bytes, bool]] = {}  # by its mark, and whether it is CDATA
        self.document = _LONG_TEXT.sub(self._lift_text, self._without_cdata(document))

    def text(self, given: str, length: int | None = None) -> str:
        """Return a text with what was lifted from it, or the beginning of that."""
        if _NONCE not in given:
            return given[:length]
        if given.strip() in self._texts:
            return self._lifted_text(given.strip(), length)
        return _MARK.sub(lambda mark: self._lifted_text(mark[0], length), given)[:length]

    def markup(self, given: str, length: int) -> str:
        """Return the beginning of a piece of markup with what was lifted from it."""
        if _NONCE not in given:
            return given[:length]
        return _MARK.sub(lambda mark: html.escape(self._lifted_text(mark[0], length)), given)[:length]

    def _lifted_text(self, mark: str, length: int | None) -> str:
        raw, is_cdata = self._texts[mark]
        if length is None or len(raw) <= length * _BYTES_A_CHARACTER:
            text = raw.decode()
        else:
            # the last character may be cut in two
            text, _ = utf_8_decode(raw[: length * _BYTES_A_CHARACTER], "strict", False)
        return (text if is_cdata else _unescaped(text))[:length]

    def _without_cdata(self, document: bytes) -> bytes:
        kept: list[bytes] = []
        position = 0
        while (start := document.find(_CDATA, position)) >= 0:
            end = document.find(_CDATA_END, start)
            if end < 0:
                break
            if end - start > _LONG:
                kept += (document[position:start], self._lift(document[start + len(_CDATA) : end], is_cdata=True))
            else:
                kept.append(document[position : end + len(_CDATA_END)])
            position = end + len(_CDATA_END)
        return b"".join((*kept, document[position:])) if kept else document

    def _lift_text(self, match: re.Match[bytes]) -> bytes:
        return b">" + self._lift(match[1], is_cdata=False) + b"<"

    def _lift(self, text: bytes, *, is_cdata: bool) -> bytes:
        mark = f"{_NONCE}{len(self._texts)};"
        self._texts[mark] = (text, is_cdata)
        return mark.encode()


def _unescaped(text: str) -> str:
    """Do what html.unescape does, in a tenth of the time where nothing but markup is escaped."""
    if "&#" not in text:
        plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"')
        if plain.count("&") == plain.count("&amp;"):
            return plain.replace("&amp;", "&")
    return html.unescape(text)
