"""A database server that a test can end and restart."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headwater.db.embedded.server import open_server


@dataclass(frozen=True)
class OwnServer:
    """A running server."""

    folder: Path
    url: str

    async def restart(self, how: signal.Signals) -> None:
        """End it with SIGKILL or SIGINT, and start it again."""
        await self.end(how)
        await self.start_again()

    async def end(self, how: signal.Signals) -> None:
        """End it with SIGKILL or SIGINT."""
        (pid_file,) = self.folder.glob("postgres/*/cluster/postmaster.pid")
        pid = int(pid_file.read_text().split()[0])
        os.kill(pid, how)
        while _is_running(pid):
            await asyncio.sleep(0.01)

    async def start_again(self) -> None:
        """Start it at the same address."""
        again = await asyncio.to_thread(open_server, self.folder)
        assert again.dsn == self.url
        again.close()


@contextlib.contextmanager
def own_server(folder: Path) -> Iterator[OwnServer]:
    """Start a server, and stop it at the end."""
    with open_server(folder) as server:
        yield OwnServer(folder, server.dsn)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
