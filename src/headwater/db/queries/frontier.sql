-- name: find_urls
-- Known URLs among hashes, by the id of their page, and the priority of those that wait. $1 hashes
-- LATERAL makes it one index lookup for each hash, also before the table has statistics.
SELECT u.url_hash, coalesce(u.alias_of, u.id) AS id, CASE WHEN q.lease_token IS NULL THEN q.priority END AS priority
FROM unnest($1::bytea[]) AS g (url_hash)
CROSS JOIN LATERAL (SELECT f.id, f.url_hash, f.alias_of FROM url_frontier f WHERE f.url_hash = g.url_hash LIMIT 1) u
LEFT JOIN LATERAL (SELECT w.priority, w.lease_token FROM frontier_queue w WHERE w.url_id = u.id LIMIT 1) q ON true

-- name: raise_priorities
-- Arrays: $1 url ids, $2 priorities
UPDATE frontier_queue q SET priority = g.priority
FROM unnest($1::bigint[], $2::smallint[]) AS g (url_id, priority)
WHERE q.url_id = ANY ($1) AND q.url_id = g.url_id AND (q.lease_token IS NULL AND q.priority < g.priority) IS TRUE

-- name: wake_keys
-- Make the keys of new URLs ready. The row of a key is locked even if nothing changes: a release of the same host waits, and
-- then sees the new URL. Arrays: $1 hosts, in order, so that two submits never wait for each other, $2 the politeness key of
-- each if it is new; $3 now.
WITH given AS MATERIALIZED (
    SELECT g.host, coalesce(known.politeness_key, g.new_key) AS politeness_key
    FROM unnest($1::text[], $2::text[]) AS g (host, new_key)
    LEFT JOIN LATERAL (
        SELECT coalesce(h.politeness_key, h.host) AS politeness_key FROM host_state h WHERE h.host = g.host LIMIT 1
    ) known ON true
), woken AS (
    INSERT INTO host_state AS k (host, ready_at)
    SELECT DISTINCT politeness_key, $3::timestamptz FROM given ORDER BY 1
    ON CONFLICT (host) DO UPDATE SET ready_at = greatest(k.not_before, k.closed_until, excluded.ready_at)
        WHERE k.politeness_key IS NULL  -- a host that was grouped at this moment: the sweeper moves its queue
          AND (k.ready_at IS NULL OR k.ready_at > greatest(k.not_before, k.closed_until, excluded.ready_at))
)
INSERT INTO host_state (host, politeness_key)
SELECT host, politeness_key FROM given WHERE host <> politeness_key ORDER BY 1
ON CONFLICT (host) DO NOTHING

-- name: add_urls
-- Insert new URLs. Another submit may have just inserted some, which stay. Arrays, one element for each URL, in the order of
-- the hashes: $1 url, $2 hash, $3 host, $4 source, $5 origin, $6 depth, $7 hops, $8 parent, $9 subpath, $10 the page
-- that links to it; $11 now
INSERT INTO url_frontier (url, url_hash, host, source_id, origin, depth, hops, parent_id, subpath, found_on, discovered_at)
SELECT url, url_hash, host, source_id, origin, depth, hops, parent_id, subpath, found_on, $11
FROM unnest($1::text[], $2::bytea[], $3::text[], $4::int[], $5::text[], $6::smallint[], $7::smallint[], $8::bigint[],
            $9::text[], $10::text[])
    AS g (url, url_hash, host, source_id, origin, depth, hops, parent_id, subpath, found_on)
ON CONFLICT (url_hash) DO NOTHING
RETURNING id, url_hash

-- name: queue_urls
-- It runs after wake_keys in a statement of its own, so it sees the keys as they are once those rows are locked.
-- Arrays: $1 url ids, $2 hosts, $3 priorities; $4 due
INSERT INTO frontier_queue (url_id, politeness_key, priority, due_at)
SELECT g.url_id, h.politeness_key, g.priority, $4
FROM unnest($1::bigint[], $2::text[], $3::smallint[]) AS g (url_id, host, priority)
CROSS JOIN LATERAL (
    SELECT coalesce(k.politeness_key, k.host) AS politeness_key FROM host_state k WHERE k.host = g.host LIMIT 1
) h

