ALTER TABLE sources DROP COLUMN page_delay_ms;
ALTER TABLE frontier_queue RENAME COLUMN politeness_key TO host;
ALTER TABLE host_state
    DROP COLUMN politeness_key,
    DROP COLUMN closed_until,
    DROP COLUMN last_throttled_at,
    DROP COLUMN keeps_slash;
