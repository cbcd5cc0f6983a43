-- name: build_days
-- NEW: published on the day. LATEST: updated on the day, published before it. Observations decide, not the current item.
-- Of several observations of a day, one with an update before the day's end is first, then one with stated dates. Only
-- changes are written. $1 source; arrays: $2 days, $3 their starts, $4 their ends
WITH built AS MATERIALIZED (
    SELECT DISTINCT ON (d.day, o.item_id) d.day, o.item_id,
           CASE WHEN o.published_at >= d.start_at THEN 'NEW' ELSE 'LATEST' END AS bucket, o.published_at, o.updated_at, o.rule
    FROM unnest($2::date[], $3::timestamptz[], $4::timestamptz[]) AS d (day, start_at, end_at)
    JOIN item_observations o ON o.source_id = $1
        AND ((o.published_at >= d.start_at AND o.published_at < d.end_at)
             OR (o.updated_at >= d.start_at AND o.updated_at < d.end_at
                 AND (o.published_at < d.start_at OR o.published_at IS NULL)))
    ORDER BY d.day, o.item_id, coalesce(o.updated_at < d.end_at, true) DESC, o.is_certain DESC,
             (o.published_at >= d.start_at) IS TRUE DESC, o.updated_at DESC NULLS LAST, o.published_at DESC NULLS LAST
), gone AS MATERIALIZED (
    SELECT day, item_id FROM daily_index WHERE source_id = $1 AND day = ANY ($2)
    EXCEPT SELECT day, item_id FROM built
), deleted AS (
    DELETE FROM daily_index x USING gone
    WHERE x.source_id = $1 AND x.day = ANY ($2) AND x.day = gone.day AND x.item_id = gone.item_id
)
INSERT INTO daily_index AS x (source_id, day, item_id, url_id, topics, bucket, published_at, updated_at, rule)
SELECT $1, built.day, built.item_id, i.url_id, make_topics(i.tags), built.bucket, built.published_at, built.updated_at, built.rule
FROM built LEFT JOIN LATERAL (SELECT url_id, tags FROM items WHERE id = built.item_id LIMIT 1) i ON true
ON CONFLICT (source_id, day, item_id) DO UPDATE
    SET bucket = excluded.bucket, published_at = excluded.published_at, updated_at = excluded.updated_at, rule = excluded.rule
    WHERE (x.bucket, x.published_at, x.updated_at, x.rule)
          IS DISTINCT FROM (excluded.bucket, excluded.published_at, excluded.updated_at, excluded.rule)

-- name: lock_days
-- One transaction at a time builds the days of a source, so that none writes what it read before another's changes.
-- $1 source
SELECT pg_advisory_xact_lock(hashtext('headwater.days'), $1::int)

-- name: index_items
-- Put items into days of new observations, by the rules of build_days. The other items of these days stay.
-- Arrays: $1 items, $2 their sources, $3 days, $4 their starts, $5 their ends
INSERT INTO daily_index AS x (source_id, day, item_id, url_id, topics, bucket, published_at, updated_at, rule)
SELECT g.source_id, g.day, g.item_id, i.url_id, make_topics(i.tags), CASE WHEN o.published_at >= g.start_at THEN 'NEW' ELSE 'LATEST' END,
       o.published_at, o.updated_at, o.rule
FROM unnest($1::text[], $2::int[], $3::date[], $4::timestamptz[], $5::timestamptz[])
    AS g (item_id, source_id, day, start_at, end_at)
CROSS JOIN LATERAL (
    SELECT o.published_at, o.updated_at, o.rule FROM item_observations o
    WHERE o.item_id = g.item_id
      AND ((o.published_at >= g.start_at AND o.published_at < g.end_at)
           OR (o.updated_at >= g.start_at AND o.updated_at < g.end_at
               AND (o.published_at < g.start_at OR o.published_at IS NULL)))
    ORDER BY coalesce(o.updated_at < g.end_at, true) DESC, o.is_certain DESC, (o.published_at >= g.start_at) IS TRUE DESC,
             o.updated_at DESC NULLS LAST, o.published_at DESC NULLS LAST
    LIMIT 1
) o
LEFT JOIN LATERAL (SELECT url_id, tags FROM items WHERE id = g.item_id LIMIT 1) i ON true
ORDER BY g.source_id, g.day, g.item_id
ON CONFLICT (source_id, day, item_id) DO UPDATE
    SET bucket = excluded.bucket, published_at = excluded.published_at, updated_at = excluded.updated_at, rule = excluded.rule

