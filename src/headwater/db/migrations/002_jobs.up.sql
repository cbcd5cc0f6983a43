-- Jobs: work for other programs that waits for a page. There is one job for each payload of an item. Any transaction that
-- ends the page also settles the jobs that wait for it. The status `running` is not stored: a queued job is running while
-- its page is being fetched.
CREATE TABLE ingestion_jobs (
    job_id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    reference_id   text NOT NULL REFERENCES items,
    payload_hash   text NOT NULL CHECK (payload_hash ~ '^[0-9a-f]{64}$'),
    source_id      int NOT NULL REFERENCES sources,
    url_id         bigint NOT NULL REFERENCES url_frontier,     -- its page now: jobs follow redirects
    scrape_run_id  bigint REFERENCES runs ON DELETE SET NULL,   -- the run that found the payload
    status         text NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'ready', 'failed')),
    reason         text,
    -- A fetch of the page had already begun when the payload changed: this job waits for the next fetch.
    is_successor   boolean NOT NULL DEFAULT false,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    settled_at     timestamptz,
    CONSTRAINT failed_job_has_a_reason CHECK ((status = 'failed') = (reason IS NOT NULL)),
    CONSTRAINT settled_job_has_a_time CHECK ((status = 'queued') = (settled_at IS NULL)),
    CONSTRAINT successor_is_queued CHECK (status = 'queued' OR NOT is_successor)
);
CREATE UNIQUE INDEX ingestion_jobs_payload ON ingestion_jobs (reference_id, payload_hash)
    WHERE status IN ('queued', 'ready');
CREATE INDEX ingestion_jobs_reference ON ingestion_jobs (reference_id, job_id);
CREATE INDEX ingestion_jobs_waiting ON ingestion_jobs (url_id) WHERE status = 'queued';
CREATE INDEX ingestion_jobs_page ON ingestion_jobs (url_id);
CREATE INDEX ingestion_jobs_successors ON ingestion_jobs (job_id) WHERE is_successor;
CREATE INDEX ingestion_jobs_source ON ingestion_jobs (source_id, job_id);
CREATE INDEX ingestion_jobs_run ON ingestion_jobs (scrape_run_id, job_id) WHERE scrape_run_id IS NOT NULL;
CREATE INDEX ingestion_jobs_failed ON ingestion_jobs (job_id) WHERE status = 'failed';
CREATE INDEX ingestion_jobs_reason ON ingestion_jobs (reason, job_id) WHERE status = 'failed';

-- The number of jobs of each source, status and reason is the sum of these rows, like `frontier_counts`.
CREATE TABLE job_counts (
    source_id  int NOT NULL,
    status     text NOT NULL,
    reason     text,
    jobs       bigint NOT NULL
);
CREATE INDEX job_counts_source ON job_counts (source_id);

CREATE FUNCTION count_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO job_counts SELECT source_id, status, reason, count(*) FROM new_rows GROUP BY 1, 2, 3;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO job_counts SELECT source_id, status, reason, -count(*) FROM old_rows GROUP BY 1, 2, 3;
    ELSE
        INSERT INTO job_counts SELECT source_id, status, reason, sum(n)
        FROM (SELECT source_id, status, reason, 1 AS n FROM new_rows
              UNION ALL SELECT source_id, status, reason, -1 FROM old_rows) both_sides
        GROUP BY 1, 2, 3 HAVING sum(n) <> 0;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER count_new AFTER INSERT ON ingestion_jobs REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_jobs();
CREATE TRIGGER count_changed AFTER UPDATE ON ingestion_jobs REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_jobs();
CREATE TRIGGER count_deleted AFTER DELETE ON ingestion_jobs REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_jobs();

-- Return the page that a URL leads to, through aliases and redirects. Redirects may form a circle, so at most 11 rows are
-- followed. Each row is locked: a transaction that ends the page waits, and then finds the jobs that were added meanwhile.
CREATE FUNCTION find_final_page(start bigint) RETURNS url_frontier LANGUAGE plpgsql AS $$
DECLARE
    page url_frontier;
    next_id bigint := start;
BEGIN
    FOR step IN 0..10 LOOP
        SELECT * INTO page FROM url_frontier WHERE id = next_id FOR NO KEY UPDATE;
        next_id := CASE WHEN page.alias_of IS NOT NULL THEN page.alias_of
                        WHEN page.status = 'dead' AND page.reason = 'redirect' THEN page.redirect_target END;
        EXIT WHEN next_id IS NULL;
    END LOOP;
    RETURN page;
END $$;

-- Set jobs to the state of their pages: ready, failed, or still waiting. A session may have planned this query, and the
-- one in settle_waiting_jobs, while the table was empty. The options keep such a plan fast: no sequential scan, IS TRUE
-- hides another index, and OFFSET 0 fixes the order of the join.
CREATE FUNCTION settle_jobs(jobs bigint[]) RETURNS void LANGUAGE sql
SET enable_seqscan = off AS $$
    WITH waiting AS MATERIALIZED (
        SELECT job_id, url_id FROM ingestion_jobs
        WHERE job_id = ANY (jobs) AND (status = 'queued' AND NOT is_successor) IS TRUE
        ORDER BY url_id
    ), ended AS MATERIALIZED (
        SELECT waiting.job_id, page.id, page.status, page.reason, clock_timestamp() AS now
        FROM waiting CROSS JOIN LATERAL find_final_page(waiting.url_id) page
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

-- Settle the jobs of each URL that ends. If the page is stored now, or has moved, the newest failed job of each item waits
-- for it again. Most URLs have no job: that costs two searches in an index for each URL.
CREATE FUNCTION settle_waiting_jobs() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off AS $$
DECLARE
    jobs bigint[];
    reopened bigint[];
BEGIN
    SELECT array_agg(waiting.job_id) INTO jobs
    FROM new_rows CROSS JOIN LATERAL (
        SELECT job_id FROM ingestion_jobs WHERE url_id = new_rows.id AND status = 'queued' OFFSET 0
    ) waiting
    WHERE new_rows.status <> 'pending';
    SELECT array_agg(failed.job_id) INTO reopened
    FROM new_rows CROSS JOIN LATERAL (
        SELECT j.job_id FROM ingestion_jobs j
        WHERE j.url_id = new_rows.id AND (j.status = 'failed') IS TRUE
          AND NOT EXISTS (SELECT FROM ingestion_jobs o WHERE o.reference_id = j.reference_id AND o.job_id > j.job_id)
        OFFSET 0
    ) failed
    WHERE new_rows.status = 'fetched' OR new_rows.redirect_target IS NOT NULL AND new_rows.reason = 'redirect';
    IF reopened IS NOT NULL THEN
        UPDATE ingestion_jobs SET status = 'queued', reason = NULL, settled_at = NULL
        WHERE job_id = ANY (reopened) AND (status = 'failed') IS TRUE;
    END IF;
    IF jobs IS NOT NULL OR reopened IS NOT NULL THEN
        PERFORM settle_jobs(jobs || reopened);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER settle_waiting AFTER UPDATE ON url_frontier REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION settle_waiting_jobs();

CREATE FUNCTION record_failed_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO changes (url_id, job_id, reason, changed_at)
    SELECT n.url_id, n.job_id, n.reason, n.settled_at FROM new_rows n JOIN old_rows o USING (job_id)
    WHERE n.status = 'failed' AND o.status <> 'failed' ORDER BY job_id;
    RETURN NULL;
END $$;
CREATE TRIGGER record_failed AFTER UPDATE ON ingestion_jobs REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION record_failed_jobs();
