"""What `headwater doctor` finds, and the rule for all its checks: one that fails or hangs spoils no other."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from headwater.core.errors import HeadwaterError
from headwater.db.pool import is_down, is_refusal

T = TypeVar("T")


class State(StrEnum):
    """How something is."""

    OK = "ok"
    WARNING = "warning"  # it works, or may work; somebody should look
    FAILED = "failed"  # it has to be mended
    NOT_CHECKED = "not checked"  # something else comes first
    NOT_CONFIGURED = "not configured"  # it is not there, and need not be


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, in one line, and what to do about it; `lines` are a log's last ones, or each thing wrong."""

    state: State
    found: str
    mend: str | None = None
    lines: tuple[str, ...] = ()


def ok(found: str) -> Finding:
    """Find it in order."""
    return Finding(State.OK, found)


def warning(found: str, mend: str) -> Finding:
    """Find something to look at."""
    return Finding(State.WARNING, found, mend)


def failed(found: str, mend: str) -> Finding:
    """Find something to mend."""
    return Finding(State.FAILED, found, mend)


def not_configured(found: str, mend: str) -> Finding:
    """Find nothing, where nothing need be."""
    return Finding(State.NOT_CONFIGURED, found, mend)


def not_checked(why: str, first: str) -> Finding:
    """Find out nothing, because something else has to be mended first."""
    return Finding(State.NOT_CHECKED, why, f"Mend {first} first.")


async def isolated(look: Awaitable[Finding], seconds: float) -> Finding:
    """Return what a check finds; whatever it raises, and that it takes too long, is a finding as well."""
    try:
        async with asyncio.timeout(seconds):
            return await look
    except Exception as error:  # noqa: BLE001 (the other checks go on)
        return failure(error, seconds)


def failure(error: Exception, seconds: float) -> Finding:
    """Tell what an error means to an operator."""
    if isinstance(error, HeadwaterError):
        return failed(*_split(str(error)))
    if isinstance(error, TimeoutError):
        return failed(f"no answer within {seconds:g} seconds", "Find out what it waits for, and try again.")
    if isinstance(error, OSError):
        culprit = f"{error.filename}: " if error.filename else ""
        return failed(f"{culprit}{error.strerror or error}", "Let this user reach it, or run as its owner.")
    what = (str(error).splitlines() or [""])[0]
    if is_refusal(error) or is_down(error):
        return failed(f"the database says: {what}", "Check the rights of its role, and the server's log.")
    return failed(f"the check itself failed: {type(error).__name__}: {what}", "Report it as an error of the program.")


def _split(message: str) -> tuple[str, str]:
    """Part an error's message: our errors say first what is wrong and last, after a stop, what to do."""
    at = max(message.rfind(". "), message.rfind("; "))
    if at < 0:
        return message.rstrip("."), "See docs/operations.md."
    mend = message[at + 2 :]
    return message[:at], mend[0].upper() + mend[1:]


class LooseThreads(ThreadPoolExecutor):
    """Threads that nobody waits for: one that hangs in the operating system does not keep the program from ending."""

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        """Run a function in a thread of its own."""
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = function(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 (it is raised where the result is awaited)
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=work, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave them to themselves."""
