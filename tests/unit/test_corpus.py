"""Raw files: in place whole or not at all, and never outside their source's folder (spec 1.5)."""

import hashlib
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import StorageFailed
from headwater.core.reasons import Reason
from headwater.storage.folder import Corpus, Drafts, NewRawFile, RawFile, raw_path
from tests.refusals import refused


def test_bytes_go_where_the_source_says_and_come_back(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path / "corpus")
    raw = corpus.write("bills", "billstatus/118/hr/BILLSTATUS-118hr1.xml", b"<bill/>")
    assert raw.path == "bills/bodies/raw/billstatus/118/hr/BILLSTATUS-118hr1.xml"
    assert raw.sha256 == hashlib.sha256(b"<bill/>").digest()
    assert raw.size == 7
    assert corpus.read(raw.path) == b"<bill/>"


@pytest.mark.parametrize(("umask", "file", "folder"), [(0, 0o640, 0o750), (0o077, 0o600, 0o700)])
def test_only_the_owner_writes_raw_files_and_only_its_group_reads_them(
    umask: int, file: int, folder: int, tmp_path: Path
) -> None:
    """Issue 21."""
    before = os.umask(umask)
    try:
        corpus = Corpus(tmp_path / "data" / "corpus")
        corpus.write("s", "a/b", b"one")
        corpus.write("s", "a/b", b"two")
        corpus.copy("s/bodies/raw/a/b", "s/bodies/raw/c/d")
    finally:
        os.umask(before)
    for path in (tmp_path / "data").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (folder if path.is_dir() else file), path


def test_a_second_write_replaces_the_first_and_leaves_no_draft(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    corpus.write("s", "a", b"one")
    raw = corpus.write("s", "a", b"two")
    assert corpus.read(raw.path) == b"two"
    assert list((tmp_path / "s/bodies/raw/.tmp").iterdir()) == []


def test_bytes_and_names_are_flushed_before_write_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spec 1.5: no kill shows a missing flush, only a power cut does; so the order of the calls is looked at."""
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(descriptor: int) -> None:
        calls.append(f"flush {Path(os.readlink(f'/proc/self/fd/{descriptor}')).parent.name}")
        fsync(descriptor)

    def recorded_replace(source: Path, target: Path) -> None:
        calls.append("replace")
        replace(source, target)

    corpus = Corpus(tmp_path)
    corpus.write("s", "folder/a", b"one")  # its folders are new and flushed too
    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    corpus.write("s", "folder/a", b"two")
    assert calls == ["flush .tmp", "replace", "flush raw"]


def test_a_batch_flushes_each_file_before_its_rename_and_each_folder_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 1.5: files that are written together share the flush of their folder, and one failure concerns one file."""
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        calls.append("flush draft" if path.parent.name == ".tmp" else f"flush {path.name}")
        fsync(descriptor)

    def recorded_replace(source: Path, target: Path) -> None:
        calls.append(f"replace {target.name}")
        replace(source, target)

    corpus = Corpus(tmp_path)
    corpus.write("s", "folder/a", b"one")
    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    late, refused = NewRawFile("s", "folder/b", b"late", lambda: False), NewRawFile("s", "../b", b"refused")
    written = corpus.write_batch(
        [NewRawFile("s", "folder/a", b"two"), late, refused, NewRawFile("s", "folder/c", b"three")]
    )
    assert calls == ["flush draft"] * 3 + ["replace a", "replace c", "flush folder"]
    assert [isinstance(one, StorageFailed) for one in written] == [False, True, True, False]
    assert [corpus.read(one.path) for one in written if isinstance(one, RawFile)] == [b"two", b"three"]
    assert list(drafts_of(tmp_path).iterdir()) == []


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    corpus.write("s", "folder/a", b"one")
    Corpus(tmp_path).remove_source("s")
    assert corpus.read(corpus.write("s", "folder/a", b"two").path) == b"two"


@pytest.mark.parametrize(
    "subpath", ["", "/etc/x", "../../etc/x", "a/../../x", "a/..", ".tmp/x", "a\0b", ".", "x" * 256, "a\ud800b"]
)
def test_a_subpath_cannot_leave_its_folder(subpath: str, tmp_path: Path) -> None:
    with refused(Reason.STORAGE, "subpath"):
        Corpus(tmp_path).write("s", subpath, b"x")
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=80))
def test_any_subpath_is_refused_or_stays_inside(subpath: str) -> None:
    try:
        path = raw_path("s", subpath)
    except StorageFailed:
        return
    inside = os.path.normpath(f"/corpus/{path}")
    assert inside.startswith("/corpus/s/bodies/raw/")


def test_a_failing_disk_is_reported_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a file where the folder should be")
    with refused(Reason.STORAGE, "s/bodies/raw/a"):
        Corpus(tmp_path).write("s", "a", b"x")