-- name: claim_urls
-- Lock ready hosts first, take the best due URL of each, and lease both with one token.
-- $1 now, $2 limit, $3 holder, $4 lease until, $5 default delay in ms, $6 token. A row without url_id is a host without a due
-- URL (see set_next_work). If the holder dies, the host keeps its delay from the lease's end on, because the holder may have sent
-- a request just before.
-- The statistics of a queue are always old, so the query leaves the planner no choice: it finds rows by key or place (= ANY,
-- LATERAL with LIMIT 1), and only one index gives the order of a pick (its predicate says priority > 0).
-- A pick checks one priority after the other: servers before 18 would otherwise read all urgent URLs that are not due.
WITH ready AS MATERIALIZED (
    SELECT host AS politeness_key FROM host_state
    WHERE ready_at <= $1 AND (reserved_until IS NULL OR reserved_until <= $1)
    ORDER BY ready_at LIMIT $2
    FOR UPDATE SKIP LOCKED
), picked AS MATERIALIZED (
    SELECT ready.politeness_key, best.url_id, best.place AS row_place
    FROM ready LEFT JOIN LATERAL (
        SELECT first.url_id, first.place
        FROM unnest('{10,9,8,7,6,5,4,3,2,1}'::smallint[]) WITH ORDINALITY AS p (priority, rank)
        CROSS JOIN LATERAL (
            SELECT q.url_id, q.ctid AS place FROM frontier_queue q
            WHERE q.politeness_key = ready.politeness_key AND q.lease_token IS NULL
              AND q.priority = p.priority AND q.priority > 0 AND q.due_at <= $1
            ORDER BY q.due_at LIMIT 1
            -- The lock reads the row again: the first reading may be older than another worker's claim of this URL.
            FOR UPDATE SKIP LOCKED
        ) first
        ORDER BY p.rank LIMIT 1
    ) best ON true
), claimed AS (
    UPDATE frontier_queue q
    SET lease_holder = $3, lease_token = $6, lease_until = $4, attempts = q.attempts + 1
    WHERE q.ctid = ANY (ARRAY (SELECT row_place FROM picked))  -- a row that changed just before its lock stays out
    RETURNING q.url_id, q.politeness_key, q.attempts, q.priority
), pages AS MATERIALIZED (
    SELECT claimed.url_id, claimed.politeness_key, claimed.attempts, claimed.priority,
           u.url, u.host, u.source_id, u.subpath, u.depth, u.hops, u.origin, u.etag, u.last_modified,
           s.name AS source_name, s.fetch_profile::text, s.fetch_profile -> 'selectors' AS selectors, s.page_delay_ms
    FROM claimed
    CROSS JOIN LATERAL (SELECT f.* FROM url_frontier f WHERE f.id = claimed.url_id LIMIT 1) u
    JOIN sources s ON s.id = u.source_id
), leased AS (
    UPDATE host_state k
    SET lease_holder = $3, lease_token = $6, lease_until = $4,
        not_before = $4 + greatest(k.crawl_delay_ms, pages.page_delay_ms, $5::int, k.backoff_ms) * interval '1 ms',
        ready_at = $4 + greatest(k.crawl_delay_ms, pages.page_delay_ms, $5, k.backoff_ms) * interval '1 ms'
    FROM pages WHERE k.host = ANY (ARRAY (SELECT politeness_key FROM pages)) AND k.host = pages.politeness_key
    RETURNING pages.*, k.crawl_delay_ms, k.backoff_ms, k.last_throttled_at
)
SELECT picked.politeness_key, leased.url_id, leased.attempts, leased.priority,
       leased.url, leased.host, leased.source_id, leased.subpath, leased.depth, leased.hops, leased.origin, leased.etag,
       leased.last_modified, leased.source_name, leased.fetch_profile, leased.selectors, leased.page_delay_ms,
       leased.crawl_delay_ms, leased.backoff_ms, leased.last_throttled_at, own.*
FROM picked
LEFT JOIN leased ON leased.url_id = picked.url_id
LEFT JOIN LATERAL (
    SELECT r.robots_txt, r.robots_fetched_at, r.silent_since, r.failures, r.failure, r.failed_at, r.retry_at
    FROM host_state r WHERE r.host = leased.host LIMIT 1
) own ON true

