-- When a page was changed last, by its own words or its feed's; how sure each field is, from 0 to 1; and the selectors that
-- its source gave the normalizer besides the bytes, so that the text can be derived from the raw file again.
ALTER TABLE documents
    ADD COLUMN updated_at  timestamptz,
    ADD COLUMN confidence  jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN selectors   jsonb NOT NULL DEFAULT '{}';
