-- name: save_items
-- Upsert by id: title, dates and raw are replaced, an undated item keeps its first sighting; what was seen is kept.
-- Arrays: $1 ids, $2 urls, $3 url ids, $4 titles, $5 published or NULL, $6 updated, $7 tags, $8 raws; $9 source, $10 now.
-- Answers each item with both its dates, and whether it is new or its dates have not been seen before.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::timestamptz[], $6::timestamptz[],
                         $7::jsonb[], $8::jsonb[])
        AS g (id, url, url_id, title, published_at, updated_at, tags, raw)
), saved AS (
    INSERT INTO items AS i (id, source_id, url, url_id, title, published_at, published_is_sighting, updated_at, tags, raw,
                            first_seen_at, last_seen_at)
    SELECT id, $9, url, url_id, title, coalesce(published_at, $10), published_at IS NULL, updated_at, tags, raw, $10, $10
    FROM given ORDER BY id
    ON CONFLICT (id) DO UPDATE
        SET title = excluded.title, raw = excluded.raw, tags = excluded.tags,
            published_at = CASE WHEN excluded.published_is_sighting THEN i.published_at ELSE excluded.published_at END,
            published_is_sighting = excluded.published_is_sighting AND i.published_is_sighting,
            updated_at = excluded.updated_at, last_seen_at = excluded.last_seen_at
    RETURNING id, published_at, updated_at, (xmax = 0) AS is_new
), observed AS (
    INSERT INTO item_observations (item_id, source_id, published_at, updated_at, observed_at)
    SELECT id, $9, published_at, updated_at, $10 FROM saved ORDER BY id
    ON CONFLICT DO NOTHING
    RETURNING item_id
)
SELECT saved.*, observed.item_id IS NOT NULL AS dates_are_new FROM saved LEFT JOIN observed ON observed.item_id = saved.id

-- name: move_items
-- Items whose page has moved. Arrays: $1 old url ids, $2 new url ids
UPDATE items i SET url_id = g.new_id FROM unnest($1::bigint[], $2::bigint[]) AS g (old_id, new_id) WHERE i.url_id = g.old_id
