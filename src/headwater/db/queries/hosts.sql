-- name: get_or_create_host
-- Create a host if it is new. $1 host, $2 its politeness key if it is new. Returns its key and its robots.txt.
WITH key_row AS (
    INSERT INTO host_state (host)
    SELECT $2 WHERE $2 <> $1 AND NOT EXISTS (SELECT 1 FROM host_state WHERE host = $1) ON CONFLICT (host) DO NOTHING
), met AS (
    INSERT INTO host_state (host, politeness_key) VALUES ($1, nullif($2, $1)) ON CONFLICT (host) DO NOTHING
    RETURNING *
)
SELECT coalesce(politeness_key, $1) AS politeness_key, robots_txt, robots_fetched_at, silent_since, failures, failure,
       failed_at, retry_at
FROM (SELECT * FROM met UNION ALL SELECT * FROM host_state WHERE host = $1) known

-- name: add_hosts
-- Create the hosts that are new, in an order in which no two transactions wait for each other.
-- Arrays: $1 hosts, $2 the politeness key of each if it is new
WITH fresh AS MATERIALIZED (
    SELECT DISTINCT g.host, g.new_key FROM unnest($1::text[], $2::text[]) AS g (host, new_key)
    WHERE NOT EXISTS (SELECT 1 FROM host_state h WHERE h.host = g.host)
), key_rows AS (
    INSERT INTO host_state (host) SELECT DISTINCT new_key FROM fresh WHERE new_key <> host ORDER BY 1
    ON CONFLICT (host) DO NOTHING
)
INSERT INTO host_state (host, politeness_key) SELECT host, nullif(new_key, host) FROM fresh ORDER BY 1
ON CONFLICT (host) DO NOTHING

-- name: lease_hosts
-- Lease politeness keys for polls. Returns each known host, and whether it is leased now. A host before its next turn stays
-- free, and of two hosts with one key one stays free. If the holder dies, a key keeps its delay from the lease's end on,
-- because the holder may have sent a request just before.
-- Arrays: $1 hosts, $2 tokens; $3 now, $4 holder, $5 until, $6 default delay in ms
WITH asked AS MATERIALIZED (
    SELECT g.host, g.token, known.*
    FROM unnest($1::text[], $2::uuid[]) AS g (host, token)
    CROSS JOIN LATERAL (
        SELECT coalesce(h.politeness_key, h.host) AS politeness_key, h.robots_txt, h.robots_fetched_at, h.silent_since,
               h.failures, h.failure, h.failed_at, h.retry_at
        FROM host_state h WHERE h.host = g.host LIMIT 1
    ) known
), free AS MATERIALIZED (
    SELECT locked.host
    FROM (SELECT DISTINCT politeness_key FROM asked ORDER BY 1) wanted  -- so that no two transactions wait for each other
    CROSS JOIN LATERAL (
        SELECT k.host FROM host_state k
        WHERE k.host = wanted.politeness_key AND k.not_before <= $3 AND (k.closed_until IS NULL OR k.closed_until <= $3)
        LIMIT 1
        FOR UPDATE
    ) locked
), leased AS (
    UPDATE host_state k
    SET not_before = $5::timestamptz + greatest(k.crawl_delay_ms, $6::int, k.backoff_ms) * interval '1 ms',
        lease_holder = $4, lease_token = asked.token, lease_until = $5, reserved_until = NULL,
        ready_at = CASE WHEN k.ready_at IS NOT NULL
                        THEN $5 + greatest(k.crawl_delay_ms, $6, k.backoff_ms) * interval '1 ms' END
    FROM asked
    WHERE k.host = ANY (ARRAY (SELECT host FROM free)) AND k.host = asked.politeness_key
    RETURNING asked.token, k.crawl_delay_ms, k.backoff_ms, k.last_throttled_at
)
SELECT asked.*,
       leased.token IS NOT NULL AS is_leased, leased.crawl_delay_ms, coalesce(leased.backoff_ms, 0) AS backoff_ms, leased.last_throttled_at
