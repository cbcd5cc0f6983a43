-- name: save_texts
-- Saves each text once and returns the hashes of the new texts. Arrays: $1 hashes, $2 bodies; $3 now
INSERT INTO texts (content_hash, body, first_seen_at)
SELECT content_hash, body, $3 FROM unnest($1::bytea[], $2::text[]) AS g (content_hash, body) ORDER BY content_hash
ON CONFLICT DO NOTHING
RETURNING content_hash

-- name: keep_texts
-- Keep texts from being deleted until the transaction ends. Returns those that exist. $1 hashes
SELECT content_hash FROM texts WHERE content_hash = ANY ($1::bytea[]) ORDER BY content_hash FOR KEY SHARE

-- name: save_documents
-- Arrays: $1 url ids, $2 sources, $3 content hashes, $4 titles, $5 bylines, $6 published, $7 languages, $8 images,
-- $9 abstracts, $10 canonical URLs, $11 provenances, $12 normalizers, $13 raw paths, $14 raw hashes, $15 raw bytes,
-- $16 fetched URLs, $17 content types, $18 body statuses, $19 artifacts in JSON, $20 updated, $21 confidences,
-- $22 the selectors of the sources, $23 regions, $24 page kinds, $25 removed blocks as text; $26 now.
-- A text that changed stays as a revision.
-- Returns url id and id; whether the document was known and one of its fields changed (the trigger `record_changed` compares
-- the same columns); and whether search has the same words already.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::int[], $3::bytea[], $4::text[], $5::text[], $6::timestamptz[], $7::text[], $8::text[],
                         $9::text[], $10::text[], $11::jsonb[], $12::text[], $13::text[], $14::bytea[], $15::int[], $16::text[],
                         $17::text[], $18::text[], $19::text[], $20::timestamptz[], $21::jsonb[], $22::jsonb[], $23::text[], $24::text[],
                         $25::text[])
        AS g (url_id, source_id, content_hash, title, byline, published_at, language, image, abstract, canonical_url, provenance,
              normalizer, raw_path, raw_hash, raw_bytes, fetched_url, content_type, body_status, artifacts, updated_at, confidence,
              selectors, region, page_kind, removed_blocks)
), was AS MATERIALIZED (
    SELECT d.id, d.url_id, d.revision, d.content_hash, d.title, d.byline, d.published_at, d.language, d.region, d.image, d.abstract,
           d.raw_path, d.raw_hash, d.fetched_at, given.content_hash AS new_hash, given.raw_path AS new_path
    FROM given CROSS JOIN LATERAL (SELECT k.* FROM documents k WHERE k.url_id = given.url_id LIMIT 1) d
), replaced AS (
    INSERT INTO document_revisions (document_id, revision, content_hash, title, raw_hash, fetched_at, replaced_at)
    SELECT id, revision, content_hash, title, raw_hash, fetched_at, $26 FROM was WHERE content_hash <> new_hash
), unused AS (
    INSERT INTO unused_raw_files (url_id, path) SELECT url_id, raw_path FROM was WHERE raw_path <> new_path ON CONFLICT DO NOTHING
), saved AS (
    INSERT INTO documents AS d (url_id, source_id, content_hash, title, byline, published_at, language, image, abstract,
                                canonical_url, provenance, normalizer, raw_path, raw_hash, raw_bytes, fetched_at,
                                fetched_url, content_type, body_status, artifacts, updated_at, confidence, selectors, region,
                                page_kind, removed_blocks)
    SELECT url_id, source_id, content_hash, title, byline, published_at, language, image, abstract, canonical_url, provenance,
           normalizer, raw_path, raw_hash, raw_bytes, $26, fetched_url, content_type, body_status, artifacts::jsonb, updated_at, confidence,
           selectors, region, page_kind, removed_blocks::bigint[]
    FROM given ORDER BY url_id
    ON CONFLICT (url_id) DO UPDATE
        SET revision = d.revision + (d.content_hash <> excluded.content_hash)::int,
            content_hash = excluded.content_hash, title = excluded.title, byline = excluded.byline,
            published_at = excluded.published_at, language = excluded.language, region = excluded.region, image = excluded.image,
            abstract = excluded.abstract, canonical_url = excluded.canonical_url, provenance = excluded.provenance,
            normalizer = excluded.normalizer, raw_path = excluded.raw_path, raw_hash = excluded.raw_hash,
            raw_bytes = excluded.raw_bytes, fetched_at = excluded.fetched_at,
            fetched_url = excluded.fetched_url, content_type = excluded.content_type,
            body_status = excluded.body_status, artifacts = excluded.artifacts, updated_at = excluded.updated_at,
            confidence = excluded.confidence, selectors = excluded.selectors, page_kind = excluded.page_kind,
            removed_blocks = excluded.removed_blocks
    RETURNING id, url_id, content_hash, title, byline, published_at, language, region, image, abstract
)
SELECT d.url_id, d.id,
       was.id IS NOT NULL AND (was.content_hash, was.title, was.byline, was.published_at, was.language, was.region, was.image, was.abstract)
           IS DISTINCT FROM (d.content_hash, d.title, d.byline, d.published_at, d.language, d.region, d.image, d.abstract) AS is_changed,
       was.id IS NOT NULL AND (was.content_hash, was.title, was.byline, was.published_at, was.language)
           IS NOT DISTINCT FROM (d.content_hash, d.title, d.byline, d.published_at, d.language)
           AND EXISTS (SELECT FROM document_search s WHERE s.document_id = was.id) AS is_in_search
FROM saved d LEFT JOIN was ON was.url_id = d.url_id

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
       d.raw_bytes, d.fetched_at, encode(d.content_hash, 'hex') AS content_hash, d.revision, d.page_kind, cardinality(d.removed_blocks) AS removed_blocks, d.body_status, d.artifacts, t.body AS text
FROM documents d
JOIN url_frontier u ON u.id = d.url_id JOIN sources s ON s.id = d.source_id JOIN texts t USING (content_hash)
WHERE d.id = $1

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