-- name: give_back_claims
-- End claims as if they had not been made. Their hosts are ready again at the given times. Arrays: $1 url ids, $2 politeness keys,
-- $3 tokens, $4 when the hosts are ready; $5 now
WITH freed AS (
    UPDATE frontier_queue q
    SET lease_holder = NULL, lease_token = NULL, lease_until = NULL, attempts = greatest(q.attempts - 1, 0)
    FROM unnest($1::bigint[], $3::uuid[]) AS g (url_id, token)
    WHERE q.url_id = ANY ($1) AND q.url_id = g.url_id AND q.lease_token = g.token
)
UPDATE host_state k
SET lease_holder = NULL, lease_token = NULL, lease_until = NULL, not_before = $5, ready_at = greatest(g.ready_at, k.closed_until)
FROM unnest($2::text[], $3::uuid[], $4::timestamptz[]) AS g (host, token, ready_at)
WHERE k.host = ANY ($2) AND k.host = g.host AND k.lease_token = g.token

-- name: lock_claims
-- The fence: lock the given claims that are still their holder's until the transaction ends. A page is watched by a policy
-- of its own or by that of its source. $1 url ids, $2 tokens
SELECT q.url_id,
       EXISTS (SELECT FROM watches w WHERE w.url_id = q.url_id) OR coalesce((
           SELECT s.fetch_profile ->> 'refetch' FROM url_frontier u JOIN sources s ON s.id = u.source_id WHERE u.id = q.url_id
       ), 'never') <> 'never' AS is_watched
FROM frontier_queue q
JOIN unnest($1::bigint[], $2::uuid[]) AS g (url_id, token) ON q.url_id = g.url_id AND q.lease_token = g.token
WHERE q.url_id = ANY ($1)
ORDER BY q.url_id
FOR UPDATE OF q

-- name: end_urls
-- Remove URLs from the queue for good. Arrays: $1 url ids, $2 statuses, $3 reasons, $4 etags, $5 last-modifieds; $6 now.
WITH given AS (
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[])
        AS g (url_id, status, reason, etag, last_modified)
), left_queue AS (
    DELETE FROM frontier_queue q WHERE q.url_id = ANY ($1)
)
UPDATE url_frontier u
SET status = given.status, reason = given.reason, etag = given.etag, last_modified = given.last_modified,
    last_fetched_at = $6, fetch_count = u.fetch_count + 1
FROM given WHERE u.id = ANY ($1) AND u.id = given.url_id

-- name: requeue_urls
-- Return URLs to the queue. Arrays: $1 url ids, $2 due times, $3 whether the attempt counts. Returns their politeness keys.
UPDATE frontier_queue q
SET lease_holder = NULL, lease_token = NULL, lease_until = NULL, due_at = g.due_at,
    attempts = q.attempts - (NOT g.is_counted)::int
FROM unnest($1::bigint[], $2::timestamptz[], $3::boolean[]) AS g (url_id, due_at, is_counted)
WHERE q.url_id = ANY ($1) AND q.url_id = g.url_id
RETURNING q.politeness_key

-- name: log_fetches
-- Arrays: $1 url ids, $2 holders, $3 attempts, $4 sent, $5 http statuses, $6 bytes, $7 ms, $8 reasons, $9 details; $10 now.
INSERT INTO fetch_log (url_id, holder, attempt, finished_at, sent_at, http_status, body_bytes, elapsed_ms, reason, detail)
SELECT url_id, holder, attempt, $10, sent_at, http_status, body_bytes, elapsed_ms, reason, detail
FROM unnest($1::bigint[], $2::text[], $3::int[], $4::timestamptz[], $5::int[], $6::int[], $7::int[], $8::text[], $9::text[])
    AS g (url_id, holder, attempt, sent_at, http_status, body_bytes, elapsed_ms, reason, detail)

-- name: lock_expired_claims
-- $1 now, $2 limit
SELECT url_id, politeness_key, lease_holder, lease_token, attempts FROM frontier_queue
WHERE lease_token IS NOT NULL AND lease_until <= $1
ORDER BY lease_until LIMIT $2
FOR UPDATE SKIP LOCKED

