-- How the text of a document came out: a scan has none, and is a document all the same.
ALTER TABLE documents
    ADD COLUMN body_status  text NOT NULL DEFAULT 'ok' CHECK (body_status IN ('ok', 'scanned_no_text')),
    ADD COLUMN artifacts    jsonb NOT NULL DEFAULT '[]';  -- tables that the text cannot show as they are

ALTER TABLE texts DROP CONSTRAINT texts_body_check;
