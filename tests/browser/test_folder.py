"""The folder of a browser is removed with it; the next start removes abandoned folders (spec 1.7)."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from headwater.browser.chromium import start_chromium
from headwater.browser.processes import make_folder
from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from tests.program import environment, wait_until

OWNER = "from headwater.browser.processes import make_folder; print(make_folder().path, flush=True); input()"


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


def test_a_folder_stays_while_its_owner_lives_and_is_removed_with_its_processes_later(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert owner.stdout
    with owner:
        theirs = owner.stdout.readline().strip()
        left = subprocess.Popen(["sleep", "600"], env={**os.environ, "TMPDIR": theirs})
        try:
            wait_until(lambda: theirs in Path(f"/proc/{left.pid}/environ").read_text())  # it has begun to run
            make_folder().remove()
            assert os.listdir(tmp_path) == [Path(theirs).name]
            assert left.poll() is None
            owner.kill()
            owner.wait()
            make_folder().remove()
            assert os.listdir(tmp_path) == []
            assert left.wait(10) < 0
        finally:
            left.kill()


async def test_without_a_temporary_folder_no_browser_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with pytest.raises(OperatorError, match="no temporary folder .* TMPDIR") as caught:
        await start_chromium(str(program))
    assert caught.value.reason is Reason.NO_BROWSER
