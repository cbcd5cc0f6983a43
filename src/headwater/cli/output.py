"""Standard output and standard error, and JSON on them. Output may be a closed pipe, a full disk or not Unicode."""

import errno
import io
import json
import signal
import sys
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TextIO

import msgspec
import typer

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputLost(Exception):
    """Standard output takes nothing more. Not an OSError: libraries have ways of their own with those."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"the output could not be written: {cause.strerror}.")
        # A reader who has seen enough, as `head` has, need not be told.
        self.unheard = cause.errno == errno.EPIPE
        self.exit_code = 128 + signal.SIGPIPE if self.unheard else 2


def set_up_output() -> None:
    """Let no destination bring the program down: what standard output does not take is an OutputLost."""
    sys.stdout = _over(_Output, sys.stdout)
    sys.stderr = _over(_Log, sys.stderr)


def print_json(value: Any) -> None:
    """Print an operation's dataclass as JSON. Times and dates are in ISO 8601."""
    typer.echo(format_json(value))


def format_json(value: Any, indent: int | None = 2) -> str:
    """Format JSON, on one line if `indent` is None. Escape characters that a terminal cannot show or would obey."""
    is_unicode = sys.stdout is None or sys.stdout.encoding.lower().startswith("utf")
    plain = msgspec.to_builtins(value, builtin_types=(datetime, date))
    text = json.dumps(plain, indent=indent, ensure_ascii=not is_unicode, default=lambda moment: moment.isoformat())
    return "".join(mark if mark.isprintable() or mark == "\n" else json.dumps(mark)[1:-1] for mark in text)


def find_lost_output(error: BaseException) -> OutputLost | None:
    """Return the OutputLost that an error is, or that tasks side by side have made a part of it."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(find_lost_output, error.exceptions)), None)
    return error if isinstance(error, OutputLost) else None


class _Output(io.FileIO):
    """Standard output."""

    _lost = False

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write, or raise OutputLost once; what is still in buffers then goes nowhere."""
        if self._lost:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except OSError as error:
            self._lost = True
            raise OutputLost(error) from None


class _Log(io.FileIO):
    """Standard error: a full disk for logs must not stop the work."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write, or drop what cannot be written."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _over(kind: type[io.FileIO], stream: TextIO) -> TextIO:
    """Return a stream to the same place, which shows a sign where a character cannot be shown."""
    if not isinstance(stream, io.TextIOWrapper):  # it was closed before we were started
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(kind(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors="replace" if stream.errors in ("strict", "surrogateescape") else stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
