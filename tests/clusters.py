"""New clusters for tests in a moment: copies of one that PostgreSQL's own programs have made, which take half a second.

How those make one, and what is left when they are killed, is shown by test_embedded.py and by programs that are started
instead of forked.
"""

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from headwater.db.embedded import server as embedded
from headwater.db.embedded.cluster import Cluster, create_cluster, write_private
from tests.scratch import scratch_folder

Maker = Callable[[Cluster, Path, int], None]

_common = contextlib.ExitStack()
_models: list[Path] = []


def model() -> Path:
    """Return a data folder with a cluster in it, at rest; the first who asks has it made."""
    if not _models:
        folder = _common.enter_context(scratch_folder()) / "data"
        with use_for_clusters(create_cluster):
            embedded.open_server(folder).close()
        _models.append(folder)
    return _models[0]


def remove_model() -> None:
    """Remove it, if it was made."""
    _models.clear()
    _common.close()


def copying(folder: Path) -> Maker:
    """What makes a cluster by copying that of a data folder; where it cannot, the programs say why."""

    def copy(cluster: Cluster, programs: Path, start_lock: int) -> None:
        made, new = folder / "postgres" / cluster.home.name, cluster.home / "cluster.new"
        shutil.rmtree(new, ignore_errors=True)
        command = ["cp", "-aT", made / "cluster", new]
        if subprocess.run(command, capture_output=True, pass_fds=(start_lock,)).returncode:
            create_cluster(cluster, programs, start_lock)
            return
        write_private(cluster.home / "password", (made / "password").read_text())
        new.rename(cluster.data)

    return copy


@contextlib.contextmanager
def use_for_clusters(make: Maker) -> Iterator[None]:
    """Let clusters be made so."""
    before, embedded.create_cluster = embedded.create_cluster, make
    try:
        yield
    finally:
        embedded.create_cluster = before
