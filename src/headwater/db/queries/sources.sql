-- name: add_source
-- $1 name, $2 kind, $3 settings, $4 now
INSERT INTO sources (name, kind, settings, created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING
RETURNING id, name, kind, settings, enabled, created_at

-- name: save_methods
-- $1 source; arrays: $2 its methods, $3 when each is due if it is new
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($2::text[], $3::timestamptz[]) AS g (method, due)
), gone AS (
    DELETE FROM poll_state WHERE source_id = $1 AND NOT method = ANY ($2::text[])
)
INSERT INTO poll_state (source_id, method, next_poll_at) SELECT $1, method, due FROM given
ON CONFLICT DO NOTHING

-- name: replace_settings
-- $1 source, $2 settings
UPDATE sources SET settings = $2 WHERE id = $1

-- name: merge_settings
-- Add settings that the kind learned. $1 source, $2 settings
UPDATE sources SET settings = settings || $2 WHERE id = $1

-- name: make_method_due
-- Make a method due now, or $4 after its last poll. Returns no row if the source does not have the method. $1 source,
-- $2 method, $3 now, $4 rest, $5 why
UPDATE poll_state
SET next_poll_at = least(next_poll_at, greatest($3, last_polled_at + $4::interval)), next_poll_why = $5
WHERE source_id = $1 AND method = $2
RETURNING true

-- name: restore_source
-- A removed source may be added again. It keeps its id, items and URLs. $1 name, $2 kind, $3 settings, $4 now
UPDATE sources
SET kind = $2, settings = $3, enabled = true, created_at = $4, removed_at = NULL, fetch_profile = '{}', replanned_to = 0,
    next_request_at = NULL
WHERE name = $1 AND removed_at IS NOT NULL AND purge_began_at IS NULL
RETURNING id, name, kind, settings, enabled, created_at

-- name: find_removed_names
-- Return those names that removed sources have. $1 names
SELECT name FROM sources WHERE name = ANY ($1::text[]) AND removed_at IS NOT NULL

-- name: replan_methods
-- Plan the methods after a change of settings. A poll with the old settings loses its lease. A method stays due when it
-- was. If its interval has changed, it is due within the new interval. If it reads something else, it is due now.
-- $1 source, arrays: $2 methods, $3 interval of each or NULL, $4 whether that has changed; $5 now, $6 whether the source
-- forgets its state
UPDATE poll_state f
SET lease_holder = NULL, lease_token = NULL, lease_until = NULL, attempts = 0,
    next_poll_at = plan.due,
    next_poll_why = CASE WHEN plan.due IS DISTINCT FROM f.next_poll_at THEN 'Its settings were changed.'
                         ELSE f.next_poll_why END,
    state = CASE WHEN $6 THEN '{}' ELSE f.state END,
    adaptive_interval = CASE WHEN $6 THEN NULL ELSE f.adaptive_interval END,
    last_error = CASE WHEN $6 THEN NULL ELSE f.last_error END,
    consecutive_errors = CASE WHEN $6 THEN 0 ELSE f.consecutive_errors END,
    failing_since = CASE WHEN $6 THEN NULL ELSE f.failing_since END
FROM (
    SELECT g.method, CASE WHEN g.gap IS NULL AND g.has_changed AND w.backfill_since IS NULL THEN NULL
                        WHEN g.gap IS NULL THEN w.next_poll_at  -- a backfill may be requested
                        WHEN $6 OR w.next_poll_at IS NULL THEN $5::timestamptz
                        WHEN g.has_changed THEN least(w.next_poll_at, $5 + g.gap)
                        ELSE w.next_poll_at END AS due
    FROM unnest($2::text[], $3::interval[], $4::boolean[]) AS g (method, gap, has_changed)
    JOIN poll_state w ON w.source_id = $1 AND w.method = g.method
) plan
WHERE f.source_id = $1 AND f.method = plan.method

-- name: set_source_enabled
-- $1 source, $2 enabled
UPDATE sources SET enabled = $2 WHERE id = $1

