"""The program's end of one child of the sandbox: the socket of its calls, and the memory of their long bodies."""

import asyncio
import os
import select
import socket
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from headwater.sandbox.child import IN_MEMORY, LENGTH, PLACE

MIB = 1024 * 1024
_SHORT_BODY = 16 * 1024  # shorter arguments are sent
_KEPT_MEMORY = MIB  # of an idle child
_ENCODER = msgspec.msgpack.Encoder()


def make_memory() -> int | None:
    """Make memory that a child can share. Only Linux has it."""
    return os.memfd_create("headwater", os.MFD_CLOEXEC) if hasattr(os, "memfd_create") else None


class ChildLink(asyncio.Protocol):
    """The program's end of one child."""

    def __init__(self, number: int, link: socket.socket, memory: int | None) -> None:
        self.number = number
        self.calls = 0
        self._link = link
        self._transport: asyncio.Transport | None = None
        self._memory = memory
        self._received = bytearray()
        self._wanted = 0
        self._answer: asyncio.Future[None] | None = None

    async def connect(self) -> None:
        """Open the connection."""
        await asyncio.get_running_loop().create_connection(lambda: self, sock=self._link)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Keep what the child has sent, until it is enough."""
        self._received += data
        if self._wanted and len(self._received) >= self._wanted:
            self._wake()
        elif len(self._received) > self._wanted + MIB:
            self._open_transport.pause_reading()

    def connection_lost(self, _: Exception | None) -> None:
        """Wake the caller: the child has ended."""
        self._wake()

    @property
    def _open_transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    def _wake(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(None)

    @property
    def has_ended(self) -> bool:
        """Whether an idle child has ended: then its socket is readable."""
        if self._open_transport.is_closing() or self._received:
            return True
        readable = select.poll()
        readable.register(self._link, select.POLLIN)
        return bool(readable.poll(0))

    def call(self, function: str, args: Sequence[Any], seconds: float) -> None:
        """Send a call. Its long bodies go to the shared memory."""
        self.calls += 1
        request = bytearray(LENGTH.size)
        _ENCODER.encode_into((function, self._share(args), seconds), request, LENGTH.size)
        LENGTH.pack_into(request, 0, len(request) - LENGTH.size)
        self._open_transport.write(request)

    def _share(self, args: Sequence[Any]) -> list[Any]:
        """Write the long bodies to the shared memory. Return the arguments with the places of these bodies."""
        if self._memory is None:
            return list(args)
        shared: list[Any] = []
        end = 0
        for arg in args:
            if isinstance(arg, bytes) and len(arg) >= _SHORT_BODY:
                shared.append(msgspec.msgpack.Ext(IN_MEMORY, PLACE.pack(end, len(arg))))
                written = 0
                while written < len(arg):
                    written += os.pwrite(self._memory, memoryview(arg)[written:], end + written)
                end += written
            else:
                shared.append(arg)
        return shared

    async def read(self, size: int) -> bytes:
        """Return the next bytes that the child sends. Raises EOFError if it ends before."""
        if len(self._received) < size:
            self._wanted = size
            self._open_transport.resume_reading()
            self._answer = asyncio.get_running_loop().create_future()
            if self._open_transport.is_closing():
                raise EOFError
            try:
                await self._answer
            finally:
                self._answer, self._wanted = None, 0
            if len(self._received) < size:
                raise EOFError
        part = bytes(memoryview(self._received)[:size])
        del self._received[:size]
        return part

    def free_memory(self) -> None:
        """Free the memory that a large body took."""
        if self._memory is not None and os.fstat(self._memory).st_size > _KEPT_MEMORY:
            os.ftruncate(self._memory, 0)

    def close(self) -> None:
        """Close the connection and the memory."""
        if self._transport is None:
            self._link.close()
        else:
            self._transport.abort()
        if self._memory is not None:
            os.close(self._memory)
            self._memory = None
