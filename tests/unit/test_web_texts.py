"""Texts and addresses from outside on a page (spec 11.13)."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from selectolax.lexbor import LexborHTMLParser

from headwater.search.operations import TextPart
from headwater.web import charts, texts

NOW = datetime(2026, 3, 12, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("\"quotes\" & 'more'", "&#34;quotes&#34; &amp; &#39;more&#39;"),
        ("\x1b[1;31mred\x1b[0m\x1b]0;title\x07 \x1bcend", "red end"),
        ("a\u202eb\u2066c\u200fd\u061ce", "abcde"),
        ("two\n\tlines\x00\x08\x9b", "two lines"),
        ("Übung 中文 ۱۲ 👩\u200d🌾", "Übung 中文 ۱۲ 👩\u200d🌾"),
    ],
)
def test_text_from_outside_is_escaped_cleaned_and_isolated(given: str, shown: str) -> None:
    assert texts.plain(given) == f"<bdi>{shown}</bdi>"


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "data:text/html,x", "//host/x", "file:///etc/passwd", "http://", "http://[", "", "a b"],
)
def test_only_web_addresses_are_links(url: str) -> None:
    assert "<a" not in texts.outside(url)


def test_a_link_to_another_site_passes_no_trust() -> None:
    link = texts.outside('http://a.test/?"x"', "<b>")
    assert link.startswith('<a href="http://a.test/?&#34;x&#34;"')
    assert 'rel="noopener noreferrer nofollow"' in link
    assert "&lt;b&gt;" in link


def test_hits_are_marked_and_nothing_else() -> None:
    parts = [TextPart("a ", is_match=False), TextPart("<hit>", is_match=True), TextPart(" <i>", is_match=False)]
    assert texts.marked(parts) == "<bdi>a <mark>&lt;hit&gt;</mark> &lt;i&gt;</bdi>"


def test_a_lead_does_not_repeat_its_title() -> None:
    assert texts.lead("Rivers rise: the council\nreports", "Rivers  rise") == "<bdi>the council reports</bdi>"
    assert texts.lead("Rivers rise", "Rivers rise") == "<bdi>Rivers rise</bdi>"
    assert texts.lead("Other <b>", "") == "<bdi>Other &lt;b&gt;</bdi>"


def test_a_long_text_ends_at_a_word() -> None:
    assert texts.shorten("The river rises again", 16) == "The river rises…"
    assert texts.shorten("x" * 50, 10) == "x" * 9 + "…"
    assert texts.shorten("short", 5) == "short"


def test_a_time_shows_the_clock_today_and_the_day_before() -> None:
    assert ">09:30<" in texts.moment(NOW - timedelta(hours=2.5), NOW)
    assert ">10 Mar<" in texts.moment(NOW - timedelta(days=2), NOW)
    assert ">1 Dec 2025<" in texts.moment(datetime(2025, 12, 1, tzinfo=UTC), NOW)
    assert ">2.5 hours ago<" in texts.moment(NOW - timedelta(hours=2.5), NOW, "age")
    assert ">10 Mar 2026, 12:00<" in texts.moment(NOW - timedelta(days=2), NOW, "full")
    assert ">never<" in texts.moment(None, NOW)


def test_times_are_in_the_time_zone_of_the_page() -> None:
    late = datetime(2026, 3, 12, 23, 30, tzinfo=UTC)
    assert ">00:30<" in texts.moment(late, (late + timedelta(hours=1)).astimezone(ZoneInfo("Europe/Berlin")))


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0 bytes"), (999, "999 bytes"), (1000, "1 kB"), (51_200, "51.2 kB"), (3.2e9, "3.2 GB")]
)
def test_sizes_have_three_digits(number: float, shown: str) -> None:
    assert texts.size(number) == shown


def test_a_query_string_leaves_empty_values_out() -> None:
    assert texts.query_string(a="x y", b="", c=None, d=0) == "?a=x+y&d=0"
    assert texts.query_string(a="") == ""


def test_charts_escape_labels_and_mark_gaps_and_events() -> None:
    times = [NOW + timedelta(minutes=minute) for minute in range(4)]
    drawn = charts.draw_lines(
        times,
        [charts.ChartLine("<b>", [1, None, 3, 4])],
        label='"lag"',
        marks=[charts.Mark(times[1], "<i>\u202e"), charts.Mark(NOW - timedelta(days=1), "too early", "setting")],
    )
    assert "<b>" not in drawn
    assert "<i>" not in drawn
    assert "\u202e" not in drawn
    assert drawn.count('class="mark mark-restart"') == 2  # in the chart and in the legend
    path, _ = [part.partition('"')[0] for part in drawn.split('class="line line-0" d="')[1:]]
    assert path.count("M") == 2
    assert "style=" not in drawn


def test_a_chart_has_a_description_and_a_table_of_its_numbers() -> None:
    times = [NOW + timedelta(minutes=minute) for minute in range(48)]
    lines = [charts.ChartLine("done", [1.0, 3.0] * 24), charts.ChartLine("failed", [None] * 48)]
    tree = LexborHTMLParser(charts.draw_columns(times, lines, label="x"))
    assert [node.text() for node in tree.css("svg.plot > title")] == ["x"]
    assert "at most 3 at 12:01, last 3" in tree.css("desc")[0].text()
    assert [node.text() for node in tree.css("tbody tr:first-child > *")] == ["2026-03-12 12:00", "2", "-"]
    assert len(tree.css("tbody tr")) == 24


def test_marks_that_are_too_close_share_a_place() -> None:
    times = [NOW + timedelta(minutes=minute) for minute in range(60)]
    marks = [charts.Mark(NOW + timedelta(minutes=5, seconds=second), str(second)) for second in range(9)]
    marks += [charts.Mark(NOW + timedelta(minutes=50), "later"), charts.Mark(NOW + timedelta(hours=2), "too late")]
    tree = LexborHTMLParser(charts.draw_lines(times, [charts.ChartLine("lag", [1.0] * 60)], label="lag", marks=marks))
    titles = [node.text() for node in tree.css(".plot .mark title")]
    assert len(titles) == 2
    assert titles[0].splitlines()[-1] == "and 4 more"


def test_columns_are_drawn_upon_each_other() -> None:
    times = [NOW, NOW + timedelta(minutes=1)]
    drawn = charts.draw_columns(
        times, [charts.ChartLine("a", [15.0, 0.0]), charts.ChartLine("b", [15.0, 30.0])], label="x"
    )
    first, second = [node.attributes["d"] or "" for node in LexborHTMLParser(drawn).css(".plot .column")]
    corners = [re.findall(r"M[\d.]+ ([\d.]+)h[\d.]+v-([\d.]+)", path) for path in (first, second)]
    ((low, height),), ((on_top, same), (other_low, twice)) = [
        [tuple(map(float, corner)) for corner in one] for one in corners
    ]
    assert (on_top, same, other_low, twice) == (low - height, height, low, 2 * height)


def test_charts_of_nothing_are_no_error() -> None:
    assert "<svg" in charts.draw_lines([], [], label="empty")
    assert "<svg" in charts.draw_columns([], [], label="empty")
    assert charts.draw_bars([], label="empty") == '<ul class="bars" aria-label="empty"></ul>'
    assert "<svg" not in charts.draw_sparkline([1, None], label="one point")


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (0.25, "0.25"), (1500, "1,500"), (12_000, "12 k"), (2_400_000, "2.4 M")]
)
def test_numbers_of_charts_are_short(value: float, shown: str) -> None:
    assert charts.format_number(value) == shown
