-- By host and URL hash where the source's kind has no place of its own for it: the row need not say so.
ALTER TABLE url_frontier ALTER COLUMN subpath DROP NOT NULL;

-- Nothing ever deletes a source, and to look it up for every URL is a tenth of a submit; submits for one source would
-- also share a lock on its row.
ALTER TABLE url_frontier DROP CONSTRAINT url_frontier_source_id_fkey;
