"""The schema: every step up has a step down, and both ways end in exactly the same place."""

from collections.abc import Callable

import asyncpg
import pytest

from headwater.app.maintenance import RESCUERS
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db import migrate, sql
from headwater.db.dump import TABLES
from headwater.db.pool import Database, open_database
from tests.refusals import refused

pytestmark = pytest.mark.both_servers

SCHEMA = """
SELECT 'column' AS sort, table_name || '.' || column_name AS name,
       concat_ws(' ', data_type, is_nullable, column_default, is_identity) AS what
FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL
SELECT 'constraint', conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL
SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL
SELECT 'storage', relname, coalesce(array_to_string(reloptions, ','), '') FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
ORDER BY 1, 2, 3
"""


async def schema(database: Database) -> list[tuple[str, str, str]]:
    async with database.connection() as connection:
        return [tuple(row) for row in await connection.fetch(SCHEMA)]


@pytest.mark.empty_database
async def test_up_down_up_ends_in_the_same_schema(make_settings: Callable[..., Settings]) -> None:
    """Issue 2, store/."""
    async with open_database(make_settings()) as database:
        applied = await migrate.up(database)
        first = await schema(database)
        undone = await migrate.down(database, 0)
        left = {name for sort, name, _ in await schema(database) if sort == "storage"}
        await migrate.up(database)
        assert [step.number for step in undone] == [step.number for step in reversed(applied)]
        assert left == {"schema_migrations"}
        assert await schema(database) == first


@pytest.mark.empty_database
async def test_each_migration_can_be_rolled_back(make_settings: Callable[..., Settings]) -> None:
    async with open_database(make_settings()) as database:
        await migrate.up(database)
        for step in reversed(migrate.all_migrations()):
            before = await schema(database)
            await migrate.down(database, step.number - 1)
            assert await schema(database) != before
        await migrate.up(database)


async def test_a_backup_holds_each_table_after_the_tables_that_it_references(
    make_settings: Callable[..., Settings],
) -> None:
    """Spec 9.1."""
    async with open_database(make_settings()) as database:
        await migrate.up(database)
        async with database.connection() as connection:
            tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            references = await connection.fetch(
                "SELECT conrelid::regclass::text AS holder, confrelid::regclass::text AS held FROM pg_constraint "
                "WHERE contype = 'f'"
            )
    assert {row["tablename"] for row in tables} == set(TABLES)
    assert references
    for row in references:
        assert TABLES.index(row["held"]) <= TABLES.index(row["holder"])


def test_migrations_are_numbered_without_gaps() -> None:
    assert [step.number for step in migrate.all_migrations()] == list(range(1, len(migrate.all_migrations()) + 1))


async def test_up_does_nothing_the_second_time(database: Database) -> None:
    assert await migrate.up(database) == []


async def test_a_newer_schema_is_refused_and_left_alone(database: Database) -> None:
    """Issue 2, bad input."""
    async with database.connection() as connection:
        await connection.execute("INSERT INTO schema_migrations (number, name) VALUES (999, 'future')")
    before = await schema(database)
    for attempt in (migrate.up(database), migrate.down(database, 0), migrate.require_current(database)):
        with refused(Reason.SCHEMA_MISMATCH, 999):
            await attempt
    assert await schema(database) == before


async def test_a_schema_whose_migrations_have_other_names_is_refused_and_left_alone(database: Database) -> None:
    """An old build had other migrations under the same numbers."""
    async with database.connection() as connection:
        await connection.execute("UPDATE schema_migrations SET name = 'outbox' WHERE number = 2")
    before = await schema(database)
    for attempt in (migrate.up(database), migrate.down(database, 0), migrate.require_current(database)):
        with refused(Reason.SCHEMA_MISMATCH, "002", "outbox", "jobs"):
            await attempt
    assert await schema(database) == before


async def test_a_program_that_may_not_migrate_refuses_an_older_schema(database: Database) -> None:
    await migrate.down(database, 1)
    with refused(Reason.SCHEMA_MISMATCH, "version 1", "headwater migrate up"):
        await migrate.require_current(database)


async def test_every_leased_table_has_the_same_lease_columns_and_is_rescued(database: Database) -> None:
    """Spec 2.4."""
    async with database.connection() as connection:
        rows = await connection.fetch(
            "SELECT table_name, array_agg(column_name::text || ' ' || data_type ORDER BY column_name) AS shape "
            "FROM information_schema.columns WHERE table_schema = 'public' AND column_name LIKE 'lease_%' GROUP BY 1"
        )
    shapes = {row["table_name"]: row["shape"] for row in rows}
    assert set(shapes) == set(RESCUERS)
    assert {tuple(shape) for shape in shapes.values()} == {
        ("lease_holder text", "lease_token uuid", "lease_until timestamp with time zone")
    }


