-- name: can_migrate
-- From PostgreSQL 15 on, only the owner of a database may create tables in its schema public.
SELECT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)

-- name: lock_migrations
-- The lock ends with the transaction. Two programs that start at once migrate one after the other.
SELECT pg_advisory_xact_lock(hashtext('headwater.migrations'))

-- name: migrations_table_exists
SELECT to_regclass('schema_migrations') IS NOT NULL

-- name: make_migrations_table
CREATE TABLE IF NOT EXISTS schema_migrations (
    number      int PRIMARY KEY,
    name        text NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT clock_timestamp()
)

-- name: applied_migrations
SELECT number, name FROM schema_migrations ORDER BY number

-- name: record_migration
-- $1 number, $2 name
INSERT INTO schema_migrations (number, name) VALUES ($1, $2)

-- name: forget_migration
-- $1 number
DELETE FROM schema_migrations WHERE number = $1
