-- name: documents_to_verify
-- Documents in pages, by id, each with the hash of its text, and whether its page waits to be fetched again.
-- $1 after this id, $2 up to this id, $3 source id or NULL, $4 limit
SELECT d.id, u.url, s.name AS source, d.raw_path, d.raw_hash, d.raw_bytes, d.normalizer, d.fetched_url, d.content_type,
       d.selectors, d.removed_blocks, d.content_hash, sha256(convert_to(t.body, 'UTF8')) AS text_hash, d.fetched_at,
       q.url_id IS NOT NULL AS queued, coalesce(q.lease_until > clock_timestamp(), false) AS being_fetched
FROM documents d
JOIN url_frontier u ON u.id = d.url_id JOIN sources s ON s.id = d.source_id JOIN texts t USING (content_hash)
LEFT JOIN frontier_queue q ON q.url_id = d.url_id
WHERE d.id > $1 AND d.id <= $2 AND ($3::int IS NULL OR d.source_id = $3)
ORDER BY d.id LIMIT $4

-- name: raw_file_of
-- The raw file of the document of a URL. $1 url id
SELECT raw_path, raw_hash, raw_bytes FROM documents WHERE url_id = $1

-- name: extent_to_verify
-- The number of documents after an id, and the last id. $1 after this id, $2 source id or NULL
SELECT count(*) AS documents, coalesce(max(id), 0) AS last FROM documents
WHERE id > $1 AND ($2::int IS NULL OR source_id = $2)
