-- name: add_sources
-- $1 sources, $2 now, $3 hosts
INSERT INTO sources (name, kind, settings, created_at)
SELECT 'site-' || lpad(n::text, 4, '0'), 'site',
       jsonb_build_object('site_url', 'https://www.site-' || n || '.example/', 'feed_url', 'https://www.site-' || n || '.example/feed',
                          'category', 'sector-' || n % 12 || '/part-' || n % 60),
       $2::timestamptz - interval '401 days'
FROM generate_series(1, $1::int) n

-- name: add_polls
-- One source of twenty fails, and one of thirty has been silent for long. $1 now
INSERT INTO poll_state (source_id, method, next_poll_at, next_poll_why, last_polled_at, last_success_at, last_new_at, last_reason,
                        last_error, last_item_count, consecutive_errors, failing_since)
SELECT s.id, m.method, $1::timestamptz + interval '6 hours' + s.id * interval '10 seconds', 'It is read every 15 minutes.',
       $1 - s.id % 600 * interval '1 second',
       CASE WHEN s.id % 20 = 0 THEN $1 - interval '2 days' ELSE $1 - s.id % 600 * interval '1 second' END,
       CASE WHEN s.id % 30 = 1 THEN $1 - interval '90 days' ELSE $1 - s.id % 50 * interval '1 hour' END,
       CASE WHEN s.id % 20 = 0 THEN 'http_5xx' ELSE 'polled' END,
       CASE WHEN s.id % 20 = 0 THEN 'https://www.site-' || s.id || '.example/feed: the server answered 503.' END,
       40, CASE WHEN s.id % 20 = 0 THEN 12 ELSE 0 END, CASE WHEN s.id % 20 = 0 THEN $1 - interval '2 days' END
FROM sources s CROSS JOIN (VALUES ('main'), ('sitemap')) m (method)

-- name: add_hosts
-- $1 hosts, $2 now
INSERT INTO host_state (host, not_before, ready_at, robots_fetched_at, robots_txt, blocked_reason, closed_until)
SELECT 'www.site-' || n || '.example', $2::timestamptz + CASE WHEN n % 50 = 0 THEN interval '6 hours' ELSE interval '0' END,
       $2::timestamptz + interval '1 day', $2, repeat('Disallow: /private/' || n || E'\n', 20),
       CASE WHEN n % 50 = 0 THEN 'rate_limited' END, CASE WHEN n % 200 = 1 THEN timestamptz '9999-01-01' END
FROM generate_series(1, $1::int) n

-- name: make_words
-- Sentences of words whose frequencies fall as in a real language: the n-th word has a share of about 1/n.
CREATE UNLOGGED TABLE bench_sentences AS
SELECT n AS number, string_agg(word, ' ') AS body, to_tsvector('english', string_agg(word, ' ')) AS words
FROM (
    SELECT n, 'w' || to_char(floor(power(20000, (hashint8extended(n * 31 + k, 7) & 1048575) / 1048576.0)), 'FM99999') AS word
    FROM generate_series(0, 39999) n, generate_series(1, 14) k
) drawn GROUP BY n;
ALTER TABLE bench_sentences ADD PRIMARY KEY (number);
ANALYZE bench_sentences;

-- name: make_pages
-- The pages from $1 to $2 of $3 documents among $4 URLs of $5 sources on $6 hosts. The first URLs have documents, the next fifth of
-- that number has items without a document. Each third URL is of one of ten large sources. The last twentieth of the documents
-- is of the day of now ($7), whose first moment is $8; the other documents are of the 400 days before.
CREATE UNLOGGED TABLE bench_pages AS
SELECT n, source_id, 'www.site-' || (source_id + n % greatest($6::int / $5::int, 1) * $5) || '.example' AS host,
       'https://www.site-' || (source_id + n % greatest($6 / $5, 1) * $5) || '.example/news/2026/council-report-on-the-river-' || n AS url,
       CASE WHEN place > 0.95 THEN $8::timestamptz + (place - 0.95) * 20 * ($7::timestamptz - $8)
            ELSE $8::timestamptz - (0.95 - place) / 0.95 * interval '400 days' END AS moment
