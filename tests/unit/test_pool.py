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
def test_a_database_is_named_without_its_password(dsn: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """CONTRIBUTING: an error names its place. A URL without a host names a socket or a port of this machine."""
    monkeypatch.delenv("PGHOST", raising=False)
    assert without_password(dsn) == named


def test_a_host_that_the_environment_gives_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked where the URL has none."""
    monkeypatch.setenv("PGHOST", "db.test")
    assert without_password("postgresql:///corpus") == "db.test/corpus"


def test_a_server_that_died_of_a_full_disk_differs_from_one_that_went_away() -> None:
    """CONTRIBUTING: PostgreSQL reports that it cannot write its log and ends, and the connection is closed."""
    closed = asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
    assert find_full_disk(closed) is None
    closed.__cause__ = asyncpg.DiskFullError('could not write to file "pg_wal/xlogtemp.7": No space left on device')
    assert find_full_disk(closed) == str(closed.__cause__)


def test_a_full_disk_hides_no_other_error_of_concurrent_tasks() -> None:
    """CONTRIBUTING: an error of the program is not reported as one of the operator."""
    full = asyncpg.DiskFullError("could not extend file")
    assert find_full_disk(ExceptionGroup("", [full, full])) == "could not extend file"
    assert find_full_disk(ExceptionGroup("", [full, KeyError("a fault")])) is None
