"""Charts as SVG, made by the server. Classes of the style sheet colour them, so they follow light and dark."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from markupsafe import Markup

from headwater.web.texts import clean

_WIDTH, _HEIGHT = 520.0, 170.0
_LEFT, _BOTTOM, _TOP = 46.0, 24.0, 18.0
_FLOOR = _HEIGHT - _BOTTOM
_SPARK_WIDTH, _SPARK_HEIGHT = 96.0, 24.0
_GRID_LINES = 3
_TIME_LABELS = 4
_TWO_DAYS = timedelta(days=2)
_TABLE_ROWS = 24
_MARK_GAP = 4.0
_MARK_LINES = 5
_MARKS = {"restart": "restart", "setting": "setting changed"}


@dataclass(frozen=True, slots=True)
class Mark:
    """An event that a time chart marks: a restart or a changed setting."""

    at: datetime
    label: str
    kind: Literal["restart", "setting"] = "restart"


@dataclass(frozen=True, slots=True)
class ChartLine:
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


def draw_columns(
    times: Sequence[datetime], lines: Sequence[ChartLine], *, label: str, unit: str = "", marks: Sequence[Mark] = ()
) -> Markup:
    """Return a chart of columns over time, one part of a column upon the other, with a legend and a table."""
    totals = [sum(filter(None, values)) for values in zip(*(line.values for line in lines), strict=True)]
    largest = _round_up(max(totals, default=0))
    step, below = (_WIDTH - _LEFT) / max(1, len(times)), [0.0] * len(times)
    paths = []
    for number, line in enumerate(lines):
        columns = []
        for place, value in enumerate(line.values):
            if value:
                x, low, height = _LEFT + (place + 0.1) * step, below[place], (_FLOOR - _TOP) * value / largest
                columns.append(f"M{x:.1f} {_FLOOR - low:.1f}h{step * 0.8:.1f}v{-height:.1f}h{-step * 0.8:.1f}z")
                below[place] += height
        paths.append(make_tag("path", class_=f"column column-{number}", d="".join(columns)))
    return _draw_figure(_Scene(times, lines, largest, marks, label, unit), paths, "column", "M0 8V0H16V8z")


def draw_lines(
    times: Sequence[datetime], lines: Sequence[ChartLine], *, label: str, unit: str = "", marks: Sequence[Mark] = ()
) -> Markup:
    """Return a chart of lines over time, with a legend, marks of events that may explain a bend, and a table."""
    largest = _round_up(max((value for line in lines for value in line.values if value is not None), default=0))
    half = (_WIDTH - _LEFT) / max(1, len(times)) / 2
    placed = (_place(line.values, (_LEFT + half, _WIDTH - half), (_FLOOR, _TOP), 0, largest) for line in lines)
    paths = [_draw_path(points, number) for number, points in enumerate(placed)]
    return _draw_figure(_Scene(times, lines, largest, marks, label, unit), paths, "line", "M0 4H16")


def format_number(value: float) -> str:
    """Write a number in at most five characters or so."""
    if value >= 1_000_000:
        return f"{value / 1_000_000:.3g} M"
    if value >= 10_000:
        return f"{value / 1_000:.3g} k"
    return f"{value:,.0f}" if value == int(value) else f"{value:.2g}"


@dataclass(frozen=True, slots=True)
class _Scene:
    """The content of a time chart."""

    times: Sequence[datetime]
    lines: Sequence[ChartLine]
    largest: float
    marks: Sequence[Mark]
    label: str
    unit: str

    @property
    def span(self) -> timedelta:
        """The length of all parts. The times are their beginnings."""
        return (self.times[1] - self.times[0]) * len(self.times) if len(self.times) > 1 else timedelta(minutes=1)

    def format_time(self, at: datetime) -> str:
        """Write a time of the chart."""
        return f"{at:%H:%M}" if self.span <= _TWO_DAYS else f"{at.day} {at:%b}"


def _draw_figure(scene: _Scene, paths: Sequence[Markup], kind: str, key: str) -> Markup:
    parts = [make_tag("title", scene.label), make_tag("desc", _describe(scene))]
    for number in range(_GRID_LINES + 1):
        y = _FLOOR - (_FLOOR - _TOP) * number / _GRID_LINES
        parts.append(make_tag("path", class_="grid", d=f"M{_LEFT:g} {y:.1f}H{_WIDTH:g}"))
        value = format_number(scene.largest * number / _GRID_LINES)
        parts.append(make_tag("text", value, class_="axis", x=_LEFT - 6, y=y + 4, text_anchor="end"))
    if scene.unit:
        parts.append(make_tag("text", scene.unit, class_="axis", x=_LEFT, y=11))
    shown = _join_marks(scene)
    if scene.times:
        parts += _draw_times(scene)
    if not any(value is not None for line in scene.lines for value in line.values):
        place = {"x": (_LEFT + _WIDTH) / 2, "y": (_TOP + _FLOOR) / 2, "text_anchor": "middle"}
        parts.append(make_tag("text", "Nothing is recorded yet.", class_="axis", **place))
    size = f"0 0 {_WIDTH:g} {_HEIGHT:g}"
    drawn = [*parts, *paths, *(_draw_mark(x, marks) for x, marks in shown)]
    chart = make_tag("svg", *drawn, class_="plot", viewBox=size, role="img", aria_label=scene.label)
    keys = [(f"{kind} {kind}-{number}", key, line.label) for number, line in enumerate(scene.lines)]
    kinds = sorted({mark.kind for _, marks in shown for mark in marks})
    keys += [(f"mark mark-{one}", "M8 -2V10", _MARKS[one]) for one in kinds]
    legend = (
        make_tag(
            "li",
            make_tag("svg", make_tag("path", class_=one, d=path), class_="key", viewBox="0 0 16 8", aria_hidden="true"),
            name,
        )
        for one, path, name in keys
    )
    return make_tag("figure", chart, make_tag("ul", *legend, class_="legend"), _draw_table(scene), class_="chart")


def _describe(scene: _Scene) -> str:
    """Describe a chart in a sentence for each line."""
    sentences = []
    for line in scene.lines:
        known = [(value, at) for value, at in zip(line.values, scene.times, strict=True) if value is not None]
        if known:
            most, at = max(known, key=lambda pair: pair[0])
            peak = f"at most {format_number(most)} at {scene.format_time(at)}" if most else "0"
            sentences.append(f"{line.label}: {peak}, last {format_number(known[-1][0])}.")
        else:
            sentences.append(f"{line.label}: nothing is recorded.")
    return " ".join(sentences)


def _draw_table(scene: _Scene) -> Markup:
    """Return the numbers of a chart as a table, with the mean of several parts in a row if there are many."""
    size = -(-len(scene.times) // _TABLE_ROWS) or 1
    head = [make_tag("th", name, scope="col") for name in ("from", *(line.label for line in scene.lines))]
    rows = []
    for start in range(0, len(scene.times), size):
        cells = []
        for line in scene.lines:
            known = [value for value in line.values[start : start + size] if value is not None]
            cells.append(make_tag("td", format_number(sum(known) / len(known)) if known else "-", class_="number"))
        time = make_tag("th", f"{scene.times[start]:%Y-%m-%d %H:%M}", scope="row")
        rows.append(make_tag("tr", time, *cells))
    note = f", {scene.unit}" if scene.unit else ""
    caption = make_tag("caption", f"{scene.label}{note}{f' (mean of {size})' if size > 1 else ''}")
    table = make_tag(
        "table", caption, make_tag("thead", make_tag("tr", *head)), make_tag("tbody", *rows), class_="small-table"
    )
    box = make_tag("div", table, class_="numbers", tabindex="0", role="region", aria_label=f"Numbers of: {scene.label}")
    return make_tag("details", make_tag("summary", "Numbers"), box, data_keep=scene.label)


def _draw_times(scene: _Scene) -> list[Markup]:
    parts = []
    for number in range(_TIME_LABELS):
        place = round((len(scene.times) - 1) * number / (_TIME_LABELS - 1))
        anchor = {0: "start", _TIME_LABELS - 1: "end"}.get(number, "middle")
        x = _LEFT + (_WIDTH - _LEFT) * number / (_TIME_LABELS - 1)
        text = scene.format_time(scene.times[place])
        parts.append(make_tag("text", text, class_="axis", x=x, y=_HEIGHT - 6, text_anchor=anchor))
    return parts


def _join_marks(scene: _Scene) -> list[tuple[float, list[Mark]]]:
    """Return the marks of the chart's time with their places. Marks of one kind that are too close share a place."""
    joined: list[tuple[float, list[Mark]]] = []
    for mark in sorted(scene.marks if scene.times else (), key=lambda one: (one.kind, one.at)):
        share = (mark.at - scene.times[0]) / scene.span
        if not 0 <= share <= 1 + 2 / len(scene.times):  # an event since the last complete part is at the end
            continue
        x = _LEFT + (_WIDTH - _LEFT) * min(share, 1)
        if joined and joined[-1][1][0].kind == mark.kind and x - joined[-1][0] < _MARK_GAP:
            joined[-1][1].append(mark)
        else:
            joined.append((x, [mark]))
    return joined


def _draw_mark(x: float, marks: Sequence[Mark]) -> Markup:
    lines = [f"{mark.at:%Y-%m-%d %H:%M}: {clean(mark.label)}" for mark in marks[:_MARK_LINES]]
    if len(marks) > _MARK_LINES:
        lines.append(f"and {len(marks) - _MARK_LINES} more")
    return make_tag(
        "path",
        make_tag("title", "\n".join(lines)),
        class_=f"mark mark-{marks[0].kind}",
        d=f"M{x:.1f} {_TOP:g}V{_FLOOR:g}",
    )


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
            steps.append(f"{'L' if is_open else 'M'}{point[0]:.1f} {point[1]:.1f}{'' if is_open else 'h0'}")
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