FROM (
    SELECT n, CASE WHEN n % 3 = 0 THEN 1 + n / 3 % least(10, $5) ELSE 1 + n * 7919 % $5 END AS source_id,
           (CASE WHEN n <= $3::bigint THEN n ELSE (n * 37 % $3) + 1 END)::float8 / $3 AS place
    FROM generate_series($1::bigint, $2::bigint) n WHERE n <= $4::bigint
) numbered

-- name: add_urls
-- $1 documents, $2 now
INSERT INTO url_frontier (id, url, url_hash, host, source_id, origin, status, reason, discovered_at, last_fetched_at, fetch_count)
OVERRIDING SYSTEM VALUE
SELECT n, url, sha256(url::bytea), host, source_id, CASE WHEN n % 4 = 0 THEN 'sitemap' ELSE 'feed' END,
       CASE WHEN n <= $1 THEN 'fetched' WHEN n % 10 = 0 THEN 'pending' WHEN n % 10 < 4 THEN 'fetched' ELSE 'dead' END,
       CASE WHEN n <= $1 THEN 'stored' WHEN n % 10 = 0 THEN NULL WHEN n % 10 < 4 THEN 'same_page' WHEN n % 200000 = 9 THEN 'login_wall'
            WHEN n % 10 < 7 THEN 'not_found' WHEN n % 10 = 7 THEN 'robots_blocked' WHEN n % 10 = 8 THEN 'max_retries' ELSE 'gone' END,
       moment, CASE WHEN n % 10 > 0 OR n <= $1 THEN moment END, (n % 10 > 0 OR n <= $1)::int
FROM bench_pages

-- name: add_queue
-- $1 documents, $2 now
INSERT INTO frontier_queue (url_id, politeness_key, priority, due_at, attempts)
SELECT n, host, 6, $2::timestamptz + interval '1 day' + n % 100000 * interval '1 second', n % 3
FROM bench_pages WHERE n > $1 AND n % 10 = 0

-- name: add_fetches
-- The attempts of the last two weeks. $1 documents, $2 now, $3 urls
INSERT INTO fetch_log (url_id, holder, attempt, finished_at, sent_at, http_status, body_bytes, elapsed_ms, reason, detail)
SELECT n, 'bench', 1, $2::timestamptz - n % 1209600 * interval '1 second', $2, 200, 40000, 120,
       CASE WHEN n <= $1 THEN 'stored' WHEN n % 10 = 0 THEN 'timeout' ELSE 'not_found' END, NULL
FROM bench_pages WHERE n % 5 = 0

-- name: add_items
-- $1 documents
INSERT INTO items (id, source_id, url, url_id, title, published_at, published_is_sighting, updated_at, tags, first_seen_at, last_seen_at)
SELECT encode(sha256(convert_to(s.name || ':' || p.url, 'UTF8')), 'hex'), p.source_id, p.url, CASE WHEN n % 100 < 99 THEN n END,
       initcap(left(t.body, 60)) || ' ' || n, moment, n % 6 = 0, CASE WHEN n % 8 = 0 THEN moment END,
       jsonb_build_object('topic', jsonb_build_array('topic-' || n % 40, 'topic-' || n % 300)), moment, moment
FROM bench_pages p JOIN sources s ON s.id = p.source_id JOIN bench_sentences t ON t.number = p.n % 40000
WHERE p.n <= $1 * 6 / 5

-- name: add_days
-- $1 documents
INSERT INTO daily_index (source_id, day, item_id, url_id, topics, bucket, published_at, updated_at, rule)
SELECT p.source_id, (moment AT TIME ZONE 'UTC')::date, encode(sha256(convert_to(s.name || ':' || p.url, 'UTF8')), 'hex'),
       CASE WHEN n % 100 < 99 THEN n END, ARRAY['topic-' || n % 40, 'topic-' || n % 300], CASE WHEN p.n % 8 = 0 THEN 'LATEST' ELSE 'NEW' END,
       CASE WHEN p.n % 8 = 0 THEN moment - interval '9 days' ELSE moment END, CASE WHEN p.n % 8 = 0 THEN moment END, NULL
