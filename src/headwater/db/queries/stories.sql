-- name: lock_story_state
-- Only one transaction at a time changes stories. No row: another one does now.
SELECT position, version FROM story_state FOR UPDATE SKIP LOCKED

-- name: get_story_state
SELECT position, version FROM story_state

-- name: save_story_position
-- $1 position
UPDATE story_state SET position = $1

-- name: forget_stories
-- TRUNCATE would also empty the tables for a backup that has begun to read.
WITH keys AS (DELETE FROM story_keys)
DELETE FROM story_documents

-- name: begin_stories
-- The role makes all stories again. $1 version
UPDATE story_state SET position = 0, version = $1

-- name: changed_documents
-- The next changes, with the document of each, if it is the change of a document. $1 after this position, $2 how many
SELECT position, document_id FROM changes WHERE position > $1 ORDER BY position LIMIT $2

-- name: documents_for_stories
-- The documents with these ids. $1 ids, $2 how many characters of a text
SELECT d.id, d.title, left(t.body, $2) AS text, u.host, d.published_at
FROM documents d JOIN url_frontier u ON u.id = d.url_id JOIN texts t USING (content_hash)
WHERE d.id = ANY ($1::bigint[]) ORDER BY d.id

-- name: ids_for_stories
-- $1 after this id, $2 how many
SELECT id FROM documents WHERE id > $1 ORDER BY id LIMIT $2

-- name: story_rows
-- $1 document ids
SELECT document_id, story_id, links, signature FROM story_documents
WHERE document_id = ANY ($1::bigint[]) ORDER BY document_id

-- name: add_story_keys
-- Arrays: $1 keys, $2 documents
INSERT INTO story_keys (key, document_id) SELECT * FROM unnest($1::bigint[], $2::bigint[]) ORDER BY 1, 2 ON CONFLICT DO NOTHING

-- name: remove_story_keys
-- Arrays: $1 keys, $2 documents
DELETE FROM story_keys k USING unnest($1::bigint[], $2::bigint[]) AS g (key, document_id)
WHERE k.key = g.key AND k.document_id = g.document_id

-- name: documents_before
-- The documents to compare with documents: for each key the last ones before a document, and of these the ones with most
-- common keys. Arrays: $1 keys, $2 documents; $3 how many for a key, $4 how many for a document
SELECT document_id, candidate FROM (
    SELECT g.document_id, k.document_id AS candidate,
           row_number() OVER (PARTITION BY g.document_id ORDER BY count(*) DESC, k.document_id DESC) AS place
    FROM unnest($1::bigint[], $2::bigint[]) AS g (key, document_id)
    CROSS JOIN LATERAL (
        SELECT k.document_id FROM story_keys k WHERE k.key = g.key AND k.document_id < g.document_id
        ORDER BY k.document_id DESC LIMIT $3
    ) k
    GROUP BY g.document_id, k.document_id
) ranked WHERE place <= $4

-- name: documents_after
-- The documents that are compared with documents: for each key the next ones. Arrays: $1 keys, $2 documents; $3 how many
SELECT DISTINCT k.document_id
FROM unnest($1::bigint[], $2::bigint[]) AS g (key, document_id)
CROSS JOIN LATERAL (
    SELECT k.document_id FROM story_keys k WHERE k.key = g.key AND k.document_id > g.document_id
    ORDER BY k.document_id LIMIT $3
) k

-- name: last_story_document
SELECT coalesce(max(document_id), 0) FROM story_documents

-- name: save_story_rows
-- Arrays: $1 documents, $2 links as texts of arrays, $3 signatures. A new document is a story of its own at first.
INSERT INTO story_documents AS s (document_id, story_id, links, signature)
SELECT id, id, links::bigint[], signature FROM unnest($1::bigint[], $2::text[], $3::bytea[]) AS g (id, links, signature) ORDER BY 1
ON CONFLICT (document_id) DO UPDATE SET links = excluded.links, signature = excluded.signature

-- name: remove_story_rows
-- $1 documents
DELETE FROM story_documents WHERE document_id = ANY ($1::bigint[])

-- name: merge_stories
-- Arrays: $1 stories, $2 the stories that take their documents
UPDATE story_documents s SET story_id = g.target FROM unnest($1::bigint[], $2::bigint[]) AS g (story_id, target)
WHERE s.story_id = g.story_id

-- name: links_of_stories
-- The documents of stories with their links. $1 stories
SELECT document_id, story_id, links FROM story_documents WHERE story_id = ANY ($1::bigint[]) ORDER BY document_id

