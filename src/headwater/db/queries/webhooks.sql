-- name: add_webhook
-- $1 name, $2 url, $3 secret, $4 events, $5 saved search or NULL, $6 after this position, $7 now. Returns no row if the name is
-- taken.
INSERT INTO webhooks (name, url, secret, events, search_id, position, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (name) DO NOTHING
RETURNING id

-- name: remove_webhook
-- Remove a webhook with its deliveries. $1 name
DELETE FROM webhooks WHERE name = $1 RETURNING id

-- name: enable_webhook
-- An enabled webhook is tried at once. $1 name, $2 whether it is enabled
UPDATE webhooks SET enabled = $2, failures = 0, not_before = NULL WHERE name = $1 RETURNING id

-- name: get_receiver
-- $1 name
SELECT name, url, secret, kind FROM webhooks WHERE name = $1

-- name: has_enabled_webhook
SELECT EXISTS (SELECT FROM webhooks WHERE enabled)

-- name: list_webhooks
-- Webhooks and their state. Of the changes that have no delivery yet, at most $2 are counted and $3 are read.
-- $1 name or NULL
SELECT w.name, CASE WHEN w.kind = 'apprise' THEN split_part(w.url, '://', 1) || '://***' ELSE w.url END AS url, w.kind,
       w.digest_hour, w.timezone, w.quiet_from, w.quiet_to, w.events, s.name AS search, w.enabled, w.failures, outbox.failing_since, w.failing_reason, w.error, w.not_before, w.delivered_at,
       w.created_at, outbox.pending + ahead.changes AS waiting, outbox.parked,
       coalesce(oldest.changed_at, ahead.oldest_at) AS waiting_since
FROM webhooks w
LEFT JOIN saved_searches s ON s.id = w.search_id
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE d.status = 'pending') AS pending, count(*) FILTER (WHERE d.status = 'parked') AS parked,
           min(d.position) FILTER (WHERE d.status = 'pending') AS first,
           min(d.failing_since) FILTER (WHERE d.status = 'pending') AS failing_since
    FROM deliveries d WHERE d.webhook_id = w.id AND d.status IN ('pending', 'parked')
) outbox
LEFT JOIN changes oldest ON oldest.position = outbox.first
CROSS JOIN LATERAL (
    SELECT count(*) AS changes, min(changed_at) AS oldest_at
    FROM (SELECT changed_at
          FROM (SELECT changed_at, CASE WHEN alarm_id IS NOT NULL THEN 'alarm' WHEN job_id IS NOT NULL THEN 'job.failed' WHEN reason IS NOT NULL THEN 'document.deleted'
                            ELSE 'document.ready' END AS event
                FROM changes c WHERE c.position > w.position ORDER BY c.position LIMIT $3) following
          WHERE event = ANY (w.events) LIMIT $2) wanted
) ahead
WHERE $1::text IS NULL OR w.name = $1
ORDER BY w.name

-- name: lock_ready_webhooks
-- Lock the enabled webhooks that may be sent to now and have no quiet hours. $1 now
SELECT id FROM webhooks w WHERE enabled AND (not_before IS NULL OR not_before <= $1) AND NOT is_quiet(w, $1)
FOR NO KEY UPDATE SKIP LOCKED

-- name: lock_webhook
-- $1 name
SELECT id FROM webhooks WHERE name = $1 FOR NO KEY UPDATE

