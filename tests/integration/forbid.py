"""Runs a program on a kernel that lacks something: python forbid.py landlock,unshare PROGRAM..."""

import ctypes
import os
import sys

from headwater.sandbox import kernel, landlock, seccomp

# The condition on a system call, and the numbers of the call on x86_64 and on aarch64.
_CALLS: dict[str, tuple[tuple[int, int], dict[int, int]]] = {
    "landlock": ((landlock._CREATE_RULESET, landlock._CREATE_RULESET), {}),
    "unshare": ((272, 97), {}),
    "seccomp": ((157, 167), {seccomp._word(0): kernel.PR_SET_SECCOMP}),
    "setresuid": ((117, 147), {}),
}


def forbid(*names: str) -> None:
    """Refuse these system calls for this process and the programs that it starts."""
    column, _ = seccomp._MACHINES[os.uname().machine]
    steps = []
    for name in names:
        numbers, words = _CALLS[name]
        steps += [*seccomp._allow_if(numbers[column], words)[:-1], (seccomp._RETURN, 0, 0, seccomp._REFUSE)]
    steps.append((seccomp._RETURN, 0, 0, seccomp._ALLOW))
    instructions = b"".join(seccomp._INSTRUCTION.pack(*step) for step in steps)
    program = seccomp._Program(len(steps), instructions)
    if os.geteuid() != 0:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_SECCOMP, seccomp._MODE_FILTER, ctypes.byref(program))


if __name__ == "__main__":
    forbid(*filter(None, sys.argv[1].split(",")))
    os.execvp(sys.argv[2], sys.argv[2:])
