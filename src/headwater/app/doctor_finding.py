"""The findings of `headwater doctor`, and how its checks run: one that fails or hangs does not affect the others."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from headwater.core.errors import HeadwaterError
from headwater.db.pool import is_down, is_refusal


class State(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"  # it works, or may work
    FAILED = "failed"
    NOT_CHECKED = "not checked"  # another check must pass first
    NOT_CONFIGURED = "not configured"  # it does not exist, and need not exist


@dataclass(frozen=True, slots=True)
class Finding:
    """The text of a check and how to fix it. `lines` are the last lines of a log, or one line for each problem."""

    state: State
    found: str
    fix: str | None = None
    lines: tuple[str, ...] = ()


ok = partial(Finding, State.OK)
warning = partial(Finding, State.WARNING)
failed = partial(Finding, State.FAILED)


def not_configured(found: str, fix: str = "The first start makes it.") -> Finding:
    """Return the finding about a part that does not exist, and need not exist."""
    return Finding(State.NOT_CONFIGURED, found, fix)


def not_checked(why: str, first: str) -> Finding:
    """Return the finding of a check that runs only after another part is fixed."""
    return Finding(State.NOT_CHECKED, why, f"Fix {first} first.")


async def run_check(check: Awaitable[Finding], seconds: float) -> Finding:
    """Return the finding of a check. An error or a timeout becomes a finding too."""
    try:
        async with asyncio.timeout(seconds):
            return await check
    except Exception as error:  # noqa: BLE001 (the other checks continue)
        return explain_error(error, seconds)


def explain_error(error: Exception, seconds: float) -> Finding:
    """Return the finding of a check that raised an error; `seconds` is its time limit."""
    if isinstance(error, HeadwaterError):
        # The messages of our errors end with the sentence that says what to do.
        message = str(error)
        at = max(message.rfind(". "), message.rfind("; "))
        if at < 0:
            return failed(message.rstrip("."), "See docs/operations.md.")
        return failed(message[:at], message[at + 2].upper() + message[at + 3 :])
    if isinstance(error, TimeoutError):
        return failed(f"no answer within {seconds:g} seconds", "Find out what it waits for, and try again.")
    if isinstance(error, OSError):
        path = f"{error.filename}: " if error.filename else ""
        return failed(f"{path}{error.strerror or error}", "Give this user access to it, or run as its owner.")
    first_line = (str(error).splitlines() or [""])[0]
    if is_refusal(error) or is_down(error):
        return failed(f"the database reports: {first_line}", "Check the rights of its role, and the server's log.")
    what = f"the check itself failed: {type(error).__name__}: {first_line}"
    return failed(what, "Report it as an error of the program.")
