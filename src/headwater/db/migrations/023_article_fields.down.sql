ALTER TABLE documents DROP COLUMN updated_at, DROP COLUMN confidence, DROP COLUMN selectors;
