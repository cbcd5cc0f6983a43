"""Spec 4.3: the charset by byte order mark, header and meta."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.policy.charset import decode_html, decode_xml

WORD = "Größe"
CYRILLIC = "Размер"


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (WORD.encode(), None, WORD),
        (WORD.encode("latin-1"), None, WORD),
        (WORD.encode("latin-1"), "text/html; charset=us-ascii", WORD),
        ("„Größe“".encode("cp1252"), "text/html; charset=ISO-8859-1", "„Größe“"),
        # header before meta, and a mark before both
        (f"<meta charset=windows-1251>{CYRILLIC}".encode("koi8-r"), "text/html; charset=koi8-r", CYRILLIC),
        (f"\ufeff<meta charset=koi8-r>{CYRILLIC}".encode(), "text/html; charset=koi8-r", CYRILLIC),
        (f"\ufeff{CYRILLIC}".encode("utf-16-be"), "text/html; charset=utf-8", CYRILLIC),
        (f"<meta charset='windows-1251'>{CYRILLIC}".encode("cp1251"), None, CYRILLIC),
        (
            f'<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">{CYRILLIC}'.encode("koi8-r"),
            "text/html",
            CYRILLIC,
        ),
        ("<meta charset=shift_jis>日本語①".encode("cp932"), None, "日本語①"),
        ("<meta charset=gb2312>简体中文鎔".encode("gbk"), None, "简体中文鎔"),
        ("<meta charset=iso-2022-jp>日本語".encode("iso-2022-jp"), None, "日本語"),
        # lies
        (WORD.encode(), "text/html; charset=iso-8859-1", WORD),
        (f"<meta charset=utf-16>{WORD}".encode(), None, WORD),
        (WORD.encode(), "text/html; charset=utf-16", WORD),
        (f"<meta charset=utf-8>{CYRILLIC}".encode("cp1251"), "text/html; charset=windows-1251", CYRILLIC),
        ("Où sont passées les clés ?".encode("cp1252"), "text/html; charset=utf-8", "Où sont passées les clés ?"),
        (f"<meta charset=rot13>{WORD}".encode(), "text/html; charset=unicode_escape", WORD),
        # a broken byte breaks one character only
        (f"{WORD} ".encode() * 5 + b"\xff", None, f"{WORD} " * 5 + "\ufffd"),
        (f"<meta charset=utf-8>{WORD}\xff".encode() + b"\xff", None, "\xff\ufffd"),
    ],
)
def test_the_charset_is_found(body: bytes, content_type: str | None, text: str) -> None:
    assert decode_html(body, content_type).endswith(text)


@given(body=st.binary(), label=st.text())
def test_decoding_never_fails(body: bytes, label: str) -> None:
    for content_type in (None, f"text/html; charset={label}"):
        assert isinstance(decode_html(body, content_type), str)
        assert isinstance(decode_xml(body, content_type), str)
