"""A small PDF writer for tests: words, lines and pictures at positions from the top left."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

WIDTH, HEIGHT = 612, 792
_WIDTHS = dict.fromkeys("0123456789$#", 556) | dict.fromkeys(".,:;' /!", 278) | {"-": 333, "(": 333, ")": 333, "%": 889}
_FONTS = (
    b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>",
)
_PICTURE = (
    b"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8 /Length 1 >>\n"
    b"stream\n\x99\nendstream"
)
_FIRST_PAGE = 6  # after catalog, pages, two fonts and a picture


@dataclass
class Page:
    """A page to draw on. `turned` rotates its text and lines by a quarter."""

    drawn: list[bytes] = field(default_factory=list)
    turned: bool = False

    def text(
        self, x: float, y: float, words: str, size: float = 10, *, bold: bool = False, right: bool = False
    ) -> None:
        if right:
            x -= sum(_WIDTHS.get(letter, 556) for letter in words) * size / 1000
        shown = words.encode("cp1252").replace(b"\\", rb"\\").replace(b"(", rb"\(").replace(b")", rb"\)")
        place = f"0 1 -1 0 {y:.2f} {x:.2f}" if self.turned else f"1 0 0 1 {x:.2f} {HEIGHT - y:.2f}"
        self.drawn.append(b"BT /F%d %g Tf %b Tm (%b) Tj ET" % (2 if bold else 1, size, place.encode(), shown))

    def lines(self, x: float, y: float, lines: Iterable[str], size: float = 10, leading: float = 12) -> float:
        for line in lines:
            self.text(x, y, line, size)
            y += leading
        return y

    def prose(self, x: float, y: float, words: str, characters: int, size: float = 10, leading: float = 12) -> float:
        """Write a paragraph and return the position of the next one."""
        return self.lines(x, y, wrap(words, characters), size, leading) + leading / 2

    def rule(self, x0: float, y0: float, x1: float, y1: float) -> None:
        if self.turned:
            x0, y0, x1, y1 = y0, HEIGHT - x0, y1, HEIGHT - x1
        self.drawn.append(f"{x0:.2f} {HEIGHT - y0:.2f} m {x1:.2f} {HEIGHT - y1:.2f} l S".encode())

    def picture(self, x: float, y: float, width: float, height: float) -> None:
        self.drawn.append(f"q {width} 0 0 {height} {x} {HEIGHT - y - height} cm /P Do Q".encode())

    def grid(
        self, across: Sequence[float], down: Sequence[float], cells: Sequence[Sequence[str]], size: float = 9
    ) -> None:
        """Draw a table with a line around every cell."""
        for x in across:
            self.rule(x, down[0], x, down[-1])
        for y in down:
            self.rule(across[0], y, across[-1], y)
        for y, row in zip(down, cells, strict=False):
            for x, cell in zip(across, row, strict=False):
                self.lines(x + 4, y + 11, cell.split("\n"), size, 11)


def page_of(*lines: str, top: float = 80) -> Page:
    """Return a page of a few lines."""
    page = Page()
    page.lines(72, top, lines)
    return page


def pdf(pages: Sequence[Page], title: str = "") -> bytes:
    kids = b" ".join(b"%d 0 R" % (_FIRST_PAGE + 2 * number) for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%b] /Count %d >>" % (kids, len(pages)),
        *_FONTS,
        _PICTURE,
    ]
    for number, page in enumerate(pages):
        content = b"\n".join(page.drawn)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R /F2 4 0 R >> /XObject << /P 5 0 R >> >> >>"
            % (WIDTH, HEIGHT, _FIRST_PAGE + 1 + 2 * number)
        )
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content))
    objects.append(b"<< /Title (%b) >>" % title.encode("cp1252"))
    return pdf_file(objects, b"/Info %d 0 R" % len(objects))


def pdf_file(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """Number objects, the first is the catalog, and write the table of their positions."""
    file, places = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"), []
    for number, content in enumerate(objects, start=1):
        places.append(len(file))
        file += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return bytes(file) + (
        b"xref\n0 %d\n0000000000 65535 f \n%btrailer\n<< /Size %d /Root 1 0 R %b >>\nstartxref\n%d\n%%%%EOF\n"
        % (len(objects) + 1, table, len(objects) + 1, trailer, len(file))
    )
