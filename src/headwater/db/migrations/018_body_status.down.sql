-- Documents without text have no place here: their pages are as if never fetched, their raw files stay.
CREATE TEMPORARY TABLE without_text ON COMMIT DROP AS SELECT content_hash FROM texts WHERE body = '';
DELETE FROM document_revisions WHERE content_hash IN (SELECT content_hash FROM without_text);
DELETE FROM documents WHERE content_hash IN (SELECT content_hash FROM without_text);
DELETE FROM texts WHERE body = '';
UPDATE url_frontier SET status = 'dead', reason = 'empty_text' WHERE reason = 'scanned_no_text';
UPDATE url_frontier SET reason = 'unsupported_type'
WHERE reason IN ('encrypted', 'broken', 'not_a_pdf', 'too_large');
UPDATE fetch_log SET reason = 'unsupported_type'
WHERE reason IN ('scanned_no_text', 'encrypted', 'broken', 'not_a_pdf', 'too_large');

ALTER TABLE texts ADD CONSTRAINT texts_body_check CHECK (body <> '');
ALTER TABLE documents DROP COLUMN artifacts, DROP COLUMN body_status;
