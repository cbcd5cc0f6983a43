-- name: why_url
-- A URL, its origin, and its place in the queue. `ahead` counts the URLs of the same turn that come first, to 1,001 at
-- most. $1 hash, $2 now
SELECT u.id, u.url, u.host, u.status, u.reason, u.origin, u.depth, u.hops, u.discovered_at, u.last_fetched_at,
       u.fetch_count, page.id AS page_id, page.url AS same_as, coalesce(came.url, u.found_on) AS came_from,
       s.id AS source_id, s.name AS source_name, s.kind, s.settings, s.enabled, s.created_at, s.page_delay_ms,
       q.priority, q.due_at, q.attempts, q.lease_holder, q.lease_until, ahead.urls AS ahead
FROM url_frontier u
JOIN sources s ON s.id = u.source_id
LEFT JOIN url_frontier page ON page.id = u.alias_of
LEFT JOIN url_frontier came ON came.id = u.parent_id
LEFT JOIN frontier_queue q ON q.url_id = u.id
LEFT JOIN LATERAL (
    SELECT count(*) AS urls FROM (
        SELECT FROM frontier_queue o
        WHERE o.politeness_key = q.politeness_key AND o.lease_token IS NULL AND o.priority > 0 AND o.due_at <= $2
          AND o.priority >= q.priority AND (o.priority > q.priority OR o.due_at < q.due_at)
        LIMIT 1001
    ) better
) ahead ON true
WHERE u.url_hash = $1

-- name: why_addresses
-- Other addresses of a page, and where it has moved to. $1 id, $2 limit
SELECT url, alias_of IS NOT NULL AS is_same_page FROM url_frontier
WHERE alias_of = $1 OR (parent_id = $1 AND hops > 0 AND alias_of IS NULL)
ORDER BY id DESC LIMIT $2

-- name: why_listed
-- The items that list a URL under its own address. The id of an item is a hash of its source and URL. An array of such ids uses
-- the index, for any number of sources. $1 url
SELECT id FROM items
WHERE id = ANY (ARRAY(SELECT encode(sha256(convert_to(name || ':' || $1::text, 'UTF8')), 'hex') FROM sources))

-- name: why_sightings
-- Items that list a URL or an alias of it, and sources that saw it without an item. $1 id, $2 url, $3 limit, $4 ids of items
WITH listed AS MATERIALIZED (
    SELECT i.source_id, i.url, i.title, i.first_seen_at, i.last_seen_at, i.id
    FROM items i
    WHERE i.url_id = $1
       OR i.id = ANY ($4::text[])
), seen AS (
    SELECT * FROM listed
    UNION ALL
    SELECT t.source_id, $2, NULL, t.first_seen_at, t.first_seen_at, '' FROM sightings t
    WHERE t.url_id = $1 AND NOT EXISTS (SELECT FROM listed WHERE listed.source_id = t.source_id)
)
SELECT s.name AS source, seen.url, seen.title, seen.first_seen_at, seen.last_seen_at, count(*) OVER () AS total
FROM seen JOIN sources s ON s.id = seen.source_id
ORDER BY seen.first_seen_at, seen.id LIMIT $3

-- name: why_fetches
-- $1 id, $2 limit
SELECT attempt, holder, sent_at, finished_at, http_status, body_bytes, elapsed_ms, reason, detail, count(*) OVER () AS total
FROM fetch_log WHERE url_id = $1 ORDER BY id DESC LIMIT $2

-- name: why_document
-- The document of a page. `shared_with` counts other documents with the same text, to 1,001 at most. $1 id
SELECT d.id, d.title, d.revision, d.fetched_at, d.canonical_url, shared.documents AS shared_with
FROM documents d
CROSS JOIN LATERAL (
    SELECT count(*) AS documents FROM (
        SELECT FROM documents o WHERE o.content_hash = d.content_hash AND o.id <> d.id AND d.body_status = 'ok' LIMIT 1001
    ) others
) shared
WHERE d.url_id = $1

-- name: why_jobs
-- Jobs of items that list a URL, or whose page it is, newest first. $1 id, $2 limit, $3 ids of items
SELECT j.job_id, s.name AS source, j.reason, j.created_at, j.settled_at,
       CASE WHEN j.status = 'queued' AND q.lease_token IS NOT NULL THEN 'running' ELSE j.status END AS status
FROM ingestion_jobs j
JOIN sources s ON s.id = j.source_id
LEFT JOIN frontier_queue q ON q.url_id = j.url_id
WHERE j.reference_id = ANY (ARRAY(
    SELECT i.id FROM items i WHERE i.url_id = $1
       OR i.id = ANY ($3::text[])))
ORDER BY j.job_id DESC LIMIT $2

-- name: why_handoffs
-- Hand-offs of the same items, the last updated first. $1 id, $2 limit, $3 ids of items
SELECT h.handoff_id, s.name AS source, h.scrape_run_id, h.status, h.reason_code AS reason, h.attempts, h.job_id, h.updated_at
FROM ingestion_handoffs h
JOIN sources s ON s.id = h.source_id
WHERE h.reference_id = ANY (ARRAY(
    SELECT i.id FROM items i WHERE i.url_id = $1
       OR i.id = ANY ($3::text[])))
ORDER BY h.updated_at DESC, h.handoff_id DESC LIMIT $2

-- name: traced_url
-- $1 document id
SELECT u.id, u.url FROM documents d JOIN url_frontier u ON u.id = d.url_id WHERE d.id = $1
