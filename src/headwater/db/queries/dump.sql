-- name: speak_plainly
-- What is copied must be read alike by every server, however it is set up, and may take long. In a transaction.
SELECT set_config(name, value, true)
FROM (VALUES ('datestyle', 'ISO, MDY'), ('intervalstyle', 'postgres'), ('timezone', 'UTC'), ('bytea_output', 'hex'),
             ('extra_float_digits', '1'), ('xmloption', 'content'), ('statement_timeout', '0'), ('lock_timeout', '0'),
             ('idle_in_transaction_session_timeout', '0'), ('transaction_timeout', '0')) AS wanted (name, value)
JOIN pg_settings s USING (name)

-- name: columns_to_copy
-- $1 table. What a server works out by itself is not copied.
SELECT attname::text FROM pg_attribute
WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum

-- name: sequences
-- How far each has counted.
SELECT sequencename::text AS name, last_value AS last FROM pg_sequences
WHERE schemaname = current_schema() AND last_value IS NOT NULL ORDER BY 1

-- name: set_sequence
-- $1 name, $2 how far it has counted
SELECT setval($1::text::regclass, $2)

-- name: tables_there
-- Everything in the schema that holds or shows rows, whoever made it; extensions aside.
SELECT relname::text FROM pg_class c
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY 1

-- name: raw_files
-- What rows say of raw files, by pages of document ids. $1 after this id, $2 how many
SELECT id, raw_path, raw_hash, raw_bytes FROM documents WHERE id > $1 ORDER BY id LIMIT $2

-- name: raw_files_by_path_hash
-- The same for some paths. $1 SHA-256 of each path
SELECT raw_path, raw_hash, raw_bytes FROM documents WHERE sha256(convert_to(raw_path, 'UTF8')) = ANY ($1::bytea[])

-- name: raw_files_being_replaced
-- The same for pages that somebody is at: their file may be a newer one than their row tells of. A lease that ended
-- a while ago has lost its holder.
SELECT d.raw_path, d.raw_hash, d.raw_bytes FROM frontier_queue q JOIN documents d USING (url_id)
WHERE q.lease_until > clock_timestamp() - interval '10 s'

-- name: count_documents
SELECT count(*) FROM documents

-- name: indexes_to_rebuild
-- Those that no constraint needs: to fill a table first and index it then is many times quicker.
SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = current_schema()::regnamespace
  AND NOT EXISTS (SELECT FROM pg_constraint n WHERE n.conindid = i.indexrelid)
ORDER BY 1

-- name: clear_for_loading
-- Empty all tables (migrations may have put something there), without those indexes, and with no trigger counting what
-- was counted before.
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

-- name: loaded
-- Let triggers see again what comes.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN SELECT oid::regclass AS name FROM pg_class
                 WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' LOOP
        EXECUTE format('ALTER TABLE %s ENABLE TRIGGER USER', found.name);
    END LOOP;
END $$

-- name: gather_statistics
-- What the planner goes by, for every table of ours.
ANALYZE
