"""Printed text can be read and has no other effect, whatever title a page has (spec 8.2)."""

import json
from dataclasses import fields, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from headwater.app.doctor_finding import Finding, State
from headwater.canonical.operations import CanonicalTotals
from headwater.cli import demo, search, show, show_days, show_sources
from headwater.cli.output import print_json
from headwater.core.poll import PollResult
from headwater.core.reasons import Reason
from headwater.core.source import Method, Source
from headwater.core.url_input import redact
from headwater.db.budgets import HostBudget, SourceBudget
from headwater.db.sources import PollState
from headwater.demo.outcome import Check, DemoOutcome, OutcomeGroup
from headwater.demo.sites import HOSTILE_TITLE
from headwater.discovery.source_operations import describe_added
from headwater.documents.days import DayItem, DayView
from headwater.search.operations import Hit, Hits, TextPart
from headwater.sources.health import ReadProblem, SourceDetails, SourceHealth, SourceMethod

# The parts of markup, emoji codes, escapes and direction marks, and any other character.
HOSTILE_TEXT = st.text(st.sampled_from("[]/\\:bold x\x1b\x9b\x07\r\n\t\u202e\u2066⟦⟧\ufeff…") | st.characters())


def assert_harmless(printed: str) -> None:
    assert [mark for mark in printed if not (mark.isprintable() or mark == "\n")] == []


@given(HOSTILE_TEXT)
def test_markup_in_a_text_from_outside_has_no_effect(text: str) -> None:
    assert_harmless(show.visible(text))
    assert "\n" not in show.visible(text)
    assert Text.from_markup(f"[bold]{show.plain(text)}[/] end", emoji=False).plain == f"{show.visible(text)} end"


@given(HOSTILE_TEXT)
def test_matches_are_highlighted_in_any_text(text: str) -> None:
    shown = search._highlight_matches([TextPart("found", is_match=True), TextPart(text, is_match=False)]).plain
    assert shown.startswith("found")
    assert_harmless(shown)


