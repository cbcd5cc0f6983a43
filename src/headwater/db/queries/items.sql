-- name: save_items
-- Upsert by id: title, dates, tags and raw are replaced. An undated item keeps its first sighting as its date. Each pair
-- of dates is saved as an observation, unless the date is unknown. The stored page gives title and dates of an item whose
-- undated is 'page'. A date in the future is no date. If a sighting dates the item already, neither is a date after that
-- sighting: it was in the future then.
-- Arrays: $1 ids, $2 urls, $3 url ids, $4 titles, $5 published or NULL, $6 what to make of NULL, $7 updated, $8 rules,
-- $9 tags, $10 raws, $11 whether the dates are certain; $12 source, $13 now.
-- Returns each item with both its dates, and whether it or its pair of dates is new.
WITH given AS MATERIALIZED (
    SELECT g.id, g.url, g.url_id, g.title, g.undated, g.rule, g.tags, g.raw, g.is_certain,
           CASE WHEN g.published_at <= CASE g.undated WHEN 'sighting' THEN coalesce(known.first_seen_at, $13) ELSE $13 END
                THEN g.published_at END AS published_at,
           CASE WHEN g.updated_at <= $13 THEN g.updated_at END AS updated_at
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::timestamptz[], $6::text[],
                $7::timestamptz[], $8::text[], $9::jsonb[], $10::jsonb[], $11::boolean[])
        AS g (id, url, url_id, title, published_at, undated, updated_at, rule, tags, raw, is_certain)
    LEFT JOIN LATERAL (
        SELECT i.first_seen_at FROM items i WHERE i.id = g.id AND i.published_is_sighting AND NOT i.is_from_page LIMIT 1
    ) known ON true
), saved AS (
    INSERT INTO items AS i (id, source_id, url, url_id, title, published_at, published_is_sighting, updated_at, tags, raw,
                            first_seen_at, last_seen_at, is_from_page)
    SELECT id, $12, url, url_id, title, coalesce(published_at, CASE undated WHEN 'earlier' THEN updated_at END, $13),
           published_at IS NULL, updated_at, tags, raw, $13, $13, undated = 'page'
    FROM given ORDER BY id
    ON CONFLICT (id) DO UPDATE
        SET title = CASE WHEN excluded.is_from_page THEN i.title ELSE excluded.title END, raw = excluded.raw, tags = excluded.tags,
            published_at = CASE WHEN excluded.published_is_sighting THEN i.published_at ELSE excluded.published_at END,
            published_is_sighting = excluded.published_is_sighting AND i.published_is_sighting,
            updated_at = CASE WHEN excluded.is_from_page THEN i.updated_at ELSE excluded.updated_at END,
            last_seen_at = excluded.last_seen_at, is_from_page = excluded.is_from_page, waits_for_run = false
    RETURNING id, published_at, published_is_sighting, updated_at, (xmax = 0) AS is_new
), observed AS (
    INSERT INTO item_observations AS o (item_id, source_id, published_at, updated_at, observed_at, rule, is_certain)
    SELECT id, $12, CASE WHEN g.published_at IS NULL AND g.undated = 'earlier' THEN NULL ELSE s.published_at END,
           s.updated_at, $13, g.rule,
           g.is_certain AND (g.published_at IS NOT NULL OR s.published_is_sighting)  -- or the page gave the date
    FROM saved s JOIN given g USING (id) WHERE g.published_at IS NOT NULL OR g.undated NOT IN ('unknown', 'page')
    ORDER BY id
    ON CONFLICT (item_id, published_at, updated_at) DO UPDATE SET rule = excluded.rule, is_certain = true
        WHERE excluded.is_certain AND NOT o.is_certain
    RETURNING item_id
)
SELECT id, saved.published_at, saved.updated_at, is_new, observed.item_id IS NOT NULL AS dates_are_new
FROM saved LEFT JOIN observed ON observed.item_id = saved.id

