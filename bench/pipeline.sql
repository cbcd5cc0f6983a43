
-- name: count_waiting
SELECT count(*) FROM frontier_queue

-- name: texts
SELECT u.url, t.body FROM documents d JOIN url_frontier u ON u.id = d.url_id JOIN texts t USING (content_hash)
