"""Spec 4.3: the charset by byte order mark, header and meta."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.charset import decode_html, decode_xml, read_html

WORD = "Größe"
CYRILLIC = "Размер"


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (WORD.encode(), None, WORD),
        (WORD.encode("latin-1"), None, WORD),
        (WORD.encode("latin-1"), "text/html; charset=us-ascii", WORD),
        ("„Größe“".encode("cp1252"), "text/html; charset=ISO-8859-1", "„Größe“"),
        # the header comes before meta, and a byte order mark before both
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
        # false declarations
        (WORD.encode(), "text/html; charset=iso-8859-1", WORD),
        (f"<meta charset=utf-16>{WORD}".encode(), None, WORD),
        (WORD.encode(), "text/html; charset=utf-16", WORD),
        (f"<meta charset=utf-8>{CYRILLIC}".encode("cp1251"), "text/html; charset=windows-1251", CYRILLIC),
        ("Où sont passées les clés ?".encode("cp1252"), "text/html; charset=utf-8", "Où sont passées les clés ?"),
        (f"<meta charset=rot13>{WORD}".encode(), "text/html; charset=unicode_escape", WORD),
        # one broken byte changes one character only
        (f"{WORD} ".encode() * 5 + b"\xff", None, f"{WORD} " * 5 + "\ufffd"),
        (f"<meta charset=utf-8>{WORD}\xff".encode() + b"\xff", None, "\xff\ufffd"),
    ],
)
def test_the_charset_comes_from_byte_order_mark_header_or_declaration(
    body: bytes, content_type: str | None, text: str
) -> None:
    assert decode_html(body, content_type).endswith(text)


@pytest.mark.parametrize("lone", [b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0\xbd\xed\xb8\x80"])
@pytest.mark.parametrize(
    ("head", "content_type"), [(b"<meta charset=utf-8>", None), (b"", "text/html; charset=utf-8"), (b"", None)]
)
def test_lone_surrogates_in_utf8_do_not_change_the_charset(lone: bytes, head: bytes, content_type: str | None) -> None:
    """Spec 4.3: some programs encode each half of a UTF-16 pair in UTF-8."""
    body = head + b"Foot" + lone + b"bridge " * 20 + lone + "\u201cWe would\u201d ".encode() + lone * 5
    text = decode_html(body, content_type)
    assert "\u201cWe would\u201d " in text
    assert "bridge \ufffd" in text
    assert decode_html(head + lone + b" bridge", "text/html; charset=utf-8").endswith("\ufffd bridge")


SENTENCES = {
    "ru": "Разводной мост впервые за одиннадцать лет подняли во вторник, и полдеревни пришло посмотреть.",
    "el": "Η γέφυρα σηκώθηκε την Τρίτη για πρώτη φορά μετά από έντεκα χρόνια, και ήρθε το μισό χωριό.",  # noqa: RUF001
    "he": "הגשר הורם ביום שלישי לראשונה מזה אחת עשרה שנים, וחצי הכפר בא לראות את זה.",
    "ar": "أعلنت بلدية المدينة القديمة يوم الاثنين إغلاق الجسر الحجري أمام السيارات حتى نهاية الشهر المقبل.",
    "th": "สะพานถูกยกขึ้นเป็นครั้งแรกในรอบสิบเอ็ดปีเมื่อวันอังคาร และชาวบ้านครึ่งหมู่บ้านมาดู",
    "ja": "市は十六日、駅前広場にある柿の木を来月伐採すると発表した。樹齢は百年を超えるとみられる。",
    "ko": "시는 역 앞 광장에 있는 감나무를 다음 달에 베기로 했다고 밝혔다. 나무는 백 년이 넘은 것으로 보인다.",
    "zh": "市政府周一表示,车站前广场的老树将在下个月被砍掉。这棵树已经有一百多年的历史,很多人说他们会想念它。",
    "zh-Hant": "市政府週一表示,車站前廣場的老樹將在下個月被砍掉。這棵樹已經有一百多年的歷史,很多人說他們會想念它。",
}
CODECS = [
    *[("ru", "cp1251"), ("ru", "koi8-r"), ("ru", "iso8859-5"), ("ru", "cp866"), ("el", "cp1253"), ("he", "cp1255")],
    *[("ar", "cp1256"), ("th", "cp874"), ("ja", "cp932"), ("ja", "euc-jp"), ("ko", "cp949"), ("zh", "gb18030")],
    ("zh-Hant", "big5hkscs"),
]


@pytest.mark.parametrize("content_type", [None, "text/html; charset=utf-8", "text/html; charset=ISO-8859-1"])
@pytest.mark.parametrize(("language", "codec"), CODECS)
def test_the_charset_of_a_non_latin_script_is_detected_without_a_true_declaration(
    language: str, codec: str, content_type: str | None
) -> None:
    page = f"<html><head><title>{SENTENCES[language]}</title></head><body><p>{SENTENCES[language]}</p></body></html>"
    assert decode_html(page.encode(codec), content_type) == page
    feed = f"<rss><channel><title>{SENTENCES[language]}</title></channel></rss>"
    assert decode_xml(feed.encode(codec), content_type) == feed


def test_western_letters_are_not_detected_as_another_script() -> None:
    page = "<p>ÄÖÜÉ « Über Öl » „Größe“ ¡Ünïcödé!</p>"
    assert decode_html(page.encode("cp1252"), "text/html; charset=windows-1252") == page
    assert decode_html(page.encode("cp1252"), None) == page


@pytest.mark.parametrize(("language", "codec"), CODECS)
def test_a_declaration_counts_despite_a_broken_byte(language: str, codec: str) -> None:
    label = {"cp949": "euc-kr", "cp932": "shift_jis", "big5hkscs": "big5", "cp874": "tis-620"}.get(codec, codec)
    body = f"<p>{SENTENCES[language]}</p>".encode(codec) + b"\xff\x00"
    assert SENTENCES[language] in decode_html(body, f"text/html; charset={label}")


@given(body=st.binary(), label=st.text())
def test_decoding_never_fails(body: bytes, label: str) -> None:
    for content_type in (None, f"text/html; charset={label}"):
        text, markup = read_html(body, content_type)
        assert markup is None or markup == text.encode()
        assert text == decode_html(body, content_type)
        assert isinstance(decode_xml(body, content_type), str)
