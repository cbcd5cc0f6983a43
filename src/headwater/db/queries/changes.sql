-- name: hold_change_state
-- One at a time gives positions. Answers the last that was given.
SELECT last_position FROM change_state FOR UPDATE

-- name: number_changes
-- Give positions to what has committed; who does holds change_state since before this query began. They begin at the time,
-- in microseconds, if that is later than the last: a database that was put back to an earlier day never gives those again
-- that somebody has read up to since. $1 the last position that was given, $2 how many. Answers how many got one. (The ids
-- are named twice: joined to their rows only, a long backlog would be read as a whole for each batch.)
WITH latest AS MATERIALIZED (
    SELECT max(changed_at) AS changed_at FROM changes WHERE advances_time
), came AS MATERIALIZED (
    SELECT id, row_number() OVER (ORDER BY id) AS place,
           unnumbered.changed_at > greatest(
               latest.changed_at, '-infinity',
               max(unnumbered.changed_at) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS advances_time
    FROM (SELECT id, changed_at FROM changes WHERE position IS NULL ORDER BY id LIMIT $2) unnumbered, latest
), beginning AS MATERIALIZED (
    SELECT greatest($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS position
), numbered AS (
    UPDATE changes c SET position = beginning.position + came.place, advances_time = came.advances_time FROM came, beginning
    WHERE c.id = ANY (ARRAY(SELECT id FROM came)) AND c.id = came.id
    RETURNING c.position
), counted AS (
    SELECT count(*) AS changes, max(position) AS last FROM numbered
), kept AS (
    UPDATE change_state SET last_position = counted.last FROM counted WHERE counted.changes > 0
)
SELECT changes FROM counted

-- name: last_position
SELECT last_position FROM change_state

-- name: furthest_position
-- That somebody can have read up to.
SELECT greatest(last_position, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) FROM change_state

-- name: position_before
-- The position right before all that changed at a time or later; NULL where nothing did. $1 time
SELECT position - 1 FROM changes WHERE advances_time AND changed_at >= $1 ORDER BY changed_at LIMIT 1

-- name: positions_after
-- $1 after this position, $2 how many
SELECT position FROM changes WHERE position > $1 ORDER BY position LIMIT $2

-- name: tell_changes
-- $1 positions. The content hash is that of then, the title the last that the text of then had.
SELECT c.position, c.changed_at, u.url, s.name AS source, c.revision, c.is_correction, c.job_id, j.reference_id, c.reason,
       d.id AS document_id, d.language,
       coalesce(r.title, d.title) AS title, coalesce(r.content_hash, d.content_hash) AS content_hash,
       coalesce(d.published_at, (SELECT min(i.published_at) FROM items i
        WHERE i.url_id = c.url_id AND NOT i.published_is_sighting)) AS published_at
FROM changes c
JOIN url_frontier u ON u.id = c.url_id
LEFT JOIN documents d ON d.url_id = c.url_id
LEFT JOIN document_revisions r ON r.document_id = d.id AND r.revision = c.revision
LEFT JOIN ingestion_jobs j ON j.job_id = c.job_id
LEFT JOIN sources s ON s.id = coalesce(j.source_id, d.source_id, u.source_id)
WHERE c.position = ANY ($1::bigint[])
ORDER BY c.position
