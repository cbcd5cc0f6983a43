"""Raw files: in place whole or not at all, and never outside their source's folder (spec 1.5)."""

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.corpus import Corpus, raw_path
from headwater.errors import StorageFailed


def test_bytes_go_where_the_source_says_and_come_back(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path / "corpus")
    raw = corpus.write("bills", "billstatus/118/hr/BILLSTATUS-118hr1.xml", b"<bill/>")
    assert raw.path == "bills/bodies/raw/billstatus/118/hr/BILLSTATUS-118hr1.xml"
    assert raw.sha256 == hashlib.sha256(b"<bill/>").digest()
    assert raw.size == 7
    assert corpus.read(raw.path) == b"<bill/>"


def test_a_second_write_replaces_the_first_and_leaves_no_draft(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    corpus.write("s", "a", b"one")
    raw = corpus.write("s", "a", b"two")
    assert corpus.read(raw.path) == b"two"
    assert list((tmp_path / "s/bodies/raw/.tmp").iterdir()) == []


def test_bytes_and_names_are_flushed_to_the_disk_before_a_row_may_speak_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize(
    "subpath", ["", "/etc/x", "../../etc/x", "a/../../x", "a/..", ".tmp/x", "a\0b", ".", "x" * 256, "a\ud800b"]
)
def test_a_subpath_cannot_leave_its_folder(subpath: str, tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match="subpath"):
        Corpus(tmp_path).write("s", subpath, b"x")
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=80))
def test_whatever_the_subpath_it_is_refused_or_stays_inside(subpath: str) -> None:
    try:
        path = raw_path("s", subpath)
    except StorageFailed:
        return
    inside = os.path.normpath(f"/corpus/{path}")
    assert inside.startswith("/corpus/s/bodies/raw/")


def test_a_disk_that_refuses_is_reported_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a file where the folder should be")
    with pytest.raises(StorageFailed, match="cannot be written"):
        Corpus(tmp_path).write("s", "a", b"x")
