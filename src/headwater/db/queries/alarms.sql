-- name: take_alarm_check
-- Only one process checks, and not too often. $1 now, $2 if it was not checked since
UPDATE alarm_state SET checked_at = $1 WHERE checked_at IS NULL OR checked_at <= $2 OR checked_at > $1 RETURNING true

-- name: begin_alarm
-- An alarm that is open does not begin again. $1 kind, $2 subject, $3 message, $4 now. Returns no row if it is open.
WITH begun AS (
    INSERT INTO alarms (kind, subject, message, began_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT (kind, subject) WHERE ended_at IS NULL DO NOTHING
    RETURNING id
)
INSERT INTO changes (url_id, url, alarm_id, changed_at) SELECT 0, 'alarm:' || $1 || ':' || $2, id, $4 FROM begun RETURNING alarm_id

-- name: end_alarm
-- $1 id, $2 now. Returns no row if it is over already.
WITH ended AS (
    UPDATE alarms SET ended_at = greatest($2, began_at) WHERE id = $1 AND ended_at IS NULL RETURNING id, kind, subject
)
INSERT INTO changes (url_id, url, alarm_id, is_over, changed_at)
SELECT 0, 'alarm:' || kind || ':' || subject, id, true, $2 FROM ended RETURNING alarm_id

-- name: see_alarm
-- Save that an open alarm was checked where it began. $1 kind, $2 subject, $3 now
UPDATE alarms SET seen_at = $3 WHERE kind = $1 AND subject = $2 AND ended_at IS NULL

-- name: list_seen_disks
-- The disks of open alarms that their machines measured after a time. $1 time
SELECT subject FROM alarms WHERE kind = 'disk_low' AND ended_at IS NULL AND coalesce(seen_at, began_at) > $1

-- name: list_alarms
-- Open ones first, then the last ones. $1 whether only open ones, $2 how many
SELECT * FROM alarms WHERE NOT $1 OR ended_at IS NULL ORDER BY ended_at IS NOT NULL, id DESC LIMIT $2

-- name: alarms_of_changes
-- $1 positions
SELECT c.position, c.is_over, a.kind, a.subject, a.message, a.began_at, CASE WHEN c.is_over THEN a.ended_at END AS ended_at
FROM changes c JOIN alarms a ON a.id = c.alarm_id WHERE c.position = ANY ($1::bigint[])

-- name: count_extractions
-- Count the new documents of the next changes. A document is read as it is now. $1 how many changes. Returns how many there were.
WITH place AS MATERIALIZED (
    SELECT position FROM alarm_state FOR UPDATE
), following AS MATERIALIZED (
    SELECT c.position, c.document_id, c.revision, c.is_correction, c.reason, c.changed_at FROM changes c
    WHERE c.position > (SELECT position FROM place) ORDER BY c.position LIMIT $1
), fresh AS (
    SELECT d.source_id, coalesce(d.page_kind, '') AS page_kind, (f.changed_at AT TIME ZONE 'UTC')::date AS day, char_length(t.body) AS characters,
           (d.title = '')::int AS untitled, (coalesce(d.byline, '') = '')::int AS anonymous, (d.published_at IS NULL)::int AS undated,
           (SELECT count(*) FROM jsonb_each_text(d.provenance) p WHERE p.value = 'selector') AS selected,
           coalesce((SELECT avg(c.value::text::float8) FROM jsonb_each(d.confidence) c WHERE jsonb_typeof(c.value) = 'number'), 1) AS sure
    FROM following f JOIN documents d ON d.id = f.document_id JOIN texts t USING (content_hash)
    WHERE f.revision = 1 AND NOT f.is_correction AND f.reason IS NULL
), added AS (
    INSERT INTO extraction_days AS e
        (source_id, page_kind, day, documents, characters, without_title, without_byline, without_date, selected, confidence)
    SELECT source_id, page_kind, day, count(*), sum(characters), sum(untitled), sum(anonymous), sum(undated), sum(selected), sum(sure)
    FROM fresh GROUP BY source_id, page_kind, day
    ON CONFLICT (source_id, page_kind, day) DO UPDATE
        SET documents = e.documents + excluded.documents, characters = e.characters + excluded.characters,
            without_title = e.without_title + excluded.without_title, without_byline = e.without_byline + excluded.without_byline,
            without_date = e.without_date + excluded.without_date, selected = e.selected + excluded.selected, confidence = e.confidence + excluded.confidence
), moved AS (
    UPDATE alarm_state SET position = (SELECT max(position) FROM following) WHERE EXISTS (SELECT FROM following)
)
SELECT count(*) FROM following

-- name: compare_extractions
-- The sums of the last days and of the days before, by source and kind of page. $1 first of the last days
SELECT s.name, e.page_kind, e.day >= $1 AS is_recent, sum(documents)::int AS documents, sum(characters)::bigint AS characters,
       sum(without_title)::int AS without_title, sum(without_byline)::int AS without_byline,
       sum(without_date)::int AS without_date, sum(selected)::int AS selected, sum(confidence) AS confidence
FROM extraction_days e JOIN sources s ON s.id = e.source_id
WHERE e.source_id IN (SELECT source_id FROM extraction_days WHERE day >= $1)
GROUP BY s.name, e.page_kind, e.day >= $1

-- name: prune_extraction_days
-- $1 first day to keep
DELETE FROM extraction_days WHERE day < $1
