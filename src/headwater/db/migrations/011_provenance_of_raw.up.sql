-- What a normalizer was given besides the bytes, so that the text can be derived from the raw file again at any time.
ALTER TABLE documents
    ADD COLUMN fetched_url   text,  -- where the bytes came from, after redirects; NULL: fetched before this was kept
    ADD COLUMN content_type  text;  -- as the server gave it, for the charset in it; NULL: it gave none

-- One source's documents, by pages of ids.
CREATE INDEX documents_source ON documents (source_id, id);