def test_a_read_stops_at_its_limit(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    raw = corpus.write("s", "a", b"longer than anybody thought")
    assert corpus.read(raw.path, 6) == b"longer"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_lock_file_of_root_can_be_locked_by_the_owner(tmp_path: Path) -> None:
    """Spec 9.1: a backup that root makes must not stop who fetches as another user."""
    os.chown(tmp_path, 12345, 12345)
    Corpus(tmp_path).open_lock(exclusive=True).close()
    assert (tmp_path / ".lock").stat().st_uid == 12345


YESTERDAY = datetime.now(UTC) - timedelta(days=1)
DRAFT, YOUNG = "0123456789abcdef" * 2, "f" * 32


def put(path: Path, body: bytes = b"12345", *, days_old: float = 2) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    written = (datetime.now(UTC) - timedelta(days=days_old)).timestamp()
    os.utime(path, (written, written))
    return path


def drafts_of(corpus: Path, source: str = "s") -> Path:
    return corpus / source / "bodies/raw/.tmp"


def test_old_drafts_are_swept_and_counted_and_nothing_else(tmp_path: Path) -> None:
    """Spec 1.5: young drafts, other names, deeper files, other sources and raw files stay."""
    drafts = drafts_of(tmp_path)
    swept = [put(drafts / DRAFT), put(drafts / ("0" * 32), b"")]
    kept = [
        put(drafts / YOUNG, days_old=0.9),
        put(drafts / "notes.txt"),
        put(drafts / DRAFT.upper()),
        put(drafts / (DRAFT + "0")),
        put(drafts / ("a" * 32) / DRAFT),
        put(tmp_path / "s/bodies/raw" / DRAFT),
        put(tmp_path / "s/bodies/raw/x/.tmp" / DRAFT),
        put(tmp_path / "s/.tmp" / DRAFT),
        put(drafts_of(tmp_path, "other") / DRAFT),
    ]
    corpus = Corpus(tmp_path)
    assert corpus.sweep("s", YESTERDAY, dry_run=True) == Drafts(2, 5)
    assert all(path.exists() for path in swept)
    assert corpus.sweep("s", YESTERDAY) == Drafts(2, 5)
    assert not any(path.exists() for path in swept)
    assert all(path.exists() for path in kept)
    assert corpus.sweep("s", YESTERDAY) == Drafts(0, 0)


def test_a_draft_of_a_killed_writer_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spec 1.5: the names that `write` makes are the names that `sweep` knows."""

    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    corpus = Corpus(tmp_path)
    monkeypatch.setattr(os, "replace", kill)
    with pytest.raises(Killed):
        corpus.write("s", "a", b"half way")
    assert corpus.sweep("s", YESTERDAY) == Drafts(0, 0)
    assert corpus.sweep("s", datetime.now(UTC) + timedelta(days=1)) == Drafts(1, 8)
    assert list(drafts_of(tmp_path).iterdir()) == []


def test_a_sweep_follows_no_link(tmp_path: Path) -> None:
    """Spec 1.5: neither among the drafts nor on the way to them."""
    elsewhere = put(tmp_path / "elsewhere" / DRAFT)
    corpus = Corpus(tmp_path / "corpus")
    linked = drafts_of(tmp_path / "corpus", "file") / DRAFT
    linked.parent.mkdir(parents=True)
    linked.symlink_to(elsewhere)
    os.utime(linked, (0, 0), follow_symlinks=False)
    assert corpus.sweep("file", YESTERDAY) == Drafts(0, 0)
    assert linked.is_symlink()
    put(drafts_of(tmp_path / "elsewhere", "s") / DRAFT)
    for source, link, target in (
        ("folder", drafts_of(tmp_path / "corpus", "folder"), tmp_path / "elsewhere"),
        ("source", tmp_path / "corpus/source", tmp_path / "elsewhere/s"),
        ("raw", tmp_path / "corpus/raw/bodies", tmp_path / "elsewhere/s/bodies"),
    ):
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
        with refused(Reason.STORAGE, source):
            corpus.sweep(source, YESTERDAY)
    assert elsewhere.exists()
    assert (drafts_of(tmp_path / "elsewhere", "s") / DRAFT).exists()


@pytest.mark.parametrize("source", ["..", "../corpus/s", "/", "s/"])
def test_a_source_name_cannot_lead_a_sweep_elsewhere(source: str, tmp_path: Path) -> None:
    put(drafts_of(tmp_path / "corpus") / DRAFT)
    put(tmp_path / "bodies/raw/.tmp" / DRAFT)
    with refused(Reason.STORAGE, source):
        Corpus(tmp_path / "corpus").sweep(source, YESTERDAY)
    assert len(list(tmp_path.rglob(DRAFT))) == 2


def test_a_source_without_drafts_has_nothing_to_sweep(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path / "corpus")
    assert corpus.folders() == []
    assert corpus.sweep("s", YESTERDAY) == Drafts(0, 0)
    (tmp_path / "corpus/s").mkdir(parents=True)
    (tmp_path / "corpus/note.txt").touch()
    assert corpus.folders() == ["s"]
    assert corpus.sweep("s", YESTERDAY) == Drafts(0, 0)
