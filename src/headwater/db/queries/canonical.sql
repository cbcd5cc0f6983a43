-- name: note_links
-- Save that URLs were seen in a category. $1 category, arrays: $2 uids, $3 urls as given; $4 now
INSERT INTO category_links AS l (category, uid, url, seen_at)
SELECT $1, uid, url, $4 FROM unnest($2::text[], $3::text[]) AS g (uid, url) ORDER BY uid
ON CONFLICT (category, uid) DO UPDATE SET seen_at = greatest(l.seen_at, excluded.seen_at), is_projected = false

-- name: drop_links
-- Delete links that were not seen since $1.
DELETE FROM category_links WHERE seen_at <= $1

-- name: take_canonical_lease
-- $1 holder, $2 token, $3 until, $4 now
UPDATE canonical_state SET lease_holder = $1, lease_token = $2, lease_until = $3, attempts = attempts + 1
WHERE lease_token IS NULL OR lease_until <= $4
RETURNING attempts

-- name: canonical_lease
SELECT lease_holder, lease_token, lease_until, attempts FROM canonical_state WHERE lease_token IS NOT NULL

-- name: renew_canonical_lease
-- $1 token, $2 until
UPDATE canonical_state SET lease_until = $2 WHERE lease_token = $1 RETURNING true

-- name: end_canonical_lease
-- $1 token
UPDATE canonical_state SET lease_holder = NULL, lease_token = NULL, lease_until = NULL, attempts = 0 WHERE lease_token = $1

-- name: return_expired_canonical_lease
-- $1 now
UPDATE canonical_state SET lease_holder = NULL, lease_token = NULL, lease_until = NULL
WHERE lease_token IS NOT NULL AND lease_until <= $1
RETURNING true

-- name: request_new_links
-- Request every link of any category that was not attempted within 30 days.
-- $1 links since, $2 attempts since, $3 now
INSERT INTO canonical_attempts AS a (uid, url, categories, requested_at)
SELECT uid, min(url), array_agg(category ORDER BY category), $3 FROM category_links l
WHERE seen_at > $1
  AND NOT EXISTS (SELECT FROM canonical_attempts k
                  WHERE k.uid = l.uid AND (k.requested_at IS NOT NULL OR k.attempted_at > $2))
GROUP BY uid ORDER BY uid
ON CONFLICT (uid) DO UPDATE
    SET url = excluded.url, categories = excluded.categories, requested_at = excluded.requested_at, url_id = NULL

-- name: add_categories
-- Add to requested links and living articles the categories that have linked them since. The page of links has a literal
-- length: otherwise the plan reads all attempts for each link. $1 and $2 after this category and uid, $3 articles since.
-- Returns the last link of the page, and the number of changed attempts.
WITH page AS MATERIALIZED (
    SELECT category, uid FROM category_links WHERE (category, uid) > ($1::text, $2::text) ORDER BY category, uid LIMIT 500
), lacking AS (
    SELECT uid, array_agg(category ORDER BY category) AS categories
    FROM page JOIN canonical_attempts a USING (uid)
    WHERE category <> ALL (a.categories)
      AND (a.requested_at IS NOT NULL OR (a.url_id IS NOT NULL AND a.code IS NULL AND a.attempted_at > $3))
    GROUP BY uid
), changed AS (
    UPDATE canonical_attempts a SET categories = a.categories || lacking.categories, is_projected = false
    FROM lacking WHERE a.uid = lacking.uid
    RETURNING a.uid
)
SELECT category, uid, (SELECT count(*) FROM changed) AS changed FROM page ORDER BY category DESC, uid DESC LIMIT 1

-- name: count_requested
SELECT count(*) FROM canonical_attempts WHERE requested_at IS NOT NULL

-- name: unsubmitted
-- Requested links that are not in the frontier, by pages. $1 after this uid, $2 how many
SELECT uid, url, attempted_at IS NOT NULL AS is_expired FROM canonical_attempts
WHERE requested_at IS NOT NULL AND url_id IS NULL AND uid > $1
ORDER BY uid LIMIT $2

