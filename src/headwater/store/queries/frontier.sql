-- name: submit_urls
-- Insert what is new, queue it and wake its hosts; raise the priority of what is pending. Answers each URL's id.
-- Arrays, one element a URL: $1 url, $2 hash, $3 host, $4 source, $5 origin, $6 priority, $7 depth, $8 hops, $9 parent,
-- $10 subpath; $11 now. Rows go in by hash and by host so that two submits never wait for each other crosswise.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[], $4::int[], $5::text[], $6::int[], $7::int[], $8::int[],
                         $9::bigint[], $10::text[])
        AS g (url, url_hash, host, source_id, origin, priority, depth, hops, parent_id, subpath)
), added AS (
    INSERT INTO url_frontier (url, url_hash, host, source_id, origin, depth, hops, parent_id, subpath, discovered_at)
    SELECT url, url_hash, host, source_id, origin, depth, hops, parent_id, subpath, $11 FROM given ORDER BY url_hash
    ON CONFLICT (url_hash) DO NOTHING
    RETURNING id, url_hash, host
), queued AS (
    INSERT INTO frontier_queue (url_id, host, priority, due_at)
    SELECT added.id, added.host, given.priority, $11 FROM added JOIN given USING (url_hash)
), raised AS (
    UPDATE frontier_queue q SET priority = given.priority
    FROM given JOIN url_frontier u USING (url_hash)
    WHERE q.url_id = u.id AND q.lease_token IS NULL AND q.priority < given.priority
), woken AS (
    INSERT INTO host_state AS h (host, ready_at)
    SELECT DISTINCT host, $11::timestamptz FROM added ORDER BY host
    ON CONFLICT (host) DO UPDATE
        SET ready_at = least(coalesce(h.ready_at, 'infinity'), greatest(h.not_before, excluded.ready_at))
)
SELECT url_hash, id, true AS is_new FROM added
UNION ALL
SELECT u.url_hash, u.id, false FROM url_frontier u JOIN given USING (url_hash)

-- name: find_urls
-- $1 hashes. For those that another submit inserted at the same moment.
SELECT url_hash, id FROM url_frontier WHERE url_hash = ANY ($1::bytea[])

-- name: claim_urls
-- Hosts first: lock those that are ready, take the best due URL of each, lease both with one token.
-- $1 now, $2 how many, $3 holder, $4 lease until, $5 default delay in ms. A row without url_id is a host with nothing
-- due (see rest_hosts). Should the holder die, the host has its pause from the lease's end on: something may have been
-- sent just before.
WITH ready AS MATERIALIZED (
    SELECT host FROM host_state
    WHERE ready_at <= $1 AND (reserved_until IS NULL OR reserved_until <= $1)
    ORDER BY ready_at LIMIT $2
    FOR UPDATE SKIP LOCKED
), picked AS MATERIALIZED (
    SELECT ready.host, best.url_id, gen_random_uuid() AS token
    FROM ready LEFT JOIN LATERAL (
        SELECT q.url_id FROM frontier_queue q
        WHERE q.host = ready.host AND q.lease_token IS NULL AND q.due_at <= $1
        ORDER BY q.priority DESC, q.due_at LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) best ON true
), claimed AS (
    UPDATE frontier_queue q
    SET lease_holder = $3, lease_token = picked.token, lease_until = $4, attempts = q.attempts + 1
    FROM picked
    -- Looked at once more: the pick may be from before another worker had this URL, put it off and gave its host back.
    WHERE q.url_id = picked.url_id AND q.lease_token IS NULL AND q.due_at <= $1
    RETURNING q.url_id, q.host, q.lease_token, q.attempts, q.priority
), held AS (
    UPDATE host_state h
    SET lease_holder = $3, lease_token = claimed.lease_token, lease_until = $4,
        not_before = $4 + greatest(coalesce(h.crawl_delay_ms, $5::int), h.backoff_ms) * interval '1 ms',
        ready_at = $4 + greatest(coalesce(h.crawl_delay_ms, $5), h.backoff_ms) * interval '1 ms'
    FROM claimed WHERE h.host = claimed.host
)
SELECT picked.host, claimed.url_id, claimed.lease_token, claimed.attempts, claimed.priority,
       u.url, u.source_id, s.name AS source_name, u.subpath, u.depth, u.hops, u.origin, u.etag, u.last_modified,
       h.crawl_delay_ms, h.backoff_ms, h.robots_txt, h.robots_fetched_at