-- name: move_story_documents
-- Arrays: $1 documents, $2 their stories
UPDATE story_documents s SET story_id = g.story_id FROM unnest($1::bigint[], $2::bigint[]) AS g (document_id, story_id)
WHERE s.document_id = g.document_id

-- name: story_of_document
-- $1 document
SELECT story_id FROM story_documents WHERE document_id = $1

-- name: story_members
-- The documents of a story in the order of their dates. $1 story, $2 how many
SELECT d.id, u.url, s.name AS source, d.title, d.language, d.region, coalesce(f.dated_at, d.fetched_at) AS dated_at, d.fetched_at, m.signature
FROM story_documents m
JOIN documents d ON d.id = m.document_id JOIN url_frontier u ON u.id = d.url_id JOIN sources s ON s.id = d.source_id
LEFT JOIN document_search f ON f.document_id = d.id
WHERE m.story_id = $1 ORDER BY dated_at, d.id LIMIT $2

-- name: newest_of_story
-- $1 story, $2 how many
SELECT document_id FROM story_documents WHERE story_id = $1 ORDER BY document_id DESC LIMIT $2

-- name: list_stories
-- The stories of two documents or more, the one that got a document last first. $1 before the last document of a story, or
-- NULL; $2 how many, $3 count documents up to
SELECT m.story_id AS id, m.document_id AS last_document, coalesce(d.title, '') AS title, found.documents, found.sources, found.since
FROM story_documents m
LEFT JOIN documents d ON d.id = m.story_id
CROSS JOIN LATERAL (
    SELECT count(*) AS documents, count(DISTINCT o.source_id) AS sources, min(coalesce(f.dated_at, o.fetched_at)) AS since
    FROM (SELECT document_id FROM story_documents WHERE story_id = m.story_id ORDER BY document_id LIMIT $3) a
    JOIN documents o ON o.id = a.document_id LEFT JOIN document_search f ON f.document_id = o.id
) found
WHERE m.story_id <> m.document_id AND ($1::bigint IS NULL OR m.document_id < $1)
  AND NOT EXISTS (SELECT FROM story_documents l WHERE l.story_id = m.story_id AND l.document_id > m.document_id)
ORDER BY m.document_id DESC LIMIT $2

-- name: stories_of_documents
-- The stories with two documents or more that documents belong to, each with its first documents. $1 documents, $2 count up
-- to, $3 how many documents of each story
WITH stories AS (
    SELECT DISTINCT story_id FROM story_documents m
    WHERE document_id = ANY ($1::bigint[])
      AND EXISTS (SELECT FROM story_documents o WHERE o.story_id = m.story_id AND o.document_id <> m.document_id)
)
SELECT s.story_id, counted.documents, d.id, d.title, d.url, d.source
FROM stories s
CROSS JOIN LATERAL (
    SELECT count(*) AS documents FROM (SELECT FROM story_documents WHERE story_id = s.story_id LIMIT $2) o
) counted
CROSS JOIN LATERAL (
    SELECT d.id, d.title, u.url, o.name AS source
    FROM (SELECT document_id FROM story_documents WHERE story_id = s.story_id ORDER BY document_id LIMIT $3) m
    JOIN documents d ON d.id = m.document_id JOIN url_frontier u ON u.id = d.url_id JOIN sources o ON o.id = d.source_id
) d
ORDER BY s.story_id, d.id

-- name: stories_by_document
-- $1 documents
SELECT document_id, story_id FROM story_documents WHERE document_id = ANY ($1::bigint[]) ORDER BY document_id

-- name: count_story_changes
-- The changes that are not in the stories yet, up to $1.
SELECT count(*) FROM (
    SELECT FROM changes WHERE position > (SELECT position FROM story_state)
    UNION ALL SELECT FROM changes WHERE position IS NULL LIMIT $1
) w

-- name: count_missing_story_keys
-- Arrays: $1 keys, $2 documents
SELECT count(*) FROM unnest($1::bigint[], $2::bigint[]) AS g (key, document_id)
WHERE NOT EXISTS (SELECT FROM story_keys k WHERE k.key = g.key AND k.document_id = g.document_id)

-- name: count_story_keys
SELECT count(*) FROM story_keys

-- name: surplus_story_documents
-- $1 how many
SELECT document_id FROM story_documents m
WHERE NOT EXISTS (SELECT FROM documents d WHERE d.id = m.document_id) ORDER BY document_id LIMIT $1
