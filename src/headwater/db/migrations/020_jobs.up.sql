-- Work that waits for a page: one job for each payload of an item. Jobs are waiters on their page: whatever ends that
-- settles them in the same transaction. `running` is not stored, since it is a job whose page is being fetched now.
CREATE TABLE ingestion_jobs (
    job_id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    reference_id   text NOT NULL REFERENCES items,
    payload_hash   text NOT NULL CHECK (payload_hash ~ '^[0-9a-f]{64}$'),
    source_id      int NOT NULL REFERENCES sources,
    url_id         bigint NOT NULL REFERENCES url_frontier,     -- where its page is now: jobs follow redirects
    scrape_run_id  bigint REFERENCES runs ON DELETE SET NULL,   -- the run that brought the payload
    status         text NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'ready', 'failed')),
    reason         text,
    -- Its page was being fetched already when the payload changed: it waits for a fetch of its own after that one.
    is_successor   boolean NOT NULL DEFAULT false,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    settled_at     timestamptz,
    CONSTRAINT only_a_failure_has_a_reason CHECK ((status = 'failed') = (reason IS NOT NULL)),
    CONSTRAINT an_end_has_a_time CHECK ((status = 'queued') = (settled_at IS NULL)),
    CONSTRAINT only_who_waits_succeeds CHECK (status = 'queued' OR NOT is_successor)
);
CREATE UNIQUE INDEX ingestion_jobs_payload ON ingestion_jobs (reference_id, payload_hash)
    WHERE status IN ('queued', 'ready');
CREATE INDEX ingestion_jobs_reference ON ingestion_jobs (reference_id, job_id);
CREATE INDEX ingestion_jobs_waiting ON ingestion_jobs (url_id) WHERE status = 'queued';
CREATE INDEX ingestion_jobs_successors ON ingestion_jobs (job_id) WHERE is_successor;
CREATE INDEX ingestion_jobs_source ON ingestion_jobs (source_id, job_id);
CREATE INDEX ingestion_jobs_run ON ingestion_jobs (scrape_run_id, job_id) WHERE scrape_run_id IS NOT NULL;
CREATE INDEX ingestion_jobs_failed ON ingestion_jobs (job_id) WHERE status = 'failed';

-- Where the way of a URL ends: past addresses of the same page and redirects to others, some of which lead in circles. The
-- page is locked, so that whoever would end it waits, and finds the jobs that were made to wait for it meanwhile.
CREATE FUNCTION page_waited_for(start bigint) RETURNS url_frontier LANGUAGE plpgsql AS $$
DECLARE
    page url_frontier;
    onward bigint := start;
BEGIN
    FOR hop IN 0..10 LOOP
        SELECT * INTO page FROM url_frontier WHERE id = onward FOR NO KEY UPDATE;
        onward := CASE WHEN page.same_as IS NOT NULL THEN page.same_as
                       WHEN page.status = 'dead' AND page.reason = 'redirect' THEN page.moved_to END;
        EXIT WHEN onward IS NULL;
    END LOOP;
    RETURN page;
END $$;

-- Let jobs be as their pages are: ready, failed, or waiting for them. Here and below a session may have made its plan when
-- there were no jobs: nothing is left to it but to find them by their keys (IS TRUE keeps it from another index, OFFSET from
-- beginning at the other end).
CREATE FUNCTION settle_jobs(jobs bigint[]) RETURNS void LANGUAGE sql
SET enable_seqscan = off AS $$
    WITH waiting AS MATERIALIZED (
        SELECT job_id, url_id FROM ingestion_jobs
        WHERE job_id = ANY (jobs) AND (status = 'queued' AND NOT is_successor) IS TRUE
        ORDER BY url_id
    ), ended AS MATERIALIZED (
        SELECT waiting.job_id, page.id, page.status, page.reason, clock_timestamp() AS now
        FROM waiting CROSS JOIN LATERAL page_waited_for(waiting.url_id) page
    )
    UPDATE ingestion_jobs j
    SET url_id = ended.id, updated_at = ended.now,
        status = CASE ended.status WHEN 'fetched' THEN 'ready' WHEN 'dead' THEN 'failed' ELSE 'queued' END,
        reason = CASE ended.status WHEN 'dead' THEN ended.reason END,
        settled_at = CASE WHEN ended.status <> 'pending' THEN ended.now END
    FROM ended
    WHERE j.job_id = ANY (jobs) AND j.job_id = ended.job_id AND (j.status = 'queued') IS TRUE
      AND (ended.status <> 'pending' OR j.url_id <> ended.id)
$$;

-- Whoever ends a URL, in whatever way, settles who waits for it. Most URLs have nobody: that is one look into a small index
-- for each.
CREATE FUNCTION settle_waiting_jobs() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off AS $$
DECLARE
    jobs bigint[];
BEGIN
    SELECT array_agg(waiting.job_id) INTO jobs
    FROM changed CROSS JOIN LATERAL (
        SELECT job_id FROM ingestion_jobs WHERE url_id = changed.id AND status = 'queued' OFFSET 0
    ) waiting
    WHERE changed.status <> 'pending';
    IF jobs IS NOT NULL THEN
        PERFORM settle_jobs(jobs);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER settle_waiting AFTER UPDATE ON url_frontier REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION settle_waiting_jobs();
