-- Sources, and what is remembered of each between polls.
CREATE TABLE sources (
    id          int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text NOT NULL UNIQUE,
    kind        text NOT NULL,
    settings    jsonb NOT NULL DEFAULT '{}',
    enabled     boolean NOT NULL DEFAULT true,
    created_at  timestamptz NOT NULL,
    -- The name is also the source's folder in the corpus.
    CONSTRAINT source_name_is_a_folder_name CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    CONSTRAINT settings_are_an_object CHECK (jsonb_typeof(settings) = 'object')
);

-- One feed is read by one source, also when two people add it at once.
CREATE UNIQUE INDEX sources_feed ON sources ((settings ->> 'feed_url')) WHERE settings ? 'feed_url';

CREATE TABLE poll_state (
    source_id           int PRIMARY KEY REFERENCES sources ON DELETE CASCADE,
    next_poll_at        timestamptz,                    -- NULL: not polled by interval
    last_polled_at      timestamptz,
    last_success_at     timestamptz,
    last_reason         text,
    last_error          text,
    last_item_count     int NOT NULL DEFAULT 0,
    consecutive_errors  int NOT NULL DEFAULT 0 CHECK (consecutive_errors >= 0),
    memory              jsonb NOT NULL DEFAULT '{}',    -- what the kind keeps: validators, cursors
    lease_holder        text,
    lease_token         uuid,
    lease_until         timestamptz,
    attempts            int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    CONSTRAINT lease_is_whole CHECK (num_nulls(lease_holder, lease_token, lease_until) IN (0, 3))
);
CREATE INDEX feed_state_due ON poll_state (next_poll_at) WHERE lease_token IS NULL;
CREATE INDEX feed_state_leased ON poll_state (lease_until) WHERE lease_token IS NOT NULL;
