-- name: clear_days
-- $1 source, $2 days
DELETE FROM daily_index WHERE source_id = $1 AND day = ANY ($2::date[])

-- name: build_days
-- NEW: published in the day. LATEST: updated in the day, published before it. Observations decide, not the item as it is
-- now. $1 source; arrays: $2 days, $3 their starts, $4 their ends
INSERT INTO daily_index (source_id, day, item_id, bucket)
SELECT $1, d.day, o.item_id, CASE WHEN bool_or(o.published_at >= d.start_at) THEN 'NEW' ELSE 'LATEST' END
FROM unnest($2::date[], $3::timestamptz[], $4::timestamptz[]) AS d (day, start_at, end_at)
JOIN item_observations o ON o.source_id = $1
    AND ((o.published_at >= d.start_at AND o.published_at < d.end_at)
         OR (o.updated_at >= d.start_at AND o.updated_at < d.end_at AND o.published_at < d.start_at))
GROUP BY d.day, o.item_id

-- name: read_day
-- $1 day. Each item with its document, where it has one.
SELECT s.name AS source, x.bucket, i.title, i.url, i.published_at, i.published_is_sighting, i.updated_at, d.id AS document_id
FROM daily_index x
JOIN sources s ON s.id = x.source_id
JOIN items i ON i.id = x.item_id
LEFT JOIN documents d ON d.url_id = i.url_id
WHERE x.day = $1
ORDER BY s.name, x.bucket DESC, coalesce(i.updated_at, i.published_at) DESC, i.id
