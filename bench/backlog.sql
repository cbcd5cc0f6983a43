-- name: add_hosts
-- $1 hosts in addition to the hot one, $2 now
INSERT INTO host_state (host, ready_at)
SELECT 'hot.example', $2::timestamptz
UNION ALL
SELECT 'www.site-' || lpad(n::text, 5, '0') || '.example', $2 FROM generate_series(0, $1::int - 1) n

-- name: add_urls
-- Queue URLs number $1 to $2: six of ten on the hot host, the others on $3 hosts; $4 source, $5 now. The hot host has the
-- oldest URLs, as a host has that is allowed fewer requests than it has URLs.
WITH numbered AS (
    SELECT n, CASE WHEN n % 10 < 6 THEN 'hot.example'
                   ELSE 'www.site-' || lpad(((n / 10 * 4 + n % 10 - 6) % $3::bigint)::text, 5, '0') || '.example' END AS host
    FROM generate_series($1::bigint, $2::bigint) n
), written AS (
    SELECT n, host, 'https://' || host || '/news/2026/03/council-report-on-the-river-flood-' || n AS url FROM numbered
), hashed AS (
    SELECT n, host, url, sha256(url::bytea) AS url_hash FROM written
), added AS (
    INSERT INTO url_frontier (url, url_hash, host, source_id, origin, discovered_at)
    SELECT url, url_hash, host, $4, 'sitemap', $5 FROM hashed
    RETURNING id, host
)
INSERT INTO frontier_queue (url_id, politeness_key, priority, due_at)
SELECT id, host, 7,
       $5::timestamptz - CASE host WHEN 'hot.example' THEN interval '2 hours' ELSE interval '1 hour' END
           + id * interval '100 us'
FROM added

-- name: indexes
-- Indexes slow down a bulk load. They are dropped before it and made again after it.
SELECT i.indrelid::regclass::text AS table_name, i.indexrelid::regclass::text AS index_name,
       pg_get_indexdef(i.indexrelid) AS index_definition,
       c.conname AS constraint_name, pg_get_constraintdef(c.oid) AS constraint_definition
FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.contype = 'u'
WHERE i.indrelid IN ('url_frontier'::regclass, 'frontier_queue'::regclass) AND NOT i.indisprimary

-- name: cool_down
-- $1 host, $2 until
UPDATE host_state SET not_before = $2, ready_at = $2 WHERE host = $1
