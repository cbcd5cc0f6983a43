-- name: take_run
-- Start a run, unless the source has one under way or the slot is done. $1 source, $2 trigger, $3 slot or NULL,
-- $4 day or NULL, $5 now, $6 holder, $7 token, $8 until
INSERT INTO runs (source_id, trigger, slot, day, status, started_at, lease_holder, lease_token, lease_until, attempts)
SELECT $1, $2, $3, $4, 'running', $5, $6, $7, $8, count(*) + 1
FROM runs WHERE source_id = $1 AND slot = $3::timestamptz
HAVING count(*) FILTER (WHERE status = 'succeeded') = 0
ON CONFLICT DO NOTHING
RETURNING id

-- name: renew_run
-- Renew the lease of a run. $1 id, $2 token, $3 until
UPDATE runs SET lease_until = $3 WHERE id = $1 AND lease_token = $2 RETURNING true

-- name: end_run
-- $1 id, $2 token, $3 status, $4 reason, $5 error or NULL, $6 items, $7 pages, $8 fetched, $9 total, $10 NEW, $11 LATEST,
-- each or NULL; $12 now
UPDATE runs
SET status = $3, reason = $4, error = $5, item_count = $6, page_count = $7, fetched_count = $8, total_count = $9,
    new_count = $10, latest_count = $11, finished_at = $12,
    lease_holder = NULL, lease_token = NULL, lease_until = NULL
WHERE id = $1 AND lease_token = $2
RETURNING true

-- name: drop_run
-- Delete a run that could not start. $1 id, $2 token
DELETE FROM runs WHERE id = $1 AND lease_token = $2

-- name: return_expired_runs
-- A run whose lease expired has failed. $1 now
UPDATE runs
SET lease_holder = NULL, lease_token = NULL, lease_until = NULL, status = 'failed', reason = 'worker_lost', finished_at = $1
WHERE lease_token IS NOT NULL AND lease_until <= $1
RETURNING id

-- name: slot_runs
-- The runs of a source's slots from one slot on. $1 source, $2 the first slot
SELECT slot, reason, finished_at FROM runs WHERE source_id = $1 AND slot >= $2 ORDER BY slot, id

-- name: run_under_way
-- $1 source
SELECT id, lease_until FROM runs WHERE source_id = $1 AND status = 'running'

-- name: list_runs
-- Newest first. $1 source, $2 status, $3 day, $4 before this id, $5 one id, each or NULL; $6 how many
SELECT r.id, s.name AS source, r.trigger, r.slot, r.day, r.status, r.reason, r.error, r.item_count AS items,
       r.page_count AS pages, r.fetched_count AS fetched, r.total_count AS total, r.new_count AS new,
       r.latest_count AS latest, r.started_at, r.finished_at,
       extract(epoch FROM r.finished_at - r.started_at)::float AS seconds, r.attempts
FROM runs r JOIN sources s ON s.id = r.source_id
WHERE ($1::int IS NULL OR r.source_id = $1) AND ($2::text IS NULL OR r.status = $2) AND ($3::date IS NULL OR r.day = $3)
  AND ($4::bigint IS NULL OR r.id < $4) AND ($5::bigint IS NULL OR r.id = $5)
ORDER BY r.id DESC LIMIT $6
