"""What people see of the upkeep (spec 8.2)."""

from collections import Counter
from datetime import UTC, datetime

import pytest

from headwater.cli import show_upkeep
from headwater.db.dump import Table
from headwater.demo.sites import HOSTILE_TITLE
from headwater.documents.upkeep import Sweep, Verified
from headwater.documents.verify import Fault, Finding
from headwater.documents.verify_journal import Progress
from headwater.storage.backup_manifest import Manifest
from headwater.storage.corpus_copy import Extent
from headwater.storage.folder import Swept
from headwater.storage.restore import Restored

BEGUN = datetime(2026, 3, 12, 2, 0, tzinfo=UTC)


def finding(number: int, fault: Fault) -> Finding:
    return Finding(number, HOSTILE_TITLE, "board", HOSTILE_TITLE, fault, HOSTILE_TITLE)


def test_a_verify_is_told_fault_by_fault_and_whatever_a_page_calls_itself_is_harmless(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = [finding(number, Fault.RAW_MISSING) for number in range(12)] + [finding(50, Fault.TEXT_DAMAGED)]
    faults = Counter({Fault.RAW_MISSING: 1012, Fault.TEXT_DAMAGED: 1})
    show_upkeep.verified(Verified(Progress(BEGUN, 99, 5000, 1013, faults, found), resumed_after=7))
    printed = capsys.readouterr().out
    assert [mark for mark in printed if not (mark.isprintable() or mark == "\n")] == []
    for said in (
        "One begun 2026-03-12 02:00 UTC was interrupted: it went on after document 7.",
        "1,012  raw_missing: The raw file is not there.",
        "document 9 of board: ",
        "and 1,002 more: --json lists them",
        "1  text_damaged",
        "document 50 of board: ",
        "1,013 of 5,000 documents are not right.",
    ):
        assert said in printed
    assert "document 10 of board" not in printed


def test_every_fault_has_its_sentence() -> None:
    assert all(fault.sentence.endswith(".") for fault in Fault)


DOCUMENTS = Table("documents", [], 5000, 4_000_000, "")
MANIFEST = Manifest("0.1.0", 12, 18, BEGUN, 2, 1, Extent(5001, 230_000_000), [DOCUMENTS], {})


def test_what_a_backup_has_and_has_not_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    show_upkeep.backed_up(MANIFEST, f"/mnt/{HOSTILE_TITLE}")
    printed = " ".join(capsys.readouterr().out.split())
    assert [mark for mark in printed if not mark.isprintable()] == []
    assert printed.startswith("2 of 5,000 documents have no raw file here.")
    assert "1 of 5,000 documents have another raw file than their row tells of." in printed
    assert printed.endswith(
        "5,000 documents, 5,001 raw files (230.0 MB) and all tables (4.0 MB), as of 2026-03-12 02:00:00 UTC."
    )


def test_what_was_restored_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    show_upkeep.restored(Restored(MANIFEST, 13, missing=2, unlike=["a/raw/1", *["b"] * 11]))
    printed = " ".join(capsys.readouterr().out.split())
    assert "2 of 5,000 documents have no raw file in the backup: they had none when it was made." in printed
    assert "12 of 5,000 documents have another raw file in the backup than their row tells of:" in printed
    assert "a/raw/1 b" in printed
    assert " and 2 more" in printed
    assert "Restored 5,000 documents" in printed
    assert "The schema was brought from version 12 to 13." in printed


def test_what_was_swept_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    sweeps = [Sweep("bills", Swept(2, 3_400_000)), Sweep("news", Swept()), Sweep("odd", Swept(), "The drafts [bold].")]
    show_upkeep.sweeps(sweeps, ["stranger"], dry_run=False)
    assert capsys.readouterr().out.splitlines() == [
        "bills: 2 drafts (3.4 MB)",
        "The drafts [bold].",
        "The folder stranger belongs to no source; it was left alone.",
        "2 drafts (3.4 MB) removed.",
    ]
