-- name: add_source
-- $1 name, $2 kind, $3 settings, $4 now
INSERT INTO sources (name, kind, settings, created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING
RETURNING id, name, kind, settings, enabled, created_at

-- name: keep_passes
-- $1 source; arrays: $2 its passes, $3 when each is due if it is new
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($2::text[], $3::timestamptz[]) AS g (pass, due)
), gone AS (
    DELETE FROM feed_state WHERE source_id = $1 AND NOT pass = ANY ($2::text[])
)
INSERT INTO feed_state (source_id, pass, next_poll_at) SELECT $1, pass, due FROM given
ON CONFLICT DO NOTHING

-- name: learn_settings
-- Put what was found out in place of what was set. $1 source, $2 settings
UPDATE sources SET settings = settings || $2 WHERE id = $1

-- name: ask_for_pass
-- Let a pass be due at once, and take what is older too. Answers nothing where there is none. $1 source, $2 pass, $3 now,
-- $4 since, $5 why
UPDATE feed_state
SET next_poll_at = least(next_poll_at, $3), next_poll_why = $5, backfill_since = least(backfill_since, $4)
WHERE source_id = $1 AND pass = $2
RETURNING true

-- name: remove_source
-- Only one that has brought nothing: what was brought refers to it. $1 id
DELETE FROM sources s
WHERE s.id = $1 AND NOT EXISTS (SELECT 1 FROM items WHERE source_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM url_frontier WHERE source_id = s.id)

-- name: keep_source
-- Let nobody remove a source before the transaction ends. $1 id
SELECT true FROM sources WHERE id = $1 FOR KEY SHARE

-- name: get_source
-- $1 name
SELECT id, name, kind, settings, enabled, created_at FROM sources WHERE name = $1 AND removed_at IS NULL

-- name: all_sources
SELECT id, name, kind, settings, enabled, created_at FROM sources WHERE removed_at IS NULL ORDER BY name

-- name: source_of_feed
-- $1 feed URL
SELECT name FROM sources WHERE settings ->> 'feed_url' = $1 AND removed_at IS NULL

-- name: list_sources
-- Each source with the state of its polls and what it has brought.
SELECT s.name, s.kind, s.settings, s.enabled, f.next_poll_at, f.last_polled_at, f.last_success_at, f.last_reason,
       f.last_error, coalesce(f.consecutive_errors, 0) AS consecutive_errors, f.lease_token IS NOT NULL AS polling,
       (SELECT count(*) FROM items i WHERE i.source_id = s.id) AS items,
       (SELECT count(*) FROM documents d WHERE d.source_id = s.id) AS documents
FROM sources s LEFT JOIN feed_state f ON f.source_id = s.id AND f.pass = 'main'
WHERE s.removed_at IS NULL
ORDER BY s.name

-- name: claim_feeds
-- $1 now, $2 how many, $3 holder, $4 until, $5 one source's name or NULL for whatever is due, $6 passes. Two looks, since a
-- plan that is to serve both would read them all. The first request of a list gets its moment here, where the gap between
-- two of its source is known.
WITH due AS MATERIALIZED (
    SELECT f.source_id, f.pass FROM feed_state f JOIN sources s ON s.id = f.source_id
    WHERE $5::text IS NULL AND f.lease_token IS NULL AND f.next_poll_at <= $1 AND f.pass = ANY ($6::text[]) AND s.enabled
    ORDER BY f.next_poll_at LIMIT $2
    FOR UPDATE OF f SKIP LOCKED
), named AS MATERIALIZED (
    SELECT f.source_id, f.pass FROM feed_state f JOIN sources s ON s.id = f.source_id
    WHERE s.name = $5 AND s.removed_at IS NULL AND f.lease_token IS NULL AND f.pass = ANY ($6::text[])
    FOR UPDATE OF f SKIP LOCKED
), taken AS MATERIALIZED (
    SELECT * FROM due UNION ALL SELECT * FROM named
), paced AS (
    UPDATE sources s SET next_request_at = greatest(s.next_request_at, $1) + (s.asking ->> 'gap')::interval
    FROM taken WHERE s.id = taken.source_id AND taken.pass = 'main' AND s.asking ? 'gap'
    RETURNING s.id, s.next_request_at - (s.asking ->> 'gap')::interval AS moment
)
UPDATE feed_state f
SET lease_holder = $3, lease_token = gen_random_uuid(), lease_until = $4, attempts = f.attempts + 1
FROM sources s, taken LEFT JOIN paced ON paced.id = taken.source_id AND taken.pass = 'main'
WHERE f.source_id = taken.source_id AND f.pass = taken.pass AND s.id = f.source_id
RETURNING s.id, s.name, s.kind, s.settings, s.enabled, s.created_at, s.asking, paced.moment, f.pass, f.memory, f.consecutive_errors,
          f.last_success_at, f.rhythm, f.backfill_since, f.lease_holder, f.lease_token, f.lease_until, f.attempts

