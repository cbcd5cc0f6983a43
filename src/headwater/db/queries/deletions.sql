-- name: lock_queued_urls
-- Lock the places in the queue of those URLs that wait and that no worker fetches. Returns their ids. $1 url ids
SELECT url_id FROM frontier_queue WHERE url_id = ANY ($1::bigint[]) AND lease_token IS NULL
ORDER BY url_id FOR UPDATE SKIP LOCKED

-- name: lock_idle_urls
-- Lock those URLs that have ended, or whose place in the queue is locked: no worker can fetch them until the transaction
-- ends. Returns their ids. $1 url ids, $2 ids whose place is locked
SELECT id FROM url_frontier WHERE id = ANY ($1::bigint[]) AND (status <> 'pending' OR id = ANY ($2::bigint[]))
ORDER BY id FOR UPDATE

-- name: delete_documents
-- Delete the documents of locked URLs, report each deletion as a change, and note the raw files to remove. Remove them also
-- from digests that are not sent yet; a digest that has no other document is dismissed. Returns the id of each document, and
-- the hash of each text that it had. $1 url ids, $2 reason, $3 now
WITH revised AS MATERIALIZED (
    SELECT d.id, r.content_hash FROM documents d JOIN document_revisions r ON r.document_id = d.id
    WHERE d.url_id = ANY ($1::bigint[])
), gone AS (
    DELETE FROM documents WHERE url_id = ANY ($1) RETURNING id, url_id, revision, raw_path, content_hash
), reported AS (
    INSERT INTO changes (url_id, url, document_id, revision, reason, changed_at)
    SELECT gone.url_id, u.url, gone.id, gone.revision, $2, $3 FROM gone JOIN url_frontier u ON u.id = gone.url_id
    ORDER BY gone.id
), unused AS (
    INSERT INTO unused_raw_files (url_id, path) SELECT url_id, raw_path FROM gone ON CONFLICT DO NOTHING
), shortened AS (
    SELECT d.id, (SELECT coalesce(jsonb_agg(o.one ORDER BY o.place), '[]')
                  FROM jsonb_array_elements(d.digest->'documents') WITH ORDINALITY AS o (one, place)
                  WHERE (o.one->>'id')::bigint NOT IN (SELECT id FROM gone)) AS documents
    FROM deliveries d
    WHERE d.digest IS NOT NULL AND d.status IN ('pending', 'parked')
      AND EXISTS (SELECT FROM jsonb_array_elements(d.digest->'documents') o (one) JOIN gone ON gone.id = (o.one->>'id')::bigint)
), unsent AS (
    UPDATE deliveries d SET digest = jsonb_set(d.digest, '{documents}', s.documents)
    FROM shortened s WHERE d.id = s.id AND (s.documents <> '[]' OR d.lease_token IS NOT NULL)
), dismissed AS (
    UPDATE deliveries d SET digest = NULL, status = 'dismissed', reason = $2, ended_at = $3
    FROM shortened s WHERE d.id = s.id AND s.documents = '[]' AND d.lease_token IS NULL
)
SELECT id, content_hash FROM gone UNION SELECT id, content_hash FROM revised

-- name: end_deleted_urls
-- End locked URLs, which are watched no longer. Only a retry fetches them again, and that fetch is unconditional.
-- $1 url ids, $2 reason
WITH left_queue AS (
    DELETE FROM frontier_queue WHERE url_id = ANY ($1::bigint[])
), left_watches AS (
    DELETE FROM watches WHERE url_id = ANY ($1)
)
UPDATE url_frontier SET status = 'dead', reason = $2, alias_of = NULL, etag = NULL, last_modified = NULL
WHERE id = ANY ($1)

-- name: fail_ready_jobs
-- The jobs of deleted pages fail. The trigger `settle_waiting` fails those that wait. $1 url ids, $2 reason, $3 now
UPDATE ingestion_jobs SET status = 'failed', reason = $2, settled_at = $3, updated_at = $3
WHERE url_id = ANY ($1::bigint[]) AND (status = 'ready') IS TRUE

-- name: withdraw_articles
-- The canonical articles of deleted pages fail. $1 url ids, $2 reason
UPDATE canonical_attempts SET code = 'FAIL_HTTP', reason = $2, is_projected = false
WHERE url_id = ANY ($1::bigint[]) AND code IS NULL AND attempted_at IS NOT NULL

-- name: lock_texts
-- $1 hashes. No document can be saved with a locked text.
SELECT content_hash FROM texts WHERE content_hash = ANY ($1::bytea[]) ORDER BY content_hash FOR UPDATE

