-- What became of documents and jobs, for other programs. Each row is written by the transaction that makes the change, and
-- gets its position after that has committed: whoever has read up to a position misses nothing that commits late.
-- Positions rise, and may have gaps.
CREATE TABLE changes (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,    -- in order for each URL
    position    bigint UNIQUE CHECK (position > 0),
    url_id      bigint NOT NULL,
    revision    int CHECK (revision > 0),                           -- of the URL's document
    job_id      bigint,
    reason      text,                                               -- why the job failed
    changed_at  timestamptz NOT NULL,
    CONSTRAINT it_is_of_a_document_or_a_job CHECK (num_nonnulls(revision, job_id) = 1),
    CONSTRAINT a_failure_has_a_reason CHECK ((job_id IS NULL) = (reason IS NULL))
);
CREATE INDEX changes_unnumbered ON changes (id) WHERE position IS NULL;
CREATE INDEX changes_time ON changes USING brin (changed_at) WITH (autosummarize = on);

-- The last position that was given; who gives the next ones holds this row.
CREATE TABLE change_state (
    is_only        boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    last_position  bigint NOT NULL DEFAULT 0
);
INSERT INTO change_state DEFAULT VALUES;

-- What is there already comes first: of each document its revisions in their order.
INSERT INTO changes (position, url_id, revision, changed_at)
SELECT row_number() OVER (ORDER BY revision, fetched_at, url_id), url_id, revision, fetched_at
FROM (SELECT d.url_id, r.revision, r.fetched_at FROM document_revisions r JOIN documents d ON d.id = r.document_id
      UNION ALL SELECT url_id, revision, fetched_at FROM documents) known
ORDER BY 1;
UPDATE change_state SET last_position = (SELECT count(*) FROM changes);

CREATE FUNCTION note_new_documents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO changes (url_id, revision, changed_at) SELECT url_id, revision, fetched_at FROM came ORDER BY id;
    RETURN NULL;
END $$;
CREATE TRIGGER note_new AFTER INSERT ON documents REFERENCING NEW TABLE AS came
    FOR EACH STATEMENT EXECUTE FUNCTION note_new_documents();

CREATE FUNCTION note_changed_documents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO changes (url_id, revision, changed_at)
    SELECT came.url_id, came.revision, came.fetched_at FROM came JOIN went USING (id)
    WHERE came.content_hash <> went.content_hash ORDER BY id;
    RETURN NULL;
END $$;
CREATE TRIGGER note_changed AFTER UPDATE ON documents REFERENCING OLD TABLE AS went NEW TABLE AS came
    FOR EACH STATEMENT EXECUTE FUNCTION note_changed_documents();

CREATE FUNCTION note_failed_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO changes (url_id, job_id, reason, changed_at)
    SELECT came.url_id, came.job_id, came.reason, came.settled_at FROM came JOIN went USING (job_id)
    WHERE came.status = 'failed' AND went.status <> 'failed' ORDER BY job_id;
    RETURN NULL;
END $$;
CREATE TRIGGER note_failed AFTER UPDATE ON ingestion_jobs REFERENCING OLD TABLE AS went NEW TABLE AS came
    FOR EACH STATEMENT EXECUTE FUNCTION note_failed_jobs();

-- Receivers of changes. `position`: up to there changes have become deliveries.
CREATE TABLE webhooks (
    id              int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name            text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    url             text NOT NULL,
    secret          bytea NOT NULL CHECK (octet_length(secret) = 32),
    events          text[] NOT NULL CHECK (cardinality(events) > 0 AND events <@ ARRAY['document.ready', 'job.failed']),
    enabled         boolean NOT NULL DEFAULT true,
    position        bigint NOT NULL,
    failures        int NOT NULL DEFAULT 0 CHECK (failures >= 0),   -- in a row, of whatever delivery
    failing_reason  text,
    error           text,                                           -- the same in words
    not_before      timestamptz,                                    -- it is left alone until then
    delivered_at    timestamptz,                                    -- when it took something last
    created_at      timestamptz NOT NULL
);

-- Its outbox: a bounded window of what it has not had, what it refused, and what it had lately.
CREATE TABLE deliveries (
    id             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    webhook_id     int NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    position       bigint NOT NULL REFERENCES changes (position),
    url_id         bigint NOT NULL,
    event          text NOT NULL,
    status         text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'parked', 'dismissed')),
    reason         text,                                            -- of a pending one, how its last attempt ended
    due_at         timestamptz NOT NULL,
    failing_since  timestamptz,
    ended_at       timestamptz,
    lease_holder   text,
    lease_token    uuid,
    lease_until    timestamptz,
    attempts       int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    UNIQUE (webhook_id, position),
    CONSTRAINT lease_is_whole CHECK (num_nulls(lease_holder, lease_token, lease_until) IN (0, 3)),
    CONSTRAINT an_end_has_a_reason CHECK (status = 'pending' OR (reason IS NOT NULL AND ended_at IS NOT NULL)),
    CONSTRAINT an_end_holds_no_lease CHECK (status = 'pending' OR lease_token IS NULL)
);
CREATE INDEX deliveries_of_documents ON deliveries (webhook_id, url_id, position);
CREATE INDEX deliveries_open ON deliveries (webhook_id, position) WHERE status IN ('pending', 'parked');
CREATE INDEX deliveries_leased ON deliveries (lease_until) WHERE lease_token IS NOT NULL;
CREATE INDEX deliveries_ended ON deliveries (ended_at) WHERE status IN ('delivered', 'dismissed');

-- Every attempt.
CREATE TABLE delivery_log (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    delivery_id  uuid NOT NULL REFERENCES deliveries ON DELETE CASCADE,
    attempt      int NOT NULL,
    ended_at     timestamptz NOT NULL,
    elapsed_ms   int,
    http_status  int,
    reason       text NOT NULL,
    detail       text
);
CREATE INDEX delivery_log_delivery ON delivery_log (delivery_id);
CREATE INDEX delivery_log_ended ON delivery_log (ended_at);
