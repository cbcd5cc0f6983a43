DROP INDEX url_frontier_place;
CREATE INDEX url_frontier_place ON url_frontier (source_id, subpath) WHERE subpath IS NOT NULL;
