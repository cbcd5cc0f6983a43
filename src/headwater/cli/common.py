"""Helpers for all commands: read the settings, run an operation, parse a duration."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from headwater.cli.logs import set_up_logs
from headwater.core.dates import parse_moment
from headwater.core.errors import BadRequest
from headwater.core.settings import Configuration, Settings, load

if TYPE_CHECKING:
    from headwater.app.operations import LocalOperations, Operations

Source = Annotated[str | None, typer.Option("--source", help="Only this source.")]
Category = Annotated[str | None, typer.Option("--category", help="Only sources of this category, and those below it.")]
Topic = Annotated[str | None, typer.Option("--topic", help="Only this topic, as the source gives it.")]
Language = Annotated[str | None, typer.Option("--language", help="Only documents in this language, such as de.")]
Since = Annotated[str | None, typer.Option("--since", help="Only from this day or time (UTC) on.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a script.")]
T = TypeVar("T")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST = timedelta(days=3650)
STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)  # Python itself handles SIGINT
_ALARM_SECONDS = 0.1


def configuration() -> Configuration:
    """Read the settings of this environment and folder."""
    return load(os.environ, Path.cwd())


def settings_with_logs(level: str | None = None) -> Settings:
    """Read the settings and set up logging, at the level of the settings or at another one."""
    settings = configuration().settings
    set_up_logs(level or settings.log_level, settings.log_format)
    return settings


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. A stop signal cancels it, so that it can clean up."""
    received: list[signal.Signals] = []

    async def stoppable() -> T:
        task = asyncio.current_task()
        assert task is not None

        def stop(number: signal.Signals) -> None:
            received.append(number)
            task.cancel()

        for number in STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
        return await work

    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError:
        raise SystemExit(128 + received[0]) from None
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None


def run_local(operation: "Callable[[LocalOperations], Awaitable[T]]", *, creates: bool = False) -> T:
    """Run an operation that needs no network, and return its record. `creates`: it may create the database."""
    from headwater.app.sessions import MigrateWhen, with_local_operations

    when = MigrateWhen.IF_EMPTY if creates else MigrateWhen.NEVER
    return run(with_local_operations(settings_with_logs("error"), operation, when))


def run_live(
    operation: "Callable[[Operations], Awaitable[T]]", log_level: str | None = "error", *, creates: bool = False
) -> T:
    """Run an operation that uses the network, and return its record. `creates`: it may create the database."""
    from headwater.app.sessions import MigrateWhen, with_operations

    when = MigrateWhen.IF_EMPTY if creates else MigrateWhen.NEVER
    return run(with_operations(settings_with_logs(log_level), operation, when))


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation, unless --yes is given. Refuse the command if it has no terminal to ask at."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadRequest("This command needs confirmation. Run it again with --yes. Nothing was changed.")
    typer.confirm(question, abort=True)


def wait(work: Callable[[], T]) -> T:
    """Run a function that may wait for a pipe, outside an event loop. A stop signal ends it at once."""

    def stop(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    handled = [number for number in (signal.SIGINT, *STOP_SIGNALS) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in handled}
    # Python handles a signal that arrives just before a blocking call only after that call. An alarm interrupts it.
    before[signal.SIGALRM] = signal.signal(signal.SIGALRM, lambda *_: None)
    alarm = signal.setitimer(signal.ITIMER_REAL, _ALARM_SECONDS, _ALARM_SECONDS)
    try:
        return work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, *alarm)
        for number, handler in before.items():
            signal.signal(number, handler)


def parse_duration(text: str, option: str) -> timedelta:
    """Parse the duration of an option, such as 2h."""
    match = re.fullmatch(r"(\d{1,9})([smhd])", text.strip().lower())
    length = timedelta(seconds=int(match[1]) * _UNITS[match[2]]) if match else timedelta(0)
    if not timedelta(0) < length <= _LONGEST:
        raise BadRequest(f"{option}: {text!r} is not a time such as 30m, 2h or 7d of at most ten years.")
    return length


def read_since(text: str | None) -> datetime | None:
    """Parse the option --since."""
    return parse_moment(text, "--since") if text is not None else None