-- name: count_unfinished_urls
-- The number of URLs that are queued or leased, and when the next is due.
SELECT count(*) AS queued, count(lease_token) AS leased, min(due_at) AS next_due FROM frontier_queue

-- name: save_moves
-- Arrays: $1 ids of pages, $2 ids of the pages that they redirect to
UPDATE url_frontier u SET redirect_target = g.target FROM unnest($1::bigint[], $2::bigint[]) AS g (id, target) WHERE u.id = g.id

-- name: save_aliases
-- Make URLs that redirected to pages of the same host aliases of those pages.
-- Arrays: $1 ids of the pages, $2 the other URLs, $3 their hashes; $4 now. An alias that is queued must leave the queue. No
-- worker has it, because the caller holds the lease of its host.
WITH given AS MATERIALIZED (
    SELECT g.*, u.host, u.source_id, u.origin, u.depth
    FROM unnest($1::bigint[], $2::text[], $3::bytea[]) AS g (page_id, url, url_hash)
    JOIN url_frontier u ON u.id = g.page_id
), saved AS (
    INSERT INTO url_frontier AS t (url, url_hash, host, source_id, origin, depth, parent_id, alias_of,
                                   status, reason, discovered_at, last_fetched_at)
    SELECT url, url_hash, host, source_id, origin, depth, page_id, page_id, 'fetched', 'same_page', $4, $4
    FROM given ORDER BY url_hash
    ON CONFLICT (url_hash) DO UPDATE
        SET alias_of = excluded.alias_of, status = 'fetched', reason = 'same_page', last_fetched_at = $4
        WHERE t.status = 'pending' AND t.id <> excluded.alias_of
    RETURNING id, alias_of
)
SELECT id, alias_of FROM saved

-- name: remove_from_queue
-- It runs after save_aliases in a statement of its own, so it sees URLs that were queued at the same moment. $1 url ids
DELETE FROM frontier_queue WHERE url_id = ANY ($1::bigint[])

-- name: plan_for_values
-- Plan each query of the transaction for its own values, and for one process: a reader does not take all cores.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('max_parallel_workers_per_gather', '0', true)

-- name: choose_urls
-- The ids of URLs. Each or NULL for any: $1 status, $2 reason, $3 host, $4 source; $5 after this id, $6 limit
SELECT u.id FROM url_frontier u
WHERE ($1::text IS NULL OR u.status = $1) AND ($2::text IS NULL OR u.reason = $2)
  AND ($3::text IS NULL OR u.host = $3) AND ($4::int IS NULL OR u.source_id = $4) AND u.id > $5
ORDER BY u.id LIMIT $6

-- name: choose_ended_urls
-- The ids of URLs that ended with another reason than `stored`. Each or NULL for any: $1 status, $2 reason, $3 source; $4 after
-- this id, $5 limit
SELECT url_id AS id FROM ended_urls
WHERE ($1::text IS NULL OR status = $1) AND ($2::text IS NULL OR reason = $2) AND ($3::int IS NULL OR source_id = $3) AND url_id > $4
ORDER BY url_id LIMIT $5

-- name: count_urls_of_source
-- $1 source, $2 status
SELECT coalesce(sum(urls), 0)::bigint FROM source_urls WHERE source_id = $1 AND status = $2

-- name: choose_queued_urls
-- The ids of URLs in the queue: either those being fetched or those that wait.
-- $1 whether being fetched, each or NULL for any: $2 host, $3 source; $4 after this id, $5 limit
SELECT q.url_id AS id FROM frontier_queue q JOIN url_frontier u ON u.id = q.url_id
WHERE (q.lease_token IS NOT NULL) = $1 AND ($2::text IS NULL OR u.host = $2) AND ($3::int IS NULL OR u.source_id = $3)
  AND q.url_id > $4
ORDER BY q.url_id LIMIT $5

