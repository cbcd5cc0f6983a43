-- A run is one reading of a source that somebody answers for: at a slot of its schedule, or asked for by hand. One of a
-- source of dated days reads a day. A slot whose run has failed may be run again, as another run.
ALTER TABLE runs
    DROP CONSTRAINT runs_source_id_slot_key,
    ALTER COLUMN slot DROP NOT NULL,
    ADD COLUMN trigger        text NOT NULL DEFAULT 'schedule' CHECK (trigger IN ('schedule', 'manual', 'sync')),
    ADD COLUMN day            date,     -- in the source's time zone; NULL: it reads no day
    ADD COLUMN error          text,     -- the reason in the words of whoever met it
    ADD COLUMN page_count     int CHECK (page_count >= 0),
    ADD COLUMN fetched_count  int CHECK (fetched_count >= 0),
    ADD COLUMN total_count    int CHECK (total_count >= 0),     -- as many as there are, as the source says
    ADD COLUMN new_count      int CHECK (new_count >= 0),
    ADD COLUMN latest_count   int CHECK (latest_count >= 0);
ALTER TABLE runs ALTER COLUMN trigger DROP DEFAULT;
UPDATE runs
SET status = 'failed', reason = 'shutdown', finished_at = started_at,
    lease_holder = NULL, lease_token = NULL, lease_until = NULL
WHERE status = 'running';
ALTER TABLE runs
    DROP CONSTRAINT an_end_holds_no_lease,
    ADD CONSTRAINT who_runs_holds_the_lease CHECK ((status = 'running') = (lease_token IS NOT NULL)),
    ADD CONSTRAINT a_schedule_has_slots CHECK ((trigger = 'schedule') = (slot IS NOT NULL));
CREATE UNIQUE INDEX runs_slot_done ON runs (source_id, slot) WHERE slot IS NOT NULL AND status = 'succeeded';
CREATE UNIQUE INDEX runs_under_way ON runs (source_id) WHERE status = 'running';
CREATE INDEX runs_slot ON runs (source_id, slot) WHERE slot IS NOT NULL;
CREATE INDEX runs_day ON runs (source_id, day, id) WHERE day IS NOT NULL;
CREATE INDEX runs_of_source ON runs (source_id, id);

-- Which days of a source of dated days were read whole, and when: a day that is read long after its end lacks what has
-- changed again since.
CREATE TABLE days_read (
    source_id  int NOT NULL REFERENCES sources ON DELETE CASCADE,
    day        date NOT NULL,
    read_at    timestamptz NOT NULL,
    PRIMARY KEY (source_id, day)
);

-- An item may be known to be older than its update, though nobody says how old; and what decided its dates is kept.
ALTER TABLE item_observations
    ALTER COLUMN published_at DROP NOT NULL,
    ADD COLUMN rule        text,
    ADD COLUMN is_certain  boolean NOT NULL DEFAULT true;   -- the dates were told, not inferred

-- The dates that put an item into a day, as they were observed then.
ALTER TABLE daily_index
    ADD COLUMN published_at  timestamptz,
    ADD COLUMN updated_at    timestamptz,
    ADD COLUMN rule          text;
UPDATE daily_index x SET published_at = i.published_at, updated_at = i.updated_at FROM items i WHERE i.id = x.item_id;
