-- Whose turn a host waits for, what an operator has closed, and when a host last complained.
ALTER TABLE host_state
    -- NULL: the host is its own. Else the name of the row (domain:example.org, group:name) whose turn it waits for;
    -- robots.txt stays with the host.
    ADD COLUMN politeness_key  text REFERENCES host_state,
    ADD COLUMN closed_until    timestamptz,                     -- by an operator; the year 9999 until released
    ADD COLUMN last_throttled_at     timestamptz,                     -- the last 429 or 503
    ADD COLUMN keeps_slash     boolean NOT NULL DEFAULT false,  -- /a/ and /a are two pages here
    ADD CONSTRAINT a_key_is_its_own CHECK (politeness_key IS DISTINCT FROM host),
    ADD CONSTRAINT a_member_has_no_turn_of_its_own
        CHECK (politeness_key IS NULL OR (ready_at IS NULL AND lease_token IS NULL));
CREATE INDEX host_state_members ON host_state (politeness_key) WHERE politeness_key IS NOT NULL;
CREATE INDEX host_state_closed ON host_state (closed_until) WHERE closed_until IS NOT NULL;
CREATE INDEX host_state_blocked ON host_state (not_before) WHERE blocked_reason IS NOT NULL;
CREATE INDEX host_state_slash ON host_state (host) WHERE keeps_slash;

ALTER TABLE frontier_queue RENAME COLUMN host TO politeness_key;

-- The pause a source asks for between two pages of one host; NULL: it asks for none.
ALTER TABLE sources ADD COLUMN page_delay_ms int
    GENERATED ALWAYS AS (ceil(1000 / nullif((settings ->> 'rate_per_second')::float, 0))::int) STORED
    CHECK (page_delay_ms >= 0);
