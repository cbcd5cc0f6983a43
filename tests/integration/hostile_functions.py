"""Functions that do what bad parsers might do in a sandbox. The children import this module, so it imports little."""

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NoReturn

from headwater.core.errors import HeadwaterError, InvalidURL, NotNow, Unreadable
from headwater.core.reasons import Reason


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    reason: Reason
    found_at: datetime
    parts: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)
    inner: "Finding | None" = None


def echo(value: Any) -> Any:
    return value


def find(name: str, at: datetime) -> Finding:
    inner = Finding("inner", Reason.GONE, at)
    return Finding(name, Reason.STORED, at, ("a", "b"), {"bytes": b"\x00\xff", "n": [1, None]}, inner)


def maybe(give: bool) -> Finding | None:
    return Finding("given", Reason.STORED, datetime(2026, 1, 1, tzinfo=UTC)) if give else None


def join(*bodies: bytes) -> bytes:
    return b"".join(bodies)


def length(body: bytes) -> int:
    return len(body)


def process() -> int:
    return os.getpid()


def parent() -> int:
    return os.getppid()


def nap(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def spin() -> NoReturn:
    while True:
        pass


def allocate() -> int:
    hoard = []
    while True:
        hoard.append(bytearray(16 * 1024 * 1024))


def leave(code: int = 0) -> NoReturn:
    os._exit(code)


def shoot_itself(number: int) -> None:
    os.kill(os.getpid(), number)


def exit_politely() -> NoReturn:
    sys.exit("bye")


def touch_nothing() -> None:
    ctypes.string_at(0)


def recurse() -> int:
    return recurse() + 1


def overflow_the_stack() -> None:
    sys.setrecursionlimit(10**9)
    value: list[Any] = []
    for _ in range(10**6):
        value = [value]
    repr(value)


def produce(count: int) -> bytes:
    return bytes(count)


def babble(message: bytes) -> None:
    """Write past the protocol into whatever socket there is."""
    for descriptor in range(3, 10):
        with suppress(OSError):
            os.write(descriptor, message)


def stutter() -> object:
    return object()


def fail(message: str) -> NoReturn:
    raise ValueError(message)


def refuse(message: str) -> NoReturn:
    raise Unreadable(message, reason=Reason.NOT_A_FEED, url="https://news.test/feed")


def refuse_address() -> NoReturn:
    raise InvalidURL("no host")


def refuse_for_now() -> NoReturn:
    raise NotNow("later", until=datetime(2026, 1, 1, tzinfo=UTC))


class Homemade(HeadwaterError):
    pass


def refuse_homemade() -> NoReturn:
    raise Homemade("special")


def open_many() -> int:
    return len([open(os.__file__) for _ in range(1000)])


def shout() -> None:
    for stream in (1, 2):
        os.write(stream, b"a child speaks\n")
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)


def environment() -> dict[str, str]:
    return dict(os.environ)


def modules() -> list[str]:
    return list(sys.modules)


def main_file() -> str | None:
    return getattr(sys.modules["__main__"], "__file__", None)


def limits() -> list[int]:
    names = (resource.RLIMIT_AS, resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)
    return [resource.getrlimit(name)[1] for name in names]
