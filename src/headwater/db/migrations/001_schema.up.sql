-- Sources ------------------------------------------------------------------------------------------------------------

CREATE TABLE sources (
    id               int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name             text NOT NULL UNIQUE,
    kind             text NOT NULL,
    settings         jsonb NOT NULL DEFAULT '{}',
    fetch_profile    jsonb NOT NULL DEFAULT '{}',   -- how its pages are fetched: {"user_agent", "api_hosts", "refetch"}
    replanned_to     bigint,                        -- a new re-fetch policy holds for its documents up to this id; NULL: for all
    page_delay_ms    int                            -- the pause between two pages of one host; NULL: no pause
        GENERATED ALWAYS AS (ceil(1000 / nullif((settings ->> 'rate_per_second')::float, 0))::int) STORED
        CHECK (page_delay_ms >= 0),
    keep_days        int                            -- maintenance deletes older documents; NULL: it keeps all
        GENERATED ALWAYS AS ((settings ->> 'keep_days')::int) STORED,
    enabled          boolean NOT NULL DEFAULT true,
    next_request_at  timestamptz,                   -- when any process may send its next request
    created_at       timestamptz NOT NULL,
    removed_at       timestamptz,                   -- a removed source keeps its name, its items and its URLs
    purge_began_at   timestamptz,                   -- a purge deletes all of it, and this row last
    CONSTRAINT source_name_is_a_folder_name CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    CONSTRAINT settings_are_an_object CHECK (jsonb_typeof(settings) = 'object'),
    CONSTRAINT purged_source_is_removed CHECK (purge_began_at IS NULL OR removed_at IS NOT NULL)
);
CREATE INDEX sources_keeping_days ON sources (id) WHERE keep_days IS NOT NULL;
CREATE INDEX sources_in_purge ON sources (id) WHERE purge_began_at IS NOT NULL;
CREATE INDEX sources_replanned ON sources (id) WHERE replanned_to IS NOT NULL;
-- Only one source reads a feed, even if two people add it at once.
CREATE UNIQUE INDEX sources_feed ON sources ((settings ->> 'feed_url')) WHERE settings ? 'feed_url' AND removed_at IS NULL;

-- One row for each method that reads a source: its list (a feed or an API), its sitemaps, its pages.
CREATE TABLE poll_state (
    source_id           int NOT NULL REFERENCES sources ON DELETE CASCADE,
    method              text NOT NULL DEFAULT 'main' CHECK (method IN ('main', 'sitemap', 'spider')),
    next_poll_at        timestamptz,                    -- NULL: no interval plans the next poll
    next_poll_why       text,                           -- a sentence that explains next_poll_at
    adaptive_interval   jsonb,                          -- how far the interval is stretched
    last_polled_at      timestamptz,
    last_success_at     timestamptz,
    last_new_at         timestamptz,                    -- when a poll last found something new
    last_reason         text,
    last_error          text,
    last_item_count     int NOT NULL DEFAULT 0,
    consecutive_errors  int NOT NULL DEFAULT 0 CHECK (consecutive_errors >= 0),
    failing_since       timestamptz,                    -- the first of these errors
    backfill_since      timestamptz,                    -- the next poll also reads older items, back to this time
    state               jsonb NOT NULL DEFAULT '{}',    -- run.state of the kind: validators, cursors
    lease_holder        text,
    lease_token         uuid,
    lease_until         timestamptz,
    attempts            int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    PRIMARY KEY (source_id, method),
    CONSTRAINT lease_is_complete CHECK (num_nulls(lease_holder, lease_token, lease_until) IN (0, 3))
);
CREATE INDEX poll_state_due ON poll_state (next_poll_at) WHERE lease_token IS NULL;
CREATE INDEX poll_state_leased ON poll_state (lease_until) WHERE lease_token IS NOT NULL;

-- The permits of a source. Each is for one page or one list request at a time. A source without permits has no limit.
CREATE TABLE source_permits (
    source_id   int NOT NULL REFERENCES sources ON DELETE CASCADE,
    number      int NOT NULL CHECK (number >= 1),
    token       uuid,   -- of the request that has the permit
    used_until  timestamptz NOT NULL DEFAULT '-infinity',   -- then it is free, also if its process died
    PRIMARY KEY (source_id, number)
) WITH (fillfactor = 50);

-- Frontier -----------------------------------------------------------------------------------------------------------