-- name: fan_out
-- Make deliveries of changes, up to the room in each outbox; `report_matches` does it for receivers with a search. $1 webhook ids, $2 how many may be pending, $3 how many may be
-- parked, $4 now, $5 how many changes to read. Returns, for each webhook that advanced, whether it has room left and there
-- may be more changes.
WITH room AS MATERIALIZED (
    SELECT w.id, w.position, w.events,
           CASE WHEN count(*) FILTER (WHERE d.status = 'parked') < $3
                THEN greatest(0, $2 - count(*) FILTER (WHERE d.status = 'pending')) ELSE 0 END AS places
    FROM webhooks w LEFT JOIN deliveries d ON d.webhook_id = w.id AND d.status IN ('pending', 'parked')
    WHERE w.id = ANY ($1::int[]) AND w.search_id IS NULL
    GROUP BY w.id
), wanted AS MATERIALIZED (
    SELECT room.id AS webhook_id, c.position, c.url_id, c.event
    FROM room CROSS JOIN LATERAL (
        SELECT position, url_id, event
        FROM (SELECT position, url_id, CASE WHEN alarm_id IS NOT NULL THEN 'alarm' WHEN job_id IS NOT NULL THEN 'job.failed' WHEN reason IS NOT NULL THEN 'document.deleted'
                            ELSE 'document.ready' END AS event
              FROM changes WHERE position > room.position ORDER BY position LIMIT $5) following
        WHERE event = ANY (room.events) ORDER BY position LIMIT room.places
    ) c
), added AS (
    INSERT INTO deliveries (webhook_id, position, url_id, event, due_at)
    SELECT webhook_id, position, url_id, event, $4 FROM wanted ORDER BY webhook_id, position
), reached AS MATERIALIZED (  -- with room left, every change that was read is finished
    SELECT room.id, greatest(taken.last, passed.last) AS position, passed.changes = $5 AS is_behind
    FROM room CROSS JOIN LATERAL (
        SELECT count(*) AS changes, max(position) AS last FROM wanted WHERE webhook_id = room.id
    ) taken CROSS JOIN LATERAL (
        SELECT count(*) AS changes, max(position) AS last
        FROM (SELECT position FROM changes WHERE position > room.position AND taken.changes < room.places
              ORDER BY position LIMIT $5) following
    ) passed
)
UPDATE webhooks w SET position = reached.position FROM reached
WHERE w.id = reached.id AND reached.position IS NOT NULL
RETURNING reached.is_behind

-- name: claim_deliveries
-- Claim the oldest due delivery of each document; for a failing receiver, only one at a time. $1 locked webhook ids, $2 now,
-- $3 holder, $4 token, $5 until, $6 how many at once for one receiver, $7 from how many failures in a row a receiver is
-- failing, $8 how many in all, $9 until for channels, which may take minutes to answer,
-- $10 how many of channels
WITH due AS MATERIALIZED (
    SELECT id FROM (
        SELECT picked.id, w.kind, row_number() OVER (PARTITION BY w.kind <> 'webhook' ORDER BY random()) AS place
        FROM webhooks w CROSS JOIN LATERAL (
            SELECT d.id FROM deliveries d
            WHERE d.webhook_id = w.id AND d.status = 'pending' AND d.lease_token IS NULL AND d.due_at <= $2
              AND NOT EXISTS (SELECT FROM deliveries e
                              WHERE e.webhook_id = d.webhook_id AND e.url_id = d.url_id AND e.status = 'pending'
                                AND e.position < d.position)
            ORDER BY d.position
            LIMIT greatest(0, CASE WHEN w.failures >= $7 THEN 1 ELSE $6::int END
                              - (SELECT count(*) FROM deliveries b WHERE b.webhook_id = w.id AND b.lease_token IS NOT NULL))
            FOR UPDATE SKIP LOCKED
        ) picked
        WHERE w.id = ANY ($1::int[])
    ) found
    WHERE kind = 'webhook' OR place <= $10
    ORDER BY random() LIMIT $8
)
UPDATE deliveries d
SET lease_holder = $3, lease_token = $4, lease_until = CASE w.kind WHEN 'webhook' THEN $5::timestamptz ELSE $9 END,
    attempts = d.attempts + 1
FROM due, webhooks w
WHERE d.id = due.id AND w.id = d.webhook_id AND d.lease_token IS NULL
RETURNING d.id, d.position, d.failing_since, d.lease_holder, d.lease_token, d.lease_until, d.attempts,
          d.event, d.digest, w.name, w.url, w.secret, w.kind, w.failures, w.delivered_at

