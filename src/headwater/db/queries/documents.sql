-- name: save_texts
-- Saves each text once and returns the hashes of the new texts. Arrays: $1 hashes, $2 bodies; $3 now
INSERT INTO texts (content_hash, body, first_seen_at)
SELECT content_hash, body, $3 FROM unnest($1::bytea[], $2::text[]) AS g (content_hash, body) ORDER BY content_hash
ON CONFLICT DO NOTHING
RETURNING content_hash

-- name: keep_texts
-- Keep texts from being deleted until the transaction ends. Returns those that exist. $1 hashes
SELECT content_hash FROM texts WHERE content_hash = ANY ($1::bytea[]) ORDER BY content_hash FOR KEY SHARE

-- name: save_document
-- $1 url id, $2 source, $3 content hash, $4 title, $5 byline, $6 published, $7 language, $8 image, $9 abstract,
-- $10 canonical URL, $11 provenance, $12 normalizer, $13 raw path, $14 raw hash, $15 raw bytes, $16 now, $17 what to search in,
-- $18 fetched URL, $19 content type, $20 body status, $21 artifacts, $22 updated,
-- $23 confidence, $24 the source's selectors, $25 region.
-- The caller cuts the text to search in, because a tsvector holds at most 1 MB. A text that changed stays as a revision.
-- Returns whether the document was known and one of its fields changed. The trigger `record_changed` compares
-- the same columns.
WITH was AS (
    SELECT id, revision, content_hash, title, byline, published_at, language, region, image, abstract, raw_path, raw_hash, fetched_at
    FROM documents WHERE url_id = $1
), replaced AS (
    INSERT INTO document_revisions (document_id, revision, content_hash, title, raw_hash, fetched_at, replaced_at)
    SELECT id, revision, content_hash, title, raw_hash, fetched_at, $16 FROM was WHERE content_hash <> $3
), unused AS (
    INSERT INTO unused_raw_files (url_id, path) SELECT $1, raw_path FROM was WHERE raw_path <> $13 ON CONFLICT DO NOTHING
)
INSERT INTO documents AS d (url_id, source_id, content_hash, title, byline, published_at, language, image, abstract,
                       canonical_url, provenance, normalizer, raw_path, raw_hash, raw_bytes, fetched_at, search,
                       fetched_url, content_type, body_status, artifacts, updated_at, confidence, selectors, region)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
        setweight(to_tsvector('english', left($4, 2000)), 'A') || to_tsvector('english', $17), $18, $19, $20, $21,
        $22, $23, $24, $25)
ON CONFLICT (url_id) DO UPDATE
    SET revision = d.revision + (d.content_hash <> excluded.content_hash)::int,
        content_hash = excluded.content_hash, title = excluded.title, byline = excluded.byline,
        published_at = excluded.published_at, language = excluded.language, region = excluded.region, image = excluded.image,
        abstract = excluded.abstract, canonical_url = excluded.canonical_url, provenance = excluded.provenance,
        normalizer = excluded.normalizer, raw_path = excluded.raw_path, raw_hash = excluded.raw_hash,
        raw_bytes = excluded.raw_bytes, fetched_at = excluded.fetched_at, search = excluded.search,
        fetched_url = excluded.fetched_url, content_type = excluded.content_type,
        body_status = excluded.body_status, artifacts = excluded.artifacts, updated_at = excluded.updated_at,
        confidence = excluded.confidence, selectors = excluded.selectors
RETURNING EXISTS (
    SELECT FROM was
    WHERE (was.content_hash, was.title, was.byline, was.published_at, was.language, was.region, was.image, was.abstract)
          IS DISTINCT FROM (d.content_hash, d.title, d.byline, d.published_at, d.language, d.region, d.image, d.abstract))

-- name: current_texts
-- The content hash of each URL's document. $1 url ids
SELECT url_id, content_hash FROM documents WHERE url_id = ANY ($1::bigint[])

-- name: revisions
-- The earlier revisions of a document, newest first. $1 document id
SELECT revision, title, encode(content_hash, 'hex') AS content_hash, encode(raw_hash, 'hex') AS raw_hash, fetched_at, replaced_at FROM document_revisions
WHERE document_id = $1 ORDER BY revision DESC

-- name: list_documents
-- Newest first. $1 limit, $2 fetched before or NULL, $3 id before or NULL, $4 source name or NULL
SELECT d.id, u.url, s.name AS source, d.title, d.language, d.region, d.fetched_at,
       coalesce(d.published_at, (SELECT min(i.published_at) FROM items i
        WHERE i.url_id = d.url_id AND NOT i.published_is_sighting)) AS published_at
FROM documents d JOIN url_frontier u ON u.id = d.url_id JOIN sources s ON s.id = d.source_id
WHERE ($2::timestamptz IS NULL OR (d.fetched_at, d.id) < ($2, $3::bigint)) AND ($4::text IS NULL OR s.name = $4)
ORDER BY d.fetched_at DESC, d.id DESC LIMIT $1

