-- name: lock_history
-- Return whether this transaction is the only one that records.
SELECT pg_try_advisory_xact_lock(hashtext('headwater.history'))

-- name: get_last_minute
SELECT max(at) FROM history WHERE step = 'minute'

-- name: get_first_activity
SELECT least((SELECT min(finished_at) FROM fetch_log), (SELECT min(polled_at) FROM poll_log))

-- name: record_minutes
-- Count what ended in minutes. A minute that has a value keeps it. $1 from, $2 to; arrays: $3 reasons, $4 the metric of
-- the attempts with each reason; $5 the reasons of stored pages, $6 all metrics that are counted
WITH attempts AS MATERIALIZED (
    SELECT date_trunc('minute', l.finished_at) AS at, g.metric, l.body_bytes,
           l.reason = ANY ($5::text[])
           AND EXISTS (SELECT FROM documents d WHERE d.url_id = l.url_id AND d.revision = 1)
           AND NOT EXISTS (SELECT FROM fetch_log e WHERE e.url_id = l.url_id AND e.id < l.id AND e.reason = ANY ($5)) AS is_new
    FROM fetch_log l LEFT JOIN unnest($3::text[], $4::text[]) AS g (reason, metric) USING (reason)
    WHERE l.finished_at >= $1 AND l.finished_at < $2
), counted AS (
    SELECT at, metric, count(*)::float8 AS value FROM attempts GROUP BY 1, 2
    UNION ALL SELECT at, 'pages', count(body_bytes) FILTER (WHERE metric = 'fetched') FROM attempts GROUP BY 1
    UNION ALL SELECT at, 'bytes', sum(body_bytes) FROM attempts GROUP BY 1
    UNION ALL SELECT at, 'documents', count(*) FILTER (WHERE is_new) FROM attempts GROUP BY 1
)
INSERT INTO history (step, at, metric, value)
SELECT 'minute', m.at, n.metric, coalesce(c.value, 0)
FROM generate_series($1::timestamptz, $2::timestamptz - interval '1 minute', interval '1 minute') AS m (at)
CROSS JOIN unnest($6::text[]) AS n (metric)
LEFT JOIN counted c ON c.at = m.at AND c.metric = n.metric
ON CONFLICT DO NOTHING

-- name: count_new_handoffs
-- The hand-offs that were queued in each minute. $1 from, $2 to
SELECT m.at, (SELECT count(*) FROM ingestion_handoffs h
              WHERE h.created_at >= m.at AND h.created_at < m.at + interval '1 minute')::float8 AS value
FROM generate_series($1::timestamptz, $2::timestamptz - interval '1 minute', interval '1 minute') AS m (at)

-- name: record_values
-- Arrays: $1 minutes, $2 metrics, $3 values
INSERT INTO history (step, at, metric, value)
SELECT 'minute', g.at, g.metric, g.value FROM unnest($1::timestamptz[], $2::text[], $3::float8[]) AS g (at, metric, value)
ON CONFLICT DO NOTHING

-- name: roll_up_history
-- Make hours of minutes or days of hours again, from the one that has $3 on. $1 step, $2 shorter step, $3 from, $4 metrics:
-- their largest value counts, and of all others the sum
INSERT INTO history AS h (step, at, metric, value)
SELECT $1, date_trunc($1, at, 'UTC') AS began, metric,
       CASE WHEN metric = ANY ($4::text[]) THEN max(value) ELSE sum(value) END
FROM history WHERE step = $2 AND at >= date_trunc($1, $3::timestamptz, 'UTC') GROUP BY began, metric
ON CONFLICT (step, at, metric) DO UPDATE SET value = excluded.value

-- name: prune_history
-- $1 step, $2 before
DELETE FROM history WHERE step = $1 AND at < $2

-- name: prune_marks
-- Keep the newest marks. $1 how many
DELETE FROM history_marks WHERE id <= (SELECT id FROM history_marks ORDER BY id DESC OFFSET $1 LIMIT 1)

-- name: read_history
-- The values of each metric since a time, in parts of equal length. $1 step, $2 since, $3 until, $4 length, $5 metrics:
-- their largest value counts
SELECT date_bin($4::interval, at, $2::timestamptz) AS at, metric,
       CASE WHEN metric = ANY ($5::text[]) THEN max(value) ELSE sum(value) END AS value
