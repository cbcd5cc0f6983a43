-- What sources list. The id is the SHA-256 of "source:url", in hex.
CREATE TABLE items (
    id                      text PRIMARY KEY CHECK (id ~ '^[0-9a-f]{64}$'),
    source_id               int NOT NULL REFERENCES sources,
    url                     text NOT NULL,
    url_id                  bigint REFERENCES url_frontier,    -- NULL: its page is not fetched
    title                   text NOT NULL,
    published_at            timestamptz NOT NULL,
    published_is_sighting   boolean NOT NULL,                  -- the source gave no date: first sighting
    updated_at              timestamptz,
    tags                    jsonb NOT NULL DEFAULT '{}',
    raw                     jsonb NOT NULL DEFAULT '{}',
    first_seen_at           timestamptz NOT NULL,
    last_seen_at            timestamptz NOT NULL
);
CREATE INDEX items_source ON items (source_id, published_at DESC);
CREATE INDEX items_url ON items (url_id) WHERE url_id IS NOT NULL;

-- Each pair of dates an item was ever seen with: days are rebuilt from these, so an update tomorrow does not
-- change what today said.
CREATE TABLE item_observations (
    item_id       text NOT NULL REFERENCES items ON DELETE CASCADE,
    source_id     int NOT NULL REFERENCES sources,
    published_at  timestamptz NOT NULL,
    updated_at    timestamptz,
    observed_at   timestamptz NOT NULL,
    UNIQUE NULLS NOT DISTINCT (item_id, published_at, updated_at)
);
CREATE INDEX item_observations_published ON item_observations (source_id, published_at);
CREATE INDEX item_observations_updated ON item_observations (source_id, updated_at) WHERE updated_at IS NOT NULL;
