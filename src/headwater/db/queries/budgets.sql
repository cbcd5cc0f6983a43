-- name: lock_budget
-- It runs before read_spending, which then sees the spending of all other processes. $1 key fingerprint, $2 host
SELECT hourly_limit, exhausted_until FROM budgets WHERE key_fingerprint = $1 AND host = $2 FOR UPDATE

-- name: add_budget
-- $1 key fingerprint, $2 host, $3 limit if the budget is new
INSERT INTO budgets (key_fingerprint, host, hourly_limit) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING

-- name: read_spending
-- The requests in each bucket, of all children and of one. $1 key fingerprint, $2 host, $3 child, $4 oldest bucket that counts
SELECT bucket, sum(requests)::int AS by_all, coalesce(sum(requests) FILTER (WHERE child = $3), 0)::int AS by_child
FROM budget_spending WHERE key_fingerprint = $1 AND host = $2 AND bucket >= $4
GROUP BY bucket

-- name: spend
-- Count a request, and delete buckets that no process counts any more. $1 key fingerprint, $2 host, $3 child, $4 bucket,
-- $5 the oldest bucket to keep
WITH pruned AS (
    DELETE FROM budget_spending WHERE key_fingerprint = $1 AND host = $2 AND bucket < $5
)
INSERT INTO budget_spending AS s (key_fingerprint, host, bucket, child, requests) VALUES ($1, $2, $4, $3, 1)
ON CONFLICT (key_fingerprint, host, bucket, child) DO UPDATE SET requests = s.requests + 1

-- name: save_limit
-- $1 key fingerprint, $2 host, $3 limit, $4 now. Returns whether the host had reported a lower limit before.
WITH before AS MATERIALIZED (
    SELECT hourly_limit FROM budgets WHERE key_fingerprint = $1 AND host = $2 AND limit_seen_at IS NOT NULL
)
INSERT INTO budgets AS b (key_fingerprint, host, hourly_limit, limit_seen_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (key_fingerprint, host) DO UPDATE SET hourly_limit = $3, limit_seen_at = $4
WHERE b.hourly_limit <> $3 OR b.limit_seen_at IS NULL
RETURNING (SELECT hourly_limit < $3 FROM before)

-- name: forget_lower_limits
-- Forget the lower limits that other hosts reported for the key, down to the default, and the times until which any host
-- had no request left. $1 key fingerprint, $2 the host that reported the limit, $3 the limit, $4 the default
UPDATE budgets b
SET exhausted_until = NULL,
    limit_seen_at = CASE WHEN b.host = $2 THEN b.limit_seen_at END,
    hourly_limit = CASE WHEN b.host = $2 THEN b.hourly_limit ELSE greatest(b.hourly_limit, $4) END
FROM (SELECT host FROM budgets WHERE key_fingerprint = $1 ORDER BY host FOR UPDATE) locked
WHERE b.key_fingerprint = $1 AND b.host = locked.host
  AND (b.host = $2 OR (b.limit_seen_at IS NOT NULL AND b.hourly_limit < $3))

-- name: exhaust_budget
-- Refuse all requests until a time. $1 key fingerprint, $2 host, $3 until, $4 limit if the budget is new
INSERT INTO budgets AS b (key_fingerprint, host, hourly_limit, exhausted_until) VALUES ($1, $2, $4, $3)
ON CONFLICT (key_fingerprint, host) DO UPDATE SET exhausted_until = greatest(b.exhausted_until, $3)

-- name: list_budgets
-- The hosts that a key was used at. $1 key fingerprint
SELECT host, hourly_limit, limit_seen_at, exhausted_until FROM budgets WHERE key_fingerprint = $1 ORDER BY host

-- name: list_sources_that_need_key
-- The enabled sources with a budget.
SELECT name FROM sources
WHERE fetch_profile ->> 'budget' IS NOT NULL AND enabled AND removed_at IS NULL
ORDER BY name

-- name: list_paying_sources
-- The sources whose requests to a host count against a budget, if they were polled before. $1 host
SELECT name FROM sources
WHERE fetch_profile ->> 'budget' IS NOT NULL AND EXISTS (
    SELECT 1 FROM jsonb_array_elements_text(fetch_profile -> 'api_hosts') AS part (declared) WHERE split_part(declared, '/', 1) = $1)
