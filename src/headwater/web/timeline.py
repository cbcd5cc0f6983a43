"""A picture of events in their order, as SVG: a line with a mark, a time and a text for each event."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from markupsafe import Markup

from headwater.core.text import format_duration
from headwater.web.charts import make_tag
from headwater.web.texts import clean, shorten

_WIDTH = 420
_STEP = 46
_TOP = 20
_LINE = 102  # the place of the line
_TEXT = _LINE + 20
_RADIUS = 6
_TITLE_CHARACTERS = 40
_NOTE_CHARACTERS = 48


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """An event. Its kind colours its mark. The kind `next` is of an event that has not happened yet."""

    at: datetime | None
    title: str
    note: str = ""
    kind: str = "plain"
    """plain, good, warn, bad or next."""


def draw_timeline(events: Sequence[TimelineEvent], *, label: str, zone: tzinfo = UTC) -> Markup:
    """Return the picture. Between two events it shows the time that passed."""
    parts = [make_tag("title", label)]
    for number, event in enumerate(events):
        y = _TOP + number * _STEP
        if number:
            before = events[number - 1]
            dashed = " way-next" if event.kind == "next" else ""
            parts.append(
                make_tag("path", class_=f"way-line{dashed}", d=f"M{_LINE} {y - _STEP + _RADIUS}V{y - _RADIUS}")
            )
            if before.at and event.at and event.at > before.at:
                passed = f"+ {format_duration(event.at - before.at)}"
                place = {"x": _LINE - 14, "y": y - _STEP / 2 + 4}
                parts.append(make_tag("text", passed, class_="way-passed", text_anchor="end", **place))
        parts.append(make_tag("circle", class_=f"way-mark way-{event.kind}", cx=_LINE, cy=y, r=_RADIUS))
        if event.at:
            local = event.at.astimezone(zone)
            day = f"{local:%H:%M:%S}" if _is_same_day(events, number, zone) else f"{local.day} {local:%b %H:%M}"
            parts.append(make_tag("text", day, class_="way-time", x=_LINE - 14, y=y + 4, text_anchor="end"))
        title, note = (" ".join(clean(text).split()) for text in (event.title, event.note))
        parts.append(
            make_tag("text", shorten(title, _TITLE_CHARACTERS), class_="way-title", x=_TEXT, y=y + (1 if note else 4))
        )
        if note:
            short = shorten(note, _NOTE_CHARACTERS)
            parts.append(make_tag("text", make_tag("title", note), short, class_="way-note", x=_TEXT, y=y + 15))
    height = _TOP + _STEP * (len(events) - 1) + 26 if events else 1
    return make_tag("svg", *parts, class_="way", viewBox=f"0 0 {_WIDTH} {height}", role="img", aria_label=label)


def _is_same_day(events: Sequence[TimelineEvent], number: int, zone: tzinfo) -> bool:
    """Return whether an event is on the day of the event before it, so that its time is enough."""
    before = next((one.at for one in reversed(events[:number]) if one.at), None)
    at = events[number].at
    return before is not None and at is not None and before.astimezone(zone).date() == at.astimezone(zone).date()
