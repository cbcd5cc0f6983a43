UPDATE url_frontier
SET subpath = host || '/' || left(encode(url_hash, 'hex'), 2) || '/' || encode(url_hash, 'hex') WHERE subpath IS NULL;
ALTER TABLE url_frontier ALTER COLUMN subpath SET NOT NULL;

ALTER TABLE url_frontier ADD CONSTRAINT url_frontier_source_id_fkey FOREIGN KEY (source_id) REFERENCES sources;
