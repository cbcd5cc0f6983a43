"""System calls that Python does not offer. Each raises OSError if the kernel refuses it."""

import ctypes
import os
import sys

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x40000000
CAP_KILL, CAP_SETGID, CAP_SETUID = 1 << 5, 1 << 6, 1 << 7
PR_SET_KEEPCAPS, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 8, 22, 38
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 1, 2, 4, 8, 0x4000, 0x40000
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilitySets(ctypes.Structure):
    """The lower or the upper half of the three sets of a process."""

    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def call(function: str, *arguments: object) -> int:
    """Call a function of the C library."""
    if not sys.platform.startswith("linux"):
        raise OSError(f"{sys.platform} has no {function}")
    result: int = getattr(_libc, function)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
    return result


def system_call(number: int, *arguments: object) -> int:
    """Make a system call that the C library does not offer by a name."""
    wide = (ctypes.c_long(part) if isinstance(part, int) else part for part in arguments)
    return call("syscall", ctypes.c_long(number), *wide)


def prctl(option: int, *arguments: object) -> None:
    """Change an attribute of this process."""
    wide = [ctypes.c_ulong(part) if isinstance(part, int) else part for part in arguments]
    call("prctl", option, *wide, *[ctypes.c_ulong(0)] * (4 - len(wide)))


def get_capabilities() -> int:
    """Return the set of the capabilities from 0 to 31 that this process can use."""
    sets = (_CapabilitySets * 2)()
    call("capget", ctypes.byref(_CapabilityHeader(_CAPABILITY_VERSION_3, 0)), sets)
    return int(sets[0].effective)


def set_capabilities(kept: int) -> None:
    """Keep only these capabilities. No process can get one back."""
    sets = (_CapabilitySets * 2)()
    sets[0].effective = sets[0].permitted = kept
    call("capset", ctypes.byref(_CapabilityHeader(_CAPABILITY_VERSION_3, 0)), sets)


def cover_folder(path: str) -> None:
    """Mount an empty folder over a path, only for this process and its children."""
    call("mount", b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None)
    flags = ctypes.c_ulong(_MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    call("mount", b"none", os.fsencode(path), b"tmpfs", flags, b"size=4k")
