-- By host and URL hash where the source's kind has no place of its own for it: the row need not say so.
ALTER TABLE url_frontier ALTER COLUMN subpath DROP NOT NULL;
