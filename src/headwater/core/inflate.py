"""Decompress in small steps, so that a small body can neither fill the memory nor block the event loop."""

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zlib import _Decompress

_STEP = 64 * 1024  # output bytes of one step, at most
_SLICE = 16 * 1024  # input bytes of one step, at most; zlib copies the rest
_MAX_GZIP_MEMBERS = 10_000  # empty members take time, but no limit of bytes counts them
_GZIP, _ZLIB, _RAW_DEFLATE = 31, 15, -15  # zlib's numbers of the three formats
GZIP_MAGIC = b"\x1f\x8b"


class BadEncoding(ValueError):
    """The bytes are not compressed as declared, or the compression is unknown."""


class Inflater:
    """Decompresses gzip with any number of members, or deflate with or without a zlib header.

    Bytes after the end of the compressed data are ignored, as browsers do.
    """

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._stream: _Decompress | None = None
        self._held = b""
        self._streams_begun = 0
        self._over = False

    @property
    def complete(self) -> bool:
        """Whether the data may end here: it is empty, or its last stream is complete."""
        return self._stream is None and (self._streams_begun > 0 or not self._held)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed `data` in pieces of limited size. Some pieces may be empty."""
        for start in range(0, len(data), _SLICE):
            yield from self._inflate(self._held + data[start : start + _SLICE])

    def _inflate(self, data: bytes) -> Iterator[bytes]:
        self._held = b""
        piece = b""
        # After a full piece, zlib may have more output even without input.
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
        """Begin the stream that starts with `data`. Return False if none does, or if the data is too short."""
        if len(data) < 2:
            self._held = data
            return False
        if self._streams_begun and not (self._gzip and data.startswith(GZIP_MAGIC)):
            self._over = True
            return False
        if self._streams_begun == _MAX_GZIP_MEMBERS:
            raise BadEncoding("too many gzip members")
        self._streams_begun += 1
        looks_like_zlib = data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0
        self._stream = zlib.decompressobj(_GZIP if self._gzip else _ZLIB if looks_like_zlib else _RAW_DEFLATE)
        return True
