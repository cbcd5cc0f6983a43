"""A PDF made by hand: pages of plain text in a font that every reader has."""

from textwrap import wrap

from headwater.demo.pages import Sheet

_COLUMNS, _LINES = 88, 60  # of a page
_LETTER_SIZE, _LEADING, _LEFT, _TOP = 10, 12, 56, 780
_FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
_CATALOG, _PAGES, _FONT_NUMBER, _FIRST_PAGE = 1, 2, 3, 4  # the numbers of the objects


def pdf(sheet: Sheet) -> bytes:
    """Print a story as PDF."""
    lines = [sheet.story.headline, sheet.story.byline]
    for paragraph in sheet.story.paragraphs:
        lines += ["", *wrap(paragraph, _COLUMNS)]
    return _file([lines[start : start + _LINES] for start in range(0, len(lines), _LINES)], sheet.story.headline)


def _file(pages: list[list[str]], title: str) -> bytes:
    numbers = range(_FIRST_PAGE, _FIRST_PAGE + 2 * len(pages), 2)  # a page, then its text
    kids = " ".join(f"{number} 0 R" for number in numbers)
    objects = [
        f"<< /Type /Catalog /Pages {_PAGES} 0 R >>".encode(),
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        _FONT,
    ]
    for number, lines in zip(numbers, pages, strict=True):
        text = _text(lines)
        objects.append(
            f"<< /Type /Page /Parent {_PAGES} 0 R /MediaBox [0 0 595 842] /Contents {number + 1} 0 R "
            f"/Resources << /Font << /F1 {_FONT_NUMBER} 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(text), text))
    objects.append(b"<< /Title <%b> >>" % f"\ufeff{title}".encode("utf-16-be").hex().encode())
    return _with_table(objects)


def _text(lines: list[str]) -> bytes:
    shown = b"\n".join(b"(%b) Tj T*" % _escaped(line) for line in lines)
    return b"BT /F1 %d Tf %d TL %d %d Td\n%b\nET" % (_LETTER_SIZE, _LEADING, _LEFT, _TOP, shown)


def _escaped(line: str) -> bytes:
    return line.encode("cp1252", "replace").replace(b"\\", rb"\\").replace(b"(", rb"\(").replace(b")", rb"\)")


def _with_table(objects: list[bytes]) -> bytes:
    """Return the file: the objects, numbered, the last of them with the title, and the table of where each begins."""
    file = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"
    places = []
    for number, content in enumerate(objects, start=1):
        places.append(len(file))
        file += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    trailer = b"<< /Size %d /Root %d 0 R /Info %d 0 R >>" % (size, _CATALOG, len(objects))
    return file + (
        b"xref\n0 %d\n0000000000 65535 f \n%btrailer\n%b\nstartxref\n%d\n%%%%EOF\n" % (size, table, trailer, len(file))
    )
