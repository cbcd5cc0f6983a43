-- name: add_story_documents
-- Documents with their URLs and texts. $1 source; arrays: $2 URLs, $3 hosts, $4 titles, $5 times of publication, $6 texts; $7 now.
-- Returns the ids in this order.
WITH given AS (
    SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[])
        WITH ORDINALITY AS g (url, host, title, published_at, body, n)
), urls AS (
    INSERT INTO url_frontier (url, url_hash, host, source_id, origin, discovered_at, status, reason)
    SELECT url, sha256(url::bytea), host, $1, 'sitemap', $7, 'fetched', 'stored' FROM given ORDER BY n RETURNING id, url
), added AS (
    INSERT INTO texts (content_hash, body, first_seen_at)
    SELECT DISTINCT ON (1) sha256(convert_to(body, 'UTF8')), body, $7::timestamptz FROM given ON CONFLICT DO NOTHING
), saved AS (
    INSERT INTO documents (url_id, source_id, content_hash, title, published_at, provenance, normalizer, raw_path, raw_hash,
                           raw_bytes, fetched_at)
    SELECT urls.id, $1, sha256(convert_to(body, 'UTF8')), title, published_at, '{}', 'bench', given.url, sha256(given.url::bytea),
           1, $7
    FROM given JOIN urls USING (url) ORDER BY n
    RETURNING id, url_id
)
SELECT saved.id FROM saved JOIN urls ON urls.id = saved.url_id JOIN given USING (url) ORDER BY n

-- name: continue_ids
-- $1 the id of the next document
SELECT setval(pg_get_serial_sequence('documents', 'id'), $1, false)

-- name: story_of_each
SELECT document_id, story_id FROM story_documents

-- name: copy_stories
-- Copy the stories of the documents so far, as if they were those of earlier days: the words of later days have other keys,
-- and all other texts have other shingles. $1 which copy, $2 documents in a copy, $3 the first document of the original
WITH copied AS (
    INSERT INTO story_documents (document_id, story_id, links, signature)
    SELECT document_id - $1::bigint * $2::bigint, story_id - $1::bigint * $2::bigint,
           ARRAY(SELECT link - $1::bigint * $2::bigint FROM unnest(links) link), signature
    FROM story_documents WHERE document_id >= $3::bigint ORDER BY document_id
)
INSERT INTO story_keys (key, document_id)
SELECT CASE WHEN key < 4294967296 THEN key # ($1::bigint * 2654435761 & 4294967295) ELSE key - ((2 * $1::bigint) << 32) END,
       document_id - $1::bigint * $2::bigint
FROM story_keys WHERE document_id >= $3::bigint ORDER BY 1, 2

-- name: add_plain_documents
-- Documents that no test reads, so that the tables have their size. $1 source, $2 from this number, $3 to this number
WITH urls AS (
    INSERT INTO url_frontier (url, url_hash, host, source_id, origin, discovered_at, status, reason)
    SELECT 'http://plain.example/' || n, sha256(n::text::bytea), 'plain.example', $1, 'sitemap', '2026-01-01', 'fetched', 'stored'
    FROM generate_series($2::int, $3::int) n RETURNING id, url
), added AS (
    INSERT INTO texts (content_hash, body, first_seen_at)
    SELECT sha256(n::text::bytea), repeat(md5(n::text) || ' ', 40), '2026-01-01' FROM generate_series($2::int, $3::int) n
)
INSERT INTO documents (url_id, source_id, content_hash, title, published_at, language, provenance, normalizer, raw_path,
                       raw_hash, raw_bytes, fetched_at)
SELECT id, $1, sha256(substr(url, 22)::bytea), url, '2026-01-01', 'en', '{}', 'bench', url, sha256(url::bytea), 1, '2026-01-01'
FROM urls

-- name: story_sizes
SELECT (SELECT count(*) FROM documents) AS documents, (SELECT count(*) FROM story_documents) AS placed,
       (SELECT count(*) FROM story_keys) AS keys,
       pg_total_relation_size('story_documents') + pg_total_relation_size('story_keys') AS bytes
