"""What runs in the sandbox's fork server and in its children; the program's side is sandbox.py."""

import functools
import gc
import importlib
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

LENGTH = struct.Struct("!Q")  # before each message between program and child
COMMAND = struct.Struct("!cI")  # to the fork server: what to do, to which child
FORK, KILL = b"F", b"K"
RESULT, FAILURE = b"R", b"E"
READY = b"!"
_ALARM_GRACE_SECONDS = 2.0  # a child nobody is left to kill ends itself this long after its time
_MESSAGE_CHARACTERS = 500
_OPEN_FILES = 32
# How C code ends that is given no more memory: pdfium aborts, the C library exits. Nothing tells this from an abort
# for another cause, such as a failed assertion; of those that parsers of hostile files meet, it is the usual one.
_STARVED = frozenset({-signal.SIGABRT, 127})

Children = dict[int, tuple[int, int]]  # by number: the process, and a copy of the socket that it answers on


@dataclass(frozen=True, slots=True)
class Failure:
    """What a child says of a call that raised; `kind` names an error of ours, or nothing."""

    message: str
    kind: str = ""
    reason: Reason = Reason.SANDBOX_CRASHED
    url: str | None = None


def serve(descriptor: int, memory_bytes: int, preload: Sequence[str]) -> None:
    """Fork and kill children as told; when the program goes away, take them along."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the program decides when to stop
        signal.signal(name, signal.SIG_IGN)
    sys.dont_write_bytecode = True
    gc.disable()  # modules are no garbage, and to look for some in them took a tenth of the time
    for module in preload:
        with suppress(Exception):  # told by the call that needs it
            importlib.import_module(module)
    gc.collect()
    gc.freeze()  # keeps the pages shared with the children
    gc.enable()
    children: Children = {}
    signal.signal(signal.SIGCHLD, lambda *_: _reap(children))
    with socket.socket(fileno=descriptor) as control:
        while _obey(control, children, memory_bytes):
            pass
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in children:
            _kill(children, number)
        for process, _ in children.values():
            with suppress(ChildProcessError):
                os.waitpid(process, 0)


def _obey(control: socket.socket, children: Children, memory_bytes: int) -> bool:
    """Do the next command; False when there is none any more."""
    message, links, _, _ = socket.recv_fds(control, COMMAND.size, 1)
    if not message:
        return False
    command, number = COMMAND.unpack(message)
    if command == KILL:
        _kill(children, number)
        return True
    (link,) = links
    process = os.fork()
    if process == 0:
        control.close()
        for _, others_link in children.values():
            os.close(others_link)
        _live(link, memory_bytes)
    children[number] = process, link
    _reap(children)  # one that died already was not known to the signal handler
    return True


def _kill(children: Children, number: int) -> None:
    with suppress(KeyError, ProcessLookupError):
        os.kill(children[number][0], signal.SIGKILL)


def _reap(children: Children) -> None:
    for number, (process, link) in list(children.items()):
        try:
            ended, status = os.waitpid(process, os.WNOHANG)
        except ChildProcessError:
            continue  # another signal came in between and has reaped it
        if ended:
            del children[number]
            with socket.socket(fileno=link) as answering, suppress(OSError):
                if os.waitstatus_to_exitcode(status) in _STARVED:
                    answering.send(_message(FAILURE, _aborted()), socket.MSG_DONTWAIT)


def _aborted() -> Failure:
    message = "the child process aborted, as for want of memory"
    return Failure(message, SandboxFailed.__name__, Reason.SANDBOX_MEMORY)


def _out_of_memory() -> Failure:
    return Failure("the child process ran out of memory", SandboxFailed.__name__, Reason.SANDBOX_MEMORY)


def _live(descriptor: int, memory_bytes: int) -> NoReturn:
    """Be a child: answer calls until the program closes the socket."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        with suppress(ValueError):  # macOS has no such limit
            _limit(resource.RLIMIT_AS, memory_bytes)
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_FSIZE, 0)
        _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
        with socket.socket(fileno=descriptor) as link:
            _answer_calls(link)
    finally:
        os._exit(0)


def _limit(what: int, most: int) -> None:
    _, ceiling = resource.getrlimit(what)
    allowed = most if ceiling == resource.RLIM_INFINITY else min(most, ceiling)
    resource.setrlimit(what, (allowed, allowed))


def _answer_calls(link: socket.socket) -> None:
    incoming = link.makefile("rb")
    link.sendall(READY)
    while length := incoming.read(LENGTH.size):
        link.sendall(_reply(incoming.read(*LENGTH.unpack(length))))
        signal.setitimer(signal.ITIMER_REAL, 0)


def _reply(request: bytes) -> bytearray:
    try:
        name, args, seconds = msgspec.msgpack.decode(request)
        del request  # the arguments are copies, and memory is limited
        signal.setitimer(signal.ITIMER_REAL, seconds + _ALARM_GRACE_SECONDS)
        return _message(RESULT, _named(name)(*args))
    except MemoryError:
        failure = _out_of_memory()
    except HeadwaterError as error:
        failure = Failure(_brief(error), type(error).__name__, error.reason, error.url)
    except Exception as error:  # noqa: BLE001 (whatever it was, the program is told)
        failure = Failure(f"{type(error).__name__}: {_brief(error)}")
    return _message(FAILURE, failure)


def _message(tag: bytes, content: Any) -> bytearray:
    buffer = bytearray(LENGTH.size) + tag
    msgspec.msgpack.Encoder().encode_into(content, buffer, len(buffer))
    LENGTH.pack_into(buffer, 0, len(buffer) - LENGTH.size)
    return buffer


def _brief(error: Exception) -> str:
    return str(error)[:_MESSAGE_CHARACTERS].encode(errors="replace").decode()


@functools.cache
def _named(name: str) -> Callable[..., Any]:
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return cast(Callable[..., Any], found)
