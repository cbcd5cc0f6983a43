-- Places for raw bytes are compared byte by byte, so that those below a folder stand together, whatever the database's
-- own order of letters.
DROP INDEX url_frontier_place;
CREATE INDEX url_frontier_place ON url_frontier (source_id, subpath COLLATE "C") WHERE subpath IS NOT NULL;
