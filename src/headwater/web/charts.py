"""Charts as SVG, made by the server. Classes of the style sheet colour them, so they follow light and dark."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from markupsafe import Markup

from headwater.web.texts import clean

_WIDTH, _HEIGHT = 640.0, 160.0
_LEFT, _BOTTOM, _TOP = 44.0, 20.0, 12.0
_FLOOR = _HEIGHT - _BOTTOM
_SPARK_WIDTH, _SPARK_HEIGHT = 96.0, 24.0
_GRID_LINES = 3
_TIME_LABELS = 4
_TWO_DAYS = 2 * 86_400
_MARKS = {"restart": "restart", "setting": "setting changed"}


@dataclass(frozen=True, slots=True)
class Mark:
    """An event that a time chart marks: a restart or a changed setting."""

    at: datetime
    label: str
    kind: Literal["restart", "setting"] = "restart"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a time chart. A value of None leaves a gap."""

    label: str
    values: Sequence[float | None]


def draw_bars(rows: Sequence[tuple[str, float]], *, label: str) -> Markup:
    """Return a list of labels, each with a horizontal bar and a number."""
    largest = max((value for _, value in rows), default=0) or 1
    items = (
        make_tag(
            "li",
            make_tag("span", make_tag("bdi", clean(name)), class_="bar-name"),
            make_tag(
                "svg",
                make_tag("rect", class_="bar-back", width=100, height=8, rx=1),
                make_tag("rect", class_="bar-value", width=max(0.0, 100 * value / largest), height=8, rx=1),
                class_="bar",
                viewBox="0 0 100 8",
                preserveAspectRatio="none",
                aria_hidden="true",
            ),
            make_tag("span", format_number(value), class_="bar-number"),
        )
        for name, value in rows
    )
    return make_tag("ul", *items, class_="bars", aria_label=label)


