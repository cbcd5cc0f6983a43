"""Which encoding a text is in when nobody says so: the one by which it reads like a language.

Each encoding has the characters that are frequent in what is written in it. Read by another, a text has few of them.
"""

import re

# Between Western letters others stand alone; in other scripts words are made of them.
_RUN = re.compile(rb"[\x80-\xff]{4,}")
_FIRST = re.compile(rb"[\x80-\xff]")
_LOOKED_AT = 64 * 1024
_ENOUGH = 0.12  # a headline of names has as many; a text in another encoding has hardly any
_BROKEN = 5  # how much one character that cannot be is worth

_HIRAGANA = "".join(map(chr, range(0x3041, 0x3094)))
_RUSSIAN = "оеаинтсрвлкмду"
_SIMPLIFIED = (
    "的一是不了在人有我他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可里后小么心多天而能好都然没日于起"
    "还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三已老从动两长市新月元今"
)
_TRADITIONAL = (
    "的一是不了在人有我他這中大來上國個到說們為子和你地出道也時年得就那要下以生會自著去之過家學對可里後小麼心多天而能好都然沒日於起"
    "還發成事只作當想看文無開手十用主行方又如前所本見經頭面公同三已老從動兩長市新月元今"
)
_KOREAN = "이다는에의을가고하지한를로기사은도서자대시일인리정과있어나라해전그수부았었했들제으만년"
_FREQUENT = {
    "cp932": _HIRAGANA,
    "euc-jp": _HIRAGANA,
    "gb18030": _SIMPLIFIED,
    "big5hkscs": _TRADITIONAL,
    "cp949": _KOREAN,
    "cp1251": _RUSSIAN,
    "koi8-r": _RUSSIAN,
    "cp866": _RUSSIAN,
    "iso8859-5": _RUSSIAN,
    "cp1253": "αοιετσνηυρπκ",
    "cp1255": "יוהלאתרמבש",
    "cp1256": "اليمنرتبوهد",
    "iso8859-6": "اليمنرتبوهد",
    "cp874": "านรอกเงมยลวดทส่้ิี",
}
_FREQUENT_SETS = {codec: frozenset(characters) for codec, characters in _FREQUENT.items()}


def codec_by_look(body: bytes) -> str | None:
    """Return the codec of a text in a script of its own; None where the letters are Western, or nothing fits."""
    first = _FIRST.search(body)
    if first is None:
        return None
    sample = body[first.start() : first.start() + _LOOKED_AT]
    outside_ascii = len(sample) - len(sample.translate(None, bytes(range(0x80, 0x100))))
    if sum(map(len, _RUN.findall(sample))) * 2 < outside_ascii:
        return None
    score, codec = max((_likeness(sample, codec), codec) for codec in _FREQUENT_SETS)
    return codec if score >= _ENOUGH else None


def _likeness(sample: bytes, codec: str) -> float:
    """Return the share of frequent characters among those outside ASCII, less what cannot be."""
    text = sample.decode(codec, "replace")
    characters = [character for character in text if character > "\x7f"]
    frequent = _FREQUENT_SETS[codec]
    found = sum(character in frequent for character in characters)
    return (found - _BROKEN * text.count("\ufffd")) / (len(characters) or 1)