-- name: lock_methods
-- Lock the methods before the source. Polls lock in the same order. $1 name
SELECT f.method FROM poll_state f JOIN sources s ON s.id = f.source_id WHERE s.name = $1 ORDER BY f.method FOR UPDATE OF f

-- name: lock_source
-- No URL is submitted for the source until the transaction ends. $1 name
SELECT id, name, kind, settings, enabled, created_at, removed_at IS NOT NULL AS is_removed
FROM sources WHERE name = $1 FOR UPDATE

-- name: mark_source_removed
-- The source is not polled again. Its items and documents stay. $1 id, $2 now
WITH gone AS (DELETE FROM poll_state WHERE source_id = $1)
UPDATE sources SET removed_at = $2, enabled = false WHERE id = $1

-- name: end_removed_urls
-- End the queued URLs of a removed source, except those that another source has seen. Returns the ids. $1 source, $2 after
-- this id, $3 limit
WITH chosen AS MATERIALIZED (
    SELECT u.id FROM url_frontier u JOIN frontier_queue q ON q.url_id = u.id
    WHERE u.source_id = $1 AND u.id > $2 AND u.status = 'pending' AND q.lease_token IS NULL
      AND NOT EXISTS (SELECT 1 FROM sightings t JOIN sources o ON o.id = t.source_id
                      WHERE t.url_id = u.id AND o.id <> $1 AND o.removed_at IS NULL)
    ORDER BY u.id LIMIT $3
    FOR UPDATE OF q SKIP LOCKED
), left_queue AS (
    DELETE FROM frontier_queue WHERE url_id IN (SELECT id FROM chosen)
)
UPDATE url_frontier u SET status = 'dead', reason = 'source_removed' FROM chosen WHERE u.id = chosen.id
RETURNING u.id

-- name: request_backfill
-- Make the next poll of the sitemaps go back to a time. Returns no row if there are none, or if a poll of them runs.
-- $1 source, $2 since, $3 now
UPDATE poll_state
SET backfill_since = least(backfill_since, $2), next_poll_at = least(next_poll_at, $3),
    next_poll_why = 'A backfill was requested.', attempts = 0
WHERE source_id = $1 AND method = 'sitemap' AND lease_token IS NULL
RETURNING true

-- name: delete_unused_source
-- Items and URLs refer to their source, so only a source without them can be deleted. $1 id
DELETE FROM sources s
WHERE s.id = $1 AND NOT EXISTS (SELECT 1 FROM items WHERE source_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM url_frontier WHERE source_id = s.id)
RETURNING true

-- name: prevent_removal
-- Prevent the removal of a source until the transaction ends. Returns no row if it was removed. $1 id
SELECT true FROM sources WHERE id = $1 AND removed_at IS NULL FOR KEY SHARE

-- name: get_source
-- $1 name
SELECT id, name, kind, settings, enabled, created_at FROM sources WHERE name = $1 AND removed_at IS NULL

-- name: find_source_id
-- Also of a removed source. $1 name
SELECT id FROM sources WHERE name = $1

-- name: get_all_sources
SELECT id, name, kind, settings, enabled, created_at FROM sources WHERE removed_at IS NULL ORDER BY name

-- name: get_sources_of_kinds
-- $1 kinds
SELECT id, name, kind, settings, enabled, created_at FROM sources WHERE kind = ANY ($1::text[]) AND removed_at IS NULL ORDER BY name

-- name: list_enabled
-- The enabled sources among some that were there before a moment. $1 names, $2 moment
SELECT name FROM sources WHERE name = ANY ($1::text[]) AND enabled AND removed_at IS NULL AND created_at < $2

-- name: get_browser_sources
SELECT name FROM sources WHERE removed_at IS NULL AND enabled AND fetch_profile -> 'needs_browser' = 'true' ORDER BY name