-- name: save_submitted
-- Arrays: $1 uids, $2 url ids
UPDATE canonical_attempts a SET url_id = g.url_id
FROM unnest($1::text[], $2::bigint[]) AS g (uid, url_id) WHERE a.uid = g.uid AND a.requested_at IS NOT NULL

-- name: list_progress
-- The progress of requested links by pages; a moved link has the progress of its final page. A waiting link is tried next
-- at `due_at`. Its `waiting_reason` is the pause of its host, or else the reason of its last attempt. $1 after this uid,
-- $2 how many, $3 now
WITH RECURSIVE requested AS MATERIALIZED (
    SELECT uid, url, url_id FROM canonical_attempts
    WHERE requested_at IS NOT NULL AND url_id IS NOT NULL AND uid > $1 ORDER BY uid LIMIT $2
), path AS (
    SELECT requested.uid, page.id, page.status, page.reason, page.redirect_target, 0 AS hops
    FROM requested
    JOIN url_frontier given ON given.id = requested.url_id
    JOIN url_frontier page ON page.id = coalesce(given.alias_of, given.id)
    UNION ALL
    SELECT path.uid, page.id, page.status, page.reason, page.redirect_target, path.hops + 1
    FROM path
    JOIN url_frontier given ON given.id = path.redirect_target
    JOIN url_frontier page ON page.id = coalesce(given.alias_of, given.id)
    WHERE path.status = 'dead' AND path.reason = 'redirect' AND path.hops < 10
), final AS (
    SELECT DISTINCT ON (uid) uid, id, status, reason FROM path ORDER BY uid, hops DESC
)
SELECT requested.uid, requested.url, final.id AS url_id, final.status, final.reason, last.detail,
       d.id IS NOT NULL AS has_document,
       CASE WHEN q.lease_token IS NULL
            THEN greatest(q.due_at, CASE WHEN k.blocked_reason IS NOT NULL THEN k.not_before END, k.closed_until) END AS due_at,
       CASE WHEN k.closed_until > $3 THEN 'host_closed'
            WHEN k.not_before > $3 THEN coalesce(k.blocked_reason, last.reason) ELSE last.reason END AS waiting_reason
FROM requested
JOIN final USING (uid)
LEFT JOIN documents d ON d.url_id = final.id
LEFT JOIN frontier_queue q ON q.url_id = final.id
LEFT JOIN host_state k ON k.host = q.politeness_key
LEFT JOIN LATERAL (SELECT l.reason, l.detail FROM fetch_log l WHERE l.url_id = final.id ORDER BY l.id DESC LIMIT 1) last
    ON true
ORDER BY requested.uid

-- name: save_results
-- Arrays: $1 uids, $2 url ids or NULL, $3 codes or NULL, $4 reasons; $5 now. Returns those that were requested.
UPDATE canonical_attempts a
SET requested_at = NULL, attempted_at = $5, url_id = coalesce(g.url_id, a.url_id), code = g.code, reason = g.reason,
    is_projected = false
FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[]) AS g (uid, url_id, code, reason)
WHERE a.uid = g.uid AND a.requested_at IS NOT NULL
RETURNING a.uid

-- name: note_refused_links
-- Save links that are no addresses. $1 category, arrays: $2 uids, $3 printable texts; $4 code, $5 reason, $6 now
INSERT INTO canonical_attempts AS a (uid, url, categories, attempted_at, code, reason)
SELECT uid, url, ARRAY[$1], $6, $4, $5 FROM unnest($2::text[], $3::text[]) AS g (uid, url) ORDER BY uid
ON CONFLICT (uid) DO NOTHING
RETURNING uid

-- name: note_foreign_attempts
-- Save the attempts of other programs. $1 uids, $2 now
INSERT INTO canonical_attempts (uid, attempted_at, is_projected)
SELECT uid, $2, true FROM unnest($1::text[]) AS g (uid) ORDER BY uid
ON CONFLICT (uid) DO NOTHING