-- name: get_document
-- $1 id
SELECT d.id, u.url, s.name AS source, d.title, d.byline, d.language, d.region,
       coalesce(d.published_at, (SELECT min(i.published_at) FROM items i
        WHERE i.url_id = d.url_id AND NOT i.published_is_sighting)) AS published_at,
       d.updated_at, d.image, d.abstract,
       d.canonical_url, d.provenance, d.confidence, d.normalizer, d.raw_path, encode(d.raw_hash, 'hex') AS raw_hash,
       d.raw_bytes, d.fetched_at, encode(d.content_hash, 'hex') AS content_hash, d.revision, d.body_status, d.artifacts, t.body AS text
FROM documents d
JOIN url_frontier u ON u.id = d.url_id JOIN sources s ON s.id = d.source_id JOIN texts t USING (content_hash)
WHERE d.id = $1

-- name: search_documents
-- Best first, with the number of all documents that match. A word or phrase in the title counts more. If no document is on
-- the page, one row has the number only. $1 query in web-search syntax, $2 limit, $3 offset; $4 source's name, $5 category,
-- $6 topic, $7 language, $8 published or, if that is unknown, fetched since, each or NULL
WITH matching AS MATERIALIZED (
    SELECT d.id, ts_rank_cd(d.search, wanted, 1) AS rank, d.fetched_at
    FROM websearch_to_tsquery('english', $1) AS wanted, documents d JOIN sources s ON s.id = d.source_id
    WHERE d.search @@ wanted
      AND ($4::text IS NULL OR s.name = $4) AND ($7::text IS NULL OR d.language = $7)
      AND ($5::text IS NULL OR starts_with((s.settings ->> 'category') || '/', $5 || '/'))
      AND ($6::text IS NULL OR EXISTS (
            SELECT FROM items i WHERE i.url_id = d.url_id AND lower((i.tags -> 'topic')::text)::jsonb ? lower($6)))
      AND ($8::timestamptz IS NULL OR coalesce(d.published_at, (
            SELECT min(i.published_at) FROM items i WHERE i.url_id = d.url_id AND NOT i.published_is_sighting),
            d.fetched_at) >= $8)
), page AS (
    SELECT * FROM matching ORDER BY rank DESC, fetched_at DESC, id DESC LIMIT $2 OFFSET $3
)
SELECT counted.total, d.id, u.url, s.name AS source, d.title, d.language, d.region, d.fetched_at, page.rank,
       coalesce(d.published_at, (SELECT min(i.published_at) FROM items i
        WHERE i.url_id = d.url_id AND NOT i.published_is_sighting)) AS published_at,
       ts_headline('english', left(t.body, 50000), websearch_to_tsquery('english', $1),
                   'MaxWords=30, MinWords=12, StartSel=⟦, StopSel=⟧') AS snippet
FROM (SELECT count(*) AS total FROM matching) counted
LEFT JOIN (page JOIN documents d USING (id) JOIN url_frontier u ON u.id = d.url_id JOIN sources s ON s.id = d.source_id
           JOIN texts t USING (content_hash)) ON true
ORDER BY page.rank DESC, d.fetched_at DESC, d.id DESC

-- name: document_leads
-- The lead of each document is its abstract, or else the beginning of its text. $1 ids, $2 characters
SELECT d.id, left(coalesce(nullif(d.abstract, ''), t.body), $2) AS lead
FROM documents d JOIN texts t USING (content_hash) WHERE d.id = ANY ($1::bigint[])

-- name: document_counts
SELECT (SELECT count(*) FROM documents) AS documents, (SELECT count(*) FROM texts) AS texts

-- name: revision_text
-- A document at a revision. $1 document id, $2 revision, or NULL for the last
-- A revision came when the one before it was replaced. The first one came when its text was first seen on any page.
SELECT d.id, u.url, d.revision AS last_revision, r.revision, r.title, r.fetched_at, t.body AS text,
       coalesce((SELECT o.replaced_at FROM document_revisions o WHERE o.document_id = d.id AND o.revision = r.revision - 1),
                t.first_seen_at) AS came_at
FROM documents d
JOIN url_frontier u ON u.id = d.url_id
CROSS JOIN LATERAL (
    SELECT d.revision, d.title, d.fetched_at, d.content_hash
    UNION ALL
    SELECT o.revision, o.title, o.fetched_at, o.content_hash FROM document_revisions o WHERE o.document_id = d.id
) r
JOIN texts t ON t.content_hash = r.content_hash
WHERE d.id = $1 AND r.revision = coalesce($2::int, d.revision)

-- name: document_of_url
-- $1 url id
SELECT id FROM documents WHERE url_id = $1

-- name: search_index_is_whole
-- NULL if there is no index.
SELECT (SELECT indisvalid AND indisready FROM pg_index WHERE indexrelid = to_regclass('documents_search'))

-- name: try_to_lock_search_index
-- The connection keeps the lock until it closes. No process waits for the lock.
SELECT pg_try_advisory_lock(hashtext('headwater.search_index'))

-- name: drop_search_index
DROP INDEX CONCURRENTLY IF EXISTS documents_search

-- name: make_search_index
-- The same index as in migration 004, made while documents are read and written. An interrupted index is not whole.
CREATE INDEX CONCURRENTLY documents_search ON documents USING gin (search)

-- name: remove_statement_timeout
-- For this connection.
SET statement_timeout = 0