-- name: wake_deliveries
-- $1 webhook's name, $2 now
UPDATE deliveries d SET due_at = $2 FROM webhooks w
WHERE w.name = $1 AND d.webhook_id = w.id AND d.status = 'pending' AND d.due_at > $2 AND d.lease_token IS NULL

-- name: settle_delivery
-- $1 id, $2 token, $3 status, $4 reason, $5 due or NULL, $6 failures in a row, $7 not before or NULL, $8 whether the attempt
-- is charged, $9 now, $10 elapsed, $11 HTTP status, $12 reason of the attempt, $13 detail. Returns no row if the lease is
-- lost. Several deliveries that fail at once are one failure of their receiver. The receiver does not change if the
-- attempt is not charged.
WITH settled AS (
    UPDATE deliveries
    SET status = $3, reason = $4, due_at = coalesce($5, due_at),
        ended_at = CASE WHEN $3 <> 'pending' THEN $9::timestamptz END,
        digest = CASE WHEN $3 <> 'delivered' THEN digest END,
        failing_since = CASE WHEN $3 = 'pending' AND $8::boolean THEN coalesce(failing_since, $9) ELSE failing_since END,
        attempts = attempts - (NOT $8)::int, lease_holder = NULL, lease_token = NULL, lease_until = NULL
    WHERE id = $1 AND lease_token = $2
    RETURNING id, webhook_id, attempts + (NOT $8)::int AS attempt
), logged AS (
    INSERT INTO delivery_log (delivery_id, attempt, ended_at, elapsed_ms, http_status, reason, detail)
    SELECT id, attempt, $9, $10, $11, $12, $13 FROM settled
)
UPDATE webhooks w
SET failures = CASE WHEN NOT $8 THEN w.failures WHEN $6::int > 0 THEN greatest(w.failures, $6) ELSE 0 END,
    not_before = CASE WHEN NOT $8 THEN w.not_before WHEN $6 > 0 THEN greatest(w.not_before, $7::timestamptz) END,
    failing_reason = CASE WHEN NOT $8 THEN w.failing_reason WHEN $6 > 0 THEN $12 END,
    error = CASE WHEN NOT $8 THEN w.error WHEN $6 > 0 THEN $13 END,
    delivered_at = CASE WHEN $3 = 'delivered' THEN $9 ELSE w.delivered_at END
FROM settled WHERE w.id = settled.webhook_id
RETURNING true

-- name: release_delivery
-- Release a delivery that a stop interrupted: it is sent again, and the attempt does not count. $1 id, $2 token, $3 now
WITH released AS (
    UPDATE deliveries
    SET lease_holder = NULL, lease_token = NULL, lease_until = NULL, reason = 'shutdown', attempts = attempts - 1
    WHERE id = $1 AND lease_token = $2
    RETURNING id, attempts + 1 AS attempt
)
INSERT INTO delivery_log (delivery_id, attempt, ended_at, reason) SELECT id, attempt, $3, 'shutdown' FROM released

-- name: return_expired_deliveries
-- Their holders died. The receiver may have taken them or not, so they are sent again. $1 now, $2 how many
WITH expired AS MATERIALIZED (
    SELECT id FROM deliveries WHERE lease_token IS NOT NULL AND lease_until <= $1
    ORDER BY lease_until LIMIT $2 FOR UPDATE SKIP LOCKED
), returned AS (
    UPDATE deliveries d
    SET lease_holder = NULL, lease_token = NULL, lease_until = NULL, reason = 'worker_lost', due_at = $1
    FROM expired WHERE d.id = expired.id
    RETURNING d.id, d.attempts
)
INSERT INTO delivery_log (delivery_id, attempt, ended_at, reason) SELECT id, attempts, $1, 'worker_lost' FROM returned
RETURNING true

-- name: list_deliveries
-- The last delivery first. $1 webhook's name, $2 status or NULL, $3 before this position or NULL, $4 how many
SELECT d.id, d.position, d.event, coalesce(u.url, c.url, deletion.url, '') AS url, d.status, d.reason, d.attempts, d.due_at,
       d.ended_at
