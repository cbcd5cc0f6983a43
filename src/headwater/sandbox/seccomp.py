"""The system calls that a child may make. The kernel refuses all others with "Operation not permitted".

A list of what is allowed also refuses what future kernels invent. The list is short, because a child has imported its
libraries before: it reads its calls, computes, and sends results. It has no call to start a program or a process, to
open a socket, to look at other processes, to change a user, or to write a file name.
"""

import ctypes
import os
import struct
import sys

from headwater.sandbox.kernel import PR_SET_SECCOMP, prctl

# Each call, and its number on x86_64 and on aarch64. None: the machine does not have it.
_ALLOWED: dict[str, tuple[int, int | None]] = {
    # The socket of calls and results, and files. Landlock decides which files it may open.
    "read": (0, 63),
    "write": (1, 64),
    "writev": (20, 66),
    "pread64": (17, 67),
    "recvfrom": (45, 207),
    "sendto": (44, 206),
    "lseek": (8, 62),
    "close": (3, 57),
    "openat": (257, 56),
    "open": (2, None),
    "fstat": (5, 80),
    "stat": (4, None),
    "lstat": (6, None),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "getdents64": (217, 61),
    "getcwd": (79, 17),
    # Memory. Python's late imports map libraries.
    "mmap": (9, 222),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "mprotect": (10, 226),
    "madvise": (28, 233),
    "brk": (12, 214),
    # Locks, which libraries take also without threads.
    "futex": (202, 98),
    "sched_yield": (24, 124),
    # Its own signals, among them the alarm that ends a call.
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "setitimer": (38, 103),
    "restart_syscall": (219, 128),
    # Time, chance, and its end.
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "getrandom": (318, 278),
    "exit": (60, 93),
    "exit_group": (231, 94),
    # Facts about itself.
    "getpid": (39, 172),
    "getppid": (110, 173),
    "gettid": (186, 178),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "getrusage": (98, 165),
}
_SIGNALS = ((62, 129), (234, 131))  # kill and tgkill: only to itself, as abort() does
_LIMITS = (302, 261)  # prlimit64: only to read its own
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # the column above, and the kernel's name

_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # places in the kernel's record of a call
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | 1, 0x80000000  # 1: EPERM
_MODE_FILTER = 2
_INSTRUCTION = struct.Struct("=HBBI")


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def restrict_calls() -> None:
    """Allow this process only the calls of a child, from now on."""
    machine = os.uname().machine
    if machine not in _MACHINES or sys.maxsize < 2**32:
        raise OSError(f"seccomp: no list of system calls for this Python on {machine}")
    column, architecture = _MACHINES[machine]
    instructions = _write_filter(column, architecture, os.getpid())
    program = _Program(len(instructions) // _INSTRUCTION.size, instructions)
    prctl(PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program))


def _write_filter(column: int, architecture: int, process: int) -> bytes:
    """Write the filter in the kernel's language: it compares one call after the other, and refuses at the end."""
    steps = [(_LOAD, 0, 0, _ARCHITECTURE), (_JUMP_IF_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL)]
    steps.append((_LOAD, 0, 0, _NUMBER))
    for call in _ALLOWED.values():
        if (number := call[column]) is not None:
            steps += [(_JUMP_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    for signal in _SIGNALS:
        steps += _allow_if(signal[column], {_word(0): process})
    steps += _allow_if(_LIMITS[column], {_word(0): 0, _word(2): 0, _word(2, high=True): 0})
    steps.append((_RETURN, 0, 0, _REFUSE))
    return b"".join(_INSTRUCTION.pack(*step) for step in steps)


def _allow_if(number: int, words: dict[int, int]) -> list[tuple[int, int, int, int]]:
    """Allow a call if the words of its arguments at these places have these values."""
    comparisons = {_NUMBER: number, **words}
    steps: list[tuple[int, int, int, int]] = []
    for left, (place, value) in zip(range(len(comparisons), 0, -1), comparisons.items(), strict=True):
        steps += [(_LOAD, 0, 0, place), (_JUMP_IF_EQUAL, 0, 2 * left - 1, value)]
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


def _word(argument: int, *, high: bool = False) -> int:
    """Return the place of the lower or the higher half of an argument. Process numbers have only a lower half."""
    return _ARGUMENTS + 8 * argument + 4 * high
