-- name: queue_handoffs
-- Queue the items that a run has touched, also those that were handed off before. A running hand-off stays with its holder.
-- Arrays: $1 ids of items, $2 payload hashes; $3 source, $4 run
INSERT INTO ingestion_handoffs AS h (reference_id, payload_hash, source_id, scrape_run_id, reason_code)
SELECT reference_id, payload_hash, $3, $4, 'queued_from_scrape'
FROM unnest($1::text[], $2::text[]) AS g (reference_id, payload_hash) ORDER BY reference_id, payload_hash
ON CONFLICT (reference_id, payload_hash) DO UPDATE
    SET scrape_run_id = excluded.scrape_run_id,
        status = CASE h.status WHEN 'running' THEN h.status ELSE 'queued' END,
        reason_code = CASE h.status WHEN 'running' THEN h.reason_code ELSE 'queued_from_scrape' END,
        attempts = CASE h.status WHEN 'running' THEN h.attempts ELSE 0 END,
        error = CASE h.status WHEN 'running' THEN h.error END
RETURNING handoff_id

-- name: claim_handoffs
-- A repeated claim with the same token returns the same rows, in case the first response was lost.
-- $1 ids, $2 holder, $3 token, $4 until, $5 how many
WITH chosen AS MATERIALIZED (
    SELECT handoff_id FROM ingestion_handoffs
    WHERE handoff_id = ANY ($1::bigint[]) AND (status = 'queued' OR lease_token = $3)
    ORDER BY handoff_id LIMIT $5
    FOR UPDATE SKIP LOCKED
)
UPDATE ingestion_handoffs h
SET status = 'running', attempts = h.attempts + (h.lease_token IS NULL)::int, lease_holder = $2, lease_token = $3, lease_until = $4
WHERE h.handoff_id = ANY (ARRAY (SELECT handoff_id FROM chosen))
RETURNING handoff_id AS id, reference_id, payload_hash, attempts, scrape_run_id

-- name: list_abandoned_ids
-- Queued hand-offs whose run has handed off nothing since a time: its process died. Also those that were taken back from a
-- dead holder, because their leases have expired already. $1 since then, $2 how many
WITH waiting AS MATERIALIZED (
    SELECT handoff_id, scrape_run_id, reason_code FROM ingestion_handoffs
    WHERE status = 'queued' AND (updated_at <= $1 OR reason_code = 'worker_lost')
    ORDER BY updated_at LIMIT $2
),
active AS MATERIALIZED (
    SELECT r.scrape_run_id FROM (SELECT DISTINCT scrape_run_id FROM waiting) r
    WHERE EXISTS (
        SELECT FROM ingestion_handoffs h WHERE h.scrape_run_id = r.scrape_run_id AND h.updated_at > $1
    )
)
SELECT handoff_id FROM waiting
WHERE reason_code = 'worker_lost' OR scrape_run_id IS NULL OR scrape_run_id NOT IN (SELECT scrape_run_id FROM active)

-- name: count_waiting_handoffs
-- $1 how many to count at most
SELECT count(*) AS waiting, min(updated_at) AS since
FROM (SELECT updated_at FROM ingestion_handoffs WHERE status = 'queued' ORDER BY updated_at LIMIT $1) w

-- name: lock_handoffs
-- Lock the hand-offs that the token still holds, until the transaction ends. $1 ids, $2 token
SELECT handoff_id AS id, reference_id, payload_hash, attempts, scrape_run_id FROM ingestion_handoffs
WHERE handoff_id = ANY ($1::bigint[]) AND lease_token = $2
ORDER BY handoff_id
FOR UPDATE

-- name: end_handoffs
-- Arrays: $1 ids, $2 statuses, $3 reasons, $4 jobs or NULL; $5 token, $6 error or NULL
UPDATE ingestion_handoffs h
SET status = g.status, reason_code = g.reason, job_id = coalesce(g.job_id, h.job_id), error = $6,
    lease_holder = NULL, lease_token = NULL, lease_until = NULL
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) AS g (handoff_id, status, reason, job_id)
WHERE h.handoff_id = g.handoff_id AND h.lease_token = $5
RETURNING h.handoff_id