FROM deliveries d
JOIN changes c ON c.position = d.position
LEFT JOIN url_frontier u ON u.id = d.url_id
LEFT JOIN changes deletion
    ON deletion.document_id = c.document_id AND deletion.revision IS NOT NULL AND deletion.reason IS NOT NULL
WHERE d.webhook_id = (SELECT w.id FROM webhooks w WHERE w.name = $1)
  AND ($2::text IS NULL OR d.status = $2) AND ($3::bigint IS NULL OR d.position < $3)
ORDER BY d.position DESC LIMIT $4

-- name: delivery_attempts
-- The attempts of some deliveries, in their order. $1 ids
SELECT delivery_id, attempt, ended_at, elapsed_ms, http_status, reason, detail FROM delivery_log
WHERE delivery_id = ANY ($1::uuid[]) ORDER BY id

-- name: list_parked_ids
-- $1 webhook id
SELECT id FROM deliveries WHERE webhook_id = $1 AND status = 'parked'

-- name: retry_parked
-- Queue parked deliveries again, before the later deliveries of their documents. If the receiver has taken a later one of
-- the same document (or of the same job or alarm), the parked one would undo it and is dismissed. If a later one is being sent now,
-- the parked one stays parked. $1 locked webhook id, $2 ids or NULL for all, $3 now. Returns the new status of each.
UPDATE deliveries d
SET status = CASE WHEN later.was_taken THEN 'dismissed' ELSE 'pending' END,
    reason = CASE WHEN later.was_taken THEN 'superseded' ELSE d.reason END,
    ended_at = CASE WHEN later.was_taken THEN $3::timestamptz END,
    due_at = $3, attempts = 0, failing_since = NULL
FROM deliveries p CROSS JOIN LATERAL (
    SELECT coalesce(bool_or(l.status = 'delivered' AND lc.job_id IS NOT DISTINCT FROM pc.job_id), false) AS was_taken,
           coalesce(bool_or(l.lease_token IS NOT NULL), false) AS is_being_sent
    FROM changes pc, deliveries l JOIN changes lc ON lc.position = l.position
    WHERE pc.position = p.position AND l.webhook_id = p.webhook_id AND l.url_id = p.url_id AND l.position > p.position
      AND lc.alarm_id IS NOT DISTINCT FROM pc.alarm_id
      AND p.event <> 'digest'  -- a later digest does not repeat an earlier one
) later
WHERE p.webhook_id = $1 AND p.status = 'parked' AND ($2::uuid[] IS NULL OR p.id = ANY ($2)) AND d.id = p.id
  AND NOT later.is_being_sent
RETURNING d.status

-- name: dismiss_parked
-- $1 locked webhook id, $2 ids or NULL for all, $3 now
UPDATE deliveries SET status = 'dismissed', reason = 'dismissed', ended_at = $3, digest = NULL
WHERE webhook_id = $1 AND status = 'parked' AND ($2::uuid[] IS NULL OR id = ANY ($2))
RETURNING status

-- name: prune_deliveries
-- Delete deliveries that ended before a time. Keep those that a parked delivery of the same page needs: they decide whether
-- its retry is superseded. $1 time, $2 how many
DELETE FROM deliveries WHERE id IN (
    SELECT id FROM deliveries d
    WHERE d.status IN ('delivered', 'dismissed') AND d.ended_at < $1
      AND NOT EXISTS (SELECT FROM deliveries p
                      WHERE p.webhook_id = d.webhook_id AND p.url_id = d.url_id AND p.status = 'parked'
                        AND p.url_id > 0)  -- digests and alarms have no page
    LIMIT $2)
RETURNING id

-- name: prune_delivery_log
-- $1 time, $2 how many
DELETE FROM delivery_log WHERE id IN (SELECT id FROM delivery_log WHERE ended_at < $1 LIMIT $2) RETURNING id
