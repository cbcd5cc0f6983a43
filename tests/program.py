"""Runs the real program as users run it."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TextIO

import pytest

from headwater.core.settings import Settings
from tests.fork_server import ENVIRONMENT, Order, Program, fork_server

PROGRAM = [str(Path(sys.executable).parent / "headwater")]


def environment(**settings: object) -> dict[str, str]:
    """Return the environment of a user with these settings and no others."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    return plain | {f"HEADWATER_{name.upper()}": str(value) for name, value in settings.items()}


def program_settings(settings: Settings) -> dict[str, object]:
    """Return the settings that lead a program to the database, the data and the sites of a test."""
    return {
        "database_url": settings.database_url,
        "data_dir": settings.data_dir,
        "connect_to": ",".join(settings.connect_to),
        "allow_networks": ",".join(settings.allow_networks),
        "host_delay_ms": settings.host_delay_ms,
    }


def headwater(
    *words: str,
    cwd: Path,
    given: bytes = b"",
    timeout: float = 60,
    wrapped_by: tuple[str, ...] = (),
    started: bool = False,
    plant: str = "-",
    **settings: object,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end with this standard input.

    It is forked from the fork server, unless `started`: then it starts as users start it, because the test is about the
    start. `plant` names a plant of `tests/faults/victim.py` for a forked command.
    """
    surroundings = environment(**settings)
    if started or wrapped_by or not _can_be_forked(surroundings):
        command = [*wrapped_by, *PROGRAM, *words]
        done = subprocess.run(command, input=given, capture_output=True, timeout=timeout, env=surroundings, cwd=cwd)
    else:
        done = fork_server().run(Order(("-", plant, *words), str(cwd), surroundings), given, timeout)
    return subprocess.CompletedProcess(words, done.returncode, done.stdout.decode(), done.stderr.decode())


def _can_be_forked(surroundings: Mapping[str, str]) -> bool:
    """Check that no variable differs that Python reads at its start. A forked program has started already."""
    read_at_start = ("PYTHON", "LC_", "LANG", "LD_")
    given, known = ({*words.items()} for words in (surroundings, ENVIRONMENT))
    return not any(name.startswith(read_at_start) and name != "PYTHONPATH" for name, _ in given ^ known)


def path_without(*programs: str, folder: Path) -> str:
    """Return a PATH without these programs. The folder gets links to all others."""
    places = []
    for number, place in enumerate(map(Path, os.environ["PATH"].split(os.pathsep))):
        if any((place / program).exists() for program in programs):
            links = folder / f"bin{number}"
            links.mkdir()
            for path in place.iterdir():
                if path.name not in programs:
                    (links / path.name).symlink_to(path)
            place = links
        places.append(str(place))
    return os.pathsep.join(places)


def with_a_mount(script: str) -> tuple[str, ...]:
    """Return the words that run a command in a mount namespace of its own, after the script."""
    words = ("unshare", "--mount", "sh", "-c", script, "-")
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("may not mount anything here")
    return words


def start(*words: str, cwd: Path, **settings: object) -> "subprocess.Popen[str]":
    """Start a command that keeps running, as users do."""
    return subprocess.Popen(
        [*PROGRAM, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**settings),
        cwd=cwd,
        start_new_session=True,
    )


class Forked:
    """A forked command that keeps running, with the part of Popen that tests need.

    A context manager, which kills the command at the end.
    """

    def __init__(self, *words: str, cwd: Path, env: Mapping[str, str], module: str | None = None) -> None:
        """Start the command, or the `main` of another module."""
        (stdin, to_stdin), (from_stdout, stdout), (from_stderr, stderr) = (os.pipe() for _ in range(3))
        self._program = fork(*words, cwd=cwd, env=env, streams=(stdin, stdout, stderr), module=module)
        for stream in (stdin, stdout, stderr):
            os.close(stream)
        self.pid = self._program.pid
        self.stdin, self.stdout, self.stderr = os.fdopen(to_stdin, "w"), os.fdopen(from_stdout), os.fdopen(from_stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.send_signal(signal.SIGKILL)
        self.communicate()

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._program.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal if it still runs."""
        self._program.send_signal(number)

    def wait(self, timeout: float = 20) -> int:
        """Wait until it ends."""
        code = self._program.wait_here(timeout)
        assert code is not None, f"it did not end in {timeout} s"
        return code

    def communicate(self, timeout: float = 20) -> tuple[str, str]:
        """Close its standard input, read the rest of its output and that of its children, and wait until it ends."""
        self.stdin.close()
        with ThreadPoolExecutor(2) as threads:
            said, errors = (threads.submit(_rest, stream) for stream in (self.stdout, self.stderr))
            try:
                self.wait(timeout)
            except AssertionError:
                self.send_signal(signal.SIGKILL)
                raise
            return said.result(), errors.result()


def _rest(stream: TextIO) -> str:
    """Read the rest of a stream and close it."""
    if stream.closed:
        return ""
    with stream:
        return stream.read()


def forked(*words: str, cwd: Path, **settings: object) -> Forked:
    """Fork a command that keeps running, with these settings."""
    return Forked(*words, cwd=cwd, env=environment(**settings))


def fork(
    *words: str, cwd: Path, env: Mapping[str, str], streams: tuple[int, int, int], module: str | None = None
) -> Program:
    """Fork a command, or the `main` of a module, with these standard streams."""
    assert _can_be_forked(env)
    order = Order(words, str(cwd), env, module=module) if module else Order(("-", "-", *words), str(cwd), env)
    return fork_server().start(order, streams)


def wait_until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Wait until a condition returns something true, and return that."""
    give_up = time.monotonic() + seconds
    while (now := time.monotonic()) < give_up:
        if found := condition():
            return found
        took = time.monotonic() - now
        time.sleep(min(max(0.002, 3 * took), 0.1))  # a slow check is repeated less often
    raise AssertionError(f"the condition did not hold within {seconds} s")


def address_of(process: "subprocess.Popen[str] | Forked") -> str:
    """Read the address of a started program from its first line."""
    assert process.stdout
    line = process.stdout.readline()
    match = re.search(r"http://\S+?:\d+", line)
    assert match, f"the program said {line!r}"
    return match.group()
