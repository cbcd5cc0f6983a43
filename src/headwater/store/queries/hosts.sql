-- name: hold_host
-- Lease a host for a request that no URL claim stands behind (a poll). Answers nothing when it may not be asked yet.
-- Should its holder die, it has its pause from the lease's end on: something may have been sent just before.
-- $1 host, $2 now, $3 holder, $4 token, $5 until, $6 default delay in ms
INSERT INTO host_state AS h (host, not_before, lease_holder, lease_token, lease_until)
VALUES ($1, $5::timestamptz + $6::int * interval '1 ms', $3, $4, $5)
ON CONFLICT (host) DO UPDATE
    SET not_before = $5 + greatest(coalesce(h.crawl_delay_ms, $6), h.backoff_ms) * interval '1 ms',
        lease_holder = $3, lease_token = $4, lease_until = $5, reserved_until = NULL,
        ready_at = CASE WHEN h.ready_at IS NOT NULL
                        THEN $5 + greatest(coalesce(h.crawl_delay_ms, $6), h.backoff_ms) * interval '1 ms' END
    WHERE h.not_before <= $2
RETURNING host, crawl_delay_ms, backoff_ms, robots_txt, robots_fetched_at

-- name: reserve_host
-- Ask claims to let a waiting poll go first, until a little past the host's next turn. $1 host, $2 now, $3 how much past.
-- Answers when the host may be asked, and why not yet.
UPDATE host_state
SET reserved_until = CASE WHEN lease_token IS NULL THEN greatest(not_before, $2) ELSE $2 END + $3::interval
WHERE host = $1
RETURNING not_before, lease_token IS NOT NULL AS is_held, blocked_reason

-- name: lock_held_hosts
-- Taken before release_hosts, so that its look at the queue sees every submit that went before. $1 tokens
SELECT host FROM host_state WHERE lease_token = ANY ($1::uuid[]) ORDER BY host FOR UPDATE

-- name: release_hosts
-- Give hosts back, each fenced by its token. Arrays: $1 tokens, $2 not before, $3 back-off ms, $4 blocked reasons.
UPDATE host_state h
SET lease_holder = NULL, lease_token = NULL, lease_until = NULL,
    not_before = g.not_before, backoff_ms = g.backoff_ms, blocked_reason = g.blocked_reason,
    ready_at = (
        SELECT greatest(q.due_at, g.not_before) FROM frontier_queue q
        WHERE q.host = h.host AND q.lease_token IS NULL ORDER BY q.due_at LIMIT 1
    )
FROM unnest($1::uuid[], $2::timestamptz[], $3::int[], $4::text[]) AS g (token, not_before, backoff_ms, blocked_reason)
WHERE h.lease_token = g.token

-- name: lock_hosts
-- $1 hosts
SELECT host FROM host_state WHERE host = ANY ($1::text[]) ORDER BY host FOR UPDATE

-- name: rest_hosts
-- Set when a host that is not held has work next; NULL where it has none. $1 hosts
UPDATE host_state h
SET ready_at = (
    SELECT greatest(q.due_at, h.not_before) FROM frontier_queue q
    WHERE q.host = h.host AND q.lease_token IS NULL ORDER BY q.due_at LIMIT 1
)
WHERE h.host = ANY ($1::text[]) AND h.lease_token IS NULL

-- name: forgotten_hosts
-- Hosts that have work but would never be looked at. There should be none; the sweeper makes sure. $1 how many
SELECT h.host FROM host_state h
WHERE h.ready_at IS NULL AND h.lease_token IS NULL
  AND EXISTS (SELECT 1 FROM frontier_queue q WHERE q.host = h.host AND q.lease_token IS NULL)
LIMIT $1

-- name: expired_holds
-- Hosts whose holder is late. $1 now, $2 how many
SELECT host, lease_token, not_before, backoff_ms, blocked_reason FROM host_state
WHERE lease_token IS NOT NULL AND lease_until <= $1
ORDER BY lease_until LIMIT $2
FOR UPDATE SKIP LOCKED

-- name: save_robots
-- $1 host, $2 text or NULL, $3 crawl delay in ms or NULL, $4 now
UPDATE host_state SET robots_txt = $2, crawl_delay_ms = $3, robots_fetched_at = $4 WHERE host = $1

-- name: next_ready
-- When the next host may be asked for a queued URL, those aside that a poll has reserved. $1 now
SELECT ready_at FROM host_state
WHERE ready_at IS NOT NULL AND (reserved_until IS NULL OR reserved_until <= $1)
ORDER BY ready_at LIMIT 1

-- name: count_hosts
-- $1 now
SELECT count(*) AS known, count(*) FILTER (WHERE blocked_reason IS NOT NULL AND not_before > $1) AS blocked
FROM host_state
