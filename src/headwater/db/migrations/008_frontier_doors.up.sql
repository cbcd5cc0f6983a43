-- A page that redirects within its host is read under the address it was asked by; the address it led to is the same
-- page, whoever lists it later.
ALTER TABLE url_frontier
    ADD COLUMN same_as bigint REFERENCES url_frontier,
    ADD CONSTRAINT a_twin_is_fetched CHECK (same_as IS NULL OR (status = 'fetched' AND same_as <> id));

-- Lists, by pages of ids. No index has a column that a finish changes: the row is then rewritten within its page and no
-- index is touched.
DROP INDEX url_frontier_source;
CREATE INDEX url_frontier_source ON url_frontier (source_id, id);
CREATE INDEX url_frontier_host ON url_frontier (host, id);
ALTER TABLE url_frontier SET (fillfactor = 90);
CREATE INDEX url_frontier_twins ON url_frontier (same_as) WHERE same_as IS NOT NULL;

-- The two orders of a queue. Each query names the predicate of the index it needs (which all rows meet), so that neither
-- can be mistaken for the other where statistics are old.
DROP INDEX frontier_queue_pick;
DROP INDEX frontier_queue_due;
CREATE INDEX frontier_queue_pick ON frontier_queue (politeness_key, priority DESC, due_at)
    WHERE lease_token IS NULL AND priority > 0;
CREATE INDEX frontier_queue_due ON frontier_queue (politeness_key, due_at) WHERE lease_token IS NULL AND attempts >= 0;

-- A submit writes the host, the URL and the queue's row in one transaction and nothing ever deletes a host or a URL, so
-- these two keys can only cost: a fifth of every submit.
ALTER TABLE frontier_queue DROP CONSTRAINT frontier_queue_url_id_fkey;
ALTER TABLE url_frontier DROP CONSTRAINT url_frontier_host_fkey;

CREATE INDEX fetch_log_finished ON fetch_log (finished_at);

-- How many URLs there are of each status and reason: the sum of these rows. Whoever changes URLs adds a row of the
-- difference, so nobody waits for anybody; now and then they are folded together.
CREATE TABLE frontier_tally (
    status  text NOT NULL,
    reason  text,
    urls    bigint NOT NULL
);
INSERT INTO frontier_tally (status, reason, urls) SELECT status, reason, count(*) FROM url_frontier GROUP BY 1, 2;

CREATE FUNCTION tally_new_urls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO frontier_tally (status, reason, urls) SELECT status, reason, count(*) FROM came GROUP BY 1, 2;
    RETURN NULL;
END $$;
CREATE TRIGGER tally_new AFTER INSERT ON url_frontier REFERENCING NEW TABLE AS came
    FOR EACH STATEMENT EXECUTE FUNCTION tally_new_urls();

CREATE FUNCTION tally_changed_urls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO frontier_tally (status, reason, urls)
    SELECT status, reason, sum(n)
    FROM (SELECT status, reason, 1 AS n FROM came UNION ALL SELECT status, reason, -1 FROM went) both_sides
    GROUP BY 1, 2 HAVING sum(n) <> 0;
    RETURN NULL;
END $$;
CREATE TRIGGER tally_changed AFTER UPDATE ON url_frontier REFERENCING OLD TABLE AS went NEW TABLE AS came
    FOR EACH STATEMENT EXECUTE FUNCTION tally_changed_urls();

CREATE FUNCTION tally_lost_urls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO frontier_tally (status, reason, urls) SELECT status, reason, -count(*) FROM went GROUP BY 1, 2;
    RETURN NULL;
END $$;
CREATE TRIGGER tally_lost AFTER DELETE ON url_frontier REFERENCING OLD TABLE AS went
    FOR EACH STATEMENT EXECUTE FUNCTION tally_lost_urls();