-- name: finish_day
-- A day was read to its end. The first reading after the end of the day counts: later readings lack some updates.
-- $1 source, $2 day, $3 when, $4 the day's end
WITH noted AS (
    INSERT INTO days_read AS d (source_id, day, read_at) VALUES ($1, $2, $3)
    ON CONFLICT (source_id, day) DO UPDATE
        SET read_at = CASE WHEN d.read_at < $4 THEN excluded.read_at
                           WHEN excluded.read_at < $4 THEN d.read_at
                           ELSE least(d.read_at, excluded.read_at) END
)
SELECT count(*) FILTER (WHERE bucket = 'NEW') AS new, count(*) FILTER (WHERE bucket = 'LATEST') AS latest
FROM daily_index WHERE source_id = $1 AND day = $2

-- name: last_days_read
-- The newest days of a source that were read, newest first. $1 source, $2 how many
SELECT day, read_at FROM days_read WHERE source_id = $1 ORDER BY day DESC LIMIT $2

-- name: find_days_read
-- The days among these that were read. $1 source, $2 days
SELECT day FROM days_read WHERE source_id = $1 AND day = ANY ($2::date[])

-- name: list_day_readings
-- When each source's day was read to its end, and the last run for it. $1 source ids, $2 day
SELECT s.name AS source, d.read_at, r.id AS run_id, r.status AS run_status, r.reason AS run_reason,
       r.error AS run_error
FROM sources s
LEFT JOIN days_read d ON d.source_id = s.id AND d.day = $2
LEFT JOIN LATERAL (SELECT * FROM runs u WHERE u.source_id = s.id AND u.day = $2 ORDER BY u.id DESC LIMIT 1) r ON true
WHERE s.id = ANY ($1::int[])
ORDER BY s.name

-- name: last_day_indexed
-- $1 source or NULL for all, $2 not after this day
SELECT max(day) FROM daily_index WHERE ($1::int IS NULL OR source_id = $1) AND day <= $2

-- name: read_day
-- $1 day; $2 source's name, $3 bucket, $4 organisation, $5 type, $6 category, $7 topic, $8 language, $9 since, each or NULL.
-- $10 how many or NULL for all; the position of the last item of the page before, or NULL: $11 source, $12 bucket, $13 time,
-- $14 item. Each item with its document, where it has one. Only the items of the page are looked up, unless a filter asks.
WITH page AS MATERIALIZED (
    SELECT x.item_id, s.name AS source, x.bucket, x.rule, x.published_at, x.updated_at, t.moment
    FROM daily_index x JOIN sources s ON s.id = x.source_id
    CROSS JOIN LATERAL (SELECT CASE x.bucket WHEN 'NEW' THEN x.published_at ELSE x.updated_at END AS moment) t
    WHERE x.day = $1 AND ($2::text IS NULL OR s.name = $2) AND ($3::text IS NULL OR x.bucket = $3)
      AND ($6::text IS NULL OR starts_with((s.settings ->> 'category') || '/', $6 || '/'))
      AND ($9::timestamptz IS NULL OR t.moment >= $9)
      AND ($7::text IS NULL OR x.topics @> ARRAY[lower($7)])
      AND (num_nonnulls($4::text, $5::text, $8::text) = 0 OR (
          SELECT true FROM items i WHERE i.id = x.item_id
              AND ($4::text IS NULL OR lower((i.tags -> 'organisations')::text)::jsonb ? lower($4))
              AND ($5::text IS NULL OR i.tags ->> 'document_type' = $5)
              AND ($8::text IS NULL OR (SELECT true FROM documents d WHERE d.url_id = i.url_id AND d.language = $8 LIMIT 1))
          LIMIT 1))
      AND ($11::text IS NULL OR s.name > $11 OR (s.name = $11 AND (x.bucket < $12 OR (x.bucket = $12 AND (
           t.moment < $13::timestamptz OR (t.moment = $13 AND x.item_id > $14))))))
    ORDER BY s.name, x.bucket DESC, t.moment DESC, x.item_id
    LIMIT $10
)
SELECT p.source, p.bucket, p.rule, p.published_at, p.updated_at, p.item_id, i.title, i.url, p.published_at IS NOT NULL AND i.published_is_sighting AS published_is_sighting, i.tags,
       (SELECT d.id FROM documents d WHERE d.url_id = i.url_id) AS document_id
