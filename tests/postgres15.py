"""A PostgreSQL 15 from Debian, the oldest supported server. It is started for the tests and stopped after them."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.program import wait_until
from tests.scratch import scratch_folder

DEBIAN = "/usr/lib/postgresql/15/bin"
# The server ends with the tests, also if they are killed.
ENDS_WITH_US = ("setpriv", "--pdeathsig", "INT") if shutil.which("setpriv") else ()
# The data need not survive a crash, and the tests wait for every write.
QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


@dataclass(frozen=True)
class Postgres15:
    """A running server."""

    dsn: str


def find_programs() -> Path | None:
    """The folder of PostgreSQL 15's programs, if it is installed."""
    for folder in (DEBIAN, None):
        found = shutil.which("postgres", path=folder)
        if found:
            version = subprocess.run([found, "--version"], capture_output=True, text=True).stdout
            if " 15." in version and (Path(found).parent / "initdb").exists():
                return Path(found).parent
    return None


@contextlib.contextmanager
def run_postgres15(programs: Path) -> Iterator[Postgres15]:
    """Run a server on a socket in a folder that is removed afterwards."""
    with scratch_folder() as folder:
        data = folder / "data"
        account = _account(folder)
        made = ("--username=headwater", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
        subprocess.run([programs / "initdb", "--pgdata", data, *made], check=True, capture_output=True, **account)
        settings = ("listen_addresses=", f"unix_socket_directories={folder}", *QUICK)
        words = [part for setting in settings for part in ("-c", setting)]
        with (folder / "log").open("w") as log:
            server = subprocess.Popen(
                [*ENDS_WITH_US, programs / "postgres", "-D", data, *words],
                stdout=log,
                stderr=log,
                start_new_session=True,
                **account,
            )
        try:
            wait_until(lambda: _is_ready(data) or server.poll() is not None)
            assert server.poll() is None, (folder / "log").read_text()
            yield Postgres15(f"postgresql://headwater@/postgres?host={quote(str(folder), safe='')}")
        finally:
            if server.poll() is None:
                server.send_signal(signal.SIGINT)
            server.wait(timeout=30)


def _account(folder: Path) -> dict[str, Any]:
    """Whom the programs run as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {"cwd": folder}
    postgres = pwd.getpwnam("postgres")
    os.chown(folder, postgres.pw_uid, postgres.pw_gid)
    return {"user": postgres.pw_uid, "group": postgres.pw_gid, "extra_groups": [], "cwd": folder}


def _is_ready(data: Path) -> bool:
    file = data / "postmaster.pid"
    return file.exists() and "ready" in file.read_text()
