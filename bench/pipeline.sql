
-- name: count_documents
SELECT count(*) FROM documents

-- name: texts
SELECT u.url, t.body FROM documents d JOIN url_frontier u ON u.id = d.url_id JOIN texts t USING (content_hash)