-- name: describe_urls
-- URLs by id. An ended URL has its reason. A pending one has the earliest time of its fetch and the reason of its wait: why
-- its host is blocked, else how its last attempt ended. For a URL that was given up after the last retry, the fetch log has
-- how that attempt failed, before a colon. $1 ids, $2 now, $3 forever
SELECT u.id, u.url, CASE WHEN q.lease_token IS NULL THEN u.status ELSE 'fetching' END AS status, u.reason, u.host,
       s.name AS source, u.origin, q.priority, u.discovered_at, u.last_fetched_at,
       CASE WHEN q.lease_token IS NULL
            THEN nullif(greatest(q.due_at, CASE WHEN k.lease_token IS NULL THEN k.not_before END, k.closed_until), $3::timestamptz)
            END AS due_at,
       CASE WHEN q.lease_token IS NOT NULL THEN NULL WHEN k.closed_until > $2 THEN 'host_closed'
            WHEN k.not_before > $2 THEN coalesce(k.blocked_reason, last.reason) ELSE last.reason END AS waiting_reason,
       (SELECT split_part(l.detail, ':', 1) FROM fetch_log l
        WHERE l.url_id = u.id AND u.reason = 'max_retries' ORDER BY l.id DESC LIMIT 1) AS kept_failing
FROM url_frontier u
JOIN sources s ON s.id = u.source_id
LEFT JOIN LATERAL (SELECT * FROM frontier_queue w WHERE w.url_id = u.id LIMIT 1) q ON true
LEFT JOIN LATERAL (SELECT * FROM host_state h WHERE h.host = q.politeness_key LIMIT 1) k ON true
LEFT JOIN LATERAL (SELECT reason FROM fetch_log l WHERE l.url_id = q.url_id ORDER BY l.id DESC LIMIT 1) last ON true
WHERE u.id = ANY ($1::bigint[])
ORDER BY u.id

-- name: retry_urls
-- Queue ended URLs again, and make waiting ones due now. URLs that are being fetched stay as they are.
-- $1 ids, $2 priority, $3 now. Returns the ids of the queued URLs.
WITH given AS MATERIALIZED (
    SELECT DISTINCT coalesce(alias_of, id) AS id FROM url_frontier WHERE id = ANY ($1::bigint[])
), reopened AS (
    UPDATE url_frontier u SET status = 'pending', reason = NULL
    FROM given WHERE u.id = given.id AND u.status <> 'pending'
    RETURNING u.id, u.host
), queued AS (
    INSERT INTO frontier_queue (url_id, politeness_key, priority, due_at)
    SELECT r.id, coalesce(h.politeness_key, h.host), $2, $3 FROM reopened r JOIN host_state h ON h.host = r.host
    RETURNING url_id, politeness_key
), sooner AS (
    UPDATE frontier_queue q SET due_at = least(q.due_at, $3), attempts = 0, priority = greatest(q.priority, $2)
    FROM given WHERE q.url_id = given.id AND q.lease_token IS NULL
    RETURNING q.url_id, q.politeness_key
), all_queued AS (
    SELECT * FROM queued UNION ALL SELECT * FROM sooner
), woken AS (
    UPDATE host_state k
    SET ready_at = least(coalesce(k.ready_at, 'infinity'), greatest(k.not_before, k.closed_until, $3))
    WHERE k.host IN (SELECT politeness_key FROM all_queued) AND k.politeness_key IS NULL
)
SELECT url_id FROM all_queued

-- name: find_path_conflicts
-- Pages of a source that conflict with places for raw files: a page has the place itself or one of the folders above it (any
-- of those), or a place below it (the first). $1 source, $2 places. '0' is the character after '/'.
WITH given AS (
    SELECT place, string_to_array(place, '/') AS parts FROM unnest($2::text[]) AS place
)
SELECT place, page.subpath, page.url
FROM given
CROSS JOIN LATERAL generate_series(1, cardinality(parts)) AS names
CROSS JOIN LATERAL (
    SELECT subpath, url FROM url_frontier
    WHERE source_id = $1 AND subpath COLLATE "C" = array_to_string(parts[:names], '/')
    LIMIT 1
) page
UNION ALL
SELECT place, page.subpath, page.url
FROM given
CROSS JOIN LATERAL (
    SELECT subpath, url FROM url_frontier
    WHERE source_id = $1 AND subpath COLLATE "C" > place || '/' AND subpath COLLATE "C" < place || '0'
    ORDER BY subpath COLLATE "C" LIMIT 1
) page

