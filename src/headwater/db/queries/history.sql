-- name: lock_history
-- Return whether this transaction is the only one that records.
SELECT pg_try_advisory_xact_lock(hashtext('headwater.history'))

-- name: get_last_minute
SELECT max(at) FROM history WHERE step = 'minute'

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
-- The newest marks since a time. $1 since, $2 limit
SELECT m.at, m.kind, s.name AS source, m.label
FROM history_marks m LEFT JOIN sources s ON s.id = m.source_id
WHERE m.at >= $1 ORDER BY m.at DESC, m.id DESC LIMIT $2

-- name: replace_started_program
-- Save the settings of a program that starts. Return those of the last one with the same roles. $1 roles, $2 settings
WITH before AS MATERIALIZED (
    SELECT settings FROM started_programs WHERE roles = $1
), saved AS (
    INSERT INTO started_programs (roles, settings) VALUES ($1, $2)
    ON CONFLICT (roles) DO UPDATE SET settings = excluded.settings
)
SELECT settings FROM before