FROM bench_pages p JOIN sources s ON s.id = p.source_id WHERE p.n <= $1 * 6 / 5

-- name: add_texts
-- Five sentences each; one text of 5,000 is long. $1 documents
INSERT INTO texts (content_hash, body, first_seen_at)
SELECT sha256(p.url::bytea),
       a.body || '. ' || b.body || E'.\n\n' || c.body || '. ' || d.body || E'.\n\n' || CASE WHEN p.n % 5000 = 7 THEN
           repeat(a.body || E'.\n\n', 3000) ELSE '' END || p.n || '.', p.moment
FROM bench_pages p
JOIN bench_sentences a ON a.number = p.n % 40000 JOIN bench_sentences b ON b.number = p.n * 7 % 40000
JOIN bench_sentences c ON c.number = p.n * 77 % 40000 JOIN bench_sentences d ON d.number = p.n / 3 % 40000
WHERE p.n <= $1

-- name: add_documents
-- $1 documents
INSERT INTO documents (id, url_id, source_id, revision, content_hash, title, published_at, language, provenance, confidence, normalizer,
                       raw_path, raw_hash, raw_bytes, fetched_at)
OVERRIDING SYSTEM VALUE
SELECT p.n, p.n, source_id, 1 + (p.n % 10 = 0)::int, sha256(url::bytea), initcap(left(t.body, 60)) || ' ' || p.n, moment, 'en',
       '{"title": "json-ld", "published_at": "feed", "text": "main_text"}', '{"title": 0.9, "published_at": 1}', 'html_v1',
       'site/' || p.n, sha256(url::bytea), 40000, moment
FROM bench_pages p JOIN bench_sentences t ON t.number = p.n % 40000 WHERE p.n <= $1

-- name: add_revisions
-- $1 documents
INSERT INTO document_revisions (document_id, revision, content_hash, title, raw_hash, fetched_at, replaced_at)
SELECT n, 1, sha256((url || 'x')::bytea), 'Before', sha256(url::bytea), moment, moment
FROM bench_pages WHERE n <= $1 AND n % 10 = 0

-- name: add_old_texts
-- $1 documents
INSERT INTO texts (content_hash, body, first_seen_at)
SELECT sha256((url || 'x')::bytea), a.body || '. ' || p.n || '.', p.moment
FROM bench_pages p JOIN bench_sentences a ON a.number = p.n % 40000 WHERE p.n <= $1 AND p.n % 10 = 0

-- name: add_search
-- $1 documents
INSERT INTO document_search (document_id, dated_at, marks, titles, words)
SELECT p.n, moment, make_search_marks(p.n, source_id::int, 'en', host), titles.words,
       titles.words || b.words || c.words || d.words
FROM bench_pages p
JOIN bench_sentences a ON a.number = p.n % 40000 JOIN bench_sentences b ON b.number = p.n * 7 % 40000
JOIN bench_sentences c ON c.number = p.n * 77 % 40000 JOIN bench_sentences d ON d.number = p.n / 3 % 40000
CROSS JOIN LATERAL (SELECT '''#english'''::tsvector || setweight(a.words, 'A') AS words) titles
WHERE p.n <= $1

-- name: add_changes
-- $1 documents
INSERT INTO changes (position, url_id, document_id, revision, changed_at, advances_time)
SELECT (extract(epoch FROM moment) * 1000000)::bigint + n % 1000, n, n, 1 + (n % 10 = 0)::int, moment, true
FROM bench_pages WHERE n <= $1 ORDER BY n

-- name: add_jobs
-- Each third document was handed off. $1 documents
INSERT INTO ingestion_jobs (job_id, reference_id, payload_hash, source_id, url_id, scrape_run_id, status, reason, created_at, updated_at,
                            settled_at)
