"""The rules for a child that reads bytes from the web (spec 11.9), and how the kernel enforces them.

    privileges   it has no capability and gets none (no_new_privs), and a user of its own if the program is root
    network      no system call opens a socket (seccomp), and its network is empty (namespace)
    programs     no system call starts a program, a process or a thread (seccomp)
    files        it can open only Python's packages and the time zones, and only to read them (Landlock, seccomp)
    processes    no system call inspects or signals another process (seccomp), and /proc is empty (namespace)

The fork server prepares the rules once. Each child applies them before it reads its first byte. A rule that the kernel
cannot enforce is missing: the child works without it, and `headwater doctor` reports it.
"""

import os
import sys
import sysconfig
import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from headwater.sandbox import kernel, landlock, seccomp

# The user of the children. Systems assign no user this number by themselves.
USER = 60_864
# A fork server without CAP_KILL could not end a child of another user.
_CAN_CHANGE_USER = kernel.CAP_SETUID | kernel.CAP_SETGID | kernel.CAP_KILL
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")


class Rule(StrEnum):
    """A rule for children."""

    PRIVILEGES = "privileges"
    NETWORK = "network"
    PROGRAMS = "programs"
    FILES = "files"
    PROCESSES = "processes"


_missing: dict[Rule, str] = {}  # in a child: the rules that it works without


def list_missing_rules() -> dict[Rule, str]:
    """Return the rules that this child works without, and why."""
    return _missing


class Confinement:
    """The rules for all children of one fork server."""

    def __init__(self) -> None:
        """Enter namespaces of our own. The process must have no thread yet."""
        self._missing: dict[Rule, str] = {}
        self._changes_user = self._has_namespaces = False
        self._ruleset: int | None = None
        self._readable: list[Path] = []
        with self._enforce(Rule.PRIVILEGES):
            self._changes_user = kernel.get_capabilities() & _CAN_CHANGE_USER == _CAN_CHANGE_USER
            if os.geteuid() == 0 and not self._changes_user:
                raise OSError("root needs CAP_SETUID, CAP_SETGID and CAP_KILL to give a child its own user")
        with self._enforce(Rule.PROCESSES):  # the network namespace is only a second lock
            namespaces = kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC
            kernel.call("unshare", namespaces if self._changes_user else namespaces | kernel.CLONE_NEWUSER)
            self._has_namespaces = True

    def finish(self) -> None:
        """Hide /proc, and make the rules for files. Call this after the import of all libraries."""
        if self._has_namespaces:
            with self._enforce(Rule.PROCESSES):
                kernel.cover_folder("/proc")
        with self._enforce(Rule.FILES):
            self._readable = _find_readable_folders()
            self._ruleset = landlock.make_ruleset(self._readable)

    def apply(self) -> None:
        """Apply all rules to this process. No rule can be undone."""
        if self._changes_user:
            with self._enforce(Rule.PRIVILEGES):
                self._change_user()
        with self._enforce(Rule.PRIVILEGES):
            kernel.set_capabilities(0)
        with self._enforce(Rule.PRIVILEGES):
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if self._ruleset is not None:
            with self._enforce(Rule.FILES):
                landlock.restrict_self(self._ruleset)
            os.close(self._ruleset)
        with self._enforce(*Rule):  # without it, a child could make the system calls that the other parts do not cover
            seccomp.restrict_calls()
        _missing.update(self._missing)

    def _change_user(self) -> None:
        """Become the user of the children.

        Python may lie where only root can enter, such as below /root. Then the child opens files as root, but without
        the capabilities of root, and Landlock allows it only the files of the rule.
        """
        kernel.prctl(kernel.PR_SET_KEEPCAPS, 1)
        owner = os.geteuid()
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
        can_read = all(os.access(folder, os.R_OK | os.X_OK) for folder in self._readable)
        if not can_read and self._ruleset is not None:
            kernel.set_capabilities(kernel.CAP_SETUID)
            kernel.call("setfsuid", owner)

    @contextmanager
    def _enforce(self, *rules: Rule) -> Iterator[None]:
        """Record these rules as missing if the kernel refuses what the block asks for."""
        try:
            yield
        except OSError as error:
            for rule in rules:
                self._missing.setdefault(rule, error.strerror or str(error))


def _find_readable_folders() -> list[Path]:
    """Return the folders of Python, of its packages and of the time zones. Libraries read some of their files late."""
    python = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
    packages = [Path(entry) for entry in sys.path if Path(entry).name in _PACKAGE_FOLDERS]
    imported = [
        Path(folder)
        for name, module in sys.modules.copy().items()
        if "." not in name
        for folder in getattr(module, "__path__", ())
    ]
    found = [*python, *packages, *map(Path, zoneinfo.TZPATH)]
    found += [folder for folder in imported if not any(folder.is_relative_to(other) for other in found)]
    return [folder for folder in dict.fromkeys(found) if folder.exists()]