-- name: list_page_sightings
-- The sources that found stored pages and list no item of them, with the dates of each page. No source is removed until the
-- transaction ends. $1 url ids
SELECT g.id AS url_id, f.seen_at, d.published_at, d.updated_at,
       s.id AS source_id, s.name, s.kind, s.settings, s.enabled, s.created_at
FROM unnest($1::bigint[]) AS g (id)
CROSS JOIN LATERAL (SELECT source_id, discovered_at FROM url_frontier WHERE id = g.id LIMIT 1) u
CROSS JOIN LATERAL (SELECT published_at, updated_at FROM documents WHERE url_id = g.id LIMIT 1) d
CROSS JOIN LATERAL (
    SELECT t.source_id, min(t.seen_at) AS seen_at
    FROM (SELECT u.source_id, u.discovered_at AS seen_at
          UNION ALL SELECT source_id, first_seen_at FROM sightings WHERE url_id = g.id) t
    GROUP BY 1
) f
CROSS JOIN LATERAL (SELECT * FROM sources WHERE id = f.source_id AND removed_at IS NULL FOR KEY SHARE) s
LEFT JOIN LATERAL (
    SELECT is_from_page FROM items WHERE url_id = g.id AND source_id = f.source_id ORDER BY is_from_page LIMIT 1
) known ON true
WHERE known.is_from_page IS NOT FALSE

