-- name: take_slot
-- Take a slot, or take over one whose holder died. Answers nothing when somebody has or had it.
-- $1 source, $2 slot, $3 now, $4 holder, $5 token, $6 until
INSERT INTO runs AS r (source_id, slot, started_at, lease_holder, lease_token, lease_until, attempts)
VALUES ($1, $2, $3, $4, $5, $6, 1)
ON CONFLICT (source_id, slot) DO UPDATE
    SET lease_holder = $4, lease_token = $5, lease_until = $6, attempts = r.attempts + 1
    WHERE r.status = 'running' AND r.lease_token IS NULL
RETURNING id, attempts

-- name: end_run
-- $1 id, $2 token, $3 status, $4 reason, $5 items or NULL, $6 now
UPDATE runs
SET status = $3, reason = $4, item_count = $5, finished_at = $6,
    lease_holder = NULL, lease_token = NULL, lease_until = NULL
WHERE id = $1 AND lease_token = $2
RETURNING true

-- name: return_expired_runs
-- A run whose holder died is free to be taken again; one that lost its holder three times has failed. $1 now
UPDATE runs
SET lease_holder = NULL, lease_token = NULL, lease_until = NULL,
    status = CASE WHEN attempts < 3 THEN 'running' ELSE 'failed' END,
    reason = CASE WHEN attempts < 3 THEN NULL ELSE 'worker_lost' END,
    finished_at = CASE WHEN attempts < 3 THEN NULL ELSE $1::timestamptz END
WHERE lease_token IS NOT NULL AND lease_until <= $1
RETURNING id

-- name: give_back_run
-- Stopped before its end: free to be taken again, at no cost. $1 id, $2 token
UPDATE runs SET lease_holder = NULL, lease_token = NULL, lease_until = NULL, attempts = greatest(attempts - 1, 0)
WHERE id = $1 AND lease_token = $2

-- name: returned_slots
-- Slots that lost their holder and wait to be taken again.
SELECT s.id, s.name, s.kind, s.settings, s.enabled, s.created_at, r.slot
FROM runs r JOIN sources s ON s.id = r.source_id
WHERE r.status = 'running' AND r.lease_token IS NULL AND s.enabled
ORDER BY r.slot

-- name: renew_run
-- A run that goes on keeps its lease. $1 id, $2 token, $3 until
UPDATE runs SET lease_until = $3 WHERE id = $1 AND lease_token = $2 RETURNING true
