DROP TABLE sightings;
DROP INDEX url_frontier_place;
UPDATE sources SET kind = 'feed' WHERE kind = 'site';
DROP INDEX sources_feed;
DELETE FROM sources s WHERE removed_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM items WHERE source_id = s.id)
    AND NOT EXISTS (SELECT 1 FROM url_frontier WHERE source_id = s.id);
UPDATE sources SET settings = settings - 'feed_url' WHERE removed_at IS NOT NULL;
CREATE UNIQUE INDEX sources_feed ON sources ((settings ->> 'feed_url')) WHERE settings ? 'feed_url';
ALTER TABLE sources DROP COLUMN removed_at;
DELETE FROM poll_state WHERE pass <> 'main';
INSERT INTO poll_state (source_id) SELECT id FROM sources ON CONFLICT DO NOTHING;
ALTER TABLE poll_state
    ADD COLUMN next_request_at timestamptz,
    DROP CONSTRAINT poll_state_pkey,
    DROP COLUMN pass,
    DROP COLUMN next_poll_why,
    DROP COLUMN rhythm,
    DROP COLUMN last_new_at,
    DROP COLUMN backfill_since,
    ADD PRIMARY KEY (source_id);
UPDATE poll_state f SET next_request_at = s.next_request_at FROM sources s WHERE s.id = f.source_id;
ALTER TABLE sources DROP COLUMN next_request_at;