FROM page p CROSS JOIN LATERAL (SELECT * FROM items WHERE id = p.item_id LIMIT 1) i
ORDER BY p.source, p.bucket DESC, p.moment DESC, p.item_id

-- name: count_day
-- The NEW and LATEST items of a day by source, and the most frequent topics of its newest items. $1 to $9 as in read_day,
-- $10 how many topics, $11 of how many items. The place of a row is a tenth as large as an item's id, so that all are in memory.
WITH chosen AS MATERIALIZED (
    SELECT x.source_id, x.bucket, x.ctid AS place, CASE x.bucket WHEN 'NEW' THEN x.published_at ELSE x.updated_at END AS moment
    FROM daily_index x JOIN sources s ON s.id = x.source_id
    WHERE x.day = $1 AND ($2::text IS NULL OR s.name = $2) AND ($3::text IS NULL OR x.bucket = $3)
      AND ($6::text IS NULL OR starts_with((s.settings ->> 'category') || '/', $6 || '/'))
      AND ($9::timestamptz IS NULL OR CASE x.bucket WHEN 'NEW' THEN x.published_at ELSE x.updated_at END >= $9)
      AND ($7::text IS NULL OR x.topics @> ARRAY[lower($7)])
      AND (num_nonnulls($4::text, $5::text, $8::text) = 0 OR (
          SELECT true FROM items i WHERE i.id = x.item_id
              AND ($4::text IS NULL OR lower((i.tags -> 'organisations')::text)::jsonb ? lower($4))
              AND ($5::text IS NULL OR i.tags ->> 'document_type' = $5)
              AND ($8::text IS NULL OR (SELECT true FROM documents d WHERE d.url_id = i.url_id AND d.language = $8 LIMIT 1))
          LIMIT 1))
), newest AS MATERIALIZED (
    SELECT place, bucket FROM chosen ORDER BY moment DESC LIMIT $11
), topics AS (
    SELECT topic.name, n.bucket
    FROM newest n
    CROSS JOIN LATERAL (SELECT item_id FROM daily_index WHERE ctid = n.place LIMIT 1) x
    CROSS JOIN LATERAL (SELECT tags -> 'topic' AS topic FROM items WHERE id = x.item_id LIMIT 1) i
    CROSS JOIN LATERAL jsonb_array_elements_text(
        CASE jsonb_typeof(i.topic) WHEN 'array' THEN i.topic WHEN 'string' THEN jsonb_build_array(i.topic) ELSE '[]' END
    ) AS topic (name)
)
SELECT 'source' AS facet, s.name, s.settings ->> 'category' AS category, c.new, c.latest
FROM (SELECT source_id, count(*) FILTER (WHERE bucket = 'NEW') AS new, count(*) FILTER (WHERE bucket = 'LATEST') AS latest
      FROM chosen GROUP BY 1) c
JOIN sources s ON s.id = c.source_id
UNION ALL
(SELECT 'topic', name, NULL, count(*) FILTER (WHERE bucket = 'NEW'), count(*) FILTER (WHERE bucket = 'LATEST')
 FROM topics GROUP BY name ORDER BY count(*) DESC, name LIMIT $10)

