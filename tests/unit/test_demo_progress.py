"""The demo reports its progress and what it waits for (spec 8.2, 9.2)."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.cli import demo
from headwater.demo.progress import describe_wait, repeat_progress

Report = tuple[str, int, int, str]


async def collect(count: int, error: OSError | None = None) -> list[Report]:
    """Report one step, and collect reports until the count. The receiver may fail at the last one."""
    reports: list[Report] = []
    enough = asyncio.Event()

    def progress(*report: Any) -> None:
        reports.append(report)
        if len(reports) == count:
            enough.set()
            if error:
                raise error

    async with repeat_progress(progress, seconds=0.001) as send:
        send("feeds", 0, 2, "a.test")
        await asyncio.wait_for(enough.wait(), 10)
        send("feeds", 1, 2, "b.test")
    return reports


async def test_the_report_of_a_hanging_stage_is_repeated() -> None:
    reports = await collect(3)
    assert reports[:3] == [("feeds", 0, 2, "a.test")] * 3
    assert reports[-1] == ("feeds", 1, 2, "b.test")


async def test_an_error_of_the_receiver_stops_the_demo() -> None:
    with pytest.raises(OSError, match="receiver failed"):
        await collect(2, OSError("receiver failed"))


NOTHING: dict[str, Any] = {"feeds": 0, "unsettled": [], "unfound": [], "sources": [], "handoffs": 0}


def url(host: str, status: str = "pending", waiting_reason: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(host=host, status=status, waiting_reason=waiting_reason)


@pytest.mark.parametrize(
    ("unsettled", "hosts"),
    [
        ([], ""),
        ([url("a", "fetching")], "1 host"),
        ([url("a", "fetching"), url("b", "fetching")], "2 hosts"),
        ([url("a", waiting_reason="timeout"), url("b")], "2 hosts"),
        ([url("a", "fetching"), url("a", waiting_reason="timeout")], "1 host"),
    ],
)
def test_the_hosts_that_the_demo_waits_for_are_counted(unsettled: list[SimpleNamespace], hosts: str) -> None:
    assert describe_wait(**NOTHING | {"unsettled": unsettled}).startswith(hosts)


@pytest.mark.parametrize(
    ("left", "names"),
    [
        ({}, []),
        ({"feeds": 1, "unsettled": [url("a")], "unfound": ["http://a.test/b"]}, ["1 feed"]),
        ({"unsettled": [url("a")], "unfound": ["http://a.test/b"], "handoffs": 1}, ["1 host"]),
        ({"unfound": ["http://a.test/b"], "handoffs": 1}, ["1 page", "a.test"]),
        ({"unfound": ["http://b.test/", "http://a.test/b"]}, ["2 pages", "a.test and b.test"]),
        ({"sources": ["GOV.UK", "federal sources"], "handoffs": 1}, ["GOV.UK and federal sources"]),
        ({"handoffs": 2}, ["2 hand-offs"]),
    ],
)
def test_the_first_thing_left_to_do_is_named(left: dict[str, Any], names: list[str]) -> None:
    """Spec 8.2: the demo runs as long as something is left to do."""
    described = describe_wait(**NOTHING | left)
    assert bool(described) is bool(left)
    assert [name for name in names if name not in described] == []


def test_a_log_has_one_line_per_stage_and_more_for_long_stages(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 0.0
    (report,) = demo._stage_lines(lambda: now)

    def at(seconds: float, *news: Any) -> None:
        nonlocal now
        now = seconds
        report(*news)

    at(0, "start", 0, 1, "the database")
    at(9, "start", 0, 1, "the database")
    at(12, "start", 0, 1, "the database")
    at(13, "start", 1, 1, "")
    at(14, "feeds", 0, 2, "a.test")
    at(15, "feeds", 2, 2, "")
    for second in range(15, 40):
        at(second, "pages", 68, 69, "1 host to be asked again")
    for second in range(40, 51):
        at(second, "pages", 69, 69, "1 hand-off to be done")
    at(51, "pages", 69, 69, "")
    at(52, "pages", 69, 69, "")
    assert capsys.readouterr().out.splitlines() == [
        "start: 0 of 1 after 12 s, waiting for the database",
        "feeds: 2 of 2",
        "pages: 68 of 69 after 10 s, waiting for 1 host to be asked again",
        "pages: 68 of 69 after 20 s, waiting for 1 host to be asked again",
        "pages: 69 of 69 after 30 s, waiting for 1 hand-off to be done",
        "pages: 69 of 69",
    ]
