-- The URLs that sources with a category list, as they were given, and those that other programs put into Redis beside them.
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

-- What was made of them. A row is asked by the run that is under way, or attempted, or both: tried again after 30 days.
CREATE TABLE canonical_attempts (
    uid           text PRIMARY KEY CHECK (uid ~ '^[0-9a-f]{16}$'),
    url           text,                                             -- NULL: another program attempted it
    categories    text[] NOT NULL DEFAULT '{}',
    url_id        bigint REFERENCES url_frontier,                   -- NULL: not submitted yet, or refused
    asked_at      timestamptz,
    attempted_at  timestamptz,
    code          text CHECK (code IN ('FAIL_BAD_HTML', 'FAIL_HTTP', 'FAIL_TIMEOUT', 'FAIL_PARSE', 'FAIL_EMPTY')),
    reason        text,                                             -- the same in our own words
    is_projected  boolean NOT NULL DEFAULT false,
    CONSTRAINT it_is_asked_or_attempted CHECK (num_nonnulls(asked_at, attempted_at) > 0),
    CONSTRAINT a_failure_is_an_attempt CHECK (code IS NULL OR attempted_at IS NOT NULL)
);
CREATE INDEX canonical_attempts_asked ON canonical_attempts (uid) WHERE asked_at IS NOT NULL;
CREATE INDEX canonical_attempts_articles ON canonical_attempts (url_id) WHERE url_id IS NOT NULL;
CREATE INDEX canonical_attempts_unprojected ON canonical_attempts (attempted_at, uid) WHERE NOT is_projected;

-- One run at a time; and which Redis has had everything.
CREATE TABLE canonical_state (
    is_only       boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    redis_mark    text,                                             -- of that Redis, as it ran then
    lease_holder  text,
    lease_token   uuid,
    lease_until   timestamptz,
    attempts      int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    CONSTRAINT lease_is_whole CHECK (num_nulls(lease_holder, lease_token, lease_until) IN (0, 3))
);
INSERT INTO canonical_state DEFAULT VALUES;

-- Where a page that redirects elsewhere has moved to.
ALTER TABLE url_frontier ADD COLUMN moved_to bigint REFERENCES url_frontier;
UPDATE url_frontier u SET moved_to = target.id FROM url_frontier target
WHERE u.status = 'dead' AND u.reason = 'redirect' AND target.parent_id = u.id AND target.hops > u.hops
  AND target.same_as IS NULL;