async def test_the_database_refuses_an_incomplete_lease_and_a_bad_source_name(database: Database) -> None:
    """Spec 2.4: constraints encode the states."""
    async with database.connection() as connection:
        await connection.execute("INSERT INTO sources (name, kind, created_at) VALUES ('s', 'site', now())")
        with pytest.raises(asyncpg.CheckViolationError):
            await connection.execute("INSERT INTO poll_state (source_id, lease_holder) VALUES (1, 'me')")
        with pytest.raises(asyncpg.CheckViolationError):
            await connection.execute("INSERT INTO sources (name, kind, created_at) VALUES ('../x', 'site', now())")


async def test_the_oldest_supported_server_understands_every_query(database: Database) -> None:
    """Spec 9.1: any PostgreSQL from 15 on."""
    async with database.connection() as connection:
        for name in sql.names():
            try:
                await connection.prepare(sql.query(name))
            except asyncpg.PostgresError as error:
                raise AssertionError(f"{name}: {error}") from None


async def test_no_query_makes_a_connection_look_up_types(database: Database) -> None:
    """It would ask once for each, with a query that takes longer than most of ours."""
    asked = []
    async with database.connection() as connection:
        connection.add_query_logger(lambda record: asked.append(record.query))
        for name in sql.names():
            await connection.prepare(sql.query(name))
    assert asked == []


OBJECTS = """
SELECT 'relation ' || relname FROM pg_class WHERE relnamespace = 'public'::regnamespace
UNION ALL SELECT 'function ' || proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION ALL SELECT 'trigger ' || tgname FROM pg_trigger WHERE NOT tgisinternal
"""


async def objects(database: Database) -> set[str]:
    async with database.connection() as connection:
        return {row[0] for row in await connection.fetch(OBJECTS)}


async def test_hand_offs_are_rolled_back_alone_and_applied_again_on_request(database: Database) -> None:
    """Spec 7.5."""
    before, whole = await objects(database), await schema(database)
    assert [step.name for step in await migrate.down_only(database, "handoffs")] == ["handoffs"]
    gone = before - await objects(database)
    assert {name for name in gone if not name.startswith("relation ")} == {
        "function count_handoffs",
        "function update_ingestion_handoff_timestamp",
        "trigger trg_update_ingestion_handoff_timestamp",
    }
    of_handoffs = ("relation ingestion_handoffs", "relation handoff_counts")
    assert all(name.startswith(of_handoffs) for name in gone if name.startswith("relation "))
    assert await migrate.down_only(database, "handoffs") == []

    await migrate.require_current(database)
    assert await migrate.up(database, restore_optional=False) == [], "a program that starts leaves it rolled back"
    assert [step.name for step in await migrate.up(database)] == ["handoffs"]
    assert await schema(database) == whole
    assert await objects(database) == before


async def test_a_start_migrates_an_older_schema_including_hand_offs(
    database: Database,
) -> None:
    """Spec 7.5."""
    jobs = next(step for step in migrate.all_migrations() if step.name == "jobs")
    await migrate.down(database, jobs.number - 1)
    assert "handoffs" in [step.name for step in await migrate.up(database, restore_optional=False)]


async def test_only_hand_offs_can_be_rolled_back_alone(database: Database) -> None:
    """Spec 7.5."""
    before = await schema(database)
    for name in ("jobs", "schema", "nonsense"):
        with refused(Reason.BAD_REQUEST, "--only: ", repr(name)):
            await migrate.down_only(database, name)
    assert await schema(database) == before


async def test_the_database_sets_the_updated_time_of_a_hand_off(database: Database) -> None:
    """Spec 7.2."""
    async with database.connection() as connection:
        await connection.execute("INSERT INTO sources (name, kind, created_at) VALUES ('s', 'site', now())")
        await connection.execute(
            "INSERT INTO items (id, source_id, url, title, published_at, published_is_sighting, first_seen_at, "
            "last_seen_at) VALUES (repeat('a', 64), 1, 'u', 't', now(), false, now(), now())"
        )
        insert = (
            "INSERT INTO ingestion_handoffs (reference_id, payload_hash, source_id, reason_code) "
            "VALUES (repeat('a', 64), repeat('b', 64), 1, 'queued_from_scrape') RETURNING updated_at"
        )
        first = await connection.fetchval(insert)
        changed = await connection.fetchval(
            "UPDATE ingestion_handoffs SET status = 'failed', updated_at = '2000-01-01' RETURNING updated_at"
        )
        assert changed > first
        with pytest.raises(asyncpg.UniqueViolationError):
            await connection.execute(insert)
        for wrong in ("status = 'skipped'", "status = 'running'", "payload_hash = 'x'"):
            with pytest.raises(asyncpg.CheckViolationError):
                await connection.execute(f"UPDATE ingestion_handoffs SET {wrong}")