-- name: find_feed_owner
-- The second condition makes PostgreSQL use the partial index. $1 feed URL
SELECT name FROM sources WHERE settings ->> 'feed_url' = $1 AND settings ? 'feed_url' AND removed_at IS NULL

-- name: list_sources
-- List sources with the state of the first method, the counts of items and documents, and the usual time between two items: of
-- the 20 newest with a stated date among the newest 200. Each or NULL for all: $1 name, $2 ids
SELECT s.id, s.name, s.kind, s.settings, s.enabled, s.created_at, f.next_poll_at, f.last_polled_at, f.last_success_at,
       f.last_reason, f.last_error, coalesce(f.consecutive_errors, 0) AS consecutive_errors, f.failing_since,
       f.lease_token IS NOT NULL AS polling, z.items, z.documents,
       (SELECT (extract(epoch FROM max(published_at) - min(published_at)) / nullif(count(*) - 1, 0))::float8
        FROM (SELECT published_at FROM (
                  SELECT i.published_at, i.published_is_sighting FROM items i WHERE i.source_id = s.id
                  ORDER BY i.published_at DESC LIMIT 200
              ) newest WHERE NOT published_is_sighting LIMIT 20) dated) AS usual_gap_seconds
FROM sources s
LEFT JOIN LATERAL (SELECT * FROM poll_state p WHERE p.source_id = s.id ORDER BY p.method LIMIT 1) f ON true
CROSS JOIN LATERAL (
    SELECT coalesce(sum(items), 0)::bigint AS items, coalesce(sum(documents), 0)::bigint AS documents
    FROM source_sizes WHERE source_id = s.id
) z
WHERE s.removed_at IS NULL AND ($1::text IS NULL OR s.name = $1) AND ($2::int[] IS NULL OR s.id = ANY ($2))
ORDER BY s.name

-- name: list_source_states
-- All sources, and whether each is certainly on time if its settings can be used: its last polls succeeded without a flaw, none is
-- due, and something was new lately. The other sources need a closer look. $1 now, $2 how long nothing new is no sign of a problem
SELECT s.id, s.name, s.kind, s.settings::text AS settings, coalesce(s.settings ->> 'category', '') AS category,
       s.enabled AND coalesce(p.is_well, true) AS is_well
FROM sources s
LEFT JOIN (
    SELECT f.source_id, bool_and(
        f.consecutive_errors = 0 AND f.last_error IS NULL AND f.last_polled_at IS NOT NULL
        AND (f.next_poll_at IS NULL OR f.next_poll_at > $1 OR f.lease_token IS NOT NULL)
        AND coalesce(f.last_success_at, o.created_at) - coalesce(f.last_new_at, o.created_at) <= $2::interval
        AND coalesce(f.state -> 'flaws', '[]') = '[]') AS is_well
    FROM poll_state f JOIN sources o ON o.id = f.source_id GROUP BY 1
) p ON p.source_id = s.id
WHERE s.removed_at IS NULL

-- name: list_methods
-- List the state of methods. $1 sources or NULL for all
SELECT f.source_id, f.method, f.next_poll_at, f.next_poll_why, f.last_polled_at, f.last_success_at, f.last_new_at,
       f.last_reason, f.last_error, f.last_item_count, f.consecutive_errors, f.failing_since, f.backfill_since,
       f.lease_token IS NOT NULL AS polling, f.state -> 'problems' AS problems, f.state -> 'moved' AS redirect,
       f.state -> 'older' AS older, f.state -> 'flaws' AS flaws
FROM poll_state f JOIN sources s ON s.id = f.source_id
WHERE s.removed_at IS NULL AND ($1::int[] IS NULL OR f.source_id = ANY ($1))
ORDER BY f.source_id, f.method

-- name: count_source_urls
-- $1 source
SELECT status, sum(urls)::bigint AS urls FROM source_urls WHERE source_id = $1 GROUP BY 1

-- name: list_last_items
-- $1 source, $2 limit
SELECT title, url, published_at, published_is_sighting FROM items WHERE source_id = $1 ORDER BY published_at DESC LIMIT $2