FROM history WHERE step = $1 AND at >= $2 AND at < $3 GROUP BY 1, 2

-- name: add_mark
-- $1 at, $2 kind, $3 label, $4 source or NULL
INSERT INTO history_marks (at, kind, label, source_id) VALUES ($1, $2, $3, $4)

-- name: list_marks
-- The newest marks since a time. $1 since, $2 limit, $3 the only source whose settings are meant or NULL
SELECT m.at, m.kind, s.name AS source, m.label
FROM history_marks m LEFT JOIN sources s ON s.id = m.source_id
WHERE m.at >= $1 AND ($3::text IS NULL OR m.source_id IS NULL OR s.name = $3) ORDER BY m.at DESC, m.id DESC LIMIT $2

-- name: replace_started_program
-- Save the settings of a program that starts. Return those of the last one with the same roles. $1 roles, $2 settings
WITH before AS MATERIALIZED (
    SELECT settings FROM started_programs WHERE roles = $1
), saved AS (
    INSERT INTO started_programs (roles, settings) VALUES ($1, $2)
    ON CONFLICT (roles) DO UPDATE SET settings = excluded.settings
)
SELECT settings FROM before

-- name: prune_polls
-- Delete polls that ended before $1, oldest first, up to $2 of them. No plan for all values reads the whole table.
DELETE FROM poll_log WHERE ctid = ANY (ARRAY(SELECT ctid FROM poll_log WHERE polled_at < $1 ORDER BY polled_at LIMIT $2))

-- name: list_polls
-- The newest polls of a source. $1 source, $2 limit
SELECT polled_at AS at, method, reason, error, run_id, items, new_items, new_urls
FROM poll_log WHERE source_id = $1 ORDER BY polled_at DESC, id DESC LIMIT $2

-- name: list_source_marks
-- The newest changes of the settings of a source. $1 source, $2 limit
SELECT at, label FROM history_marks WHERE source_id = $1 ORDER BY at DESC, id DESC LIMIT $2

-- name: get_source_state
-- The parts of a source that change while it works. $1 name
SELECT (SELECT max(polled_at) FROM poll_log l WHERE l.source_id = s.id) AS polled_at,
       (SELECT count(*) FROM poll_state p WHERE p.source_id = s.id AND p.lease_token IS NOT NULL) AS polling,
       (SELECT max(id) FROM runs r WHERE r.source_id = s.id) AS run,
       (SELECT max(at) FROM history_marks m WHERE m.source_id = s.id) AS marked_at,
       (SELECT max(measured_at) FROM source_days d WHERE d.source_id = s.id AND d.day >= ($2::timestamptz AT TIME ZONE 'UTC')::date) AS measured_at,
       s.enabled
FROM sources s WHERE s.name = $1

-- name: find_unmeasured_sources
-- The sources that were not measured for an hour, or that had something new in the last minutes. There are none if
-- another transaction measures. $1 now, $2 limit
SELECT s.id
FROM sources s LEFT JOIN source_days d ON d.source_id = s.id AND d.day = ($1::timestamptz AT TIME ZONE 'UTC')::date
WHERE (SELECT pg_try_advisory_xact_lock(hashtext('headwater.source_days'))) AND s.removed_at IS NULL
  AND (d.measured_at IS NULL OR d.measured_at <= $1 - interval '1 hour'
       OR (d.measured_at <= $1 - interval '1 minute'
           AND EXISTS (SELECT FROM poll_state p WHERE p.source_id = s.id AND p.last_new_at > d.measured_at - interval '5 minutes')))
ORDER BY d.measured_at NULLS FIRST LIMIT $2