OVERRIDING SYSTEM VALUE
SELECT p.n, encode(sha256(convert_to(s.name || ':' || p.url, 'UTF8')), 'hex'), encode(sha256(url::bytea), 'hex'), source_id, p.n, NULL,
       CASE p.n % 30 WHEN 3 THEN 'failed' WHEN 6 THEN 'queued' ELSE 'ready' END, CASE p.n % 30 WHEN 3 THEN 'not_found' END, moment, moment,
       CASE WHEN p.n % 30 <> 6 THEN moment END
FROM bench_pages p JOIN sources s ON s.id = p.source_id WHERE p.n <= $1 AND p.n % 3 = 0

-- name: add_handoffs
-- $1 documents
INSERT INTO ingestion_handoffs (handoff_id, reference_id, payload_hash, source_id, scrape_run_id, status, reason_code, job_id, created_at,
                                updated_at)
OVERRIDING SYSTEM VALUE
SELECT p.n, encode(sha256(convert_to(s.name || ':' || p.url, 'UTF8')), 'hex'), encode(sha256(url::bytea), 'hex'), source_id,
       1 + p.n % 100000, CASE p.n % 30 WHEN 9 THEN 'failed' ELSE 'completed' END,
       CASE p.n % 30 WHEN 9 THEN 'retry_exhausted' ELSE 'ingestion_job_queued' END, p.n, moment, moment
FROM bench_pages p JOIN sources s ON s.id = p.source_id WHERE p.n <= $1 AND p.n % 3 = 0

-- name: add_stories
-- Each fifth document is of the story of the document before. $1 documents
INSERT INTO story_documents (document_id, story_id, links, signature)
SELECT n, n - (n % 5 = 1 AND n > 1)::int, '{}', sha256(url::bytea) FROM bench_pages WHERE n <= $1

-- name: drop_pages
DROP TABLE bench_pages

-- name: add_runs
-- $1 sources, $2 now
INSERT INTO runs (source_id, trigger, day, status, reason, item_count, page_count, fetched_count, total_count, new_count, latest_count,
                  started_at, finished_at)
SELECT 1 + n % $1::int, 'manual', ($2::timestamptz - n / 2000 * interval '1 day')::date, CASE WHEN n % 40 = 0 THEN 'failed' ELSE 'succeeded' END,
       CASE WHEN n % 40 = 0 THEN 'timeout' ELSE 'polled' END, 40, 1, 40, 40, 30, 10, $2 - (100000 - n) * interval '5 minutes',
       $2 - (100000 - n) * interval '5 minutes' + interval '8 seconds'
FROM generate_series(0, 99999) n

-- name: add_days_read
-- $1 sources, $2 now
INSERT INTO days_read (source_id, day, read_at)
SELECT 1 + n % $1::int, ($2::timestamptz - n / 2000 * interval '1 day')::date, $2::timestamptz FROM generate_series(0, 99999) n
ON CONFLICT DO NOTHING

-- name: add_poll_log
-- A day of polls of both methods. $1 sources, $2 now
INSERT INTO poll_log (source_id, method, polled_at, reason, error, items, new_items, new_urls)
SELECT s, CASE n % 2 WHEN 0 THEN 'main' ELSE 'sitemap' END, $2::timestamptz - n * interval '15 minutes', 'polled',
       CASE WHEN s % 20 = 0 THEN 'The server answered 503.' END, 40, n % 3, n % 3
FROM generate_series(1, $1::int) s, generate_series(1, 96) n

-- name: add_source_days
-- $1 sources, $2 now
INSERT INTO source_days (source_id, day, items, polls, failed_polls, seen_lags, fetched_lags, searchable_lags, total_lags, measured_at)
SELECT s, ($2::timestamptz AT TIME ZONE 'UTC')::date - n, n % 40, 192, 0, '{300, 900}', '{20, 90}', '{1, 3}', '{320, 1000}', $2
FROM generate_series(1, $1::int) s, generate_series(0, 59) n

-- name: add_history
-- $1 now
INSERT INTO history (step, at, metric, value)
SELECT 'minute', date_trunc('minute', $1::timestamptz) - n * interval '1 minute', m, n % 60
FROM generate_series(1, 1440) n, unnest(ARRAY['fetched', 'failed_transient', 'failed_permanent', 'pages', 'bytes', 'documents', 'handoffs', 'pending', 'lag_seconds']) m
ON CONFLICT DO NOTHING

