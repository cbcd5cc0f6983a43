-- name: begin_purge
-- The source is not polled again, and its name is not free until the purge has ended. $1 id, $2 now
WITH gone AS (DELETE FROM poll_state WHERE source_id = $1)
UPDATE sources
SET purge_began_at = coalesce(purge_began_at, $2), removed_at = coalesce(removed_at, $2), enabled = false
WHERE id = $1

-- name: next_purge
-- The next source whose purge has not ended, by id. $1 after this id
SELECT id, name FROM sources WHERE purge_began_at IS NOT NULL AND id > $1 ORDER BY id LIMIT 1

-- name: is_in_purge
-- $1 names
SELECT name FROM sources WHERE name = ANY ($1::text[]) AND purge_began_at IS NOT NULL LIMIT 1

-- name: count_purge
-- $1 source
SELECT (SELECT count(*) FROM items WHERE source_id = $1) AS items,
       (SELECT count(*) FROM url_frontier WHERE source_id = $1) AS urls

-- name: purge_handoffs
-- $1 source, $2 how many
DELETE FROM ingestion_handoffs
WHERE handoff_id IN (SELECT handoff_id FROM ingestion_handoffs WHERE source_id = $1 ORDER BY handoff_id LIMIT $2)

-- name: purge_jobs
-- The changes of the jobs stay, with the addresses of their pages. $1 source, $2 how many
WITH chosen AS MATERIALIZED (
    SELECT job_id FROM ingestion_jobs WHERE source_id = $1 ORDER BY job_id LIMIT $2
), reported AS (
    UPDATE changes c SET url = u.url FROM url_frontier u
    WHERE c.job_id = ANY (ARRAY (SELECT job_id FROM chosen)) AND u.id = c.url_id
)
DELETE FROM ingestion_jobs WHERE job_id IN (SELECT job_id FROM chosen)

-- name: purge_items
-- $1 source, $2 how many
DELETE FROM items WHERE id IN (SELECT id FROM items WHERE source_id = $1 ORDER BY published_at LIMIT $2)

-- name: purge_sightings
-- $1 source, $2 how many
DELETE FROM sightings
WHERE source_id = $1 AND url_id = ANY (ARRAY (SELECT url_id FROM sightings WHERE source_id = $1 LIMIT $2))

-- name: url_ids_to_purge
-- The ids of the URLs of a source, in pages. $1 source, $2 after this id, $3 how many
SELECT id FROM url_frontier WHERE source_id = $1 AND id > $2 ORDER BY id LIMIT $3

-- name: urls_to_purge
-- Returns locked URLs of a source, each with another source that lists it or leads to it: an active one first.
-- It runs after the locks in a statement of its own, so it sees each document and each listing that was saved before.
-- $1 source, $2 url ids
SELECT u.id, u.url, u.host, d.raw_path, owner.id AS owner_id, owner.name AS owner_name
FROM (SELECT id, url, host FROM url_frontier WHERE source_id = $1 AND id = ANY ($2::bigint[])) u
LEFT JOIN documents d ON d.url_id = u.id
LEFT JOIN LATERAL (
    SELECT s.id, s.name
    FROM (SELECT source_id FROM sightings WHERE url_id = u.id
          UNION ALL SELECT source_id FROM items WHERE url_id = u.id
          UNION ALL SELECT source_id FROM ingestion_jobs WHERE url_id = u.id
          UNION ALL SELECT source_id FROM url_frontier WHERE alias_of = u.id
          UNION ALL SELECT source_id FROM url_frontier WHERE redirect_target = u.id) o
    JOIN sources s ON s.id = o.source_id
    WHERE s.id <> $1 AND s.purge_began_at IS NULL
    ORDER BY s.removed_at IS NOT NULL, s.id LIMIT 1
) owner ON true
ORDER BY u.id

-- name: hand_over_urls
-- Give locked URLs to other sources. Arrays: $1 url ids, $2 their new sources
WITH given AS (
    SELECT * FROM unnest($1::bigint[], $2::int[]) AS g (url_id, source_id)
), unlisted AS (
    DELETE FROM sightings t USING given WHERE t.url_id = given.url_id AND t.source_id = given.source_id
)
UPDATE url_frontier u SET source_id = given.source_id, subpath = NULL FROM given WHERE u.id = ANY ($1) AND u.id = given.url_id

-- name: hand_over_documents
-- Give the documents of locked URLs to other sources. Arrays: $1 url ids, $2 sources, $3 the new paths of the raw files
WITH given AS (
    SELECT * FROM unnest($1::bigint[], $2::int[], $3::text[]) AS g (url_id, source_id, path)
), unused AS (
    INSERT INTO unused_raw_files (url_id, path) SELECT url_id, raw_path FROM documents WHERE url_id = ANY ($1) ON CONFLICT DO NOTHING
), marked AS (
    UPDATE document_search s SET marks = array_replace(marks, 'source:' || d.source_id, 'source:' || given.source_id)
    FROM documents d JOIN given ON given.url_id = d.url_id WHERE d.url_id = ANY ($1) AND s.document_id = d.id
)
UPDATE documents d SET source_id = given.source_id, raw_path = given.path FROM given
WHERE d.url_id = ANY ($1) AND d.url_id = given.url_id

-- name: lock_purged_urls
-- Lock the deleted URLs among these. $1 url ids, $2 source
SELECT id FROM url_frontier
WHERE id = ANY ($1::bigint[]) AND source_id = $2 AND status = 'dead' AND reason = 'deleted'
ORDER BY id FOR UPDATE

-- name: unused_urls
-- The locked URLs to which no row refers. It runs after the locks in a statement of its own, so it sees each row that was
-- saved before. $1 url ids
SELECT id FROM url_frontier u
WHERE id = ANY ($1::bigint[])
  AND NOT EXISTS (SELECT FROM documents d WHERE d.url_id = u.id)
  AND NOT EXISTS (SELECT FROM unused_raw_files f WHERE f.url_id = u.id)
  AND NOT EXISTS (SELECT FROM items i WHERE i.url_id = u.id)
  AND NOT EXISTS (SELECT FROM ingestion_jobs j WHERE j.url_id = u.id)
  AND NOT EXISTS (SELECT FROM url_frontier a WHERE a.alias_of = u.id)

-- name: unlink_urls
-- Remove all references to URLs. $1 url ids
WITH unlinked AS (
    UPDATE canonical_attempts SET url_id = NULL WHERE url_id = ANY ($1::bigint[])
)
UPDATE url_frontier
SET parent_id = CASE WHEN parent_id = ANY ($1) THEN NULL ELSE parent_id END,
    redirect_target = CASE WHEN redirect_target = ANY ($1) THEN NULL ELSE redirect_target END
WHERE parent_id = ANY ($1) OR redirect_target = ANY ($1)

-- name: purge_urls
-- Delete locked URLs, with their sightings and their fetches. $1 url ids
DELETE FROM url_frontier WHERE id = ANY ($1::bigint[])

-- name: purge_source
-- Delete a source without rows, with its runs and its sizes. Returns no row if it has some still. $1 source
DELETE FROM sources s
WHERE s.id = $1 AND s.purge_began_at IS NOT NULL
  AND NOT EXISTS (SELECT FROM url_frontier WHERE source_id = s.id)
  AND NOT EXISTS (SELECT FROM items WHERE source_id = s.id)
  AND NOT EXISTS (SELECT FROM ingestion_jobs WHERE source_id = s.id)
  AND NOT EXISTS (SELECT FROM documents WHERE source_id = s.id)
RETURNING true

-- name: has_source
-- $1 source
SELECT EXISTS (SELECT FROM sources WHERE id = $1)
