-- name: get_known_blocks
-- For each URL the blocks that were left out of its document, or NULL if it has none, and the memory of its host.
-- Arrays: $1 url ids, $2 hosts. The rows have the order of the arrays.
SELECT d.removed_blocks AS removed, m.pages, m.blocks, m.counts
FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS g (url_id, host, number)
LEFT JOIN LATERAL (SELECT k.removed_blocks FROM documents k WHERE k.url_id = g.url_id LIMIT 1) d ON true
LEFT JOIN LATERAL (SELECT n.* FROM site_memory n WHERE n.host = g.host LIMIT 1) m ON true
ORDER BY g.number

-- name: lock_site_memory
-- The memories of hosts, in an order, so that no two processes wait for each other. $1 hosts
SELECT host, pages, blocks, counts FROM site_memory WHERE host = ANY ($1::text[]) ORDER BY host FOR UPDATE

-- name: save_site_memory
-- Arrays: $1 hosts in their order, $2 pages, $3 blocks and $4 counts, each as the text of an array
INSERT INTO site_memory (host, pages, blocks, counts)
SELECT host, pages, blocks::bigint[], counts::int[]
FROM unnest($1::text[], $2::int[], $3::text[], $4::text[]) AS g (host, pages, blocks, counts)
ON CONFLICT (host) DO UPDATE SET pages = excluded.pages, blocks = excluded.blocks, counts = excluded.counts
