"""The running embedded PostgreSQL: the first user starts it, all users share it, the last user stops it.

Four locks (flock) hold the whole state. The kernel releases each lock when its holders are dead.

    start.lock       exclusive: the process that starts or stops the server; also the programs that create a cluster
    users.lock       shared: one for each EmbeddedServer; a process that can make it exclusive is the last user
    cluster/         exclusive: the server and its processes; if it is free, none of them runs
    the run folder   exclusive: the server

The run folder holds the server's socket. The path of a socket has at most 107 bytes, so the run folder has a short path
outside the data folder. mkdtemp makes it, so no other user can prepare it. The file `run` in the data folder names it.
Each start uses the same run folder, so clients find the server again. Cleaners of temporary folders leave it alone,
because it is locked.
"""

import fcntl
import os
import re
import shutil
import signal
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import psutil
import structlog

from headwater.core.errors import DatabaseUnreachable, FolderUnusable
from headwater.db.embedded import cluster as files
from headwater.db.embedded.cluster import WORKING_FOLDER, Cluster, open_folder, open_private, try_lock

PORT = "5432"  # part of the socket's name; the server does not listen on the network
_SOCKET = f"socket/.s.PGSQL.{PORT}"
_RUN_FOLDER = re.compile(r"/[A-Za-z0-9_./-]{0,59}/headwater-[a-z0-9_]{8}")  # short, and needs no quoting
_ASK_FOR_TLS = bytes.fromhex("0000000804d2162f")  # the shortest request of the protocol; these programs answer N

SETTINGS = {
    "listen_addresses": "",
    "port": PORT,
    "unix_socket_permissions": "0700",
    "cluster_name": "headwater",
    "max_connections": "50",
    "shared_buffers": "128MB",
    "jit": "off",
    "fsync": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
    "log_min_messages": "log",  # the client gets its own errors
    "log_checkpoints": "off",
    "log_autovacuum_min_duration": "-1",
}

RECOVERY_SECONDS = 600.0  # a server that replays a long log is not stuck
ORPHAN_SECONDS = 30.0  # for the processes of a killed server to notice and end
STOP_SECONDS = 60.0
LOG_BYTES = 1024 * 1024
_LOCK_OUT_SECONDS = 10.0  # for another program to finish starting or stopping the server
_POLL_SECONDS = 0.005
_EXIT_SECONDS = 1.0  # a process that ends releases its locks before it disappears

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class EmbeddedServer(AbstractContextManager["EmbeddedServer"]):
    """A share of the running server, until `close`. The last `close` stops the server."""

    dsn: str = field(repr=False)
    _shares: ExitStack = field(repr=False, compare=False)

    def close(self) -> None:
        """Give up the share. A second call does nothing."""
        self._shares.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def open_server(data_dir: Path, *, patience: float = RECOVERY_SECONDS) -> EmbeddedServer:
    """Return a share of the folder's server. The server is created, repaired or started if needed.

    Blocks for `patience` seconds at most. Raises OperatorError if the server does not start.
    """
    if not Path(WORKING_FOLDER).exists():
        raise DatabaseUnreachable(
            "The embedded PostgreSQL needs Linux with /proc; set HEADWATER_DATABASE_URL to another PostgreSQL."
        )
    deadline = time.monotonic() + patience
    with files.report_folder_errors(data_dir), ExitStack() as shares:
        cluster = files.find_cluster(data_dir)
        with _start_lock(cluster, deadline) as start_lock:
            users_lock = open_private(cluster.home / "users.lock", os.O_RDONLY)
            fcntl.flock(users_lock, fcntl.LOCK_SH)
            shares.callback(_leave, cluster, users_lock)
            socket_folder = _ensure_running(cluster, start_lock, deadline)
        return EmbeddedServer(_dsn(cluster, socket_folder), shares.pop_all())


@contextmanager
def lock_out_others(cluster: Cluster) -> Iterator[int]:
    """Keep all other programs away from a cluster. Yields the lock for `run_alone`. Refuses a cluster in use."""
    with _start_lock(cluster, time.monotonic() + _LOCK_OUT_SECONDS) as start_lock, ExitStack() as closing:
        users_lock = open_private(cluster.home / "users.lock", os.O_RDONLY)
        closing.callback(os.close, users_lock)
        if not try_lock(users_lock):
            raise DatabaseUnreachable(f"A Headwater uses the database in {cluster.home}. Stop it and try again.")
        yield start_lock