-- name: withdraw_foreign
-- Withdraw requests of links that another program has attempted and this one never. $1 uids, $2 now. Returns the uids.
UPDATE canonical_attempts SET requested_at = NULL, attempted_at = $2, is_projected = true
WHERE uid = ANY ($1::text[]) AND requested_at IS NOT NULL AND attempted_at IS NULL
RETURNING uid

-- name: drop_unattempted
-- A deferred link without an attempt leaves no row: a later run requests it again. $1 uids
DELETE FROM canonical_attempts WHERE uid = ANY ($1::text[]) AND attempted_at IS NULL

-- name: withdraw_requests
-- $1 uids
UPDATE canonical_attempts SET requested_at = NULL WHERE uid = ANY ($1::text[]) AND attempted_at IS NOT NULL

-- name: redis_mark
SELECT redis_mark FROM canonical_state

-- name: save_redis_mark
-- $1 mark
UPDATE canonical_state SET redis_mark = $1

-- name: unproject_links
-- $1 seen since
UPDATE category_links SET is_projected = false WHERE seen_at > $1 AND is_projected

-- name: unproject_attempts
-- $1 attempted since
UPDATE canonical_attempts SET is_projected = false WHERE attempted_at > $1 AND is_projected

-- name: unprojected_links
-- Links that Redis does not have, by pages. $1 category or NULL, $2 seen since, $3, $4 and $5 after this time, uid and category, $6 how many
SELECT category, uid, url, seen_at FROM category_links
WHERE NOT is_projected AND seen_at > $2 AND ($1::text IS NULL OR category = $1)
  AND (seen_at, uid, category) > ($3::timestamptz, $4::text, $5::text)
ORDER BY seen_at, uid, category LIMIT $6

-- name: mark_links_projected
-- Mark links as written to Redis, unless they were seen again meanwhile. Arrays: $1 categories, $2 uids, $3 times
UPDATE category_links l SET is_projected = true
FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS g (category, uid, seen_at)
WHERE l.category = g.category AND l.uid = g.uid AND l.seen_at = g.seen_at

-- name: unprojected_attempts
-- Attempts that Redis does not have, by pages, with the articles that have not expired. $1 attempted since, $2 and $3 after this time and uid,
-- $4 articles since, $5 how many
SELECT a.uid, a.url, a.categories, a.attempted_at, a.code, a.reason IN ('deleted', 'expired') IS TRUE AS is_deleted, d.raw_bytes, d.title, d.byline, d.language, d.image, d.abstract,
       d.provenance, d.fetched_at, t.body AS text,
       coalesce(d.published_at, (SELECT min(i.published_at) FROM items i
        WHERE i.url_id = d.url_id AND NOT i.published_is_sighting)) AS published_at,
       d.published_at IS NULL AS published_by_source
FROM canonical_attempts a
LEFT JOIN documents d ON d.url_id = a.url_id AND a.code IS NULL AND a.attempted_at > $4
LEFT JOIN texts t USING (content_hash)
WHERE NOT a.is_projected AND a.requested_at IS NULL AND a.attempted_at > $1
  AND (a.attempted_at, a.uid) > ($2::timestamptz, $3::text)
ORDER BY a.attempted_at, a.uid LIMIT $5

-- name: mark_attempts_projected
-- Arrays: $1 uids, $2 times
UPDATE canonical_attempts a SET is_projected = true
FROM unnest($1::text[], $2::timestamptz[]) AS g (uid, attempted_at)
WHERE a.uid = g.uid AND a.attempted_at = g.attempted_at

-- name: mark_articles_changed
-- Mark the living articles of changed documents as missing in Redis. $1 url ids, $2 attempted since
UPDATE canonical_attempts SET is_projected = false
WHERE url_id = ANY ($1::bigint[]) AND code IS NULL AND is_projected AND attempted_at > $2
