"""Bytes to text, for pages and feeds alike: byte order mark, then what HTTP says, then what the document says.

Labels mean what the WHATWG encoding standard says they mean ("latin1" is windows-1252). What was declared is
believed where it can be; else, and where nothing was, the text is looked at. Decoding never fails.
"""

import codecs
import re

from headwater.core.charset_guess import codec_by_look

# The codec of Python's for each encoding of the standard, with the encoding's labels.
_LABELS_BY_CODEC = {
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
    "cp866": "866 cp866 csibm866 ibm866",
    "iso8859-2": "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    "iso8859-3": "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    "iso8859-4": "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    "iso8859-5": "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988",
    "iso8859-6": "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e "
    "iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987",
    "iso8859-7": "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 iso_8859-7 "
    "iso_8859-7:1987 sun_eu_greek",
    "iso8859-8": "csiso88598e csiso88598i csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-8859-8-i iso-ir-138 "
    "iso8859-8 iso88598 iso_8859-8 iso_8859-8:1988 logical visual",
    "iso8859-10": "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso8859-13": "iso-8859-13 iso8859-13 iso885913",
    "iso8859-14": "iso-8859-14 iso8859-14 iso885914",
    "iso8859-15": "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9",
    "iso8859-16": "iso-8859-16",
    "koi8-r": "cskoi8r koi koi8 koi8-r koi8_r",
    "koi8-u": "koi8-ru koi8-u",
    "mac-roman": "csmacintosh mac macintosh x-mac-roman",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "cp874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    "cp1250": "cp1250 windows-1250 x-cp1250",
    "cp1251": "cp1251 windows-1251 x-cp1251",
    "cp1252": "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 "
    "iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252",
    "cp1253": "cp1253 windows-1253 x-cp1253",
    "cp1254": "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 "
    "windows-1254 x-cp1254",
    "cp1255": "cp1255 windows-1255 x-cp1255",
    "cp1256": "cp1256 windows-1256 x-cp1256",
    "cp1257": "cp1257 windows-1257 x-cp1257",
    "cp1258": "cp1258 windows-1258 x-cp1258",
    "gb18030": "chinese csgb2312 csiso58gb231280 gb18030 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk",
    "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc-jp": "cseucpkdfmtjapanese euc-jp x-euc-jp",
    "iso2022-jp": "csiso2022jp iso-2022-jp",
    "cp932": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    "cp949": "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 "
    "windows-949",
    "utf-16-be": "unicodefffe utf-16be",
    "utf-16-le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
    # not in the standard any more, but feeds still come in it
    "utf-32-be": "utf-32be",
    "utf-32-le": "utf-32 utf-32le",
}
_WIDE = frozenset({"utf-16-be", "utf-16-le", "utf-32-be", "utf-32-le"})
_CODEC_BY_LABEL = {label: codec for codec, labels in _LABELS_BY_CODEC.items() for label in labels.split()}

# The marks of UTF-32 come first: that of UTF-32-LE starts with that of UTF-16-LE.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# How "<?xml" starts in the wide encodings.
_UNMARKED = (
    (b"<\x00\x00\x00", "utf-32-le"),
    (b"\x00\x00\x00<", "utf-32-be"),
    (b"<\x00?\x00", "utf-16-le"),
    (b"\x00<\x00?", "utf-16-be"),
)

_HEADER_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)
_META_CHARSET = re.compile(rb"<meta\b[^>]{0,500}?\bcharset\s*=\s*[\"']?\s*([^\s\"'/>;]+)", re.IGNORECASE)
_PROLOG_ENCODING = re.compile(rb"^\s*<\?xml\b[^>]{0,200}?\bencoding\s*=\s*[\"']([^\"']+)[\"']", re.IGNORECASE)
# A half of a UTF-16 pair, as what programs that encode each half leave in UTF-8; no other encoding has many of them.
_LONE_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
# The standard looks at 1,024 bytes; pages with long comments before their <meta> are real, though.
_PRESCAN_BYTES = 8192


def decode_html(body: bytes, content_type: str | None) -> str:
    """Return the text of a page; an XHTML prolog counts where no `<meta>` names a charset."""
    return read_html(body, content_type)[0]


def read_html(body: bytes, content_type: str | None) -> tuple[str, bytes | None]:
    """Return the text of a page, and its bytes where they are that text in UTF-8: then it need not be encoded."""
    head = body[:_PRESCAN_BYTES]
    declared = [_from_header(content_type), _found(_META_CHARSET, head), _found(_PROLOG_ENCODING, head)]
    text, is_utf8 = _decode(body, declared)
    return text, body if is_utf8 else None


def decode_xml(body: bytes, content_type: str | None) -> str:
    """Return the text of an XML document."""
    head = body[:_PRESCAN_BYTES]
    for start, codec in _UNMARKED:
        if head.startswith(start):
            return body.decode(codec, "replace")
    return _decode(body, [_from_header(content_type), _found(_PROLOG_ENCODING, head)])[0]


def is_utf8_xml(body: bytes, content_type: str | None) -> bool:
    """Tell whether an XML document is said to be in UTF-8, or nothing is said."""
    return (_from_header(content_type) or _found(_PROLOG_ENCODING, body[:_PRESCAN_BYTES])) in (None, "utf-8")


def xml_codec(head: bytes) -> str:
    """Return the codec of an XML document or a text that begins with `head`, for what is decoded a piece at a time."""
    for start, codec in (*_BYTE_ORDER_MARKS, *_UNMARKED):
        if head.startswith(start):
            return codec
    declared = _found(_PROLOG_ENCODING, head[:_PRESCAN_BYTES])
    if _begins_utf8(head) and (declared is None or not head.isascii()):
        return "utf-8"
    return _guess(head) if declared in (None, "utf-8") else declared


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
    # Text outside ASCII that happens to be valid UTF-8 is UTF-8, whatever a server's default or an old template says.
    if best is None or (best not in _WIDE and not body.isascii()):
        candidates.insert(0, "utf-8")
    for codec in candidates:
        try:
            text = body.decode(codec)
        except UnicodeDecodeError:
            continue
        # As which anything can be read, and which servers say of everything.
        other = codec_by_look(body) if codec == "cp1252" else None
        return (body.decode(other, "replace"), False) if other else (text, codec == "utf-8")
    return body.decode(_guess(body, best or _guess(body)), "replace"), False


def _guess(body: bytes, declared: str = "utf-8") -> str:
    """Return the codec of what is not quite what it was declared as: a few broken bytes, or a wrong label."""
    text = (_LONE_SURROGATE.sub(b"", body) if declared == "utf-8" else body).decode(declared, "replace")
    outside_ascii = len(text) - len(text.encode("ascii", "ignore"))
    if text.count("\ufffd") * 2 <= outside_ascii and declared != "cp1252":
        return declared
    return codec_by_look(body) or ("cp1252" if declared == "utf-8" else declared)


def _from_header(content_type: str | None) -> str | None:
    match = _HEADER_CHARSET.search(content_type or "")
    return _codec(match[1]) if match else None


def _found(pattern: re.Pattern[bytes], head: bytes) -> str | None:
    match = pattern.search(head)
    codec = _codec(match[1].decode("latin-1")) if match else None
    # A declaration that could be read byte by byte cannot be in UTF-16: the standard takes it for UTF-8.
    return "utf-8" if codec in _WIDE else codec


def _codec(label: str) -> str | None:
    return _CODEC_BY_LABEL.get(label.strip().lower())
