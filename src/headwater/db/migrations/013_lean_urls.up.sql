-- By host and URL hash where the source's kind has no place of its own for it: the row need not say so.
ALTER TABLE url_frontier ALTER COLUMN subpath DROP NOT NULL;

-- To look a source up for every URL is a tenth of a submit. Only a source that has brought nothing is ever removed, and
-- who submits for one keeps its row (keep_source, or the row of its poll) from being so.
ALTER TABLE url_frontier DROP CONSTRAINT url_frontier_source_id_fkey;
