"""Addresses from arguments, or from the lines of a file or a pipe, each with its number."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from headwater.core.errors import BadRequest, OperatorError

_CHUNK = 65_536
_MAX_LINE = 16_384  # longer than any address; the rest of a line is dropped
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Numbered = tuple[int, str]


class Arguments:
    """Addresses from the command line."""

    where = "argument"

    def __init__(self, urls: Sequence[str]) -> None:
        self.total: int | None = len(urls)
        self.done = 0
        self._urls = urls

    async def read(self) -> AsyncIterator[Numbered]:
        """Yield each address with its number."""
        for url in self._urls:
            self.done += 1
            yield self.done, url


class Lines:
    """A file or a pipe with one address on each line. Blank lines and # comments are skipped.

    `done` of `total` bytes are read. The total of a pipe is None.
    """

    where = "line"

    def __init__(self, file: Path | None) -> None:
        """Open a file, or standard input."""
        self._name = str(file) if file else "standard input"
        try:
            self._descriptor = os.open(file, os.O_RDONLY) if file else 0
            status = os.fstat(self._descriptor)
        except (OSError, ValueError) as error:
            raise self._unreadable(error) from None
        self.total = status.st_size if stat.S_ISREG(status.st_mode) else None
        self.done = 0

    async def read(self) -> AsyncIterator[Numbered]:
        """Yield each address with its line number. Bytes that are not UTF-8 become lone surrogates."""
        number = 0
        async for line in self._lines():
            number += 1
            if number == 1:
                line = line.removeprefix(_BYTE_ORDER_MARK)
            text = line.decode(errors="surrogateescape").strip()
            if text and not text.startswith("#"):
                yield number, text

    async def _lines(self) -> AsyncIterator[bytes]:
        rest = b""
        while chunk := await self._read():
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield line
            rest = rest[:_MAX_LINE]
        if rest:
            yield rest

    async def _read(self) -> bytes:
        await _until_readable(self._descriptor)
        try:
            chunk = os.read(self._descriptor, _CHUNK)
        except OSError as error:
            raise self._unreadable(error) from None
        self.done += len(chunk)
        return chunk

    def _unreadable(self, error: Exception) -> OperatorError:
        why = error.strerror if isinstance(error, OSError) else error
        return BadRequest(f"{self._name} cannot be read: {why}.")


async def _until_readable(descriptor: int) -> None:
    """Wait for a pipe without blocking signals. A plain file can always be read."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except OSError:
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