-- name: claim_polls
-- Claim due methods, or the methods of one source. Two subqueries search for them, because one plan for both would read
-- the whole table. The claim of a main method also reserves the time of its first request.
-- $1 now, $2 limit, $3 holder, $4 until, $5 name of one source or NULL for those that are due, $6 methods
WITH due AS MATERIALIZED (
    SELECT f.source_id, f.method FROM poll_state f JOIN sources s ON s.id = f.source_id
    WHERE $5::text IS NULL AND f.lease_token IS NULL AND f.next_poll_at <= $1 AND f.method = ANY ($6::text[]) AND s.enabled
    ORDER BY f.next_poll_at LIMIT $2
    FOR UPDATE OF f SKIP LOCKED
), named AS MATERIALIZED (
    SELECT f.source_id, f.method FROM poll_state f JOIN sources s ON s.id = f.source_id
    WHERE $5 IS NOT NULL AND s.name = $5 AND s.removed_at IS NULL AND f.lease_token IS NULL AND f.method = ANY ($6::text[])
    FOR UPDATE OF f SKIP LOCKED
), taken AS MATERIALIZED (
    SELECT * FROM due UNION ALL SELECT * FROM named
), paced AS (
    UPDATE sources s SET next_request_at = greatest(s.next_request_at, $1) + (s.fetch_profile ->> 'gap')::interval
    FROM taken WHERE s.id = taken.source_id AND taken.method = 'main' AND s.fetch_profile ? 'gap'
    RETURNING s.id, s.next_request_at - (s.fetch_profile ->> 'gap')::interval AS moment
)
UPDATE poll_state f
SET lease_holder = $3, lease_token = gen_random_uuid(), lease_until = $4, attempts = f.attempts + 1
FROM sources s, taken LEFT JOIN paced ON paced.id = taken.source_id AND taken.method = 'main'
WHERE f.source_id = taken.source_id AND f.method = taken.method AND s.id = f.source_id
RETURNING s.id, s.name, s.kind, s.settings, s.enabled, s.created_at, s.fetch_profile, paced.moment, f.method, f.state, f.consecutive_errors,
          f.last_success_at, f.adaptive_interval, f.backfill_since, f.lease_holder, f.lease_token, f.lease_until, f.attempts

-- name: lock_poll
-- Lock a poll whose lease is valid. $1 source, $2 token
SELECT true FROM poll_state WHERE source_id = $1 AND lease_token = $2 FOR UPDATE

-- name: save_state
-- $1 source, $2 token, $3 state
UPDATE poll_state SET state = $3 WHERE source_id = $1 AND lease_token = $2

-- name: save_wait_reason
-- $1 source, $2 token, $3 why the poll waits
UPDATE poll_state SET next_poll_why = $3 WHERE source_id = $1 AND lease_token = $2

