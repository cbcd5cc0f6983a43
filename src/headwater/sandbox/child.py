"""The code of the sandbox's fork server and of its children. The program's side is pool.py."""

import functools
import gc
import importlib
import operator
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import msgspec

from headwater.core.errors import HeadwaterError, SandboxFailed
from headwater.core.reasons import Reason
from headwater.sandbox.confinement import Confinement

LENGTH = struct.Struct("!Q")  # before each message between program and child
PLACE = struct.Struct("!QQ")  # of a body in the memory that the program shares with the child: first byte, length
IN_MEMORY = 1  # the msgpack extension of a place
COMMAND = struct.Struct("!cI")  # to the fork server: a command and the number of a child
FORK, KILL = b"F", b"K"
RESULT, FAILURE = b"R", b"E"
READY = b"!"
_ALARM_GRACE_SECONDS = 2.0  # after its time limit a child ends itself, if the program did not kill it
_MESSAGE_CHARACTERS = 500
_OPEN_FILES = 32
_GARBAGE = (50_000, 20, 100)  # a page makes many objects and few cycles; searching for those took 5 % of the time
# The exit codes of C code without memory: pdfium aborts, the C library exits. Another cause, such as a failed
# assertion, has the same codes, but memory is the usual cause for parsers of hostile files.
_NO_MEMORY_CODES = frozenset({-signal.SIGABRT, 127})

Children = dict[int, tuple[int, list[int]]]
"""By number: the process id, and our copies of its descriptors. The first one is the socket of its answers."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The error of a call. `kind` is the name of a HeadwaterError, or empty."""

    message: str
    kind: str = ""
    reason: Reason = Reason.SANDBOX_CRASHED
    url: str | None = None


def serve(descriptor: int, memory_bytes: int, preload: Sequence[str]) -> None:
    """Fork and kill children on command. When the program ends, kill all children."""
    confinement = Confinement()
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # only the program decides when to stop
        signal.signal(name, signal.SIG_IGN)
    sys.dont_write_bytecode = True
    gc.disable()  # imports make no garbage, and searching for it took a tenth of the time
    for module in preload:
        with suppress(Exception):  # the call that needs the module raises the error
            importlib.import_module(module)
    confinement.finish()
    gc.collect()
    gc.freeze()  # memory pages stay shared with the children
    gc.set_threshold(*_GARBAGE)
    gc.enable()
    children: Children = {}
    signal.signal(signal.SIGCHLD, lambda *_: _reap(children))
    with socket.socket(fileno=descriptor) as control:
        while _run_command(control, children, memory_bytes, confinement):
            pass
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in children:
            _kill(children, number)
        for process, _ in children.values():
            with suppress(ChildProcessError):
                os.waitpid(process, 0)


def _run_command(control: socket.socket, children: Children, memory_bytes: int, confinement: Confinement) -> bool:
    """Run the next command. Returns False if the program has closed the socket."""
    message, links, _, _ = socket.recv_fds(control, COMMAND.size, 2)
    if not message:
        return False
    command, number = COMMAND.unpack(message)
    if command == KILL:
        _kill(children, number)
        return True
    process = os.fork()
    if process == 0:
        control.close()
        for _, other_links in children.values():
            for link in other_links:
                os.close(link)
        _run_child(*links, memory_bytes=memory_bytes, confinement=confinement)
    children[number] = process, links
    _reap(children)  # the signal handler did not know a child that has died already
    return True


def _kill(children: Children, number: int) -> None:
    with suppress(KeyError, ProcessLookupError):
        os.kill(children[number][0], signal.SIGKILL)


def _reap(children: Children) -> None:
    for number, (process, (link, *others)) in list(children.items()):
        try:
            ended, status = os.waitpid(process, os.WNOHANG)
        except ChildProcessError:
            continue  # another signal handler has reaped it meanwhile
        if ended:
            del children[number]
            for other in others:
                os.close(other)
            with socket.socket(fileno=link) as answers, suppress(OSError):
                if os.waitstatus_to_exitcode(status) in _NO_MEMORY_CODES:
                    failure = _out_of_memory("the child process aborted, probably without memory")
                    answers.send(_message(FAILURE, failure), socket.MSG_DONTWAIT)


def _out_of_memory(message: str = "the child process ran out of memory") -> Failure:
    return Failure(message, SandboxFailed.__name__, Reason.SANDBOX_MEMORY)


def _run_child(descriptor: int, memory: int | None = None, *, memory_bytes: int, confinement: Confinement) -> NoReturn:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        with suppress(ValueError):  # macOS has no such limit
            _limit(resource.RLIMIT_AS, memory_bytes)
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_FSIZE, 0)
        _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
        with socket.socket(fileno=descriptor) as link:
            confinement.apply()
            _answer_calls(link, memory)
    finally:
        os._exit(0)


def _limit(what: int, most: int) -> None:
    _, ceiling = resource.getrlimit(what)
    allowed = most if ceiling == resource.RLIM_INFINITY else min(most, ceiling)
    resource.setrlimit(what, (allowed, allowed))


def _answer_calls(link: socket.socket, memory: int | None) -> None:
    decoder = msgspec.msgpack.Decoder(ext_hook=functools.partial(_read_memory, memory))
    incoming = link.makefile("rb")
    link.sendall(READY)
    while length := incoming.read(LENGTH.size):
        link.sendall(_reply(incoming.read(*LENGTH.unpack(length)), decoder))
        signal.setitimer(signal.ITIMER_REAL, 0)


def _read_memory(memory: int | None, _: int, place: memoryview) -> bytes:
    """Return the bytes that a request names by their place."""
    start, length = PLACE.unpack(place)
    assert memory is not None
    pieces = []
    while length and (piece := os.pread(memory, length, start)):
        pieces.append(piece)
        start, length = start + len(piece), length - len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _reply(request: bytes, decoder: msgspec.msgpack.Decoder[Any]) -> bytearray:
    try:
        name, args, seconds = decoder.decode(request)
        del request  # the arguments are copies, and memory is scarce
        signal.setitimer(signal.ITIMER_REAL, seconds + _ALARM_GRACE_SECONDS)
        return _message(RESULT, _find_function(name)(*args))
    except MemoryError:
        failure = _out_of_memory()
    except HeadwaterError as error:
        failure = Failure(_shorten(error), type(error).__name__, error.reason, error.url)
    except Exception as error:  # noqa: BLE001 (the program gets every error)
        failure = Failure(f"{type(error).__name__}: {_shorten(error)}")
    return _message(FAILURE, failure)


def _message(tag: bytes, content: Any) -> bytearray:
    buffer = bytearray(LENGTH.size) + tag
    msgspec.msgpack.Encoder().encode_into(content, buffer, len(buffer))
    LENGTH.pack_into(buffer, 0, len(buffer) - LENGTH.size)
    return buffer


def _shorten(error: Exception) -> str:
    return str(error)[:_MESSAGE_CHARACTERS].encode(errors="replace").decode()


@functools.cache
def _find_function(name: str) -> Callable[..., Any]:
    module, _, path = name.partition(":")
    return cast(Callable[..., Any], operator.attrgetter(path)(importlib.import_module(module)))