-- name: delete_unused_texts
-- It runs after lock_texts in a statement of its own, so it sees each document that was saved before. $1 hashes
DELETE FROM texts t
WHERE t.content_hash = ANY ($1::bytea[])
  AND NOT EXISTS (SELECT FROM documents d WHERE d.content_hash = t.content_hash)
  AND NOT EXISTS (SELECT FROM document_revisions r WHERE r.content_hash = t.content_hash)

-- name: url_of_document
-- $1 document id
SELECT url_id FROM documents WHERE id = $1

-- name: next_kept_source
-- The next source that keeps documents for some days only, by id. $1 after this id
SELECT id, keep_days FROM sources WHERE keep_days IS NOT NULL AND removed_at IS NULL AND id > $1 ORDER BY id LIMIT 1

-- name: documents_by_age
-- Documents of a source in pages, by id, and whether each was last fetched before a time. $1 source, $2 time, $3 after this
-- id, $4 how many
SELECT d.id, d.url_id, greatest(d.fetched_at, u.last_fetched_at) < $2 AS is_expired
FROM documents d JOIN url_frontier u ON u.id = d.url_id
WHERE d.source_id = $1 AND d.id > $3 ORDER BY d.id LIMIT $4

-- name: expired_urls
-- Returns locked URLs whose documents a source last fetched before a time. It runs after the locks in a statement of its own,
-- so it sees each fetch that ended before. $1 source, $2 time, $3 url ids
SELECT d.url_id FROM documents d JOIN url_frontier u ON u.id = d.url_id
WHERE d.url_id = ANY ($3::bigint[]) AND d.source_id = $1 AND greatest(d.fetched_at, u.last_fetched_at) < $2

-- name: unused_raw_files
-- Raw files to remove, in pages. $1 and $2 after this URL and path, $3 how many
SELECT url_id, path FROM unused_raw_files WHERE (url_id, path) > ($1::bigint, $2::text) ORDER BY url_id, path LIMIT $3

-- name: unused_raw_files_of_urls
-- Raw files of some URLs to remove, in pages. $1 and $2 after this URL and path, $3 how many, $4 url ids
SELECT url_id, path FROM unused_raw_files WHERE url_id = ANY ($4::bigint[]) AND (url_id, path) > ($1::bigint, $2::text)
ORDER BY url_id, path LIMIT $3

-- name: used_raw_files
-- The raw files among these that are in use: a document names it, or its page waits to be fetched. $1 url ids, $2 paths
SELECT g.url_id, g.path, d.url_id IS NULL AS is_awaited
FROM unnest($1::bigint[], $2::text[]) AS g (url_id, path)
LEFT JOIN documents d ON d.url_id = g.url_id AND d.raw_path = g.path
LEFT JOIN frontier_queue q ON q.url_id = g.url_id
WHERE d.url_id IS NOT NULL OR q.url_id IS NOT NULL

-- name: forget_raw_files
-- $1 url ids, $2 paths
DELETE FROM unused_raw_files f USING unnest($1::bigint[], $2::text[]) AS g (url_id, path)
WHERE f.url_id = ANY ($1) AND f.url_id = g.url_id AND f.path = g.path

-- name: list_sizes
-- The size of each source, and of the database. $1 source's name or NULL
SELECT s.name, coalesce(sum(z.documents), 0)::bigint AS documents, coalesce(sum(z.raw_bytes), 0)::bigint AS raw_bytes,
       coalesce(sum(z.text_bytes), 0)::bigint AS text_bytes
FROM sources s LEFT JOIN source_sizes z ON z.source_id = s.id
WHERE $1::text IS NULL OR s.name = $1
GROUP BY s.id ORDER BY 3 DESC, 1

-- name: database_size
SELECT pg_database_size(current_database())

-- name: merge_source_sizes
-- Merge the sizes of sources with several rows. A change that adds a row does not wait, and a second merge does nothing.
WITH mine AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtext('headwater.source_sizes')) AS locked
), folded AS (
    DELETE FROM source_sizes
    WHERE (SELECT locked FROM mine) AND source_id IN (SELECT source_id FROM source_sizes GROUP BY 1 HAVING count(*) > 1)
    RETURNING *
)
INSERT INTO source_sizes (source_id, items, documents, raw_bytes, text_bytes)
SELECT source_id, sum(items), sum(documents), sum(raw_bytes), sum(text_bytes) FROM folded GROUP BY 1
HAVING sum(items) <> 0 OR sum(documents) <> 0 OR sum(raw_bytes) <> 0 OR sum(text_bytes) <> 0
