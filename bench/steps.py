"""Progress on standard error. Standard output has only the result."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Steps:
    """One bar for each step of a run."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    @contextlib.contextmanager
    def step(self, what: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """Show a step. The block gets a function that advances it."""
        task = self._progress.add_task(what, total=total)
        yield lambda count: self._progress.advance(task, count)
        self._progress.update(task, total=total or 1, completed=total or 1)


@contextlib.contextmanager
def showing_steps() -> Iterator[Steps]:
    """Show the steps of a run."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield Steps(progress)