-- name: count_complete
-- How many items of a day each source lists, and how many of them have their page: stored, waiting, failed for good, or without
-- a page to fetch. The page of an item is that of its URL, or the page that its URL moved to. $1 day, $2 source's name or NULL
WITH listed AS MATERIALIZED (
    SELECT x.source_id, x.url_id, EXISTS (SELECT FROM documents d WHERE d.url_id = x.url_id) AS is_stored
    FROM daily_index x JOIN sources s ON s.id = x.source_id
    WHERE x.day = $1 AND ($2::text IS NULL OR s.name = $2)
), counted AS (
    SELECT source_id, count(*) AS expected FROM listed GROUP BY 1
), lacking AS MATERIALIZED (
    SELECT l.source_id, l.url_id IS NOT NULL AS is_known,
           EXISTS (SELECT FROM documents d WHERE d.url_id = p.moved_to) AS is_stored,
           EXISTS (SELECT FROM frontier_queue q WHERE q.url_id IN (l.url_id, p.moved_to)) AS is_queued
    FROM listed l
    LEFT JOIN LATERAL (
        SELECT coalesce(u.redirect_target, u.alias_of) AS moved_to FROM url_frontier u WHERE u.id = l.url_id LIMIT 1
    ) p ON true
    WHERE NOT l.is_stored
), missing AS (
    SELECT source_id, count(*) FILTER (WHERE NOT is_stored) AS pages, count(*) FILTER (WHERE NOT is_stored AND is_queued) AS waiting,
           count(*) FILTER (WHERE NOT is_stored AND NOT is_queued AND is_known) AS failed,
           count(*) FILTER (WHERE NOT is_known) AS unfetched
    FROM lacking GROUP BY 1
)
SELECT s.name AS source, c.expected, c.expected - coalesce(m.pages, 0) AS stored, coalesce(m.waiting, 0) AS waiting,
       coalesce(m.failed, 0) AS failed, coalesce(m.unfetched, 0) AS unfetched
FROM counted c JOIN sources s ON s.id = c.source_id LEFT JOIN missing m ON m.source_id = c.source_id
ORDER BY coalesce(m.pages, 0) DESC, s.name

-- name: list_missing
-- The items of a day whose page is not stored, by source and item, with the end of the page or the reason of its last attempt.
-- $1 day, $2 source's name or NULL; after this position, or NULL: $3 source, $4 item; $5 limit
WITH page AS MATERIALIZED (
    SELECT x.item_id, s.name AS source, coalesce(u.redirect_target, u.alias_of, x.url_id) AS page_id
    FROM daily_index x
    JOIN sources s ON s.id = x.source_id
    LEFT JOIN LATERAL (
        SELECT f.redirect_target, f.alias_of FROM url_frontier f
        WHERE f.id = x.url_id AND NOT EXISTS (SELECT FROM documents d WHERE d.url_id = f.id) LIMIT 1
    ) u ON true
    WHERE x.day = $1 AND ($2::text IS NULL OR s.name = $2) AND ($3::text IS NULL OR (s.name, x.item_id) > ($3, $4))
      AND NOT EXISTS (SELECT FROM documents d WHERE d.url_id IN (x.url_id, coalesce(u.redirect_target, u.alias_of)))
    ORDER BY s.name, x.item_id
    LIMIT $5
)
SELECT p.item_id, p.source, i.title, i.url,
       CASE WHEN i.url_id IS NULL THEN 'unfetched' WHEN q.lease_token IS NOT NULL THEN 'fetching'
            WHEN q.url_id IS NOT NULL THEN 'waiting' ELSE 'failed' END AS status,
       CASE WHEN q.url_id IS NULL THEN f.reason ELSE last.reason END AS reason,
       CASE WHEN q.lease_token IS NULL THEN q.due_at END AS due_at
FROM page p
CROSS JOIN LATERAL (SELECT * FROM items WHERE id = p.item_id LIMIT 1) i
LEFT JOIN LATERAL (SELECT * FROM url_frontier u WHERE u.id = p.page_id LIMIT 1) f ON true
LEFT JOIN LATERAL (SELECT * FROM frontier_queue w WHERE w.url_id = p.page_id LIMIT 1) q ON true
LEFT JOIN LATERAL (SELECT l.reason FROM fetch_log l WHERE l.url_id = p.page_id ORDER BY l.id DESC LIMIT 1) last ON true
ORDER BY p.source, p.item_id
