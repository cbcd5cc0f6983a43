"""Bytes to text, for pages and feeds: byte order mark, then the HTTP header, then the document's own declaration.

Labels have the meaning of the WHATWG encoding standard ("latin1" is windows-1252). A declaration that does not fit the
bytes is ignored, and the encoding is detected from the bytes. Decoding never fails.
"""

import codecs
import re

import webencodings

# The wide encodings; UTF-32 is not in the standard any more, but some feeds still use it.
_WIDE = frozenset({"utf-16-be", "utf-16-le", "utf-32-be", "utf-32-le"})
_UTF_32_LABELS = {"utf-32": "utf-32-le", "utf-32le": "utf-32-le", "utf-32be": "utf-32-be"}
# The standard defines these two labels, but Python has no codec for them.
_WITHOUT_CODEC = frozenset({"replacement", "x-user-defined"})

# UTF-32 comes first, because the mark of UTF-32-LE starts with the mark of UTF-16-LE.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# The first bytes of "<?xml" in the wide encodings.
_WIDE_XML_STARTS = (
    (b"<\x00\x00\x00", "utf-32-le"),
    (b"\x00\x00\x00<", "utf-32-be"),
    (b"<\x00?\x00", "utf-16-le"),
    (b"\x00<\x00?", "utf-16-be"),
)

_HEADER_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)
_META_CHARSET = re.compile(rb"<meta\b[^>]{0,500}?\bcharset\s*=\s*[\"']?\s*([^\s\"'/>;]+)", re.IGNORECASE)
_PROLOG_ENCODING = re.compile(rb"^\s*<\?xml\b[^>]{0,200}?\bencoding\s*=\s*[\"']([^\"']+)[\"']", re.IGNORECASE)
# One half of a UTF-16 pair, encoded in UTF-8 by a faulty program. No other encoding has many of these sequences.
_LONE_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
# The standard reads 1,024 bytes, but real pages have long comments before their <meta>.
_PRESCAN_BYTES = 8192

# Detection tries only encodings of non-Latin scripts, because it cannot distinguish the Latin encodings.
_DETECTED_CODECS = (
    *("cp932", "euc_jp", "gb18030", "big5hkscs", "cp949", "cp1251", "koi8_r", "cp866", "iso8859_5", "cp1253", "cp1255"),
    *("cp1256", "iso8859_6", "cp874"),
)
_DETECTION_BYTES = 64 * 1024
_FIRST_NON_ASCII = re.compile(rb"[\x80-\xff]")
# In Western text, non-ASCII letters stand alone. In other scripts they form whole words.
_NON_ASCII_WORD = re.compile(rb"[\x80-\xff]{4,}")


def decode_html(body: bytes, content_type: str | None) -> str:
    """Return the text of a page. An XML prolog counts where no `<meta>` names a charset."""
    return read_html(body, content_type)[0]


def read_html(body: bytes, content_type: str | None) -> tuple[str, bytes | None]:
    """Return the text of a page, and the body if it is that text in UTF-8 (the caller need not encode it again)."""
    head = body[:_PRESCAN_BYTES]
    declared = [_find_in_header(content_type), _find_in(_META_CHARSET, head), _find_in(_PROLOG_ENCODING, head)]
    text, is_utf8 = _decode(body, declared)
    return text, body if is_utf8 else None


def decode_xml(body: bytes, content_type: str | None) -> str:
    """Return the text of an XML document."""
    head = body[:_PRESCAN_BYTES]
    for start, codec in _WIDE_XML_STARTS:
        if head.startswith(start):
            return body.decode(codec, "replace")
    return _decode(body, [_find_in_header(content_type), _find_in(_PROLOG_ENCODING, head)])[0]


def is_utf8_xml(body: bytes, content_type: str | None) -> bool:
    """Return whether an XML document declares UTF-8 or no encoding."""
    return (_find_in_header(content_type) or _find_in(_PROLOG_ENCODING, body[:_PRESCAN_BYTES])) in (None, "utf-8")


