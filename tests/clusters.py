"""Database clusters for tests: copies of one that PostgreSQL's programs made, because making one takes half a second.

test_embedded.py and programs that are started instead of forked show how a cluster is made and what a kill leaves.
"""

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from headwater.db.embedded import cluster as files
from headwater.db.embedded.cluster import Cluster, create_cluster, write_private
from headwater.db.embedded.server import open_server
from tests.scratch import scratch_folder

Maker = Callable[[Cluster, Path, int], None]

_common = contextlib.ExitStack()
_models: list[Path] = []


def model() -> Path:
    """Return a data folder with a stopped cluster. The first call makes it."""
    if not _models:
        folder = _common.enter_context(scratch_folder()) / "data"
        with use_for_clusters(create_cluster):
            open_server(folder).close()
        _models.append(folder)
    return _models[0]


def remove_model() -> None:
    """Remove the cluster if it was made."""
    _models.clear()
    _common.close()


def copying(folder: Path) -> Maker:
    """Return a function that makes a cluster by copying that of a data folder. If it cannot, the programs make one."""

    def copy(cluster: Cluster, programs: Path, start_lock: int) -> None:
        made, new = folder / "postgres" / cluster.major, cluster.home / "cluster.new"
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
    """Make clusters with this function during the block."""
    before, files.create_cluster = files.create_cluster, make
    try:
        yield
    finally:
        files.create_cluster = before