@given(HOSTILE_TEXT)
def test_json_has_the_text_and_no_control_characters(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr("typer.echo", printed.append)
        try:
            text.encode()
        except UnicodeEncodeError:
            return
        print_json({"title": text})
    assert_harmless(printed[0])
    assert json.loads(printed[0]) == {"title": text}


def make_item(bucket: Literal["NEW", "LATEST"], title: str = HOSTILE_TITLE) -> DayItem:
    url = "http://board.demo.test/" + "x" * 200
    return DayItem("board.demo.test", bucket, None, title, url, None, False, None, {}, None)


def test_every_view_of_a_hostile_title_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    source = Source(1, "board", "feed", {}, True, datetime(2026, 3, 3))
    show_days.print_day(DayView(date(2026, 3, 3), "UTC", [make_item("NEW")], None, [], []))
    facts = (HOSTILE_TITLE, None, None, None, datetime(2026, 3, 3), 1.0)
    parts = [TextPart(HOSTILE_TITLE, is_match=False)]
    hit = Hit(1, "http://board.demo.test/", "board.demo.test", *facts, parts, parts)
    search.print_hits(HOSTILE_TITLE, Hits([hit], 1, has_more=False, next=HOSTILE_TITLE, notes=[]))
    search.print_hits(HOSTILE_TITLE, Hits([], 0, has_more=False, next=None, notes=[HOSTILE_TITLE]))
    polled = PollResult(source, Reason.POLLED, title=HOSTILE_TITLE, refused={HOSTILE_TITLE: HOSTILE_TITLE})
    show_sources.added(describe_added(polled, []))
    show.findings({"disk": Finding(State.FAILED, HOSTILE_TITLE[:40], HOSTILE_TITLE[:40], (HOSTILE_TITLE[:40],))})
    printed = capsys.readouterr().out
    assert_harmless(printed)
    assert printed.count("[bold red]Sale[/bold red] [31mtoday[0m :bomb: [/] \\[link]") == 9


def test_the_words_around_a_match_stay_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """Spec 11.10."""
    parts = [
        TextPart("before the ", is_match=False),
        TextPart("floods", is_match=True),
        TextPart(" and", is_match=False),
    ]
    hit = Hit(1, "http://a.test/", "a", "A", None, None, None, datetime(2026, 3, 3), 1.0, parts, parts)
    search.print_hits("floods", Hits([hit], 1, has_more=False, next=None, notes=[]))
    assert capsys.readouterr().out.count("before the floods and") == 2


def test_a_day_marks_the_items_that_only_a_sighting_dates(capsys: pytest.CaptureFixture[str]) -> None:
    """Spec 11.1."""
    stated = make_item("NEW", "stated")
    seen = replace(stated, title="seen", published_is_sighting=True)
    show_days.print_day(DayView(date(2026, 3, 3), "UTC", [stated, seen], None, [], []))
    lines = capsys.readouterr().out.splitlines()
    titles = [line.partition("-  ")[2].strip() for line in lines if "NEW  " in line]
    assert titles == ["stated", "seen (first seen)"]


@pytest.mark.parametrize(("many", "told"), [(1, "1 ok, 1 warning"), (2, "1 ok, 2 warnings")])
def test_the_findings_of_the_doctor_are_counted(many: int, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Spec 8.2."""
    warnings = {f"disk {number}": Finding(State.WARNING, "small", "Buy one.") for number in range(many)}
    show.findings({"dns": Finding(State.OK, "answers")} | warnings)
    assert capsys.readouterr().out.splitlines()[-1] == told


def test_the_first_problems_of_a_method_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Spec 3.3."""
    now = datetime(2026, 3, 3)
    polls: dict[str, Any] = dict.fromkeys(field.name for field in fields(PollState)) | {"consecutive_errors": 0}
    method = SourceMethod(
        **polls,
        method=Method.SITEMAP,
        next_poll_why=None,
        last_new_at=None,
        last_item_count=0,
        backfill_since=None,
        health=SourceHealth.ON_TIME,
        why="Polled.",
        older=None,
        problems=[ReadProblem(f"http://a.test/{number}.xml", HOSTILE_TITLE) for number in range(7)],
        flaws=[],
    )
    show_sources.details(
        SourceDetails(
            **polls,
            id=1,
            name="a",
            kind="site",
            settings={},
            enabled=True,
            created_at=now,
            usual_gap_seconds=None,
            items=0,
            documents=0,
            category="",
            why="Polled.",
            health=SourceHealth.ON_TIME,
            methods=[method],
            defaults={},
            urls={},
            last_items=[],
        )
    )
    printed = capsys.readouterr().out
    assert_harmless(printed)
    assert (printed.count("http://a.test/"), " 2 more" in printed, "--json" in printed) == (5, True, True)
    assert printed.count("[bold red]Sale[/bold red]") == 5


def test_budgets_are_shown_by_host(capsys: pytest.CaptureFixture[str]) -> None:
    """Spec 1.4."""
    show_sources.budgets(None)
    assert "set HEADWATER_API_DATA_GOV_KEY" in capsys.readouterr().out
    show_sources.budgets([])
    assert len(capsys.readouterr().out.splitlines()) == 1
    bills = SourceBudget("bills", ["bills"], 1750, 1750, 0, datetime(2026, 3, 3, 14, 5, 10, tzinfo=UTC))
    reserve = SourceBudget("reserve", [], 1750, 2, 1748, None)
    show_sources.budgets([HostBudget("api.test", 5000, None, None, [bills, reserve])])
    head, _, first, second = capsys.readouterr().out.splitlines()
    assert head.startswith("api.test  5,000 ")
    assert first.split() == ["bills", "1,750", "1,750", "0", "14:05:10"]
    assert second.split() == ["reserve", "1,750", "2", "1,748", "now"]


def test_the_reserve_names_the_sources_that_draw_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Spec 1.4: none of them has a line of its own."""
    names = [f"court_rulings_of_county_{number}" for number in range(8)]
    drawn_by = {"bills": ["bills"], "reserve": names}
    sources = [SourceBudget(source, drawn, 100, 2, 98, None) for source, drawn in drawn_by.items()]
    show_sources.budgets([HostBudget("api.test", 1000, None, None, sources)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["api.test", "source", "bills", "reserve"]
    assert ", ".join(names) in " ".join(line.strip() for line in lines[4:])
    assert all(len(line) <= 80 for line in lines)


def test_the_demo_fits_80_columns_and_names_its_faults(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = DemoOutcome(
        day=date(2026, 3, 3),
        documents={"board.demo.test": 1},
        outcomes=[
            OutcomeGroup("stored", 1, waits=False, example="http://board.demo.test/stored"),
            OutcomeGroup("max_retries", 2, waits=False, example="http://board.demo.test/" + "x" * 200),
            OutcomeGroup("robots_unreachable", 3, waits=True, example="http://clinic.demo.test/" + "a" * 56),
            OutcomeGroup("pending", 1, waits=True, example="http://clinic.demo.test/b"),
        ],
        items=[make_item("NEW"), make_item("LATEST", "川" * 100)],
        articles=CanonicalTotals(
            new=7, skipped=3, failed={"FAIL_HTTP": 1, "FAIL_BAD_HTML": 1, "FAIL_TIMEOUT": 1}, deferred=1
        ),
        seconds={"pages": 1.0},
        checks=[
            Check("all is well " * 8, "yes, 12,345 times"),
            Check("the sky is up", "no", wrong=(HOSTILE_TITLE, "down", *"a" * 9)),
        ],
    )
    demo.show_outcome(outcome)
    printed = capsys.readouterr().out
    assert_harmless(printed)
    assert max(cell_len(line) for line in printed.splitlines() if "://" not in line) <= 80
    assert printed.count("…") == 2
    assert "http://board.demo.test/stored" not in printed
    assert "7 links of feeds: 3 kept, 1 FAIL_BAD_HTML, 1 FAIL_HTTP, 1 FAIL_TIMEOUT, 1\n  deferred\n" in printed
    for said in (
        f"2  {Reason.MAX_RETRIES.sentence[:20]}",
        f"3  {Reason.ROBOTS_UNREACHABLE.sentence[:20]}",
        " http://clinic.demo.test/" + "a" * 56 + "\n",
        " http://board.demo.test/" + "x" * 200 + "\n",
        "all is well all is well\n       all is well all is well (yes, 12,345 times)\n",
        "FAIL the sky is up",
        " 1 more",
    ):
        assert said in printed


def test_the_commands_that_the_demo_shows_can_be_pasted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 8.2: also that which takes the backfill up again."""
    program = "/opt/some where/headwater"
    monkeypatch.setattr("sys.argv", [program])
    monkeypatch.setattr("os.access", lambda *_: True)
    demo.show_addresses(
        "http://127.0.0.1:1/in", "http://127.0.0.1:1", "http://127.0.0.1:2", ["a.demo.test"], Path("/data")
    )
    printed = capsys.readouterr().out
    assert "`" not in printed
    assert [line for line in printed.splitlines() if line.startswith(f"  '{program}'")] == [
        f"  '{program}' {words}" for words in ("today", "source budgets", "source enable bills")
    ]


def test_addresses_and_names_of_hosts_stay_whole_in_narrow_lines() -> None:
    """Spec 8.2: they can be copied."""
    host, url = "a-long-name-of-a-council.of-a-town.test", f"http://news.test/{'a-long-path/' * 40}"
    lines = show.break_lines(f"Asked {host}, then {url} and 長い題名長い題名長い題名長い題名", 20)
    assert f"{host}," in lines
    assert url in lines
    assert max(cell_len(line) for line in lines if line not in (f"{host},", url)) <= 20


@pytest.mark.parametrize(
    ("text", "is_whole"),
    [
        (f"http://news.test/{'a/' * 200}", True),
        (f"http://news.test/{'a/' * 5000}", False),
        (f"http://news.test/ {'a/' * 200}", False),
        ("nonsense" * 40, False),
    ],
)
def test_a_message_cuts_no_address(text: str, is_whole: bool) -> None:
    assert (redact(text) == text) == is_whole