-- Hosts: politeness survives restarts and holds for all workers on all machines.
CREATE TABLE host_state (
    host                text PRIMARY KEY,   -- or a politeness key: domain:example.org, group:name
    politeness_key      text REFERENCES host_state,     -- the row that sets the pace of this host; NULL: this row does
    not_before          timestamptz NOT NULL DEFAULT '-infinity',   -- no request to this host is sent earlier
    ready_at            timestamptz,        -- when its next URL may be claimed; NULL: no URL is queued
    reserved_until      timestamptz,        -- a poll waits for the host, so claims leave it alone
    closed_until        timestamptz,        -- an operator closed the host; the year 9999 means until it is opened again
    backoff_ms          int NOT NULL DEFAULT 0 CHECK (backoff_ms >= 0),
    blocked_reason      text,
    last_throttled_at   timestamptz,        -- the last 429 or 503
    keeps_slash         boolean NOT NULL DEFAULT false,     -- /a/ and /a are two pages on this host
    crawl_delay_ms      int CHECK (crawl_delay_ms >= 0),
    robots_txt          text,               -- NULL, with robots_fetched_at set: the host has none and allows everything
    robots_fetched_at   timestamptz,
    silent_since        timestamptz,        -- the first request without an answer since the last answer; NULL: it answers
    failures            int NOT NULL DEFAULT 0 CHECK (failures >= 0),   -- of its robots.txt, in a row
    failure             text,               -- the reason of the last failure; NULL: the last request was answered
    failed_at           timestamptz,
    retry_at            timestamptz,        -- its robots.txt is not requested earlier; NULL: it may be requested now
    lease_holder        text,
    lease_token         uuid,
    lease_until         timestamptz,
    CONSTRAINT lease_is_complete CHECK (num_nulls(lease_holder, lease_token, lease_until) IN (0, 3)),
    CONSTRAINT politeness_key_is_another_row CHECK (politeness_key IS DISTINCT FROM host),
    CONSTRAINT only_a_politeness_key_is_queued_or_leased
        CHECK (politeness_key IS NULL OR (ready_at IS NULL AND lease_token IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX host_state_ready ON host_state (ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX host_state_leased ON host_state (lease_until) WHERE lease_token IS NOT NULL;
CREATE INDEX host_state_members ON host_state (politeness_key) WHERE politeness_key IS NOT NULL;
CREATE INDEX host_state_closed ON host_state (closed_until) WHERE closed_until IS NOT NULL;
CREATE INDEX host_state_blocked ON host_state (not_before) WHERE blocked_reason IS NOT NULL;
CREATE INDEX host_state_slash ON host_state (host) WHERE keeps_slash;

-- Every URL that was ever seen, once. Claims do not touch this row.
-- There is no foreign key for `host` and `source_id`. A submit would spend a fifth of its time to check the host and a
-- tenth to check the source. No code deletes a host. Only a source without URLs is deleted, and each submit locks its
-- source against that (prevent_removal, or the row of its poll). Only the purge of a source deletes URLs.
-- No index has a column that the end of a fetch changes: the update then stays on its page and touches no index.
CREATE TABLE url_frontier (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    url              text NOT NULL,
    url_hash         bytea NOT NULL UNIQUE CHECK (octet_length(url_hash) = 32),
    host             text NOT NULL,
    source_id        int NOT NULL,
    origin           text NOT NULL CHECK (origin IN ('feed', 'sitemap', 'spider', 'manual', 'category')),
    parent_id        bigint REFERENCES url_frontier,    -- the page that redirected to this URL
    found_on         text,      -- the page whose link the spider found; it need not be in this table
    alias_of         bigint REFERENCES url_frontier,    -- this URL redirects, within its host, to that page
    redirect_target  bigint REFERENCES url_frontier,    -- this URL redirects to another host or to a known page
    depth            smallint NOT NULL DEFAULT 0 CHECK (depth >= 0),
    hops             smallint NOT NULL DEFAULT 0 CHECK (hops >= 0),     -- redirects that led here
    subpath          text,      -- of its raw file in the source's folder; NULL: by host and URL hash
    status           text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'fetched', 'dead')),
    reason           text,
    discovered_at    timestamptz NOT NULL,
    last_fetched_at  timestamptz,
    fetch_count      int NOT NULL DEFAULT 0,
    etag             text,
    last_modified    text,
    CONSTRAINT ended_url_has_a_reason CHECK (status = 'pending' OR reason IS NOT NULL),
    CONSTRAINT alias_is_fetched CHECK (alias_of IS NULL OR (status = 'fetched' AND alias_of <> id))
) WITH (fillfactor = 90);
CREATE INDEX url_frontier_source ON url_frontier (source_id, id);
CREATE INDEX url_frontier_host ON url_frontier (host, id);
CREATE INDEX url_frontier_parent ON url_frontier (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX url_frontier_aliases ON url_frontier (alias_of) WHERE alias_of IS NOT NULL;
CREATE INDEX url_frontier_redirects ON url_frontier (redirect_target) WHERE redirect_target IS NOT NULL;
-- Two pages of a source must not share one raw file. The order is byte by byte, so all paths in a folder are neighbors.
CREATE INDEX url_frontier_subpath ON url_frontier (source_id, subpath COLLATE "C") WHERE subpath IS NOT NULL;

-- The queue: one narrow row for each pending URL. A URL that has ended has no row.
-- There is no foreign key for `url_id`: a submit writes both rows in one transaction, and only an ended URL is deleted.
CREATE TABLE frontier_queue (
    url_id          bigint PRIMARY KEY,
    politeness_key  text NOT NULL,
    priority        smallint NOT NULL CHECK (priority BETWEEN 1 AND 10),
    due_at          timestamptz NOT NULL,
    lease_holder    text,
    lease_token     uuid,
    lease_until     timestamptz,
    attempts        int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    CONSTRAINT lease_is_complete CHECK (num_nulls(lease_holder, lease_token, lease_until) IN (0, 3))
) WITH (fillfactor = 80);
-- Each query repeats the predicate of the index it needs. All rows satisfy both predicates. The planner then cannot
-- choose the wrong index when its statistics are old.
CREATE INDEX frontier_queue_pick ON frontier_queue (politeness_key, priority DESC, due_at)
    WHERE lease_token IS NULL AND priority > 0;
CREATE INDEX frontier_queue_due ON frontier_queue (politeness_key, due_at) WHERE lease_token IS NULL AND attempts >= 0;
CREATE INDEX frontier_queue_leased ON frontier_queue (lease_until) WHERE lease_token IS NOT NULL;

-- The sources that also list a URL, besides the source that submitted it.
CREATE TABLE sightings (
    url_id         bigint NOT NULL REFERENCES url_frontier ON DELETE CASCADE,
    source_id      int NOT NULL REFERENCES sources ON DELETE CASCADE,
    origin         text NOT NULL CHECK (origin IN ('feed', 'sitemap', 'spider', 'manual', 'category')),
    first_seen_at  timestamptz NOT NULL,
    PRIMARY KEY (url_id, source_id)
);
CREATE INDEX sightings_source ON sightings (source_id);

-- The pages with a re-fetch policy other than `never`, or with a policy of their own.
CREATE TABLE watches (
    url_id            bigint PRIMARY KEY REFERENCES url_frontier ON DELETE CASCADE,
    policy            text,             -- NULL: the policy of its source holds
    next_at           timestamptz,      -- when the page is queued again; NULL: not by itself
    learned_interval  interval NOT NULL,
    quiet             int NOT NULL DEFAULT 0 CHECK (quiet >= 0),        -- fetches in a row that found no change
    failures          int NOT NULL DEFAULT 0 CHECK (failures >= 0)      -- fetches in a row that failed
) WITH (fillfactor = 90);
CREATE INDEX watches_due ON watches (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX watches_own ON watches (url_id) WHERE policy IS NOT NULL;

-- Every fetch attempt, also each failed one.
CREATE TABLE fetch_log (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    url_id       bigint NOT NULL REFERENCES url_frontier ON DELETE CASCADE,
    holder       text NOT NULL,
    attempt      int NOT NULL,
    finished_at  timestamptz NOT NULL,
    sent_at      timestamptz,
    http_status  smallint,
    body_bytes   int,
    elapsed_ms   int,
    reason       text NOT NULL,
    detail       text
);
CREATE INDEX fetch_log_url ON fetch_log (url_id, id);
CREATE INDEX fetch_log_finished ON fetch_log (finished_at);

-- The number of URLs of each status and reason is the sum of these rows. Triggers add a row for each difference, so no
-- transaction waits for another. Maintenance merges the rows.
CREATE TABLE frontier_counts (
    status  text NOT NULL,
    reason  text,
    urls    bigint NOT NULL
);

-- The same for the URLs of each source and status. There is no foreign key, as in `url_frontier`.
CREATE TABLE source_urls (
    source_id  int NOT NULL,
    status     text NOT NULL,
    urls       bigint NOT NULL
);
CREATE INDEX source_urls_source ON source_urls (source_id);

-- The ended URLs with another reason than `stored`: these are listed by reason, and few. Indexes of `url_frontier` with a reason
-- would slow down the end of each fetch. Triggers keep these rows.
CREATE TABLE ended_urls (
    url_id     bigint PRIMARY KEY,
    source_id  int NOT NULL,
    status     text NOT NULL,
    reason     text NOT NULL
);
CREATE INDEX ended_urls_reason ON ended_urls (reason, url_id);
CREATE INDEX ended_urls_source ON ended_urls (source_id, reason, url_id);
CREATE INDEX ended_urls_dead ON ended_urls (url_id) WHERE status = 'dead';
CREATE INDEX ended_urls_source_dead ON ended_urls (source_id, url_id) WHERE status = 'dead';

CREATE FUNCTION count_new_urls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO frontier_counts (status, reason, urls) SELECT status, reason, count(*) FROM new_rows GROUP BY 1, 2;
    INSERT INTO source_urls (source_id, status, urls) SELECT source_id, status, count(*) FROM new_rows GROUP BY 1, 2;
    IF EXISTS (SELECT FROM new_rows WHERE reason <> 'stored') THEN
        INSERT INTO ended_urls (url_id, source_id, status, reason)
        SELECT id, source_id, status, reason FROM new_rows WHERE reason <> 'stored';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER count_new AFTER INSERT ON url_frontier REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_new_urls();

CREATE FUNCTION count_changed_urls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO frontier_counts (status, reason, urls)
    SELECT status, reason, sum(n)
    FROM (SELECT status, reason, 1 AS n FROM new_rows UNION ALL SELECT status, reason, -1 FROM old_rows) both_sides
    GROUP BY 1, 2 HAVING sum(n) <> 0;
    INSERT INTO source_urls (source_id, status, urls)
    SELECT source_id, status, sum(n)
    FROM (SELECT source_id, status, 1 AS n FROM new_rows UNION ALL SELECT source_id, status, -1 FROM old_rows) both_sides
    GROUP BY 1, 2 HAVING sum(n) <> 0;
    IF EXISTS (SELECT FROM old_rows WHERE reason <> 'stored') THEN
        DELETE FROM ended_urls
        WHERE url_id = ANY (ARRAY(SELECT o.id FROM old_rows o JOIN new_rows n USING (id)
                                  WHERE o.reason <> 'stored' AND (n.reason <> 'stored') IS NOT TRUE));
    END IF;
    IF EXISTS (SELECT FROM new_rows WHERE reason <> 'stored') THEN
        INSERT INTO ended_urls AS e (url_id, source_id, status, reason)
        SELECT n.id, n.source_id, n.status, n.reason FROM new_rows n JOIN old_rows o USING (id)
        WHERE n.reason <> 'stored' AND (n.source_id, n.status, n.reason) IS DISTINCT FROM (o.source_id, o.status, o.reason)
        ON CONFLICT (url_id) DO UPDATE SET source_id = excluded.source_id, status = excluded.status, reason = excluded.reason;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER count_changed AFTER UPDATE ON url_frontier REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_changed_urls();

CREATE FUNCTION count_deleted_urls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO frontier_counts (status, reason, urls) SELECT status, reason, -count(*) FROM old_rows GROUP BY 1, 2;
    INSERT INTO source_urls (source_id, status, urls) SELECT source_id, status, -count(*) FROM old_rows GROUP BY 1, 2;
    DELETE FROM ended_urls WHERE url_id = ANY (ARRAY(SELECT id FROM old_rows));
    RETURN NULL;
END $$;
CREATE TRIGGER count_deleted AFTER DELETE ON url_frontier REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_deleted_urls();

-- Items and days -----------------------------------------------------------------------------------------------------

-- The entries that sources list, and the stored pages that no list has. The id is the SHA-256 of "source:url", in hex.
CREATE TABLE items (
    id                     text PRIMARY KEY CHECK (id ~ '^[0-9a-f]{64}$'),
    source_id              int NOT NULL REFERENCES sources,
    url                    text NOT NULL,
    url_id                 bigint REFERENCES url_frontier,     -- NULL: its page is not fetched
    title                  text NOT NULL,
    published_at           timestamptz NOT NULL,
    published_is_sighting  boolean NOT NULL,    -- there is no date of publication, so published_at is the first sighting
    updated_at             timestamptz,
    is_from_page           boolean NOT NULL DEFAULT false,      -- no list has it: the stored page gave title and dates
    waits_for_run          boolean NOT NULL DEFAULT false,      -- from a page, and no run has handed it off yet
    tags                   jsonb NOT NULL DEFAULT '{}',
    raw                    jsonb NOT NULL DEFAULT '{}',
    first_seen_at          timestamptz NOT NULL,
    last_seen_at           timestamptz NOT NULL
);
CREATE INDEX items_source ON items (source_id, published_at DESC);
CREATE INDEX items_url ON items (url_id) WHERE url_id IS NOT NULL;
CREATE INDEX items_waiting_for_run ON items (source_id, id) WHERE waits_for_run;

-- Each pair of dates that an item was ever seen with. Days are rebuilt from these rows, so an update tomorrow does not
-- change today.
CREATE TABLE item_observations (
    item_id       text NOT NULL REFERENCES items ON DELETE CASCADE,
    source_id     int NOT NULL REFERENCES sources,
    published_at  timestamptz,      -- NULL: the item is older than its update, but its age is unknown
    updated_at    timestamptz,
    rule          text,             -- the rule that decided the dates
    is_certain    boolean NOT NULL DEFAULT true,    -- the source gave the dates; false: they were inferred
    observed_at   timestamptz NOT NULL,
    UNIQUE NULLS NOT DISTINCT (item_id, published_at, updated_at)
);
CREATE INDEX item_observations_published ON item_observations (source_id, published_at);
CREATE INDEX item_observations_updated ON item_observations (source_id, updated_at) WHERE updated_at IS NOT NULL;

-- The NEW and LATEST items of a day in the source's time zone. The rows of a source and day are always rebuilt together.
CREATE TABLE daily_index (
    source_id     int NOT NULL REFERENCES sources ON DELETE CASCADE,
    day           date NOT NULL,
    item_id       text NOT NULL REFERENCES items ON DELETE CASCADE,
    url_id        bigint,           -- of the item. A trigger keeps these two, so that a day is counted without its items
    topics        text[],           -- of the item, in lower case; NULL: it has none
    bucket        text NOT NULL CHECK (bucket IN ('NEW', 'LATEST')),
    published_at  timestamptz,      -- the observed dates that put the item into this day
    updated_at    timestamptz,
    rule          text,
    PRIMARY KEY (source_id, day, item_id)
);
CREATE INDEX daily_index_day ON daily_index (day, source_id, bucket);
CREATE INDEX daily_index_item ON daily_index (item_id);

-- The topics of an item, in lower case: a list of texts, or one text.
CREATE FUNCTION make_topics(tags jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN CASE jsonb_typeof(tags -> 'topic')
    WHEN 'string' THEN ARRAY[lower(tags ->> 'topic')]
    WHEN 'array' THEN ARRAY(SELECT lower(t) FROM jsonb_array_elements_text(tags -> 'topic') AS t)
END;

CREATE FUNCTION update_days() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE daily_index SET url_id = NEW.url_id, topics = make_topics(NEW.tags) WHERE item_id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER update_days AFTER UPDATE OF url_id, tags ON items FOR EACH ROW
    WHEN ((OLD.url_id, OLD.tags -> 'topic') IS DISTINCT FROM (NEW.url_id, NEW.tags -> 'topic')) EXECUTE FUNCTION update_days();

-- When all items of a day were last read. A day that is read long after its end lacks the items that changed since.
CREATE TABLE days_read (
    source_id  int NOT NULL REFERENCES sources ON DELETE CASCADE,
    day        date NOT NULL,
    read_at    timestamptz NOT NULL,
    PRIMARY KEY (source_id, day)
);

-- One reading of a source, at a slot of its schedule or by hand. A slot whose run failed may get another run.
CREATE TABLE runs (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source_id      int NOT NULL REFERENCES sources ON DELETE CASCADE,
    trigger        text NOT NULL CHECK (trigger IN ('schedule', 'manual', 'sync')),
    slot           timestamptz,
    day            date,        -- in the source's time zone; NULL: the run reads no day
    status         text NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'succeeded', 'failed')),
    reason         text,
    error          text,        -- the message that explains the reason
    item_count     int,
    page_count     int CHECK (page_count >= 0),
    fetched_count  int CHECK (fetched_count >= 0),
    total_count    int CHECK (total_count >= 0),    -- the number of items that the source reports
    new_count      int CHECK (new_count >= 0),
    latest_count   int CHECK (latest_count >= 0),
    started_at     timestamptz NOT NULL,
    finished_at    timestamptz,
    lease_holder   text,
    lease_token    uuid,
    lease_until    timestamptz,
    attempts       int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    CONSTRAINT lease_is_complete CHECK (num_nulls(lease_holder, lease_token, lease_until) IN (0, 3)),
    CONSTRAINT running_run_has_a_lease CHECK ((status = 'running') = (lease_token IS NOT NULL)),
    CONSTRAINT ended_run_has_a_reason CHECK ((status = 'running') = (reason IS NULL AND finished_at IS NULL)),
    CONSTRAINT scheduled_run_has_a_slot CHECK ((trigger = 'schedule') = (slot IS NOT NULL))
);
CREATE UNIQUE INDEX runs_succeeded_slot ON runs (source_id, slot) WHERE slot IS NOT NULL AND status = 'succeeded';
CREATE UNIQUE INDEX runs_running ON runs (source_id) WHERE status = 'running';
CREATE INDEX runs_slot ON runs (source_id, slot) WHERE slot IS NOT NULL;
CREATE INDEX runs_day ON runs (source_id, day, id) WHERE day IS NOT NULL;
CREATE INDEX runs_source ON runs (source_id, id);
CREATE INDEX runs_status ON runs (status, id);
CREATE INDEX runs_of_a_day ON runs (day, id) WHERE day IS NOT NULL;
CREATE INDEX runs_leased ON runs (lease_until) WHERE lease_token IS NOT NULL;

-- History ------------------------------------------------------------------------------------------------------------

-- The work of Headwater, for charts. One process records each minute, once it has ended. Minutes are kept for two days, hours
-- for two months and days for three years. An hour is made of its minutes, and a day (UTC) of its hours.
CREATE TABLE history (
    step    text NOT NULL CHECK (step IN ('minute', 'hour', 'day')),
    at      timestamptz NOT NULL,   -- the beginning
    metric  text NOT NULL,
    value   double precision NOT NULL,
    PRIMARY KEY (step, at, metric)
);

-- The events that may explain a bend in a chart: a program started, or a setting was changed.
CREATE TABLE history_marks (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('restart', 'setting')),
    source_id  int REFERENCES sources ON DELETE CASCADE,    -- the source whose setting was changed
    label      text NOT NULL
);
CREATE INDEX history_marks_at ON history_marks (at);
CREATE INDEX history_marks_source ON history_marks (source_id, at) WHERE source_id IS NOT NULL;

-- The polls of the last days. The time of the poll is that of its end.
CREATE TABLE poll_log (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source_id  int NOT NULL REFERENCES sources ON DELETE CASCADE,
    method     text NOT NULL,
    polled_at  timestamptz NOT NULL,
    reason     text NOT NULL,
    error      text,            -- NULL: it succeeded
    run_id     bigint,          -- the run that it was a part of
    items      int,             -- NULL: nothing has changed
    new_items  int NOT NULL,
    new_urls   int NOT NULL
);
CREATE INDEX poll_log_source ON poll_log (source_id, polled_at);
CREATE INDEX poll_log_polled ON poll_log (polled_at);

-- A day (UTC) of a source, for charts. Lags are the median and the 95th percentile of its newest items, in seconds, as they
-- were measured last on that day.
CREATE TABLE source_days (
    source_id        int NOT NULL REFERENCES sources ON DELETE CASCADE,
    day              date NOT NULL,
    items            int NOT NULL,      -- published on that day
    polls            int NOT NULL,
    failed_polls     int NOT NULL,
    seen_lags        double precision[],    -- from the publication to the first sighting; NULL: no item has both times
    fetched_lags     double precision[],    -- from the first sighting to the end of the first good answer
    searchable_lags  double precision[],    -- from that end until searches find the document
    total_lags       double precision[],    -- from the publication until searches find the document
    measured_at      timestamptz NOT NULL,
    PRIMARY KEY (source_id, day)
);
CREATE INDEX source_days_day ON source_days (day);

-- The settings of the last program that started with these roles. The next one reports the difference.
CREATE TABLE started_programs (
    roles     text PRIMARY KEY,
    settings  jsonb NOT NULL    -- secrets are masked
);

-- API budgets --------------------------------------------------------------------------------------------------------

-- The requests that a key may send to an API host in a rolling hour.
CREATE TABLE budgets (
    key_fingerprint  text NOT NULL CHECK (key_fingerprint ~ '^[0-9a-f]{16}$'),  -- never the key itself
    host             text NOT NULL,
    hourly_limit     int NOT NULL CHECK (hourly_limit > 0),
    limit_seen_at    timestamptz,   -- when the host last reported another limit; NULL: never, the default holds
    exhausted_until  timestamptz,   -- the host reported that no request is left
    PRIMARY KEY (key_fingerprint, host)
);

-- Requests are counted in buckets of a few seconds. New requests delete the buckets that are too old to count.
CREATE TABLE budget_spending (
    key_fingerprint  text NOT NULL,
    host             text NOT NULL,
    bucket           timestamptz NOT NULL,
    child            text NOT NULL,     -- the child API below the host
    requests         int NOT NULL CHECK (requests > 0),
    PRIMARY KEY (key_fingerprint, host, bucket, child),
    FOREIGN KEY (key_fingerprint, host) REFERENCES budgets ON DELETE CASCADE
);

-- Documents ----------------------------------------------------------------------------------------------------------

-- Each text is stored once, however many pages have it.
CREATE TABLE texts (
    content_hash   bytea PRIMARY KEY CHECK (octet_length(content_hash) = 32),
    body           text NOT NULL,
    first_seen_at  timestamptz NOT NULL
);

-- One document for each URL. The text can be derived again from the raw file, fetched_url, content_type, selectors and
-- removed_blocks.
CREATE SEQUENCE document_versions;
CREATE TABLE documents (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    url_id         bigint NOT NULL UNIQUE REFERENCES url_frontier,
    source_id      int NOT NULL REFERENCES sources,
    revision       int NOT NULL DEFAULT 1 CHECK (revision >= 1),
    content_hash   bytea NOT NULL REFERENCES texts,
    body_status    text NOT NULL DEFAULT 'ok' CHECK (body_status IN ('ok', 'scanned_no_text', 'too_large')),
    title          text NOT NULL,
    byline         text,
    published_at   timestamptz,
    updated_at     timestamptz,     -- when the page last changed, by the page or its feed
    language       text,            -- a plain code, such as de
    region         text,            -- of the language, such as DE
    image          text,
    abstract       text,
    canonical_url  text,
    page_kind      text CHECK (     -- NULL: the document is no HTML page
        page_kind IN ('article', 'documentation', 'forum', 'product', 'service', 'collection', 'listing')),
    provenance     jsonb NOT NULL,
    confidence     jsonb NOT NULL DEFAULT '{}',     -- of each field, from 0 to 1
    artifacts      jsonb NOT NULL DEFAULT '[]',     -- tables that the text cannot show
    normalizer     text NOT NULL,
    selectors      jsonb NOT NULL DEFAULT '{}',     -- the source's selectors that the normalizer used
    removed_blocks bigint[] NOT NULL DEFAULT '{}',  -- hashes of blocks of its site that the normalizer left out
    fetched_url    text,            -- the URL of the bytes, after redirects
    content_type   text,            -- the header of the answer, with its charset; NULL: it had none
    raw_path       text NOT NULL,   -- below the corpus folder
    raw_hash       bytea NOT NULL CHECK (octet_length(raw_hash) = 32),
    raw_bytes      int NOT NULL,
    fetched_at     timestamptz NOT NULL,
    version        bigint NOT NULL DEFAULT nextval('document_versions')     -- rises with each change that an index sees
);
CREATE INDEX documents_fetched ON documents (fetched_at DESC, id DESC);
CREATE INDEX documents_source ON documents (source_id, id);
CREATE INDEX documents_text ON documents (content_hash);

-- On how many of the pages of a host its blocks of text are. Blocks that recur belong to the site, not to a page.
CREATE TABLE site_memory (
    host    text PRIMARY KEY,
    pages   int NOT NULL CHECK (pages > 0 AND pages <= 64),     -- later pages weigh more
    blocks  bigint[] NOT NULL,      -- hashes, oldest first
    counts  int[] NOT NULL,         -- the number of pages with each block
    CONSTRAINT memory_is_bounded CHECK (cardinality(blocks) = cardinality(counts) AND cardinality(blocks) <= 256)
) WITH (fillfactor = 50);

-- The earlier texts of a document.
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

-- The rows that search reads: one for each document, derived from it. `headwater search reindex` makes the rows again.
-- The words are folded and cut by core/search_words, then stemmed in the language of the document. Its text search
-- configuration is a word, too, such as '#english', so that a query for English stems finds no document in German.
CREATE TABLE document_search (
    document_id  bigint PRIMARY KEY REFERENCES documents ON DELETE CASCADE,
    dated_at     timestamptz NOT NULL,  -- published, by the page or its source, or else the text was first seen
    marks        text[] NOT NULL,       -- its source, language, site, and the blocks of ids that it is in
    titles       tsvector NOT NULL,     -- title (weight A) and byline (B)
    words        tsvector NOT NULL      -- these and the text (D)
) WITH (toast_tuple_target = 256);      -- most words are out of line, so that reading rows without them is quick
CREATE INDEX document_search_words ON document_search USING gin (words, titles, marks);
CREATE INDEX document_search_dated ON document_search (dated_at);

-- A site is a host or a domain above it. Blocks of 32,768 and 262,144 ids let a search read the newest documents first.
CREATE FUNCTION make_search_marks(document_id bigint, source_id int, language text, host text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN ARRAY[
    'near:' || (document_id >> 15), 'far:' || (document_id >> 18), 'source:' || source_id, 'lang:' || coalesce(language, '')
] || ARRAY(
    SELECT 'site:' || array_to_string(parts[n:], '.')
    FROM (SELECT string_to_array(host, '.') AS parts) h, generate_subscripts(parts, 1) AS n
);

-- The documents that match a search and its filters. The planner writes this function into the query that calls it.
-- A document has one of `languages`, `sources` and `sites` (marks), none of `unwanted` (marks), and one of `topics`; NULL: any.
CREATE FUNCTION find_documents(
    search tsquery, in_titles tsquery, after timestamptz, before timestamptz, languages text[], sources text[], sites text[],
    unwanted text[], topics text[], topic text, unwanted_topics text[], last bigint
) RETURNS SETOF document_search LANGUAGE sql STABLE AS $$
    SELECT * FROM document_search s
    WHERE s.words @@ search AND (in_titles IS NULL OR s.titles @@ in_titles)
      AND (after IS NULL OR s.dated_at >= after) AND (before IS NULL OR s.dated_at < before)
      AND (languages IS NULL OR s.marks && languages) AND (sources IS NULL OR s.marks && sources)
      AND (sites IS NULL OR s.marks && sites) AND (unwanted IS NULL OR NOT s.marks && unwanted)
      AND (topics IS NULL OR EXISTS (SELECT FROM documents d JOIN items i ON i.url_id = d.url_id
            WHERE d.id = s.document_id AND lower((i.tags -> 'topic')::text)::jsonb ?| topics))
      AND (topic IS NULL OR EXISTS (SELECT FROM documents d JOIN items i ON i.url_id = d.url_id
            WHERE d.id = s.document_id AND lower((i.tags -> 'topic')::text)::jsonb ? topic))
      AND (unwanted_topics IS NULL OR NOT EXISTS (SELECT FROM documents d JOIN items i ON i.url_id = d.url_id
            WHERE d.id = s.document_id AND lower((i.tags -> 'topic')::text)::jsonb ?| unwanted_topics))
      AND s.document_id + 0 <= last   -- the sum keeps the planner from reading all rows by their ids
$$;

-- The text search configurations that documents use.
CREATE TABLE search_configurations (
    name  text PRIMARY KEY
);

-- The version of the function that cut the words of all rows.
CREATE TABLE search_state (
    is_single_row  boolean PRIMARY KEY DEFAULT true CHECK (is_single_row),
    version        int NOT NULL
);
INSERT INTO search_state (version) VALUES (1);

-- The index of documents in Elasticsearch or OpenSearch, if one was ever configured. A build fills another index in the order
-- of ids. Changes go to both indexes, until the alias points at the new one. The old one is removed a little later.
CREATE TABLE search_index (
    is_single_row  boolean PRIMARY KEY DEFAULT true CHECK (is_single_row),
    generation     int NOT NULL DEFAULT 0,      -- of the last index that was begun
    current        text,                        -- the index that the alias points at
    building       text,
    built_to       bigint NOT NULL DEFAULT 0,   -- the last document in it
    retired        text,
    retired_at     timestamptz,
    failures       int NOT NULL DEFAULT 0,      -- of requests in a row
    not_before     timestamptz,                 -- of the next request, after a failure
    error          text,
    CONSTRAINT retired_index_has_a_time CHECK (num_nulls(retired, retired_at) <> 1)
);

-- The outbox of that index: documents that changed or were deleted. The index gets the present document with its version, and
-- ignores an older version, so it does not matter if two processes send the same document.
CREATE TABLE index_changes (
    document_id  bigint PRIMARY KEY,        -- there may be no such document any more
    version      bigint NOT NULL,
    due_at       timestamptz NOT NULL DEFAULT '-infinity',  -- later while it is being sent, or after a failure
    attempts     int NOT NULL DEFAULT 0,
    reason       text,                      -- why it is parked
    detail       text
);
CREATE INDEX index_changes_due ON index_changes (due_at, version) WHERE reason IS NULL;
CREATE INDEX index_changes_parked ON index_changes (version) WHERE reason IS NOT NULL;

CREATE FUNCTION raise_document_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.version := nextval('document_versions');
    RETURN NEW;
END $$;
CREATE TRIGGER raise_version BEFORE UPDATE ON documents FOR EACH ROW
    WHEN ((OLD.content_hash, OLD.title, OLD.byline, OLD.published_at, OLD.language, OLD.region, OLD.image, OLD.abstract, OLD.source_id)
          IS DISTINCT FROM
          (NEW.content_hash, NEW.title, NEW.byline, NEW.published_at, NEW.language, NEW.region, NEW.image, NEW.abstract, NEW.source_id))
    EXECUTE FUNCTION raise_document_version();

-- Queue changes once an index was configured. `begin_index` locks `documents` until its row is there, so none is missed.
CREATE FUNCTION queue_index_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM search_index) THEN
        RETURN NULL;
    ELSIF TG_OP = 'INSERT' THEN
        INSERT INTO index_changes AS c (document_id, version) SELECT id, version FROM new_rows ORDER BY id
        ON CONFLICT (document_id) DO UPDATE SET version = excluded.version, due_at = excluded.due_at, attempts = 0, reason = NULL, detail = NULL;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO index_changes AS c (document_id, version)
        SELECT id, n.version FROM new_rows n JOIN old_rows o USING (id) WHERE n.version > o.version ORDER BY id
        ON CONFLICT (document_id) DO UPDATE SET version = excluded.version, due_at = excluded.due_at, attempts = 0, reason = NULL, detail = NULL;
    ELSE
        INSERT INTO index_changes AS c (document_id, version) SELECT id, nextval('document_versions') FROM old_rows ORDER BY id
        ON CONFLICT (document_id) DO UPDATE SET version = excluded.version, due_at = excluded.due_at, attempts = 0, reason = NULL, detail = NULL;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER queue_new AFTER INSERT ON documents REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION queue_index_changes();
CREATE TRIGGER queue_changed AFTER UPDATE ON documents REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION queue_index_changes();
CREATE TRIGGER queue_deleted AFTER DELETE ON documents REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION queue_index_changes();

-- Raw files without a document: it was deleted, or its raw file has another path now. Maintenance removes them.
CREATE TABLE unused_raw_files (
    url_id  bigint NOT NULL REFERENCES url_frontier,
    path    text NOT NULL,
    PRIMARY KEY (url_id, path)
);

-- The items and documents of each source, and the bytes of their raw files and texts, are the sums of these rows. Triggers
-- add a row for each difference, so no transaction waits for another. Maintenance merges the rows.
CREATE TABLE source_sizes (
    source_id   int NOT NULL REFERENCES sources ON DELETE CASCADE,
    items       bigint NOT NULL DEFAULT 0,
    documents   bigint NOT NULL DEFAULT 0,
    raw_bytes   bigint NOT NULL DEFAULT 0,
    text_bytes  bigint NOT NULL DEFAULT 0   -- a text that several documents share counts for each of them
);
CREATE INDEX source_sizes_source ON source_sizes (source_id);

CREATE FUNCTION count_new_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO source_sizes (source_id, items) SELECT source_id, count(*) FROM new_rows GROUP BY 1;
    RETURN NULL;
END $$;
CREATE TRIGGER count_new AFTER INSERT ON items REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_new_items();

CREATE FUNCTION count_deleted_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO source_sizes (source_id, items) SELECT source_id, -count(*) FROM old_rows GROUP BY 1;
    RETURN NULL;
END $$;
CREATE TRIGGER count_deleted AFTER DELETE ON items REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_deleted_items();

CREATE FUNCTION count_new_documents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO source_sizes (source_id, documents, raw_bytes, text_bytes)
    SELECT n.source_id, count(*), sum(n.raw_bytes), sum(octet_length(t.body))
    FROM new_rows n JOIN texts t USING (content_hash) GROUP BY 1;
    RETURN NULL;
END $$;
CREATE TRIGGER count_new AFTER INSERT ON documents REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_new_documents();

CREATE FUNCTION count_changed_documents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO source_sizes (source_id, documents, raw_bytes, text_bytes)
    SELECT r.source_id, sum(r.n), sum(r.n * r.raw_bytes), sum(r.n * octet_length(t.body))
    FROM (SELECT source_id, raw_bytes, content_hash, 1 AS n FROM new_rows
          UNION ALL SELECT source_id, raw_bytes, content_hash, -1 FROM old_rows) r
    JOIN texts t USING (content_hash)
    GROUP BY 1 HAVING sum(r.n) <> 0 OR sum(r.n * r.raw_bytes) <> 0 OR sum(r.n * octet_length(t.body)) <> 0;
    RETURN NULL;
END $$;
CREATE TRIGGER count_changed AFTER UPDATE ON documents REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_changed_documents();

CREATE FUNCTION count_deleted_documents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO source_sizes (source_id, documents, raw_bytes, text_bytes)
    SELECT o.source_id, -count(*), -sum(o.raw_bytes), -sum(octet_length(t.body))
    FROM old_rows o JOIN texts t USING (content_hash) GROUP BY 1;
    RETURN NULL;
END $$;
CREATE TRIGGER count_deleted AFTER DELETE ON documents REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_deleted_documents();

-- Canonical articles -------------------------------------------------------------------------------------------------

-- The URLs that sources with a category list, unchanged, and the URLs that other programs put into Redis.
CREATE TABLE category_links (
    category      text NOT NULL CHECK (category <> ''),
    uid           text NOT NULL CHECK (uid ~ '^[0-9a-f]{16}$'),     -- sha1(url)[:16]
    url           text NOT NULL,
    seen_at       timestamptz NOT NULL,
    is_projected  boolean NOT NULL DEFAULT false,                   -- Redis has it
    PRIMARY KEY (category, uid)
);
CREATE INDEX category_links_seen ON category_links (seen_at);
CREATE INDEX category_links_unprojected ON category_links (seen_at) WHERE NOT is_projected;

-- The attempts to make articles of these links. The current run has requested a link, or the link was attempted, or
-- both: a link is attempted again after 30 days.
CREATE TABLE canonical_attempts (
    uid           text PRIMARY KEY CHECK (uid ~ '^[0-9a-f]{16}$'),
    url           text,                                             -- NULL: another program attempted it
    categories    text[] NOT NULL DEFAULT '{}',
    url_id        bigint REFERENCES url_frontier,                   -- NULL: not submitted yet, or refused
    requested_at  timestamptz,
    attempted_at  timestamptz,
    code          text CHECK (code IN ('FAIL_BAD_HTML', 'FAIL_HTTP', 'FAIL_TIMEOUT', 'FAIL_PARSE', 'FAIL_EMPTY')),
    reason        text,                                             -- our own reason code for the failure
    is_projected  boolean NOT NULL DEFAULT false,                   -- Redis has it
    CONSTRAINT link_is_requested_or_attempted CHECK (num_nonnulls(requested_at, attempted_at) > 0),
    CONSTRAINT failed_link_is_attempted CHECK (code IS NULL OR attempted_at IS NOT NULL)
);
CREATE INDEX canonical_attempts_requested ON canonical_attempts (uid) WHERE requested_at IS NOT NULL;
CREATE INDEX canonical_attempts_url ON canonical_attempts (url_id) WHERE url_id IS NOT NULL;
CREATE INDEX canonical_attempts_unprojected ON canonical_attempts (attempted_at, uid) WHERE NOT is_projected;

-- The lease of the only run that may work at a time, and the mark of the Redis server that has everything.
CREATE TABLE canonical_state (
    is_single_row  boolean PRIMARY KEY DEFAULT true CHECK (is_single_row),
    redis_mark     text,            -- the value that the last run left in that server
    lease_holder   text,
    lease_token    uuid,
    lease_until    timestamptz,
    attempts       int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    CONSTRAINT lease_is_complete CHECK (num_nulls(lease_holder, lease_token, lease_until) IN (0, 3))
);
INSERT INTO canonical_state DEFAULT VALUES;

-- Stories ------------------------------------------------------------------------------------------------------------

-- Documents about one event. A role follows the changes and derives these rows from the documents alone. A document is
-- linked to the documents with smaller ids that belong to the same story. All linked documents are one story. It has the
-- smallest id of its documents. `headwater story rebuild` makes the same rows again.
CREATE TABLE story_documents (
    document_id  bigint PRIMARY KEY,    -- its deletion removes the row a little later
    story_id     bigint NOT NULL CHECK (story_id <= document_id),
    links        bigint[] NOT NULL,
    signature    bytea NOT NULL         -- made by stories/signature
);
CREATE INDEX story_documents_story ON story_documents (story_id, document_id);
CREATE INDEX story_documents_joined ON story_documents (document_id) WHERE story_id <> document_id;

-- The keys of each signature. Two documents are compared if they share a key.
CREATE TABLE story_keys (
    key          bigint NOT NULL,
    document_id  bigint NOT NULL,
    PRIMARY KEY (key, document_id)
);

-- How far the role is. The transaction that changes stories locks this row.
CREATE TABLE story_state (
    is_single_row  boolean PRIMARY KEY DEFAULT true CHECK (is_single_row),
    position       bigint NOT NULL DEFAULT 0,   -- all changes up to this position are in the stories
    version        int NOT NULL DEFAULT 0       -- of the function that made the signatures
);
INSERT INTO story_state DEFAULT VALUES;

-- Changes and webhooks -----------------------------------------------------------------------------------------------

-- Faults that an operator must know: a source is silent, a day is incomplete, a disk is full. Each is open until it is over.
CREATE TABLE alarms (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind      text NOT NULL CHECK (kind IN
        ('source_failing', 'source_silent', 'day_incomplete', 'extraction_drifted', 'disk_low', 'outbox_stuck')),
    subject   text NOT NULL,        -- the source, the day, the folder or the receiver
    message   text NOT NULL,
    began_at  timestamptz NOT NULL,
    ended_at  timestamptz CHECK (ended_at >= began_at),
    seen_at   timestamptz           -- of a disk: when its machine measured it last
);
CREATE UNIQUE INDEX alarms_open ON alarms (kind, subject) WHERE ended_at IS NULL;

-- The sums of the new documents of a source on a day (UTC). They show whether extraction works as in the past of the source.
CREATE TABLE extraction_days (
    source_id       int NOT NULL REFERENCES sources ON DELETE CASCADE,
    page_kind       text NOT NULL,      -- pages of one kind mostly have one template; empty: no HTML page
    day             date NOT NULL,
    documents       int NOT NULL,
    characters      bigint NOT NULL,    -- of all their texts
    without_title   int NOT NULL,
    without_byline  int NOT NULL,
    without_date    int NOT NULL,
    selected        int NOT NULL,       -- fields that the source's selectors gave
    confidence      double precision NOT NULL,  -- the sum, over the documents, of the mean of their fields
    PRIMARY KEY (source_id, page_kind, day)
);
CREATE INDEX extraction_days_day ON extraction_days (day);

-- When alarms were checked, and the last change whose document is counted in extraction_days.
CREATE TABLE alarm_state (
    is_single_row  boolean PRIMARY KEY DEFAULT true CHECK (is_single_row),
    checked_at     timestamptz,
    position       bigint NOT NULL DEFAULT 0
);
INSERT INTO alarm_state DEFAULT VALUES;

-- Changes of documents and jobs, for other programs, and alarms. The transaction that makes a change also writes its row. A row gets
-- its position after that transaction has committed, so a reader of positions misses no row that commits late.
-- Positions rise and may have gaps.
CREATE TABLE changes (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,     -- in order for each URL
    position       bigint UNIQUE CHECK (position > 0),
    url_id         bigint NOT NULL,
    url            text,                                                -- of a change that may outlive its URL
    document_id    bigint,                                              -- there may be no such document any more
    revision       int CHECK (revision > 0),                            -- of the document
    is_correction  boolean NOT NULL DEFAULT false,                      -- only other fields of the document changed
    job_id         bigint,
    alarm_id       bigint REFERENCES alarms,                            -- it began
    is_over        boolean NOT NULL DEFAULT false,                      -- the alarm is over
    reason         text,                                                -- why the job failed or the document was deleted
    changed_at     timestamptz NOT NULL,
    -- This change is later than all changes before it. These changes have the same order by position and by time, so an
    -- index finds the first change since a time.
    advances_time  boolean NOT NULL DEFAULT false,
    CONSTRAINT change_has_one_subject CHECK (num_nonnulls(revision, job_id, alarm_id) = 1),
    CONSTRAINT change_of_a_job_has_a_reason CHECK (job_id IS NULL OR reason IS NOT NULL),
    CONSTRAINT deletion_names_its_document CHECK (revision IS NULL OR reason IS NULL OR num_nulls(document_id, url) = 0),
    CONSTRAINT correction_is_of_a_document CHECK (NOT is_correction OR revision IS NOT NULL)
);
CREATE INDEX changes_unnumbered ON changes (id) WHERE position IS NULL;
CREATE INDEX changes_advancing_time ON changes (changed_at) WHERE advances_time;
CREATE INDEX changes_deletions ON changes (document_id) WHERE revision IS NOT NULL AND reason IS NOT NULL;
CREATE INDEX changes_jobs ON changes (job_id) WHERE job_id IS NOT NULL;

-- The last position in use. The transaction that assigns the next positions locks this row.
CREATE TABLE change_state (
    is_single_row  boolean PRIMARY KEY DEFAULT true CHECK (is_single_row),
    last_position  bigint NOT NULL DEFAULT 0
);
INSERT INTO change_state DEFAULT VALUES;

CREATE FUNCTION record_new_documents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO changes (url_id, document_id, revision, changed_at)
    SELECT url_id, id, revision, fetched_at FROM new_rows ORDER BY id;
    RETURN NULL;
END $$;
CREATE TRIGGER record_new AFTER INSERT ON documents REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION record_new_documents();

-- The query `save_documents` compares the same columns.
CREATE FUNCTION record_changed_documents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO changes (url_id, document_id, revision, changed_at, is_correction)
    SELECT n.url_id, id, n.revision, n.fetched_at, n.content_hash = o.content_hash
    FROM new_rows n JOIN old_rows o USING (id)
    WHERE (n.content_hash, n.title, n.byline, n.published_at, n.language, n.region, n.image, n.abstract)
          IS DISTINCT FROM
          (o.content_hash, o.title, o.byline, o.published_at, o.language, o.region, o.image, o.abstract)
    ORDER BY id;
    RETURN NULL;
END $$;
CREATE TRIGGER record_changed AFTER UPDATE ON documents REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION record_changed_documents();

-- Searches that receivers watch and feeds show.
CREATE TABLE saved_searches (
    id          int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    words       text NOT NULL,
    source      text,                   -- these four restrict the search further
    category    text,
    topic       text,
    language    text,
    created_at  timestamptz NOT NULL
);

-- Addresses of feeds for readers that cannot send a token.
CREATE TABLE feed_addresses (
    name          text PRIMARY KEY CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    digest        bytea NOT NULL UNIQUE CHECK (octet_length(digest) = 32),  -- SHA-256 of the secret part
    kind          text NOT NULL CHECK (kind IN ('day', 'source', 'category', 'search', 'saved', 'story')),
    value         text NOT NULL,
    with_text     boolean NOT NULL,
    created_at    timestamptz NOT NULL,
    last_used_at  timestamptz     -- written at most once a minute
);

-- Receivers of changes.
CREATE TABLE webhooks (
    id              int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name            text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    url             text NOT NULL,
    secret          bytea NOT NULL CHECK (octet_length(secret) = 32),
    events          text[] NOT NULL CHECK (cardinality(events) > 0 AND events <@ ARRAY['document.ready', 'document.deleted', 'job.failed', 'alarm']),
    kind            text NOT NULL DEFAULT 'webhook' CHECK (kind IN ('webhook', 'email', 'apprise')),  -- what the url is
    search_id       int REFERENCES saved_searches ON DELETE CASCADE,    -- it gets only documents that match
    digest_hour     smallint CHECK (digest_hour BETWEEN 0 AND 23),      -- of its time zone; NULL: digests are sent at once
    digest_due_at   timestamptz,        -- no digest is made earlier
    timezone        text NOT NULL DEFAULT 'UTC',
    quiet_from      smallint CHECK (quiet_from BETWEEN 0 AND 23),       -- from this hour to the next it gets nothing
    quiet_to        smallint CHECK (quiet_to BETWEEN 0 AND 23),
    enabled         boolean NOT NULL DEFAULT true,
    position        bigint NOT NULL,    -- all changes up to this position have become deliveries
    failures        int NOT NULL DEFAULT 0 CHECK (failures >= 0),   -- attempts in a row that failed, of any delivery
    failing_reason  text,
    error           text,               -- the message that explains failing_reason
    not_before      timestamptz,        -- no attempt is made earlier
    delivered_at    timestamptz,        -- when it last accepted a delivery
    created_at      timestamptz NOT NULL,
    CONSTRAINT quiet_hours_begin_and_end CHECK (num_nulls(quiet_from, quiet_to) IN (0, 2))
);
CREATE INDEX webhooks_search ON webhooks (search_id) WHERE search_id IS NOT NULL;

-- Whether a receiver is in its quiet hours. They may include midnight.
CREATE FUNCTION is_quiet(w webhooks, now timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT w.quiet_from IS NOT NULL AND CASE WHEN w.quiet_from < w.quiet_to
        THEN extract(hour FROM now AT TIME ZONE w.timezone) >= w.quiet_from AND extract(hour FROM now AT TIME ZONE w.timezone) < w.quiet_to
        ELSE extract(hour FROM now AT TIME ZONE w.timezone) >= w.quiet_from OR extract(hour FROM now AT TIME ZONE w.timezone) < w.quiet_to
    END
$$;

-- The documents that a receiver with a search has got, or that wait for its next digest.
CREATE TABLE reported_documents (
    webhook_id   int NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    document_id  bigint NOT NULL,       -- it may be deleted
    position     bigint NOT NULL,       -- of the change that matched first
    is_waiting   boolean NOT NULL,
    PRIMARY KEY (webhook_id, document_id)
);
CREATE INDEX reported_documents_waiting ON reported_documents (webhook_id, position) WHERE is_waiting;

-- The outbox of a webhook: a limited number of pending and parked deliveries, and the deliveries of the last days.
CREATE TABLE deliveries (
    id             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    webhook_id     int NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    position       bigint NOT NULL REFERENCES changes (position),
    url_id         bigint NOT NULL,
    event          text NOT NULL,
    digest         jsonb,               -- of a digest: its content until it is sent or dismissed
    status         text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'parked', 'dismissed')),
    reason         text,                -- of a pending delivery: the result of its last attempt
    due_at         timestamptz NOT NULL,
    failing_since  timestamptz,
    ended_at       timestamptz,
    lease_holder   text,
    lease_token    uuid,
    lease_until    timestamptz,
    attempts       int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    UNIQUE (webhook_id, position),
    CONSTRAINT lease_is_complete CHECK (num_nulls(lease_holder, lease_token, lease_until) IN (0, 3)),
    CONSTRAINT ended_delivery_has_a_reason CHECK (status = 'pending' OR (reason IS NOT NULL AND ended_at IS NOT NULL)),
    CONSTRAINT ended_delivery_has_no_lease CHECK (status = 'pending' OR lease_token IS NULL)
);
CREATE INDEX deliveries_document ON deliveries (webhook_id, url_id, position);
CREATE INDEX deliveries_open ON deliveries (webhook_id, position) WHERE status IN ('pending', 'parked');
CREATE INDEX deliveries_digests ON deliveries (webhook_id) WHERE digest IS NOT NULL AND status IN ('pending', 'parked');
CREATE INDEX deliveries_leased ON deliveries (lease_until) WHERE lease_token IS NOT NULL;
CREATE INDEX deliveries_ended ON deliveries (ended_at) WHERE status IN ('delivered', 'dismissed');

-- Every attempt of a delivery.
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

-- Tokens of programs that use the API. The first token is in the data folder or in the settings, and has no row.
CREATE TABLE api_tokens (
    name          text PRIMARY KEY CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    digest        bytea NOT NULL UNIQUE CHECK (octet_length(digest) = 32),  -- SHA-256 of the token
    scope         text NOT NULL CHECK (scope IN ('read', 'write', 'admin')),
    created_at    timestamptz NOT NULL,
    expires_at    timestamptz,    -- NULL: it does not expire
    last_used_at  timestamptz     -- written at most once a minute
);
