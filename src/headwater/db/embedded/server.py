"""The embedded PostgreSQL at work: started by the first who needs it, shared, stopped by the last who leaves.

Four locks (flock) tell all there is to know, and the kernel gives each up when its holders are dead:

    start.lock       exclusive: who starts or stops the server; the programs that make a cluster keep it as well
    users.lock       shared: one for each handle; whoever can make it exclusive is alone
    cluster/         exclusive: the server and each of its processes; free means that none is left
    the run folder   exclusive: the server; see embedded_run.py
"""

import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import structlog

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.db.embedded.cluster import (
    DATABASE,
    ROLE,
    WORKING_FOLDER,
    Cluster,
    create_cluster,
    find_cluster,
    find_programs,
    open_folder,
    open_private,
    program_failed,
    spawn,
    told_to_operator,
    try_lock,
)
from headwater.db.embedded.run_folder import (
    PORT,
    answers,
    claim_run_folder,
    find_socket,
    remove_run_folder,
    remove_socket,
)

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
    "log_min_messages": "log",  # errors are told to the client that made them
    "log_checkpoints": "off",
    "log_autovacuum_min_duration": "-1",
}

RECOVERY_SECONDS = 600.0  # a server that replays a long log is working, not stuck
ORPHAN_SECONDS = 30.0  # for what a killed server left behind to notice and end
STOP_SECONDS = 60.0
LOG_BYTES = 1024 * 1024
_POLL_SECONDS = 0.005
_EXIT_SECONDS = 1.0  # a process that ends gives up its locks a little before it is gone

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    """One user's share of the running server, until `close`; whoever closes the last share stops the server."""

    dsn: str = field(repr=False)
    _shares: ExitStack = field(repr=False, compare=False)

    def close(self) -> None:
        """Give up the share; a second call does nothing."""
        self._shares.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_server(data_dir: Path, *, patience: float = RECOVERY_SECONDS) -> EmbeddedServer:
    """Return a share of the folder's server, which is created, repaired or started as needed.

    Raises OperatorError with one line that says what is wrong and what to do. Blocks while it waits, which it does for
    `patience` seconds at most.
    """
    if not Path(WORKING_FOLDER).exists():
        raise OperatorError(
            "The embedded PostgreSQL needs Linux with /proc; let HEADWATER_DATABASE_URL name another PostgreSQL.",
            reason=Reason.DATABASE_UNREACHABLE,
        )
    deadline = time.monotonic() + patience
    with told_to_operator(data_dir), ExitStack() as shares:
        cluster = find_cluster(data_dir)
        with _start_lock(cluster, deadline) as start_lock:
            users_lock = open_private(cluster.home / "users.lock", os.O_RDONLY)
            fcntl.flock(users_lock, fcntl.LOCK_SH)
            shares.callback(_leave, cluster, users_lock)
            socket_folder = _running(cluster, start_lock, deadline)
        secret = quote(cluster.password(), safe="")
        dsn = f"postgresql://{ROLE}:{secret}@/{DATABASE}?host={quote(str(socket_folder), safe='')}&port={PORT}"
        return EmbeddedServer(dsn, shares.pop_all())


def _leave(cluster: Cluster, users_lock: int) -> None:
    """Give up a share, and stop the server if it was the last one."""
    try:
        with told_to_operator(cluster.home), _start_lock(cluster, time.monotonic() + RECOVERY_SECONDS):
            # Not just closed: a forked child may have a copy.
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
            if time.monotonic() > deadline:
                raise OperatorError(
                    f"Another process is still starting or stopping the server of {cluster.home}; wait for it or end "
                    f"it, and try again.",
                    reason=Reason.DATABASE_UNREACHABLE,
                )
            time.sleep(_POLL_SECONDS)
        yield descriptor
    finally:
        os.close(descriptor)


def _running(cluster: Cluster, start_lock: int, deadline: float) -> Path:
    """Return the socket folder of the server, which runs when this returns."""
    with ExitStack() as locks:
        if cluster.data.exists():
            cluster_lock = open_folder(cluster.data, locks)
            if socket_folder := _adopt(cluster, cluster_lock, deadline):
                return socket_folder
        run, run_lock = claim_run_folder(cluster, locks)
        programs = find_programs(cluster, run)
        if not cluster.data.exists():
            create_cluster(cluster, programs, start_lock)
            cluster_lock = open_folder(cluster.data, locks)
            fcntl.flock(cluster_lock, fcntl.LOCK_EX)
        _start(cluster, programs, run / "socket", (cluster_lock, run_lock), deadline)
        return run / "socket"


