"""A bar for what counts while it works."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headwater.cli.show import console

_LOOK_SECONDS = 0.2


@contextmanager
def watching(look: Callable[[], tuple[str, int, int | None]], *, quiet: bool, stays: bool = True) -> Iterator[None]:
    """Show the progress of some work in a terminal: its step, the finished part and the total. `stays` after it."""
    if quiet or not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description:11}"), BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn())
    ended = threading.Event()
    with Progress(*columns, console=console, transient=not stays) as bars:
        task = bars.add_task("", total=None)

        def show() -> None:
            description, done, of = look()
            bars.update(task, description=description, completed=done, total=of)

        def keep_looking() -> None:
            while not ended.wait(_LOOK_SECONDS):
                show()

        watcher = threading.Thread(target=keep_looking, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            show()
