-- name: index_documents
-- Derive the rows that search reads. Arrays of the same length: $1 document ids, $2 text search configurations, and the words,
-- cut by core/search_words, of $3 titles, $4 bylines, $5 texts. `simple` replaces a configuration that this server does not have.
-- Rows that are right stay as they are.
-- Returns the number of rows that were made or changed.
WITH named AS (
    SELECT g.*, coalesce(c.cfgname::text, 'simple') AS configuration
    FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[]) AS g (id, wanted, title, byline, body)
    LEFT JOIN pg_ts_config c ON c.cfgname = wanted AND c.cfgnamespace = 'pg_catalog'::regnamespace
), given AS (
    SELECT id, ('''#' || configuration || '''')::tsvector
               || setweight(to_tsvector(configuration::regconfig, title), 'A')
               || setweight(to_tsvector(configuration::regconfig, byline), 'B') AS titles,
           to_tsvector(configuration::regconfig, body) AS words
    FROM named
), in_use AS (
    INSERT INTO search_configurations (name) SELECT DISTINCT configuration FROM named
    WHERE NOT EXISTS (SELECT FROM search_configurations WHERE name = configuration) ON CONFLICT DO NOTHING
), saved AS (
    INSERT INTO document_search AS s (document_id, dated_at, marks, titles, words)
    SELECT d.id, coalesce(d.published_at, (SELECT min(i.published_at) FROM items i
            WHERE i.url_id = d.url_id AND NOT i.published_is_sighting), t.first_seen_at),
           make_search_marks(d.id, d.source_id, d.language, u.host), given.titles, given.titles || given.words
    FROM given JOIN documents d USING (id) JOIN url_frontier u ON u.id = d.url_id JOIN texts t USING (content_hash)
    ORDER BY d.id
    ON CONFLICT (document_id) DO UPDATE
        SET dated_at = excluded.dated_at, marks = excluded.marks, titles = excluded.titles, words = excluded.words
        WHERE (s.dated_at, s.marks, s.titles, s.words)
              IS DISTINCT FROM (excluded.dated_at, excluded.marks, excluded.titles, excluded.words)
    RETURNING 1
)
SELECT count(*) FROM saved

-- name: documents_to_index
-- Documents in pages, by id, with all that search reads of them. $1 after this id, $2 how many characters of a text,
-- $3 how many documents
SELECT d.id, d.title, d.byline, d.language, left(t.body, $2) AS body
FROM documents d JOIN texts t USING (content_hash) WHERE d.id > $1 ORDER BY d.id LIMIT $3

-- name: read_search_version
-- The version of the function that cut the words.
SELECT version FROM search_state

-- name: save_search_version
-- $1 version
UPDATE search_state SET version = $1

-- name: plan_for_search
-- For one transaction: plan for the values of a search, and read tables through indexes only. The planner does not know
-- that a search stops early.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'off', true),
       set_config('max_parallel_workers_per_gather', '0', true), set_config('jit', 'off', true)

-- name: prepare_search
-- The search in the words of each configuration in use, and the words to highlight. $1 the search, $2 its wanted words only,
-- $3 the search in titles, all in the syntax of to_tsquery; $4 configurations, or NULL for all; $5 wanted words
SELECT c.name AS configuration, to_tsquery(c.name::regconfig, $1)::text AS wanted,
       to_tsquery(c.name::regconfig, $2)::text AS ranked, to_tsquery(c.name::regconfig, $3)::text AS titled,
       ARRAY(SELECT lexeme FROM unnest(to_tsvector(c.name::regconfig, $5))) AS lexemes,
       (SELECT coalesce(max(document_id), 0) FROM document_search) AS last_document
FROM search_configurations c WHERE $4::text[] IS NULL OR c.name = ANY ($4) ORDER BY c.name

-- name: sources_of_categories
-- The sources of some categories and those below them. $1 categories
SELECT s.id FROM sources s, unnest($1::text[]) AS c WHERE starts_with((s.settings ->> 'category') || '/', c || '/')

-- name: sources_of_names
-- $1 names
SELECT id FROM sources WHERE name = ANY ($1::text[])

