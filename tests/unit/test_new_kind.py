"""The command `headwater source new-kind` (spec 1.1)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.core.reasons import Reason
from headwater.sources import registry
from headwater.sources.new_kind import format_entry_point, write_skeleton
from tests import kinds
from tests.refusals import refused


def test_the_skeleton_of_a_kind_passes_its_own_test(tmp_path: Path) -> None:
    written = write_skeleton("court_rulings", tmp_path)
    assert {path.relative_to(tmp_path).as_posix() for path in written} == {
        "court_rulings.py",
        "test_court_rulings.py",
        "golden/court_rulings/run.json",
        "golden/court_rulings/records.json",
        "golden/court_rulings/expected.json",
    }
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(words, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "court_rulings:CourtRulingsKind" in format_entry_point("court_rulings")


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "test_votes.py").write_text("mine")
    with refused(Reason.FOLDER_UNUSABLE, tmp_path / "test_votes.py"):
        write_skeleton("votes", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["test_votes.py"]


@pytest.mark.parametrize("name", ["", "Votes", "../votes", "1st", "a-b", "x" * 42])
def test_an_invalid_module_name_is_refused(name: str, tmp_path: Path) -> None:
    with refused(Reason.BAD_REQUEST, repr(name)):
        write_skeleton(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("class", "Python"),
        ("json", "Python"),
        ("manual", "kind"),
        ("plain", "kind"),
        ("broken", "kind"),
        ("headwater", "module"),
        ("msgspec", "module"),
    ],
)
def test_a_taken_name_is_refused(name: str, owner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry point or the import would fail, or would hide another module."""
    kinds.install(monkeypatch, "plain", kinds.PlainKind)
    monkeypatch.setitem(registry.get_broken_kinds(), "broken", "nosuchmodule:Kind: ModuleNotFoundError: ...")
    with refused(Reason.BAD_REQUEST, repr(name), owner):
        write_skeleton(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_on_the_import_path_does_not_take_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "golden").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    write_skeleton("golden", tmp_path)
