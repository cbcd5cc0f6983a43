"""The processes of a browser."""

import contextlib
import os
from pathlib import Path

import psutil


def find_browser_processes(folder: Path) -> list[psutil.Process]:
    """Return Chromium and its children. The first keeps its profile in this folder and starts a session."""
    found = [(process, _command(process), _session(process)) for process in _running()]
    sessions = {session for _, command, session in found if session and f"--user-data-dir={folder}/" in command}
    return [process for process, _, session in found if session in sessions]


def find_drivers(folder: Path) -> list[psutil.Process]:
    """Return Playwright's drivers, which start Chromium and speak to it."""
    drivers = (process for process in _running() if "/node" in _command(process))
    return [process for process in drivers if read_environment(process).get("TMPDIR", "").startswith(str(folder))]


def find_process(part: str, folder: Path) -> psutil.Process:
    """Return Chromium's main process, its driver, or the process that sends the requests of its pages."""
    if part == "driver":
        return find_drivers(folder)[0]
    browser = find_browser_processes(folder)
    if part == "network":
        return next(process for process in browser if "network.mojom.NetworkService" in _command(process))
    return next(process for process in browser if _session(process) == process.pid)


def kill_renderers(folder: Path) -> None:
    for process in find_browser_processes(folder):
        if "--type=renderer" in _command(process):
            process.kill()


def is_running(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def read_environment(process: psutil.Process) -> dict[str, str]:
    with contextlib.suppress(psutil.Error):
        return process.environ()
    return {}


def _running() -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if is_running(process)]


def _command(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _session(process: psutil.Process) -> int | None:
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(process.pid)
    return None
