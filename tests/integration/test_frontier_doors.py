"""`headwater frontier` as users run it (issue 4; spec 2.2, 2.3, 3.6, 8.2)."""

import asyncio
import json
import os
import pty
import shlex
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db.context import open_database_context
from tests.harness import AppHarness, open_harness
from tests.program import PROGRAM, Forked, environment, fork, headwater, wait_until
from tests.server import Answer, Site, page

Program = Callable[..., "subprocess.CompletedProcess[str]"]

# Each that cannot be used, with a word of why.
REFUSED = {
    "javascript:alert(1)": "http or https",
    "data:text/html,x": "http or https",
    "ftp://a.test/x": "http or https",
    "http://": "no host",
    "no-scheme.test/x": "no scheme",
    "http://a..test/": "between its dots",
    "http://[::1/": "host or the port",
    "http://a.test:99999/": "host or the port",
    "http://user:hunter2@a.test/": "user name or password",
    r"https:\\user:hunter2@a.test\x": "user name or password",
    "user:hunter2@a.test": "http or https",
    "http://a.test/" + "x" * 70_000: "longer than 8192",
    "http://a.test/\0": "NUL",
}


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> dict[str, str]:
    """The environment of a user of this test's database."""
    return environment(database_url=database_url, data_dir=tmp_path / "data")


@pytest.fixture
def frontier(database_url: str, tmp_path: Path) -> Program:
    """Runs `headwater frontier ...` with something on standard input."""

    def run(*words: str, given: str | bytes = b"") -> "subprocess.CompletedProcess[str]":
        piped = given.encode() if isinstance(given, str) else given
        return headwater(
            "frontier", *words, cwd=tmp_path, given=piped, database_url=database_url, data_dir=tmp_path / "data"
        )

    return run


