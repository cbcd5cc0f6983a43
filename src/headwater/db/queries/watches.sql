-- name: get_watches
-- Pages by id with their own re-fetch policy, that of their source, and what was learned. The learned columns are NULL if the
-- page has no row. LATERAL makes it one index lookup for each page. $1 url ids
SELECT u.id AS url_id, u.url, u.status, u.reason, u.last_fetched_at, s.name AS source, w.policy AS own_policy,
       coalesce(s.fetch_profile ->> 'refetch', 'never') AS source_policy, s.enabled AND s.removed_at IS NULL AS is_active,
       (SELECT true FROM documents d WHERE d.url_id = u.id LIMIT 1) IS TRUE AS has_document,
       w.next_at, w.learned_interval, w.quiet, w.failures
FROM url_frontier u
JOIN sources s ON s.id = u.source_id
LEFT JOIN LATERAL (SELECT * FROM watches x WHERE x.url_id = u.id LIMIT 1) w ON true
WHERE u.id = ANY ($1::bigint[])
ORDER BY u.id

-- name: list_watches
-- Watched pages by id. $1 whether also those that only their source watches, $2 after this id, $3 limit
SELECT url_id FROM watches WHERE (policy IS NOT NULL OR $1::boolean) AND url_id > $2 ORDER BY url_id LIMIT $3

-- name: save_plans
-- A policy of the page stays. Arrays: $1 url ids, $2 next times or NULL, $3 learned intervals, $4 quiet, $5 failures
INSERT INTO watches AS w (url_id, next_at, learned_interval, quiet, failures)
SELECT * FROM unnest($1::bigint[], $2::timestamptz[], $3::interval[], $4::int[], $5::int[]) ORDER BY 1
ON CONFLICT (url_id) DO UPDATE
    SET next_at = excluded.next_at, learned_interval = excluded.learned_interval, quiet = excluded.quiet,
        failures = excluded.failures

-- name: set_policy
-- $1 url id, $2 policy, or NULL for the policy of its source; $3 next time or NULL, $4 learned interval, $5 quiet, $6 failures
INSERT INTO watches AS w (url_id, policy, next_at, learned_interval, quiet, failures) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (url_id) DO UPDATE
    SET policy = excluded.policy, next_at = excluded.next_at, learned_interval = excluded.learned_interval,
        quiet = excluded.quiet, failures = excluded.failures

-- name: end_watches
-- $1 url ids
DELETE FROM watches WHERE url_id = ANY ($1::bigint[])

-- name: move_watches
-- Pages have moved: their own policies move too, unless the new page has one. Arrays: $1 old ids, $2 new ids; $3 now
WITH moved AS (
    DELETE FROM watches w USING unnest($1::bigint[], $2::bigint[]) AS g (old_id, new_id)
    WHERE w.url_id = ANY ($1) AND w.url_id = g.old_id
    RETURNING g.new_id, w.policy, w.learned_interval, w.next_at
)
INSERT INTO watches AS w (url_id, policy, next_at, learned_interval)
SELECT DISTINCT ON (new_id) new_id, policy, CASE WHEN next_at IS NOT NULL THEN $3::timestamptz + learned_interval END,
       learned_interval
FROM moved WHERE policy IS NOT NULL ORDER BY new_id
ON CONFLICT (url_id) DO UPDATE SET policy = excluded.policy, next_at = coalesce(w.next_at, excluded.next_at)
    WHERE w.policy IS NULL

-- name: take_due_watches
-- Take due pages, the longest due first. Each gets another time at once, which holds if its fetch never ends. A page of a
-- removed or disabled source is left for that time. $1 now, $2 limit. Returns the pages that are not queued yet.
WITH due AS MATERIALIZED (
    SELECT url_id FROM watches WHERE next_at <= $1 ORDER BY next_at LIMIT $2
    FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE watches w
    SET next_at = CASE WHEN coalesce(w.policy, page.source_policy, 'never') <> 'never' THEN $1 + w.learned_interval END
    FROM (
        SELECT u.id, u.status <> 'pending' AND s.enabled AND s.removed_at IS NULL AS is_queueable,
               s.fetch_profile ->> 'refetch' AS source_policy
        FROM url_frontier u JOIN sources s ON s.id = u.source_id
        WHERE u.id = ANY (ARRAY (SELECT url_id FROM due))
    ) page
    WHERE w.url_id = ANY (ARRAY (SELECT url_id FROM due)) AND w.url_id = page.id
    RETURNING w.url_id, page.is_queueable AND w.next_at IS NOT NULL AS is_queueable
)
SELECT url_id, is_queueable FROM taken

-- name: lock_replanned_source
-- A source whose new re-fetch policy does not hold for all its documents yet.
SELECT id, replanned_to FROM sources WHERE replanned_to IS NOT NULL
ORDER BY id LIMIT 1
FOR NO KEY UPDATE SKIP LOCKED

-- name: documents_to_replan
-- $1 source, $2 after this document, $3 limit
SELECT id, url_id FROM documents WHERE source_id = $1 AND id > $2 ORDER BY id LIMIT $3

-- name: set_replanned
-- $1 source, $2 the last document with the new policy, or NULL if it was the last of the source
UPDATE sources SET replanned_to = $2 WHERE id = $1