@contextmanager
def run_alone(cluster: Cluster, start_lock: int) -> Iterator[str]:
    """Run the server of a cluster from which others are locked out, and stop it. Yields its address."""
    try:
        yield _dsn(cluster, _ensure_running(cluster, start_lock, time.monotonic() + RECOVERY_SECONDS))
    finally:
        _stop(cluster)


def stop_leftover(cluster: Cluster) -> None:
    """Stop the server that a killed program left, also if it is still starting. Others are locked out."""
    if cluster.data.exists():
        with ExitStack() as locks:
            _find_running(cluster, open_folder(cluster.data, locks), time.monotonic() + RECOVERY_SECONDS)
    _stop(cluster)


def _dsn(cluster: Cluster, socket_folder: Path) -> str:
    secret, host = quote(cluster.password(), safe=""), quote(str(socket_folder), safe="")
    return f"postgresql://{files.ROLE}:{secret}@/{files.DATABASE}?host={host}&port={PORT}"


def _leave(cluster: Cluster, users_lock: int) -> None:
    """Give up a share. If it was the last one, stop the server."""
    try:
        with files.report_folder_errors(cluster.home), _start_lock(cluster, time.monotonic() + RECOVERY_SECONDS):
            # Closing the file is not enough: a forked child may have a copy.
            fcntl.flock(users_lock, fcntl.LOCK_UN)
            if try_lock(users_lock):
                _stop(cluster)
    finally:
        os.close(users_lock)


@contextmanager
def _start_lock(cluster: Cluster, deadline: float) -> Iterator[int]:
    descriptor = open_private(cluster.home / "start.lock", os.O_RDONLY)
    try:
        while not try_lock(descriptor):
            what = f"Another process is still starting, stopping or upgrading the server of {cluster.home}"
            _wait_on(deadline, f"{what}; wait for it or end it, and try again.")
        yield descriptor
    finally:
        os.close(descriptor)


def _ensure_running(cluster: Cluster, start_lock: int, deadline: float) -> Path:
    """Return the socket folder of the server, and start the server if it does not run."""
    with ExitStack() as locks:
        if cluster.data.exists():
            cluster_lock = open_folder(cluster.data, locks)
            if socket_folder := _find_running(cluster, cluster_lock, deadline):
                return socket_folder
        run, run_lock = _claim_run_folder(cluster, locks)
        programs = files.find_programs(cluster, run)
        if not cluster.data.exists():
            files.create_cluster(cluster, programs, start_lock)
            cluster_lock = open_folder(cluster.data, locks)
            fcntl.flock(cluster_lock, fcntl.LOCK_EX)
        _start(cluster, programs, run / "socket", (cluster_lock, run_lock), deadline)
        return run / "socket"


def _find_running(cluster: Cluster, cluster_lock: int, deadline: float) -> Path | None:
    """Return the socket folder of the running server. If it is None, the cluster is locked for a new server."""
    orphans_deadline = min(deadline, time.monotonic() + ORPHAN_SECONDS)
    while not try_lock(cluster_lock):
        pid = _postmaster(cluster)
        if pid and _is_ready(cluster, pid):
            socket_folder = _find_socket(cluster, pid)
            if socket_folder is None:
                log.debug("database.socket_gone", folder=str(cluster.data))
                _end(cluster, cluster_lock, pid)
                return None
            if _responds(socket_folder):
                return socket_folder
        _wait_on(deadline if pid else orphans_deadline, _explain_hang(cluster))
    return None


def _wait_on(deadline: float, problem: str) -> None:
    """Wait for a moment. After the deadline, raise an error with the problem."""
    if time.monotonic() > deadline:
        raise DatabaseUnreachable(problem)
    time.sleep(_POLL_SECONDS)


