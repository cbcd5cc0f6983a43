"""The text output of the upkeep commands (spec 8.2)."""

from datetime import UTC, datetime

import pytest

from headwater.cli import upkeep
from headwater.core.record import extend
from headwater.demo.sites import HOSTILE_TITLE
from headwater.documents.upkeep import BackupReport, RestoreReport, SourceSweep, SweepReport, VerifyReport
from headwater.documents.verify import DocumentFault, Fault

BEGUN = datetime(2026, 3, 12, 2, 0, tzinfo=UTC)
BACKUP = BackupReport(
    folder=f"/mnt/{HOSTILE_TITLE}",
    taken_at=BEGUN,
    headwater="0.1.0",
    schema=13,
    postgres=18,
    documents=5000,
    files=5001,
    bytes=230_000_000,
    database_bytes=4_000_000,
    missing=2,
    differing=12,
)


def printed_by(capsys: pytest.CaptureFixture[str]) -> str:
    """The output on one line. It holds nothing that a terminal would obey."""
    printed = capsys.readouterr().out
    assert [mark for mark in printed if not (mark.isprintable() or mark == "\n")] == []
    return " ".join(printed.split())


def finding(number: int, fault: Fault) -> DocumentFault:
    return DocumentFault(number, HOSTILE_TITLE, "board", HOSTILE_TITLE, fault, HOSTILE_TITLE)


def test_a_verify_is_shown_fault_by_fault_and_a_hostile_title_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    found = [finding(number, Fault.RAW_MISSING) for number in range(12)] + [finding(50, Fault.TEXT_DAMAGED)]
    faults = {Fault.RAW_MISSING: 1012, Fault.TEXT_DAMAGED: 1}
    upkeep.print_verify(VerifyReport(BEGUN, 7, 5000, 3987, 1013, faults, found, 1000))
    printed = printed_by(capsys)
    for part in (
        "document 7.",
        "1,012 raw_missing: ",
        "document 9 of board: ",
        "and 1,002 more",
        "1 text_damaged: ",
        "document 50 of board: ",
        "1,013 of 5,000 documents",
    ):
        assert part in printed
    assert "document 10 of board" not in printed


def test_every_fault_has_its_sentence() -> None:
    assert all(fault.sentence.endswith(".") for fault in Fault)


def test_the_contents_and_the_faults_of_a_backup_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    upkeep.print_backup(BACKUP)
    printed = printed_by(capsys)
    for part in (
        "2 of 5,000 documents",
        "12 of 5,000 documents",
        "5,001 raw files (230.0 MB)",
        "2026-03-12 02:00:00 UTC",
    ):
        assert part in printed


def test_a_restore_names_the_first_files_that_differ(capsys: pytest.CaptureFixture[str]) -> None:
    files = ["a/raw/1", *["b"] * 11]
    upkeep.print_restore(extend(BACKUP, RestoreReport, schema_before=12, differing_files=files))
    printed = printed_by(capsys)
    for part in ("2 of 5,000 documents", "12 of 5,000 documents", "a/raw/1 b", " and 2 more", "from version 12 to 13."):
        assert part in printed


def test_swept_drafts_are_shown_source_by_source(capsys: pytest.CaptureFixture[str]) -> None:
    sweeps = [SourceSweep("bills", 2, 3_400_000), SourceSweep("news", 0, 0), SourceSweep("odd", 0, 0, "The [bold].")]
    upkeep.print_sweep(SweepReport(dry_run=False, drafts=2, bytes=3_400_000, sources=sweeps, without_source=["other"]))
    bills, odd, without_source, total = capsys.readouterr().out.splitlines()
    assert (bills, odd) == ("bills: 2 drafts (3.4 MB)", "The [bold].")
    assert " other " in without_source
    assert total.startswith("2 drafts (3.4 MB) ")
