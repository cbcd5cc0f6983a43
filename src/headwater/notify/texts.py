"""The texts of digests: a subject, a plain text and HTML. Pure. Titles and leads are hostile."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from headwater.db.messages import AlarmKind, AlarmMessage, DayReport, Digest, DigestDocument

_CONTROL = dict.fromkeys([*range(32), *range(127, 160), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])

_ALARMS = {
    AlarmKind.SOURCE_FAILING: "A source fails",
    AlarmKind.SOURCE_SILENT: "A source is silent",
    AlarmKind.DAY_INCOMPLETE: "A day is incomplete",
    AlarmKind.EXTRACTION_DRIFTED: "Extraction has drifted",
    AlarmKind.DISK_LOW: "The disk is nearly full",
    AlarmKind.OUTBOX_STUCK: "An outbox is stuck",
}


@dataclass(frozen=True, slots=True)
class Text:
    """A message to a person."""

    subject: str
    plain: str
    html: str


def write_digest(digest: Digest) -> Text:
    """Write a digest."""
    number = len(digest.documents)
    found = "1 new document" if number == 1 else f"{number} new documents"
    lines = [f"{found} for {digest.search}: {_line(digest.words)}", ""]
    groups = _group_stories(digest.documents)
    for one, *others in groups:
        lines += [_line(one.title) or "(no title)", f"  {_describe(one)}", f"  {_line(one.url)}"]
        lines += [f"  {_line(one.lead)}"] if one.lead else []
        for other in others:
            lines += [f"  Also {_describe(other)}: {_line(other.title)}", f"  {_line(other.url)}"]
        lines.append("")
    if digest.more:
        lines += [f"The next digest has {digest.more} more.", ""]
    lines += _report(digest.report)
    items = "".join(map(_list_item, groups))
    more = f"<p>The next digest has {digest.more} more.</p>" if digest.more else ""
    report = "".join(f"<p>{escape(line)}</p>" for line in _report(digest.report))
    html = (
        f'<!doctype html><html><head><meta charset="utf-8"></head><body><h1>{escape(found)}</h1>'
        f"<p>{escape(digest.search)}: {escape(_line(digest.words))}</p><ul>{items}</ul>{more}{report}</body></html>"
    )
    return Text(f"{digest.search}: {found}", "\n".join(lines) + "\n", html)


def write_alarm(alarm: AlarmMessage) -> Text:
    """Write an alarm: that it began, or that it is over."""
    name = f"{_ALARMS[alarm.kind]}: {_line(alarm.subject)}"
    lines = [_line(alarm.message), f"It began at {alarm.began_at:%Y-%m-%d %H:%M} UTC."]
    if alarm.ended_at:
        lines.append(f"It was over at {alarm.ended_at:%Y-%m-%d %H:%M} UTC.")
    body = "".join(f"<p>{escape(line)}</p>" for line in lines)
    html = f'<!doctype html><html><head><meta charset="utf-8"></head><body><h1>{escape(name)}</h1>{body}</body></html>'
    return Text(f"{'Over: ' if alarm.ended_at else 'Alarm: '}{name}"[:200], "\n".join([name, "", *lines]) + "\n", html)


def write_test(name: str) -> Text:
    """Write a test message."""
    plain = f"This is a test of {name}. Headwater can send messages here."
    return Text(f"Test of {name}", plain + "\n", f"<!doctype html><html><body><p>{escape(plain)}</p></body></html>")


def _report(report: DayReport) -> list[str]:
    if not report.is_over:
        state = f"The day {report.day} is not over."
    else:
        state = f"The day {report.day} is complete." if report.is_complete else f"The day {report.day} is not complete."
    lines = [" ".join([state, *map(_line, report.problems)])]
    if report.silent:
        return [*lines, "Sources that are silent or fail:", *(f"- {_line(one)}" for one in report.silent)]
    return [*lines, "No source is silent or fails."]


def _group_stories(documents: Sequence[DigestDocument]) -> list[list[DigestDocument]]:
    """Return the documents, those of one story together, in the order of the first of each."""
    groups: dict[int, list[DigestDocument]] = {}
    for one in documents:
        groups.setdefault(-one.id if one.story_id is None else one.story_id, []).append(one)
    return list(groups.values())


def _list_item(group: list[DigestDocument]) -> str:
    """Return a story as one item of a list, with all its documents."""
    one, *others = group
    also = "".join(f"<p>Also {_link(other)}</p>" for other in others)
    return f"<li><p>{_link(one)}</p><p>{escape(_line(one.lead))}</p>{also}</li>"


def _link(one: DigestDocument) -> str:
    title = escape(_line(one.title) or "(no title)")
    if one.url.startswith(("http://", "https://")):
        title = f'<a href="{escape(_line(one.url))}">{title}</a>'
    return f"{title}<br><small>{escape(_describe(one))}</small>"


def _describe(one: DigestDocument) -> str:
    published = f", {one.published_at:%Y-%m-%d %H:%M} UTC" if one.published_at else ", undated"
    return f"{_line(one.source)}{published}"


def _line(text: str) -> str:
    """Return a text in one line, without control characters and signs that change its direction."""
    return " ".join(" ".join(text.split()).translate(_CONTROL).split())