def _explain_hang(cluster: Cluster) -> str:
    return (
        f"PostgreSQL in {cluster.data} does not become ready and does not end: it hangs, a crash left processes, or it "
        f"runs in another container; see {cluster.log}, end its processes and try again."
    )


def _start(cluster: Cluster, programs: Path, socket_folder: Path, locks: tuple[int, int], deadline: float) -> None:
    _clear_stale_pid_file(cluster)
    settings = SETTINGS | {"unix_socket_directories": str(socket_folder)}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    output = open_private(cluster.log, os.O_RDWR | os.O_APPEND)
    try:
        if os.fstat(output).st_size > LOG_BYTES:
            os.ftruncate(output, 0)
        log_start = os.fstat(output).st_size
        command = [str(programs / "postgres"), "-D", WORKING_FOLDER, *options]
        server = files.spawn(command, cluster.data, cluster.account, keep_open=locks, stdout=output)
        # Reaps the server when it ends. Until then its pid looks alive.
        threading.Thread(target=server.wait, name="embedded-postgres-reaper", daemon=True).start()
        while not _is_ready(cluster, server.pid):
            if (code := server.poll()) is not None:
                what = "it did not start" if code > 0 else f"signal {-code} ended it during its start"
                written = os.pread(output, LOG_BYTES, log_start).decode(errors="replace")
                raise files.program_failed(what, written, cluster.home)
            _wait_on(deadline, _explain_hang(cluster))
    finally:
        os.close(output)


def _clear_stale_pid_file(cluster: Cluster) -> None:
    """Remove a stale file. PostgreSQL does not start if any process of its user has the pid in it."""
    pid_file = cluster.data / "postmaster.pid"
    if not pid_file.exists():
        return
    pid = _recorded_pid(cluster)
    deadline = time.monotonic() + _EXIT_SECONDS
    while pid and _is_postgres_of(cluster, pid):
        what = f"A PostgreSQL that this program did not start (pid {pid}) uses {cluster.data}; stop it and try again."
        _wait_on(deadline, what)
    if not pid or psutil.pid_exists(pid):
        log.debug("database.stale_pid_file", pid=pid)
        pid_file.unlink()


def _stop(cluster: Cluster) -> None:
    with ExitStack() as locks:
        if (pid := _postmaster(cluster)) and not try_lock(cluster_lock := open_folder(cluster.data, locks)):
            # First the socket: if this process is killed now, the next one must not use the stopping server.
            _remove_socket(cluster)
            _end(cluster, cluster_lock, pid)
    _remove_run_folder(cluster)


def _end(cluster: Cluster, cluster_lock: int, pid: int) -> None:
    """Stop the server, and lock the cluster when all its processes have ended."""
    # A fast shutdown, then an immediate one, from which the next start recovers.
    for request in (signal.SIGINT, signal.SIGQUIT):
        if _is_postgres_of(cluster, pid):
            with suppress(ProcessLookupError):
                os.kill(pid, request)
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            if try_lock(cluster_lock) and not _is_postgres_of(cluster, pid):
                return
            time.sleep(_POLL_SECONDS)
    raise DatabaseUnreachable(f"PostgreSQL in {cluster.data} does not stop; see {cluster.log} and end its processes.")


def _is_ready(cluster: Cluster, pid: int) -> bool:
    lines = _pid_file_lines(cluster)
    return len(lines) > 7 and lines[0] == str(pid) and lines[7].strip() == "ready"


def _pid_file_lines(cluster: Cluster) -> list[str]:
    try:
        return (cluster.data / "postmaster.pid").read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _recorded_pid(cluster: Cluster) -> int | None:
    lines = _pid_file_lines(cluster)
    try:
        return abs(int(lines[0])) if lines else None  # negative if PostgreSQL runs in single-user mode
    except ValueError:
        return None


def _postmaster(cluster: Cluster) -> int | None:
    pid = _recorded_pid(cluster)
    return pid if pid and _is_postgres_of(cluster, pid) else None


def _is_postgres_of(cluster: Cluster, pid: int) -> bool:
    try:
        if Path(f"/proc/{pid}/comm").read_text().strip() != "postgres":
            return False
        return os.path.samefile(f"/proc/{pid}/cwd", cluster.data)
    except PermissionError:
        return bool(cluster.account) and _works_in(cluster, pid)
    except OSError:
        return False


