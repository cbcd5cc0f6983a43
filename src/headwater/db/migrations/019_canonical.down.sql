ALTER TABLE url_frontier DROP COLUMN moved_to;
DROP TABLE canonical_state, canonical_attempts, category_links;
