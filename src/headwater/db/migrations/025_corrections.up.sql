-- A page whose text is as before may have another title, byline, date, language, picture or abstract: that is told too.
-- What is there already is none, so it is not looked through while the table is locked.
ALTER TABLE changes ADD COLUMN is_correction boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT a_correction_is_of_a_document CHECK (NOT is_correction OR revision IS NOT NULL) NOT VALID;

-- The query `save_document` compares the same columns.
CREATE OR REPLACE FUNCTION note_changed_documents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO changes (url_id, revision, changed_at, is_correction)
    SELECT came.url_id, came.revision, came.fetched_at, came.content_hash = went.content_hash
    FROM came JOIN went USING (id)
    WHERE (came.content_hash, came.title, came.byline, came.published_at, came.language, came.image, came.abstract)
          IS DISTINCT FROM
          (went.content_hash, went.title, went.byline, went.published_at, went.language, went.image, went.abstract)
    ORDER BY id;
    RETURN NULL;
END $$;
