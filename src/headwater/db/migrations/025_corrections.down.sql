CREATE OR REPLACE FUNCTION note_changed_documents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO changes (url_id, revision, changed_at)
    SELECT came.url_id, came.revision, came.fetched_at FROM came JOIN went USING (id)
    WHERE came.content_hash <> went.content_hash ORDER BY id;
    RETURN NULL;
END $$;
-- Corrections stay, as changes of their revisions: somebody may have read up to them.
ALTER TABLE changes DROP COLUMN is_correction;