-- name: hold_feed
-- The fence of a poll. $1 source, $2 token
SELECT true FROM feed_state WHERE source_id = $1 AND lease_token = $2 FOR UPDATE

-- name: settle_feeds
-- End polls, each fenced by its token; answers the tokens that were still in force. Arrays: $1 sources, $2 tokens, $3 next
-- polls, $4 why then, $5 rhythms, $6 reasons, $7 errors or NULL, $8 errors in a row, $9 items or NULL, $10 memories,
-- $11 whether something new came; $12 now
UPDATE feed_state f
SET lease_holder = NULL, lease_token = NULL, lease_until = NULL, attempts = 0,
    last_polled_at = $12, next_poll_at = g.next_poll_at, next_poll_why = g.why, rhythm = g.rhythm,
    last_reason = g.reason, last_error = g.error, consecutive_errors = g.errors,
    last_success_at = CASE WHEN g.error IS NULL THEN $12 ELSE f.last_success_at END,
    last_item_count = coalesce(g.items, f.last_item_count), memory = g.memory,
    last_new_at = CASE WHEN g.is_new THEN $12 ELSE f.last_new_at END,
    usual_gap = CASE WHEN g.is_new THEN coalesce(f.usual_gap * 0.8 + ($12 - f.last_new_at) * 0.2, $12 - f.last_new_at)
                     ELSE f.usual_gap END,
    backfill_since = CASE WHEN g.error IS NULL THEN NULL ELSE f.backfill_since END
FROM unnest($1::int[], $2::uuid[], $3::timestamptz[], $4::text[], $5::jsonb[], $6::text[], $7::text[], $8::int[],
            $9::int[], $10::jsonb[], $11::boolean[])
    AS g (source_id, token, next_poll_at, why, rhythm, reason, error, errors, items, memory, is_new)
WHERE f.source_id = ANY ($1) AND f.source_id = g.source_id AND f.lease_token = g.token
RETURNING g.token

-- name: release_feed
-- Give a poll back undone, at no cost. $1 source, $2 token, $3 next poll or NULL to leave it, $4 why then
UPDATE feed_state
SET lease_holder = NULL, lease_token = NULL, lease_until = NULL, attempts = greatest(attempts - 1, 0),
    next_poll_at = coalesce($3, next_poll_at), next_poll_why = CASE WHEN $3 IS NULL THEN next_poll_why ELSE $4 END
WHERE source_id = $1 AND lease_token = $2

-- name: return_expired_feeds
-- A poll whose holder is late is due again at once, but one that keeps losing its holder waits longer each time. $1 now
UPDATE feed_state
SET lease_holder = NULL, lease_token = NULL, lease_until = NULL, last_reason = 'worker_lost',
    next_poll_at = CASE WHEN next_poll_at IS NOT NULL
                        THEN $1 + interval '10 seconds' * (power(2, least(attempts, 12)) - 2) END
WHERE lease_token IS NOT NULL AND lease_until <= $1
RETURNING source_id

-- name: reserve_request
-- Give a request of a source its moment: at once, or as long after the one before as the rate allows. $1 source, $2 now,
-- $3 gap
UPDATE sources SET next_request_at = greatest(next_request_at, $2::timestamptz) + $3::interval WHERE id = $1
RETURNING next_request_at - $3::interval AS moment

-- name: keep_asking
-- $1 source, $2 how its requests are made
UPDATE sources SET asking = $2 WHERE id = $1 AND asking <> $2

-- name: renew_feed
-- A poll that goes on keeps its lease. Answers nothing when it has lost it. $1 source, $2 token, $3 until
UPDATE feed_state SET lease_until = $3 WHERE source_id = $1 AND lease_token = $2 RETURNING true
