-- name: add_saved_search
-- $1 name, $2 words, $3 source, $4 category, $5 topic, $6 language, $7 now. Returns no row if the name is taken.
INSERT INTO saved_searches (name, words, source, category, topic, language, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (name) DO NOTHING
RETURNING *

-- name: change_saved_search
-- $1 name, $2 words, $3 source, $4 category, $5 topic, $6 language
UPDATE saved_searches SET words = $2, source = $3, category = $4, topic = $5, language = $6 WHERE name = $1 RETURNING *

-- name: remove_saved_search
-- Remove a saved search with its receivers and their outboxes. $1 name
DELETE FROM saved_searches WHERE name = $1 RETURNING name

-- name: list_saved_searches
-- By name. $1 name or NULL
SELECT s.*, (SELECT count(*) FROM webhooks w WHERE w.search_id = s.id) AS receivers
FROM saved_searches s WHERE $1::text IS NULL OR s.name = $1 ORDER BY s.name

-- name: find_saved_search_id
-- $1 name
SELECT id FROM saved_searches WHERE name = $1

-- name: lock_watching_receiver
-- Lock the enabled receiver with a search that is most behind and has room, and that no other transaction has locked.
-- $1 how many deliveries may be pending, $2 how many may be parked, $3 receivers to leave out
SELECT w.id, w.kind, w.position, s.words, s.source, s.category, s.topic, s.language
FROM webhooks w JOIN saved_searches s ON s.id = w.search_id
WHERE w.enabled AND w.id <> ALL ($3::int[]) AND EXISTS (SELECT FROM changes c WHERE c.position > w.position)
  AND (SELECT count(*) FROM deliveries d WHERE d.webhook_id = w.id AND d.status = 'pending') < $1
  AND (SELECT count(*) FROM deliveries d WHERE d.webhook_id = w.id AND d.status = 'parked') < $2
ORDER BY w.position LIMIT 1
FOR NO KEY UPDATE OF w SKIP LOCKED

-- name: next_changed_documents
-- The next changes, and the documents that they are about. $1 after this position, $2 how many
SELECT position, document_id FROM changes WHERE position > $1 ORDER BY position LIMIT $2

-- name: report_matches
-- Make deliveries of changes whose documents match, and of later changes of documents that the receiver has got.
-- $1 receiver, $2 after this position, $3 up to this position, $4 documents that match, $5 now. Returns how many.
WITH wanted AS MATERIALIZED (
    SELECT c.position, c.url_id, c.document_id, c.event
    FROM (SELECT position, url_id, document_id, CASE WHEN reason IS NOT NULL THEN 'document.deleted' ELSE 'document.ready' END AS event
          FROM changes WHERE position > $2 AND position <= $3 AND revision IS NOT NULL) c
    JOIN webhooks w ON w.id = $1 AND c.event = ANY (w.events)
    WHERE c.document_id = ANY ($4::bigint[])
       OR EXISTS (SELECT FROM reported_documents r WHERE r.webhook_id = $1 AND r.document_id = c.document_id)
), reported AS (
    INSERT INTO reported_documents (webhook_id, document_id, position, is_waiting)
    SELECT $1::int, document_id, min(position), false FROM wanted
    GROUP BY document_id HAVING bool_and(event <> 'document.deleted') ON CONFLICT DO NOTHING
), forgotten AS (
    DELETE FROM reported_documents
    WHERE webhook_id = $1 AND document_id IN (SELECT document_id FROM wanted WHERE event = 'document.deleted')
), added AS (
    INSERT INTO deliveries (webhook_id, position, url_id, event, due_at)
    SELECT $1, position, url_id, event, $5 FROM wanted ORDER BY position
    RETURNING 1
), moved AS (
    UPDATE webhooks SET position = $3 WHERE id = $1
)
SELECT count(*) FROM added

-- name: collect_matches
-- Keep the documents that match for the next digest. A document is reported once. $1 receiver, $2 after this position, $3 up to
-- this position, $4 documents that match. Returns how many.
WITH added AS (
    INSERT INTO reported_documents (webhook_id, document_id, position, is_waiting)
    SELECT $1::int, document_id, min(position), true FROM changes
    WHERE position > $2 AND position <= $3 AND document_id = ANY ($4::bigint[]) AND job_id IS NULL AND reason IS NULL
    GROUP BY document_id ON CONFLICT DO NOTHING
    RETURNING 1
), forgotten AS (
    DELETE FROM reported_documents WHERE webhook_id = $1 AND document_id IN (
        SELECT document_id FROM changes
        WHERE position > $2 AND position <= $3 AND revision IS NOT NULL AND reason IS NOT NULL)
), moved AS (
    UPDATE webhooks SET position = $3 WHERE id = $1
)
SELECT count(*) FROM added
