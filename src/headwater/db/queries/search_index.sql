-- name: get_search_index
SELECT generation, current, building, built_to, retired, retired_at, failures, not_before, error FROM search_index

-- name: lock_documents
-- Wait for all transactions that write documents, and hold new ones up until the transaction ends.
LOCK TABLE documents IN SHARE ROW EXCLUSIVE MODE

-- name: begin_index
-- Begin to build an index, unless one is being built. $1 name without its generation
INSERT INTO search_index AS s (generation, building) VALUES (1, $1 || '-1')
ON CONFLICT (is_single_row) DO UPDATE
    SET generation = s.generation + 1, building = $1 || '-' || (s.generation + 1), built_to = 0, error = NULL
    WHERE s.building IS NULL

-- name: save_built_to
-- $1 the index that is being built, $2 the last document before, $3 the last one now
UPDATE search_index SET built_to = $3 WHERE building = $1 AND built_to = $2

-- name: end_index
-- The alias points at the new index. $1 its name, $2 now
UPDATE search_index
SET retired = current, retired_at = CASE WHEN current IS NOT NULL THEN $2::timestamptz END, current = building, building = NULL
WHERE building = $1

-- name: forget_retired
-- $1 the index that was removed
UPDATE search_index SET retired = NULL, retired_at = NULL WHERE retired = $1

-- name: save_index_success
UPDATE search_index SET failures = 0, not_before = NULL, error = NULL WHERE failures > 0

-- name: save_index_failure
-- $1 error, $2 not before
UPDATE search_index SET failures = failures + 1, not_before = $2, error = $1 RETURNING failures

-- name: claim_index_changes
-- Take due changes, the oldest first. $1 now, $2 until, $3 limit
WITH due AS (
    SELECT document_id FROM index_changes WHERE reason IS NULL AND due_at <= $1 ORDER BY due_at, version LIMIT $3
    FOR UPDATE SKIP LOCKED
)
UPDATE index_changes c SET due_at = $2, attempts = attempts + 1 FROM due WHERE c.document_id = due.document_id
RETURNING c.document_id, c.version, c.attempts

-- name: end_index_changes
-- Remove changes that the index has. Arrays: $1 documents, $2 the versions that it has
DELETE FROM index_changes c USING unnest($1::bigint[], $2::bigint[]) AS g (document_id, version)
WHERE c.document_id = g.document_id AND c.version <= g.version

-- name: put_off_index_changes
-- Arrays: $1 documents, $2 versions that were claimed; $3 when they are due
UPDATE index_changes c SET due_at = $3 FROM unnest($1::bigint[], $2::bigint[]) AS g (document_id, version)
WHERE c.document_id = g.document_id AND c.version = g.version

-- name: park_index_changes
-- Park documents that the index refused, also those that no change queued. Arrays: $1 documents, $2 versions, $3 details; $4 reason
INSERT INTO index_changes AS c (document_id, version, reason, detail)
SELECT document_id, version, $4, detail FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS g (document_id, version, detail)
ORDER BY document_id
ON CONFLICT (document_id) DO UPDATE SET reason = excluded.reason, detail = excluded.detail WHERE c.version <= excluded.version

-- name: retry_parked_index_changes
-- Send parked documents again.
UPDATE index_changes SET reason = NULL, detail = NULL, due_at = '-infinity', attempts = 0 WHERE reason IS NOT NULL

-- name: documents_for_index
-- The present documents with these ids. $1 ids
SELECT d.id, d.version, u.url, u.host, s.name AS source, d.source_id, d.title, d.byline, d.language, d.region, d.published_at,
       d.updated_at, d.fetched_at, d.canonical_url, d.image, d.abstract, d.revision, encode(d.content_hash, 'hex') AS content_hash,
       t.body AS text, f.dated_at, ARRAY(
           SELECT DISTINCT lower(topic) FROM items i, jsonb_array_elements_text(
               CASE jsonb_typeof(i.tags -> 'topic') WHEN 'array' THEN i.tags -> 'topic' ELSE '[]' END) topic
           WHERE i.url_id = d.url_id) AS topics,
       ARRAY(SELECT lexeme || ' ' || coalesce(array_to_string(positions, ','), '') FROM unnest(f.titles)) AS titles,
       ARRAY(SELECT lexeme || ' ' || coalesce(array_to_string(positions, ','), '') FROM unnest(f.words)) AS words
FROM documents d
JOIN url_frontier u ON u.id = d.url_id JOIN sources s ON s.id = d.source_id JOIN texts t USING (content_hash)
JOIN document_search f ON f.document_id = d.id
WHERE d.id = ANY ($1::bigint[]) ORDER BY d.id

-- name: ids_to_build
-- $1 after this id, $2 limit
SELECT id FROM documents WHERE id > $1 ORDER BY id LIMIT $2

-- name: count_index_changes
-- Waiting and parked changes, each up to $1.
SELECT (SELECT count(*) FROM (SELECT FROM index_changes WHERE reason IS NULL LIMIT $1) w) AS waiting,
       (SELECT count(*) FROM (SELECT FROM index_changes WHERE reason IS NOT NULL LIMIT $1) p) AS parked

-- name: list_parked
-- Parked documents, the oldest first. $1 limit
SELECT c.document_id, u.url, c.detail FROM index_changes c
LEFT JOIN documents d ON d.id = c.document_id LEFT JOIN url_frontier u ON u.id = d.url_id
WHERE c.reason IS NOT NULL ORDER BY c.version LIMIT $1