-- name: return_expired_handoffs
-- A hand-off whose holder died is queued again, or fails after the last attempt. $1 now, $2 the number of attempts
UPDATE ingestion_handoffs
SET lease_holder = NULL, lease_token = NULL, lease_until = NULL,
    status = CASE WHEN attempts < $2::int THEN 'queued' ELSE 'failed' END,
    reason_code = CASE WHEN attempts < $2 THEN 'worker_lost' ELSE 'retry_exhausted' END
WHERE lease_token IS NOT NULL AND lease_until <= $1
RETURNING handoff_id

-- name: count_overdue_handoffs
-- $1 now
SELECT count(*) FROM ingestion_handoffs WHERE lease_token IS NOT NULL AND lease_until <= $1

-- name: count_ended_handoffs
-- $1 ids
SELECT count(*) FILTER (WHERE status = 'completed') AS completed, count(*) FILTER (WHERE status = 'failed') AS failed
FROM ingestion_handoffs WHERE handoff_id = ANY ($1::bigint[])

-- name: list_handoffs
-- The newest first. NULL permits any: $1 source, $2 status, $3 run, $4 one id, $5 before this id; $6 limit, $7 offset
WITH page AS MATERIALIZED (
    SELECT * FROM ingestion_handoffs
    WHERE ($1::int IS NULL OR source_id = $1) AND ($2::text IS NULL OR status = $2)
      AND ($2 IS DISTINCT FROM 'running' OR lease_token IS NOT NULL)    -- a running hand-off has a lease, which has an index
      AND ($3::bigint IS NULL OR scrape_run_id = $3) AND ($4::bigint IS NULL OR handoff_id = $4)
      AND ($5::bigint IS NULL OR handoff_id < $5)
    ORDER BY handoff_id DESC LIMIT $6 OFFSET $7
)
SELECT h.handoff_id, h.reference_id, h.payload_hash, s.name AS source, i.title, i.url, h.scrape_run_id, h.status,
       h.reason_code, h.error, h.attempts, h.job_id,
       CASE WHEN j.status = 'queued' AND q.lease_token IS NOT NULL THEN 'running' ELSE j.status END AS job_status,
       j.reason AS job_reason, h.created_at, h.updated_at
FROM page h
JOIN sources s ON s.id = h.source_id
JOIN items i ON i.id = h.reference_id
LEFT JOIN ingestion_jobs j ON j.job_id = h.job_id
LEFT JOIN frontier_queue q ON q.url_id = j.url_id
ORDER BY h.handoff_id DESC

-- name: count_handoffs
-- NULL permits any: $1 source, $2 status
SELECT coalesce(sum(handoffs), 0)::bigint FROM handoff_counts
WHERE ($1::int IS NULL OR source_id = $1) AND ($2::text IS NULL OR status = $2)

-- name: count_handoffs_of
-- The hand-offs of a run, or those with an id. $1 to $4 as in list_handoffs
SELECT count(*) FROM ingestion_handoffs
WHERE ($1::int IS NULL OR source_id = $1) AND ($2::text IS NULL OR status = $2)
  AND ($3::bigint IS NULL OR scrape_run_id = $3) AND ($4::bigint IS NULL OR handoff_id = $4)

-- name: merge_handoff_counts
-- Merge the counts of sources with several rows of a status.
WITH mine AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtext('headwater.handoff_counts')) AS locked
), folded AS (
    DELETE FROM handoff_counts
    WHERE (SELECT locked FROM mine)
      AND source_id IN (SELECT source_id FROM handoff_counts GROUP BY source_id, status HAVING count(*) > 1)
    RETURNING *
)
INSERT INTO handoff_counts (source_id, status, handoffs)
SELECT source_id, status, sum(handoffs) FROM folded GROUP BY 1, 2 HAVING sum(handoffs) <> 0

-- name: requeue_handoffs
-- Queue failed hand-offs again. $1 ids
UPDATE ingestion_handoffs SET status = 'queued', reason_code = 'queued_from_scrape', attempts = 0, error = NULL
WHERE handoff_id = ANY ($1::bigint[]) AND status = 'failed'
RETURNING handoff_id