@pytest.fixture
async def harness(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    """A frontier of six URLs: one stored, one linked, three dead, one that waits for a closed host."""
    names = ("missing", "gone", "fine", "forbidden")
    site.answers["http://a.test/gone"] = Answer(status=410)
    site.answers["http://a.test/forbidden"] = Answer(status=403)
    for host in ("a", "b"):
        site.answers[f"http://{host}.test/fine"] = Answer(page("fine"))
    async with open_harness(make_settings(connect_to=site.connect_to)) as opened:
        await opened.operations.frontier.close_host("closed.test")
        await opened.operations.frontier.submit([*(f"http://a.test/{name}" for name in names), "http://b.test/fine"])
        await opened.work()
        await opened.operations.frontier.submit(["http://closed.test/" + "long" * 40])
        yield opened


def assert_one_line(answer: "subprocess.CompletedProcess[str]", *said: str) -> None:
    assert answer.returncode == 2, answer.stderr
    assert (answer.stdout, len(answer.stderr.splitlines())) == ("", 1), answer.stderr
    for words in said:
        assert words in answer.stderr


def test_addresses_come_by_argument_file_and_pipe(frontier: Program, tmp_path: Path) -> None:
    """Spec 3.6: arguments, a file, standard input."""
    answer = frontier("submit", "http://a.test/1", "HTTP://A.test/1?utm_source=x", "http://a.test/2")
    assert (answer.returncode, answer.stdout) == (0, "2 new, 1 known, 0 refused.\n")
    (tmp_path / "urls.txt").write_bytes(
        b"\xef\xbb\xbfhttp://a.test/3\r\n\r\n  # a comment\n\thttp://a.test/4  \nhttp://a.test/5"
    )
    assert frontier("submit", "--file", "urls.txt").stdout == "3 new, 0 known, 0 refused.\n"
    for words in ((), ("-",), ("--file", "-")):
        assert frontier("submit", *words, given="http://a.test/1\nhttp://a.test/6\n").returncode == 0
    answer = frontier("submit", "--json", given="http://a.test/6")
    assert json.loads(answer.stdout) == {"refused": [], "new": 0, "known": 1, "has_fetcher": False}
    listed = json.loads(frontier("list", "--json").stdout)["urls"]
    assert {row["url"] for row in listed} == {f"http://a.test/{number}" for number in range(1, 7)}
    assert {(row["source"], row["origin"], row["priority"]) for row in listed} == {("manual", "manual", 5)}
    assert frontier("submit", "--priority", "9", "http://a.test/2", "http://a.test/9").returncode == 0
    urgent = [row["url"] for row in json.loads(frontier("list", "--json").stdout)["urls"] if row["priority"] == 9]
    assert urgent == ["http://a.test/2", "http://a.test/9"]


async def test_a_submit_reports_that_no_process_fetches_pages(
    frontier: Program, make_settings: Callable[..., Settings]
) -> None:
    """Spec 3.6."""
    hint = "headwater up"
    assert hint in (await asyncio.to_thread(frontier, "submit", "http://a.test/1")).stderr
    async with open_database_context(make_settings(), fetches=True):
        assert (await asyncio.to_thread(frontier, "submit", "http://a.test/1")).stderr == ""
        answer = await asyncio.to_thread(frontier, "submit", "--json", "http://a.test/1")
    assert json.loads(answer.stdout)["has_fetcher"] is True


def test_an_unusable_url_is_refused_and_the_others_are_accepted(frontier: Program) -> None:
    """Spec 2.1, 3.6: each with its line and why; a password is never repeated."""
    lines = ["http://a.test/first", *REFUSED, "http://a.test/last"]
    given = "\n".join(lines).encode() + b"\nhttp://a.test/\xff\xfe\n"
    answer = frontier("submit", "--json", given=given)
    assert answer.returncode == 0
    told = json.loads(answer.stdout)
    assert (told["new"], told["known"], len(told["refused"])) == (2, 0, len(REFUSED) + 1)
    why = {entry["line"]: entry["why"] for entry in told["refused"]}
    for line, (address, word) in enumerate(REFUSED.items(), 2):
        assert word in why[line], address[:80]
    assert "UTF-8" in why[len(lines) + 1]
    assert all(len(entry["given"]) <= 201 for entry in told["refused"])
    for_people = frontier("submit", given=given)
    assert for_people.stdout == f"0 new, 2 known, {len(REFUSED) + 1} refused.\n"
    assert "refused line 2: javascript:alert(1): The address must" in for_people.stderr
    for said in (answer.stdout, answer.stderr, for_people.stdout, for_people.stderr):
        assert "hunter2" not in said


def test_people_see_the_first_refusals_and_scripts_all(frontier: Program) -> None:
    """Spec 8.2: and the exit code says that nothing went in."""
    given = "\n".join(["javascript:x"] * 1500)
    answer = frontier("submit", given=given)
    assert (answer.returncode, answer.stdout) == (1, "0 new, 0 known, 1,500 refused.\n")
    lines = answer.stderr.splitlines()
    assert (len(lines), lines[-1]) == (21, "and 1,480 more; --json lists them all")
    answer = frontier("submit", "--json", given=given)
    assert (answer.returncode, len(json.loads(answer.stdout)["refused"])) == (1, 1500)
    assert frontier("submit", "").stderr == "refused argument 1: The address is empty.\n"


def test_a_submit_without_urls_is_a_one_line_error(frontier: Program, tmp_path: Path) -> None:
    """Spec 8.2."""
    assert_one_line(frontier("submit", given=""), "no address")
    assert_one_line(frontier("submit", given="\n# only this\n"), "no address")
    assert_one_line(frontier("submit", "--file", "missing.txt"), "missing.txt", "No such file")
    assert_one_line(frontier("submit", "--file", str(tmp_path)), "directory")
    assert_one_line(frontier("submit", "http://a.test/", "--file", "x"), "not both")
    create = "headwater source add NAME --kind manual"
    assert_one_line(frontier("submit", "http://a.test/", "--source", "nope"), "nope", "none so far", create)


def test_a_large_file_is_streamed(settings: dict[str, str], tmp_path: Path) -> None:
    """Issue 4: memory does not grow with what is given, be it many lines or a last one that does not end."""

    def peak_mb(file: Path) -> float:
        process = subprocess.Popen(
            [*PROGRAM, "frontier", "submit", "--json", "--file", file.name],
            env=settings,
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return usage.ru_maxrss / 1024

    def write(name: str, lines: int) -> Path:
        file = tmp_path / name
        long = "x" * 1000
        file.write_text("".join(f"http://h{number % 20}.test/{long}/{number}\n" for number in range(lines)))
        return file

    small, large = write("small", 2000), write("large", 30_000)
    os.truncate(large, 200_000_000)
    assert peak_mb(large) < peak_mb(small) + 10


def test_an_open_pipe_without_data_does_not_delay_a_stop(
    settings: dict[str, str], tmp_path: Path, frontier: Program
) -> None:
    """Spec 9.3: the URLs that arrived are submitted."""
    with Forked("frontier", "submit", env=settings, cwd=tmp_path) as waiting:
        waiting.stdin.write("".join(f"http://a.test/{number}\n" for number in range(1000)))
        waiting.stdin.flush()
        wait_until(lambda: json.loads(frontier("stats", "--json").stdout)["urls"]["pending"] == 1000)
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(timeout=10) == 143


async def test_a_url_given_up_after_the_last_retry_shows_how_it_failed(
    site: Site, harness: AppHarness, frontier: Program
) -> None:
    """Spec 8.2."""
    site.answers["http://ill.test/page"] = Answer(status=502)
    await harness.operations.frontier.submit(["http://ill.test/page"])
    await harness.work(until_attempts=5 + 6)  # the URL of closed.test stays queued
    (row,) = json.loads(frontier("list", "--host", "ill.test", "--json").stdout)["urls"]
    assert (row["status"], row["reason"], row["kept_failing"]) == ("dead", "max_retries", "http_5xx")
    assert " max_retries:http_5xx " in frontier("list", "--reason", "max_retries").stdout
    everything = json.loads(frontier("list", "--json").stdout)["urls"]
    assert {other["kept_failing"] for other in everything if other["id"] != row["id"]} == {None}
    assert {other["waiting_reason"] for other in everything} == {None, "host_closed"}


async def test_urls_are_listed_by_pages_with_filters(harness: AppHarness, frontier: Program) -> None:
    """Spec 8.2: the printed command for the next page works."""

    def listed(*words: str) -> list[str]:
        return [row["url"] for row in json.loads(frontier("list", "--json", *words).stdout)["urls"]]

    def shown(answer: "subprocess.CompletedProcess[str]") -> list[str]:
        return [line.strip() for line in answer.stdout.splitlines() if "http://" in line]

    assert sorted(listed("--status", "dead")) == [f"http://a.test/{name}" for name in ("forbidden", "gone", "missing")]
    assert listed("--reason", "gone") == ["http://a.test/gone"]
    assert listed("--host", "HTTP://B.test/", "--status", "fetched") == ["http://b.test/fine"]
    assert listed("--source", "manual", "--status", "pending") == ["http://closed.test/" + "long" * 40]
    assert listed("--status", "fetching") == []
    first = frontier("list", "--limit", "4", "--source", "manual")
    more = shlex.split(first.stdout.splitlines()[-1].removeprefix("More: "))
    assert more[:2] == ["headwater", "frontier"]
    second = frontier(*more[2:])
    assert (len(shown(first)), shown(first) + shown(second)) == (4, listed())
    assert "More" not in second.stdout


async def test_lists_fit_80_columns_and_say_why(harness: AppHarness, frontier: Program) -> None:
    """Spec 8.2: rows are cut to fit, addresses are not."""
    shown = frontier("list").stdout
    assert max(cell_len(line) for line in shown.splitlines() if "http://" not in line) <= 80
    assert "http://closed.test/" + "long" * 40 in shown
    assert "host_closed          when released" in shown
    shown = frontier("stats").stdout
    assert "dead                 3  " in shown
    assert "not_found 1" in shown
    assert "1 closed" in shown
    shown = frontier("hosts").stdout
    assert max(map(cell_len, shown.splitlines())) <= 80
    assert Reason.HOST_CLOSED.sentence in " ".join(shown.split())
    assert "No URL is queued for it." in shown


async def test_a_long_queue_is_counted_to_a_thousand(harness: AppHarness, frontier: Program) -> None:
    """Spec 2.5: a look at hosts costs the same at any backlog."""
    await harness.operations.frontier.submit([f"http://closed.test/{number}" for number in range(1100)])
    answer = frontier("hosts", "--state", "closed")
    (row,) = [line for line in answer.stdout.splitlines() if line.startswith("closed.test")]
    assert row.endswith(" 1,000+")
    (told,) = json.loads(frontier("hosts", "--state", "closed", "--json").stdout)["hosts"]
    assert (told["host"], told["queued"], told["next_turn_at"]) == ("closed.test", 1001, None)


async def test_an_unknown_filter_is_an_error_that_names_what_there_is(harness: AppHarness, frontier: Program) -> None:
    """Spec 8.2."""
    assert_one_line(frontier("list", "--status", "lost"), "lost", "pending, fetching, fetched, dead")
    assert_one_line(frontier("list", "--reason", "bored"), "bored", "gone, http_4xx, linked, not_found, stored")
    assert_one_line(frontier("list", "--source", "nope"), "nope", "manual")
    assert_one_line(frontier("hosts", "--state", "sad"), "sad", "closed, in_use, blocked, waiting, idle")
    assert_one_line(frontier("retry", "--all", "--yes"), "by status, reason, host or source")
    assert_one_line(frontier("retry", "--status", "dead"), "--all")
    assert_one_line(frontier("retry", "--all", "--status", "dead"), "--yes")
    assert_one_line(frontier("block", "a.test", "--for", "soon"), "soon", "2h")
    assert_one_line(frontier("block", "a.test", "--for", "99999999d"), "ten years")


def test_an_error_cannot_steer_a_terminal(frontier: Program) -> None:
    """Spec 8.2."""
    answer = frontier("list", "--source", "\x1b[2J\x1b[31mred\u202e")
    assert answer.stderr.startswith("headwater: There is no source named [2J[31mred.")


async def test_ended_urls_are_fetched_again_on_request(site: Site, harness: AppHarness, frontier: Program) -> None:
    """Spec 2.2: by URL or by filter, and no other URL changes."""
    site.answers["http://a.test/gone"] = Answer(page("back again"))
    before = site.visits("http://a.test/fine")
    answer = frontier("retry", "http://a.test/gone?utm_source=x", "http://closed.test/" + "long" * 40)
    assert (answer.returncode, answer.stdout) == (0, "2 queued to be fetched again.\n")
    answer = frontier("retry", "--all", "--status", "dead", "--host", "a.test", "--priority", "9", "--yes", "--json")
    assert json.loads(answer.stdout) == {"queued": 2, "fetching": 0}
    assert frontier("retry", "--all", "--reason", "gone", "--yes").stdout == "0 queued to be fetched again.\n"
    queued = sorted((await harness.queued()).items())
    assert [(entry.priority, url[:15]) for url, entry in queued] == [
        (9, "http://a.test/f"),
        (5, "http://a.test/g"),
        (9, "http://a.test/m"),
        (5, "http://closed.t"),
    ]
    await harness.work(until_attempts=len(await harness.attempts()) + 3)
    assert (await harness.outcomes())["http://a.test/gone"] == "stored"
    assert site.visits("http://a.test/missing") == 2
    assert site.visits("http://a.test/fine") == before


async def test_a_retry_leaves_urls_alone_that_are_being_fetched(harness: AppHarness, frontier: Program) -> None:
    """Spec 2.2, 2.4."""
    await harness.execute(
        "UPDATE frontier_queue SET lease_holder = 'x', lease_token = gen_random_uuid(), lease_until = now() + '1 hour'"
    )
    answer = frontier("retry", "http://a.test/gone", "http://closed.test/" + "long" * 40)
    assert "1 queued to be fetched again.\n1 being fetched just now" in answer.stdout
    answer = frontier("retry", "--all", "--host", "closed.test", "--yes", "--json")
    assert json.loads(answer.stdout) == {"queued": 0, "fetching": 1}
    assert "fetching" in frontier("list", "--status", "fetching").stdout


@pytest.fixture
def terminal(settings: dict[str, str], tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Runs `headwater frontier ...` as a person does who types something; answers the exit code and the screen."""

    def run(*words: str, typed: str = "") -> tuple[int, str]:
        leader, follower = pty.openpty()
        os.write(leader, typed.encode())
        env = settings | {"TERM": "xterm", "COLUMNS": "80"}
        code = fork("frontier", *words, env=env, cwd=tmp_path, streams=(follower, follower, follower)).wait_here(30)
        assert code is not None
        screen = os.read(leader, 65_536).decode()
        os.close(leader)
        os.close(follower)
        return code, screen

    return run


async def test_a_retry_by_filter_asks_for_confirmation(
    harness: AppHarness, terminal: Callable[..., tuple[int, str]]
) -> None:
    """Spec 8.2: on a terminal, with how many it would be."""
    code, screen = terminal("retry", "--all", "--status", "dead", typed="n\n")
    assert (code, "Fetch again 3 URLs with status dead?" in screen) == (1, True)
    assert (await harness.operations.frontier.get_stats()).urls["dead"] == 3
    code, screen = terminal("retry", "--all", "--status", "dead", "--yes")
    assert (code, "3 queued to be fetched again." in screen) == (0, True)


def test_a_terminal_sees_a_bar_and_nothing_is_read_from_it(terminal: Callable[..., tuple[int, str]]) -> None:
    """Spec 8.2: progress bars on what takes time."""
    _, screen = terminal("submit", "http://a.test/1")
    for shown in ("━", "100%", "1 submitted", "1 new, 0 known, 0 refused."):
        assert shown in screen
    code, screen = terminal("submit")
    assert (code, "Give addresses" in screen) == (2, True)


async def test_hosts_are_closed_released_grouped_and_shown(harness: AppHarness, frontier: Program) -> None:
    """Spec 2.3, 8.2."""
    shown = " ".join(frontier("block", "http://A.test/path").stdout.split())
    assert f"{Reason.HOST_CLOSED.sentence} Until it is released." in shown
    assert "closed" in frontier("block", "a.test", "--for", "2h").stdout
    (told,) = json.loads(frontier("hosts", "--json", "--after", "a.tesr", "--limit", "1").stdout)["hosts"]
    assert (told["host"], told["state"]) == ("a.test", "closed")
    assert told["next_turn_at"] is not None
    assert "idle" in frontier("release", "a.test").stdout
    shown = frontier("group", "pair", "a.test", "b.test").stdout
    assert shown.count("It shares the turn of group:pair.") == 2
    assert "It shares" not in frontier("ungroup", "a.test", "b.test").stdout
    assert "two pages" in frontier("slash", "a.test", "keep").stdout
    assert frontier("submit", "http://a.test/gone/").stdout == "1 new, 0 known, 0 refused.\n"
    assert "one page" in frontier("slash", "a.test", "strip").stdout
    assert frontier("slash", "a.test", "maybe").returncode == 2


async def test_all_hosts_are_released_at_once(harness: AppHarness, frontier: Program) -> None:
    """Spec 2.3, 8.2."""
    ops = harness.operations.frontier
    blocked = "blocked_reason = 'dns', not_before = now() + interval '1 hour'"
    await harness.execute(f"UPDATE host_state SET {blocked} WHERE host = 'b.test'")
    await harness.execute("UPDATE host_state SET backoff_ms = 60000 WHERE host = 'a.test'")
    assert_one_line(frontier("release"), "--all")
    assert_one_line(frontier("release", "a.test", "--all"), "--all")
    assert_one_line(frontier("release", "--all"), "--yes")
    assert (await ops.get_stats()).hosts.blocked == 1
    assert json.loads(frontier("release", "--all", "--yes", "--json").stdout) == {"released": 3}
    hosts = (await ops.get_stats()).hosts
    assert (hosts.blocked, hosts.closed) == (0, 0)
    assert (await ops.get_host("a.test")).backoff_ms == 0
    assert json.loads(frontier("release", "--all", "--yes", "--json").stdout) == {"released": 0}
    assert json.loads(frontier("release", "a.test", "--json").stdout)["host"] == "a.test"


def test_an_empty_frontier_answers_every_command(tmp_path: Path) -> None:
    """Spec 8.2: before the first source is added."""
    assert headwater("migrate", "up", cwd=tmp_path, data_dir=tmp_path / "data").returncode == 0
    for words, said in (
        (("list",), "No URLs match."),
        (("hosts",), "No hosts match."),
        (("stats",), "0 with work"),
    ):
        answer = headwater("frontier", *words, cwd=tmp_path, data_dir=tmp_path / "data")
        assert (answer.returncode, answer.stderr) == (0, "")
        assert said in answer.stdout
