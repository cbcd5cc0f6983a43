"""No destination of the output ends a command with a traceback or in silence (spec 8.2)."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.program import PROGRAM, environment, fork, forked, headwater
from tests.scratch import scratch_folder

CLOSED = 128 + signal.SIGPIPE
STARTED = ("today",)  # these start a program; the others are forked
COMMANDS = [("--help",), ("--version",), ("config",), ("config", "--json"), ("config", "--markdown"), STARTED]


@pytest.fixture(scope="module")
def cwd() -> Iterator[Path]:
    """A folder with a database, in which all commands are run."""
    with scratch_folder() as folder:
        assert headwater("migrate", "up", cwd=folder, data_dir=folder / "data").returncode == 0
        yield folder


def run(*words: str, cwd: Path, stdout: int, stderr: int | None = None) -> tuple[int | None, str]:
    """How a command ends, and what it says of that, unless that goes elsewhere too."""
    env = environment(data_dir=cwd / "data")
    if words == STARTED:
        started = subprocess.run(
            [*PROGRAM, *words], stdout=stdout, stderr=stderr or subprocess.PIPE, timeout=60, env=env, cwd=cwd
        )
        return started.returncode, (started.stderr or b"").decode()
    with tempfile.TemporaryFile() as said:
        ended = fork(*words, cwd=cwd, env=env, streams=(stdout, stdout, stderr or said.fileno()))
        code = ended.wait_here(60)
        ended.send_signal(signal.SIGKILL)
        said.seek(0)
        return code, said.read().decode()


@pytest.mark.parametrize("words", COMMANDS)
def test_a_closed_pipe_ends_a_command_silently(words: tuple[str, ...], cwd: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        assert run(*words, cwd=cwd, stdout=write_end) == (CLOSED, "")
    finally:
        os.close(write_end)


@pytest.mark.parametrize("words", COMMANDS)
def test_a_full_disk_is_reported_in_one_line(words: tuple[str, ...], cwd: Path) -> None:
    with open("/dev/full", "w") as full:
        said = "headwater: the output could not be written: No space left on device.\n"
        assert run(*words, cwd=cwd, stdout=full.fileno()) == (2, said)
        assert run(*words, cwd=cwd, stdout=full.fileno(), stderr=full.fileno())[0] == 2


def test_a_log_that_cannot_be_written_changes_nothing(cwd: Path) -> None:
    with open("/dev/full", "w") as full, open(os.devnull, "w") as nowhere:
        assert run("today", cwd=cwd, stdout=nowhere.fileno(), stderr=full.fileno())[0] == 0
        assert run("today", "yesterday", cwd=cwd, stdout=nowhere.fileno(), stderr=full.fileno())[0] == 2


def test_a_demo_with_a_closed_pipe_leaves_nothing_behind(tmp_path: Path) -> None:
    """Spec 9.3."""
    with forked("demo", "--data", str(tmp_path / "data"), cwd=tmp_path) as process:
        assert process.stdout.readline() == "feeds: 8 of 8\n"
        process.stdout.close()
        assert process.wait(timeout=60) == CLOSED
        assert process.stderr.read() == ""
        assert not list(tmp_path.glob("**/postmaster.pid"))


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_unencodable_characters_are_replaced_and_json_stays_exact(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    shown = headwater("config", cwd=tmp_path, contact_url="http://川.test/")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "http://?.test/" in shown.stdout
    told = headwater("config", "--json", cwd=tmp_path, contact_url="http://川.test/")
    assert "http://川.test/" in [setting["value"] for setting in json.loads(told.stdout)]
    refused = headwater("today", "昨日", cwd=tmp_path)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
