"""Progress bars in a terminal."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from headwater.cli.show import console

_LOOK_SECONDS = 0.2


@contextmanager
def progress_bars(
    *columns: ProgressColumn, quiet: bool, width: int = 30, stays: bool = True
) -> Iterator[Callable[..., None]]:
    """Show a bar for each step in a terminal. Yield a callback for the step, the number done, the total and a note."""
    if quiet or not console.is_terminal:
        yield lambda *_: None
        return
    start, note = TextColumn("{task.description:<9}"), TextColumn("{task.fields[note]}")
    amount = columns or (MofNCompleteColumn(), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(start, BarColumn(width), *amount, note, console=console, transient=not stays) as bars:

        def show_step(step: str, done: int, total: int | None, note: str = "") -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, note="")
            bars.update(tasks[step], completed=done, total=total, note=note)

        yield show_step


@contextmanager
def watching(look: Callable[[], tuple[str, int, int | None]], *, quiet: bool, stays: bool = True) -> Iterator[None]:
    """Show the progress of some work in a terminal: its step, the finished part and the total. `stays` after it."""
    ended = threading.Event()
    with progress_bars(quiet=quiet, stays=stays) as show_step:

        def keep_looking() -> None:
            while not ended.wait(_LOOK_SECONDS):
                show_step(*look())

        watcher = threading.Thread(target=keep_looking, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            show_step(*look())
