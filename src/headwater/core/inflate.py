"""Undoing compression in small steps, so that a small body can neither fill memory nor hold up the loop."""

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zlib import _Decompress

_STEP = 64 * 1024  # most bytes of output a step
_SLICE = 16 * 1024  # most bytes of input a step: zlib copies what it leaves over
_MAX_GZIP_MEMBERS = 10_000  # empty members cost time and give no bytes for a cap to see
_GZIP, _ZLIB, _RAW_DEFLATE = 31, 15, -15  # zlib's names for the three framings
GZIP_MAGIC = b"\x1f\x8b"


class BadEncoding(ValueError):
    """The bytes are not compressed as they are said to be, or in a way nobody asked for."""


class Inflater:
    """Undoes one compression: gzip of any number of members, or deflate with or without its zlib frame.

    What follows the end of the compressed data is ignored, as browsers do.
    """

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._stream: _Decompress | None = None
        self._held = b""
        self._streams_begun = 0
        self._over = False

    @property
    def complete(self) -> bool:
        """Whether the data may end here: nothing came at all, or a stream came to its own end."""
        return self._stream is None and (self._streams_begun > 0 or not self._held)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what `data` inflates to, a bounded piece at a time (some may be empty)."""
        for start in range(0, len(data), _SLICE):
            yield from self._inflate(self._held + data[start : start + _SLICE])

    def _inflate(self, data: bytes) -> Iterator[bytes]:
        self._held = b""
        piece = b""
        # A full piece means that zlib may hold more output though it has taken all input.
        while (data or len(piece) == _STEP) and not self._over:
            if self._stream is None and not self._begin_stream(data):
                return
            assert self._stream is not None
            try:
                piece = self._stream.decompress(data, _STEP)
            except zlib.error as error:
                raise BadEncoding(str(error)) from None
            data = self._stream.unconsumed_tail
            if self._stream.eof:
                data = self._stream.unused_data
                self._stream = None
            yield piece

    def _begin_stream(self, data: bytes) -> bool:
        """Begin the stream that `data` opens; False where it opens none, or is too short to tell."""
        if len(data) < 2:
            self._held = data
            return False
        if self._streams_begun and not (self._gzip and data.startswith(GZIP_MAGIC)):
            self._over = True
            return False
        if self._streams_begun == _MAX_GZIP_MEMBERS:
            raise BadEncoding("too many gzip members")
        self._streams_begun += 1
        self._stream = zlib.decompressobj(self._framing(data))
        return True

    def _framing(self, data: bytes) -> int:
        if self._gzip:
            return _GZIP
        looks_like_zlib = data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0
        return _ZLIB if looks_like_zlib else _RAW_DEFLATE
