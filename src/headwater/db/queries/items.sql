-- name: save_items
-- Upsert by id: title, dates, tags and raw are replaced. An undated item keeps its first sighting as its date. Each pair
-- of dates is saved as an observation, unless the date is unknown.
-- Arrays: $1 ids, $2 urls, $3 url ids, $4 titles, $5 published or NULL, $6 what to make of NULL, $7 updated, $8 rules,
-- $9 tags, $10 raws, $11 whether the dates are certain; $12 source, $13 now.
-- Returns each item with both its dates, and whether it or its pair of dates is new.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::timestamptz[], $6::text[],
                         $7::timestamptz[], $8::text[], $9::jsonb[], $10::jsonb[], $11::boolean[])
        AS g (id, url, url_id, title, published_at, undated, updated_at, rule, tags, raw, is_certain)
), saved AS (
    INSERT INTO items AS i (id, source_id, url, url_id, title, published_at, published_is_sighting, updated_at, tags, raw,
                            first_seen_at, last_seen_at)
    SELECT id, $12, url, url_id, title, coalesce(published_at, CASE undated WHEN 'earlier' THEN updated_at END, $13),
           published_at IS NULL, updated_at, tags, raw, $13, $13
    FROM given ORDER BY id
    ON CONFLICT (id) DO UPDATE
        SET title = excluded.title, raw = excluded.raw, tags = excluded.tags,
            published_at = CASE WHEN excluded.published_is_sighting THEN i.published_at ELSE excluded.published_at END,
            published_is_sighting = excluded.published_is_sighting AND i.published_is_sighting,
            updated_at = excluded.updated_at, last_seen_at = excluded.last_seen_at
    RETURNING id, published_at, updated_at, (xmax = 0) AS is_new
), observed AS (
    INSERT INTO item_observations AS o (item_id, source_id, published_at, updated_at, observed_at, rule, is_certain)
    SELECT id, $12, CASE WHEN g.published_at IS NULL AND g.undated = 'earlier' THEN NULL ELSE s.published_at END,
           s.updated_at, $13, g.rule, g.is_certain
    FROM saved s JOIN given g USING (id) WHERE g.published_at IS NOT NULL OR g.undated <> 'unknown'
    ORDER BY id
    ON CONFLICT (item_id, published_at, updated_at) DO UPDATE SET rule = excluded.rule, is_certain = true
        WHERE excluded.is_certain AND NOT o.is_certain
    RETURNING item_id
)
SELECT saved.*, observed.item_id IS NOT NULL AS dates_are_new FROM saved LEFT JOIN observed ON observed.item_id = saved.id

-- name: entries_of_urls
-- The entries of pages. Of several items of a page, the one of the page's own source comes first, then the oldest. Only
-- stated dates count. The lookup is a subquery for each item: the planner hashed all observations for an EXISTS.
-- Arrays: $1 url ids, $2 sources
SELECT DISTINCT ON (i.url_id) i.url_id, i.url, i.title, i.updated_at,
       CASE WHEN NOT i.published_is_sighting AND (
            SELECT true FROM item_observations o
            WHERE o.item_id = i.id AND o.published_at = i.published_at AND o.is_certain LIMIT 1)
       THEN i.published_at END AS published_at,
       CASE jsonb_typeof(i.raw -> 'summary') WHEN 'string' THEN i.raw ->> 'summary' END AS summary,
       CASE jsonb_typeof(i.raw -> 'author') WHEN 'string' THEN i.raw ->> 'author' END AS author,
       CASE jsonb_typeof(i.raw -> 'image') WHEN 'string' THEN i.raw ->> 'image' END AS image
FROM items i JOIN unnest($1::bigint[], $2::int[]) AS g (url_id, source_id) ON g.url_id = i.url_id
WHERE i.url_id = ANY ($1)
ORDER BY i.url_id, i.source_id <> g.source_id, i.first_seen_at, i.id

-- name: lock_tags
-- The tags of items, locked for an update. $1 ids
SELECT id, tags FROM items WHERE id = ANY ($1::text[]) ORDER BY id FOR NO KEY UPDATE

-- name: move_items
-- Point items to the new URLs of their pages. Arrays: $1 old url ids, $2 new url ids
UPDATE items i SET url_id = g.new_id FROM unnest($1::bigint[], $2::bigint[]) AS g (old_id, new_id) WHERE i.url_id = g.old_id
