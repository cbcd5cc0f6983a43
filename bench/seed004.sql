-- The queue of the seed document 004: its tables, indexes and claim as written there. Left out is only what PostgreSQL
-- refuses: now() in the predicate of idx_frontier_claimable.

-- name: schema
CREATE TABLE url_frontier (
    id              UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    url             TEXT NOT NULL,
    url_hash        CHAR(64) NOT NULL,
    host            TEXT NOT NULL,
    source_id       UUID NOT NULL,
    origin          VARCHAR(20) NOT NULL,
    parent_url      TEXT,
    depth           SMALLINT DEFAULT 0,
    priority        SMALLINT NOT NULL DEFAULT 5,
    status          VARCHAR(20) NOT NULL DEFAULT 'pending',
    next_fetch_at   TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    last_fetched_at TIMESTAMPTZ,
    fetch_count     INTEGER DEFAULT 0,
    content_hash    CHAR(64),
    etag            TEXT,
    last_modified   TEXT,
    retry_count     SMALLINT DEFAULT 0,
    last_error      TEXT,
    discovered_at   TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    created_at      TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at      TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    CONSTRAINT uq_url_hash UNIQUE (url_hash)
);
CREATE INDEX idx_frontier_claimable ON url_frontier (priority DESC, next_fetch_at ASC) WHERE status = 'pending';
CREATE INDEX idx_frontier_host ON url_frontier (host, last_fetched_at DESC);
CREATE INDEX idx_frontier_source_status ON url_frontier (source_id, status);
CREATE INDEX idx_frontier_content_hash ON url_frontier (content_hash) WHERE content_hash IS NOT NULL;
CREATE TABLE host_state (
    host                TEXT PRIMARY KEY,
    last_fetch_at       TIMESTAMPTZ,
    min_delay_ms        INTEGER NOT NULL DEFAULT 1000,
    robots_txt          TEXT,
    robots_fetched_at   TIMESTAMPTZ,
    robots_ttl_hours    INTEGER DEFAULT 24,
    created_at          TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at          TIMESTAMPTZ NOT NULL DEFAULT NOW()
);

-- name: add_hosts
-- The hot host has just been fetched and asks for an hour of peace. $1 hosts besides it
INSERT INTO host_state (host, last_fetch_at, min_delay_ms)
SELECT 'hot.example', now(), 3600000
UNION ALL
SELECT 'www.site-' || lpad(n::text, 5, '0') || '.example', now() - interval '1 hour', 0 FROM generate_series(0, $1::int - 1) n

-- name: add_urls
-- The same URLs as in backlog.sql, due in the same order. $1 how many, $2 hosts besides the hot one
INSERT INTO url_frontier (url, url_hash, host, source_id, origin, priority, next_fetch_at)
SELECT url, encode(sha256(url::bytea), 'hex'), host, gen_random_uuid(), 'sitemap', 7,
       now() - CASE host WHEN 'hot.example' THEN interval '2 hours' ELSE interval '1 hour' END + n * interval '100 us'
FROM (
    SELECT n, host, 'https://' || host || '/news/2026/03/council-report-on-the-river-flood-' || n AS url
    FROM (
        SELECT n, CASE WHEN n % 10 < 6 THEN 'hot.example'
                       ELSE 'www.site-' || lpad(((n / 10 * 4 + n % 10 - 6) % $2::bigint)::text, 5, '0') || '.example' END
                  AS host
        FROM generate_series(1, $1::bigint) n
    ) numbered
) written

-- name: claim
SELECT f.id, f.url, f.host, f.source_id, f.etag, f.last_modified, f.fetch_count
FROM url_frontier f
LEFT JOIN host_state h ON h.host = f.host
WHERE f.status = 'pending'
  AND f.next_fetch_at <= NOW()
  AND (
    h.host IS NULL
    OR h.last_fetch_at + (h.min_delay_ms * INTERVAL '1 ms') <= NOW()
  )
ORDER BY f.priority DESC, f.next_fetch_at ASC
LIMIT 1
FOR UPDATE OF f SKIP LOCKED

-- name: mark_fetching
-- Its status life cycle: pending -> fetching. $1 id
UPDATE url_frontier SET status = 'fetching', updated_at = now() WHERE id = $1
