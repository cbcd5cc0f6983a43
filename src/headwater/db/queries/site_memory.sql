-- name: get_known_blocks
-- The blocks that were left out of the document of a URL, or NULL if it has none, and the memory of its host.
-- $1 url id, $2 host
SELECT (SELECT removed_blocks FROM documents WHERE url_id = $1) AS removed, m.pages, m.blocks, m.counts
FROM (SELECT) AS one LEFT JOIN site_memory m ON m.host = $2

-- name: lock_site_memory
-- The memories of hosts, in an order, so that no two processes wait for each other. $1 hosts
SELECT host, pages, blocks, counts FROM site_memory WHERE host = ANY ($1::text[]) ORDER BY host FOR UPDATE

-- name: save_site_memory
-- Arrays: $1 hosts in their order, $2 pages, $3 blocks and $4 counts, each as the text of an array
INSERT INTO site_memory (host, pages, blocks, counts)
SELECT host, pages, blocks::bigint[], counts::int[]
FROM unnest($1::text[], $2::int[], $3::text[], $4::text[]) AS g (host, pages, blocks, counts)
ON CONFLICT (host) DO UPDATE SET pages = excluded.pages, blocks = excluded.blocks, counts = excluded.counts
