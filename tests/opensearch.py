"""A real OpenSearch node of the zip in Maven Central, on loopback. A test may kill and restart it."""

import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.postgres15 import ENDS_WITH_US
from tests.program import wait_until

VERSION = "2.19.3"
ARTIFACT = f"org.opensearch.distribution.integ-test-zip:opensearch:{VERSION}:zip"
_FOLDER = Path.home() / ".m2/repository/org/opensearch/distribution/integ-test-zip/opensearch"
_ZIP = _FOLDER / VERSION / f"opensearch-{VERSION}.zip"
_NOBODY = pwd.getpwnam("nobody").pw_uid
_START_SECONDS = 180.0
_JAVA = ("-Xms384m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def why_missing() -> str | None:
    """Return why this machine cannot run the node, or None."""
    if shutil.which("java") is None:
        return "OpenSearch needs Java 17"
    if not _ZIP.exists():
        return f"`mvn dependency:get -Dartifact={ARTIFACT} -Dtransitive=false` fetches OpenSearch"
    return None


class OpenSearchNode:
    """A node with little memory, whose data stay in its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._home = folder / f"opensearch-{VERSION}"
        self._process: subprocess.Popen[bytes] | None = None
        with zipfile.ZipFile(_ZIP) as archive:
            archive.extractall(folder)
        for program in (self._home / "bin").iterdir():
            program.chmod(0o755)
        (self._home / "config/jvm.options").write_text("\n".join(_JAVA))
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = taken.getsockname()[1]
        os.chmod(folder, 0o755)
        if os.geteuid() == 0:  # the node refuses to run as root
            for path in (folder, *folder.rglob("*")):
                os.chown(path, _NOBODY, _NOBODY)

    @property
    def url(self) -> str:
        """The value of the setting search_url."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the node, unless it runs, and wait until it answers."""
        if self._process and self._process.poll() is None:
            return
        settings = {
            "http.port": self.port,
            "transport.port": "0",
            "network.host": "127.0.0.1",
            "discovery.type": "single-node",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
            "action.auto_create_index": "false",
            "path.data": str(self._folder / "data"),
            "path.logs": str(self._folder / "logs"),
        }
        words = [word for name, value in settings.items() for word in ("-E", f"{name}={value}")]
        with (self._folder / "stderr").open("wb") as errors:
            self._process = subprocess.Popen(
                [*ENDS_WITH_US, self._home / "bin/opensearch", *words],
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={
                    "PATH": os.environ["PATH"],
                    "OPENSEARCH_JAVA_HOME": str(Path(shutil.which("java") or "").resolve().parents[1]),
                    "HOME": str(self._folder),
                },
                start_new_session=True,
                **({"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}),
            )
        wait_until(self._is_ready, seconds=_START_SECONDS)

    def kill(self) -> None:
        """Kill the node."""
        if self._process and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)  # of the session that `start` made
            self._process.wait(timeout=30)

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Send a request, and return its answer."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, content, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def documents(self, alias: str = "raw_content") -> dict[str, dict[str, Any]]:
        """Return all documents of an index by id."""
        self.call("POST", f"/{alias}/_refresh")
        hits = self.call("GET", f"/{alias}/_search?size=1000&version=true")["hits"]["hits"]
        assert len({hit["_id"] for hit in hits}) == len(hits)
        return {hit["_id"]: hit["_source"] for hit in hits}

    def _is_ready(self) -> bool:
        assert self._process
        assert self._process.poll() is None, (self._folder / "stderr").read_text()[-2000:]
        try:
            return self.call("GET", "/_cluster/health")["status"] in ("green", "yellow")
        except (OSError, urllib.error.URLError):
            return False


@contextlib.contextmanager
def run_opensearch() -> Iterator[OpenSearchNode]:
    """Run a node in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="headwater-opensearch-") as folder:
        node = OpenSearchNode(Path(folder))
        try:
            node.start()
            yield node
        finally:
            node.kill()
