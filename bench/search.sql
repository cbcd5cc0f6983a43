-- name: add_documents
-- Documents with their URLs and texts. $1 source; arrays: $2 URLs, $3 hosts, $4 titles, $5 languages, $6 days of publication,
-- $7 texts. Returns the ids in this order.
WITH given AS (
    SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::text[])
        WITH ORDINALITY AS g (url, host, title, language, published_at, body, n)
), urls AS (
    INSERT INTO url_frontier (url, url_hash, host, source_id, origin, discovered_at, status, reason)
    SELECT url, sha256(url::bytea), host, $1, 'sitemap', published_at, 'fetched', 'stored' FROM given ORDER BY n RETURNING id, url
), added AS (
    INSERT INTO texts (content_hash, body, first_seen_at)
    SELECT DISTINCT ON (1) sha256(convert_to(body, 'UTF8')), body, published_at FROM given ON CONFLICT DO NOTHING
), saved AS (
    INSERT INTO documents (url_id, source_id, content_hash, title, published_at, language, provenance, normalizer, raw_path,
                           raw_hash, raw_bytes, fetched_at)
    SELECT urls.id, $1, sha256(convert_to(body, 'UTF8')), title, published_at, language, '{}', 'bench', given.url,
           sha256(given.url::bytea), 1, published_at
    FROM given JOIN urls USING (url) ORDER BY n
    RETURNING id, url_id
)
SELECT saved.id FROM saved JOIN urls ON urls.id = saved.url_id JOIN given USING (url) ORDER BY n

-- name: make_english_words
-- The words of PostgreSQL's English configuration alone.
CREATE TEMPORARY TABLE english AS
SELECT d.id, setweight(to_tsvector('english', d.title), 'A') || to_tsvector('english', left(t.body, 100000)) AS words
FROM documents d JOIN texts t USING (content_hash)

-- name: english_search
-- $1 words, $2 how many
SELECT id FROM english, websearch_to_tsquery('english', $1) wanted
WHERE words @@ wanted ORDER BY ts_rank_cd(words, wanted, 1) DESC, id DESC LIMIT $2

-- name: drop_index
DROP INDEX document_search_words

-- name: make_index
CREATE INDEX document_search_words ON document_search USING gin (words, titles, marks)

-- name: sizes
SELECT pg_total_relation_size('document_search') AS total, pg_relation_size('document_search_words') AS index