def xml_codec(head: bytes) -> str:
    """Return the codec of an XML or text document that begins with `head`, for callers that decode in pieces."""
    for start, codec in (*_BYTE_ORDER_MARKS, *_WIDE_XML_STARTS):
        if head.startswith(start):
            return codec
    declared = _find_in(_PROLOG_ENCODING, head[:_PRESCAN_BYTES])
    if _begins_utf8(head) and (declared is None or not head.isascii()):
        return "utf-8"
    return _guess_codec(head) if declared in (None, "utf-8") else declared


def _begins_utf8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _decode(body: bytes, declared: list[str | None]) -> tuple[str, bool]:
    """Return the text, and whether the whole body is that text in UTF-8."""
    for mark, codec in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace"), False
    candidates = [codec for codec in declared if codec and (codec not in _WIDE or b"\x00" in body[:_PRESCAN_BYTES])]
    best = candidates[0] if candidates else None
    # Non-ASCII text that is valid UTF-8 is UTF-8, even if a server's default or an old template declares otherwise.
    if best is None or (best not in _WIDE and not body.isascii()):
        candidates.insert(0, "utf-8")
    for codec in candidates:
        try:
            text = body.decode(codec)
        except UnicodeDecodeError:
            continue
        # Almost any bytes decode as windows-1252, and many servers declare it for every page.
        other = _detect_codec(body) if codec == "cp1252" else None
        return (body.decode(other, "replace"), False) if other else (text, codec == "utf-8")
    return body.decode(_guess_codec(body, best or _guess_codec(body)), "replace"), False


def _guess_codec(body: bytes, declared: str = "utf-8") -> str:
    """Return the codec of bytes that do not decode as declared: a few bytes are broken, or the label is wrong."""
    text = (_LONE_SURROGATE.sub(b"", body) if declared == "utf-8" else body).decode(declared, "replace")
    non_ascii = len(text) - len(text.encode("ascii", "ignore"))
    if text.count("\ufffd") * 2 <= non_ascii and declared != "cp1252":
        return declared
    return _detect_codec(body) or ("cp1252" if declared == "utf-8" else declared)


def _detect_codec(body: bytes) -> str | None:
    """Return the codec of a text in a non-Latin script, or None for a Latin script and where no codec fits."""
    first = _FIRST_NON_ASCII.search(body)
    if first is None:
        return None
    sample = body[first.start() : first.start() + _DETECTION_BYTES]
    non_ascii = len(sample) - len(sample.translate(None, bytes(range(0x80, 0x100))))
    if sum(map(len, _NON_ASCII_WORD.findall(sample))) * 2 < non_ascii:
        return None
    # Imported here, because few pages need it.
    from charset_normalizer import from_bytes

    found = from_bytes(
        sample, cp_isolation=list(_DETECTED_CODECS), preemptive_behaviour=False, enable_fallback=False
    ).best()
    return codecs.lookup(found.encoding).name if found else None


def _find_in_header(content_type: str | None) -> str | None:
    match = _HEADER_CHARSET.search(content_type or "")
    return _codec_of(match[1]) if match else None


def _find_in(pattern: re.Pattern[bytes], head: bytes) -> str | None:
    match = pattern.search(head)
    codec = _codec_of(match[1].decode("latin-1")) if match else None
    # Bytes that an ASCII pattern matches cannot be in UTF-16. The standard reads such a declaration as UTF-8.
    return "utf-8" if codec in _WIDE else codec


def _codec_of(label: str) -> str | None:
    label = label.strip().lower()
    encoding = webencodings.lookup(label)
    if encoding is None:
        return _UTF_32_LABELS.get(label)
    if encoding.name in _WITHOUT_CODEC:
        return None
    # GB18030 contains GBK, and browsers decode both with it.
    return "gb18030" if encoding.name == "gbk" else str(encoding.codec_info.name)
