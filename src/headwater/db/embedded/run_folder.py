"""The run folder, which holds the socket of the embedded PostgreSQL while it runs.

The path of a socket has at most 107 bytes, so the run folder has a short path outside the data folder. mkdtemp makes
it, so no other user can prepare it. The file `run` in the data folder names it. Each start uses the same run folder, so
clients find the server again. The server keeps it locked, and cleaners of temporary folders leave locked folders alone.
"""

import fcntl
import os
import re
import shutil
import socket
import stat
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

from headwater.core.errors import FolderUnusable
from headwater.db.embedded.cluster import Cluster, open_folder, try_lock, write_private

PORT = "5432"  # part of the socket's name; the server does not listen on the network
_SOCKET = f"socket/.s.PGSQL.{PORT}"
_RUN_FOLDER = re.compile(r"/[A-Za-z0-9_./-]{0,59}/headwater-[a-z0-9_]{8}")  # short, and needs no quoting
_ASK_FOR_TLS = bytes.fromhex("0000000804d2162f")  # the shortest request of the protocol; these programs answer N


def claim_run_folder(cluster: Cluster, locks: ExitStack) -> tuple[Path, int]:
    """Return a run folder that contains only an empty socket folder, and its lock."""
    run = _recorded(cluster)
    lock = None
    if run:
        with suppress(OSError):
            run.mkdir(mode=0o700)
        if _is_safe(cluster, run) and run.stat().st_uid == os.geteuid():
            lock = open_folder(run, locks)
    # A copy of a data folder names the run folder of the original.
    if run is None or lock is None or not try_lock(lock):
        run = _make(cluster)
        lock = open_folder(run, locks)
        fcntl.flock(lock, fcntl.LOCK_EX)
        write_private(cluster.home / "run", str(run))
    _clear(run)
    socket_folder = run / "socket"
    socket_folder.mkdir(mode=0o700)
    if cluster.account:
        run.chmod(0o711)
        os.chown(socket_folder, cluster.account.uid, cluster.account.gid)
    return run, lock


def _make(cluster: Cluster) -> Path:
    for parent in map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp")):  # noqa: S108 -- only mkdtemp writes there
        closed = cluster.account and not all(above.stat().st_mode & stat.S_IXOTH for above in (parent, *parent.parents))
        if not closed and _RUN_FOLDER.fullmatch(f"{parent}/headwater-xxxxxxxx") and os.access(parent, os.W_OK):
            return Path(tempfile.mkdtemp(prefix="headwater-", dir=parent))
    raise FolderUnusable("No folder can hold the database's socket; make /tmp a folder that every user can write to.")


def find_socket(cluster: Cluster, pid: int) -> Path | None:
    """Return the folder of the server's socket, also of a server that has its own /tmp."""
    recorded = _recorded(cluster)
    for run in (recorded, Path(f"/proc/{pid}/root{recorded}")) if recorded else ():
        if _is_safe(cluster, run) and (run / _SOCKET).is_socket():
            return run / "socket"
    return None


def responds(socket_folder: Path) -> bool:
    """Return whether the server accepts a connection. A server that was just killed has a socket for a while."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        try:
            client.connect(str(socket_folder.parent / _SOCKET))
            client.sendall(_ASK_FOR_TLS)
            return client.recv(1) == b"N"
        except OSError:
            return False


def remove_socket(cluster: Cluster) -> None:
    """Remove the socket, so that no client finds the server."""
    run = _recorded(cluster)
    if run and _is_safe(cluster, run):
        shutil.rmtree(run / "socket", ignore_errors=True)


def remove_run_folder(cluster: Cluster) -> None:
    """Remove the run folder, unless a server uses it."""
    run = _recorded(cluster)
    with ExitStack() as locks, suppress(OSError):  # a folder of another user stays
        if run and _is_safe(cluster, run) and try_lock(open_folder(run, locks)):
            _clear(run)
            run.rmdir()


def _clear(run: Path) -> None:
    for part in ("socket", "program"):
        shutil.rmtree(run / part, ignore_errors=True)


def _recorded(cluster: Cluster) -> Path | None:
    record = cluster.home / "run"
    recorded = record.read_text(errors="replace") if record.exists() else ""
    return Path(recorded) if _RUN_FOLDER.fullmatch(recorded) else None


def _is_safe(cluster: Cluster, run: Path) -> bool:
    try:
        found = run.lstat()
    except OSError:
        return False
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid in (0, os.geteuid(), cluster.uid) and not others_write