def _adopt(cluster: Cluster, cluster_lock: int, deadline: float) -> Path | None:
    """Return the socket folder of the server that runs; if None, none does, and the cluster is locked for a new one."""
    orphans_deadline = min(deadline, time.monotonic() + ORPHAN_SECONDS)
    while not try_lock(cluster_lock):
        pid = _postmaster(cluster)
        if pid and _is_ready(cluster, pid):
            socket_folder = find_socket(cluster, pid)
            if socket_folder is None:
                log.debug("the server's socket is gone: restarting it", folder=str(cluster.data))
                _end(cluster, cluster_lock, pid)
                return None
            if answers(socket_folder):
                return socket_folder
        _wait_on(cluster, deadline if pid else orphans_deadline)
    return None


def _wait_on(cluster: Cluster, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise OperatorError(
            f"PostgreSQL in {cluster.data} neither gets ready nor ends: it hangs, left processes behind in a crash, or "
            f"runs in another container; see {cluster.log}, end its processes and try again.",
            reason=Reason.DATABASE_UNREACHABLE,
        )
    time.sleep(_POLL_SECONDS)


def _start(cluster: Cluster, programs: Path, socket_folder: Path, locks: tuple[int, int], deadline: float) -> None:
    _clear_stale_pid_file(cluster)
    settings = SETTINGS | {"unix_socket_directories": str(socket_folder)}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    output = open_private(cluster.log, os.O_RDWR | os.O_APPEND)
    try:
        if os.fstat(output).st_size > LOG_BYTES:
            os.ftruncate(output, 0)
        said_before = os.fstat(output).st_size
        command = [str(programs / "postgres"), "-D", WORKING_FOLDER, *options]
        server = spawn(command, cluster.data, cluster.account, keep_open=locks, stdout=output)
        # Reaps it whenever it ends, whoever ends it: until then its pid would look alive.
        threading.Thread(target=server.wait, name="embedded-postgres-reaper", daemon=True).start()
        while not _is_ready(cluster, server.pid):
            if (code := server.poll()) is not None:
                what = "it did not start" if code > 0 else f"signal {-code} ended it as it started"
                said = os.pread(output, LOG_BYTES, said_before).decode(errors="replace")
                raise program_failed(what, said, cluster.home)
            _wait_on(cluster, deadline)
    finally:
        os.close(output)


def _clear_stale_pid_file(cluster: Cluster) -> None:
    """Remove a file that would keep PostgreSQL from starting: it trusts any live pid of the same user."""
    pid_file = cluster.data / "postmaster.pid"
    if not pid_file.exists():
        return
    pid = _recorded_pid(cluster)
    deadline = time.monotonic() + _EXIT_SECONDS
    while pid and _is_postgres_of(cluster, pid):
        if time.monotonic() > deadline:
            raise OperatorError(
                f"A PostgreSQL that this program did not start (pid {pid}) uses {cluster.data}; stop it and try again.",
                reason=Reason.DATABASE_UNREACHABLE,
            )
        time.sleep(_POLL_SECONDS)
    if not pid or Path(f"/proc/{pid}").exists():
        log.debug("removing a stale postmaster.pid", pid=pid)
        pid_file.unlink()


def _stop(cluster: Cluster) -> None:
    with ExitStack() as locks:
        if (pid := _postmaster(cluster)) and not try_lock(cluster_lock := open_folder(cluster.data, locks)):
            # Comes first: if this process is killed on the way, the next one must not take the server for usable.
            remove_socket(cluster)
            _end(cluster, cluster_lock, pid)
    remove_run_folder(cluster)


def _end(cluster: Cluster, cluster_lock: int, pid: int) -> None:
    """Stop the server and lock the cluster, which none of its processes does any more."""
    for request in (signal.SIGINT, signal.SIGQUIT):  # fast, then at once: the next start recovers
        if _is_postgres_of(cluster, pid):
            with suppress(ProcessLookupError):
                os.kill(pid, request)
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            if try_lock(cluster_lock) and not _is_postgres_of(cluster, pid):
                return
            time.sleep(_POLL_SECONDS)
    raise OperatorError(
        f"PostgreSQL in {cluster.data} does not stop; see {cluster.log} and end its processes.",
        reason=Reason.DATABASE_UNREACHABLE,
    )


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
        return abs(int(lines[0])) if lines else None  # negative where PostgreSQL serves a single user
    except ValueError:
        return None


def _postmaster(cluster: Cluster) -> int | None:
    """Return the pid of the running server: the one postmaster.pid names, if that process really is it."""
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
    """Ask as the server's user where a process works: root without CAP_SYS_PTRACE, as in a container, is not told."""
    asked = spawn(["stat", "-L", "-c", "%d %i", f"/proc/{pid}/cwd"], Path("/"), cluster.account)
    answer, _ = asked.communicate()
    data = cluster.data.stat()
    return answer.split() == [str(data.st_dev), str(data.st_ino)]
