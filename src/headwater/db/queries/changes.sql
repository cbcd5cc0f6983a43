-- name: lock_change_state
-- Only one transaction at a time numbers changes. Returns the last position.
SELECT last_position FROM change_state FOR UPDATE

-- name: number_changes
-- Give positions to committed changes. The caller has locked change_state before this query began. New positions begin at
-- the present time in microseconds, if that is larger than the last position: after a restore of an older backup, no
-- position is given that a reader has already passed. $1 the last position, $2 how many. Returns how many changes it
-- numbered. (The UPDATE names the ids twice: with the join alone, each batch would read the whole backlog.)
WITH latest AS MATERIALIZED (
    SELECT max(changed_at) AS changed_at FROM changes WHERE advances_time
), unnumbered AS MATERIALIZED (
    SELECT id, row_number() OVER (ORDER BY id) AS place,
           batch.changed_at > greatest(
               latest.changed_at, '-infinity',
               max(batch.changed_at) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS advances_time
    FROM (SELECT id, changed_at FROM changes WHERE position IS NULL ORDER BY id LIMIT $2) batch, latest
), beginning AS MATERIALIZED (
    SELECT greatest($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS position
), numbered AS (
    UPDATE changes c SET position = beginning.position + unnumbered.place, advances_time = unnumbered.advances_time FROM unnumbered, beginning
    WHERE c.id = ANY (ARRAY(SELECT id FROM unnumbered)) AND c.id = unnumbered.id
    RETURNING c.position
), counted AS (
    SELECT count(*) AS changes, max(position) AS last FROM numbered
), saved AS (
    UPDATE change_state SET last_position = counted.last FROM counted WHERE counted.changes > 0
)
SELECT changes FROM counted

-- name: last_position
SELECT last_position FROM change_state

-- name: furthest_position
-- The largest position that a reader can have reached.
SELECT greatest(last_position, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) FROM change_state

-- name: position_before
-- The position right before the first change at or after a time; no row if there is no such change. $1 time
SELECT position - 1 FROM changes WHERE advances_time AND changed_at >= $1 ORDER BY changed_at LIMIT 1

-- name: positions_after
-- Changes of documents and jobs. $1 after this position, $2 how many
SELECT position FROM changes WHERE position > $1 AND alarm_id IS NULL ORDER BY position LIMIT $2

-- name: read_changes
-- $1 positions. The content hash belongs to the revision of the change; the title is the last one of that revision. All
-- changes of a deleted document read as its deletion. A purge may have deleted the URL and the job.
SELECT c.position, c.changed_at AS at, coalesce(u.url, c.url, deletion.url) AS url, s.name AS source, c.document_id, c.revision,
       c.job_id, j.reference_id, coalesce(c.reason, deletion.reason) AS reason,
       CASE WHEN c.revision IS NULL THEN 'failed' WHEN deletion.id IS NOT NULL THEN 'deleted'
            WHEN c.is_correction THEN 'corrected' WHEN c.revision = 1 THEN 'new' ELSE 'changed' END AS what,
       d.language, d.region, coalesce(r.title, d.title) AS title, coalesce(r.content_hash, d.content_hash) AS content_hash,
       coalesce(d.published_at, (SELECT min(i.published_at) FROM items i
        WHERE i.url_id = c.url_id AND NOT i.published_is_sighting)) AS published_at
FROM changes c
LEFT JOIN changes deletion
    ON deletion.document_id = c.document_id AND deletion.revision IS NOT NULL AND deletion.reason IS NOT NULL
LEFT JOIN url_frontier u ON u.id = c.url_id
LEFT JOIN documents d ON d.id = c.document_id
LEFT JOIN document_revisions r ON r.document_id = d.id AND r.revision = c.revision
LEFT JOIN ingestion_jobs j ON j.job_id = c.job_id
LEFT JOIN sources s ON s.id = coalesce(j.source_id, d.source_id, u.source_id)
WHERE c.position = ANY ($1::bigint[]) AND c.alarm_id IS NULL
ORDER BY c.position
