ALTER TABLE daily_index DROP COLUMN published_at, DROP COLUMN updated_at, DROP COLUMN rule;
DELETE FROM item_observations WHERE published_at IS NULL;
ALTER TABLE item_observations ALTER COLUMN published_at SET NOT NULL, DROP COLUMN rule, DROP COLUMN is_certain;
DROP TABLE days_read;

-- Only what ran at a slot, and of each slot only its last run, was known before.
DELETE FROM runs r WHERE slot IS NULL OR id < (SELECT max(id) FROM runs o WHERE o.source_id = r.source_id AND o.slot = r.slot);
DROP INDEX runs_slot_done, runs_under_way, runs_slot, runs_day, runs_of_source;
ALTER TABLE runs
    DROP CONSTRAINT who_runs_holds_the_lease,
    DROP CONSTRAINT a_schedule_has_slots,
    ADD CONSTRAINT an_end_holds_no_lease CHECK (status = 'running' OR lease_token IS NULL),
    DROP COLUMN trigger, DROP COLUMN day, DROP COLUMN error, DROP COLUMN page_count, DROP COLUMN fetched_count,
    DROP COLUMN total_count, DROP COLUMN new_count, DROP COLUMN latest_count,
    ALTER COLUMN slot SET NOT NULL,
    ADD CONSTRAINT runs_source_id_slot_key UNIQUE (source_id, slot);
