"""Read the ruling lines and the pictures of a page."""

import ctypes
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

_MAX_OBJECTS = 20_000  # of one page
_MAX_DEPTH = 4  # of forms within forms
_MAX_SEGMENTS = 400  # of one path; a longer path is a picture
_HAIRLINE = 2.0  # points; a thicker stroke is an area
_MIN_RULE_LENGTH = 6.0

Box = tuple[float, float, float, float]  # left, bottom, right, top
Matrix = tuple[float, float, float, float, float, float]
_IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class RulingLine:
    """A straight line along an axis. It is drawn, or it is the edge of an area."""

    x0: float
    top: float
    x1: float
    bottom: float

    @property
    def is_flat(self) -> bool:
        """Whether the line is horizontal."""
        return self.x1 - self.x0 >= self.bottom - self.top


@dataclass(frozen=True, slots=True)
class Rotation:
    """How to rotate a page, in quarters, so that its text runs from left to right and downwards."""

    quarters: int
    left: float
    bottom: float
    right: float
    top: float

    def box(self, left: float, bottom: float, right: float, top: float) -> tuple[float, float, float, float]:
        """Return x0, top, x1 and bottom of a box in the coordinates of the page."""
        if self.quarters == 0:
            return left - self.left, self.top - top, right - self.left, self.top - bottom
        if self.quarters == 1:
            return bottom - self.bottom, left - self.left, top - self.bottom, right - self.left
        if self.quarters == 2:
            return self.right - right, bottom - self.bottom, self.right - left, top - self.bottom
        return self.top - top, self.right - right, self.top - bottom, self.right - left

    def size(self) -> tuple[float, float]:
        """Return the width and the height after the rotation."""
        across, up = self.right - self.left, self.top - self.bottom
        return (across, up) if self.quarters % 2 == 0 else (up, across)


def read_drawings(page: pypdfium2.PdfPage, rotation: Rotation) -> tuple[list[RulingLine], float]:
    """Return the ruling lines of a page, and the share of the page that pictures cover."""
    width, height = rotation.size()
    rules: list[RulingLine] = []
    covered = 0.0
    for kind, drawn, matrix in _objects(page):
        box = _bounds(drawn, matrix)
        if box is None:
            continue
        x0, top, x1, bottom = rotation.box(*box)
        if kind == pdfium.FPDF_PAGEOBJ_IMAGE:
            across = min(x1, width) - max(x0, 0.0)
            down = min(bottom, height) - max(top, 0.0)
            covered += max(0.0, across) * max(0.0, down)
        else:
            rules += _rules(drawn, matrix, rotation, RulingLine(x0, top, x1, bottom))
    return rules, covered / max(1.0, width * height)


def _objects(page: pypdfium2.PdfPage) -> Iterator[tuple[int, Any, Matrix]]:
    """Yield pictures and paths, also those within forms, with the matrix of their form."""
    waiting: list[tuple[Any, Any, int, Matrix, int]] = [
        (pdfium.FPDFPage_GetObject, page, pdfium.FPDFPage_CountObjects(page), _IDENTITY, 0)
    ]
    left = _MAX_OBJECTS
    while waiting and left > 0:
        get, holder, count, matrix, depth = waiting.pop()
        for number in range(min(count, left)):
            left -= 1
            drawn = get(holder, number)
            kind = pdfium.FPDFPageObj_GetType(drawn)
            if kind in (pdfium.FPDF_PAGEOBJ_IMAGE, pdfium.FPDF_PAGEOBJ_PATH):
                yield kind, drawn, matrix
            elif kind == pdfium.FPDF_PAGEOBJ_FORM and depth < _MAX_DEPTH:
                inner = _multiply(_matrix(drawn), matrix)
                many = pdfium.FPDFFormObj_CountObjects(drawn)
                waiting.append((pdfium.FPDFFormObj_GetObject, drawn, many, inner, depth + 1))


def _matrix(drawn: Any) -> Matrix:
    found = pdfium.FS_MATRIX()
    if not pdfium.FPDFPageObj_GetMatrix(drawn, ctypes.byref(found)):
        return _IDENTITY
    return found.a, found.b, found.c, found.d, found.e, found.f


def _multiply(one: Matrix, other: Matrix) -> Matrix:
    a, b, c, d, e, f = one
    p, q, r, s, t, u = other
    return (
        *(a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s),
        *(e * p + f * r + t, e * q + f * s + u),
    )


def _transform(matrix: Matrix, x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


def _bounds(drawn: Any, matrix: Matrix) -> Box | None:
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    if not pdfium.FPDFPageObj_GetBounds(drawn, left, bottom, right, top):
        return None
    corners = [_transform(matrix, x, y) for x in (left.value, right.value) for y in (bottom.value, top.value)]
    across, up = [x for x, _ in corners], [y for _, y in corners]
    box = (min(across), min(up), max(across), max(up))
    return box if all(map(math.isfinite, box)) else None


def _rules(drawn: Any, matrix: Matrix, rotation: Rotation, box: RulingLine) -> list[RulingLine]:
    across, down = box.x1 - box.x0, box.bottom - box.top
    if min(across, down) <= _HAIRLINE:
        return [box] if max(across, down) >= _MIN_RULE_LENGTH else []
    segments = pdfium.FPDFPath_CountSegments(drawn)
    if segments > _MAX_SEGMENTS:
        return []
    matrix = _multiply(_matrix(drawn), matrix)
    found = []
    start = last = (0.0, 0.0)
    for number in range(segments):
        segment = pdfium.FPDFPath_GetPathSegment(drawn, number)
        x, y = ctypes.c_float(), ctypes.c_float()
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        point = _transform(matrix, x.value, y.value)
        kind = pdfium.FPDFPathSegment_GetType(segment)
        if kind == pdfium.FPDF_SEGMENT_MOVETO:
            start = point
        elif kind == pdfium.FPDF_SEGMENT_LINETO:
            found.append((last, point))
        last = point
        if pdfium.FPDFPathSegment_GetClose(segment):
            found.append((last, start))
            last = start
    boxes = [RulingLine(*rotation.box(min(a, c), min(b, d), max(a, c), max(b, d))) for (a, b), (c, d) in found]
    return [rule for rule in boxes if _is_along_an_axis(rule)]


def _is_along_an_axis(rule: RulingLine) -> bool:
    across, down = rule.x1 - rule.x0, rule.bottom - rule.top
    return min(across, down) <= 1.0 and max(across, down) >= _MIN_RULE_LENGTH
