"""Standard output, standard error, and JSON. The output may be a closed pipe, a full disk, or not Unicode."""

import errno
import io
import json
import signal
import sys
from collections.abc import Callable
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import msgspec
import typer

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

T = TypeVar("T")


class OutputLost(Exception):
    """Standard output cannot be written any more. It is no OSError, because libraries handle those themselves."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"the output could not be written: {cause.strerror}.")
        # A reader such as `head` closes the pipe on purpose: no message.
        self.is_silent = cause.errno == errno.EPIPE
        self.exit_code = 128 + signal.SIGPIPE if self.is_silent else 2


def set_up_output() -> None:
    """Replace the standard streams, so that a failed write of standard output raises OutputLost."""
    sys.stdout = _wrap(_Output, sys.stdout)
    sys.stderr = _wrap(_Log, sys.stderr)


def print_json(value: Any) -> None:
    """Print an operation's dataclass as JSON. Times and dates are in ISO 8601."""
    typer.echo(format_json(value))


def print_result(result: T, render: Callable[[T], object], *, as_json: bool) -> None:
    """Print an operation's dataclass as JSON, or as text."""
    (print_json if as_json else render)(result)


def format_json(value: Any, indent: int | None = 2) -> str:
    """Format JSON, on one line if `indent` is None. Escape characters that a terminal cannot show or would obey."""
    is_unicode = sys.stdout is None or sys.stdout.encoding.lower().startswith("utf")
    plain = msgspec.to_builtins(value, builtin_types=(datetime, date))
    text = json.dumps(plain, indent=indent, ensure_ascii=not is_unicode, default=lambda moment: moment.isoformat())
    return "".join(mark if mark.isprintable() or mark == "\n" else json.dumps(mark)[1:-1] for mark in text)


def find_lost_output(error: BaseException) -> OutputLost | None:
    """Return the OutputLost that an error is or, if it is a group, contains."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(find_lost_output, error.exceptions)), None)
    return error if isinstance(error, OutputLost) else None


class _Output(io.FileIO):
    _lost = False

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write, or raise OutputLost once. The rest of the buffers is dropped then."""
        if self._lost:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except OSError as error:
            self._lost = True
            raise OutputLost(error) from None


class _Log(io.FileIO):
    """Standard error. A full disk for logs must not stop the work."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write, or drop the data if that fails."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _wrap(kind: type[io.FileIO], stream: TextIO) -> TextIO:
    """Return a stream to the same place that replaces the characters it cannot encode."""
    if not isinstance(stream, io.TextIOWrapper):  # the parent process closed it
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(kind(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors="replace" if stream.errors in ("strict", "surrogateescape") else stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
