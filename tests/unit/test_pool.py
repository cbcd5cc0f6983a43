"""How a database, and what is wrong with it, is named to an operator."""

import asyncpg
import pytest

from headwater.db.pool import find_full_disk, without_password


@pytest.mark.parametrize(
    ("dsn", "named"),
    [
        ("postgresql://me:secret@db.test:5433/corpus", "db.test:5433/corpus"),
        ("postgresql://me:secret@/corpus?host=/run/postgresql&port=5432", "local socket:5432/corpus"),
        ("postgresql://%2Frun%2Fpostgresql/corpus", "local socket/corpus"),
        ("postgresql:///corpus?host=db.test&port=5433", "db.test:5433/corpus"),
        ("postgresql:///corpus", "localhost/corpus"),
        ("postgresql:///", "localhost"),
    ],
)
def test_a_database_is_named_by_where_it_is_looked_for(dsn: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """CONTRIBUTING: what was wrong, and where. Without a host a URL leads to a socket or to a port of this machine."""
    monkeypatch.delenv("PGHOST", raising=False)
    assert without_password(dsn) == named


def test_a_host_that_the_environment_gives_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked where the URL has none."""
    monkeypatch.setenv("PGHOST", "db.test")
    assert without_password("postgresql:///corpus") == "db.test/corpus"


def test_a_server_that_died_of_its_full_disk_is_told_from_one_that_only_went_away() -> None:
    """CONTRIBUTING: where its log cannot be written, PostgreSQL says why and ends, and the connection is closed."""
    closed = asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
    assert find_full_disk(closed) is None
    closed.__cause__ = asyncpg.DiskFullError('could not write to file "pg_wal/xlogtemp.7": No space left on device')
    assert find_full_disk(closed) == str(closed.__cause__)


def test_a_full_disk_hides_no_other_error_of_tasks_side_by_side() -> None:
    """CONTRIBUTING: a fault of the program's own is not told as the operator's."""
    full = asyncpg.DiskFullError("could not extend file")
    assert find_full_disk(ExceptionGroup("", [full, full])) == "could not extend file"
    assert find_full_disk(ExceptionGroup("", [full, KeyError("a fault")])) is None