-- name: finish_polls
-- End polls whose leases are valid. Returns their tokens. Arrays: $1 sources, $2 tokens, $3 next polls, $4 why then,
-- $5 adaptive intervals, $6 reasons, $7 errors or NULL, $8 consecutive errors, $9 item counts or NULL, $10 states,
-- $11 whether something was new, $14 whether the next poll continues the backfill, $15 new items, $16 new URLs, $17 runs or
-- NULL. $12 now, $13 whether the commit need not wait for the disk. If the server crashes before the data is on disk, the
-- leases expire and the polls run again.
WITH ended AS (
UPDATE poll_state f
SET lease_holder = NULL, lease_token = NULL, lease_until = NULL, attempts = 0,
    last_polled_at = $12, next_poll_at = g.next_poll_at, next_poll_why = g.why, adaptive_interval = g.adaptive_interval,
    last_reason = g.reason, last_error = g.error, consecutive_errors = g.errors,
    failing_since = CASE WHEN g.errors > 0 THEN coalesce(f.failing_since, $12) END,
    last_success_at = CASE WHEN g.error IS NULL THEN $12 ELSE f.last_success_at END,
    last_item_count = coalesce(g.items, f.last_item_count), state = g.state,
    last_new_at = CASE WHEN g.is_new THEN $12 ELSE f.last_new_at END,
    -- The backfill is done, or is not tried again.
    backfill_since = CASE WHEN g.is_unfinished AND g.next_poll_at IS NOT NULL THEN f.backfill_since END
FROM unnest($1::int[], $2::uuid[], $3::timestamptz[], $4::text[], $5::jsonb[], $6::text[], $7::text[], $8::int[],
            $9::int[], $10::jsonb[], $11::boolean[], $14::boolean[], $15::int[], $16::int[], $17::bigint[])
    AS g (source_id, token, next_poll_at, why, adaptive_interval, reason, error, errors, items, state, is_new, is_unfinished,
          new_items, new_urls, run_id),
    set_config('synchronous_commit', CASE WHEN $13 THEN 'off' ELSE current_setting('synchronous_commit') END, true) AS durability
WHERE f.source_id = ANY ($1) AND f.source_id = g.source_id AND f.lease_token = g.token
RETURNING f.source_id, f.method, g.token, g.reason, g.error, g.items, g.new_items, g.new_urls, g.run_id
), logged AS (
    INSERT INTO poll_log (source_id, method, polled_at, reason, error, run_id, items, new_items, new_urls)
    SELECT source_id, method, $12, reason, left(error, 300), run_id, items, new_items, new_urls FROM ended
)
SELECT token FROM ended

-- name: release_poll
-- Release a poll that was not done. $1 source, $2 token, $3 next poll or NULL to keep it, $4 why then
UPDATE poll_state
SET lease_holder = NULL, lease_token = NULL, lease_until = NULL, attempts = greatest(attempts - 1, 0),
    next_poll_at = coalesce($3, next_poll_at), next_poll_why = CASE WHEN $3 IS NULL THEN next_poll_why ELSE $4 END
WHERE source_id = $1 AND lease_token = $2

-- name: release_expired_polls
-- Make expired polls due now. A poll that expires again and again waits longer each time. $1 now
WITH lost AS (
UPDATE poll_state
SET lease_holder = NULL, lease_token = NULL, lease_until = NULL, last_reason = 'worker_lost',
    next_poll_at = CASE WHEN next_poll_at IS NOT NULL
                        THEN $1 + interval '10 seconds' * (power(2, least(attempts, 12)) - 2) END
WHERE lease_token IS NOT NULL AND lease_until <= $1
RETURNING source_id, method
), logged AS (
    INSERT INTO poll_log (source_id, method, polled_at, reason, error, new_items, new_urls)
    SELECT source_id, method, $1, 'worker_lost', 'The program that polled it ended or lost its lease.', 0, 0 FROM lost
)
SELECT source_id FROM lost

-- name: reserve_request
-- Reserve the time of a request: now, or $3 after the previous request. $1 source, $2 now, $3 gap, $4 a reserved time that
-- was not used or NULL: it is free again, unless a later time was reserved since.
UPDATE sources
SET next_request_at = greatest(
    CASE WHEN next_request_at = $4::timestamptz + $3::interval THEN $4 ELSE next_request_at END, $2::timestamptz) + $3
WHERE id = $1
RETURNING next_request_at - $3::interval AS moment

-- name: save_fetch_profile
-- A new re-fetch policy then has to be planned for all documents of the source. $1 source, $2 fetch profile
UPDATE sources
SET fetch_profile = $2,
    replanned_to = CASE WHEN coalesce(fetch_profile ->> 'refetch', 'never') = coalesce($2::jsonb ->> 'refetch', 'never')
                        THEN replanned_to ELSE 0 END
WHERE id = $1 AND fetch_profile <> $2

-- name: renew_poll
-- Extend a lease. Returns no row if it is lost. $1 source, $2 token, $3 until
UPDATE poll_state SET lease_until = $3 WHERE source_id = $1 AND lease_token = $2 RETURNING true