-- name: save_page_items
-- Make or update the items of stored pages. A page without a date takes its first sighting. An item keeps its earliest date of
-- publication: a page whose date moves has changed, and is not new again. A page whose text has changed and that states no
-- later date has changed now. Arrays: $1 url ids, $2 sources, $3 first sightings, $4 published or NULL, $5 updated or NULL,
-- $6 whether the text has changed; $7 now. Returns the items with their dates, and whether these are new.
WITH unlisted AS MATERIALIZED (
    SELECT coalesce(known.id, encode(sha256(convert_to(s.name || ':' || p.url, 'UTF8')), 'hex')) AS id,
           g.source_id, g.url_id, p.url, d.title, g.seen_at,
           least(known.published_at, coalesce(g.published_at, known.published_at, g.seen_at)) AS published_at,
           coalesce(g.published_at > known.published_at, g.published_at IS NULL)
               AND known.published_is_sighting IS NOT FALSE AS is_sighting,
           greatest(g.updated_at, g.published_at, known.updated_at,
                    CASE WHEN g.is_changed AND (greatest(g.updated_at, g.published_at)
                                                > greatest(known.updated_at, known.published_at)) IS NOT TRUE
                         THEN $7::timestamptz END) AS changed_at
    FROM unnest($1::bigint[], $2::int[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::boolean[])
        AS g (url_id, source_id, seen_at, published_at, updated_at, is_changed)
    CROSS JOIN LATERAL (SELECT url FROM url_frontier WHERE id = g.url_id LIMIT 1) p
    CROSS JOIN LATERAL (SELECT title FROM documents WHERE url_id = g.url_id LIMIT 1) d
    CROSS JOIN LATERAL (SELECT name FROM sources WHERE id = g.source_id LIMIT 1) s
    LEFT JOIN LATERAL (
        SELECT * FROM items WHERE url_id = g.url_id AND source_id = g.source_id ORDER BY is_from_page LIMIT 1
    ) known ON true
), dated AS MATERIALIZED (
    SELECT *, CASE WHEN changed_at > published_at THEN changed_at END AS updated_at FROM unlisted
), saved AS (
    INSERT INTO items AS i (id, source_id, url, url_id, title, published_at, published_is_sighting, updated_at,
                            is_from_page, waits_for_run, first_seen_at, last_seen_at)
    SELECT id, source_id, url, url_id, title, published_at, is_sighting, updated_at, true, true, seen_at, $7
    FROM dated ORDER BY id
    ON CONFLICT (id) DO UPDATE
        SET url_id = excluded.url_id, title = excluded.title, published_at = excluded.published_at,
            published_is_sighting = excluded.published_is_sighting, updated_at = excluded.updated_at,
            last_seen_at = excluded.last_seen_at
        WHERE i.is_from_page
    RETURNING id
), observed AS (
    INSERT INTO item_observations (item_id, source_id, published_at, updated_at, observed_at, is_certain)
    SELECT id, source_id, published_at, updated_at, $7, false FROM saved JOIN dated USING (id) ORDER BY id
    ON CONFLICT DO NOTHING
    RETURNING item_id
)
SELECT d.id, d.url, d.source_id, d.published_at, d.updated_at, observed.item_id IS NOT NULL AS dates_are_new
FROM saved JOIN dated d USING (id) LEFT JOIN observed ON observed.item_id = d.id

-- name: note_changed_pages
-- Record that listed pages have changed now. A list of dated days states all changes itself. $1 url ids, $2 now. Returns the
-- items with their sources.
WITH changed AS MATERIALIZED (
    SELECT i.id, i.url, i.published_at, s.*
    FROM items i
    CROSS JOIN LATERAL (
        SELECT id AS source_id, name, kind, settings, enabled, created_at FROM sources
        WHERE id = i.source_id AND removed_at IS NULL FOR KEY SHARE
    ) s
    WHERE i.url_id = ANY ($1::bigint[]) AND NOT i.is_from_page AND i.published_at < $2
      AND (i.updated_at > $2) IS NOT TRUE AND (SELECT true FROM days_read r WHERE r.source_id = i.source_id LIMIT 1) IS NULL
), observed AS (
    INSERT INTO item_observations (item_id, source_id, published_at, updated_at, observed_at, is_certain)
    SELECT id, source_id, published_at, $2, $2, false FROM changed ORDER BY id
    ON CONFLICT DO NOTHING
)
SELECT * FROM changed

-- name: drop_page_items
-- Drop the items of stored pages that their sources list under another address. An item that has a job stays. $1 url ids
DELETE FROM items i
WHERE i.url_id = ANY ($1::bigint[]) AND i.is_from_page
  AND (SELECT true FROM items o
       WHERE o.url_id = i.url_id AND o.source_id = i.source_id AND NOT o.is_from_page LIMIT 1)
  AND (SELECT true FROM ingestion_jobs j WHERE j.reference_id = i.id LIMIT 1) IS NULL

-- name: take_page_items
-- Take the items of pages that no run of their source has handed off yet. $1 source, $2 how many
UPDATE items SET waits_for_run = false
WHERE id = ANY (ARRAY (
    SELECT id FROM items WHERE source_id = $1 AND waits_for_run ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED
))
RETURNING id, url, title

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
WHERE i.url_id = ANY ($1) AND NOT i.is_from_page
ORDER BY i.url_id, i.source_id <> g.source_id, i.first_seen_at, i.id

-- name: lock_tags
-- The tags of items, locked for an update. $1 ids
SELECT id, tags FROM items WHERE id = ANY ($1::text[]) ORDER BY id FOR NO KEY UPDATE

-- name: move_items
-- Point items to the new URLs of their pages. Arrays: $1 old url ids, $2 new url ids
UPDATE items i SET url_id = g.new_id FROM unnest($1::bigint[], $2::bigint[]) AS g (old_id, new_id) WHERE i.url_id = g.old_id

-- name: move_sightings
-- The sources that found the old URLs have found the new ones. Arrays: $1 old url ids, $2 new url ids
INSERT INTO sightings (url_id, source_id, origin, first_seen_at)
SELECT n.id, f.source_id, f.origin, f.seen_at
FROM unnest($1::bigint[], $2::bigint[]) AS g (old_id, new_id)
CROSS JOIN LATERAL (SELECT id, source_id FROM url_frontier WHERE id = g.new_id LIMIT 1) n
CROSS JOIN LATERAL (
    SELECT source_id, origin, discovered_at AS seen_at FROM url_frontier WHERE id = g.old_id
    UNION ALL
    SELECT source_id, origin, first_seen_at FROM sightings WHERE url_id = g.old_id
) f
WHERE f.source_id <> n.source_id
ON CONFLICT DO NOTHING
