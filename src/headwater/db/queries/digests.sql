-- name: add_channel
-- $1 name, $2 address, $3 secret, $4 kind, $5 events, $6 saved search or NULL, $7 after this position, $8 hour of digests or NULL,
-- $9 when the first digest is due or NULL, $10 time zone, $11 and $12 quiet hours or NULLs, $13 now. Returns no row if the name is
-- taken.
INSERT INTO webhooks (name, url, secret, kind, events, search_id, position, digest_hour, digest_due_at, timezone, quiet_from,
                      quiet_to, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT (name) DO NOTHING
RETURNING id

-- name: is_zone_known
-- $1 time zone
SELECT EXISTS (SELECT FROM pg_timezone_names WHERE name = $1)

-- name: list_due_digests
-- The channels whose digest is due: a daily one at its time, another one when documents wait. $1 now, $2 how many deliveries may
-- be pending
SELECT w.id, w.digest_hour, w.timezone, s.name AS search, s.words, $2 - outbox.pending AS room
FROM webhooks w JOIN saved_searches s ON s.id = w.search_id
CROSS JOIN LATERAL (
    SELECT count(*) AS pending FROM deliveries d WHERE d.webhook_id = w.id AND d.status = 'pending'
) outbox
WHERE w.kind <> 'webhook' AND w.enabled AND (w.digest_due_at IS NULL OR w.digest_due_at <= $1) AND NOT is_quiet(w, $1)
  AND (w.digest_hour IS NOT NULL OR EXISTS (SELECT FROM reported_documents r WHERE r.webhook_id = w.id AND r.is_waiting))
  AND outbox.pending < $2
ORDER BY w.digest_due_at NULLS FIRST LIMIT 100

-- name: lock_due_digest
-- Lock a channel if its digest is still due and no other process makes it. $1 id, $2 now
SELECT id FROM webhooks WHERE id = $1 AND enabled AND (digest_due_at IS NULL OR digest_due_at <= $2) FOR NO KEY UPDATE SKIP LOCKED

-- name: lock_waiting_documents
-- A deletion of these documents waits until the digest is saved, so it finds them there. $1 channel, $2 how many
SELECT FROM url_frontier u
WHERE id IN (SELECT d.url_id FROM documents d JOIN (
                 SELECT document_id FROM reported_documents WHERE webhook_id = $1 AND is_waiting ORDER BY position LIMIT $2
             ) r ON r.document_id = d.id)
ORDER BY id FOR KEY SHARE

-- name: waiting_documents
-- The documents that wait for a digest, the oldest match first. A deleted document has no title. $1 channel, $2 how many,
-- $3 characters of a lead
SELECT r.document_id AS id, r.position, d.title, u.url, s.name AS source, left(coalesce(nullif(d.abstract, ''), t.body), $3) AS lead,
       coalesce(d.published_at, (SELECT min(i.published_at) FROM items i
        WHERE i.url_id = d.url_id AND NOT i.published_is_sighting)) AS published_at
FROM (SELECT document_id, position FROM reported_documents WHERE webhook_id = $1 AND is_waiting ORDER BY position LIMIT $2) r
LEFT JOIN documents d ON d.id = r.document_id LEFT JOIN url_frontier u ON u.id = d.url_id
LEFT JOIN sources s ON s.id = d.source_id LEFT JOIN texts t USING (content_hash)
ORDER BY r.position, r.document_id

-- name: count_waiting
-- $1 channel, $2 up to so many
SELECT count(*) FROM (SELECT FROM reported_documents WHERE webhook_id = $1 AND is_waiting LIMIT $2) r

-- name: save_digest
-- Queue a digest. $1 channel, $2 position of its last document, $3 content, $4 now
INSERT INTO deliveries (webhook_id, position, url_id, event, digest, due_at) VALUES ($1, $2, 0, 'digest', $3, $4)

-- name: end_waiting
-- Documents of a channel wait no longer. $1 channel, $2 documents
UPDATE reported_documents SET is_waiting = false WHERE webhook_id = $1 AND document_id = ANY ($2::bigint[])

-- name: plan_digest
-- $1 channel, $2 when its next digest is due
UPDATE webhooks SET digest_due_at = $2 WHERE id = $1