FROM asked LEFT JOIN leased ON leased.token = asked.token

-- name: reserve_host
-- Make claims leave a host to a waiting poll until shortly after the host's next turn. $1 key, $2 now, $3 how long after.
-- Returns when the host may be asked, and why not now.
UPDATE host_state
SET reserved_until = CASE WHEN lease_token IS NULL THEN greatest(not_before, $2) ELSE $2 END + $3::interval
WHERE host = $1
RETURNING greatest(not_before, closed_until) AS not_before, lease_token IS NOT NULL AS is_leased,
          CASE WHEN closed_until > $2 THEN 'host_closed' ELSE blocked_reason END AS blocked_reason

-- name: release_hosts
-- Release hosts, each fenced by its token. Arrays: $1 keys, $2 tokens, $3 not before, $4 back-off ms, $5 last throttled,
-- $6 blocked reasons.
UPDATE host_state k
SET lease_holder = NULL, lease_token = NULL, lease_until = NULL,
    not_before = g.not_before, backoff_ms = g.backoff_ms, last_throttled_at = g.last_throttled_at, blocked_reason = g.blocked_reason,
    ready_at = (
        SELECT greatest(q.due_at, g.not_before, k.closed_until) FROM frontier_queue q
        WHERE q.politeness_key = k.host AND q.lease_token IS NULL AND q.attempts >= 0 ORDER BY q.due_at LIMIT 1
    )
FROM unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::int[], $5::timestamptz[], $6::text[])
    AS g (host, token, not_before, backoff_ms, last_throttled_at, blocked_reason)
WHERE k.host = ANY ($1) AND k.host = g.host AND k.lease_token = g.token
RETURNING k.host

-- name: release_polled_hosts
-- The same for the hosts of polls, with one lookup. A submit has set `ready_at` if a URL is queued, so the queue is not read;
-- the next claim finds the exact time. $7 whether the release need not wait for the disk. If the server dies before the write,
-- the hosts return when their leases end, as if their holder had died.
UPDATE host_state k
SET lease_holder = NULL, lease_token = NULL, lease_until = NULL,
    not_before = g.not_before, backoff_ms = g.backoff_ms, last_throttled_at = g.last_throttled_at, blocked_reason = g.blocked_reason,
    ready_at = CASE WHEN k.ready_at IS NOT NULL THEN greatest(g.not_before, k.closed_until) END
FROM unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::int[], $5::timestamptz[], $6::text[])
    AS g (host, token, not_before, backoff_ms, last_throttled_at, blocked_reason),
    set_config('synchronous_commit', CASE WHEN $7 THEN 'off' ELSE current_setting('synchronous_commit') END, true) AS durability
WHERE k.host = ANY ($1) AND k.host = g.host AND k.lease_token = g.token

-- name: lock_hosts
-- It runs before release_hosts and set_next_work, so that these see every earlier submit in the queue. $1 hosts
SELECT host FROM host_state WHERE host = ANY ($1::text[]) ORDER BY host FOR UPDATE

-- name: set_next_work
-- Set when a host without a lease has work next; NULL if it has none. $1 hosts
UPDATE host_state k
SET ready_at = (
    SELECT greatest(q.due_at, k.not_before, k.closed_until) FROM frontier_queue q
    WHERE q.politeness_key = k.host AND q.lease_token IS NULL AND q.attempts >= 0 ORDER BY q.due_at LIMIT 1
)
WHERE k.host = ANY ($1::text[]) AND k.lease_token IS NULL AND k.politeness_key IS NULL

-- name: find_forgotten_hosts
-- Hosts with work that no claim would find. There should be none; the sweeper checks one batch after the other.
-- $1 after this host, $2 limit. Returns the last host checked (NULL at the end) and the forgotten ones.
WITH slice AS MATERIALIZED (
    SELECT host, ready_at IS NULL AND lease_token IS NULL AS is_idle FROM host_state WHERE host > $1 ORDER BY host LIMIT $2
)
SELECT (SELECT max(host) FROM slice) AS last,
       ARRAY(SELECT host FROM slice WHERE is_idle AND EXISTS (
           SELECT 1 FROM frontier_queue q WHERE q.politeness_key = slice.host AND q.lease_token IS NULL AND q.attempts >= 0)) AS forgotten