def _works_in(cluster: Cluster, pid: int) -> bool:
    """Ask with the server's user for the folder of a process: root in a container may have no right to read it."""
    asked = files.spawn(["stat", "-L", "-c", "%d %i", f"/proc/{pid}/cwd"], Path("/"), cluster.account)
    answer, _ = asked.communicate()
    data = cluster.data.stat()
    return answer.split() == [str(data.st_dev), str(data.st_ino)]


def _claim_run_folder(cluster: Cluster, locks: ExitStack) -> tuple[Path, int]:
    """Return a run folder that contains only an empty socket folder, and its lock."""
    run = _recorded_run_folder(cluster)
    lock = None
    if run:
        with suppress(OSError):
            run.mkdir(mode=0o700)
        if _is_safe_run_folder(cluster, run) and run.stat().st_uid == os.geteuid():
            lock = open_folder(run, locks)
    # A copy of a data folder names the run folder of the original.
    if run is None or lock is None or not try_lock(lock):
        run = _make_run_folder(cluster)
        lock = open_folder(run, locks)
        fcntl.flock(lock, fcntl.LOCK_EX)
        files.write_private(cluster.home / "run", str(run))
    _clear_run_folder(run)
    socket_folder = run / "socket"
    socket_folder.mkdir(mode=0o700)
    if cluster.account:
        run.chmod(0o711)
        os.chown(socket_folder, cluster.account.uid, cluster.account.gid)
    return run, lock


def _make_run_folder(cluster: Cluster) -> Path:
    for parent in map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp")):  # noqa: S108 -- only mkdtemp writes there
        closed = cluster.account and not all(above.stat().st_mode & stat.S_IXOTH for above in (parent, *parent.parents))
        if not closed and _RUN_FOLDER.fullmatch(f"{parent}/headwater-xxxxxxxx") and os.access(parent, os.W_OK):
            return Path(tempfile.mkdtemp(prefix="headwater-", dir=parent))
    raise FolderUnusable("No folder can hold the database's socket; make /tmp a folder that every user can write to.")


def _find_socket(cluster: Cluster, pid: int) -> Path | None:
    """Return the folder of the server's socket, also of a server that has its own /tmp."""
    recorded = _recorded_run_folder(cluster)
    for run in (recorded, Path(f"/proc/{pid}/root{recorded}")) if recorded else ():
        if _is_safe_run_folder(cluster, run) and (run / _SOCKET).is_socket():
            return run / "socket"
    return None


def _responds(socket_folder: Path) -> bool:
    """Return whether the server accepts a connection. A server that was just killed has a socket for a while."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        try:
            client.connect(str(socket_folder.parent / _SOCKET))
            client.sendall(_ASK_FOR_TLS)
            return client.recv(1) == b"N"
        except OSError:
            return False


def _remove_socket(cluster: Cluster) -> None:
    """Remove the socket, so that no client finds the server."""
    run = _recorded_run_folder(cluster)
    if run and _is_safe_run_folder(cluster, run):
        shutil.rmtree(run / "socket", ignore_errors=True)


def _remove_run_folder(cluster: Cluster) -> None:
    """Remove the run folder, unless a server uses it."""
    run = _recorded_run_folder(cluster)
    with ExitStack() as locks, suppress(OSError):  # a folder of another user stays
        if run and _is_safe_run_folder(cluster, run) and try_lock(open_folder(run, locks)):
            _clear_run_folder(run)
            run.rmdir()


def _clear_run_folder(run: Path) -> None:
    for part in ("socket", "program"):
        shutil.rmtree(run / part, ignore_errors=True)


def _recorded_run_folder(cluster: Cluster) -> Path | None:
    record = cluster.home / "run"
    recorded = record.read_text(errors="replace") if record.exists() else ""
    return Path(recorded) if _RUN_FOLDER.fullmatch(recorded) else None


def _is_safe_run_folder(cluster: Cluster, run: Path) -> bool:
    try:
        found = run.lstat()
    except OSError:
        return False
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid in (0, os.geteuid(), cluster.uid) and not others_write
