"""Drafts that killed writers left are swept, and nothing else ever is (spec 1.5), through the real program."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headwater.core.settings import Settings
from headwater.db import sources
from headwater.db.pool import Database
from headwater.storage.folder import Corpus
from tests.program import headwater

HOUR = 3600
Janitor = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
async def janitor(database: Database, make_settings: Callable[..., Settings], tmp_path: Path) -> Janitor:
    """The command, in a house with the sources `bills` and `news`."""
    settings = make_settings()
    async with database.connection() as connection:
        for name in ("bills", "news"):
            assert await sources.add_source(connection, name, "manual", {}, now=datetime.now(UTC), due={})

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return headwater(
            "source", "janitor", *words, cwd=tmp_path, data_dir=settings.data_dir, database_url=settings.database_url
        )

    return run


def draft(tmp_path: Path, source: str, number: int, *, hours_old: float, size: int = 1000) -> Path:
    path = tmp_path / "data/corpus" / source / "bodies/raw/.tmp" / f"{number:032x}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    written = time.time() - hours_old * HOUR
    os.utime(path, (written, written))
    return path


def test_old_drafts_of_a_source_are_swept_and_counted(janitor: Janitor, tmp_path: Path) -> None:
    old = [draft(tmp_path, "bills", number, hours_old=25) for number in range(3)]
    young = draft(tmp_path, "bills", 9, hours_old=23)
    other = draft(tmp_path, "news", 1, hours_old=99)
    raw = Corpus(tmp_path / "data/corpus").write("bills", "118/hr1.xml", b"<bill/>")
    os.utime(tmp_path / "data/corpus" / raw.path, (0, 0))

    counted = janitor("bills", "--dry-run")
    assert (counted.returncode, counted.stdout) == (0, "3 drafts (3.0 kB) would be removed.\n")
    assert all(path.exists() for path in old)

    swept = janitor("bills")
    assert (swept.returncode, swept.stdout, swept.stderr) == (0, "3 drafts (3.0 kB) removed.\n", "")
    assert not any(path.exists() for path in old)
    assert young.exists()
    assert other.exists()
    assert (tmp_path / "data/corpus" / raw.path).read_bytes() == b"<bill/>"
    assert janitor("bills").stdout == "0 drafts (0 bytes) removed.\n"


def test_all_sources_are_swept_and_a_folder_without_one_is_named_and_left_alone(
    janitor: Janitor, tmp_path: Path
) -> None:
    draft(tmp_path, "bills", 1, hours_old=48)
    draft(tmp_path, "news", 1, hours_old=48, size=10)
    stranger = draft(tmp_path, "nobodys", 1, hours_old=48)
    shown = janitor("--all", "--dry-run").stdout
    for said in ("bills: 1 draft (1.0 kB)", "news: 1 draft (10 bytes)", "nobodys belongs to no source", "2 drafts"):
        assert said in shown
    assert json.loads(janitor("--all", "--json").stdout) == {
        "dry_run": False,
        "drafts": 2,
        "bytes": 1010,
        "sources": [
            {"name": "bills", "drafts": 1, "bytes": 1000, "error": None},
            {"name": "news", "drafts": 1, "bytes": 10, "error": None},
        ],
        "without_source": ["nobodys"],
    }
    assert stranger.exists()


def test_a_source_that_cannot_be_swept_does_not_stop_the_others(janitor: Janitor, tmp_path: Path) -> None:
    """A link in place of the drafts leads elsewhere: its target stays, and the exit code is 1."""
    elsewhere = draft(tmp_path, "nobodys", 1, hours_old=48)
    linked = tmp_path / "data/corpus/bills/bodies/raw/.tmp"
    linked.parent.mkdir(parents=True)
    linked.symlink_to(elsewhere.parent)
    mine = draft(tmp_path, "news", 1, hours_old=48)
    swept = janitor("--all")
    assert swept.returncode == 1
    assert "The drafts of source bills cannot be swept" in swept.stdout
    assert elsewhere.exists()
    assert not mine.exists()
    assert_refused(janitor("bills"), "links are not followed")


def assert_refused(answer: "subprocess.CompletedProcess[str]", said: str) -> None:
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("headwater: ")
    assert len(answer.stderr.splitlines()) == 1
    assert said in answer.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("parliament",), "no source named parliament"),
        (("../news",), "no source named ../news"),
        (("nobodys",), "no source named nobodys"),
        ((), "Name a source, or use --all"),
        (("news", "--all"), "Name a source, or use --all"),
        (("news", "--older-than", "yesterday"), "--older-than: 'yesterday' is not a time"),
        (("news", "--older-than", "-1h"), "'-1h' is not a time such as"),
        (("news", "--older-than", "5s"), "younger than 120 s"),
        (("--all", "--older-than", "0h"), "'0h' is not a time such as"),
    ],
)
def test_invalid_arguments_are_refused_and_nothing_is_swept(
    words: tuple[str, ...], said: str, janitor: Janitor, tmp_path: Path
) -> None:
    kept = [draft(tmp_path, source, 1, hours_old=48) for source in ("news", "nobodys")]
    assert_refused(janitor(*words), said)
    assert all(path.exists() for path in kept)


def test_the_minimum_age_can_be_chosen(janitor: Janitor, tmp_path: Path) -> None:
    draft(tmp_path, "news", 1, hours_old=3)
    assert json.loads(janitor("news", "--older-than", "4h", "--json").stdout)["drafts"] == 0
    assert json.loads(janitor("news", "--older-than", "90m", "--json").stdout)["drafts"] == 1


def test_an_empty_corpus_has_no_drafts(janitor: Janitor) -> None:
    assert janitor("--all").stdout == "0 drafts (0 bytes) removed.\n"
