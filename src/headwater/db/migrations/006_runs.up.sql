-- Scheduled runs. A slot is taken by inserting its row, so two schedulers never run it twice.
CREATE TABLE runs (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source_id     int NOT NULL REFERENCES sources ON DELETE CASCADE,
    slot          timestamptz NOT NULL,
    status        text NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'succeeded', 'failed')),
    reason        text,
    item_count    int,
    started_at    timestamptz NOT NULL,
    finished_at   timestamptz,
    lease_holder  text,
    lease_token   uuid,
    lease_until   timestamptz,
    attempts      int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    UNIQUE (source_id, slot),
    CONSTRAINT lease_is_whole CHECK (num_nulls(lease_holder, lease_token, lease_until) IN (0, 3)),
    CONSTRAINT an_end_has_a_reason CHECK ((status = 'running') = (reason IS NULL AND finished_at IS NULL)),
    CONSTRAINT an_end_holds_no_lease CHECK (status = 'running' OR lease_token IS NULL)
);
CREATE INDEX runs_leased ON runs (lease_until) WHERE lease_token IS NOT NULL;
