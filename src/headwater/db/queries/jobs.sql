-- name: lock_pages
-- Lock the page that each item leads to now, so that no fetch ends it meanwhile. An item without a page to fetch has none.
-- The row of the queue may be older than the locked page: a page that has ended is not being fetched. $1 ids of items
SELECT i.id AS reference_id, i.source_id, page.id AS page_id,
       CASE WHEN page.status = 'pending' AND q.lease_token IS NOT NULL THEN 'fetching'
            WHEN page.status = 'dead' AND page.reason IN ('deleted', 'expired') THEN 'deleted' ELSE page.status END AS status
FROM (SELECT id, source_id, url_id FROM items WHERE id = ANY ($1::text[]) ORDER BY url_id) i
CROSS JOIN LATERAL find_final_page(i.url_id) page
LEFT JOIN LATERAL (SELECT w.lease_token FROM frontier_queue w WHERE w.url_id = page.id LIMIT 1) q ON true

-- name: past_jobs
-- The newest job of each payload of items. $1 ids of items
SELECT DISTINCT ON (reference_id, payload_hash) reference_id, payload_hash, status, job_id AS id
FROM ingestion_jobs WHERE reference_id = ANY ($1::text[])
ORDER BY reference_id, payload_hash, job_id DESC

-- name: add_jobs
-- Arrays: $1 ids of items, $2 payload hashes, $3 sources, $4 ids of pages, $5 runs, $6 whether it is a successor; $7 now
INSERT INTO ingestion_jobs (reference_id, payload_hash, source_id, url_id, scrape_run_id, is_successor, created_at,
                            updated_at)
SELECT reference_id, payload_hash, source_id, url_id, scrape_run_id, is_successor, $7, $7
FROM unnest($1::text[], $2::text[], $3::int[], $4::bigint[], $5::bigint[], $6::boolean[])
    AS g (reference_id, payload_hash, source_id, url_id, scrape_run_id, is_successor)
RETURNING job_id, reference_id

-- name: settle_jobs
-- Settle jobs whose pages have ended. $1 ids
SELECT settle_jobs($1::bigint[])

-- name: ready_successors
-- Successors whose earlier fetch is over, with the locked page, and whether it is to be fetched again. $1 how many
SELECT j.job_id, page.id AS page_id,
       page.status <> 'pending' AND page.reason NOT IN ('deleted', 'expired') AS is_to_fetch
FROM (SELECT job_id, url_id FROM ingestion_jobs WHERE is_successor ORDER BY url_id LIMIT $1) j
CROSS JOIN LATERAL find_final_page(j.url_id) page
LEFT JOIN LATERAL (SELECT w.lease_token FROM frontier_queue w WHERE w.url_id = page.id LIMIT 1) q ON true
WHERE q.lease_token IS NULL

-- name: promote_successors
-- Successors become ordinary jobs. Arrays: $1 ids, $2 ids of the pages; $3 now
UPDATE ingestion_jobs j SET is_successor = false, url_id = g.page_id, updated_at = $3
FROM unnest($1::bigint[], $2::bigint[]) AS g (job_id, page_id) WHERE j.job_id = g.job_id AND j.is_successor

-- name: lock_failed_jobs
-- The failed jobs among these, with the locked page, and whether the page is dead. $1 ids
SELECT j.job_id, page.id AS page_id, page.status = 'dead' AS is_dead
FROM (SELECT job_id, url_id FROM ingestion_jobs
      WHERE job_id = ANY ($1::bigint[]) AND status = 'failed' ORDER BY url_id) j
CROSS JOIN LATERAL find_final_page(j.url_id) page

-- name: jobs_to_reopen
-- The failed jobs among these whose payload has no newer job. $1 ids
SELECT j.job_id FROM ingestion_jobs j
WHERE j.job_id = ANY ($1::bigint[]) AND j.status = 'failed'
  AND NOT EXISTS (SELECT FROM ingestion_jobs o WHERE o.reference_id = j.reference_id AND o.payload_hash = j.payload_hash
                  AND (o.status IN ('queued', 'ready') OR (o.status = 'failed' AND o.job_id > j.job_id)))

-- name: reopen_jobs
-- Arrays: $1 ids, $2 ids of the pages; $3 now
UPDATE ingestion_jobs j SET status = 'queued', reason = NULL, settled_at = NULL, url_id = g.page_id, updated_at = $3
FROM unnest($1::bigint[], $2::bigint[]) AS g (job_id, page_id) WHERE j.job_id = g.job_id AND j.status = 'failed'