-- name: search_documents
-- Best first. The work is bounded: `body` reads the newest blocks of documents first and stops at $13 matches, `titled` adds at
-- most $14 documents with the words in their titles, and only the best $15 by title and date are ranked by their texts.
-- One row has the number of matches only, if no document is on the page.
-- $1 to $12: the arguments of find_documents. $16 wanted words in titles, $17 words to rank by, $18 now,
-- $19 whether the newest are first; the hit before the page, or NULLs: $20 whether it is among the best, $21 score, $22 id;
-- $23 how many hits; the newest blocks: $24 marks, $25 first id, $26 last id; $27 the first id that they do not leave out
WITH body AS MATERIALIZED (
    SELECT document_id, dated_at, titles FROM (
        SELECT f.* FROM unnest($24::text[], $25::bigint[], $26::bigint[]) AS b (marks, low, high), LATERAL (
            SELECT s.document_id, s.dated_at, s.titles
            FROM find_documents($1::text::tsquery, $2::text::tsquery, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) s
            WHERE s.marks && string_to_array(b.marks, ',') AND s.document_id + 0 BETWEEN b.low AND b.high
        ) f
        UNION ALL
        SELECT s.document_id, s.dated_at, s.titles
        FROM find_documents($1::text::tsquery, $2::text::tsquery, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) s
        WHERE s.document_id + 0 < $27
    ) f LIMIT $13
), titled AS MATERIALIZED (
    SELECT s.document_id, s.dated_at, s.titles
    FROM find_documents($1::text::tsquery, $2::text::tsquery, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) s
    WHERE (SELECT count(*) FROM body) >= $13 AND s.titles @@ $16::text::tsquery
    LIMIT $14
), found AS (
    SELECT * FROM body
    UNION ALL SELECT * FROM titled WHERE document_id NOT IN (SELECT document_id FROM body)
), first_scores AS (
    -- A title counts more than a byline, and both more than the text. Half of the weight of news is lost in 30 days.
    SELECT document_id, CASE WHEN $19 THEN extract(epoch FROM dated_at)::float8
           ELSE ts_rank('{0, 0, 0.5, 1}', titles, $17::text::tsquery)
                + 0.25 / (1 + greatest(extract(epoch FROM $18::timestamptz - dated_at)::float8, 0) / 2592000) END AS score
    FROM found
), ordered AS (
    SELECT document_id, score, NOT $19 AND row_number() OVER (ORDER BY score DESC, document_id DESC) <= $15 AS is_best
    FROM first_scores
), scored AS MATERIALIZED (
    SELECT o.document_id, o.is_best, CASE WHEN o.is_best THEN o.score + (
               SELECT ts_rank_cd('{0.1, 0.1, 0.2, 0.4}', s.words, $17::text::tsquery, 33) FROM document_search s
               WHERE s.document_id = o.document_id) ELSE o.score END AS score
    FROM ordered o
), page AS MATERIALIZED (
    SELECT * FROM scored
    WHERE $20::bool IS NULL OR (is_best, score, document_id) < ($20, $21::float8, $22::bigint)
    ORDER BY is_best DESC, score DESC, document_id DESC LIMIT $23
)
SELECT counted.total, p.document_id AS id, p.is_best, p.score
FROM (SELECT count(*) AS total FROM body) counted LEFT JOIN page p ON true
ORDER BY p.is_best DESC, p.score DESC, p.document_id DESC

-- name: plan_for_matching
-- For one transaction, in addition: use no inverted index, which would read all documents that match.
SELECT set_config('enable_bitmapscan', 'off', true)

-- name: match_documents
-- The documents among some that match. Each is read by its id. $1 to $12: the arguments of find_documents, $13 ids
SELECT f.document_id FROM unnest($13::bigint[]) AS given (id) CROSS JOIN LATERAL (
    SELECT s.document_id
    FROM find_documents($1::text::tsquery, $2::text::tsquery, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) s
    WHERE s.document_id = given.id
) f

-- name: show_hits
-- Documents with the places of words in them. $1 ids, $2 stems and $3 first characters to highlight, $4 how many characters of
-- a text
SELECT d.id, u.url, s.name AS source, d.title, d.language, d.region, d.fetched_at,
       coalesce(d.published_at, (SELECT min(i.published_at) FROM items i
        WHERE i.url_id = d.url_id AND NOT i.published_is_sighting)) AS published_at,
       left(t.body, $4) AS text, places.*
FROM documents d JOIN url_frontier u ON u.id = d.url_id JOIN sources s ON s.id = d.source_id JOIN texts t USING (content_hash)
JOIN document_search f ON f.document_id = d.id
CROSS JOIN LATERAL (
    SELECT array_agg(position ORDER BY position) FILTER (WHERE weight = 'A') AS title_places,
           array_agg(position ORDER BY position) FILTER (WHERE weight = 'D') AS text_places,
           (SELECT coalesce(max(m), 0) FROM unnest(f.titles) w, unnest(w.positions) m) AS text_begins
    FROM unnest(f.words) AS w (lexeme, positions, weights), unnest(w.positions, w.weights) AS o (position, weight)
    WHERE w.lexeme = ANY ($2::text[]) OR w.lexeme ^@ ANY ($3::text[])
) places
WHERE d.id = ANY ($1::bigint[])

-- name: search_index_is_whole
-- NULL if there is no index.
SELECT (SELECT indisvalid AND indisready FROM pg_index WHERE indexrelid = to_regclass('document_search_words'))

-- name: try_to_lock_search_index
-- The connection keeps the lock until it closes. No process waits for the lock.
SELECT pg_try_advisory_lock(hashtext('headwater.search_index'))

-- name: drop_search_index
DROP INDEX CONCURRENTLY IF EXISTS document_search_words

-- name: make_search_index
-- The same index as in migration 001, made while documents are read and written. An interrupted index is not whole.
CREATE INDEX CONCURRENTLY document_search_words ON document_search USING gin (words, titles, marks)

-- name: remove_statement_timeout
-- For this connection.
SET statement_timeout = 0

-- name: feed_documents
-- Documents of a feed. $1 ids, $2 characters of a lead, $3 whether with the whole text
SELECT d.id, u.url, d.title, d.byline, d.language,
       coalesce(d.published_at, (SELECT min(i.published_at) FROM items i
        WHERE i.url_id = d.url_id AND NOT i.published_is_sighting)) AS published_at,
       coalesce(d.updated_at, t.first_seen_at) AS changed_at,
       left(coalesce(nullif(d.abstract, ''), t.body), $2) AS lead, CASE WHEN $3 THEN t.body END AS text
FROM documents d JOIN url_frontier u ON u.id = d.url_id JOIN texts t USING (content_hash) WHERE d.id = ANY ($1::bigint[])