-- name: lock_expired_hosts
-- Hosts whose lease has ended. $1 now, $2 limit
SELECT host, lease_token, not_before, backoff_ms, last_throttled_at, blocked_reason FROM host_state
WHERE lease_token IS NOT NULL AND lease_until <= $1
ORDER BY lease_until LIMIT $2
FOR UPDATE SKIP LOCKED

-- name: save_robots
-- A group has the delay of its slowest host. $1 host, $2 text or NULL, $3 Crawl-delay in ms or NULL, $4 now
WITH saved AS (
    UPDATE host_state
    SET robots_txt = $2, crawl_delay_ms = $3, robots_fetched_at = $4,
        silent_since = NULL, failures = 0, failure = NULL, failed_at = NULL, retry_at = NULL
    WHERE host = $1
    RETURNING host, politeness_key
)
UPDATE host_state k
SET crawl_delay_ms = greatest($3::int, (
    SELECT max(m.crawl_delay_ms) FROM host_state m WHERE m.politeness_key = k.host AND m.host <> $1))
FROM saved WHERE k.host = saved.politeness_key
RETURNING k.crawl_delay_ms

-- name: save_failure
-- $1 host, $2 silent since, $3 failures, $4 reason, $5 failed at, $6 retry at
UPDATE host_state SET silent_since = $2, failures = $3, failure = $4, failed_at = $5, retry_at = $6 WHERE host = $1

-- name: revive_hosts
-- Forget the failures of the hosts of URLs that ended because their host was gone. $1 ids of URLs
UPDATE host_state SET silent_since = NULL, failures = 0, failure = NULL, failed_at = NULL, retry_at = NULL
WHERE host = ANY (ARRAY(SELECT u.host FROM url_frontier u WHERE u.id = ANY ($1::bigint[]) AND u.reason = 'host_gone'))

-- name: get_next_ready
-- When the next host may be asked for a queued URL, without hosts that a poll has reserved. $1 now
SELECT ready_at FROM host_state
WHERE ready_at IS NOT NULL AND (reserved_until IS NULL OR reserved_until <= $1)
ORDER BY ready_at LIMIT 1

-- name: count_hosts
-- $1 now
SELECT (SELECT count(*) FROM host_state WHERE blocked_reason IS NOT NULL AND not_before > $1) AS blocked,
       (SELECT count(*) FROM host_state WHERE closed_until > $1) AS closed,
       (SELECT count(*) FROM host_state WHERE lease_token IS NOT NULL) AS in_use,
       (SELECT count(*) FROM host_state WHERE ready_at IS NOT NULL) AS with_work

-- name: list_hosts
-- Hosts by name. A host that shares a turn has state, delay and turn of its key, unless it fails; the queue is the key's.
-- $1 state or NULL for any, $2 after this host, $3 limit, $4 now, $5 this host only or NULL for any, $6 default delay in ms,
-- $7 forever
SELECT page.*, queue.urls AS queued
FROM (
    SELECT h.host, h.politeness_key AS shares_turn_of, h.keeps_slash, h.robots_fetched_at, k.state,
           CASE k.state WHEN 'closed' THEN nullif(k.closed_until, $7::timestamptz)
                        WHEN 'blocked' THEN greatest(k.not_before, h.retry_at)
                        WHEN 'waiting' THEN k.ready_at END AS next_turn_at,
           greatest(coalesce(k.crawl_delay_ms, $6::int), k.backoff_ms) AS delay_ms,
           k.crawl_delay_ms, k.backoff_ms, k.lease_holder AS in_use_by,
           CASE WHEN k.state = 'blocked' THEN coalesce(k.blocked_reason, 'robots_unreachable') END AS blocked_reason,
           h.silent_since, h.failure, h.failed_at
    FROM host_state h CROSS JOIN LATERAL (
        SELECT t.*, CASE WHEN t.closed_until > $4 THEN 'closed' WHEN t.lease_token IS NOT NULL THEN 'in_use'
                         WHEN t.blocked_reason IS NOT NULL AND t.not_before > $4 OR h.retry_at > $4 THEN 'blocked'
                         WHEN t.ready_at IS NOT NULL THEN 'waiting' ELSE 'idle' END AS state
        FROM host_state t WHERE t.host = coalesce(h.politeness_key, h.host)
    ) k
    WHERE ($1::text IS NULL OR k.state = $1) AND h.host > $2 AND ($5::text IS NULL OR h.host = $5)
    ORDER BY h.host LIMIT $3
) page
LEFT JOIN LATERAL (
    SELECT count(*) AS urls FROM (
        SELECT FROM frontier_queue q WHERE q.politeness_key = page.host AND q.lease_token IS NULL AND q.attempts >= 0 LIMIT 1001
    ) first
) queue ON page.shares_turn_of IS NULL
ORDER BY page.host