-- name: add_webhook
-- $1 now
INSERT INTO webhooks (name, url, secret, events, enabled, position, created_at)
SELECT 'desk', 'https://desk.example/hook', decode(repeat('ab', 32), 'hex'), ARRAY['document.ready'], false, max(position), $1 FROM changes

-- name: add_deliveries
-- The deliveries of the newest 50,000 changes. $1 now
INSERT INTO deliveries (webhook_id, position, url_id, event, status, reason, due_at, ended_at)
SELECT 1, position, url_id, 'document.ready', CASE WHEN id % 25 = 0 THEN 'parked' ELSE 'delivered' END,
       CASE WHEN id % 25 = 0 THEN 'http_5xx' ELSE 'delivered' END, $1, $1
FROM changes ORDER BY position DESC LIMIT 50000

-- name: add_counts
-- The sums that triggers keep.
INSERT INTO frontier_counts (status, reason, urls) SELECT status, reason, count(*) FROM url_frontier GROUP BY 1, 2;
INSERT INTO source_urls (source_id, status, urls) SELECT source_id, status, count(*) FROM url_frontier GROUP BY 1, 2;
INSERT INTO ended_urls (url_id, source_id, status, reason) SELECT id, source_id, status, reason FROM url_frontier WHERE reason <> 'stored' ORDER BY id;
INSERT INTO job_counts (source_id, status, reason, jobs) SELECT source_id, status, reason, count(*) FROM ingestion_jobs GROUP BY 1, 2, 3;
INSERT INTO handoff_counts (source_id, status, handoffs) SELECT source_id, status, count(*) FROM ingestion_handoffs GROUP BY 1, 2;
INSERT INTO source_sizes (source_id, items) SELECT source_id, count(*) FROM items GROUP BY 1;
INSERT INTO source_sizes (source_id, documents, raw_bytes, text_bytes)
SELECT source_id, count(*), sum(raw_bytes), sum(octet_length(body)) FROM documents JOIN texts USING (content_hash) GROUP BY 1;
INSERT INTO search_configurations (name) VALUES ('english') ON CONFLICT DO NOTHING;
UPDATE story_state SET position = (SELECT max(position) FROM changes), version = 1;
UPDATE change_state SET last_position = (SELECT max(position) FROM changes);
SELECT setval(pg_get_serial_sequence('url_frontier', 'id'), max(id)) FROM url_frontier;
SELECT setval(pg_get_serial_sequence('documents', 'id'), max(id)) FROM documents;
SELECT setval(pg_get_serial_sequence('ingestion_jobs', 'job_id'), max(job_id)) FROM ingestion_jobs;
SELECT setval(pg_get_serial_sequence('ingestion_handoffs', 'handoff_id'), max(handoff_id)) FROM ingestion_handoffs;
DROP TABLE bench_sentences;

-- name: indexes
-- Indexes slow down a bulk load. They are dropped before it and made again after it.
SELECT i.indrelid::regclass::text AS table_name, i.indexrelid::regclass::text AS index_name,
       pg_get_indexdef(i.indexrelid) AS index_definition,
       c.conname AS constraint_name, pg_get_constraintdef(c.oid) AS constraint_definition
FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.contype IN ('u', 'p')
WHERE i.indrelid = ANY (ARRAY['url_frontier', 'frontier_queue', 'fetch_log', 'items', 'daily_index', 'documents', 'document_search', 'changes',
                              'ingestion_jobs', 'ingestion_handoffs', 'document_revisions', 'deliveries', 'story_documents']::regclass[])
  AND NOT i.indisprimary AND (c.conname IS NULL OR c.conrelid = 'url_frontier'::regclass)

-- name: sizes
SELECT pg_database_size(current_database()) AS bytes,
       (SELECT count(*) FROM documents) AS documents, (SELECT count(*) FROM url_frontier) AS urls, (SELECT count(*) FROM sources) AS sources
