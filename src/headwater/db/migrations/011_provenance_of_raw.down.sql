DROP INDEX documents_source;
ALTER TABLE documents DROP COLUMN content_type, DROP COLUMN fetched_url;
