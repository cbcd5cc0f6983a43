-- When a document's text changes, what it was before stays.
ALTER TABLE documents ADD COLUMN revision int NOT NULL DEFAULT 1 CHECK (revision >= 1);

CREATE TABLE document_revisions (
    document_id   bigint NOT NULL REFERENCES documents ON DELETE CASCADE,
    revision      int NOT NULL CHECK (revision >= 1),
    content_hash  bytea NOT NULL REFERENCES texts,
    title         text NOT NULL,
    raw_hash      bytea NOT NULL CHECK (octet_length(raw_hash) = 32),
    fetched_at    timestamptz NOT NULL,
    replaced_at   timestamptz NOT NULL,
    PRIMARY KEY (document_id, revision)
);
CREATE INDEX document_revisions_text ON document_revisions (content_hash);
