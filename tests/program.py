"""The real program, run as users run it."""

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
    """The environment of a user, with these settings and no others."""
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
    **settings: object,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with something on standard input.

    It is forked from a process that has imported what it needs, unless it is to be `started` as users do, because what
    it finds when it starts is part of what is shown.
    """
    surroundings = environment(**settings)
    if started or wrapped_by or not _can_be_forked(surroundings):
        command = [*wrapped_by, *PROGRAM, *words]
        done = subprocess.run(command, input=given, capture_output=True, timeout=timeout, env=surroundings, cwd=cwd)
    else:
        done = fork_server().run(Order(("-", "-", *words), str(cwd), surroundings), given, timeout)
    return subprocess.CompletedProcess(words, done.returncode, done.stdout.decode(), done.stderr.decode())


def _can_be_forked(surroundings: Mapping[str, str]) -> bool:
    """Tell whether a program that is forked, and so has been started already, finds these surroundings."""
    read_at_start = ("PYTHON", "LC_", "LANG", "LD_")
    given, known = ({*words.items()} for words in (surroundings, ENVIRONMENT))
    return not any(name.startswith(read_at_start) and name != "PYTHONPATH" for name, _ in given ^ known)


def path_without(*programs: str, folder: Path) -> str:
    """A PATH on which everything is found but these programs; what takes their places is kept in the folder."""
    places = []
    for number, place in enumerate(map(Path, os.environ["PATH"].split(os.pathsep))):
        if any((place / program).exists() for program in programs):
            stead = folder / f"bin{number}"
            stead.mkdir()
            for path in place.iterdir():
                if path.name not in programs:
                    (stead / path.name).symlink_to(path)
            place = stead
        places.append(str(place))
    return os.pathsep.join(places)


def with_a_mount(script: str) -> tuple[str, ...]:
    """The words that put a command where it alone sees what the script mounts."""
    words = ("unshare", "--mount", "sh", "-c", script, "-")
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("may not mount anything here")
    return words


def start(*words: str, cwd: Path, **settings: object) -> "subprocess.Popen[str]":
    """Start a command that stays, as users do."""
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
    """A command that stays, forked as `headwater` does it: as much of a Popen as tests need.

    A context manager that ends it at once, if it still runs.
    """

    def __init__(self, *words: str, cwd: Path, env: Mapping[str, str], module: str | None = None) -> None:
        """Start it, or the `main` of another module than the program's."""
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
        """How it ended, negative for a signal; None while it runs."""
        return self._program.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Signal it, if it still runs."""
        self._program.send_signal(number)

    def wait(self, timeout: float = 20) -> int:
        """Wait for its end."""
        code = self._program.wait_here(timeout)
        assert code is not None, f"it did not end in {timeout} s"
        return code

    def communicate(self, timeout: float = 20) -> tuple[str, str]:
        """Close its standard input, read what else it and all that it started say, and wait for its end."""
        self.stdin.close()
        with ThreadPoolExecutor(2) as aside:
            said, errors = (aside.submit(_rest, stream) for stream in (self.stdout, self.stderr))
            try:
                self.wait(timeout)
            except AssertionError:
                self.send_signal(signal.SIGKILL)
                raise
            return said.result(), errors.result()


def _rest(stream: TextIO) -> str:
    """What a stream still has to say, which is closed then."""
    if stream.closed:
        return ""
    with stream:
        return stream.read()


def forked(*words: str, cwd: Path, **settings: object) -> Forked:
    """Fork a command that stays, with these settings."""
    return Forked(*words, cwd=cwd, env=environment(**settings))


def fork(
    *words: str, cwd: Path, env: Mapping[str, str], streams: tuple[int, int, int], module: str | None = None
) -> Program:
    """Fork a command, or the `main` of a module, with these as its standard streams."""
    assert _can_be_forked(env)
    order = Order(words, str(cwd), env, module=module) if module else Order(("-", "-", *words), str(cwd), env)
    return fork_server().start(order, streams)


def wait_until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Look until something holds, and return it."""
    give_up = time.monotonic() + seconds
    while (now := time.monotonic()) < give_up:
        if found := condition():
            return found
        took = time.monotonic() - now
        time.sleep(min(max(0.002, 3 * took), 0.1))  # what takes long to see is not looked at all the time
    raise AssertionError(f"it did not come true in {seconds} s")


def address_of(process: "subprocess.Popen[str] | Forked") -> str:
    """Read from its first line where a started program listens."""
    assert process.stdout
    line = process.stdout.readline()
    match = re.search(r"http://\S+?:\d+", line)
    assert match, f"the program said {line!r}"
    return match.group()
