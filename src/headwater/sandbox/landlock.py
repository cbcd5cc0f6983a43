"""Landlock: the kernel allows a process to open only the files below some folders."""

import os
import struct
from collections.abc import Iterable
from pathlib import Path

from headwater.sandbox.kernel import system_call

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on all machines
_VERSION = 1  # flag: return the version of Landlock
_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
# Each newer version of Landlock can forbid more. The first one knows the first 13 rights of files.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
_NETWORK_SINCE, _NETWORK_RIGHTS = 4, 0b11  # TCP: bind, connect
_SCOPES_SINCE, _SCOPES = 6, 0b11  # abstract UNIX sockets, signals: only within the same domain


def make_ruleset(readable: Iterable[Path]) -> int:
    """Return the descriptor of rules that allow reading below these folders, and nothing else."""
    version = system_call(_CREATE_RULESET, None, 0, _VERSION)
    files = (1 << max(count for since, count in _FILE_RIGHTS.items() if since <= version)) - 1
    network = _NETWORK_RIGHTS if version >= _NETWORK_SINCE else 0
    scopes = _SCOPES if version >= _SCOPES_SINCE else 0
    handled = struct.pack("=QQQ", files, network, scopes)
    ruleset = system_call(_CREATE_RULESET, handled, len(handled), 0)
    for folder in readable:
        descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        try:
            allowed = _READ_FILE | _READ_DIR if folder.is_dir() else _READ_FILE
            system_call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", allowed, descriptor), 0)
        finally:
            os.close(descriptor)
    return ruleset


def restrict_self(ruleset: int) -> None:
    """Obey these rules from now on. The process must have given up new privileges (PR_SET_NO_NEW_PRIVS)."""
    system_call(_RESTRICT_SELF, ruleset, 0)