-- name: outdated_urls
-- Pages that changed after their last fetch. Arrays: $1 ids, $2 the time of each change; $3 pages fetched since then are left out
SELECT page.id
FROM unnest($1::bigint[], $2::timestamptz[]) AS g (id, changed_at)
CROSS JOIN LATERAL (SELECT coalesce(alias_of, id) AS id FROM url_frontier WHERE id = g.id LIMIT 1) known
CROSS JOIN LATERAL (
    SELECT id FROM url_frontier
    WHERE id = known.id AND status = 'fetched' AND last_fetched_at < least(g.changed_at, $3)
    LIMIT 1
) page

-- name: note_sightings
-- The lock waits for a worker that stores such a page now. So the later of the two transactions sees sighting and document.
-- $1 ids, $2 source, $3 origin, $4 now. Returns the URLs that the source had not seen before.
WITH unseen AS MATERIALIZED (
    SELECT u.id FROM url_frontier u
    WHERE u.id = ANY ($1::bigint[]) AND u.source_id <> $2
      AND (SELECT true FROM sightings t WHERE t.url_id = u.id AND t.source_id = $2 LIMIT 1) IS NULL
    FOR SHARE OF u
)
INSERT INTO sightings (url_id, source_id, origin, first_seen_at) SELECT id, $2, $3, $4 FROM unseen
ON CONFLICT DO NOTHING
RETURNING url_id

-- name: adopt_urls
-- Give URLs that ended because their source was removed to the source that lists them now. A URL with a raw file keeps its
-- source. $1 ids, $2 source, $3 origin. Returns the ids.
UPDATE url_frontier
SET source_id = CASE WHEN fetch_count = 0 THEN $2 ELSE source_id END,
    origin = CASE WHEN fetch_count = 0 THEN $3 ELSE origin END,
    subpath = CASE WHEN fetch_count = 0 AND source_id <> $2 THEN NULL ELSE subpath END
WHERE id = ANY ($1::bigint[]) AND status = 'dead' AND reason = 'source_removed'
RETURNING id

-- name: has_removed_source
-- $1 ids
SELECT EXISTS (SELECT FROM url_frontier
               WHERE id = ANY ($1::bigint[]) AND status = 'dead' AND reason = 'source_removed')

-- name: count_urls
-- The number of URLs of each status and reason.
SELECT status, reason, sum(urls)::bigint AS urls FROM frontier_counts GROUP BY 1, 2 HAVING sum(urls) <> 0 ORDER BY 1, 2

-- name: count_leased_urls
-- The number of URLs that are being fetched.
SELECT count(*) FROM frontier_queue WHERE lease_token IS NOT NULL

-- name: merge_frontier_counts
-- Merge the counts into as few rows as possible. A change that adds a row does not wait, and a second merge does nothing.
WITH mine AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtext('headwater.frontier_counts')) AS locked
), folded AS (
    DELETE FROM frontier_counts WHERE (SELECT locked FROM mine) RETURNING status, reason, urls
)
INSERT INTO frontier_counts (status, reason, urls)
SELECT status, reason, sum(urls) FROM folded GROUP BY 1, 2 HAVING sum(urls) <> 0

-- name: merge_source_urls
-- The same for the counts of sources with several rows of a status.
WITH mine AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtext('headwater.source_urls')) AS locked
), folded AS (
    DELETE FROM source_urls
    WHERE (SELECT locked FROM mine) AND source_id IN (SELECT source_id FROM source_urls GROUP BY source_id, status HAVING count(*) > 1)
    RETURNING *
)
INSERT INTO source_urls (source_id, status, urls)
SELECT source_id, status, sum(urls) FROM folded GROUP BY 1, 2 HAVING sum(urls) <> 0

-- name: prune_log
-- Delete attempts that ended before $1, oldest first, up to $2 of them.
DELETE FROM fetch_log WHERE id IN (SELECT id FROM fetch_log WHERE finished_at < $1 ORDER BY finished_at LIMIT $2)

-- name: is_dead
-- $1 url id
SELECT status = 'dead' FROM url_frontier WHERE id = $1
