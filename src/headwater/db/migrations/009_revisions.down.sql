DROP TABLE document_revisions;
ALTER TABLE documents DROP COLUMN revision;
