-- A text is kept once, however many pages carry it.
CREATE TABLE texts (
    content_hash  bytea PRIMARY KEY CHECK (octet_length(content_hash) = 32),
    body          text NOT NULL CHECK (body <> ''),
    first_seen_at timestamptz NOT NULL
);

-- One document per URL.
CREATE TABLE documents (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    url_id         bigint NOT NULL UNIQUE REFERENCES url_frontier,
    source_id      int NOT NULL REFERENCES sources,
    content_hash   bytea NOT NULL REFERENCES texts,
    title          text NOT NULL,
    byline         text,
    published_at   timestamptz,
    language       text,
    image          text,
    abstract       text,
    canonical_url  text,
    provenance     jsonb NOT NULL,
    normalizer     text NOT NULL,
    raw_path       text NOT NULL,           -- below the corpus folder
    raw_hash       bytea NOT NULL CHECK (octet_length(raw_hash) = 32),
    raw_bytes      int NOT NULL,
    fetched_at     timestamptz NOT NULL,
    search         tsvector NOT NULL
);
CREATE INDEX documents_search ON documents USING gin (search);
CREATE INDEX documents_fetched ON documents (fetched_at DESC, id DESC);
CREATE INDEX documents_text ON documents (content_hash);
