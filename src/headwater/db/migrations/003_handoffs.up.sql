-- Hand-offs: payloads that runs found, on their way to jobs. There is one row for each payload of an item. A hand-off is
-- completed when a job for its payload exists, new or old. `migrate down --only handoffs` drops this table alone: all other
-- parts work without it.
CREATE TABLE ingestion_handoffs (
    handoff_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    reference_id   text NOT NULL REFERENCES items ON DELETE CASCADE,
    payload_hash   text NOT NULL CHECK (payload_hash ~ '^[0-9a-f]{64}$'),
    source_id      int NOT NULL REFERENCES sources,
    scrape_run_id  bigint REFERENCES runs ON DELETE SET NULL,   -- the last run that found this payload
    status         text NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'running', 'completed', 'failed')),
    reason_code    text NOT NULL,
    error          text,                                        -- the message of the last failure
    job_id         bigint REFERENCES ingestion_jobs,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_holder   text,
    lease_token    uuid,
    lease_until    timestamptz,
    attempts       int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    UNIQUE (reference_id, payload_hash),
    CONSTRAINT lease_is_complete CHECK (num_nulls(lease_holder, lease_token, lease_until) IN (0, 3)),
    CONSTRAINT running_handoff_has_a_lease CHECK ((status = 'running') = (lease_token IS NOT NULL))
);
CREATE INDEX ingestion_handoffs_source ON ingestion_handoffs (source_id, handoff_id);
CREATE INDEX ingestion_handoffs_created ON ingestion_handoffs (created_at);
CREATE INDEX ingestion_handoffs_run ON ingestion_handoffs (scrape_run_id, handoff_id) WHERE scrape_run_id IS NOT NULL;
CREATE INDEX ingestion_handoffs_job ON ingestion_handoffs (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX ingestion_handoffs_queued ON ingestion_handoffs (updated_at) WHERE status = 'queued';
CREATE INDEX ingestion_handoffs_failed ON ingestion_handoffs (handoff_id) WHERE status = 'failed';
CREATE INDEX ingestion_handoffs_leased ON ingestion_handoffs (lease_until) WHERE lease_token IS NOT NULL;

CREATE FUNCTION update_ingestion_handoff_timestamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at := clock_timestamp();
    RETURN NEW;
END $$;
CREATE TRIGGER trg_update_ingestion_handoff_timestamp BEFORE UPDATE ON ingestion_handoffs
    FOR EACH ROW EXECUTE FUNCTION update_ingestion_handoff_timestamp();

-- The number of hand-offs of each source and status is the sum of these rows, like `frontier_counts`.
CREATE TABLE handoff_counts (
    source_id  int NOT NULL,
    status     text NOT NULL,
    handoffs   bigint NOT NULL
);
CREATE INDEX handoff_counts_source ON handoff_counts (source_id);

CREATE FUNCTION count_handoffs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO handoff_counts SELECT source_id, status, count(*) FROM new_rows GROUP BY 1, 2;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO handoff_counts SELECT source_id, status, -count(*) FROM old_rows GROUP BY 1, 2;
    ELSE
        INSERT INTO handoff_counts SELECT source_id, status, sum(n)
        FROM (SELECT source_id, status, 1 AS n FROM new_rows UNION ALL SELECT source_id, status, -1 FROM old_rows) both_sides
        GROUP BY 1, 2 HAVING sum(n) <> 0;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER count_new AFTER INSERT ON ingestion_handoffs REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_handoffs();
CREATE TRIGGER count_changed AFTER UPDATE ON ingestion_handoffs REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_handoffs();
CREATE TRIGGER count_deleted AFTER DELETE ON ingestion_handoffs REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_handoffs();
