"""The journal of a verify: written pages are not checked again, however the program ended (spec 1.5)."""

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headwater.core.reasons import Reason
from headwater.documents import verify
from headwater.documents.verify import DocumentFault, Fault, Journal, Progress
from tests.refusals import refused

NOW, LATER = datetime(2026, 3, 12, 2, 0, tzinfo=UTC), datetime(2026, 3, 13, 2, 0, tzinfo=UTC)


def finding(number: int, fault: Fault = Fault.RAW_MISSING) -> DocumentFault:
    return DocumentFault(number, f"http://a.test/é{number}", "a", f"a/bodies/raw/{number}", fault, "")


PAGES: Sequence[tuple[int, int, list[DocumentFault]]] = (
    (10, 5, []),
    (30, 5, [finding(12), finding(12, Fault.TEXT_DAMAGED), finding(28)]),
    (31, 1, [finding(31)]),
)


def write(
    path: Path, pages: Sequence[tuple[int, int, list[DocumentFault]]] = PAGES, *, restart: bool = False
) -> Progress:
    with contextlib.closing(Journal(path, now=NOW, restart=restart)) as journal:
        for page in pages:
            journal.add(*page)
        return journal.progress


def reopen(path: Path) -> Progress:
    with contextlib.closing(Journal(path, now=LATER, restart=False)) as journal:
        return journal.progress


def test_a_resumed_journal_has_the_written_pages(tmp_path: Path) -> None:
    written = write(tmp_path / "deep/down/journal")
    assert (written.after, written.checked, written.wrong, written.faults.total()) == (31, 11, 3, 4)
    assert reopen(tmp_path / "deep/down/journal") == written


def test_a_journal_cut_anywhere_resumes_after_the_last_whole_page(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    write(path)
    whole = path.read_bytes()
    ends = [len(part) for part in (b"\n".join(whole.split(b"\n")[:count]) + b"\n" for count in range(1, 5))]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        pages = max(sum(end <= cut for end in ends) - 1, 0)
        progress = reopen(path)
        assert progress.after == (PAGES[pages - 1][0] if pages else 0)
        assert progress.begun_at == (NOW if cut >= ends[0] else LATER)
        write(path, PAGES[pages:])
        assert reopen(path).findings == [found for page in PAGES for found in page[2]]


@pytest.mark.parametrize("damage", [b"\0" * 40 + b"\n", b"[1, 2]\n", b'{"begun_at": 3}\n', b"\xff\n"])
def test_unreadable_lines_are_left_out(damage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    written = write(path)
    path.write_bytes(path.read_bytes() + damage)
    assert reopen(path) == written
    path.write_bytes(damage)
    assert reopen(path) == Progress(LATER)


def test_a_restart_begins_again(tmp_path: Path) -> None:
    write(tmp_path / "journal")
    assert write(tmp_path / "journal", [], restart=True) == Progress(NOW)
    assert reopen(tmp_path / "journal") == Progress(NOW)


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    with contextlib.closing(Journal(tmp_path / "journal", now=NOW, restart=False)) as journal:
        journal.add(*PAGES[0])
        with refused(Reason.BAD_REQUEST):
            Journal(tmp_path / "journal", now=NOW, restart=True)
    assert reopen(tmp_path / "journal").after == 10


def test_an_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with refused(Reason.FOLDER_UNUSABLE, "file/journal"):
        Journal(tmp_path / "file/journal", now=NOW, restart=False)


def test_the_list_of_findings_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "MAX_LISTED", 3)
    progress = write(tmp_path / "journal", [(page, 2, [finding(page * 2), finding(page * 2 + 1)]) for page in range(9)])
    assert (progress.wrong, progress.faults[Fault.RAW_MISSING]) == (18, 18)
    assert [found.document_id for found in progress.findings] == [0, 1, 2]
    assert reopen(tmp_path / "journal") == progress
