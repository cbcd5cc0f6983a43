"""The processes of a browser, as the machine tells of them."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process of this machine."""

    pid: int
    session: int
    words: bytes
    environment: bytes


def processes() -> Iterator[Process]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, *_, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if state != "Z":
                words, environment = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
                yield Process(int(folder.name), int(session), words, environment)
        except OSError:
            continue  # it is gone meanwhile


def browsers(folder: Path) -> list[Process]:
    """Chromium and its children: the first of them keeps its profile in this folder, and begins a session."""
    found = [*processes()]
    mark = f"--user-data-dir={folder}/".encode()
    sessions = {process.session for process in found if mark in process.words}
    return [process for process in found if process.session in sessions]


def is_alive(process: Process) -> bool:
    return any(process == other for other in processes())


def main_process(folder: Path) -> int:
    """The Chromium that all others come from."""
    (session,) = {process.session for process in browsers(folder)}
    return session


def drivers(folder: Path) -> list[Process]:
    """What Playwright speaks to Chromium with."""
    mark = f"TMPDIR={folder}".encode()
    return [process for process in processes() if mark in process.environment and b"/node" in process.words]


def kill_renderers(folder: Path) -> None:
    for process in browsers(folder):
        if b"--type=renderer" in process.words:
            os.kill(process.pid, signal.SIGKILL)


def process_of(part: str, folder: Path) -> int:
    """Chromium itself, its driver, or the process through which its pages reach the network."""
    if part == "driver":
        return drivers(folder)[0].pid
    carriers = [process.pid for process in browsers(folder) if b"network.mojom.NetworkService" in process.words]
    return carriers[0] if part == "network" else main_process(folder)
