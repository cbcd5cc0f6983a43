-- name: set_dump_formats
-- For one transaction: formats that every server reads the same way, rows in the order of their places, no timeouts.
SELECT set_config(name, value, true)
FROM (VALUES ('datestyle', 'ISO, MDY'), ('intervalstyle', 'postgres'), ('timezone', 'UTC'), ('bytea_output', 'hex'),
             ('extra_float_digits', '1'), ('xmloption', 'content'), ('statement_timeout', '0'), ('lock_timeout', '0'),
             ('idle_in_transaction_session_timeout', '0'), ('transaction_timeout', '0'),
             ('synchronize_seqscans', 'off')) AS wanted (name, value)
JOIN pg_settings s USING (name)

-- name: columns_to_copy
-- $1 table. Generated columns are not copied.
SELECT attname::text FROM pg_attribute
WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum

-- name: sequences
-- The last value of each sequence.
SELECT sequencename::text AS name, last_value AS last FROM pg_sequences
WHERE schemaname = current_schema() AND last_value IS NOT NULL ORDER BY 1

-- name: set_sequence
-- $1 name, $2 last value
SELECT setval($1::text::regclass, $2)

-- name: existing_tables
-- All tables and views in the schema, except those of extensions.
SELECT relname::text FROM pg_class c
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY 1

-- name: raw_files
-- Raw files in pages, by document id. $1 after this id, $2 limit
SELECT id, raw_path, raw_hash, raw_bytes FROM documents WHERE id > $1 ORDER BY id LIMIT $2

-- name: raw_files_by_path_hash
-- Raw files by path. $1 SHA-256 of each path
SELECT raw_path, raw_hash, raw_bytes FROM documents WHERE sha256(convert_to(raw_path, 'UTF8')) = ANY ($1::bytea[])

-- name: raw_files_in_fetch
-- Raw files of pages under lease: the file may be newer than the row. A lease that ended 10 s ago has lost its holder.
SELECT d.raw_path, d.raw_hash, d.raw_bytes FROM frontier_queue q JOIN documents d USING (url_id)
WHERE q.lease_until > clock_timestamp() - interval '10 s'

-- name: count_documents
SELECT count(*) FROM documents

-- name: indexes_to_rebuild
-- The indexes that no constraint needs. It is many times faster to fill a table first and index it then.
SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = current_schema()::regnamespace
  AND NOT EXISTS (SELECT FROM pg_constraint n WHERE n.conindid = i.indexrelid)
ORDER BY 1

-- name: clear_for_loading
-- Drops those indexes, disables the triggers and empties all tables: migrations may have inserted rows.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN SELECT i.indexrelid::regclass AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                 WHERE c.relnamespace = current_schema()::regnamespace
                   AND NOT EXISTS (SELECT FROM pg_constraint n WHERE n.conindid = i.indexrelid) LOOP
        EXECUTE format('DROP INDEX %s', found.name);
    END LOOP;
    FOR found IN SELECT oid::regclass AS name FROM pg_class
                 WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' LOOP
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER USER', found.name);
        EXECUTE format('TRUNCATE %s CASCADE', found.name);
    END LOOP;
END $$

-- name: enable_triggers
-- Enables the triggers of all tables again.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN SELECT oid::regclass AS name FROM pg_class
                 WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' LOOP
        EXECUTE format('ALTER TABLE %s ENABLE TRIGGER USER', found.name);
    END LOOP;
END $$

-- name: analyze
-- Statistics of all tables, for the planner.
ANALYZE
