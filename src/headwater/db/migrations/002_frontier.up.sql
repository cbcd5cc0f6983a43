-- Hosts: politeness that survives restarts and holds across all workers on all machines.
CREATE TABLE host_state (
    host                text PRIMARY KEY,
    not_before          timestamptz NOT NULL DEFAULT '-infinity',  -- no request to this host sooner
    ready_at            timestamptz,        -- when its next URL may be claimed; NULL: nothing is queued
    reserved_until      timestamptz,        -- a poll is waiting for the host: claims let it go first
    backoff_ms          int NOT NULL DEFAULT 0 CHECK (backoff_ms >= 0),
    blocked_reason      text,
    crawl_delay_ms      int CHECK (crawl_delay_ms >= 0),
    robots_txt          text,               -- NULL with a time beside it: there is none, all is allowed
    robots_fetched_at   timestamptz,
    lease_holder        text,
    lease_token         uuid,
    lease_until         timestamptz,
    CONSTRAINT lease_is_whole CHECK (num_nulls(lease_holder, lease_token, lease_until) IN (0, 3))
) WITH (fillfactor = 70);
CREATE INDEX host_state_ready ON host_state (ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX host_state_leased ON host_state (lease_until) WHERE lease_token IS NOT NULL;

-- Every URL ever seen, once. This row is cold: claims do not touch it.
CREATE TABLE url_frontier (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    url              text NOT NULL,
    url_hash         bytea NOT NULL UNIQUE CHECK (octet_length(url_hash) = 32),
    host             text NOT NULL REFERENCES host_state,
    source_id        int NOT NULL REFERENCES sources,
    origin           text NOT NULL CHECK (origin IN ('feed', 'sitemap', 'spider', 'manual', 'category')),
    parent_id        bigint REFERENCES url_frontier,
    depth            smallint NOT NULL DEFAULT 0 CHECK (depth >= 0),
    hops             smallint NOT NULL DEFAULT 0 CHECK (hops >= 0),
    subpath          text NOT NULL,         -- where its raw bytes go below the source's folder
    status           text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'fetched', 'dead')),
    reason           text,
    discovered_at    timestamptz NOT NULL,
    last_fetched_at  timestamptz,
    fetch_count      int NOT NULL DEFAULT 0,
    etag             text,
    last_modified    text,
    CONSTRAINT an_end_has_a_reason CHECK (status = 'pending' OR reason IS NOT NULL)
);
CREATE INDEX url_frontier_source ON url_frontier (source_id, status);
CREATE INDEX url_frontier_parent ON url_frontier (parent_id) WHERE parent_id IS NOT NULL;

-- The queue: one narrow row for each pending URL, leased or not. A finished URL has none.
CREATE TABLE frontier_queue (
    url_id        bigint PRIMARY KEY REFERENCES url_frontier ON DELETE CASCADE,
    host          text NOT NULL,
    priority      smallint NOT NULL CHECK (priority BETWEEN 1 AND 10),
    due_at        timestamptz NOT NULL,
    lease_holder  text,
    lease_token   uuid,
    lease_until   timestamptz,
    attempts      int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    CONSTRAINT lease_is_whole CHECK (num_nulls(lease_holder, lease_token, lease_until) IN (0, 3))
) WITH (fillfactor = 80);
CREATE INDEX frontier_queue_pick ON frontier_queue (host, priority DESC, due_at) WHERE lease_token IS NULL;
CREATE INDEX frontier_queue_due ON frontier_queue (host, due_at) WHERE lease_token IS NULL;
CREATE INDEX frontier_queue_leased ON frontier_queue (lease_until) WHERE lease_token IS NOT NULL;

-- Every attempt, failed ones too.
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