-- name: get_host
-- $1 host
SELECT h.host, coalesce(h.politeness_key, h.host) AS politeness_key, k.not_before, k.crawl_delay_ms, k.backoff_ms,
       k.last_throttled_at, k.blocked_reason, k.closed_until, h.robots_txt, h.robots_fetched_at, k.lease_holder,
       h.silent_since, h.failures, h.failure, h.failed_at, h.retry_at
FROM host_state h JOIN host_state k ON k.host = coalesce(h.politeness_key, h.host) WHERE h.host = $1

-- name: close_host
-- Allow no request to a host until a time. A leased host stays closed too, even if its holder never releases it. A poll that
-- was deferred to the end of an earlier closing is deferred to the end of this one. $1 key, $2 until
WITH put_off AS (
    UPDATE poll_state f SET next_poll_at = $2 FROM host_state k WHERE k.host = $1 AND f.next_poll_at = k.closed_until
)
UPDATE host_state SET closed_until = $2, ready_at = CASE WHEN ready_at IS NOT NULL THEN greatest(ready_at, $2) END
WHERE host = $1

-- name: find_held_hosts
-- The next politeness keys by name that are closed, blocked or slowed. Headwater has few hosts, and only a person asks, so
-- this reads all keys. $1 after this key, $2 now, $3 limit
SELECT host FROM host_state
WHERE host > $1 AND politeness_key IS NULL
  AND (closed_until > $2 OR backoff_ms > 0 OR failures > 0 OR (blocked_reason IS NOT NULL AND not_before > $2)
       OR EXISTS (SELECT FROM host_state m WHERE m.politeness_key = host_state.host AND m.failures > 0))
ORDER BY host LIMIT $3

-- name: open_hosts
-- Release closed, blocked or slowed hosts, and forget their failures. The delay after the last request stays. Polls that were
-- deferred for them are due, and so are the URLs of hosts that failed and share a turn. $1 keys, $2 now, $3 default delay in ms
WITH put_off AS (
    UPDATE poll_state f SET next_poll_at = $2
    FROM host_state k
    WHERE (k.host = ANY ($1::text[]) OR k.politeness_key = ANY ($1::text[]))
      AND f.next_poll_at IN (k.not_before, k.closed_until, k.retry_at)
), waiting AS (
    UPDATE frontier_queue q SET due_at = $2
    FROM host_state m
    WHERE m.politeness_key = ANY ($1::text[]) AND q.politeness_key = m.politeness_key AND q.lease_token IS NULL
      AND q.due_at = m.retry_at
), members AS (
    UPDATE host_state SET silent_since = NULL, failures = 0, failure = NULL, failed_at = NULL, retry_at = NULL
    WHERE politeness_key = ANY ($1::text[]) AND failed_at IS NOT NULL
)
UPDATE host_state
SET silent_since = NULL, failures = 0, failure = NULL, failed_at = NULL, retry_at = NULL,
    closed_until = NULL, reserved_until = NULL,
    backoff_ms = CASE WHEN lease_token IS NULL THEN 0 ELSE backoff_ms END,
    blocked_reason = CASE WHEN lease_token IS NULL THEN NULL ELSE blocked_reason END,
    not_before = CASE WHEN lease_token IS NOT NULL THEN not_before
                      ELSE least(not_before, $2::timestamptz + coalesce(crawl_delay_ms, $3::int) * interval '1 ms') END
