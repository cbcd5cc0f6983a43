-- A source may be read in several ways, each in its own rhythm: its list (a feed, an API), its sitemaps, its pages.
ALTER TABLE poll_state
    ADD COLUMN pass            text NOT NULL DEFAULT 'main' CHECK (pass IN ('main', 'sitemap', 'spider')),
    ADD COLUMN next_poll_why   text,            -- why it is read next when it is, in words
    ADD COLUMN rhythm          jsonb,           -- what its intervals are adapted by
    ADD COLUMN last_new_at     timestamptz,     -- when it last brought something new
    ADD COLUMN backfill_since  timestamptz,     -- the next reading takes what is older too, back to then
    DROP CONSTRAINT poll_state_pkey,
    ADD PRIMARY KEY (source_id, pass);

-- When the next request of a source may be sent, in whatever process and for whatever pass.
ALTER TABLE sources ADD COLUMN next_request_at timestamptz;
UPDATE sources s SET next_request_at = f.next_request_at FROM poll_state f WHERE f.source_id = s.id;
ALTER TABLE poll_state DROP COLUMN next_request_at;

-- A source that was removed keeps what it has brought, and its name; its feed may be read by another.
ALTER TABLE sources ADD COLUMN removed_at timestamptz;
DROP INDEX sources_feed;
CREATE UNIQUE INDEX sources_feed ON sources ((settings ->> 'feed_url')) WHERE settings ? 'feed_url' AND removed_at IS NULL;

-- A feed is one of the ways to read a site.
UPDATE sources SET kind = 'site' WHERE kind = 'feed';
INSERT INTO poll_state (source_id, pass) SELECT id, 'sitemap' FROM sources WHERE kind = 'site';
DELETE FROM poll_state f USING sources s WHERE s.id = f.source_id AND s.kind = 'manual';

-- Two pages of a source must not have one place for their raw bytes.
CREATE INDEX url_frontier_place ON url_frontier (source_id, subpath) WHERE subpath IS NOT NULL;

-- Who else has seen a URL, besides the source that brought it.
CREATE TABLE sightings (
    url_id         bigint NOT NULL REFERENCES url_frontier ON DELETE CASCADE,
    source_id      int NOT NULL REFERENCES sources ON DELETE CASCADE,
    origin         text NOT NULL CHECK (origin IN ('feed', 'sitemap', 'spider', 'manual', 'category')),
    first_seen_at  timestamptz NOT NULL,
    PRIMARY KEY (url_id, source_id)
);
CREATE INDEX sightings_source ON sightings (source_id);