FROM picked
JOIN host_state h USING (host)
LEFT JOIN claimed USING (url_id)
LEFT JOIN url_frontier u ON u.id = claimed.url_id
LEFT JOIN sources s ON s.id = u.source_id

-- name: hold_claims
-- The fence: of the given claims, which are still theirs? Those are locked until the transaction ends.
-- $1 url ids, $2 tokens
SELECT q.url_id FROM frontier_queue q
JOIN unnest($1::bigint[], $2::uuid[]) AS g (url_id, token) ON q.url_id = g.url_id AND q.lease_token = g.token
ORDER BY q.url_id
FOR UPDATE OF q

-- name: end_urls
-- A URL leaves the queue for good. Arrays: $1 url ids, $2 statuses, $3 reasons, $4 etags, $5 last-modifieds; $6 now.
WITH given AS (
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[])
        AS g (url_id, status, reason, etag, last_modified)
), left_queue AS (
    DELETE FROM frontier_queue q USING given WHERE q.url_id = given.url_id
)
UPDATE url_frontier u
SET status = given.status, reason = given.reason, etag = given.etag, last_modified = given.last_modified,
    last_fetched_at = $6, fetch_count = u.fetch_count + 1
FROM given WHERE u.id = given.url_id

-- name: requeue_urls
-- A URL goes back to the queue. Arrays: $1 url ids, $2 due times, $3 whether the attempt counts.
UPDATE frontier_queue q
SET lease_holder = NULL, lease_token = NULL, lease_until = NULL, due_at = g.due_at,
    attempts = q.attempts - (NOT g.counts)::int
FROM unnest($1::bigint[], $2::timestamptz[], $3::boolean[]) AS g (url_id, due_at, counts)
WHERE q.url_id = g.url_id

-- name: log_fetches
-- Arrays: $1 url ids, $2 holders, $3 attempts, $4 sent, $5 http statuses, $6 bytes, $7 ms, $8 reasons, $9 details; $10 now.
INSERT INTO fetch_log (url_id, holder, attempt, finished_at, sent_at, http_status, body_bytes, elapsed_ms, reason, detail)
SELECT url_id, holder, attempt, $10, sent_at, http_status, body_bytes, elapsed_ms, reason, detail
FROM unnest($1::bigint[], $2::text[], $3::int[], $4::timestamptz[], $5::int[], $6::int[], $7::int[], $8::text[], $9::text[])
    AS g (url_id, holder, attempt, sent_at, http_status, body_bytes, elapsed_ms, reason, detail)

-- name: expired_claims
-- Claims whose holder is late, locked for whoever returns them. $1 now, $2 how many
SELECT url_id, host, lease_holder, lease_token, attempts FROM frontier_queue
WHERE lease_token IS NOT NULL AND lease_until <= $1
ORDER BY lease_until LIMIT $2
FOR UPDATE SKIP LOCKED

-- name: unfinished_urls
-- How many URLs are still queued or under way, and when the next of them is due.
SELECT count(*) AS queued, count(lease_token) AS leased, min(due_at) AS next_due FROM frontier_queue

-- name: url_outcomes
-- Every URL with its end; a pending one with when it may be fetched at the earliest and with what keeps it waiting: why
-- its host is left alone, else how its last attempt ended. $1 source name or NULL, $2 how many
SELECT u.url, u.status, u.reason, s.name AS source,
       greatest(q.due_at, h.not_before) AS due_at, coalesce(h.blocked_reason, last.reason) AS waiting_reason
FROM url_frontier u
JOIN sources s ON s.id = u.source_id
LEFT JOIN frontier_queue q ON q.url_id = u.id
LEFT JOIN host_state h ON h.host = q.host
LEFT JOIN LATERAL (SELECT reason FROM fetch_log l WHERE l.url_id = q.url_id ORDER BY l.id DESC LIMIT 1) last ON true
WHERE $1::text IS NULL OR s.name = $1
ORDER BY u.id LIMIT $2