def draw_sparkline(values: Sequence[float | None], *, label: str) -> Markup:
    """Return a small line without axes, for a row of a table."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return make_tag("span", "-", class_="none")
    points = _place(values, (0, _SPARK_WIDTH), (_SPARK_HEIGHT - 2, 2), min(0.0, *known), max(known))
    return make_tag(
        "svg",
        make_tag("title", label),
        _draw_path(points, 0),
        class_="sparkline",
        viewBox=f"0 0 {_SPARK_WIDTH:g} {_SPARK_HEIGHT:g}",
        role="img",
    )


def draw_columns(times: Sequence[datetime], values: Sequence[float], *, label: str, unit: str = "") -> Markup:
    """Return a chart with a column for each of the times, which have equal steps."""
    largest = _round_up(max(values, default=0))
    step = (_WIDTH - _LEFT) / max(1, len(values))
    columns = (
        make_tag(
            "rect",
            make_tag("title", f"{at:%Y-%m-%d %H:%M}: {format_number(value)} {unit}"),
            class_="column",
            x=_LEFT + place * step + step * 0.1,
            y=_FLOOR - (_FLOOR - _TOP) * value / largest,
            width=step * 0.8,
            height=(_FLOOR - _TOP) * value / largest,
        )
        for place, (at, value) in enumerate(zip(times, values, strict=True))
        if value > 0
    )
    return make_tag("figure", _draw_frame(columns, times, largest, (), label, unit), class_="chart")


def draw_lines(
    times: Sequence[datetime], lines: Sequence[Line], *, label: str, unit: str = "", marks: Sequence[Mark] = ()
) -> Markup:
    """Return a chart of lines over time, with a legend and with marks of the events that may explain a bend."""
    largest = _round_up(max((value for line in lines for value in line.values if value is not None), default=0))
    placed = (_place(line.values, (_LEFT, _WIDTH), (_FLOOR, _TOP), 0, largest) for line in lines)
    paths = (_draw_path(points, number) for number, points in enumerate(placed))
    chart = _draw_frame(paths, times, largest, marks, label, unit)
    keys = [(f"line line-{number}", "M0 4H16", line.label) for number, line in enumerate(lines)]
    keys += [(f"mark mark-{kind}", "M8 0V8", _MARKS[kind]) for kind in sorted({mark.kind for mark in marks})]
    legend = (
        make_tag("li", make_tag("svg", make_tag("path", class_=kind, d=path), class_="key", viewBox="0 0 16 8"), name)
        for kind, path, name in keys
    )
    return make_tag("figure", chart, make_tag("ul", *legend, class_="legend"), class_="chart")


def format_number(value: float) -> str:
    """Write a number in at most five characters or so."""
    if value >= 1_000_000:
        return f"{value / 1_000_000:.3g} M"
    if value >= 10_000:
        return f"{value / 1_000:.3g} k"
    return f"{value:,.0f}" if value == int(value) else f"{value:.2g}"


def _draw_frame(
    drawn: Iterable[Markup], times: Sequence[datetime], largest: float, marks: Sequence[Mark], label: str, unit: str
) -> Markup:
    parts = [make_tag("title", label)]
    for number in range(_GRID_LINES + 1):
        y = _FLOOR - (_FLOOR - _TOP) * number / _GRID_LINES
        parts.append(make_tag("path", class_="grid", d=f"M{_LEFT:g} {y:.1f}H{_WIDTH:g}"))
        value = format_number(largest * number / _GRID_LINES)
        parts.append(make_tag("text", value, class_="axis", x=_LEFT - 6, y=y + 3, text_anchor="end"))
    if unit:
        parts.append(make_tag("text", unit, class_="axis", x=_LEFT, y=7))
    if times:
        parts += _draw_times(times, marks)
    size = f"0 0 {_WIDTH:g} {_HEIGHT:g}"
    return make_tag("svg", *parts, *drawn, class_="plot", viewBox=size, role="img", aria_label=label)


def _draw_times(times: Sequence[datetime], marks: Sequence[Mark]) -> list[Markup]:
    first, span = times[0], (times[-1] - times[0]).total_seconds()
    pattern = "%H:%M" if span <= _TWO_DAYS else "%d %b"
    parts = []
    for number in range(_TIME_LABELS):
        place = round((len(times) - 1) * number / (_TIME_LABELS - 1))
        anchor = {0: "start", _TIME_LABELS - 1: "end"}.get(number, "middle")
        x = _LEFT + (_WIDTH - _LEFT) * number / (_TIME_LABELS - 1)
        parts.append(
            make_tag("text", f"{times[place]:{pattern}}", class_="axis", x=x, y=_HEIGHT - 5, text_anchor=anchor)
        )
    for mark in marks:
        share = (mark.at - first).total_seconds() / (span or 1)
        if 0 <= share <= 1:
            x = _LEFT + (_WIDTH - _LEFT) * share
            title = make_tag("title", f"{mark.at:%Y-%m-%d %H:%M}: {clean(mark.label)}")
            parts.append(make_tag("path", title, class_=f"mark mark-{mark.kind}", d=f"M{x:.1f} {_TOP:g}V{_FLOOR:g}"))
    return parts


_Points = list[tuple[float, float] | None]


def _place(
    values: Sequence[float | None], across: tuple[float, float], up: tuple[float, float], least: float, largest: float
) -> _Points:
    step = (across[1] - across[0]) / max(1, len(values) - 1)
    scale = (up[1] - up[0]) / ((largest - least) or 1)
    return [
        None if value is None else (across[0] + place * step, up[0] + (value - least) * scale)
        for place, value in enumerate(values)
    ]


def _draw_path(points: _Points, number: int) -> Markup:
    """Draw the points as a line. A gap begins a new part of it."""
    steps, is_open = [], False
    for point in points:
        if point is not None:
            steps.append(f"{'L' if is_open else 'M'}{point[0]:.1f} {point[1]:.1f}")
        is_open = point is not None
    return make_tag("path", class_=f"line line-{number}", d="".join(steps))


def _round_up(value: float) -> float:
    """Return the next number that divides into the parts of the grid without odd digits."""
    scale = 1.0
    while value / scale > 10 * _GRID_LINES:
        scale *= 10
    return next(scale * part * _GRID_LINES for part in range(1, 11) if scale * part * _GRID_LINES >= value)


def make_tag(name: str, *children: str, **attributes: object) -> Markup:
    """Return an element. Texts and values are escaped. A `_` in a name is a hyphen, except at its end."""
    parts = [Markup("<{}").format(Markup(name))]  # noqa: S704 - the names of elements are in this module
    for key, value in attributes.items():
        shown = f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value
        parts.append(Markup(' {}="{}"').format(Markup(key.rstrip("_").replace("_", "-")), shown))  # noqa: S704
    return Markup("").join([*parts, Markup(">"), *children, Markup("</{}>").format(Markup(name))])  # noqa: S704