-- name: list_jobs
-- The newest first. NULL permits any: $1 source, $2 status, $3 run, $4 reason, $5 item, $6 one id, $7 whether the page is being
-- fetched, $8 before this id; $9 limit, $10 offset
WITH page AS MATERIALIZED (
    SELECT j.*, q.lease_token
    FROM ingestion_jobs j
    LEFT JOIN LATERAL (
        SELECT w.lease_token FROM frontier_queue w WHERE w.url_id = j.url_id AND j.status = 'queued' LIMIT 1
    ) q ON true
    WHERE ($1::int IS NULL OR j.source_id = $1) AND ($2::text IS NULL OR j.status = $2)
      AND ($3::bigint IS NULL OR j.scrape_run_id = $3) AND ($4::text IS NULL OR j.reason = $4)
      AND ($5::text IS NULL OR j.reference_id = $5) AND ($6::bigint IS NULL OR j.job_id = $6)
      AND ($7::boolean IS NULL OR (q.lease_token IS NOT NULL) = $7) AND ($8::bigint IS NULL OR j.job_id < $8)
      AND ($7 IS DISTINCT FROM true OR j.url_id = ANY (ARRAY(SELECT url_id FROM frontier_queue WHERE lease_token IS NOT NULL)))
    ORDER BY j.job_id DESC LIMIT $9 OFFSET $10
)
SELECT j.job_id, j.reference_id, j.payload_hash, s.name AS source, i.title, u.url, j.scrape_run_id,
       CASE WHEN j.lease_token IS NOT NULL THEN 'running' ELSE j.status END AS status,
       j.reason, CASE WHEN j.status = 'ready' THEN d.id END AS document_id, j.created_at, j.updated_at, j.settled_at
FROM page j
JOIN sources s ON s.id = j.source_id
JOIN items i ON i.id = j.reference_id
JOIN url_frontier u ON u.id = j.url_id
LEFT JOIN documents d ON d.url_id = j.url_id
ORDER BY j.job_id DESC

-- name: count_jobs
-- NULL permits any: $1 source, $2 status, $3 reason
SELECT coalesce(sum(jobs), 0)::bigint FROM job_counts
WHERE ($1::int IS NULL OR source_id = $1) AND ($2::text IS NULL OR status = $2) AND ($3::text IS NULL OR reason = $3)

-- name: count_fetching_jobs
-- The queued jobs whose page is being fetched. $1 source or NULL for any
SELECT count(*) FROM frontier_queue q JOIN ingestion_jobs j ON j.url_id = q.url_id AND j.status = 'queued'
WHERE q.lease_token IS NOT NULL AND ($1::int IS NULL OR j.source_id = $1)

-- name: count_jobs_of
-- The jobs of a run or of an item, or those with an id. $1 to $7 as in list_jobs
SELECT count(*)
FROM ingestion_jobs j
LEFT JOIN LATERAL (
    SELECT w.lease_token FROM frontier_queue w WHERE w.url_id = j.url_id AND j.status = 'queued' LIMIT 1
) q ON true
WHERE ($1::int IS NULL OR j.source_id = $1)
  AND ($2::text IS NULL OR j.status = $2) AND ($3::bigint IS NULL OR j.scrape_run_id = $3)
  AND ($4::text IS NULL OR j.reason = $4) AND ($5::text IS NULL OR j.reference_id = $5)
  AND ($6::bigint IS NULL OR j.job_id = $6) AND ($7::boolean IS NULL OR (q.lease_token IS NOT NULL) = $7)

-- name: merge_job_counts
-- Merge the counts of sources with several rows of a status and a reason.
WITH mine AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtext('headwater.job_counts')) AS locked
), folded AS (
    DELETE FROM job_counts
    WHERE (SELECT locked FROM mine)
      AND source_id IN (SELECT source_id FROM job_counts GROUP BY source_id, status, reason HAVING count(*) > 1)
    RETURNING *
)
INSERT INTO job_counts (source_id, status, reason, jobs)
SELECT source_id, status, reason, sum(jobs) FROM folded GROUP BY 1, 2, 3 HAVING sum(jobs) <> 0

-- name: count_unsettled_jobs
-- Jobs whose pages are being fetched count as queued. $1 how many to count of each at most
SELECT (SELECT count(*) FROM (SELECT FROM ingestion_jobs WHERE status = 'queued' LIMIT $1) q) AS queued,
       (SELECT count(*) FROM (SELECT FROM ingestion_jobs WHERE status = 'failed' LIMIT $1) f) AS failed

-- name: list_failed_ids
-- Ids of failed jobs, the oldest first. NULL permits any: $1 source's name, $2 reason, $3 run; $4 after this id, $5 limit
SELECT job_id FROM ingestion_jobs
WHERE status = 'failed' AND ($1::text IS NULL OR source_id = (SELECT id FROM sources WHERE name = $1))
  AND ($2::text IS NULL OR reason = $2) AND ($3::bigint IS NULL OR scrape_run_id = $3) AND job_id > $4
ORDER BY job_id LIMIT $5