-- name: measure_sources
-- Count the items and polls of the days since the last measure, and measure the lags of the newest items of 30 days. An item
-- that was published before its source was added has no lag from its publication. $1 sources, $2 now, $3 the reasons of
-- stored pages, $4 how many items
WITH chosen AS MATERIALIZED (
    SELECT s.id, s.created_at, ($2::timestamptz AT TIME ZONE 'UTC')::date AS today,
           greatest(($2 AT TIME ZONE 'UTC')::date - 29,
                    (SELECT max(o.day) - 1 FROM source_days o WHERE o.source_id = s.id)) AS since
    FROM sources s WHERE s.id = ANY ($1::int[])
), days AS (
    SELECT c.id, c.created_at, d.day::date AS day, d.day::date = c.today AS is_today,
           d.day AT TIME ZONE 'UTC' AS began, (d.day + interval '1 day') AT TIME ZONE 'UTC' AS ended
    FROM chosen c CROSS JOIN generate_series(c.since::timestamp, c.today::timestamp, interval '1 day') AS d (day)
)
INSERT INTO source_days AS o (source_id, day, items, polls, failed_polls, seen_lags, fetched_lags, searchable_lags, total_lags,
                              measured_at)
SELECT d.id, d.day, i.items, p.polls, p.failed, l.seen, l.fetched, l.searchable, l.total, $2
FROM days d
CROSS JOIN LATERAL (
    SELECT count(*) AS items FROM items i
    WHERE i.source_id = d.id AND i.published_at >= d.began AND i.published_at < d.ended
) i
CROSS JOIN LATERAL (
    SELECT count(*) AS polls, count(error) AS failed FROM poll_log p
    WHERE p.source_id = d.id AND p.polled_at >= d.began AND p.polled_at < d.ended
) p
LEFT JOIN LATERAL (
    SELECT percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY t.seen) AS seen,
           percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY t.fetched) AS fetched,
           percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY t.searchable) AS searchable,
           percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY t.total) AS total
    FROM (
        SELECT CASE WHEN n.is_dated THEN extract(epoch FROM n.first_seen_at - n.published_at)::float8 END AS seen,
               CASE WHEN f.ended_at >= n.first_seen_at THEN extract(epoch FROM f.ended_at - n.first_seen_at)::float8 END AS fetched,
               greatest(extract(epoch FROM f.finished_at - f.ended_at)::float8, 0) AS searchable,
               CASE WHEN n.is_dated AND f.finished_at > n.published_at
                    THEN extract(epoch FROM f.finished_at - n.published_at)::float8 END AS total
        FROM (
            SELECT i.url_id, i.first_seen_at, i.published_at,
                   NOT i.published_is_sighting AND i.published_at >= d.created_at AND i.published_at <= i.first_seen_at AS is_dated
            FROM items i
            WHERE i.source_id = d.id AND i.published_at >= $2 - interval '30 days' AND i.published_at <= $2
            ORDER BY i.published_at DESC LIMIT $4
        ) n
        LEFT JOIN LATERAL (
            SELECT f.finished_at, f.sent_at + f.elapsed_ms * interval '1 millisecond' AS ended_at
            FROM fetch_log f WHERE f.url_id = n.url_id AND f.reason = ANY ($3::text[]) AND f.sent_at IS NOT NULL
            ORDER BY f.id LIMIT 1
        ) f ON true
    ) t
) l ON d.is_today
ON CONFLICT (source_id, day) DO UPDATE
    SET items = excluded.items, polls = excluded.polls, failed_polls = excluded.failed_polls,
        seen_lags = coalesce(excluded.seen_lags, o.seen_lags), fetched_lags = coalesce(excluded.fetched_lags, o.fetched_lags),
        searchable_lags = coalesce(excluded.searchable_lags, o.searchable_lags),
        total_lags = coalesce(excluded.total_lags, o.total_lags), measured_at = excluded.measured_at

-- name: prune_source_days
-- $1 sources, $2 before this day
DELETE FROM source_days WHERE source_id = ANY ($1::int[]) AND day < $2

-- name: list_source_days
-- The days of sources, the oldest first. The limit makes it one index lookup for each source. $1 names, $2 since
SELECT s.name, d.*
FROM sources s CROSS JOIN LATERAL (
    SELECT day, items, polls, failed_polls, seen_lags, fetched_lags, searchable_lags, total_lags, measured_at
    FROM source_days o WHERE o.source_id = s.id AND o.day >= $2 ORDER BY o.day LIMIT 100
) d
WHERE s.name = ANY ($1::text[]) AND s.removed_at IS NULL ORDER BY s.name, d.day
