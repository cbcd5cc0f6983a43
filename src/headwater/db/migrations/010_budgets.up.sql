-- What a key may ask of an API host in a rolling hour, and what was asked of it lately.
CREATE TABLE budgets (
    key_fingerprint  text NOT NULL CHECK (key_fingerprint ~ '^[0-9a-f]{16}$'),  -- never the key itself
    host             text NOT NULL,
    hourly_limit     int NOT NULL CHECK (hourly_limit > 0),
    limit_seen_at    timestamptz,   -- when the host last told another limit; NULL: never, the default holds
    empty_until      timestamptz,   -- the host has said that nothing is left
    PRIMARY KEY (key_fingerprint, host)
);

-- Requests are counted by buckets of a few seconds; those too old to count are deleted as others come.
CREATE TABLE budget_spending (
    key_fingerprint  text NOT NULL,
    host             text NOT NULL,
    bucket           timestamptz NOT NULL,
    child            text NOT NULL,
    requests         int NOT NULL CHECK (requests > 0),
    PRIMARY KEY (key_fingerprint, host, bucket, child),
    FOREIGN KEY (key_fingerprint, host) REFERENCES budgets ON DELETE CASCADE
);