WHERE host = ANY ($1::text[])

-- name: set_slash
-- $1 host, $2 whether it keeps trailing slashes
UPDATE host_state SET keeps_slash = $2 WHERE host = $1

-- name: list_slash_hosts
-- Hosts that keep trailing slashes.
SELECT host FROM host_state WHERE keeps_slash

-- name: join_hosts
-- Give hosts the turn of a key, which has their delays already (see adopt_delays). A host stays out while it, the key it
-- leaves or the key it joins is in use. $1 hosts, $2 key
UPDATE host_state h
SET politeness_key = $2, ready_at = NULL, closed_until = NULL, blocked_reason = NULL, backoff_ms = 0, last_throttled_at = NULL
WHERE h.host = ANY ($1::text[]) AND h.lease_token IS NULL
  AND NOT EXISTS (SELECT 1 FROM host_state k WHERE k.host IN (h.politeness_key, $2) AND k.lease_token IS NOT NULL)
RETURNING host

-- name: leave_keys
-- Give hosts a turn of their own, with the delays of the key they leave. $1 hosts
UPDATE host_state h
SET politeness_key = NULL, not_before = greatest(h.not_before, k.not_before), closed_until = k.closed_until,
    backoff_ms = k.backoff_ms, last_throttled_at = k.last_throttled_at
FROM host_state k WHERE h.host = ANY ($1::text[]) AND k.host = h.politeness_key AND k.lease_token IS NULL
RETURNING h.host

-- name: keys_of
-- The politeness keys of hosts, without their own. $1 hosts
SELECT DISTINCT politeness_key FROM host_state WHERE host = ANY ($1::text[]) AND politeness_key IS NOT NULL

-- name: adopt_delays
-- Give a key the longest delays of the hosts that are about to join it. $1 hosts, $2 key
UPDATE host_state k
SET not_before = greatest(k.not_before, m.not_before), closed_until = greatest(k.closed_until, m.closed_until),
    backoff_ms = greatest(k.backoff_ms, m.backoff_ms), last_throttled_at = greatest(k.last_throttled_at, m.last_throttled_at),
    crawl_delay_ms = greatest(k.crawl_delay_ms, m.crawl_delay_ms)
FROM (
    -- A host that fails has a wait of its own.
    SELECT max(t.not_before) FILTER (WHERE h.retry_at IS NULL) AS not_before, max(t.closed_until) AS closed_until, max(t.backoff_ms) AS backoff_ms,
           max(t.last_throttled_at) AS last_throttled_at, max(h.crawl_delay_ms) AS crawl_delay_ms
    FROM host_state h JOIN host_state t ON t.host = coalesce(h.politeness_key, h.host) WHERE h.host = ANY ($1::text[])
) m
WHERE k.host = $2

-- name: set_slowest_delay
-- Give keys the delay of the slowest host that they still have. $1 keys
UPDATE host_state k
SET crawl_delay_ms = (SELECT max(m.crawl_delay_ms) FROM host_state m WHERE m.politeness_key = k.host)
WHERE k.host = ANY ($1::text[])

-- name: move_queue
-- Move the queued URLs of hosts to their politeness keys. $1 hosts
UPDATE frontier_queue q SET politeness_key = coalesce(h.politeness_key, h.host)
FROM url_frontier u JOIN host_state h ON h.host = u.host
WHERE u.host = ANY ($1::text[]) AND u.status = 'pending' AND q.url_id = u.id
  AND q.politeness_key <> coalesce(h.politeness_key, h.host)
